"""The dialer of a cluster's nodes: which route it takes to each, and whether that leads to the right node.

A route counts as a node's only if the node was verified at its end (`nodeverifier`). If it leads to another cluster or
another node, kproxy tries the next one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from time import time

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.base.messages.start import CANNOT_BE_REACHED
from kproxy.base.printable import escaped
from kproxy.base.repeats import about
from kproxy.client.sasl.mechanism import LoginRefused
from kproxy.config import ClusterConfig
from kproxy.config.changes import changed_settings
from kproxy.config.declarations import Reload
from kproxy.net.dial.forwardcommands import ForwardCommands
from kproxy.net.dial.routes import Route, RouteMap, Routes
from kproxy.net.tls.handshakes import BrokerTls
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest
from kproxy.proxy.cluster.nodeverifier import NodeVerifier
from kproxy.proxy.cluster.reachability import (
    BootstrapAnswer,
    DialOutcome,
    ExplorationState,
    Fact,
    NodeAddress,
    NodeReachability,
    ReachabilityState,
)
from kproxy.proxy.cluster.routewatch import log_route_ended, log_route_taken
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.cluster.upstreamconnector import UpstreamConnector
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.metrics.registry import BOOTSTRAP

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Outage:
    """The time for which a node cannot be reached."""

    since: float
    """The loop's time at which kproxy noticed it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the node was reached, or may be reachable now."""


class Unreachable(UpstreamError):
    """A node, or for None the bootstrap servers, could not be reached. `outage` notifies when that may have changed."""

    def __init__(self, error: UpstreamError, outage: Outage) -> None:
        self.outage = outage
        super().__init__(error.reason, str(error))


class Misrouted(UpstreamError):
    """A client expects another cluster or node at the port than kproxy has there (KIP-1242)."""


class Outages:
    """The outages of one upstream. None stands for its bootstrap servers."""

    def __init__(self) -> None:
        self._outages: dict[NodeKey | None, Outage] = {}

    def begin(self, key: NodeKey | None) -> Outage:
        """Note that the node could not be reached; return its outage, which may have begun before."""
        outage = self._outages.get(key)
        if outage is None:
            outage = self._outages[key] = Outage(asyncio.get_running_loop().time())
        return outage

    def end(self, key: NodeKey | None) -> None:
        """End the outage: the node was reached, or clients no longer ask for it."""
        outage = self._outages.pop(key, None)
        if outage is not None:
            outage.ended.set()

    def end_all(self) -> None:
        """End all outages: a reload may have changed the routes."""
        for key in list(self._outages):
            self.end(key)


AffectsSession = Callable[[NodeKey | None, Address], bool]
"""Returns whether a new configuration affects a session to this node (None: a bootstrap server) at this address."""


class NodeDialer:
    """The connections from kproxy to one upstream.

    `reachability` is what is known so far; `on_news` receives each fact that is new. `agree` receives the id of the
    first cluster that answers, and returns the id of the cluster to serve.
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
        self._tasks = tasks
        self._connector = UpstreamConnector(config, tasks, is_own, self._is_present, self._on_forward_end)
        self.verifier = NodeVerifier(config, topology, metrics, self._connector, self)
        self._on_news = on_news
        self._agree = agree
        self.routes = Routes(config.map, self._connector.forwards.dial_address)
        self.reachability = ReachabilityState(config.name, config.cluster_id)
        self._outages = Outages()
        self.bootstrap_asked = asyncio.Event()  # all bootstrap servers have been asked once
        self.searched = asyncio.Event()  # a route to each node has been looked for

    def reconfigure(self, config: ClusterConfig, tls: BrokerTls | None, seconds: float) -> AffectsSession:
        """Use this configuration from now on; return which sessions it affects. These have that many seconds to end.

        Known facts stay, except for addresses that are no longer used: kproxy asks at each dial who answers, as always.
        """
        before_routes, before_servers = self.routes, self.dialled_servers
        before, self._config = self._config, config
        self._connector.reconfigure(config, tls, seconds)
        self.verifier.reconfigure(config)
        if config.map != before.map or config.forward_command != before.forward_command:
            self.routes = Routes(config.map, self._connector.forwards.dial_address)
        reachability = self.reachability
        if config.bootstrap_servers != before.bootstrap_servers:
            reachability.bootstrap_index = 0
        reachability.node_addresses = {
            node_address.address: node_address
            for node_address in reachability.node_addresses.values()
            if self._in_use(node_address.address, node_address.key)
        }
        self._outages.end_all()
        reloads = {setting.reload for setting in changed_settings(before, config)}
        if Reload.DRAINS_ALL in reloads:
            return lambda key, dial: True
        if Reload.DRAINS_ROUTES not in reloads:
            return lambda key, dial: False

        def moved(key: NodeKey | None, dial: Address) -> bool:
            is_route = self._may_be_route(self.routes, self.dialled_servers, key, dial)
            return self._may_be_route(before_routes, before_servers, key, dial) and not is_route

        return moved

    def end(self, seconds: float) -> None:
        """Stop dialling. The sessions of the cluster have this many seconds to end."""
        self._connector.end(seconds)

    def _may_be_route(self, routes: Routes, servers: Sequence[Address], key: NodeKey | None, dial: Address) -> bool:
        """Check whether an address may be a route to the node, or, for None, to a bootstrap server.

        `servers` are the addresses that are dialled for bootstrap servers.
        """
        node = None if key is None else self._topology.nodes.get(key)
        if node is not None and (only := routes.only(node.key.label, node.advertised)) is not None:
            return only.dial == dial
        if dial in servers:
            return True
        return key is not None and any(dial == other.advertised for other in self._topology.nodes.values())

    def _in_use(self, address: Address, key: NodeKey) -> bool:
        servers = self.dialled_servers
        if address in servers or self._may_be_route(self.routes, servers, key, address):
            return True
        routes = (reached.route for reached in self.reachability.nodes.values())  # it may be another node's by mistake
        return any(route is not None and route.dial == address for route in routes)

    @property
    def dialled_servers(self) -> Sequence[Address]:
        """The address that is dialled for each bootstrap server, in their order."""
        if not self._config.map and not self._config.forward_command:
            return self._config.bootstrap_servers
        return [self.routes.of_server(server).dial for server in self._config.bootstrap_servers]

    @property
    def forwards(self) -> ForwardCommands:
        """The commands that forward to nodes and bootstrap servers."""
        return self._connector.forwards

    def _is_present(self, label: str) -> bool:
        node = self._topology.nodes.get(NodeKey.of(label))
        return node is not None and node.absent_since is None

    def _on_forward_end(self, label: str) -> None:
        """Find out at once that a node can no longer be reached, because the command that forwards to it has ended."""
        if label and (key := NodeKey.of(label)) in self._topology.nodes and self.reachability.of_node(key).route:
            self._tasks.create_task(self.try_node(key))

    async def close(self) -> None:
        """Close what is kept open for later connections."""
        await self._connector.close()

    def forget(self, keys: Collection[NodeKey]) -> None:
        """Forget nodes that are no longer in any metadata."""
        self.reachability.forget(keys)
        for key in keys:
            self._outages.end(key)
            self.verifier.forget(key)
            self.forwards.release(key.label)

    def note(self, fact: Fact) -> None:
        """Take in a fact, and pass it on if it is new.

        Facts about addresses that are no longer used, and about forgotten nodes, are ignored.
        """
        match fact:
            case DialOutcome(key) if key not in self._topology.nodes:
                return
            case NodeAddress(address, key, _) if not self._in_use(address, key):
                return
            case DialOutcome(key, NodeReachability(route)) if route is not None and not self._in_use(route.dial, key):
                return
            case DialOutcome(key, NodeReachability(problem=None)):
                self._outages.end(key)
            case DialOutcome(key, reached):
                self._outages.begin(key)
                log_route_ended(self._config.title, key, self.reachability.of_node(key), reached)
            case BootstrapAnswer() | ExplorationState(answered=True, conflict=None):
                self._outages.end(None)
        if self.reachability.note(fact):
            if isinstance(fact, NodeAddress):
                log_route_taken(self._config.title, self.reachability, fact)
            if self.reachability.exploration.bootstrap_asked:
                self.bootstrap_asked.set()
            if self.reachability.exploration.searched:
                self.searched.set()
            self._on_news(fact)

    async def connect(self, address: Address) -> socket.socket:
        """Connect to something that is no broker, through the same maps and hops. Raises UpstreamError."""
        return await self._connector.connect(self.routes.of_other_server(address))

    def hops_and_address(self, address: Address) -> tuple[object, Address]:
        """Return the hops to something that is no broker, and the address that is dialled behind them."""
        return self._config.via, self.routes.of_other_server(address)

    def unused_maps(self) -> list[RouteMap]:
        """Return the maps that match no node, no bootstrap server and no target of a forwarded port."""
        for forward in self._config.forward:
            self.routes.of_other_server(forward.to)
        return self.routes.unused_maps()

    async def dial(self, key: NodeKey | None, request: VersionsRequest | None = None) -> VerifiedConnection:
        """Connect to a node, or, for None, to a bootstrap server.

        `request`: the first request of the client, which may serve to verify the connection. Raises UpstreamError;
        Unreachable if the node, not this machine, is the problem; Misrouted if it is no request for this node.
        """
        try:
            connection = await self._dial(key, request)
        except UpstreamError as error:
            if error.reason == "limit" or isinstance(error, Misrouted):
                raise
            if key is None or key in self._topology.nodes:
                outage = self._outages.begin(key)
            else:  # it was forgotten meanwhile
                outage = Outage(asyncio.get_running_loop().time())
            raise Unreachable(error, outage) from None
        self._outages.end(key)
        return connection

    async def _dial(self, key: NodeKey | None, request: VersionsRequest | None) -> VerifiedConnection:
        # Until all bootstrap servers have been asked it is not known whether they are of one cluster.
        if not self.bootstrap_asked.is_set():
            await self.bootstrap_asked.wait()
        conflict = self.reachability.exploration.conflict
        if conflict is not None:
            raise UpstreamError("wrong-cluster", conflict)
        if request is not None and request.cluster_id is not None:
            self._check_expected(key, request.cluster_id, request.node_id)
        if key is None:
            return await self._dial_bootstrap(request)
        try:
            return await self._dial_node(key, request, for_client=True)
        except UpstreamError as error:
            if self.searched.is_set() or isinstance(error, ViaError | LoginRefused):
                raise
        await self.searched.wait()  # the start-up search may find another route
        return await self._dial_node(key, request, for_client=True)

    def _check_expected(self, key: NodeKey | None, cluster_id: str, node_id: int) -> None:
        """Raise Misrouted if a client expects another cluster than this one, or another node than this."""
        served_id = self.reachability.cluster_id
        if served_id not in (None, cluster_id) or (key is not None and key.node_id != node_id):
            expected = f"node {node_id} of cluster {escaped(cluster_id)}"
            raise Misrouted("misrouted", f"the client expects {expected}, which is not here")

    async def _dial_bootstrap(self, request: VersionsRequest | None) -> VerifiedConnection:
        """Connect to a bootstrap server, beginning with the one that worked last. Raises UpstreamError."""
        servers = self._config.bootstrap_servers
        errors: list[UpstreamError] = []
        for step in range(len(servers)):
            index = (self.reachability.bootstrap_index + step) % len(servers)
            try:
                route, name = self.routes.of_server(servers[index]), servers[index].host
                upstream = await self.verifier.connect(None, route, name, request, for_client=True)
            except UpstreamError as error:
                errors.append(_without_traceback(error))
                if isinstance(error, ViaError | LoginRefused):  # all of them are behind it, or would refuse it as well
                    break
                continue
            if index != self.reachability.bootstrap_index:
                self.note(BootstrapAnswer(index))
            _log_wrong_addresses(BOOTSTRAP, errors)
            return upstream
        raise _combined(errors)

    async def _dial_node(
        self, key: NodeKey, request: VersionsRequest | None = None, *, for_client: bool = False
    ) -> VerifiedConnection:
        """Connect to a node along its route. Raises UpstreamError."""
        errors: list[UpstreamError] = []
        for route in self.candidates(key):
            try:
                host = self.verifier.advertised(key).host
                upstream = await self.verifier.connect(key, route, host, request, for_client=for_client)
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
            self._log_loop(key, failure)
        lasting = all(error.lasting for error in errors)
        reached = NodeReachability(problem=str(failure), reason=failure.reason, since=time(), lasting=lasting)
        self.note(DialOutcome(key, reached))
        raise failure

    def _log_loop(self, key: NodeKey, failure: UpstreamError) -> None:
        """Log a loop also where no client uses the node: its broker, or a map, is wrong.

        Problems at start are displayed together with all nodes.
        """
        news = self.reachability.of_node(key).problem != str(failure)
        if news and self.searched.is_set():
            # A broker may name thousands of such nodes.
            topic = about(self._config.title, "loop", key.log_subject)
            log.warning("cluster %s: %s %s", self._config.title, key, CANNOT_BE_REACHED(problem=failure), extra=topic)

    def candidates(self, key: NodeKey) -> list[Route]:
        """Return the routes to a node, best first.

        The one that worked last comes first, then the order of `Routes`; last of all an address that was another
        node's.
        """
        reachability = self.reachability
        learned = [node_address.address for node_address in reachability.addresses_of(key)]
        unidentified = [server for server in self.dialled_servers if self.verifier.may_be_any_node(server)]
        routes = self.routes.candidates(key.label, self.verifier.advertised(key), learned, unidentified)
        worked = reachability.of_node(key).route

        def order(route: Route) -> tuple[bool, bool]:
            known = reachability.node_addresses.get(route.dial)
            return known is not None and known.key != key, route != worked

        return sorted(routes, key=order)

    async def try_node(self, key: NodeKey) -> None:
        """Check whether a node can be reached; `reachability` has the outcome."""
        try:
            upstream = await self._dial_node(key)
        except UpstreamError:
            return
        upstream.sock.close()

    def claim_cluster_id(self, cluster_id: str, reported_by: Address) -> str:
        """Take in the cluster id that a broker reports; return the id of the cluster that is served."""
        if self.reachability.cluster_id is None and (agreed := self._agree(cluster_id)) != cluster_id:
            self.reachability.cluster_id, self.reachability.by_agreement = agreed, True
        return self.reachability.claim_cluster_id(cluster_id, reported_by)


def _without_traceback(error: UpstreamError) -> UpstreamError:
    """Return the error without its frames, which keep objects such as all nodes that a broker named.

    The garbage collector would find them late, which matters when a thousand dials fail.
    """
    return error.with_traceback(None)


def _log_wrong_addresses(label: str, errors: Sequence[UpstreamError]) -> None:
    """Log the addresses that lead to another cluster or node, although another address works."""
    for number, error in enumerate(errors):
        if error.reason in ("wrong-cluster", "wrong-node"):
            log.warning("%s; kproxy used the next address", error, extra=about(label, number, error.reason))


def _combined(errors: list[UpstreamError]) -> UpstreamError:
    texts = list(dict.fromkeys(str(error) for error in errors))
    return UpstreamError(errors[0].reason, "; ".join(texts))
