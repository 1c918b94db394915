"""A connection to something that may not be a broker, or not a good one."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from kproxy.base.errors import KproxyError, UpstreamError, WireError
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.protocol.wire.api import ApiKey

VERSIONS = struct.pack(">hi", 0, 2) + struct.pack(">hhh", 1, 0, 17) + struct.pack(">hhh", 0, 0, 2)


def answer(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


Serve = Callable[[socket.socket], None]


@pytest.fixture
def serving() -> Iterator[Callable[[Serve], int]]:
    """Starts a server that treats one client so; returns its port."""
    threads, listeners = [], []

    def start(serve: Serve) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            client, _ = listener.accept()
            with client:
                serve(client)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        threads.append(thread)
        return int(listener.getsockname()[1])

    yield start
    for thread in threads:
        thread.join(10)
    for listener in listeners:
        listener.close()


def good(client: socket.socket) -> None:
    client.recv(65536)
    client.sendall(answer(0, VERSIONS))


def test_versions_that_both_have(serving: Callable[[Serve], int]) -> None:
    link = BrokerConnection("127.0.0.1", serving(good))
    assert link.version(ApiKey.FETCH) == 11
    with pytest.raises(WireError, match="supports no version of API key"):
        link.version(ApiKey.PRODUCE)
    with pytest.raises(WireError, match="supports no version of API key"):
        link.version(ApiKey.END_TXN)
    link.close()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", UpstreamError),  # closes at once
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", WireError),
        (struct.pack(">ii", -1, 0), WireError),
        (struct.pack(">ii", 3, 0), WireError),
        (struct.pack(">i", 3), WireError),  # more will not come
        (struct.pack(">i", 0), WireError),
        (struct.pack(">ii", 0x7FFFFFFF, 0), WireError),  # nothing of that size is waited or allocated for
        (answer(7, VERSIONS), WireError),  # an answer to something else
        (answer(0, VERSIONS)[:-3], UpstreamError),  # ends in the middle
        (answer(0, VERSIONS[:-3]), WireError),  # is complete, and too short
        (answer(0, struct.pack(">hi", 0, 1 << 30)), WireError),
    ],
)
def test_answers_that_are_none(serving: Callable[[Serve], int], said: bytes, error: type[KproxyError]) -> None:
    def serve(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(said)

    with pytest.raises(error):
        BrokerConnection("127.0.0.1", serving(serve))


def test_silence(serving: Callable[[Serve], int]) -> None:
    over = threading.Event()

    def serve(client: socket.socket) -> None:
        over.wait(10)

    try:
        with pytest.raises(UpstreamError, match="does not answer"):
            BrokerConnection("127.0.0.1", serving(serve), timeout=0.2)
    finally:
        over.set()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UpstreamError) as failed:
        BrokerConnection("127.0.0.1", port)
    assert failed.value.reason == "closed"


def test_slow_and_in_pieces(serving: Callable[[Serve], int]) -> None:
    body = bytes(range(256)) * 50

    def serve(client: socket.socket) -> None:
        good(client)
        client.recv(65536)
        for byte in answer(1, body):
            client.sendall(bytes([byte]))

    link = BrokerConnection("127.0.0.1", serving(serve))
    assert bytes(link.request(ApiKey.FETCH, 4, b"x")) == body
    link.close()


def test_a_large_request_goes_out_whole(serving: Callable[[Serve], int]) -> None:
    got = bytearray()

    def serve(client: socket.socket) -> None:
        good(client)
        while len(got) < 4 + 4_000_000:
            got.extend(client.recv(100_000))
        client.sendall(answer(1, b""))

    link = BrokerConnection("127.0.0.1", serving(serve))
    parts = [b"a" * 1_000_000, memoryview(b"b" * 2_000_000), bytearray(b"c" * 1_000_000)]
    link.send(ApiKey.PRODUCE, 3, *parts)
    assert link.in_flight == 1
    assert bytes(link.receive()) == b""
    assert bytes(got).endswith(b"".join(map(bytes, parts)))
    assert struct.unpack_from(">i", got)[0] == len(got) - 4
    link.close()


@pytest.mark.parametrize("size", [1000, 16 * 1024 - 8, 100_000])
def test_many_answers_that_come_at_once(serving: Callable[[Serve], int], size: int) -> None:
    bodies = [bytes([number]) * (size if number % 7 == 3 else number) for number in range(100)]

    def serve(client: socket.socket) -> None:
        good(client)
        client.recv(65536)
        client.sendall(b"".join(answer(number + 1, body) for number, body in enumerate(bodies)))
        while client.recv(65536):
            pass

    link = BrokerConnection("127.0.0.1", serving(serve))
    for _ in bodies:
        link.send(ApiKey.PRODUCE, 3, b"")
    got = [link.receive() for _ in bodies]
    assert [bytes(one) for one in got] == bodies, "one that was given out must not change with those after it"
    assert link.in_flight == 0
    link.close()


def test_an_answer_whose_first_bytes_come_with_the_one_before(serving: Callable[[Serve], int]) -> None:
    second = answer(2, b"second")

    def serve(client: socket.socket) -> None:
        good(client)
        client.recv(65536)
        client.sendall(answer(1, b"first") + second[:6])
        client.recv(65536)
        client.sendall(second[6:])

    link = BrokerConnection("127.0.0.1", serving(serve))
    assert [bytes(link.request(ApiKey.PRODUCE, 3, b"")) for _ in range(2)] == [b"first", b"second"]
    link.close()
