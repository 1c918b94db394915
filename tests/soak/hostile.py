"""Peers that want to harm all others through the one kproxy that they share with them: brokers, clients, files.

Each kind lasts some seconds, and is bounded in count. Honest clients of another cluster use the same kproxy meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from random import Random

from tests.harness.clients import frames
from tests.harness.clients.rawclient import RawClient
from tests.harness.servers.peers import make_certificate
from tests.soak.actor import Actor
from tests.soak.hostilebroker import CALM, HostileBrokers
from tests.soak.journal import Journal
from tests.soak.sharedproxy import SharedProxy

_MOST = 3000  # repetitions of one thing in one event
_PATIENCE = 5.0  # for one answer, in seconds
_AGAIN = 0.002  # after a failure, in seconds
_HEAD = 17_000  # bytes of an HTTP head, more than kproxy reads
_DESCRIBE_CLUSTER = struct.pack(">bbb", 0, 0, 0)  # tags of the header; no operations; tags
_FIND_COORDINATOR = struct.pack(">bbb", 0, 0, 2) + b"\x02g" + b"\0"  # tags; groups; one key; tags
_OWN_SPELLINGS = ("0.0.0.0", "::ffff:127.0.0.1", "0", "127.0.0.1", "localhost", "2130706433", "127.1", "::")


class Hostile(Actor):
    name = "hostile"
    gaps = (2.0, 6.0)

    def __init__(self, journal: Journal, shared: SharedProxy, brokers: HostileBrokers) -> None:
        super().__init__(journal)
        self.shared = shared
        self._brokers = brokers
        self._plain = shared.hostile["plain"]
        self.kinds: dict[str, Callable[[float], int]] = {
            "endpoints": self._endpoints,
            "new-nodes": self._new_nodes,
            "own-addresses": self._own_addresses,
            "short-frames": self._short_frames,
            "lifetimes": self._lifetimes,
            "unreachable-nodes": self._unreachable_nodes,
            "bad-clients": self._bad_clients,
            "stopped-log": self._stopped_log,
            "long-heads": self._long_heads,
            "fifo": self._fifo,
        }
        self.acts = {kind: self._act(harm) for kind, harm in self.kinds.items()}

    def prepare(self) -> None:
        """Make the file that the cluster `secured` needs to start."""
        make_certificate(self.shared.certificate.parent)

    def calm(self) -> None:
        """Have the hostile cluster name one node again, and kproxy hear of it."""
        self._brokers.set(CALM)
        self._ask(self._plain, frames.request(3, 2, 1, struct.pack(">i", 0)))

    def _act(self, harm: Callable[[float], int]) -> Callable[[Random], str]:
        return lambda chance: f"{harm(chance.uniform(1, 4))} times"

    # What brokers answer

    def _endpoints(self, seconds: float) -> int:
        """Answers of 2 MB with 99,000 endpoints."""
        asked = [
            frames.request(3, 2, 1, struct.pack(">i", 0)),
            frames.request(60, 0, 1, _DESCRIBE_CLUSTER),
            frames.request(10, 4, 1, _FIND_COORDINATOR),
        ]
        return self._asking("endpoints", seconds, asked)

    def _new_nodes(self, seconds: float) -> int:
        """1,100 node ids that were never heard of, again and again."""
        return self._asking("new-nodes", seconds, [frames.request(3, 2, 1, struct.pack(">i", 0))])

    def _short_frames(self, seconds: float) -> int:
        """Frames of 0 to 3 bytes."""
        return self._asking("short-frames", seconds, [frames.request(3, 2, n, struct.pack(">i", 0)) for n in range(4)])

    def _own_addresses(self, seconds: float) -> int:
        """Nodes that are kproxy itself, in each spelling."""
        own = [self._plain, self.shared.bootstrap, self.shared.kproxy.admin]
        addresses = [(host, frames.address(where)[1]) for host in _OWN_SPELLINGS for where in own]
        return self._at_nodes(addresses, seconds)

    def _unreachable_nodes(self, seconds: float) -> int:
        """Nodes where nothing listens, and clients that do not give up."""
        return self._at_nodes([("127.0.0.1", 1), ("no-such-host.invalid", 9092)], seconds)

    def _at_nodes(self, addresses: list[tuple[str, int]], seconds: float) -> int:
        asked = frames.request(3, 2, 1, struct.pack(">i", 0))
        ports = self.shared.hostile_nodes["plain"][: 2 + len(addresses)]

        def harm(number: int) -> None:
            at = number % (1 + len(ports))
            if at == 0:  # so that kproxy knows the nodes
                self._ask(self._plain, asked)
            else:
                self._ask(ports[at - 1], frames.api_versions(1))

        with self._mode("addresses", addresses):
            return self._repeat(seconds, harm)

    def _lifetimes(self, seconds: float) -> int:
        """Logins that are over at once, in a session that asks nothing."""
        with (
            self._mode("lifetimes"),
            contextlib.suppress(OSError, EOFError),
            RawClient(self.shared.hostile["logins"]) as idle,
        ):
            idle.works()
            self.last(seconds)
        return 1

    def _asking(self, mode: str, seconds: float, asked: list[bytes]) -> int:
        with self._mode(mode):
            return self._repeat(seconds, lambda number: self._ask(self._plain, asked[number % len(asked)]))

    @contextlib.contextmanager
    def _mode(self, mode: str, addresses: list[tuple[str, int]] | None = None) -> Iterator[None]:
        self._brokers.set(mode, addresses or [])
        try:
            yield
        finally:
            self._brokers.set(CALM)

    # What clients do

    def _bad_clients(self, seconds: float) -> int:
        """Connections that are none of Kafka's, as many as one client can make."""
        words = (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\xff" * 12)
        where = (self.shared.bootstrap, self._plain)
        return self._repeat(seconds, lambda number: _say(where[number % 2], words[number % len(words)]))

    def _stopped_log(self, seconds: float) -> int:
        """Such clients while the output of kproxy is not read."""
        self.shared.output.pause()
        try:
            return self._bad_clients(seconds)
        finally:
            self.shared.output.resume()

    def _long_heads(self, seconds: float) -> int:
        """HTTP requests with more head than kproxy reads."""
        head = b"GET /status HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * _HEAD + b"\r\n\r\n"
        return self._repeat(seconds, lambda number: _say(self.shared.kproxy.admin, head))

    def _fifo(self, seconds: float) -> int:
        """A certificate that is a pipe, while clients do handshakes."""
        certificate = self.shared.certificate
        kept = certificate.with_suffix(".kept")
        certificate.rename(kept)
        try:
            os.mkfifo(certificate)
            return self._repeat(seconds, lambda number: _handshake(self.shared.hostile["secured"]))
        finally:
            kept.replace(certificate)

    def _repeat(self, seconds: float, harm: Callable[[int], None]) -> int:
        """Do it again and again; how often it was done."""
        end = time.monotonic() + seconds
        for number in range(_MOST):
            if time.monotonic() >= end or self.stopping.is_set():
                return number
            try:
                harm(number)
            except (OSError, EOFError):  # refused, closed or too slow: all of these are allowed
                self.stopping.wait(_AGAIN)
        return _MOST

    @staticmethod
    def _ask(where: str, request: bytes) -> None:
        with socket.create_connection(frames.address(where), timeout=_PATIENCE) as client:
            client.sendall(request)
            size = client.recv(4, socket.MSG_WAITALL)
            left = struct.unpack(">i", size)[0] if len(size) == 4 else 0
            while left > 0 and (data := client.recv(min(left, 1 << 20))):
                left -= len(data)


def _say(where: str, words: bytes) -> None:
    with socket.create_connection(frames.address(where), timeout=1) as client:
        client.sendall(words)
        client.recv(4096)


def _handshake(where: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(frames.address(where), timeout=1) as client, context.wrap_socket(client):
        pass
