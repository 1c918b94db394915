"""Getting from this machine to the nodes of a cluster: which route each node has, and whether it works.

At start the scout asks a bootstrap server for the nodes. Each advertised address is tried from here. Where that
fails and no `--map` says otherwise, the bootstrap servers are asked which node each of them is; in a cluster of one
broker there is nothing to ask.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from kproxy.address import Address
from kproxy.cluster import scout
from kproxy.cluster.encryption import broker_tls, warn_of_tls
from kproxy.cluster.topology import Node, NodeKey, Topology
from kproxy.config import ClusterConfig
from kproxy.dial.dialer import Dialer
from kproxy.dial.hops import Limit
from kproxy.dial.routes import Route, Routes, Via
from kproxy.dial.stream import Stream
from kproxy.errors import KproxyError, UpstreamError, ViaError
from kproxy.metrics import Metrics
from kproxy.rewrite.endpoints import Endpoints, Kind
from kproxy.sasl.mechanism import Refused

if TYPE_CHECKING:
    from kproxy.sasl.login import LoggedIn, Login

log = logging.getLogger(__name__)

BOOTSTRAP = "bootstrap"
# Between two attempts to reach any bootstrap server, in seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
# Nodes that are tried at the same time.
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Upstream:
    """An open upstream connection. `login`: what came of kproxy's own login to the broker, if it made one."""

    sock: socket.socket
    login: LoggedIn | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What `Reach` has found out, for another process: its attributes of these names."""

    worked: dict[NodeKey, Route]
    problems: dict[NodeKey, str]
    learned: dict[str, Address]
    only_broker: Address | None
    only: NodeKey | None
    bootstrap_at: int
    answered: bool
    searched: bool


class Reach:
    """The upstream side of one cluster. `problems`: nodes that could not be reached at the last try, and why."""

    def __init__(
        self,
        config: ClusterConfig,
        topology: Topology,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        is_own: Callable[[Address], bool],
    ) -> None:
        self._config = config
        self._topology = topology
        self._metrics = metrics
        self._dialer = Dialer(config.via, config.connect_timeout, tasks, is_own)
        self._tls = broker_tls(config)
        self._login = _login(config)
        self._bootstrap_at = 0
        self.routes = Routes(config.map)
        self._only: NodeKey | None = None  # the node that `routes.only_broker` is about
        self.worked: dict[NodeKey, Route] = {}  # the route that worked last
        self.problems: dict[NodeKey, str] = {}
        self.answered = False  # a bootstrap server has answered once
        self.bootstrap_problem: str | None = "no bootstrap server has been asked yet"
        self.nodes_known = asyncio.Event()  # set by the gateway with the first nodes
        self._searched = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether a bootstrap server has answered and a way to each node has been looked for."""
        return self.answered and self._searched.is_set()

    async def close(self) -> None:
        """Close what is kept open for connections to come."""
        await self._dialer.close()

    async def dial(self, key: NodeKey | None) -> Upstream:
        """Connect to a node, or, for None, to a bootstrap server. Raises UpstreamError."""
        return await (self.dial_bootstrap() if key is None else self.dial_node(key))

    async def dial_bootstrap(self) -> Upstream:
        """Connect to a bootstrap server, beginning with the one that worked last. Raises UpstreamError."""
        return (await self._dial_any_bootstrap())[0]

    async def _dial_any_bootstrap(self) -> tuple[Upstream, Address]:
        servers = self._config.bootstrap_servers
        errors: list[UpstreamError] = []
        for step in range(len(servers)):
            at = (self._bootstrap_at + step) % len(servers)
            try:
                upstream = await self._dial(BOOTSTRAP, servers[at], servers[at].host)
            except UpstreamError as error:
                errors.append(error)
                if isinstance(error, ViaError | Refused):  # all of them are behind it, or would refuse it as well
                    break
                continue
            self._bootstrap_at = at
            return upstream, servers[at]
        raise _all_of(errors)

    async def dial_node(self, key: NodeKey) -> Upstream:
        """Connect to a node along its route. Raises UpstreamError."""
        errors: list[UpstreamError] = []
        tried: set[Route] = set()
        for attempt in range(2):
            for route in self._candidates(key):
                if route in tried:
                    continue
                tried.add(route)
                try:
                    upstream = await self._dial(key.label, route.dial, self._topology.nodes[key].advertised.host)
                except UpstreamError as error:
                    # Of this machine, or of the credentials: no other route would do better.
                    if error.reason == "limit" or isinstance(error, Refused):
                        raise
                    errors.append(error)
                    if isinstance(error, ViaError):  # every route goes along it
                        break
                    continue
                self._note_success(key, route)
                return upstream
            if attempt or self._searched.is_set() or isinstance(errors[-1], ViaError):
                break
            await self._searched.wait()  # the start-up search may find another route
        failure = _all_of(errors)
        self.problems[key] = str(failure)
        raise failure

    def _candidates(self, key: NodeKey) -> list[Route]:
        node = self._topology.nodes[key]
        routes = self.routes.candidates(key.label, node.advertised)
        # A broker that joins later is not behind that address: one local port reaches one node.
        routes = [route for route in routes if route.via is not Via.ONLY_BROKER or key == self._only]
        worked = self.worked.get(key)
        return sorted(routes, key=lambda route: route != worked)

    def _note_success(self, key: NodeKey, route: Route) -> None:
        if self.worked.get(key) != route:
            self.worked[key] = route
            if route.via in (Via.LEARNED, Via.ONLY_BROKER) and self.ready:
                log.info("%s is reached through %s (%s)", key, route.dial, route.via.value)
        self.problems.pop(key, None)

    async def _dial(self, label: str, address: Address, name: str) -> Upstream:
        """Open an upstream connection, ready for requests: connect, TLS, login. `name` is the broker's own host name,
        which its certificate must have."""
        began = perf_counter()
        try:
            upstream = await self._open(address, name)
        except UpstreamError as error:
            self._metrics.dial_failed(self._config.name, label, error.reason)
            raise
        self._metrics.dialled(self._config.name, label, perf_counter() - began)
        return upstream

    async def _open(self, address: Address, name: str) -> Upstream:
        attempt = await self._login.prepare(address, name) if self._login else None
        limit = Limit.of(self._config.connect_timeout)
        connect = partial(self._dialer.connect, address, limit)
        sock = await (connect() if self._tls is None else self._tls.open(connect, address, name, limit))
        if self._login is None or attempt is None:
            return Upstream(sock)
        from kproxy.sasl.login import LoggedIn, over  # few need it

        try:
            result = await self._login.log_in(over(Stream(sock)), attempt)
            return Upstream(sock, LoggedIn(self._login, address, name, result))
        except BaseException:
            sock.close()
            raise

    # Between processes (kproxy.workers)

    @property
    def found(self) -> Found:
        """What is known now."""
        routes = self.routes
        return Found(
            self.worked, self.problems, routes.learned, routes.only_broker, self._only,
            self._bootstrap_at, self.answered, self._searched.is_set(),
        )  # fmt: skip

    def adopt(self, found: Found) -> None:
        """Know what another process has found out."""
        self.worked, self.problems = found.worked, found.problems
        self.routes.learned, self.routes.only_broker, self._only = found.learned, found.only_broker, found.only
        self._bootstrap_at, self.answered = found.bootstrap_at, found.answered
        if found.searched:
            self._searched.set()

    def outcome(self, key: NodeKey) -> tuple[Route | None, str | None]:
        """The route to a node that worked last, and why it could not be reached at the last try."""
        return self.worked.get(key), self.problems.get(key)

    def note(self, key: NodeKey, route: Route | None, problem: str | None) -> None:
        """Another process has dialled, with this outcome."""
        if route is not None:
            self.worked[key] = route
        if problem is None:
            self.problems.pop(key, None)
        else:
            self.problems[key] = problem

    # At start

    async def explore(self, learn: Callable[[Endpoints], None]) -> None:
        """Ask for the nodes until a bootstrap server answers, hand them to `learn`, and find a route to each."""
        warn_of_tls(self._config)
        pause = _FIRST_PAUSE
        try:
            while True:
                try:
                    answer, address = await self._ask_bootstrap()
                    break
                except KproxyError as error:
                    if self.bootstrap_problem != str(error):
                        name = self._config.name
                        log.warning("cluster %s: no bootstrap server answers: %s; trying on", name, error)
                    self.bootstrap_problem = str(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            self.answered = True
            self.bootstrap_problem = None
            if answer.nodes is None:
                log.info(
                    "cluster %s: %s tells its nodes to authenticated clients only;"
                    " they will be known with the first client's metadata",
                    self._config.name,
                    address,
                )
                self._searched.set()
                await self.nodes_known.wait()
            else:
                learn(Endpoints(answer.nodes, complete=True))
            await self._find_routes(address)
        finally:
            self._searched.set()

    async def _ask_bootstrap(self) -> tuple[scout.Answer, Address]:
        upstream, address = await self._dial_any_bootstrap()
        try:
            with upstream.sock:
                async with asyncio.timeout(self._config.connect_timeout):
                    return await scout.ask_who_is_there(Stream(upstream.sock)), address
        except (KproxyError, TimeoutError) as error:
            self._bootstrap_at += 1  # this one connects but does not answer: the next one next time
            if isinstance(error, TimeoutError):
                raise UpstreamError("timeout", f"{address}: connected, but no Kafka broker answers there") from None
            raise UpstreamError("other", f"{address}: {error}") from None

    async def _find_routes(self, bootstrap: Address) -> None:
        nodes = list(self._topology.nodes.values())
        limit = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for node in nodes:
                tasks.create_task(self._try(node, limit))
        lost = [node for node in nodes if node.key in self.problems]
        if lost and len(nodes) == 1:
            self.routes.only_broker = bootstrap
            self._only = lost[0].key
            log.warning(
                "%s: dialling the bootstrap address %s instead, since the cluster has just one broker",
                self.problems[lost[0].key],
                bootstrap,
            )
        elif any(self._candidates(node.key)[0].via is not Via.MAP for node in lost):
            await self._learn_identities()
        async with asyncio.TaskGroup() as tasks:
            for node in lost:
                tasks.create_task(self._try(node, limit))
        for unused in self.routes.unused_maps():
            log.warning("--map %s matches no node of cluster %s", unused, self._config.name)

    async def _try(self, node: Node, limit: asyncio.Semaphore) -> None:
        """See whether the node can be reached; `worked` and `problems` have the outcome."""
        async with limit:
            for route in self._candidates(node.key):
                try:
                    (await self._dial(node.key.label, route.dial, node.advertised.host)).sock.close()
                except UpstreamError as error:
                    self.problems[node.key] = str(error)
                else:
                    self._note_success(node.key, route)
                    return

    async def _learn_identities(self) -> None:
        for address in self._config.bootstrap_servers:
            try:
                with (await self._dial(BOOTSTRAP, address, address.host)).sock as sock:
                    async with asyncio.timeout(self._config.connect_timeout):
                        node_id = await scout.ask_who_are_you(Stream(sock))
            except (UpstreamError, TimeoutError):
                continue
            # All of them are of one kind: a bootstrap server that is a controller names controllers.
            for key in (NodeKey(kind, node_id) for kind in Kind if node_id is not None):
                if key in self._topology.nodes:
                    self.routes.learned[key.label] = address
                    log.debug("cluster %s: %s is %s", self._config.name, address, key)


def _all_of(errors: list[UpstreamError]) -> UpstreamError:
    texts = list(dict.fromkeys(str(error) for error in errors))
    return UpstreamError(errors[0].reason, "; ".join(texts))


def _login(config: ClusterConfig) -> Login | None:
    if config.sasl is None:
        return None
    from kproxy.sasl.login import Login  # few need it

    return Login(config)
