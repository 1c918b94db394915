"""The ports that tests choose: `tests.harness.process.free_window`."""

from __future__ import annotations

import socket

import pytest

from tests.harness import process
from tests.harness.process import free_window


def listening(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen()
    return server


@pytest.fixture
def twenty(monkeypatch: pytest.MonkeyPatch) -> range:
    """Twenty ports in a row, all that there are to choose from."""
    first = free_window(20)
    process._claims.give_back(range(first, first + 20))
    monkeypatch.setattr(process, "_PORTS", range(first, first + 20))
    return range(first, first + 20)


def test_the_only_window_is_found(twenty: range) -> None:
    with listening(twenty[4]), listening(twenty[15]):
        assert free_window(10) == twenty[5]


def test_there_is_none(twenty: range) -> None:
    with listening(twenty[4]), listening(twenty[15]), pytest.raises(RuntimeError, match="no 11 free ports in a row"):
        free_window(11)


def test_what_is_claimed_is_not_given_again(twenty: range) -> None:
    first = free_window(12)
    with pytest.raises(RuntimeError, match="no 12 free ports in a row"):
        free_window(12)
    process._claims.give_back(range(first, first + 12))
    assert free_window(12) in twenty


def test_a_port_to_avoid(twenty: range) -> None:
    assert free_window(9, avoid=range(twenty[10], twenty[11])) in (twenty[0], twenty[1], twenty[11])


def test_a_connection_that_has_ended_keeps_nobody_from_its_port(twenty: range) -> None:
    with listening(twenty[7]) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        accepted.close()
        assert client.recv(1) == b""
    with pytest.raises(OSError, match="in use"), socket.socket() as plain:
        plain.bind(("127.0.0.1", twenty[7]))
    assert free_window(20) == twenty[0]
