"""Meeting whoever is at the end of a route: open a connection, ask who is there, judge whether it is the right one.

Also within a client's session, after its login, where only the client has credentials.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter, time
from typing import TYPE_CHECKING, Protocol, TypeVar

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, WireError
from kproxy.client.ask.channel import Channel
from kproxy.config import ClusterConfig
from kproxy.net.dial.routes import Route, RouteKind
from kproxy.proxy.cluster.identity import BrokerIdentifier, BrokerIdentity, ClosedOnOptionalRequest, LoginRequired
from kproxy.proxy.cluster.reachability import (
    BootstrapAnswer,
    DialOutcome,
    Fact,
    NodeAddress,
    NodeReachability,
    Proof,
    ReachabilityState,
)
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.cluster.upstreamconnector import UpstreamConnection, UpstreamConnector
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.metrics.registry import BOOTSTRAP as BOOTSTRAP
from kproxy.proxy.switching.logins import LoginMode

if TYPE_CHECKING:
    from kproxy.client.sasl.login import LoginContext

log = logging.getLogger(__name__)

T = TypeVar("T")

# For how long a bootstrap server that is one node is not tried for another, in seconds.
_BELIEVED = 5.0
# How often one address is connected to again because a broker has hung up on a question.
_QUESTIONS = 6


@dataclass(frozen=True, slots=True)
class VerifiedConnection:
    """An open upstream connection. `key`: to which node; None: to a bootstrap server. `login`: what came of kproxy's
    own login to the broker, if it made one. `check`: what must be asked within the client's session, after its login
    and before its first request passes; None: it is known whom the connection leads to. `dial`: the address that was
    dialled."""

    sock: socket.socket
    key: NodeKey | None = None
    login: LoginContext | None = None
    check: Callable[[Channel], Awaitable[None]] | None = None
    dial: Address | None = None


class FactRecorder(Protocol):
    """Where what is found out goes: `Reach`."""

    @property
    def known(self) -> ReachabilityState: ...
    @property
    def searched(self) -> asyncio.Event: ...
    def note(self, fact: Fact) -> None: ...
    def claim(self, cluster_id: str, said_by: Address) -> str: ...


class NodeVerifier:
    """Those of one cluster."""

    def __init__(
        self,
        config: ClusterConfig,
        topology: Topology,
        metrics: Metrics,
        opener: UpstreamConnector,
        facts: FactRecorder,
    ) -> None:
        self._config = config
        self._topology = topology
        self._metrics = metrics
        self._opener = opener
        self._facts = facts
        self._identities = BrokerIdentifier(topology)
        self._assumed: set[NodeKey] = set()  # what was said of them
        self._told_at: dict[Address, float] = {}  # when a bootstrap server last told which node it is

    def reconfigure(self, config: ClusterConfig) -> None:
        """Judge by this from now on. Whether brokers want a login first is found out anew."""
        self._config = config
        self._identities = BrokerIdentifier(self._topology)

    def forget(self, key: NodeKey) -> None:
        """The node is in no metadata any more."""
        self._assumed.discard(key)

    @property
    def within_sessions(self) -> bool:
        """Whether brokers answer after a login only, which is the client's to make."""
        return self._identities.wants_login and not self._opener.logs_in

    @property
    def login(self) -> LoginMode:
        """Who logs in to the brokers, as far as is known."""
        return LoginMode.KPROXY if self._opener.logs_in else self._identities.login

    def may_be_any(self, server: Address) -> bool:
        """Whether nobody has told for a while which node a bootstrap server is: a port-forward that led elsewhere may
        have been mended."""
        return monotonic() - self._told_at.get(server, float("-inf")) > _BELIEVED

    def advertised(self, key: NodeKey) -> Address:
        """Where the node says that it is. Raises UpstreamError if it was forgotten meanwhile."""
        node = self._topology.nodes.get(key)
        if node is None:
            raise UpstreamError("other", f"{key} is no longer in the metadata")
        return node.advertised

    async def meet(self, key: NodeKey | None, route: Route) -> VerifiedConnection:
        """Open a connection to a node, or, for None, to a bootstrap server, and see whom it leads to. Raises
        UpstreamError."""
        name = route.dial.host if key is None else self.advertised(key).host
        return await self._counted(key, self._meet(key, route, name))

    async def _meet(self, key: NodeKey | None, route: Route, name: str) -> VerifiedConnection:
        for _ in range(_QUESTIONS):
            try:
                return await self._meet_once(key, route, name)
            except (LoginRequired, ClosedOnOptionalRequest) as error:
                hung_up = error
        raise UpstreamError(hung_up.reason, f"{route.dial}: {hung_up}")

    async def _counted(self, key: NodeKey | None, meeting: Awaitable[T]) -> T:
        began, label = perf_counter(), BOOTSTRAP if key is None else key.label
        try:
            met = await meeting
        except LoginRequired:
            raise
        except UpstreamError as error:
            if key is None or key in self._topology.nodes:  # else it was forgotten meanwhile, with what was counted
                self._metrics.dial_failed(self._config.name, label, error.reason, self._config.upstream)
            raise
        if key is None or key in self._topology.nodes:
            self._metrics.dialled(self._config.name, label, perf_counter() - began, self._config.upstream)
        return met

    async def _meet_once(self, key: NodeKey | None, route: Route, name: str) -> VerifiedConnection:
        """Open a connection and ask who is there."""
        opened = await self._opener.open(route.dial, name)
        try:
            if self.within_sessions:
                if key is not None:
                    self._note_reached(key, route, Proof.UNCHECKED)
                return VerifiedConnection(
                    opened.sock, key, opened.login, partial(self._check, key, route, opened.names), route.dial
                )
            self._judge(key, route, await self._identify_new(opened, route.dial, key))
        except BaseException:
            opened.sock.close()
            raise
        return VerifiedConnection(opened.sock, key, opened.login, dial=route.dial)

    async def meet_bootstrap(self, server: Address) -> BrokerIdentity:
        """Ask a bootstrap server who it is, on a connection for that alone. Raises UpstreamError (WantsLogin)."""
        return await self._counted(None, self._meet_bootstrap(server))

    async def _meet_bootstrap(self, server: Address) -> BrokerIdentity:
        for _ in range(_QUESTIONS):
            opened = await self._opener.open(server, server.host)
            with opened.sock:
                try:
                    return await self._identify_new(opened, server)
                except ClosedOnOptionalRequest as error:
                    hung_up = error
        raise UpstreamError(hung_up.reason, f"{server}: {hung_up}")

    async def _identify_new(
        self, opened: UpstreamConnection, address: Address, expected: NodeKey | None = None
    ) -> BrokerIdentity:
        """Ask who is at the other end of a new connection. Raises UpstreamError."""
        before = self._facts.known.leads_to.get(address)
        supposed = before.key if expected is None and before is not None else expected
        asking = self._identities.ask(opened.ask, supposed, opened.names, logged_in=self._opener.logs_in)
        return await self._identify(asking, address, opened.ask.finish)

    async def _check(self, key: NodeKey | None, route: Route, names: Sequence[str], ask: Channel) -> None:
        """The same within a client's session, after its login. Raises UpstreamError."""
        identity = await self._identify(self._identities.ask(ask, key, names, logged_in=True), route.dial)
        try:
            self._judge(key, route, identity)
        except UpstreamError as error:
            if key is not None:
                problem = NodeReachability(problem=str(error), reason=error.reason, since=time())
                self._facts.note(DialOutcome(key, problem))
            else:  # the client's next attempt begins with the next one
                servers = self._config.bootstrap_servers
                if route.dial in servers:  # else a reload has taken it away meanwhile
                    self._facts.note(BootstrapAnswer((servers.index(route.dial) + 1) % len(servers)))
            raise

    async def _identify(
        self, asking: Awaitable[BrokerIdentity], address: Address, finish: Callable[[], None] = lambda: None
    ) -> BrokerIdentity:
        seconds = self._config.connect_timeout
        try:
            async with asyncio.timeout(seconds):
                identity = await asking
            finish()
        except TimeoutError:
            raise UpstreamError("timeout", f"{address}: connected, but no Kafka broker answers there") from None
        except (LoginRequired, ClosedOnOptionalRequest):
            raise
        except (UpstreamError, WireError) as error:
            raise UpstreamError(error.reason, f"{address}: {error}") from None
        if identity.cluster_id is None and self._config.cluster_id is not None:
            text = "answers, but does not say which cluster it belongs to, and --cluster-id requires one"
            raise UpstreamError("wrong-cluster", f"{address} {text}")
        return identity

    # Whether it is the right one

    def _judge(self, key: NodeKey | None, route: Route, identity: BrokerIdentity) -> None:
        """Note who answered; raise UpstreamError if it is not who was to be reached."""
        address = route.dial
        if identity.cluster_id is not None and self._facts.claim(identity.cluster_id, address) != identity.cluster_id:
            raise UpstreamError("wrong-cluster", self._facts.known.another(address, identity.cluster_id))
        self.note_identity(address, identity)
        if key is None:
            return
        if identity.key is None:
            if route.kind is RouteKind.UNTOLD:
                raise UpstreamError(
                    "unknown-node",
                    f"{address} answers, but kproxy cannot tell which broker it is: give the user DescribeConfigs on"
                    f" the cluster, or Describe on a topic, or set --map node:{key.label}=HOST:PORT",
                )
            self._say_assumed(key, route)
        elif identity.key != key:
            raise UpstreamError("wrong-node", f"{address} answers, but it is {identity.key} of this cluster, not {key}")
        self._note_reached(key, route, identity.proof or Proof.ASSUMED)

    def note_identity(self, address: Address, identity: BrokerIdentity) -> None:
        """An address has told which node it is, or not."""
        key, proof = identity.key, identity.proof
        if key is not None and proof is not None:
            if address in self._config.bootstrap_servers:
                self._told_at[address] = monotonic()
            before = self._facts.known.leads_to.get(address)
            if before is None or before.key != key or before.proof is not proof:
                self._facts.note(NodeAddress(address, key, proof))

    def _note_reached(self, key: NodeKey, route: Route, proof: Proof) -> None:
        before = self._facts.known.reached(key)
        if route.kind is RouteKind.UNTOLD and proof.checked:
            route = Route(route.dial, RouteKind.LEARNED)
        if before.problem is None and before.proof is proof and before.route == route:
            return
        if before.route != route and route.kind is not RouteKind.ADVERTISED and self._facts.searched.is_set():
            log.info("%s is reached through %s (%s)", key, route.dial, route.kind.value)
        self._facts.note(DialOutcome(key, NodeReachability(route, proof)))

    def _say_assumed(self, key: NodeKey, route: Route) -> None:
        if key not in self._assumed:
            self._assumed.add(key)
            log.warning(
                "%s: kproxy assumes that %s is this broker: the cluster is the right one, but kproxy cannot tell which"
                " broker it is. To let kproxy check, give the user DescribeConfigs on the cluster, or Describe on a"
                " topic",
                key, route.dial,
            )  # fmt: skip
