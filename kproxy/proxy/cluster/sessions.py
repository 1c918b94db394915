"""The sessions of one cluster: each begins when the node of a client is connected, and kproxy logs how it ended."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.printable import one_line
from kproxy.base.repeats import about
from kproxy.client.ask.channel import Channel
from kproxy.config import ClusterConfig
from kproxy.net.tls import faults
from kproxy.net.tls.handshakes import ClientTls
from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.protocol.wire.mismatch import client_login_error, explain_host_bound_login
from kproxy.proxy.cluster.acceptor import ConnectionSlot
from kproxy.proxy.cluster.clientroute import ClientRoute, DialNode, LocaliseForHost
from kproxy.proxy.cluster.dialqueue import DialSlot
from kproxy.proxy.cluster.encryption import client_tls
from kproxy.proxy.cluster.gracefulclose import close_gracefully
from kproxy.proxy.cluster.insessionchannel import InSessionChannel
from kproxy.proxy.cluster.nodedialer import AffectsSession
from kproxy.proxy.cluster.nodeverifier import BOOTSTRAP, VerifiedConnection
from kproxy.proxy.cluster.observers import SessionObservers, session_status
from kproxy.proxy.cluster.pendingconnections import NodeExists, PendingConnection, PendingConnections, node_text
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.metrics.counters import NodeCounters
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.pump import Pump
from kproxy.proxy.relay.session import Session
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.watch.lines import SessionLabels

if TYPE_CHECKING:
    from kproxy.client.sasl.login import LoginContext
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit
    from kproxy.proxy.switching.parts import Part

log = logging.getLogger(__name__)

# At the port or the name of a node that does not exist, a client reaches a bootstrap server, which lists the nodes. The
# session lasts this many seconds. If it lasted longer, the client would take the bootstrap server for the node.
_BOOTSTRAP_SESSION_SECONDS = 5.0
_LONGEST_MECHANISM = 40
NO_PARTS: Mapping[str, tuple[ClusterConfig, AffectsSession]] = {}


@dataclass(slots=True)
class _OpenSession:
    """A session with what is known about its client and its node."""

    key: NodeKey | None
    """The node; None: a bootstrap server."""
    slot: ConnectionSlot
    route: ClientRoute
    """The present route of its client."""
    dial: Address
    """The address at which the node was reached."""
    since: float
    """When the session began, a Unix time."""
    dial_slot: DialSlot | None
    """Held until the node has answered the client, if the connection was not verified before."""
    channel: InSessionChannel | None = None
    """The channel with which kproxy verifies the connection, for as long as that takes."""
    switchable: SwitchableUnit | None = None
    """The unit in which the session is noted."""
    login: str = ""
    """The mechanism with which the client logs in itself."""

    @property
    def address(self) -> str:
        """The address of the client, without its port."""
        return self.slot.peer.host


class Sessions:
    """The sessions of one cluster, and of its parts."""

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
        self._default_route = ClientRoute(config, dial, localise, _switchable(config, pump) if switches else None)
        self._part_routes: dict[str, ClientRoute] = {}
        self._calls: dict[str, tuple[NodeCounters, Calls]] = {}
        self._pending = PendingConnections(
            config.name,
            client_tls(config),
            self._default_route,
            self._part_routes,
            node_exists,
            metrics,
            tasks,
            self._on_connected,
        )
        self._open: dict[Session, _OpenSession] = {}
        self.drained = asyncio.Event()  # set while no session is open
        self.drained.set()
        self._relogins: dict[Session, asyncio.Task[None]] = {}
        self._warned_of: set[str] = set()  # mechanisms
        self._observers = SessionObservers(self._observable)
        self.watch, self.capture = self._observers.watch, self._observers.capture

    def handle_client(self, client: socket.socket, key: NodeKey | None, host: str, slot: ConnectionSlot) -> None:
        """Open a session between the client and a node (None: a bootstrap server).

        `host` is where the client finds kproxy. `slot` is released once, when the client's connection is closed.
        """
        self._pending.add(client, PendingConnection(key, host, slot, requested_key=key))

    def _on_connected(
        self,
        client: socket.socket,
        connection: PendingConnection,
        route: ClientRoute,
        upstream: VerifiedConnection,
        first: bytes,
    ) -> None:
        key, label = upstream.key, _label(upstream.key)
        open_session = _OpenSession(key, connection.slot, route, upstream.dial, time.time(), connection.dial_slot)
        counters = self._metrics.node(self._name, label)
        switchable = route.switchable
        calls = self._calls_of(label, counters, switchable)
        try:
            conversation = Conversation(
                calls if switchable is None else switchable.calls(calls),
                partial(_localised, open_session, connection.host),
                route.config.max_request_size,
                partial(self._metrics.count_rewritten, self._name),
                partial(self._on_handshake, open_session),
            )
            session = Session(self._pump, client, upstream.sock, conversation, counters, self._ended)
        except OSError:  # the client has already disconnected
            upstream.sock.close()
            client.close()
            connection.slot.release()
            connection.release_dial_slot()
            return
        self._open[session] = open_session
        self.drained.clear()
        if self._observers.is_active:
            self._observers.attach(session, self._where(open_session))
        if upstream.verify is not None:
            session.hold_before_first_request(partial(self._begin_verification, session, upstream.verify))
            asyncio.get_running_loop().call_later(route.config.connect_timeout, self._check_answered, session)
        if switchable is not None:
            open_session.switchable = switchable
            switchable.session_opened(session, label, open_session.address)
        if upstream.login is not None and upstream.login.result.lifetime_ms:
            self._relogins[session] = self._tasks.create_task(
                self._keep_logged_in(session, open_session, upstream.login)
            )
        if first:
            session.receive_first(first)
        if connection.requested_key is not None and upstream.key is None:
            asyncio.get_running_loop().call_later(_BOOTSTRAP_SESSION_SECONDS, close_gracefully, session)

    def _calls_of(self, label: str, counters: NodeCounters, switchable: SwitchableUnit | None) -> Calls:
        """Return the calls towards a node, which all sessions share.

        Those of forgotten nodes go together with their counters.
        """
        cached = self._calls.get(label)
        if cached is not None and cached[0] is counters:
            return cached[1]
        nodes = self._metrics.nodes
        self._calls = {
            node_label: cached_calls
            for node_label, cached_calls in self._calls.items()
            if nodes.get((self._name, node_label)) is cached_calls[0]
        }
        calls = Calls(counters.call, switchable.highest if switchable else TABLE_VERSIONS)
        self._calls[label] = counters, calls
        return calls

    def reconfigure(
        self,
        config: ClusterConfig,
        tls: ClientTls | None,
        concerns: AffectsSession,
        seconds: float,
        *,
        switches: bool,
        parts: Mapping[str, tuple[ClusterConfig, AffectsSession]] = NO_PARTS,
    ) -> int:
        """Use this configuration for the next sessions; return how many open sessions it affects.

        Those end when nothing is in flight in them, and after this many seconds in any case. `parts`: the same for each
        part. `switches`: the cluster can be switched. If it could not before, all sessions are affected: their clients
        have agreed on versions with which they could not be switched.
        """
        self._default_route.config, self._pending.tls = config, tls
        concerned = {"": concerns}
        for name, (part_config, part_concerns) in parts.items():
            self._part_routes[name].config, concerned[name] = part_config, part_concerns
        becomes_switchable = switches and self._default_route.switchable is None
        if becomes_switchable:
            self._make_switchable()
        elif not switches and self._default_route.switchable is not None:
            self._default_route.switchable, self._calls = None, {}  # open sessions stay as they are
            self._part_routes.clear()
            for open_session in self._open.values():
                open_session.route = self._default_route  # a configuration cannot remove a part with another upstream
        draining = [
            session
            for session, open_session in self._open.items()
            if becomes_switchable or _concerns(concerned, open_session)
        ]
        for session in draining:
            if becomes_switchable:
                # Not `drain`: a client that writes without a pause would be disconnected, and in doubt.
                close_gracefully(session)
            else:
                session.drain()
        if remaining := [session for session in draining if not session.closed]:
            asyncio.get_running_loop().call_later(seconds, self._close, remaining, seconds)
        return len(draining)

    def _make_switchable(self) -> None:
        """Prepare for a switch. The requests that open sessions leave unanswered count from now on."""
        switchable = self._default_route.switchable = _switchable(self._default_route.config, self._pump)
        self._calls = {}
        for session, open_session in self._open.items():
            if open_session.switchable is not None:  # of an earlier time at which it could be switched
                open_session.switchable.session_ended(session, open_session.address)
            open_session.route, open_session.switchable = self._default_route, switchable
            switchable.adopt_session(session, _label(open_session.key), open_session.address)

    def switchable(self, part: str = "") -> SwitchableUnit | None:
        """Return what a switch of a part, or of the cluster without its parts, needs; None if it cannot be switched."""
        route = self._part_routes.get(part) if part else self._default_route
        return None if route is None else route.switchable

    def make_part(self, part: Part, config: ClusterConfig, dial: DialNode, localise: LocaliseForHost) -> None:
        """Route these clients by themselves from now on.

        Their open sessions stay open, and what is known about them moves with them. A client whose connection has no
        session yet, or has not sent its client id, must connect again.
        """
        assert self._default_route.switchable is not None, "the cluster can be switched"
        self._pending.drop_all()
        part_sessions = [session for session in self._open if part.has(session.conversation.introduction.client_id)]
        route = ClientRoute(config, dial, localise, self._default_route.switchable.split(part, part_sessions), part)
        self._part_routes[part.name] = route
        for session in part_sessions:
            self._open[session].route, self._open[session].switchable = route, route.switchable
        for session in [session for session in self._open if not session.conversation.introduction.client_id]:
            close_gracefully(session)

    def end_part(self, name: str) -> str:
        """Route the clients of this part with all others again. Return why that is not possible, or ""."""
        route, cluster_unit = self._part_routes[name], self._default_route.switchable
        assert cluster_unit is not None
        assert route.switchable is not None
        if not cluster_unit.is_unchanged_since_split(route.switchable):
            return (
                f"part {name}, or the cluster, was switched since the part was made: kproxy keeps their clients apart"
            )
        self._pending.drop_all()
        cluster_unit.merge(route.switchable)
        for open_session in self._open.values():
            if open_session.route is route:
                open_session.route, open_session.switchable = self._default_route, cluster_unit
        del self._part_routes[name]
        return ""

    def flip(self, config: ClusterConfig, part: str = "", *, everyone: bool = False) -> None:
        """Route a part, or the cluster without its parts, to another upstream, and close its connections.

        `config` is that of the upstream. `everyone`: it is unknown which clients have fetched.
        """
        route = self._part_routes[part] if part else self._default_route
        route.config = config
        self._pending.drop(route)
        for session in [session for session, open_session in self._open.items() if open_session.route is route]:
            session.close()
        if route.switchable is not None:
            route.switchable.flipped(everyone=everyone)

    def end_guards(self) -> None:
        """End all guards: all clients that run have positions of the upstream that they are routed to."""
        for route in (self._default_route, *self._part_routes.values()):
            if route.switchable is not None:
                route.switchable.end_guards()

    def end(self, seconds: float) -> int:
        """Drain all sessions, as if a new configuration affected them: the cluster is no longer served."""
        self._pending.drop_all()
        switches = self._default_route.switchable is not None
        parts: dict[str, tuple[ClusterConfig, AffectsSession]] = {
            name: (route.config, lambda key, dial: True) for name, route in self._part_routes.items()
        }
        return self.reconfigure(
            self._default_route.config,
            self._pending.tls,
            lambda key, dial: True,
            seconds,
            switches=switches,
            parts=parts,
        )

    @property
    def is_empty(self) -> bool:
        """True if there is no session and no pending connection."""
        return not (self._open or self._pending)

    def _close(self, sessions: Sequence[Session], seconds: float) -> None:
        busy = [session for session in sessions if not session.closed]
        if busy:
            text = "cluster %s: closed %d sessions of the former configuration, still busy after %g s (--drain-timeout)"
            log.warning(text, self._name, len(busy), seconds)
        for session in busy:
            session.close()

    def _check_answered(self, session: Session) -> None:
        """Close a session whose unverified node has not answered its client in time.

        kproxy must answer, too: the node may be another kproxy that waits for this one.
        """
        open_session = self._open.get(session)
        if open_session is None or open_session.dial_slot is None:
            return
        if session.conversation.in_flight and not session.conversation.answered:
            error = UpstreamError("timeout", f"{open_session.dial}: connected, but no Kafka broker answers there")
            self._pending.note_unreachable(open_session.route, open_session.key, error)
            session.ended_by = "upstream"
            session.close(error)
        self._release_dial_slot(open_session)

    def _release_dial_slot(self, open_session: _OpenSession) -> None:
        if open_session.dial_slot is not None:
            open_session.dial_slot.release()
            open_session.dial_slot = None
            self._pump.selector.wake = True  # the next client may dial

    def _begin_verification(self, session: Session, verify: Callable[[Channel], Awaitable[None]]) -> None:
        if session in self._open:
            self._release_dial_slot(self._open[session])
        self._tasks.create_task(self._verify(session, verify))

    async def _verify(self, session: Session, verify: Callable[[Channel], Awaitable[None]]) -> None:
        """Verify the connection within the session; then let the client's requests pass, or close the session.

        It closes as if the broker had closed it, and the client's next attempt uses another address.
        """
        open_session = self._open.get(session)
        if open_session is None:
            return
        open_session.channel = InSessionChannel(session)
        try:
            await verify(open_session.channel)
        except UpstreamError as error:
            open_session.channel = None
            if session in self._open:
                session.ended_by = "upstream"
                session.close(error)
            return
        open_session.channel = None
        session.release()

    def _on_handshake(self, open_session: _OpenSession, mechanism: str) -> None:
        """Note the mechanism with which a client logs in. Raises WireError if kproxy has logged in for it."""
        if open_session.route.config.sasl is not None:
            raise client_login_error()
        open_session.login = one_line(mechanism, _LONGEST_MECHANISM) or "?"
        warning = explain_host_bound_login(mechanism)
        if warning and mechanism not in self._warned_of:
            self._warned_of.add(mechanism)
            log.warning("cluster %s: %s", self._name, warning)

    async def _keep_logged_in(self, session: Session, open_session: _OpenSession, logged_in: LoginContext) -> None:
        from kproxy.proxy.cluster.relogin import keep_logged_in  # few need it

        try:
            await keep_logged_in(session, logged_in)
        except UpstreamError as error:
            if self._relogins.pop(session, None) is None:  # the broker closed the connection when it refused
                self._report(open_session, "upstream", error)
            else:
                session.ended_by = "upstream"
                session.close(error)

    def _ended(self, session: Session, error: Exception | None) -> None:
        open_session = self._open.pop(session, None)
        if open_session is None:
            return
        if not self._open:
            self.drained.set()
        open_session.slot.release()
        self._release_dial_slot(open_session)
        if open_session.switchable is not None:
            open_session.switchable.session_ended(session, open_session.address)
        if open_session.channel is not None:
            open_session.channel.session_ended()
        relogin = self._relogins.pop(session, None)
        if relogin is not None:
            interrupted = session.conversation.hold_count and session.ended_by == "upstream"
            if interrupted and not session.conversation.in_flight:
                return  # its last answer, which has come, has the reason
            relogin.cancel()
            if interrupted and error is None:
                error = UpstreamError(
                    "sasl", "SASL: the broker closed the connection while kproxy was logging in again"
                )
        name = node_text(open_session.key)
        if isinstance(error, WireError | UpstreamError):
            self._report(open_session, session.ended_by, error)
        elif isinstance(error, ssl.SSLError):
            side = session.ended_by
            reason, text = (faults.explain_client_error if side == "client" else faults.explain_broker_error)(error)
            self._metrics.count_refusal(self._name, side, reason)
            self._log_closed(open_session, reason, text)
        elif session.ended_by == "upstream" and session.conversation.requested and not session.conversation.answered:
            self._metrics.count_refusal(self._name, "upstream", "no-answer")
            text = "%s closed the connection before it answered the client's first request"
            log.warning(text, name, extra=about(self._name, name, open_session.address))

    def _report(self, open_session: _OpenSession, side: str, error: WireError | UpstreamError) -> None:
        self._metrics.count_refusal(self._name, side, error.reason)
        self._log_closed(open_session, error.reason, error)

    def _log_closed(self, open_session: _OpenSession, reason: str, text: object) -> None:
        name = node_text(open_session.key)
        log.warning(
            "closed a connection to %s: %s", name, text, extra=about(self._name, name, open_session.address, reason)
        )

    # For observers

    def _observable(self) -> Iterator[tuple[Session, SessionLabels]]:
        return ((session, self._where(open_session)) for session, open_session in self._open.items())

    def _where(self, open_session: _OpenSession) -> SessionLabels:
        return SessionLabels(self._name, _label(open_session.key), str(open_session.slot.peer))

    def shown(self) -> Iterator[SessionStatus]:
        """Yield the status of each open session."""
        for session, where in self._observable():
            open_session = self._open[session]
            yield session_status(session, where, open_session.since, open_session.login)

    # All sessions at once

    def drain(self) -> None:
        """Close the pending connections, and each open session as soon as nothing is in flight in it.

        `drained` is set when no session is left.
        """
        self._pending.drop_all()
        for session in list(self._open):
            session.drain()

    def close(self) -> int:
        """Close all sessions now; return their number."""
        remaining = list(self._open)
        for session in remaining:
            session.close()
        return len(remaining)

    def in_flight(self) -> Iterator[tuple[str, str, int]]:
        """Yield the number of requests without a response, as (cluster, node, number)."""
        for session, open_session in self._open.items():
            yield self._name, _label(open_session.key), session.conversation.in_flight


def _switchable(config: ClusterConfig, pump: Pump) -> SwitchableUnit:
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit  # few clusters can be

    return SwitchableUnit.new(config.name, partial(setattr, pump.selector, "wake", True))


def _localised(open_session: _OpenSession, host: str, endpoints: Endpoints) -> Sequence[Address]:
    """Return the local addresses by the present route of a session: it may have moved to a part, or out of one."""
    return open_session.route.localise(host, endpoints)


def _concerns(concerned: Mapping[str, AffectsSession], open_session: _OpenSession) -> bool:
    return concerned.get(open_session.route.name, concerned[""])(open_session.key, open_session.dial)


def _label(key: NodeKey | None) -> str:
    return BOOTSTRAP if key is None else key.label
