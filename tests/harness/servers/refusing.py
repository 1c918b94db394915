"""A forwarder to a broker that refuses the first batch of each producer, like a broker that does not lead yet."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from kproxy.base.address import Address
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import read_string, read_uvarint

_NOT_LEADER_OR_FOLLOWER = 6


class RefusesFirst:
    """Listens at `address`, and forwards to the broker.

    It answers the first Produce request of all with NOT_LEADER_OR_FOLLOWER and does not forward it; then it sets
    `refused`. Later requests pass, as if the broker led now.
    """

    def __init__(self, broker: Address) -> None:
        self._broker = broker
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname()[:2])
        self.refused = threading.Event()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> RefusesFirst:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            _end(sock)
            sock.close()
        for thread in self._threads:
            thread.join(30)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection((self._broker.host, self._broker.port))
            self._sockets += (client, broker)
            for target in (self._requests, self._responses):
                thread = threading.Thread(target=target, args=(client, broker), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        while (frame := _frame(client)) is not None:
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            with self._lock:
                refuses = key == ApiKey.PRODUCE and not self.refused.is_set()
                if refuses:
                    self.refused.set()
            try:
                if refuses:
                    client.sendall(_refusal(frame, version, correlation_id))
                else:
                    broker.sendall(struct.pack(">i", len(frame)) + frame)
            except OSError:
                break
        _end(broker)

    def _responses(self, client: socket.socket, broker: socket.socket) -> None:
        while (frame := _frame(broker)) is not None:
            try:
                client.sendall(struct.pack(">i", len(frame)) + frame)
            except OSError:
                break
        _end(client)


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended
        sock.shutdown(socket.SHUT_RDWR)


def _frame(sock: socket.socket) -> bytes | None:
    head = _exactly(sock, 4)
    return None if head is None else _exactly(sock, struct.unpack(">i", head)[0])


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        try:
            more = sock.recv(count - len(data))
        except OSError:
            return None
        if not more:
            return None
        data += more
    return bytes(data)


def _refusal(frame: bytes, version: int, correlation_id: int) -> bytes:
    """Return the answer to a Produce request, of version 9 to 12, for one partition of one topic."""
    assert 9 <= version <= 12, version
    end = len(frame)
    at = 10 + max(0, struct.unpack_from(">h", frame, 8)[0]) + 1  # the client id, no tags
    _, at = read_string(frame, at, end, compact=True, nullable=True)  # the transactional id
    at += 6  # acks, timeout
    topics, at = read_uvarint(frame, at, end)
    topic, at = read_string(frame, at, end, compact=True, nullable=False)
    partitions, at = read_uvarint(frame, at, end)
    assert (topics, partitions) == (2, 2), "more than one partition"
    (partition,) = struct.unpack_from(">i", frame, at)
    assert topic is not None
    head = struct.pack(">i", correlation_id) + b"\0\2" + bytes([len(topic) + 1]) + topic + b"\2"
    body = struct.pack(">ihqqq", partition, _NOT_LEADER_OR_FOLLOWER, -1, -1, -1) + b"\1\0\0" + b"\0"
    answer = head + body + struct.pack(">i", 0) + b"\0"
    return struct.pack(">i", len(answer)) + answer
