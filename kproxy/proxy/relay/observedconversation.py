"""The conversation of an observed session: an observer reads what passes, a capture copies it, a reader reads names.

Sans-IO, but for the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, Protocol

from kproxy.protocol.wire.primitives import Buffer
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.observer import Exchange, Observer, ObserverStart

if TYPE_CHECKING:
    from kproxy.protocol.capture.sessioncapture import RedactedFrame, SessionCapture

log = logging.getLogger(__name__)

EmitExchange = Callable[[Exchange], None]
EmitFrame = Callable[["RedactedFrame"], None]
P = ParamSpec("P")


class RequestReader(Protocol):
    """Reads the requests of one session (see `kproxy.proxy.observation`).

    `stopped`: it reads no more; another one may begin when requests with headers follow.
    """

    stopped: bool

    def from_client(self, chunk: Buffer, now: float) -> None:
        """Read what the client has sent."""


NewRequestReader = Callable[[ObserverStart], RequestReader]


class ObservedConversation:
    """A conversation whose two steps also serve an observer, a capture, a reader of requests, or several of them."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._emit_exchange: EmitExchange | None = None
        self._observer: Observer | None = None  # while exchanges are emitted, once it could begin
        self._end_observer: Callable[[], None] = _nothing
        self._emit_frame: EmitFrame | None = None
        self._capture: SessionCapture | None = None  # while frames are emitted, likewise
        self._new_reader: NewRequestReader | None = None
        self._reader: RequestReader | None = None  # likewise

    def set_sinks(
        self, exchanges: EmitExchange | None, frames: EmitFrame | None, new_reader: NewRequestReader | None = None
    ) -> None:
        """Emit exchanges and frames to these from now on, and let a reader of `new_reader` read the requests.

        None: stop. A sink that is set already stays.
        """
        if exchanges is None:
            self._end_observer()
            self._observer, self._end_observer = None, _nothing
        if exchanges is None or self._emit_exchange is None:
            self._emit_exchange = exchanges
        if frames is None or self._emit_frame is None:
            self._emit_frame, self._capture = frames, None
        if new_reader is None or self._new_reader is None:
            self._new_reader, self._reader = new_reader, None

    def from_client(self, chunk: Buffer, now: float) -> Buffer:
        self._begin(now)
        if self._observer is not None:
            self._feed_observer(self._observer.from_client, chunk, now)
        if self._capture is not None:
            self._feed_capture(self._capture.from_client, chunk, now)
        if self._reader is not None:
            self._feed_reader(self._reader, chunk, now)
        return self._conversation.from_client(chunk, now)

    def from_upstream(self, chunk: Buffer, now: float) -> Buffer:
        self._begin(now)
        out = self._conversation.from_upstream(chunk, now)
        self.to_client(out, now)
        return out

    def to_client(self, data: Buffer, now: float) -> None:
        """Observe what the client receives: also the answers of kproxy itself, once they are taken."""
        if self._observer is not None:
            self._feed_observer(self._observer.to_client, data, now)
        if self._capture is not None:
            self._feed_capture(self._capture.to_client, data, now)

    def _feed_observer(self, step: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
        try:
            step(*arguments, **named)
        except Exception as error:  # an observer must not end a session
            log.error("defect in an observer, please report it: a session is no longer observed", exc_info=error)
            self.set_sinks(None, self._emit_frame, self._new_reader)

    def _feed_capture(self, step: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
        try:
            step(*arguments, **named)
        except Exception as error:  # noqa: BLE001  # likewise
            self._give_up(error)

    def _feed_reader(self, reader: RequestReader, chunk: Buffer, now: float) -> None:
        try:
            reader.from_client(chunk, now)
        except Exception as error:  # likewise
            log.error("defect in a reader of requests, please report it: it reads no more", exc_info=error)
            self._reader = self._new_reader = None
            return
        if reader.stopped:
            self._reader = None

    def _begin(self, now: float) -> None:
        """Begin what is wanted, if that is possible now: not while a response is half rewritten."""
        if self._observer is None and self._emit_exchange is not None:
            start = self._conversation.observer_start
            if start is not None:
                self._observer = Observer(self._emit_exchange, start)
                self._end_observer = self._conversation.wrap_localise(self._observer.wrap_localise)
        if self._reader is None and self._new_reader is not None:
            start = self._conversation.observer_start
            if start is not None and not start.tokens:
                self._reader = self._new_reader(start)
        if self._capture is None and self._emit_frame is not None:
            from kproxy.protocol.capture.sessioncapture import SessionCapture  # few captures

            beginning = self._conversation.capture_start
            if beginning is not None:
                try:
                    self._capture = SessionCapture(self._emit_frame, beginning, now)
                except Exception as error:  # noqa: BLE001  # likewise
                    self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        log.error("defect in the packet capture, please report it: a session is no longer captured", exc_info=error)
        self._capture = self._emit_frame = None


def _nothing() -> None: ...
