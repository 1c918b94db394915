"""The conversation of an observed session: an observer reads what passes, a capture copies it.

Sans-IO, but for the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

from kproxy.protocol.wire.primitives import Buffer
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.observer import Exchange, Observer

if TYPE_CHECKING:
    from kproxy.protocol.capture.sessioncapture import RedactedFrame, SessionCapture

log = logging.getLogger(__name__)

EmitExchange = Callable[[Exchange], None]
EmitFrame = Callable[["RedactedFrame"], None]
P = ParamSpec("P")


class ObservedConversation:
    """A conversation whose two steps also serve an observer, a capture, or both."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._observer: Observer | None = None
        self._end_observer: Callable[[], None] = _nothing
        self._emit_frame: EmitFrame | None = None
        self._capture: SessionCapture | None = None  # while frames are captured, once it could begin

    def set_sinks(self, exchanges: EmitExchange | None, frames: EmitFrame | None) -> None:
        """Emit exchanges and frames to these from now on; None: stop. A sink that is set already stays."""
        if exchanges is None:
            self._end_observer()
            self._observer, self._end_observer = None, _nothing
        elif self._observer is None:
            self._observer = Observer(exchanges, self._conversation.observer_start)
            self._end_observer = self._conversation.wrap_localise(self._observer.wrap_localise)
        if frames is None or self._emit_frame is None:
            self._emit_frame, self._capture = frames, None

    def from_client(self, chunk: Buffer, now: float) -> Buffer:
        if self._observer is not None:
            self._feed_observer(self._observer.from_client, chunk, now)
        if self._emit_frame is None:
            return self._conversation.from_client(chunk, now)
        self._begin_capture(now)
        self._copy(True, chunk, now)
        out = self._conversation.from_client(chunk, now)
        if self._conversation.answers:
            self._copy(False, self._conversation.answers, now)
        return out

    def from_upstream(self, chunk: Buffer, now: float) -> Buffer:
        if self._observer is not None:
            self._feed_observer(self._observer.from_upstream, chunk, now)
        if self._emit_frame is not None:
            self._begin_capture(now)
        try:
            out = self._conversation.from_upstream(chunk, now)
        finally:
            if self._observer is not None:
                self._feed_observer(self._observer.flush)
        if self._emit_frame is not None:
            self._copy(False, out, now)
        return out

    def _feed_observer(self, step: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
        try:
            step(*arguments, **named)
        except Exception as error:  # an observer must not end a session
            log.error("defect in an observer, please report it: a session is no longer observed", exc_info=error)
            self._end_observer()
            self._observer, self._end_observer = None, _nothing

    def _begin_capture(self, now: float) -> None:
        """Begin the capture if that is possible now: not while a response is half rewritten."""
        if self._capture is not None or self._emit_frame is None:
            return
        from kproxy.protocol.capture.sessioncapture import SessionCapture  # few captures

        beginning = self._conversation.capture_start
        if beginning is not None:
            try:
                self._capture = SessionCapture(self._emit_frame, beginning, now)
            except Exception as error:  # noqa: BLE001  # likewise
                self._give_up(error)

    def _copy(self, of_client: bool, data: Buffer, now: float) -> None:
        if self._capture is None:
            return
        try:
            if of_client:
                self._capture.from_client(data, now)
            else:
                self._capture.to_client(data, now)
        except Exception as error:  # noqa: BLE001  # likewise
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        log.error("defect in the packet capture, please report it: a session is no longer captured", exc_info=error)
        self._capture = self._emit_frame = None


def _nothing() -> None: ...
