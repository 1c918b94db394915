"""What faults on the way are made of, with plain sockets at both ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kproxy.base.address import Address
from kproxy.net.freeports import HOST
from tests.harness.servers.peers import Peer, saying
from tests.soak.ports import Ports
from tests.soak.switch import Line, Switch

_SECONDS = 30


def echo(connection: socket.socket) -> None:
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.sendall(b"end")


@pytest.fixture
def ports() -> Iterator[Ports]:
    with Ports() as made:
        yield made


@pytest.fixture
def here() -> Iterator[Peer]:
    with Peer(echo) as made:
        yield made


@pytest.fixture
def there() -> Iterator[Peer]:
    with Peer(saying(b"there", first=True)) as made:
        yield made


@pytest.fixture
def port(ports: Ports) -> int:
    return ports.one()


@pytest.fixture
def line(here: Peer, port: int) -> Iterator[Line]:
    with Switch() as switch:
        made = switch.line(Address.parse(here.address))
        made.listen(port)
        yield made


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=_SECONDS)


def said(port: int, word: bytes) -> bytes:
    """What comes back for a word."""
    with connect(port) as client:
        client.sendall(word)
        return client.recv(100)


def test_bytes_pass_in_both_directions_and_so_does_each_ones_end(line: Line, port: int) -> None:
    with connect(port) as client:
        client.sendall(b"word")
        assert client.recv(100) == b"word"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b"end"
        assert client.recv(100) == b""


def test_no_connection_survives_when_the_line_leads_elsewhere(line: Line, port: int, here: Peer, there: Peer) -> None:
    with connect(port) as client:
        client.sendall(b"word")
        assert client.recv(100) == b"word"
        line.lead(Address.parse(there.address), reset=True)
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    assert said(port, b"word") == b"there"
    line.move(Address.parse(there.address))
    line.move(Address.parse(here.address))
    assert said(port, b"word") == b"there"
    line.lead(None, reset=False)
    assert said(port, b"word") == b"word"


@pytest.mark.parametrize("reset", [True, False])
def test_a_cut(line: Line, port: int, reset: bool) -> None:
    with connect(port) as client:
        client.sendall(b"word")
        assert client.recv(100) == b"word"
        line.cut(reset=reset)
        if reset:
            with pytest.raises(ConnectionResetError):
                client.recv(100)
        else:
            assert client.recv(100) == b""
    assert said(port, b"again") == b"again"


def test_a_line_that_refuses_keeps_its_port(line: Line, port: int) -> None:
    line.refuse(True)
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port))
    line.refuse(False)
    assert said(port, b"word") == b"word"


def test_what_is_held_passes_later(line: Line, port: int) -> None:
    line.hold(True)
    with connect(port) as client:
        client.sendall(b"word")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(100)
        client.settimeout(_SECONDS)
        line.hold(False)
        assert client.recv(100) == b"word"


def test_a_port_more_and_one_less(line: Line, port: int, ports: Ports) -> None:
    other = ports.one()
    line.listen(other)
    assert said(other, b"word") == b"word"
    line.leave(port)
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    assert said(other, b"word") == b"word"


def test_where_nothing_listens_a_connection_is_reset(line: Line, port: int, ports: Ports) -> None:
    line.move(Address(HOST, ports.one()))
    with pytest.raises(ConnectionResetError), connect(port) as client:  # while it connects, or later
        client.recv(100)


def test_ports_in_a_row_are_held(ports: Ports) -> None:
    ten = ports.ten() * 10
    for port in (*ports.row(5), *range(ten, ten + 10)):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((HOST, port))
