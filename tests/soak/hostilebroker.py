"""Brokers that harm whoever asks them, in a process of their own: `python -m tests.soak.hostilebroker`.

Its first line on stdout is JSON: the addresses of two brokers, `plain` and `logins` (which wants SASL PLAIN). Each line
on stdin is JSON, `{"mode": MODE, "addresses": [[HOST, PORT], …]}`, and is answered by `ok`. The process ends with its
stdin. Nothing here paces itself: how often a broker is asked is up to the clients.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import IO

from kproxy.protocol.wire.api import ApiKey
from tests.harness.servers import answers
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer

ENDPOINTS = 99_000
"""Endpoints of one answer, about 2 MB: below the 4 MiB that kproxy holds."""

NEW_NODES = 1_100
"""Node ids of one Metadata response that no earlier one had."""

CALM = "calm"
MODES = (CALM, "endpoints", "new-nodes", "addresses", "short-frames", "lifetimes")
_HANDSHAKE, _AUTHENTICATE = 17, 36
_LONG, _SHORT = 3_600_000, 1  # lifetimes of a login, in milliseconds


def _compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _describe_cluster(cluster_id: str, endpoints: int) -> bytes:
    """DescribeCluster v0, with the tags of its response header."""
    brokers = b"".join(
        struct.pack(">i", node) + _compact("h") + struct.pack(">ibb", 1, 0, 0) for node in range(endpoints)
    )
    head = bytes(1) + struct.pack(">ihb", 0, 0, 0) + _compact(cluster_id) + struct.pack(">i", 0)
    return head + _varint(endpoints + 1) + brokers + struct.pack(">ib", -(2**31), 0)


def _find_coordinator(endpoints: int) -> bytes:
    """FindCoordinator v4, with the tags of its response header."""
    coordinators = b"".join(
        _compact("g") + struct.pack(">i", node) + _compact("h") + struct.pack(">ihbb", 1, 0, 0, 0)
        for node in range(endpoints)
    )
    return bytes(1) + struct.pack(">i", 0) + _varint(endpoints + 1) + coordinators + bytes(1)


class HostileBroker(FakeBroker):
    """Node 1 of a cluster of its own, until its mode says otherwise."""

    def __init__(self, cluster_id: str) -> None:
        super().__init__(cluster_id=cluster_id)
        self.serves = {**self.serves, ApiKey.FIND_COORDINATOR: (0, 4), ApiKey.DESCRIBE_CLUSTER: (0, 0),
                       _HANDSHAKE: (0, 1), _AUTHENTICATE: (0, 1)}  # fmt: skip
        self.own = ("127.0.0.1", 0)
        self.mode = CALM
        self._fresh = count(1000, NEW_NODES)
        self._described = _describe_cluster(cluster_id, ENDPOINTS)
        self._coordinators = _find_coordinator(ENDPOINTS)
        self._listed = answers.metadata(cluster_id, dict.fromkeys(range(ENDPOINTS), "h:1"))

    def set(self, mode: str, addresses: Sequence[tuple[str, int]]) -> None:
        self.nodes = [(1, *self.own), *((2 + at, *address) for at, address in enumerate(addresses))]
        self.mode = mode

    def answer(self, connection: socket.socket, request: bytes) -> bool:
        key, _, correlation_id = struct.unpack_from(">hhi", request)
        if self.mode == "short-frames" and key != ApiKey.API_VERSIONS:
            connection.sendall(struct.pack(">i", correlation_id % 4) + bytes(correlation_id % 4))
            return True
        body = self._body(key)
        if body is None:
            return super().answer(connection, request)
        connection.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)
        return True

    def _body(self, key: int) -> bytes | None:
        many = self.mode == "endpoints"
        if key == _HANDSHAKE:
            return struct.pack(">h", 0) + answers.array([answers.text("PLAIN")])
        if key == _AUTHENTICATE:
            lifetime = _SHORT if self.mode == "lifetimes" else _LONG
            return struct.pack(">hhiq", 0, -1, 0, lifetime)
        if key == ApiKey.METADATA and many:
            return self._listed
        if key == ApiKey.METADATA and self.mode == "new-nodes":
            first = next(self._fresh)
            return answers.metadata(self.cluster_id, dict.fromkeys(range(first, first + NEW_NODES), "h:1"))
        if key == ApiKey.FIND_COORDINATOR and many:
            return self._coordinators
        if key == ApiKey.DESCRIBE_CLUSTER and many:
            return self._described
        return None


class HostileBrokers:
    """The process, as those who started it see it. `addresses` are where its brokers listen, by name."""

    def __init__(self, process: subprocess.Popen[str], said: IO[str], hears: IO[str]) -> None:
        self._said = said
        self._hears = hears
        self.addresses: dict[str, str] = json.loads(said.readline())
        self.pid = process.pid

    def set(self, mode: str, addresses: Sequence[tuple[str, int]] = ()) -> None:
        """Have the brokers answer like this from now on; `addresses` are those of further nodes."""
        self._hears.write(json.dumps({"mode": mode, "addresses": addresses}) + "\n")
        self._hears.flush()
        assert self._said.readline() == "ok\n", "the hostile brokers have ended"


@contextmanager
def hostile_brokers() -> Iterator[HostileBrokers]:
    """The brokers, until the end of the context."""
    command = [sys.executable, "-m", "tests.soak.hostilebroker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield HostileBrokers(process, process.stdout, process.stdin)
        finally:
            process.stdin.close()
            process.wait(30)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    brokers = {name: HostileBroker(f"hostile-{name}") for name in ("plain", "logins")}
    addresses = {}
    for name, broker in brokers.items():
        peer = Peer(broker).__enter__()  # it ends with the process
        host, _, port = peer.address.rpartition(":")
        broker.own = (host, int(port))
        broker.set(CALM, ())
        addresses[name] = peer.address
    _say(json.dumps(addresses))
    for line in sys.stdin:
        wanted = json.loads(line)
        for broker in brokers.values():
            broker.set(wanted["mode"], [(host, port) for host, port in wanted["addresses"]])
        _say("ok")
    os._exit(0)  # threads may stand in the middle of an answer


if __name__ == "__main__":
    main()
