"""The verification of connections: open one, ask who answers, and check that it is the expected node.

Where only clients have credentials, this happens within the client's session, after its login.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from time import monotonic, perf_counter, time
from typing import TYPE_CHECKING, TypeVar

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.messages.start import (
    ANOTHER_NODE,
    CONTROLLER_ANSWERS,
    NO_BROKER_ANSWERS,
    NO_CLUSTER_ID,
    NO_EXPECTED_NODE,
    NODE_ASSUMED,
    NODE_UNKNOWN,
)
from kproxy.client.ask.channel import Channel
from kproxy.config import ClusterConfig
from kproxy.net.dial.routes import Route, RouteKind
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest
from kproxy.proxy.cluster.identity import BrokerIdentifier, BrokerIdentity, ClosedOnOptionalRequest, LoginRequired
from kproxy.proxy.cluster.nodecheck import Verdict
from kproxy.proxy.cluster.reachability import (
    BootstrapAnswer,
    DialOutcome,
    NodeAddress,
    NodeReachability,
    OtherCluster,
    Proof,
)
from kproxy.proxy.cluster.timelimits import TimeLimits
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.cluster.upstreamconnector import UpstreamConnection, UpstreamConnector
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.metrics.registry import BOOTSTRAP
from kproxy.proxy.switching.logins import LoginMode

if TYPE_CHECKING:
    from kproxy.proxy.cluster.nodedialer import NodeDialer

log = logging.getLogger(__name__)

T = TypeVar("T")

# For this many seconds, a bootstrap server that is one node is not tried for another.
_IDENTITY_VALID_FOR = 5.0
# For this many seconds, kproxy does not ask a bootstrap server whether it is the node that it was before, once it was
# another: a load balancer may be there.
_NOT_GUESSED_FOR = 300.0
# For this many seconds, kproxy asks more of a broker that has confirmed its node and has then closed the connection on
# the client's first request: it may require a login.
_DOUBTED_FOR = 30.0
# How often kproxy connects to one address because the broker closes the connection on a question.
_ATTEMPTS = 6


class NodeVerifier:
    """The verifier of one upstream's connections. The facts that it finds go to the dialer."""

    def __init__(
        self,
        config: ClusterConfig,
        topology: Topology,
        metrics: Metrics,
        connector: UpstreamConnector,
        dialer: NodeDialer,
    ) -> None:
        self._config = config
        self._topology = topology
        self._metrics = metrics
        self._connector = connector
        self._dialer = dialer
        self._identifier = BrokerIdentifier(topology)
        self._limits = TimeLimits()
        self._assumed: set[NodeKey] = set()  # nodes whose warning was logged
        self._identified_at: dict[Address, float] = {}  # when a bootstrap server was last identified
        self._not_guessed_until: dict[Address, float] = {}  # of a bootstrap server, which of the nodes it is

    def reconfigure(self, config: ClusterConfig) -> None:
        """Use this configuration from now on. kproxy finds out again whether brokers require a login first."""
        self._config = config
        self._identifier = BrokerIdentifier(self._topology)

    def forget(self, key: NodeKey) -> None:
        """Forget a node that is no longer in any metadata."""
        self._assumed.discard(key)

    @property
    def verifies_in_session(self) -> bool:
        """True if brokers answer only after a login, which the client must make."""
        return self._identifier.requires_login and not self._connector.logs_in

    @property
    def login(self) -> LoginMode:
        """The party that logs in to the brokers, as far as is known."""
        if self._config.clients_log_in and self._config.login_as != "client":
            return LoginMode.USERS
        return LoginMode.KPROXY if self._connector.logs_in else self._identifier.login

    def may_be_any_node(self, server: Address) -> bool:
        """Check whether it has been unknown for a while which node a bootstrap server is.

        A port-forward to another node may have been repaired.
        """
        return monotonic() - self._identified_at.get(server, float("-inf")) > _IDENTITY_VALID_FOR

    def advertised(self, key: NodeKey) -> Address:
        """Return the advertised address of a node. Raises UpstreamError if the node was forgotten."""
        node = self._topology.nodes.get(key)
        if node is None:
            raise UpstreamError("other", f"{key} is no longer in the metadata")
        return node.advertised

    async def connect(
        self,
        key: NodeKey | None,
        route: Route,
        name: str,
        request: VersionsRequest | None = None,
        *,
        for_client: bool = False,
    ) -> VerifiedConnection:
        """Open and verify a connection to a node, or, for None, to a bootstrap server.

        `name` is the host name that the certificate must have, whatever address the route dials. `request` is the
        client's first request, with which kproxy may verify the connection. `for_client`: if the client logs in at
        kproxy, kproxy logs in within its session. Raises UpstreamError.
        """
        if self._config.client_tls_principal_rules is not None:
            request = None  # the client gets no answer before the user of its certificate is known
        later = for_client and self._config.clients_log_in and self._connector.logs_in
        began = perf_counter()
        try:
            for _ in range(_ATTEMPTS):
                try:
                    connection = await self._connect_once(key, route, name, request, later)
                    break
                except (LoginRequired, ClosedOnOptionalRequest) as error:
                    closed = error
            else:
                raise UpstreamError(closed.reason, f"{route.dial}: {closed}")
        except UpstreamError as error:
            self._count_failure(key, error)
            raise
        self._count_dial(key, perf_counter() - began)
        return connection

    def _count_dial(self, key: NodeKey | None, seconds: float) -> None:
        if key is None or key in self._topology.nodes:  # else it was forgotten meanwhile, with its counters
            label = BOOTSTRAP if key is None else key.label
            self._metrics.add_dial(self._config.name, label, seconds, self._config.upstream)

    def _count_failure(self, key: NodeKey | None, error: UpstreamError) -> None:
        if key is None or key in self._topology.nodes:
            label = BOOTSTRAP if key is None else key.label
            self._metrics.count_dial_failure(self._config.name, label, error.reason, self._config.upstream)

    async def _connect_once(
        self, key: NodeKey | None, route: Route, name: str, request: VersionsRequest | None, later: bool
    ) -> VerifiedConnection:
        """Open a connection and find out who answers; `later`: log in and do so within the client's session."""
        dial, check = route.dial, self._identifier.check
        connection = await self._connector.open(dial, name, logs_in=not later)
        answer: bytes | None = None
        verify = log_in = None
        try:
            if later:
                verify = partial(self._verify, key, route, connection.names)
                log_in = partial(self._connector.log_in, address=dial, name=name)
            elif self.verifies_in_session:
                if key is not None:
                    self._note_reached(key, route, Proof.UNCHECKED)
                verify = partial(self._verify, key, route, connection.names)
            else:
                answer = await self._confirm(connection.channel, key, route, request, self._connector.logs_in)
                if answer is None:
                    self._judge(key, route, await self._identify_connection(connection, dial, key))
                else:
                    _check_no_excess(connection, dial)
        except BaseException:
            connection.sock.close()
            raise
        return VerifiedConnection(
            connection.sock,
            key,
            dial,
            connection.login,
            verify,
            log_in,
            answer or b"",
            check.newest(dial),
            partial(check.distrust, dial, _DOUBTED_FOR),
        )

    async def _confirm(
        self, channel: Channel, key: NodeKey | None, route: Route, request: VersionsRequest | None, logged_in: bool
    ) -> bytes | None:
        """Let the broker confirm that it is the expected node, if that proves it.

        Return the body of its response to the client's request, b"" without one; None if it is not known yet who
        answers. Raises UpstreamError.
        """
        dial = route.dial
        node_address = self._dialer.reachability.node_addresses.get(dial)
        expected = key if key is not None or node_address is None else node_address.key
        cluster_id = self._dialer.reachability.cluster_id
        if (
            expected is None
            or expected.kind is not NodeKind.BROKER
            or cluster_id is None
            or not self._identifier.may_confirm(dial, logged_in=logged_in)
        ):
            return None
        if key is None and not self._may_guess(dial):
            return None
        wanted = (None, -1) if request is None else (request.cluster_id, request.node_id)
        if wanted != (None, -1) and (key is None or wanted != (cluster_id, key.node_id)):
            return None  # only the broker may judge a request that names something else than kproxy expects
        asking = self._identifier.confirm(channel, dial, cluster_id, expected.node_id, request)
        verdict, response = await self._limit(asking, dial)
        if verdict is Verdict.CONFIRMED:
            self._note_identified(dial, expected, Proof.CONFIRMED)
            if key is not None:
                self._note_reached(key, route, Proof.CONFIRMED)
            return response
        if key is None:  # another node of the cluster, perhaps: the address may be a load balancer's
            self._not_guessed_until[dial] = monotonic() + _NOT_GUESSED_FOR
        return None

    def _may_guess(self, server: Address) -> bool:
        """Check whether a bootstrap server is one node, not each time another, as far as is known."""
        return not self._not_guessed_until or monotonic() >= self._not_guessed_until.get(server, 0.0)

    async def identify_bootstrap(self, dial: Address, name: str) -> BrokerIdentity:
        """Ask a bootstrap server who it is, on its own connection. Raises UpstreamError (LoginRequired).

        `name` is the host name that the certificate must have.
        """
        began = perf_counter()
        try:
            identity = await self._identify_bootstrap(dial, name)
        except UpstreamError as error:
            if not isinstance(error, LoginRequired):
                self._count_failure(None, error)
            raise
        self._count_dial(None, perf_counter() - began)
        return identity

    async def _identify_bootstrap(self, dial: Address, name: str) -> BrokerIdentity:
        for _ in range(_ATTEMPTS):
            connection = await self._connector.open(dial, name)
            with connection.sock:
                try:
                    return await self._identify_connection(connection, dial)
                except ClosedOnOptionalRequest as error:
                    closed = error
        raise UpstreamError(closed.reason, f"{dial}: {closed}")

    async def _identify_connection(
        self, connection: UpstreamConnection, address: Address, expected: NodeKey | None = None
    ) -> BrokerIdentity:
        """Ask who answers at a new connection. Raises UpstreamError."""
        before = self._dialer.reachability.node_addresses.get(address)
        expected_key = before.key if expected is None and before is not None else expected
        identifying = self._identifier.identify(
            connection.channel,
            expected_key,
            connection.names,
            logged_in=self._connector.logs_in,
            address=address,
            finds=expected is not None or self._may_guess(address),
        )
        identity = await self._identify(identifying, address)
        _check_no_excess(connection, address)
        return identity

    async def _verify(
        self,
        key: NodeKey | None,
        route: Route,
        names: Sequence[str],
        channel: Channel,
        request: VersionsRequest | None = None,
        *,
        confirmable: bool = True,
    ) -> bytes:
        """Verify a connection within a client's session, as `Verify`."""
        if confirmable and (answer := await self._confirm(channel, key, route, request, True)) is not None:
            return answer
        identifying = self._identifier.identify(channel, key, names, logged_in=True, address=route.dial)
        identity = await self._identify(identifying, route.dial)
        try:
            self._judge(key, route, identity)
        except UpstreamError as error:
            if key is not None:
                problem = NodeReachability(problem=str(error), reason=error.reason, since=time())
                self._dialer.note(DialOutcome(key, problem))
            else:  # the client's next attempt begins with the next server
                servers = self._dialer.dialled_servers
                if route.dial in servers:  # else a reload has taken it away meanwhile
                    self._dialer.note(BootstrapAnswer((servers.index(route.dial) + 1) % len(servers)))
            raise
        return b""

    async def _identify(self, identifying: Awaitable[BrokerIdentity], address: Address) -> BrokerIdentity:
        identity = await self._limit(identifying, address)
        if identity.cluster_id is None and self._config.cluster_id is not None:
            raise UpstreamError(*NO_CLUSTER_ID.with_reason(address=address))
        return identity

    async def _limit(self, asking: Awaitable[T], address: Address) -> T:
        """Limit the time that a broker may take. Raises UpstreamError, which names the address."""
        try:
            with self._limits.after(self._config.connect_timeout):
                return await asking
        except TimeoutError:
            self._identifier.check.note_timeout(address)
            raise UpstreamError("timeout", f"{address}: {NO_BROKER_ANSWERS()}") from None
        except (LoginRequired, ClosedOnOptionalRequest):
            raise
        except (UpstreamError, WireError) as error:
            raise UpstreamError(error.reason, f"{address}: {error}") from None

    # Whether it is the expected node

    def _judge(self, key: NodeKey | None, route: Route, identity: BrokerIdentity) -> None:
        """Note who answered; raise UpstreamError if it is not the expected cluster and node."""
        address = route.dial
        if (
            identity.cluster_id is not None
            and self._dialer.claim_cluster_id(identity.cluster_id, address) != identity.cluster_id
        ):
            self._dialer.note(OtherCluster(address, identity.cluster_id))
            raise UpstreamError(
                "wrong-cluster", self._dialer.reachability.other_cluster_text(address, identity.cluster_id)
            )
        self.note_identity(address, identity)
        if key is None:
            if identity.is_controller and self._topology.has_brokers:
                raise UpstreamError(*CONTROLLER_ANSWERS.with_reason(address=address))
            return
        if identity.key is None:
            if identity.refused:
                raise UpstreamError(*NO_EXPECTED_NODE.with_reason(address=address, expected=key))
            if route.kind is RouteKind.UNIDENTIFIED:
                raise UpstreamError(*NODE_UNKNOWN.with_reason(address=address, node=key.label))
            self._warn_assumed(key, route)
        elif identity.key != key:
            raise UpstreamError(*ANOTHER_NODE.with_reason(address=address, node=identity.key, expected=key))
        self._note_reached(key, route, identity.proof or Proof.ASSUMED)

    def note_identity(self, address: Address, identity: BrokerIdentity) -> None:
        """Note the node at an address, if the answer shows it."""
        if identity.key is not None and identity.proof is not None:
            self._note_identified(address, identity.key, identity.proof)

    def _note_identified(self, address: Address, key: NodeKey, proof: Proof) -> None:
        if address in self._dialer.dialled_servers:
            self._identified_at[address] = monotonic()
        before = self._dialer.reachability.node_addresses.get(address)
        if before is None or before.key != key or before.proof is not proof:
            self._dialer.note(NodeAddress(address, key, proof))

    def _note_reached(self, key: NodeKey, route: Route, proof: Proof) -> None:
        before = self._dialer.reachability.of_node(key)
        if route.kind is RouteKind.UNIDENTIFIED and proof.checked:
            route = Route(route.dial, RouteKind.LEARNED)
        if before.problem is None and before.proof is proof and before.route == route:
            return
        if before.route != route and route.kind is not RouteKind.ADVERTISED and self._dialer.searched.is_set():
            log.info("%s is reached through %s (%s)", key, route.dial, route.kind.value)
        self._dialer.note(DialOutcome(key, NodeReachability(route, proof)))

    def _warn_assumed(self, key: NodeKey, route: Route) -> None:
        if key not in self._assumed:
            self._assumed.add(key)
            log.warning(NODE_ASSUMED(node=key, dial=route.dial))


def _check_no_excess(connection: UpstreamConnection, address: Address) -> None:
    """Raise UpstreamError if the broker has sent more than kproxy has asked for."""
    try:
        connection.channel.check_no_excess()
    except WireError as error:
        raise UpstreamError(error.reason, f"{address}: {error}") from None
