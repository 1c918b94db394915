"""Getting from this machine to the nodes of a cluster: along which route, and whether it leads to the right node.

A route counts as a node's only if the node has been met at its end (`meeting`). One that leads to another cluster or
another node is no route: the next one is tried.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Sequence
from time import monotonic, time

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.base.repeats import about
from kproxy.client.sasl.mechanism import LoginRefused
from kproxy.config import ClusterConfig
from kproxy.config.changes import changed_settings
from kproxy.config.declarations import Reload
from kproxy.net.dial.routes import Route, RouteKind, Routes
from kproxy.net.tls.handshakes import BrokerTls
from kproxy.proxy.cluster.nodeverifier import BOOTSTRAP, NodeVerifier, VerifiedConnection
from kproxy.proxy.cluster.outages import Outage, Outages, Unreachable
from kproxy.proxy.cluster.reachability import (
    BootstrapAnswer,
    DialOutcome,
    ExplorationState,
    Fact,
    NodeAddress,
    NodeReachability,
    ReachabilityState,
)
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.cluster.upstreamconnector import UpstreamConnector
from kproxy.proxy.metrics import Metrics

log = logging.getLogger(__name__)

# Between two lines about addresses that are kproxy's own, in seconds: a broker may name thousands.
_LOOPS_SAID_EVERY = 30.0

AffectsSession = Callable[[NodeKey | None, Address], bool]
"""Whether a new configuration concerns a session that was opened to a node (None: a bootstrap server) at this
address."""


class NodeDialer:
    """The upstream side of one cluster.

    `known` is what has been found out; `on_news` is told each fact that is new. `agree` says,
    of the id of the first cluster that answers, which one is to be served.
    """

    def __init__(
        self,
        config: ClusterConfig,
        topology: Topology,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        is_own: Callable[[Address], bool],
        on_news: Callable[[Fact], None] = lambda fact: None,
        agree: Callable[[str], str] = lambda cluster_id: cluster_id,
    ) -> None:
        self._config = config
        self._topology = topology
        self._opener = UpstreamConnector(config, tasks, is_own)
        self.meetings = NodeVerifier(config, topology, metrics, self._opener, self)
        self._on_news = on_news
        self._agree = agree
        self.routes = Routes(config.map)
        self.known = ReachabilityState(cluster_id=config.cluster_id)
        self._outages = Outages()
        self._silent_on_loops_until = 0.0
        self.settled = asyncio.Event()  # all bootstrap servers have been asked once
        self.searched = asyncio.Event()  # a route to each node has been looked for

    def reconfigure(self, config: ClusterConfig, tls: BrokerTls | None, seconds: float) -> AffectsSession:
        """Reach the cluster so from now on; return whom that concerns. Sessions of the former way have so many
        seconds to end. What is known stays known, unless it is of addresses that are out of use: whoever is dialled
        next is asked who it is, as always."""
        before, self._config = self._config, config
        self._opener.reconfigure(config, tls, seconds)
        self.meetings.reconfigure(config)
        if config.map != before.map:
            self.routes = Routes(config.map)
        known = self.known
        if config.bootstrap_servers != before.bootstrap_servers:
            known.bootstrap_at = 0
        known.leads_to = {one.address: one for one in known.leads_to.values() if self._in_use(one.address, one.key)}
        self._outages.end_where(lambda key: True)
        reloads = {setting.option.reload for setting in changed_settings(before, config)}
        if Reload.DRAINS_ALL in reloads:
            return lambda key, dial: True
        if Reload.DRAINS_ROUTES not in reloads:
            return lambda key, dial: False

        def moved(key: NodeKey | None, dial: Address) -> bool:
            return self._leads(before, key, dial) and not self._leads(config, key, dial)

        return moved

    def end(self, seconds: float) -> None:
        """The cluster is served no more; its sessions have so many seconds to end."""
        self._opener.end(seconds)

    def _leads(self, config: ClusterConfig, key: NodeKey | None, dial: Address) -> bool:
        """Whether an address may be a route to the node, or, for None, to a bootstrap server."""
        node = None if key is None else self._topology.nodes.get(key)
        if node is not None:
            for one in config.map:
                if one.matches(node.advertised, node.key.label):
                    return one.dial(node.advertised) == dial
        if dial in config.bootstrap_servers:
            return True
        return key is not None and any(dial == one.advertised for one in self._topology.nodes.values())

    def _in_use(self, address: Address, key: NodeKey) -> bool:
        return address in self._config.bootstrap_servers or self._leads(self._config, key, address)

    async def close(self) -> None:
        """Close what is kept open for connections to come."""
        await self._opener.close()

    def forget(self, keys: Collection[NodeKey]) -> None:
        """Know nothing of nodes that are in no metadata any more."""
        self.known.forget(keys)
        for key in keys:
            self._outages.end(key)
            self.meetings.forget(key)

    def note(self, fact: Fact) -> None:
        """Take in a fact, and tell others if it is news. A way that was out of use before it was told is none, and of a
        node that was forgotten meanwhile there is nothing to know."""
        match fact:
            case DialOutcome(key) if key not in self._topology.nodes:
                return
            case NodeAddress(address, key, _) if not self._in_use(address, key):
                return
            case DialOutcome(key, NodeReachability(route)) if route is not None and not self._in_use(route.dial, key):
                return
            case DialOutcome(key, NodeReachability(problem=None)):
                self._outages.end(key)
            case DialOutcome(key, _):
                self._outages.begin(key)
            case BootstrapAnswer() | ExplorationState(answered=True, conflict=None):
                self._outages.end(None)
        if self.known.note(fact):
            self._wake()
            self._on_news(fact)

    def _wake(self) -> None:
        if self.known.explored.settled:
            self.settled.set()
        if self.known.explored.searched:
            self.searched.set()

    async def connect(self, address: Address) -> socket.socket:
        """A connection to something that is no broker, along the same hops. Raises UpstreamError."""
        return await self._opener.connect(address)

    async def dial(self, key: NodeKey | None) -> VerifiedConnection:
        """Connect to a node, or, for None, to a bootstrap server. Raises UpstreamError; Unreachable if that says
        something of the node."""
        try:
            met = await self._dial(key)
        except UpstreamError as error:
            if error.reason == "limit":
                raise
            raise Unreachable(error, self._outage_of(key)) from None
        self._outages.end(key)
        return met

    def _outage_of(self, key: NodeKey | None) -> Outage:
        if key is None or key in self._topology.nodes:
            return self._outages.begin(key)
        return Outage(asyncio.get_running_loop().time())  # it was forgotten meanwhile

    async def _dial(self, key: NodeKey | None) -> VerifiedConnection:
        # Until all bootstrap servers have been asked it is not known whether they are of one cluster.
        await self.settled.wait()
        conflict = self.known.explored.conflict
        if conflict is not None:
            raise UpstreamError("wrong-cluster", conflict)
        if key is None:
            return await self._dial_bootstrap()
        try:
            return await self._dial_node(key)
        except UpstreamError as error:
            if self.searched.is_set() or isinstance(error, ViaError | LoginRefused):
                raise
        await self.searched.wait()  # the start-up search may find another route
        return await self._dial_node(key)

    async def _dial_bootstrap(self) -> VerifiedConnection:
        """Connect to a bootstrap server, beginning with the one that worked last. Raises UpstreamError."""
        servers = self._config.bootstrap_servers
        errors: list[UpstreamError] = []
        for step in range(len(servers)):
            at = (self.known.bootstrap_at + step) % len(servers)
            try:
                upstream = await self.meetings.meet(None, Route(servers[at], RouteKind.ADVERTISED))
            except UpstreamError as error:
                errors.append(_without_traceback(error))
                if isinstance(error, ViaError | LoginRefused):  # all of them are behind it, or would refuse it as well
                    break
                continue
            if at != self.known.bootstrap_at:
                self.note(BootstrapAnswer(at))
            _log_wrong_addresses(BOOTSTRAP, errors)
            return upstream
        raise _combined(errors)

    async def _dial_node(self, key: NodeKey) -> VerifiedConnection:
        """Connect to a node along its route. Raises UpstreamError."""
        errors: list[UpstreamError] = []
        for route in self.candidates(key):
            try:
                upstream = await self.meetings.meet(key, route)
            except UpstreamError as error:
                if error.reason == "limit":  # of this machine, and says nothing of the node
                    raise
                errors.append(_without_traceback(error))
                if isinstance(error, ViaError | LoginRefused):  # all routes go along it, or would refuse it as well
                    break
            else:
                _log_wrong_addresses(key.label, errors)
                return upstream
        failure = errors[0] if len(errors) == 1 else _combined(errors)
        if any(error.reason == "loop" for error in errors):
            self._say_loop(key, failure)
        lasting = all(error.lasting for error in errors)
        reached = NodeReachability(problem=str(failure), reason=failure.reason, since=time(), lasting=lasting)
        self.note(DialOutcome(key, reached))
        raise failure

    def _say_loop(self, key: NodeKey, failure: UpstreamError) -> None:
        """Say it also where no client wants the node: its broker, or a map, is wrong. What is wrong at start is shown
        with all nodes."""
        news = self.known.reached(key).problem != str(failure)
        if news and self.searched.is_set() and monotonic() >= self._silent_on_loops_until:
            self._silent_on_loops_until = monotonic() + _LOOPS_SAID_EVERY
            log.warning("cluster %s: %s cannot be reached: %s", self._config.title, key, failure)

    def candidates(self, key: NodeKey) -> list[Route]:
        """The routes to a node, best first: the one that worked last, then as `Routes` says; last of all an address
        that led to another node."""
        known = self.known
        learned = [one.address for one in known.addresses_of(key)]
        untold = [server for server in self._config.bootstrap_servers if self.meetings.may_be_any(server)]
        routes = self.routes.candidates(key.label, self.meetings.advertised(key), learned, untold)
        worked = known.reached(key).route
        return sorted(routes, key=lambda route: (self._leads_elsewhere(route.dial, key), route != worked))

    def _leads_elsewhere(self, address: Address, key: NodeKey) -> bool:
        known = self.known.leads_to.get(address)
        return known is not None and known.key != key

    async def try_node(self, key: NodeKey) -> None:
        """See whether a node can be reached; `known` has the outcome."""
        try:
            upstream = await self._dial_node(key)
        except UpstreamError:
            return
        upstream.sock.close()

    def claim(self, cluster_id: str, said_by: Address) -> str:
        """A broker says that this is its cluster; return the one that is served."""
        if self.known.cluster_id is None and (agreed := self._agree(cluster_id)) != cluster_id:
            self.known.cluster_id, self.known.agreed = agreed, True
        return self.known.claim(cluster_id, said_by)


def _without_traceback(error: UpstreamError) -> UpstreamError:
    """The error without what was known where it was raised, such as all nodes that a broker named: it would stay until
    the garbage collector finds it, which takes long when a thousand dials fail."""
    return error.with_traceback(None)


def _log_wrong_addresses(label: str, errors: Sequence[UpstreamError]) -> None:
    """Addresses that lead elsewhere are named, although another one works."""
    for number, error in enumerate(errors):
        if error.reason in ("wrong-cluster", "wrong-node"):
            log.warning("%s; kproxy used the next address", error, extra=about(label, number, error.reason))


def _combined(errors: list[UpstreamError]) -> UpstreamError:
    texts = list(dict.fromkeys(str(error) for error in errors))
    return UpstreamError(errors[0].reason, "; ".join(texts))
