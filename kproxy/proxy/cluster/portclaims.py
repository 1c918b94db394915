"""The claims of several kproxies that share their ports (`--reuse-port`): which meaning each gives to a port.

The kernel lets the sockets of one user share a port (SO_REUSEPORT), and does not say which other processes do. So each
kproxy makes *claims*: names of abstract Unix sockets. They live in the network namespace that the ports live in, they
end with the process, however it ends, and /proc/net/unix lists them. So no file stays behind, no directory is needed,
and containers that share a network but no file system see each other.

A claim states that on this host, these ports have this meaning. Claims of one topic whose ports overlap must have the
same meaning. The later one gives way.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kproxy.base.errors import ConfigError

_PREFIX = "kproxy/1/"
_LONGEST = 107  # bytes of an abstract name (unix(7))
_PLAIN_HOST = re.compile(r"[0-9a-f.:]{1,39}")
_PLAIN_MEANING = re.compile(r"[A-Za-z0-9_-]{1,22}")
_WILDCARDS = frozenset({"0.0.0.0", "::"})
_SO_PEERCRED = getattr(socket, "SO_PEERCRED", 0)  # Linux
_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: process, user, group


@dataclass(frozen=True, slots=True)
class PortClaim:
    """The meaning of the ports from `first` to `last` on `host`, an IP address. `topic`: the kind of meaning."""

    host: str
    first: int
    last: int
    topic: str
    meaning: str

    @classmethod
    def of(cls, host: str, first: int, last: int, topic: str, meaning: str) -> PortClaim:
        """Return a claim that fits into a socket's name; a host or meaning that does not is replaced by its hash."""
        return cls(
            host if _PLAIN_HOST.fullmatch(host) else short_hash(host),
            first,
            last,
            topic,
            meaning if _PLAIN_MEANING.fullmatch(meaning) else short_hash(meaning),
        )

    def shares(self, other: PortClaim) -> bool:
        """Check whether the two claims have a port in common."""
        hosts = self.host == other.host or not _WILDCARDS.isdisjoint((self.host, other.host))
        return hosts and self.first <= other.last and other.first <= self.last

    def contradicts(self, other: PortClaim) -> bool:
        """Check whether the two claims cannot both be true."""
        return self.topic == other.topic and self.meaning != other.meaning and self.shares(other)

    def name(self, instance: str) -> bytes:
        """Return the name of the socket with which the kproxy `instance` makes the claim."""
        text = f"{_PREFIX}{instance}/{self.host}/{self.first}-{self.last}/{self.topic}/{self.meaning}"
        assert len(text) <= _LONGEST
        return b"\0" + text.encode()

    @classmethod
    def read(cls, name: str) -> tuple[str, PortClaim] | None:
        """Return the kproxy that makes this claim, and the claim; None if the name is no claim."""
        if not name.startswith(_PREFIX):
            return None
        parts = name.removeprefix(_PREFIX).split("/")
        if len(parts) != 5 or (ports := re.fullmatch(r"(\d{1,5})-(\d{1,5})", parts[2], re.ASCII)) is None:
            return None
        return parts[0], cls(parts[1], int(ports[1]), int(ports[2]), parts[3], parts[4])


def short_hash(text: str) -> str:
    """Return a short word that stands for the text."""
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


class ProcessClaims:
    """The claims of this process.

    `instance` names it among the kproxies of this machine; of two, the name of the one that started first sorts first.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.instance = f"{time.monotonic_ns() // 1_000_000 & 0xFFFF_FFFF:08x}{secrets.token_hex(2)}"
        self._sockets: dict[PortClaim, socket.socket] = {}

    def claim(self, claim: PortClaim) -> PortClaim | None:
        """Make this claim. If another kproxy of this user contradicts it, withdraw it and return that other claim."""
        if claim not in self._sockets:
            # Claimed before it checks: of two that claim at the same moment, at least one sees the other.
            self._sockets[claim] = self._bind(claim.name(self.instance))
        for instance, other in _others(self.instance):
            if claim.contradicts(other) and _is_of_this_user(other.name(instance)):
                self.withdraw(claim)
                return other
        return None

    def withdraw(self, claim: PortClaim) -> None:
        """Withdraw a claim."""
        sock = self._sockets.pop(claim, None)
        if sock is not None:
            self._loop.remove_reader(sock.fileno())
            sock.close()

    def peers(self, claims: Iterable[PortClaim]) -> list[str]:
        """Return the other kproxies of this user that share a port of these claims."""
        own_claims = list(claims)
        kproxies = {
            instance: other
            for instance, other in _others(self.instance)
            if any(own_claim.topic == other.topic and own_claim.shares(other) for own_claim in own_claims)
        }
        return sorted(own_claim for own_claim, claim in kproxies.items() if _is_of_this_user(claim.name(own_claim)))

    def _bind(self, name: bytes) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.bind(name)
        sock.listen(16)  # a kproxy that asks for its user connects, and disconnects
        self._loop.add_reader(sock.fileno(), _close_one, sock)
        return sock


def _close_one(sock: socket.socket) -> None:
    try:
        sock.accept()[0].close()
    except OSError:
        return


def _others(instance: str) -> Iterator[tuple[str, PortClaim]]:
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError as error:
        raise ConfigError(
            f"--reuse-port reads /proc/net/unix to see the other kproxies: {error.strerror}; mount /proc"
        ) from None
    for name in {line.rpartition(" @")[2] for line in lines if f" @{_PREFIX}" in line}:
        entry = PortClaim.read(name)
        if entry is not None and entry[0] != instance:
            yield entry


def _is_of_this_user(name: bytes) -> bool:
    """Check whether a socket of this name exists and belongs to this user.

    Any user can give a socket a name, but only sockets of one user share a port.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(name)
        except BlockingIOError:
            return True  # the socket exists, and its process is too busy to answer
        except OSError:
            return False
        data = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(data)
    return bool(user == os.geteuid())


class ClusterClaims:
    """The claims of one cluster of the configuration, on all addresses of its host."""

    def __init__(
        self, sharing: ProcessClaims, title: str, hosts: Iterable[str], ports: Iterable[tuple[int, int, str]]
    ) -> None:
        """Claim these ports: first port, last port, meaning. Raises ConfigError if another kproxy contradicts."""
        self._sharing = sharing
        self._claims: list[PortClaim] = []
        hosts, ports = list(hosts), list(ports)
        self._addresses = [(host, ports[0][0]) for host in hosts]  # of the bootstrap listener
        for host in hosts:
            for first, last, meaning in ports:
                other = self._claim(PortClaim.of(host, first, last, "ports", meaning))
                if other is not None:
                    self.end()
                    both = f"{max(first, other.first)}-{min(last, other.last)}"
                    raise ConfigError(
                        f"cluster {title}: another kproxy shares port {both} and means something else by it: all that"
                        " share a port (--reuse-port) need the same listen, node-ports, advertise, sni, forward and"
                        " upstreams"
                    )

    def _claim(self, claim: PortClaim) -> PortClaim | None:
        if claim in self._claims:
            return None
        other = self._sharing.claim(claim)
        if other is None:
            self._claims.append(claim)
        return other

    def agree(self, topic: str, meaning: str) -> str:
        """Claim a meaning of this topic; return that of another kproxy which has claimed a different one before."""
        claims: list[PortClaim] = []
        for host, port in self._addresses:
            claim = PortClaim.of(host, port, port, short_hash(topic)[:9], meaning)
            other = self._claim(claim)
            if other is not None:
                for claim in claims:
                    self._withdraw(claim)
                return other.meaning
            claims.append(claim)
        return meaning

    def retract(self, topic: str) -> None:
        """Withdraw the claims of this topic."""
        for claim in [claim for claim in self._claims if claim.topic == short_hash(topic)[:9]]:
            self._withdraw(claim)

    def _withdraw(self, claim: PortClaim) -> None:
        self._claims.remove(claim)
        self._sharing.withdraw(claim)

    def end(self) -> None:
        """Withdraw all claims."""
        for claim in list(self._claims):
            self._withdraw(claim)

    @property
    def instance(self) -> str:
        """The name of this kproxy."""
        return self._sharing.instance

    @property
    def others(self) -> list[str]:
        """The other kproxies that share a port, in the order in which they started."""
        return self._sharing.peers(claim for claim in self._claims if claim.topic == "ports")

    def is_first(self, topic: str) -> bool:
        """Check whether this kproxy started before all others that claim a meaning of this topic."""
        peers = self._sharing.peers(claim for claim in self._claims if claim.topic == short_hash(topic)[:9])
        return not peers or self.instance < peers[0]
