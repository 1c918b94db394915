"""The observers of one cluster's sessions: the live feed, the packet capture, and the readers of requests."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from kproxy.base.address import Address
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.relay.observedconversation import RequestReader
from kproxy.proxy.relay.observer import Exchange, ObserverStart
from kproxy.proxy.relay.session import Session
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.switching.writes import HARMFUL_IF_REPEATED
from kproxy.proxy.watch.feed import Emit, SessionLabels
from kproxy.proxy.watch.frames import CaptureSession, EmitFrame

ReadLabels = Callable[[], SessionLabels]
NewSessionReader = Callable[[ReadLabels, ObserverStart], RequestReader]
"""Returns the reader of the requests of a session with these labels."""

_numbers = count(1)  # of captured sessions in this process


class SessionObservers:
    """The receivers of exchanges and of copies of frames, and the readers of requests.

    There are none unless an operator asks for them.
    """

    def __init__(self, sessions: Callable[[], Iterable[tuple[Session, ReadLabels]]]) -> None:
        """Observe the open sessions, which `sessions` yields."""
        self._sessions = sessions
        self._emit: Emit | None = None
        self._emit_frame: EmitFrame | None = None
        self._new_reader: NewSessionReader | None = None

    @property
    def is_active(self) -> bool:
        """True if there is an observer."""
        return self._emit is not None or self._emit_frame is not None or self._new_reader is not None

    def watch(self, emit: Emit | None) -> None:
        """Send each exchange of all sessions, present and future, to this observer; None: stop."""
        self._emit = emit
        self._attach_all()

    def capture(self, emit: EmitFrame | None) -> None:
        """Send copies of all frames of all sessions, present and future, to this observer; None: stop."""
        self._emit_frame = emit
        self._attach_all()

    def read_requests(self, new_reader: NewSessionReader | None) -> None:
        """Let readers read the requests of all sessions, present and future; None: stop."""
        self._new_reader = new_reader
        self._attach_all()

    def _attach_all(self) -> None:
        for session, read_labels in self._sessions():
            self.attach(session, read_labels)

    def attach(self, session: Session, read_labels: ReadLabels) -> None:
        """Observe this session from now on. Its user becomes known later, so its labels are read for each exchange."""
        exchanges = None if self._emit is None else partial(_emit, self._emit, read_labels)
        frames = None
        if self._emit_frame is not None:
            place = CaptureSession(read_labels(), _local(session.client.sock), str(next(_numbers)))
            frames = partial(self._emit_frame, place)
        new_reader = None if self._new_reader is None else partial(self._new_reader, read_labels)
        session.observe(exchanges, frames, new_reader)


def _emit(emit: Emit, read_labels: ReadLabels, exchange: Exchange) -> None:
    emit(read_labels(), exchange)


def _local(client: socket.socket) -> str:
    try:
        return str(Address(*client.getsockname()[:2]))
    except OSError:  # it has disconnected
        return "?"


def session_status(session: Session, where: SessionLabels, since: float, login: str) -> SessionStatus:
    """Return the status of an open session."""
    conversation, introduction = session.conversation, session.conversation.introduction
    return SessionStatus(
        cluster=where.cluster,
        node=where.node,
        client=where.client,
        client_id=introduction.client_id,
        software=introduction.software,
        since=since,
        in_flight=conversation.in_flight,
        reads=conversation.has_used((ApiKey.FETCH,)),
        writes=conversation.has_used(HARMFUL_IF_REPEATED),
        login=login,
        user=where.user,
        broker_user=where.broker_user,
        produces=str(conversation.produces),
    )
