"""The claims of several kproxies that share their ports (`--reuse-port`): which meaning each gives to a port.

The kernel lets the sockets of one user share a port (SO_REUSEPORT), and does not say which other processes do. So each
kproxy makes *claims*: names of abstract Unix sockets. They live in the network namespace that the ports live in, they
end with the process, however it ends, and /proc/net/unix lists them. So no file stays behind, no directory is needed,
and containers that share a network but no file system see each other.

A claim states that on this host, these ports have this meaning. Claims of one topic whose ports overlap must have the
same meaning. The later one gives way. The claims also decide which kproxy accepts clients while only one does.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from kproxy.base.errors import ConfigError
from kproxy.base.messages.start import PORT_SHARED_OTHERWISE
from kproxy.config import ClusterConfig
from kproxy.proxy.cluster.listeners import Listeners

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


# How often kproxies that share ports check which of them accepts clients, while only one does, in seconds.
_CHOOSE_AGAIN = 1.0


class PortSharing:
    """The claims of one cluster on all addresses of its host, and its turns to listen.

    `process`: None if the ports are not shared. Then nothing is claimed, and the cluster always listens. `is_answered`
    returns whether a bootstrap server of the active upstream has answered: until then, the others get the clients.
    """

    def __init__(
        self,
        process: ProcessClaims | None,
        configs: Sequence[ClusterConfig],
        listeners: Listeners,
        tasks: asyncio.TaskGroup,
        is_answered: Callable[[], bool],
    ) -> None:
        """Claim the ports, and the ids of the upstreams' clusters. Raises ConfigError if another kproxy contradicts."""
        self._process = process
        self._listeners = listeners
        self._tasks = tasks
        self._is_answered = is_answered
        self._claims: list[PortClaim] = []
        self._listen = configs[0].listen
        self._one_process_until = float("-inf")  # until then, only one of the kproxies accepts clients
        self._choosing: asyncio.Task[None] | None = None
        if process is not None:
            try:
                self._claim_ports(configs)
                for config in configs:
                    self._claim_cluster_id(config)
            except ConfigError:
                self.end()
                raise

    def _claim_ports(self, configs: Sequence[ClusterConfig]) -> None:
        config, port = configs[0], self._listen.port
        window, upstreams = config.effective_node_ports(), sorted(upstream.upstream for upstream in configs)
        settings = f"{window}, {config.sni}, {config.advertise}, {upstreams}, {config.client_tls_cert is not None}"
        meanings = [(port, port, f"bootstrap {settings}")]
        if config.sni is None:
            meanings.append((window.first, window.last, f"nodes {settings}"))
        for forward in config.forward:
            forward_port = forward.listen(config.listen).port
            meanings.append((forward_port, forward_port, f"forward {forward.to}"))
        for host in self._listeners.hosts:
            for first, last, meaning in meanings:
                other = self._claim(PortClaim.of(host, first, last, "ports", meaning))
                if other is not None:
                    both = f"{max(first, other.first)}-{min(last, other.last)}"
                    raise ConfigError(PORT_SHARED_OTHERWISE(cluster=config.name, port=both))

    def _claim_cluster_id(self, config: ClusterConfig) -> None:
        cluster_id = config.cluster_id
        if cluster_id is not None and (agreed := self.agree_on_cluster(config.upstream, cluster_id)) != cluster_id:
            raise ConfigError(
                f"cluster {config.title}: cluster-id is {cluster_id}, and another kproxy that shares port"
                f" {self._listen.port} (--reuse-port) serves the Kafka cluster with the id {agreed}"
            )

    # Claims

    @property
    def is_shared(self) -> bool:
        """True if other kproxies may have the same ports."""
        return self._process is not None

    @property
    def instance(self) -> str:
        """The name of this kproxy; "" if it shares no ports."""
        return "" if self._process is None else self._process.instance

    @property
    def others(self) -> list[str]:
        """The other kproxies that share a port, in the order in which they started."""
        return self._peers("ports")

    def agree_on_cluster(self, upstream: str, cluster_id: str) -> str:
        """Return the id of the Kafka cluster that all kproxies which share the ports serve as this upstream."""
        return self._agree(f"id of {upstream}", cluster_id)

    def forget_upstream(self, upstream: str) -> None:
        """Withdraw what this kproxy has claimed of an upstream."""
        self._retract(f"id of {upstream}")

    def claim_route(self, active: str, parts: dict[str, str]) -> bool:
        """Claim that clients are routed so; return whether the other kproxies route them so too."""
        routes = f"{active} {sorted(item for item in parts.items() if item[1] != active)}"
        self.retract_route()
        return self._agree("leads", meaning := short_hash(routes)) == meaning

    def retract_route(self) -> None:
        """Withdraw the claim of `claim_route`: a switch is under way."""
        self._retract("leads")

    def end(self) -> None:
        """Withdraw all claims."""
        for claim in list(self._claims):
            self._withdraw(claim)

    def _claim(self, claim: PortClaim) -> PortClaim | None:
        """Make a claim; return another kproxy's that contradicts it, if there is one."""
        if self._process is None or claim in self._claims:
            return None
        other = self._process.claim(claim)
        if other is None:
            self._claims.append(claim)
        return other

    def _agree(self, topic: str, meaning: str) -> str:
        """Claim a meaning of this topic; return that of another kproxy which has claimed a different one before."""
        claims: list[PortClaim] = []
        for host in self._listeners.hosts:
            claim = PortClaim.of(host, self._listen.port, self._listen.port, _short(topic), meaning)
            other = self._claim(claim)
            if other is not None:
                for earlier in claims:
                    self._withdraw(earlier)
                return other.meaning
            claims.append(claim)
        return meaning

    def _retract(self, topic: str) -> None:
        for claim in [claim for claim in self._claims if claim.topic == _short(topic)]:
            self._withdraw(claim)

    def _withdraw(self, claim: PortClaim) -> None:
        self._claims.remove(claim)
        if self._process is not None:
            self._process.withdraw(claim)

    def _peers(self, topic: str) -> list[str]:
        claims = [claim for claim in self._claims if claim.topic == topic]
        return [] if self._process is None else self._process.peers(claims)

    # Listening

    def serve(self) -> None:
        """Listen, as a bootstrap server has answered, unless another kproxy accepts the clients now."""
        self._agree("serves", "yes")
        if not self._gives_way():
            self._listeners.resume()

    def accept_in_one_process(self, seconds: float, over: Callable[[], None]) -> None:
        """Let only the first of the kproxies that share the ports accept clients for a while; then call `over`.

        Only the kproxy that has answered a consumer since a switch knows its position.
        """
        if self._process is None:
            return
        self._one_process_until = monotonic() + seconds
        if self._choosing is not None:
            self._choosing.cancel()
        self._choose()
        self._choosing = self._tasks.create_task(self._choose_until_over(over))

    async def _choose_until_over(self, over: Callable[[], None]) -> None:
        while monotonic() < self._one_process_until:
            await asyncio.sleep(_CHOOSE_AGAIN)
            self._choose()
        self._choosing = None
        over()

    def _choose(self) -> None:
        if self._gives_way():
            self._listeners.pause()
        elif self._is_answered():
            self._listeners.resume()

    def _gives_way(self) -> bool:
        """Check whether another kproxy at the same ports accepts the clients now: the first that serves."""
        if monotonic() >= self._one_process_until:
            return False
        peers = self._peers(_short("serves"))
        return bool(peers) and peers[0] < self.instance


def _short(topic: str) -> str:
    return short_hash(topic)[:9]
