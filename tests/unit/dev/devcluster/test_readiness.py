"""The one question that is asked of a broker, and answers that make no sense."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from kproxy.base.address import Address
from kproxy.dev.devcluster.readiness import live_brokers
from kproxy.net.freeports import free_ports

Answer = Callable[[bytes], Address]


@pytest.fixture
def broker() -> Iterator[Answer]:
    """Something that listens, reads the request, answers with these bytes and closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    requests: list[bytes] = []

    def answer(response: bytes) -> Address:
        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                requests.append(connection.recv(100))
                connection.sendall(response)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return Address(*listener.getsockname())

    yield answer
    for thread in threads:
        thread.join()
    listener.close()
    # Metadata v1 for no topics: length, key, version, correlation id, no client id, an empty array.
    assert all(one == bytes.fromhex("0000000e 0003 0001 00000001 ffff 00000000") for one in requests)


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _entry(node: int, host: bytes, port: int, rack: bytes | None) -> bytes:
    said = struct.pack(">ih", node, len(host)) + host + struct.pack(">i", port)
    return said + (struct.pack(">h", -1) if rack is None else struct.pack(">h", len(rack)) + rack)


def test_brokers_with_and_without_a_rack(broker: Answer) -> None:
    entries = _entry(1, b"one", 9092, None) + _entry(49176, b"::1", 9093, b"rack")
    address = broker(_framed(struct.pack(">ii", 1, 2) + entries + struct.pack(">ii", 1, 0)))
    assert live_brokers(address) == {1: Address("one", 9092), 49176: Address("::1", 9093)}


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\0\0",
        _framed(b""),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 100) + b"short",
        _framed(struct.pack(">ii", 1, 5)),
        _framed(struct.pack(">ii", 1, 1) + _entry(1, b"\xff\xfe", 1, None)),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_os_error(broker: Answer, response: bytes) -> None:
    address = broker(response)
    with pytest.raises(OSError, match=r"answered with|did not answer with Metadata|closed the connection"):
        live_brokers(address)


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    held = [socket.create_server(("127.0.0.1", port)) for port in ports]
    for one in held:
        one.close()


def test_ports_to_avoid_and_ports_in_use_are_not_given() -> None:
    allowed = set(free_ports(4))
    others = set(range(20000, 32000)) - allowed
    assert free_ports(1, avoid=others)[0] in allowed
    held = [socket.create_server(("127.0.0.1", port)) for port in allowed]
    try:
        with pytest.raises(OSError, match="no free port"):
            free_ports(1, avoid=others)
    finally:
        for one in held:
            one.close()
