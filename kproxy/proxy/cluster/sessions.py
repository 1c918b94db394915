"""The sessions of one cluster: each begins when the node of a client is connected, and kproxy logs how it ended."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator, Sequence
from functools import partial
from time import time
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.messages.logins import CLOSED_DURING_LOGIN
from kproxy.base.messages.sessions import CLOSED_BEFORE_FIRST_ANSWER
from kproxy.base.messages.start import NO_BROKER_ANSWERS
from kproxy.base.printable import one_line
from kproxy.base.repeats import about
from kproxy.config import ClusterConfig
from kproxy.net.tls import faults
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.protocol.wire.greeting import client_login_error, explain_host_bound_login
from kproxy.proxy.cluster.clientconnection import ClientConnection, ConnectionState
from kproxy.proxy.cluster.clientroute import ClientRoute, ClusterUpdate, DialNode, LocaliseForHost, Routes
from kproxy.proxy.cluster.clusteraccess import ClusterAccess
from kproxy.proxy.cluster.encryption import client_tls
from kproxy.proxy.cluster.insessionchannel import keep_logged_in, verify_within
from kproxy.proxy.cluster.nodecalls import NodeCalls
from kproxy.proxy.cluster.observers import ReadLabels, SessionObservers, session_status
from kproxy.proxy.cluster.pendingconnections import NodeExists, PendingConnections, node_text
from kproxy.proxy.cluster.sessionparts import SessionParts
from kproxy.proxy.cluster.unknownapis import warn_of_unknown_apis
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection, Verify
from kproxy.proxy.login.username import read_user_name
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.calls import SessionCalls
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.pump import Pump
from kproxy.proxy.relay.session import Session
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.watch.feed import SessionLabels

if TYPE_CHECKING:
    from kproxy.client.sasl.login import LoginContext
    from kproxy.proxy.cluster.clientlogins import ClientLogins
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit
    from kproxy.proxy.relay.guard import EpochGuard

log = logging.getLogger(__name__)

# At the port or the name of a node that does not exist, a client reaches a bootstrap server, which lists the nodes. The
# session lasts this many seconds. If it lasted longer, the client would take the bootstrap server for the node.
_BOOTSTRAP_SESSION_SECONDS = 5.0
_LONGEST_MECHANISM, _LONGEST_USER = 40, 100
# A broker that closes a session younger than this, in seconds, may require a login.
_YOUNG = 2.0


class Sessions:
    """The sessions of one cluster; `parts` are its parts."""

    def __init__(
        self,
        config: ClusterConfig,
        dial: DialNode,
        localise: LocaliseForHost,
        node_exists: NodeExists,
        pump: Pump,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        *,
        switches: bool = False,
    ) -> None:
        self._name = config.name
        self._pump = pump
        self._metrics = metrics
        self._tasks = tasks
        self._routes: Routes = {"": ClientRoute(config, dial, localise, _new_unit(config, pump) if switches else None)}
        self._calls = NodeCalls(metrics, config.name)
        self.parts = SessionParts(self._routes, self._open, self._close_pending)
        self._pending = PendingConnections(client_tls(config), self._routes, node_exists, self._on_connected)
        self._connections: dict[ClientConnection, None] = {}
        self.drained = asyncio.Event()  # set while there is no connection
        self.drained.set()
        self._warned_of: set[str] = set()  # mechanisms
        self._is_created_again = False  # another Kafka cluster has taken the place of the served one
        wake = partial(setattr, pump.selector, "wake", True)
        self.access = ClusterAccess(config, metrics, wake)
        self._logins: ClientLogins | None = None  # where clients log in at kproxy
        self._configure_logins(config)
        self._observers = SessionObservers(self._observable)
        self.watch, self.capture = self._observers.watch, self._observers.capture
        self.read_requests = self._observers.read_requests

    def _configure_logins(self, config: ClusterConfig) -> None:
        if not config.clients_log_in:
            self._logins = None
        elif self._logins is not None:
            self._logins.configure(config)
        else:
            from kproxy.proxy.cluster.clientlogins import ClientLogins  # few clusters have it

            wake = partial(setattr, self._pump.selector, "wake", True)
            self._logins = ClientLogins(
                config, self._metrics, self._tasks, wake, self._on_upstream_login, self._on_client_login
            )

    def _on_upstream_login(self, connection: ClientConnection, session: Session, logged_in: LoginContext) -> None:
        if logged_in.result.lifetime_ms:
            connection.relogin = self._tasks.create_task(self._keep_logged_in(connection, session, logged_in))

    def _on_client_login(self, connection: ClientConnection, session: Session) -> None:
        """Show the user of a session, whose requests pass from now on, and judge them by the user's rules."""
        if connection.authorizer is not None:
            self.access.set_user(connection.authorizer, connection.user)
        connection.user = one_line(connection.user, _LONGEST_USER)

    def _logins_at(self, route: ClientRoute) -> ClientLogins | None:
        """Return the logins of clients at kproxy; None if clients of this route log in to brokers, or not at all."""
        return None if route.config.login_as == "client" else self._logins

    def handle_client(self, connection: ClientConnection, first: bytes) -> None:
        """Open a session between a client that has sent its first bytes and its node.

        `first` is what was read of them; b"" before a TLS handshake.
        """
        if (logins := self._logins_at(self._routes[""])) is not None:
            try:
                logins.check_address(connection.peer.host)
            except WireError as error:
                connection.slots.log_refusal(connection.peer, error)
                connection.close()
                return
        connection.state, connection.since = ConnectionState.HANDSHAKING, asyncio.get_running_loop().time()
        connection.on_close = self._forget
        self._connections[connection] = None
        self.drained.clear()
        connection.task = self._tasks.create_task(self._pending.connect(connection, first))

    def _forget(self, connection: ClientConnection) -> None:
        del self._connections[connection]
        if not self._connections:
            self.drained.set()

    def _on_connected(self, connection: ClientConnection, upstream: VerifiedConnection, first: bytes) -> None:
        """Open the session. Raises OSError if the client has already disconnected."""
        route = connection.present_route
        counters = self._metrics.node(self._name, upstream.label)
        calls = self._calls.of(upstream, counters, switches=route.unit is not None)
        try:
            conversation = Conversation(
                calls if route.unit is None else SessionCalls(calls),  # which notes the APIs that are used
                partial(_localise, connection),
                route.config.max_request_size,
                partial(self._metrics.count_rewritten, self._name),
                partial(self._on_handshake, connection),
                partial(self._on_unknown_apis, connection),
                partial(self._on_token, connection),
            )
            on_end = partial(self._ended, connection)
            session = Session(self._pump, connection.sock, upstream.sock, conversation, counters, on_end)
        except OSError:
            upstream.sock.close()
            raise
        connection.open(session, upstream)
        loop = asyncio.get_running_loop()
        if self._observers.is_active:
            self._observers.attach(session, partial(self._labels, connection))
        logins = self._logins_at(route)
        if logins is not None:
            connection.release_dial_slot()
        elif upstream.verify is not None:
            on_held = partial(self._begin_verification, connection, session, upstream.verify)
            session.hold_before_first_request(on_held)
            loop.call_later(route.config.connect_timeout, self._check_answered, connection)
        if route.unit is not None:
            connection.unit = route.unit
            route.unit.session_opened(session, upstream.label, connection.peer.host)
        elif self._is_created_again:
            conversation.guard(_epoch_guard(conversation))
        connection.authorizer = self.access.session_opened(session, connection.peer)
        if logins is not None:
            logins.session_opened(session, connection)
        if upstream.login is not None:
            self._on_upstream_login(connection, session, upstream.login)
        if first:
            session.receive_first(first, upstream.answer)
        if connection.requested_key is not None and upstream.key is None:
            loop.call_later(_BOOTSTRAP_SESSION_SECONDS, partial(connection.drain, gracefully=True))

    def _open(self) -> list[tuple[ClientConnection, Session]]:
        return [(connection, connection.session) for connection in self._connections if connection.session is not None]

    def reconfigure(self, update: ClusterUpdate, seconds: float) -> int:
        """Use this configuration for the next sessions; return how many open sessions it affects.

        Those end when nothing is in flight in them, and after this many seconds in any case. If the cluster can be
        switched now, and could not before, all sessions are affected: their clients have agreed on versions with which
        they could not be switched.
        """
        self._pending.tls = update.tls
        self.access.configure(update.config)
        self._configure_logins(update.config)
        units, cluster_route = {"": (update.config, update.concerns), **update.parts}, self._routes[""]
        for name, (config, _) in units.items():
            self._routes[name].config = config
        becomes_switchable = update.switches and cluster_route.unit is None
        if becomes_switchable:
            self._make_switchable()
        elif not update.switches and cluster_route.unit is not None:
            cluster_route.unit = None
            self._calls.clear()  # open sessions stay as they are
            for name in self._routes.keys() - {""}:
                del self._routes[name]
            for connection, _ in self._open():
                connection.route = cluster_route  # a configuration cannot remove a part with another upstream

        def is_affected(connection: ClientConnection) -> bool:
            _, concerns = units.get(connection.present_route.name, units[""])
            return becomes_switchable or concerns(connection.node.key, connection.node.dial)

        affected = [connection for connection, _ in self._open() if is_affected(connection)]
        # Gracefully: a client that writes without a pause would be disconnected, and in doubt.
        self._drain_within(affected, seconds, gracefully=becomes_switchable)
        return len(affected)

    def _drain_within(
        self, connections: Sequence[ClientConnection], seconds: float, *, gracefully: bool = False
    ) -> None:
        for connection in connections:
            connection.drain(gracefully=gracefully)
        if remaining := [connection for connection in connections if connection.is_open]:
            asyncio.get_running_loop().call_later(seconds, self._close_busy, remaining, seconds)

    def _close_busy(self, connections: Sequence[ClientConnection], seconds: float) -> None:
        busy = [connection for connection in connections if connection.is_open]
        if busy:
            text = "cluster %s: closed %d sessions of the former configuration, still busy after %g s (--drain-timeout)"
            log.warning(text, self._name, len(busy), seconds)
        for connection in busy:
            connection.close()

    def _close_pending(self) -> None:
        for connection in list(self._connections):
            if not connection.is_open:
                connection.close()

    def _make_switchable(self) -> None:
        """Prepare for a switch. The requests that open sessions leave unanswered count from now on."""
        route = self._routes[""]
        unit = route.unit = _new_unit(route.config, self._pump)
        self._calls.clear()
        for connection, session in self._open():
            if connection.unit is not None:  # of an earlier time at which it could be switched
                connection.unit.session_ended(session, connection.peer.host)
            connection.route, connection.unit = route, unit
            unit.adopt_session(session, connection.node.label, connection.peer.host)

    def unit(self, part: str = "") -> SwitchableUnit | None:
        """Return what a switch of a part, or of the cluster without its parts, needs; None if it cannot be switched."""
        route = self._routes.get(part)
        return None if route is None else route.unit

    def flip(self, config: ClusterConfig, part: str = "", *, everyone: bool = False) -> None:
        """Route a part, or the cluster without its parts, to another upstream, and close its connections.

        `config` is that of the upstream. `everyone`: it is unknown which clients have fetched.
        """
        route = self._routes[part]
        route.config = config
        for connection in [connection for connection in self._connections if connection.route is route]:
            connection.close()
        if route.unit is not None:
            route.unit.guards.begin(everyone=everyone)

    def end_guards(self) -> None:
        """End all guards: all clients that run have positions of the upstream that they are routed to."""
        for route in self._routes.values():
            if route.unit is not None:
                route.unit.guards.end()

    def end(self, seconds: float) -> int:
        """Drain all sessions, as if a new configuration affected them: the cluster is no longer served."""
        self._close_pending()
        connections = [connection for connection, _ in self._open()]
        self._drain_within(connections, seconds)
        return len(connections)

    def drain(self) -> None:
        """Close the pending connections, and each open one as soon as nothing is in flight in it.

        `drained` is set when none is left.
        """
        for connection in list(self._connections):
            if connection.is_open:
                connection.drain()
            else:
                connection.close()

    def begin_again(self) -> int:
        """Close all connections, for another Kafka cluster takes the place of this one; return how many had a session.

        Clients may know higher epochs of leaders than those of the new cluster.
        """
        self._is_created_again = True
        return self.close()

    def close(self) -> int:
        """Close all connections now; return how many had a session."""
        remaining = self._open()
        for connection in list(self._connections):
            connection.close()
        return len(remaining)

    # Verification and login within a session

    def _check_answered(self, connection: ClientConnection) -> None:
        """Close a session whose unverified node has not answered its client in time.

        kproxy must answer, too: the node may be another kproxy that waits for this one.
        """
        session, node = connection.session, connection.node
        if session is None or connection.dial_slot is None:
            return
        if session.conversation.in_flight and not session.conversation.answered:
            error = UpstreamError("timeout", f"{node.dial}: {NO_BROKER_ANSWERS()}")
            self._pending.note_unreachable(connection.present_route, node.key, error)
            session.ended_by = "upstream"
            session.close(error)
        connection.release_dial_slot()

    def _begin_verification(self, connection: ClientConnection, session: Session, verify: Verify) -> None:
        connection.release_dial_slot()
        self._tasks.create_task(verify_within(connection, session, verify))

    def _on_handshake(self, connection: ClientConnection, mechanism: str) -> None:
        """Note the mechanism with which a client logs in. Raises WireError if kproxy has logged in for it."""
        if connection.present_route.config.sasl is not None:
            raise client_login_error()
        connection.login = one_line(mechanism, _LONGEST_MECHANISM) or "?"
        warning = explain_host_bound_login(mechanism)
        if warning and mechanism not in self._warned_of:
            self._warned_of.add(mechanism)
            log.warning("cluster %s: %s", self._name, warning)

    def _on_token(self, connection: ClientConnection, token: bytes) -> None:
        """Note the user in a login that passes to the broker."""
        if not connection.broker_user:
            connection.broker_user = one_line(read_user_name(connection.login, token), _LONGEST_USER)

    def _on_unknown_apis(self, connection: ClientConnection, keys: Sequence[int]) -> None:
        if connection.session is not None:
            introduction = connection.session.conversation.introduction
            warn_of_unknown_apis(self._name, connection.peer, introduction, keys)

    async def _keep_logged_in(self, connection: ClientConnection, session: Session, logged_in: LoginContext) -> None:
        try:
            await keep_logged_in(session, logged_in)
        except UpstreamError as error:
            if session.closed:  # the broker closed the connection when it refused
                self._report(connection, "upstream", error.reason, error)
            else:
                connection.relogin, session.ended_by = None, "upstream"
                session.close(error)

    # The end

    def _ended(self, connection: ClientConnection, session: Session, error: Exception | None) -> None:
        connection.close()
        if connection.unit is not None:
            connection.unit.session_ended(session, connection.peer.host)
        if connection.channel is not None:
            connection.channel.session_ended()
        elif connection.client_login is not None:
            connection.client_login.cancel()
        if connection.relogin is not None:
            interrupted = session.conversation.hold_count and session.ended_by == "upstream"
            if interrupted and not session.conversation.in_flight:
                return  # its last answer, which has come, has the reason
            connection.relogin.cancel()
            if interrupted and error is None:
                error = UpstreamError(*CLOSED_DURING_LOGIN.with_reason())
        is_young = time() - connection.opened_at < _YOUNG
        if connection.node.answer and is_young and session.ended_by == "upstream" and session.conversation.in_flight:
            connection.node.on_unanswered()
        if isinstance(error, WireError | UpstreamError):
            self._report(connection, session.ended_by, error.reason, error)
        elif isinstance(error, ssl.SSLError):
            explain = faults.explain_client_error if session.ended_by == "client" else faults.explain_broker_error
            self._report(connection, session.ended_by, *explain(error))
        elif session.ended_by == "upstream" and session.conversation.requested and not session.conversation.answered:
            self._metrics.count_refusal(self._name, "upstream", "no-answer")
            name = node_text(connection.node.key)
            topic = about(self._name, name, connection.peer.host)
            log.warning(CLOSED_BEFORE_FIRST_ANSWER(node=name), extra=topic)

    def _report(self, connection: ClientConnection, side: str, reason: str, text: object) -> None:
        self._metrics.count_refusal(self._name, side, reason)
        name = node_text(connection.node.key)
        topic = about(self._name, name, connection.peer.host, reason)
        log.warning("closed a connection to %s: %s", name, text, extra=topic)

    # For observers

    def _observable(self) -> Iterator[tuple[Session, ReadLabels]]:
        return ((session, partial(self._labels, connection)) for connection, session in self._open())

    def _labels(self, connection: ClientConnection) -> SessionLabels:
        upstream = connection.present_route.config.upstream
        return SessionLabels(
            self._name,
            connection.node.label,
            str(connection.peer),
            connection.user,
            upstream,
            connection.broker_user,
        )

    def shown(self) -> Iterator[SessionStatus]:
        """Yield the status of each open session."""
        for connection, session in self._open():
            yield session_status(session, self._labels(connection), connection.opened_at, connection.login)

    def in_flight(self) -> Iterator[tuple[str, str, int]]:
        """Yield the number of requests without a response, as (cluster, node, number)."""
        for connection, session in self._open():
            yield self._name, connection.node.label, session.conversation.in_flight


def _new_unit(config: ClusterConfig, pump: Pump) -> SwitchableUnit:
    from kproxy.proxy.cluster.sessionguards import SessionGuards  # few clusters can be switched
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit
    from kproxy.proxy.cluster.writehold import WriteHold

    return SwitchableUnit(WriteHold(), SessionGuards(config.name, partial(setattr, pump.selector, "wake", True)))


def _epoch_guard(conversation: Conversation) -> EpochGuard:
    from kproxy.proxy.relay.guard import EpochGuard  # few clusters are created again

    return EpochGuard(lambda: conversation.introduction.software)


def _localise(connection: ClientConnection, endpoints: Endpoints) -> Sequence[Address]:
    """Return the local addresses by the present route of a session: it may have moved to a part, or out of one."""
    return connection.present_route.localise(connection.host, endpoints)
