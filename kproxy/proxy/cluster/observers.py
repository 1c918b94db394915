"""Who looks on at the sessions of one cluster, and what they are told."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from kproxy.base.address import Address
from kproxy.protocol.wire.api import FETCH
from kproxy.proxy.relay.session import Session
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.switching.writes import HARMFUL_IF_REPEATED
from kproxy.proxy.watch.feed import Emit
from kproxy.proxy.watch.frames import CaptureSession, EmitFrame
from kproxy.proxy.watch.lines import SessionLabels

_numbers = count(1)  # of captured sessions in this process


class SessionObservers:
    """Who is told the exchanges, and who is given copies of the frames: nobody, unless they ask for it."""

    def __init__(self, sessions: Callable[[], Iterable[tuple[Session, SessionLabels]]]) -> None:
        """`sessions`: those that are there."""
        self._sessions = sessions
        self._emit: Emit | None = None
        self._emit_frame: EmitFrame | None = None

    @property
    def present(self) -> bool:
        """Whether anybody looks on."""
        return self._emit is not None or self._emit_frame is not None

    def watch(self, emit: Emit | None) -> None:
        """Tell each exchange in all sessions, also those to come; None: no more."""
        self._emit = emit
        self._show_all()

    def capture(self, emit: EmitFrame | None) -> None:
        """Give copies of all frames in all sessions, also those to come; None: no more."""
        self._emit_frame = emit
        self._show_all()

    def _show_all(self) -> None:
        for session, where in self._sessions():
            self.show(session, where)

    def show(self, session: Session, where: SessionLabels) -> None:
        """Let them see this session from now on."""
        exchanges = None if self._emit is None else partial(self._emit, where)
        frames = None
        if self._emit_frame is not None:
            place = CaptureSession(where, _local(session.client.sock), str(next(_numbers)))
            frames = partial(self._emit_frame, place)
        session.observe(exchanges, frames)


def _local(client: socket.socket) -> str:
    try:
        return str(Address(*client.getsockname()[:2]))
    except OSError:  # it has gone
        return "?"


def session_status(session: Session, where: SessionLabels, since: float, login: str) -> SessionStatus:
    """An open session, as people see it."""
    introduction, used = session.conversation.introduction, session.conversation.used
    return SessionStatus(
        cluster=where.cluster,
        node=where.node,
        client=where.client,
        client_id=introduction.client_id,
        software=introduction.software,
        since=since,
        in_flight=session.conversation.in_flight,
        reads=used is not None and used.used((FETCH,)),
        writes=used is not None and used.used(HARMFUL_IF_REPEATED),
        login=login,
        produces=str(session.conversation.produces),
    )
