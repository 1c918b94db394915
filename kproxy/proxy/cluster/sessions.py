"""The sessions of one cluster: relay for a client that has arrived, say how it ended."""

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
from kproxy.proxy.relay.roster import SessionRoster
from kproxy.proxy.relay.session import Session
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.watch.lines import SessionLabels

if TYPE_CHECKING:
    from kproxy.client.sasl.login import LoginContext
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit
    from kproxy.proxy.switching.parts import Part

log = logging.getLogger(__name__)

# A client at the port or the name of a node that is not there is told by a bootstrap server which nodes there are. It
# may take so many seconds for that. If it stayed, it would take the bootstrap server for the node when there is one.
_STANDS_IN = 5.0
_LONGEST_MECHANISM = 40
NO_PARTS: Mapping[str, tuple[ClusterConfig, AffectsSession]] = {}


@dataclass(slots=True)
class _OpenSession:
    """What is known of a session beside itself. `led`: to whose upstream, now. `dial`: where the node was reached."""

    key: NodeKey | None
    guest: ConnectionSlot
    led: ClientRoute
    dial: Address | None
    since: float  # a Unix time
    turn: DialSlot | None  # until the node has answered the client, if it was not asked before
    asking: InSessionChannel | None = None  # while kproxy asks whom it has reached
    switchable: SwitchableUnit | None = None  # that knows of it
    login: str = ""  # the mechanism with which the client logs in itself

    @property
    def address(self) -> str:
        """The client's, without its port."""
        return self.guest.peer.host


class Sessions:
    """From a client that has spoken to the end of its session. Those of a cluster's parts are here as well."""

    def __init__(
        self,
        config: ClusterConfig,
        dial: DialNode,
        localise: LocaliseForHost,
        knows: NodeExists,
        pump: Pump,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        *,
        switches: bool = False,
    ) -> None:
        self._name = config.name
        self._roster = SessionRoster(pump)
        self._metrics = metrics
        self._tasks = tasks
        self._led = ClientRoute(config, dial, localise, _switchable(config, pump) if switches else None)
        self._parts: dict[str, ClientRoute] = {}
        self._calls: dict[str, tuple[NodeCounters, Calls]] = {}
        self._arrivals = PendingConnections(
            config.name, client_tls(config), self._led, self._parts, knows, metrics, tasks, self._arrived
        )
        self._open: dict[Session, _OpenSession] = {}
        self._relogins: dict[Session, asyncio.Task[None]] = {}
        self._warned_of: set[str] = set()  # mechanisms
        self._onlookers = SessionObservers(self._seen)
        self.watch, self.capture = self._onlookers.watch, self._onlookers.capture

    def carry(self, client: socket.socket, key: NodeKey | None, host: str, guest: ConnectionSlot) -> None:
        """Open a session between the client and a node (None: a bootstrap server). The client is told that kproxy is at
        `host`. `guest.over` is called once, when the client's connection is closed."""
        self._arrivals.begin(client, PendingConnection(key, host, guest, asked=key))

    def _arrived(
        self,
        client: socket.socket,
        arrival: PendingConnection,
        led: ClientRoute,
        upstream: VerifiedConnection,
        first: bytes,
    ) -> None:
        key, label = upstream.key, _label(upstream.key)
        carried = _OpenSession(key, arrival.guest, led, upstream.dial, time.time(), arrival.turn)
        counters = self._metrics.node(self._name, label)
        switchable = led.switchable
        calls = self._calls_of(label, counters, switchable)
        try:
            conversation = Conversation(
                calls if switchable is None else switchable.calls(calls),
                partial(_localised, carried, arrival.host),
                led.config.max_request_size,
                partial(self._metrics.rewritten, self._name),
                partial(self._on_handshake, carried),
            )
            session = Session(self._roster, client, upstream.sock, conversation, counters, self._ended)
        except OSError:  # the client is gone already
            upstream.sock.close()
            client.close()
            arrival.guest.over()
            arrival.end_turn()
            return
        self._open[session] = carried
        if self._onlookers.present:
            self._onlookers.show(session, self._where(carried))
        if upstream.check is not None:
            session.hold_before_first_request(partial(self._begin_check, session, upstream.check))
            asyncio.get_running_loop().call_later(led.config.connect_timeout, self._look_for_answer, session)
        if switchable is not None:
            carried.switchable = switchable
            switchable.opened(session, label, carried.address)
        if upstream.login is not None and upstream.login.result.lifetime_ms:
            self._relogins[session] = self._tasks.create_task(self._keep_logged_in(session, carried, upstream.login))
        if first:
            session.begin_with(first)
        if arrival.asked is not None and upstream.key is None:
            asyncio.get_running_loop().call_later(_STANDS_IN, close_gracefully, session)

    def _calls_of(self, label: str, counters: NodeCounters, switchable: SwitchableUnit | None) -> Calls:
        """The calls towards a node, which all sessions share. Those of nodes that were forgotten go with what was
        counted of these."""
        known = self._calls.get(label)
        if known is not None and known[0] is counters:
            return known[1]
        there = self._metrics.nodes
        self._calls = {one: kept for one, kept in self._calls.items() if there.get((self._name, one)) is kept[0]}
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
        """Open the next sessions so, and those of each of the `parts`. Those that are there and that it concerns end
        when nothing is in flight in them, and after so many seconds anyway; return how many those are.

        From now on the cluster `switches` or not. If it begins to, it concerns all sessions: their clients have agreed
        on versions with which they could not be switched.
        """
        self._led.config, self._arrivals.tls = config, tls
        concerned = {"": concerns}
        for name, (one, of_part) in parts.items():
            self._parts[name].config, concerned[name] = one, of_part
        begins = switches and self._led.switchable is None
        if begins:
            self._begin_to_switch()
        elif not switches and self._led.switchable is not None:
            self._led.switchable, self._calls = None, {}  # the sessions that are there go on as they are
            self._parts.clear()
            for carried in self._open.values():
                carried.led = self._led  # parts that were led elsewhere are none that can go
        going = [session for session, carried in self._open.items() if begins or _concerns(concerned, carried)]
        for session in going:
            if begins:
                close_gracefully(session)  # not `drain`: who writes without a pause would be cut, and in doubt
            else:
                session.drain()
        if left := [session for session in going if not session.closed]:
            asyncio.get_running_loop().call_later(seconds, self._close, left, seconds)
        return len(going)

    def _begin_to_switch(self) -> None:
        """The cluster may be switched from now on. What the sessions that are there leave unanswered counts."""
        switchable = self._led.switchable = _switchable(self._led.config, self._roster.pump)
        self._calls = {}
        for session, carried in self._open.items():
            if carried.switchable is not None:  # of a time when it could be switched before
                carried.switchable.ended(session, carried.address)
            carried.led, carried.switchable = self._led, switchable
            switchable.took_over(session, _label(carried.key), carried.address)

    def switchable(self, part: str = "") -> SwitchableUnit | None:
        """What a part, or the cluster without its parts, needs to be switched; None: it cannot be, or is not there."""
        led = self._parts.get(part) if part else self._led
        return None if led is None else led.switchable

    def make_part(self, part: Part, config: ClusterConfig, dial: DialNode, localise: LocaliseForHost) -> None:
        """Lead these clients by themselves from now on. What is open stays open, and what is known of them goes with
        them. Of a connection that has no session yet, or has not said whose it is, the client connects again."""
        assert self._led.switchable is not None, "the cluster can be switched"
        self._arrivals.drop_all()
        ours = [session for session in self._open if part.has(session.conversation.introduction.client_id)]
        led = ClientRoute(config, dial, localise, self._led.switchable.split(part, ours), part)
        self._parts[part.name] = led
        for session in ours:
            self._open[session].led, self._open[session].switchable = led, led.switchable
        for session in [one for one in self._open if not one.conversation.introduction.client_id]:
            close_gracefully(session)

    def end_part(self, name: str) -> str:
        """Lead the clients of this part with all others again. Returns why not, or ""."""
        led, others = self._parts[name], self._led.switchable
        assert others is not None
        assert led.switchable is not None
        if not others.is_as_when_it_was_split(led.switchable):
            return (
                f"part {name}, or the cluster, was switched since the part was made: kproxy keeps their clients apart"
            )
        self._arrivals.drop_all()
        others.unite(led.switchable)
        for carried in self._open.values():
            if carried.led is led:
                carried.led, carried.switchable = self._led, others
        del self._parts[name]
        return ""

    def flip(self, config: ClusterConfig, part: str = "", *, everyone: bool = False) -> None:
        """Open the next sessions of a part, or of the cluster without its parts, so. Close all that are there now, and
        the connections that have none yet. `everyone`: nobody knows which clients have fetched."""
        led = self._parts[part] if part else self._led
        led.config = config
        self._arrivals.drop(led)
        for session in [session for session, carried in self._open.items() if carried.led is led]:
            session.close()
        if led.switchable is not None:
            led.switchable.flipped(everyone=everyone)

    def end_guards(self) -> None:
        """All clients that run have positions of the upstream that they are led to."""
        for led in (self._led, *self._parts.values()):
            if led.switchable is not None:
                led.switchable.end_guards()

    def end(self, seconds: float) -> int:
        """The cluster is served no more: all sessions end, as those that a new configuration concerns."""
        self._arrivals.drop_all()
        switches = self._led.switchable is not None
        parts: dict[str, tuple[ClusterConfig, AffectsSession]] = {
            name: (led.config, lambda key, dial: True) for name, led in self._parts.items()
        }
        return self.reconfigure(
            self._led.config, self._arrivals.tls, lambda key, dial: True, seconds, switches=switches, parts=parts
        )

    @property
    def none_left(self) -> bool:
        return not (self._open or self._arrivals)

    def _close(self, sessions: Sequence[Session], seconds: float) -> None:
        busy = [session for session in sessions if not session.closed]
        if busy:
            text = "cluster %s: closed %d sessions of the former configuration, still busy after %g s (--drain-timeout)"
            log.warning(text, self._name, len(busy), seconds)
        for session in busy:
            session.close()

    def _look_for_answer(self, session: Session) -> None:
        """A client has been led to a node that nobody has asked anything, and has spoken. The node must have answered
        by now, as it must answer kproxy: it may be another kproxy that waits for this one."""
        carried = self._open.get(session)
        if carried is None or carried.turn is None:
            return
        if session.conversation.in_flight and not session.conversation.answered:
            error = UpstreamError("timeout", f"{carried.dial}: connected, but no Kafka broker answers there")
            self._arrivals.failed(carried.led, carried.key, error)
            session.ended_by = "upstream"
            session.close(error)
        self._end_turn(carried)

    def _end_turn(self, carried: _OpenSession) -> None:
        if carried.turn is not None:
            carried.turn.end()
            carried.turn = None
            self._roster.pump.selector.wake = True  # the next client may go

    def _begin_check(self, session: Session, check: Callable[[Channel], Awaitable[None]]) -> None:
        if session in self._open:
            self._end_turn(self._open[session])
        self._tasks.create_task(self._check(session, check))

    async def _check(self, session: Session, check: Callable[[Channel], Awaitable[None]]) -> None:
        """Ask within the session whom it has reached; let the client's requests go there, or close it as if the broker
        had gone: the client's next attempt goes elsewhere."""
        carried = self._open.get(session)
        if carried is None:
            return
        carried.asking = InSessionChannel(session)
        try:
            await check(carried.asking)
        except UpstreamError as error:
            carried.asking = None
            if session in self._open:
                session.ended_by = "upstream"
                session.close(error)
            return
        carried.asking = None
        session.release()

    def _on_handshake(self, carried: _OpenSession, mechanism: str) -> None:
        """A client logs in with this mechanism. Raises WireError if kproxy has done so."""
        if carried.led.config.sasl is not None:
            raise client_login_error()
        carried.login = one_line(mechanism, _LONGEST_MECHANISM) or "?"
        warning = explain_host_bound_login(mechanism)
        if warning and mechanism not in self._warned_of:
            self._warned_of.add(mechanism)
            log.warning("cluster %s: %s", self._name, warning)

    async def _keep_logged_in(self, session: Session, carried: _OpenSession, logged_in: LoginContext) -> None:
        from kproxy.proxy.cluster.relogin import keep_logged_in  # few need it

        try:
            await keep_logged_in(session, logged_in)
        except UpstreamError as error:
            if self._relogins.pop(session, None) is None:  # the broker has closed the connection with its refusal
                self._report(carried, "upstream", error)
            else:
                session.ended_by = "upstream"
                session.close(error)

    def _ended(self, session: Session, error: Exception | None) -> None:
        carried = self._open.pop(session, None)
        if carried is None:
            return
        carried.guest.over()
        self._end_turn(carried)
        if carried.switchable is not None:
            carried.switchable.ended(session, carried.address)
        if carried.asking is not None:
            carried.asking.ended()
        relogin = self._relogins.pop(session, None)
        if relogin is not None:
            interrupted = session.conversation.holding and session.ended_by == "upstream"
            if interrupted and not session.conversation.in_flight:
                return  # its last answer, which has come, says why
            relogin.cancel()
            if interrupted and error is None:
                error = UpstreamError(
                    "sasl", "SASL: the broker closed the connection while kproxy was logging in again"
                )
        name = node_text(carried.key)
        if isinstance(error, WireError | UpstreamError):
            self._report(carried, session.ended_by, error)
        elif isinstance(error, ssl.SSLError):
            side = session.ended_by
            reason, text = (faults.explain_client_error if side == "client" else faults.explain_broker_error)(error)
            self._metrics.refused(self._name, side, reason)
            self._say_closed(carried, reason, text)
        elif session.ended_by == "upstream" and session.conversation.requested and not session.conversation.answered:
            self._metrics.refused(self._name, "upstream", "no-answer")
            text = "%s closed the connection before it answered the client's first request"
            log.warning(text, name, extra=about(self._name, name, carried.address))

    def _report(self, carried: _OpenSession, side: str, error: WireError | UpstreamError) -> None:
        self._metrics.refused(self._name, side, error.reason)
        self._say_closed(carried, error.reason, error)

    def _say_closed(self, carried: _OpenSession, reason: str, text: object) -> None:
        name = node_text(carried.key)
        log.warning("closed a connection to %s: %s", name, text, extra=about(self._name, name, carried.address, reason))

    # For those who look on

    def _seen(self) -> Iterator[tuple[Session, SessionLabels]]:
        return ((session, self._where(carried)) for session, carried in self._open.items())

    def _where(self, carried: _OpenSession) -> SessionLabels:
        return SessionLabels(self._name, _label(carried.key), str(carried.guest.peer))

    def shown(self) -> Iterator[SessionStatus]:
        """Each session that is open now."""
        for session, where in self._seen():
            carried = self._open[session]
            yield session_status(session, where, carried.since, carried.login)

    # All of them at once

    def begin_hold(self) -> asyncio.Future[None]:
        """Hold the requests of all clients, of those too that are still to come, until `release` is called as often as
        this. What is returned is done once nothing is in flight in any session that is there now; a login that kproxy
        repeats may be, later. Several may hold, and each session may be held by others as well."""
        return self._roster.hold()

    async def hold(self, seconds: float) -> None:
        """`begin_hold`, and wait until nothing is in flight. Raises TimeoutError if that takes longer than so many
        seconds; then, or if cancelled, this hold is undone."""
        settled = self.begin_hold()
        try:
            async with asyncio.timeout(seconds):
                await settled
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Undo one hold."""
        self._roster.release()

    def drain(self) -> asyncio.Future[None]:
        """Close the connections that have no session yet, and each session that is there now as soon as nothing is in
        flight in it. What is returned is done when none of those is left; those that come later go on."""
        self._arrivals.drop_all()
        return self._roster.drain()

    def close(self) -> int:
        """Close all sessions now; return how many those were."""
        return self._roster.close()

    def in_flight(self) -> Iterator[tuple[str, str, int]]:
        """Requests without a response, as (cluster, node, how many)."""
        for session, carried in self._open.items():
            yield self._name, _label(carried.key), session.conversation.in_flight


def _switchable(config: ClusterConfig, pump: Pump) -> SwitchableUnit:
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit  # few clusters can be

    return SwitchableUnit.new(config.name, partial(setattr, pump.selector, "wake", True))


def _localised(carried: _OpenSession, host: str, endpoints: Endpoints) -> Sequence[Address]:
    """By where a session is led now: it may have become one of a part since it was opened, or be one no more."""
    return carried.led.localise(host, endpoints)


def _concerns(concerned: Mapping[str, AffectsSession], carried: _OpenSession) -> bool:
    if carried.dial is None:
        return False
    return concerned.get(carried.led.name, concerned[""])(carried.key, carried.dial)


def _label(key: NodeKey | None) -> str:
    return BOOTSTRAP if key is None else key.label
