"""Both directions of one session: identifies each frame, and makes its redacted copy. Sans-IO.

It receives the bytes that the client sends, and the bytes that the client receives. A broker answers in order, so the
oldest request without a response determines the type of a response; the correlation id must confirm it. If it does not,
or if tokens without headers follow (SaslHandshake v0), nothing more of the session is copied: bytes that are taken for
something else might show what must not be shown.

Its memory is bounded whatever passes: the copy of one frame for each direction (see `framecopy`), and the requests
without a response.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct

from kproxy.base.errors import WireError
from kproxy.base.printable import one_line
from kproxy.protocol.capture.framecopy import MAX_COPY, CopyTooLong, FrameCopy, plan_for
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import INT16, INT32, Buffer, Underflow, read_string, skip_tags

_read_request = Struct(">ihhi").unpack_from  # size, API key, version, correlation id
_read_response = Struct(">ii").unpack_from
_REQUEST_HEAD, _RESPONSE_HEAD = 12, 8
# Requests without a response that it remembers.
_MAX_WAITING = 10_000
_LONGEST_NAME = 100

_UNKNOWN = "kproxy has no definition of this API and version"
_TOO_LONG = f"its copy would be longer than {MAX_COPY} bytes"
_MALFORMED = "it does not match its definition"
TOKENS = "SASL tokens without headers may follow, so nothing more of this connection is shown"
OUT_OF_STEP = "kproxy cannot tell what the following frames are, so nothing more of this connection is shown"


@dataclass(frozen=True, slots=True)
class RedactedFrame:
    """A frame that has passed, as the capture shows it."""

    at: float  # the time of its last byte, by the clock of the capture, in seconds
    to_client: bool
    key: int  # the API key; -1 for a remark on all that follows, which is no frame
    version: int
    client_id: str
    software: str
    size: int  # its real size, without the size field
    left_out: int  # bytes of it that `data` does not have
    data: bytes  # a whole frame of another size; empty if nothing of it can be shown
    why: str = ""  # the reason for empty `data`

    @property
    def api(self) -> str:
        """The name of the API, or its number."""
        if self.key < 0:
            return ""
        api = APIS.get(self.key)
        return str(self.key) if api is None else api.name


@dataclass(frozen=True, slots=True)
class CaptureStart:
    """The state of a session where a capture begins."""

    from_client: int = 0  # bytes of the client's current frame that are still to pass
    head: bytes = b""  # the beginning of a request, which has arrived already
    to_client: int = 0  # bytes of the current response that are still to pass
    waiting: Sequence[tuple[int, int, int, int]] = ()
    """The requests without a response: key, version, the first correlation id, and the id after the last."""
    tokens: bool = False  # SASL tokens without headers may follow


class _Direction:
    """The frames of one direction.

    `head` has the beginning of a frame, and `needs` the bytes of it that identify it. `left` counts the bytes of the
    current frame still to come; `shown` is true if that frame will be emitted.
    """

    __slots__ = ("copy", "head", "key", "left", "needs", "shown", "size", "version", "why")

    def __init__(self, left: int, needs: int) -> None:
        self.left, self.needs = left, needs
        self.shown = False
        self.head = b""
        self.copy: FrameCopy | None = None
        self.key = self.version = self.size = 0
        self.why = ""


class SessionCapture:
    """Copies the frames of one session, and passes each to `emit` once its last byte has arrived."""

    def __init__(self, emit: Callable[[RedactedFrame], None], beginning: CaptureStart, now: float) -> None:
        self._emit = emit
        self._requests = _Direction(beginning.from_client, _REQUEST_HEAD)
        self._responses = _Direction(beginning.to_client, _RESPONSE_HEAD)
        self._waiting = deque(
            (key, version, number)
            for key, version, first, beyond in beginning.waiting
            for number in range(first, min(beyond, first + _MAX_WAITING + 1))
        )
        self._undecided: int | None = None  # the correlation id of a Produce request whose acks have not arrived
        self._tokens = False
        self._blind = False
        self._client_id = self._software = ""
        if beginning.tokens:
            self._go_blind(now, TOKENS)
        elif len(self._waiting) > _MAX_WAITING:
            self._go_blind(now, OUT_OF_STEP)
        elif beginning.head:
            self.from_client(beginning.head, now)

    def from_client(self, chunk: Buffer, now: float) -> None:
        """Take bytes that the client has sent."""
        self._take(self._requests, chunk, now)

    def to_client(self, chunk: Buffer, now: float) -> None:
        """Take bytes that the client receives."""
        self._take(self._responses, chunk, now)

    def _take(self, side: _Direction, chunk: Buffer, now: float) -> None:
        at, end = 0, len(chunk)
        while at < end and not self._blind:
            if side.left:
                stop = min(end, at + side.left)
                self._pass(side, chunk[at:stop])
                side.left -= stop - at
                at = stop
            else:
                stop = at + side.needs - len(side.head)
                side.head += bytes(chunk[at:stop])
                at = min(stop, end)
                if len(side.head) < side.needs:
                    return
                why = self._begin_request(side, now) if side is self._requests else self._begin_response(side)
                if why:
                    self._go_blind(now, why)
                    return
                if side.head:  # more of its bytes are needed
                    continue
            if not side.left:
                self._end(side, now)

    def _begin_request(self, side: _Direction, now: float) -> str:
        """Begin a request. Return the reason why nothing more can be copied, or ""."""
        size, key, version, correlation_id = _read_request(side.head)
        api = APIS.get(key)
        if self._tokens:
            return TOKENS
        if size < 10 or api is None:
            return OUT_OF_STEP
        is_known = api.serves(version)
        self._begin(side, key, version, size, is_known)
        if key == ApiKey.PRODUCE and side.copy is None:
            return OUT_OF_STEP  # whether it has a response, its acks say
        if key == ApiKey.PRODUCE:
            self._undecided = correlation_id
        else:
            self._waiting.append((key, version, correlation_id))
        self._tokens = key == ApiKey.SASL_HANDSHAKE and version == 0
        self._pass_head(side)
        return OUT_OF_STEP if len(self._waiting) > _MAX_WAITING else ""

    def _begin_response(self, side: _Direction) -> str:
        size, correlation_id = _read_response(side.head)
        if not self._waiting:
            return TOKENS if self._tokens else OUT_OF_STEP
        key, version, expected = self._waiting[0]
        if size < 4 or correlation_id != expected:
            return OUT_OF_STEP
        if key == ApiKey.API_VERSIONS and size >= 6:
            if side.needs == _RESPONSE_HEAD:
                side.needs += 2
                return ""
            (error,) = INT16.unpack_from(side.head, _RESPONSE_HEAD)
            version = 0 if error == ErrorCode.UNSUPPORTED_VERSION else version  # KIP-511
        side.needs = _RESPONSE_HEAD
        self._waiting.popleft()
        self._begin(side, key, version, size, APIS[key].serves(version))
        self._pass_head(side)
        return ""

    def _begin(self, side: _Direction, key: int, version: int, size: int, is_known: bool) -> None:
        plan = plan_for(key, version, of_request=side is self._requests) if is_known else None
        side.key, side.version, side.size, side.shown = key, version, size, True
        side.copy, side.why = (None, _UNKNOWN) if plan is None else (FrameCopy(plan), "")

    def _pass_head(self, side: _Direction) -> None:
        head, side.head = side.head[4:], b""
        side.left = side.size - len(head)
        self._pass(side, head)

    def _pass(self, side: _Direction, part: Buffer) -> None:
        """Take bytes of the current frame."""
        if side.copy is None:
            return
        try:
            side.copy.feed(part)
        except WireError:
            side.copy, side.why = None, _MALFORMED
        except CopyTooLong:
            side.copy, side.why = None, _TOO_LONG
        else:
            if side.copy.acks is not None and self._undecided is not None and side is self._requests:
                if side.copy.acks:
                    self._waiting.append((ApiKey.PRODUCE, side.version, self._undecided))
                self._undecided = None

    def _end(self, side: _Direction, now: float) -> None:
        """Finish the current frame."""
        copy, side.copy = side.copy, None
        if not side.shown:
            return
        side.shown = False
        if copy is not None and not copy.done:
            copy, side.why = None, _MALFORMED
        data = b"" if copy is None else INT32.pack(len(copy.out)) + bytes(copy.out)
        if data and side is self._requests:
            self._learn_names(side, data)
        left_out = side.size if copy is None else copy.left_out
        to_client, names = side is self._responses, (self._client_id, self._software)
        self._emit(RedactedFrame(now, to_client, side.key, side.version, *names, side.size, left_out, data, side.why))
        if self._undecided is not None and side is self._requests:
            self._go_blind(now, OUT_OF_STEP)  # its acks were not found

    def _learn_names(self, side: _Direction, data: bytes) -> None:
        """Note the client's id and software from the copy of its request."""
        end = len(data)
        try:
            client_id, at = read_string(data, _REQUEST_HEAD, end, compact=False, nullable=True)
            self._client_id = _text(client_id)
            if side.key == ApiKey.API_VERSIONS and ApiKey.API_VERSIONS.is_flexible(side.version):
                name, at = read_string(data, skip_tags(data, at, end), end, compact=True, nullable=False)
                version, _ = read_string(data, at, end, compact=True, nullable=False)
                self._software = _text(b" ".join((name or b"", version or b"")))
        except (Underflow, WireError):  # pragma: no cover  # a copy is well-formed
            return

    def _go_blind(self, now: float, why: str) -> None:
        self._blind = True
        self._waiting.clear()
        self._requests = _Direction(0, _REQUEST_HEAD)
        self._responses = _Direction(0, _RESPONSE_HEAD)
        self._emit(RedactedFrame(now, False, -1, 0, self._client_id, self._software, 0, 0, b"", why))


def _text(raw: bytes | None) -> str:
    return one_line((raw or b"").decode("utf-8", "replace"), _LONGEST_NAME)
