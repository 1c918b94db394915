"""One client connection, from the moment at which kproxy accepts it to its end: its state, its socket, its slot."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from asyncio import Task
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from time import time
from types import TracebackType
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.proxy.cluster.dialqueue import DialSlot
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.relay.session import Session

if TYPE_CHECKING:
    from kproxy.proxy.access.authorizer import SessionAuthorizer
    from kproxy.proxy.cluster.clientroute import ClientRoute
    from kproxy.proxy.cluster.connectionslots import ConnectionSlots
    from kproxy.proxy.cluster.insessionchannel import InSessionChannel
    from kproxy.proxy.cluster.listeners import Listener
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit
    from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection

log = logging.getLogger(__name__)


class ConnectionState(Enum):
    """The state of a client connection; see `ClientConnection`."""

    ACCEPTED = auto()
    """It has sent nothing yet."""
    HANDSHAKING = auto()
    """The TLS handshake, and the first request if the route depends on it."""
    DIALLING = auto()
    """It waits for a connection to its node."""
    OPEN = auto()
    """It has a session."""
    DRAINING = auto()
    """Its session ends as soon as its requests are answered."""
    CLOSED = auto()


@dataclass(slots=True, eq=False)
class ClientConnection:
    """A client connection, which has its slot and its socket until it is closed, whatever happens meanwhile.

    What follows in each state, while a request of an open session is unanswered:

        state        reset     half-close  timeout   refusal  hold         switch       drain
        accepted     closed    closed      closed    closed   accepted     accepted     closed
        handshaking  closed    closed      closed    closed   handshaking  handshaking  closed
        dialling     dialling  dialling    closed    closed   dialling     closed       closed
        open         closed    open        draining  closed   open         closed       draining
        draining     closed    draining    closed    closed   draining     closed       draining

     * reset, half-close: the client breaks the connection, or sends no more. During a dial, kproxy reads nothing of it.
     * timeout: silence while slots are scarce; the handshake; the dial; a bootstrap server in place of a missing node;
       --drain-timeout.
     * refusal: kproxy refuses what the client sends, or, while it dials, no route to the node works.
     * hold, switch: of the writes and of the upstream of its unit. What is not routed yet takes the new upstream.
     * drain: kproxy stops.
    """

    slots: ConnectionSlots
    listener: Listener
    sock: socket.socket
    peer: Address
    since: float
    """The time of the accept, or of the client's first bytes, in the loop's seconds."""
    host: str
    """The host under which the client finds kproxy."""
    state: ConnectionState = ConnectionState.ACCEPTED
    key: NodeKey | None = None
    """The node that the client is for; None: a bootstrap server, also if the requested node does not exist."""
    requested_key: NodeKey | None = None
    """The node whose port or name the client used; None: the bootstrap listener's."""
    on_close: Callable[[ClientConnection], None] | None = None
    task: Task[None] | None = None
    """The task that brings the client to its session."""
    route: ClientRoute | None = None
    """The client's present route, as soon as it is known."""
    dial_slot: DialSlot | None = None
    """Held from the dial until the node has answered."""
    session: Session | None = None
    _upstream: VerifiedConnection | None = None
    opened_at: float = 0.0
    """The start of the session, a Unix time."""
    unit: SwitchableUnit | None = None
    """The unit in which the session is noted."""
    channel: InSessionChannel | None = None
    """The channel with which kproxy verifies the connection to the node, for as long as that takes."""
    login: str = ""
    """The mechanism with which the client logs in itself."""
    authorizer: SessionAuthorizer | None = None
    """The judge of the requests of the session, or None."""
    user: str = ""
    """The user who has logged in at kproxy."""
    broker_user: str = ""
    """The user name in the login that passes to the broker."""
    client_login: Task[None] | None = None
    """The task that evaluates a message of the client's login at kproxy."""
    relogin: Task[None] | None = None
    """The task that repeats kproxy's own login."""

    def __post_init__(self) -> None:
        self.key = self.requested_key = self.listener.key
        self.slots.take(self)

    def __enter__(self) -> ClientConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Close the connection unless it has a session. An OSError says that the client has disconnected."""
        self.task = None  # it ends by itself
        if self.session is None:
            self.close()
        if isinstance(error, OSError):
            log.debug("%s has disconnected: %s", self.peer, error)
        return isinstance(error, OSError)

    @property
    def is_open(self) -> bool:
        """True if it has a session."""
        return self.state in (ConnectionState.OPEN, ConnectionState.DRAINING)

    @contextlib.contextmanager
    def giving_way(self) -> Iterator[None]:
        """Let others take the slot while the client waits for its node."""
        self.slots.add_waiting(self)
        try:
            yield
        finally:
            self.slots.remove_waiting(self)

    def give_way(self) -> None:
        """Close the connection to make room for others."""
        silent = self.state is ConnectionState.ACCEPTED
        self.slots.count_refusal("silent" if silent else "too-many-connections")
        self.close()

    def release_dial_slot(self) -> None:
        """Let the next client dial."""
        if self.dial_slot is not None:
            self.dial_slot.release()
            self.dial_slot = None

    def open(self, session: Session, upstream: VerifiedConnection) -> None:
        """Let this session carry the client from now on."""
        self.state, self.task = ConnectionState.OPEN, None
        self.session, self._upstream, self.opened_at = session, upstream, time()

    @property
    def node(self) -> VerifiedConnection:
        """The node of an open connection, and the connection to it."""
        assert self._upstream is not None, "it has been opened"
        return self._upstream

    @property
    def present_route(self) -> ClientRoute:
        """The route, which is known from the dial on."""
        assert self.route is not None, "it is known"
        return self.route

    def drain(self, *, gracefully: bool = False) -> None:
        """Close the open connection as soon as its requests are answered, `gracefully` as `close_gracefully` does."""
        if self.session is not None and not self.session.closed:
            self.state = ConnectionState.DRAINING
            if gracefully:
                close_gracefully(self.session)
            else:
                self.session.drain()

    def close(self) -> None:
        """Close the connection now, in any state."""
        if self.session is not None and not self.session.closed:
            self.session.close()  # which calls this again, when it has reported its end
        elif self.state is not ConnectionState.CLOSED:
            self.slots.free(self)
            self.state, self.session = ConnectionState.CLOSED, None  # the session refers to its connection
            if self.task is not None:
                self.task.cancel()
            if self.dial_slot is not None:
                self.release_dial_slot()
            self.sock.close()
            if self.on_close is not None:
                self.on_close(self)


_CHECK_EVERY, _CHECK_AT_LEAST_EVERY = 0.01, 1.0
"""The shortest and longest interval of checks whether a client has taken the last answer, in seconds. It grows while
kproxy waits for an answer, which may take minutes."""
_ACK_TIMEOUT = 5.0
"""The longest that kproxy waits for the confirmation once it has sent the last answer, in seconds."""


def close_gracefully(session: Session) -> None:
    """Let no further request pass, and close as soon as the client has all answers. Call it from the event loop."""
    session.hold()
    close_when_acked(session)


def close_when_acked(session: Session, settled_at: float | None = None, pause: float = _CHECK_EVERY) -> None:
    """Close a session that is held, or will be, as soon as the client has all answers.

    `settled_at`: when they had all been sent, in the loop's seconds. `pause`: seconds until the next check.
    """
    if session.closed:
        return
    loop = asyncio.get_running_loop()
    if session.settled and settled_at is None:
        settled_at = loop.time()
    if session.acked or (settled_at is not None and loop.time() >= settled_at + _ACK_TIMEOUT):
        session.close()
    elif settled_at is not None:
        loop.call_later(_CHECK_EVERY, close_when_acked, session, settled_at)
    else:
        loop.call_later(pause, close_when_acked, session, None, min(2 * pause, _CHECK_AT_LEAST_EVERY))
