"""The broker's side of a conversation: which request a response answers, and what of it passes to the client. Sans-IO.

The rules are in `conversation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kproxy.base.errors import WireError
from kproxy.base.messages.sessions import CORRELATION_MISMATCH, UNSOLICITED_RESPONSE
from kproxy.protocol.rewrite.endpoints import Localise
from kproxy.protocol.rewrite.response import Response
from kproxy.protocol.wire import headers
from kproxy.protocol.wire.greeting import ENOUGH, recognise, wrong_upstream
from kproxy.protocol.wire.primitives import INT32, Buffer, malformed
from kproxy.proxy.relay.calls import NO_KEY, Call
from kproxy.proxy.relay.inflight import InFlight
from kproxy.proxy.relay.requests import MAX_TOKEN


class Responses:
    """The responses of the broker in one session. `begun`: the broker has sent a Kafka response.

    `on_busy` is called when there is more work than may be done at once. Then `take` nothing, again and again, until it
    is not called any more.
    """

    __slots__ = (
        "_call",
        "_half_sent",
        "_in_flight",
        "_left",
        "_localise",
        "_on_rewritten",
        "_on_unknown_apis",
        "_response",
        "_tail",
        "begun",
        "on_busy",
    )

    def __init__(
        self,
        in_flight: InFlight,
        localise: Localise,
        on_rewritten: Callable[[str, int], None],
        on_unknown_apis: Callable[[Sequence[int]], None],
    ) -> None:
        self._in_flight = in_flight
        self._localise = localise
        self._on_rewritten = on_rewritten
        self._on_unknown_apis = on_unknown_apis
        self._left = 0  # bytes of the current response that pass as they come
        self._half_sent: Call | None = None  # the call of that response
        self._response: Response | None = None  # the response that is being rewritten,
        self._call: Call | None = None  # and its call
        self._tail = b""  # the beginning of a frame whose header is not complete; while it is busy, all that waits
        self.begun = False
        self.on_busy: Callable[[], None] = _nothing

    @property
    def has_partial_response(self) -> bool:
        """True if a response has come in part, whose request is no longer in flight."""
        return self._left > 0 or self._response is not None

    @property
    def partial_response_key(self) -> int:
        """The API key of the response that has come in part; NO_KEY if there is none."""
        call = self._call if self._response is not None else self._half_sent if self._left else None
        return NO_KEY if call is None else call.key

    @property
    def is_idle(self) -> bool:
        """True if no response has come in part."""
        return not (self._left or self._response or self._tail)

    @property
    def bytes_left_to_client(self) -> int | None:
        """The number of bytes of the present response that the client still receives.

        None: that is unknown before it has been rewritten.
        """
        return self._left if self._response is None else None

    def wrap_localise(self, wrap: Callable[[Localise], Localise]) -> Callable[[], None]:
        """Wrap the function that returns the local addresses for later responses; return what undoes that."""
        original = self._localise
        self._localise = wrap(original)

        def undo() -> None:
            self._localise = original

        return undo

    @property
    def buffered(self) -> int:
        """The number of bytes that wait for others to come."""
        return len(self._tail) + (0 if self._response is None else self._response.held_bytes)

    def take(self, chunk: Buffer, now: float) -> Buffer:  # noqa: C901  # one loop, no call for a usual frame
        """Take what the broker sent; return what passes to the client. `now` is in seconds of any clock.

        Raises WireError if it must not be passed on.
        """
        end = len(chunk)
        at = self._left
        in_flight = self._in_flight
        if at > end or (at == end and not in_flight.local_runs and self._response is None):
            self._left = at - end
            return chunk
        if self._tail:
            chunk = memoryview(self._tail + chunk)
            self._tail = b""
            end = len(chunk)
        if not self.begun:
            greeting = recognise(bytes(chunk[:ENOUGH]), from_upstream=True)
            if greeting is not None:
                raise wrong_upstream(greeting)
        view = chunk  # as in `Conversation.from_client`
        runs = in_flight.runs
        call: Call | None = self._half_sent
        pieces: list[Buffer] = []
        done = 0  # chunk[:done] is in pieces
        stop = end - 8
        while at <= end:
            if self._response is not None:
                response, call = self._response, self._call
                part = chunk[at : at + response.left]
                taken, out = response.feed(part)
                if out is not part:
                    pieces += (chunk[done:at], out)
                    done = at + taken
                at += taken
                if response.busy:
                    self.on_busy()
                    break
                if response.passing:
                    at += response.left
                elif response.left:
                    break
                self._finish_response()
                continue
            if not runs:
                if end - at < (4 if in_flight.tokens else 8):
                    if not in_flight.tokens:
                        _check_size(chunk, at)
                    break
                at = self._pass_token(chunk, at)  # the answer to a PLAIN token is of size 0
                continue
            run = runs[0]
            call = run.call
            if call.is_local:
                pieces += (chunk[done:at], *in_flight.take_local_answers())
                done = at
                continue
            if at > stop:
                _check_size(chunk, at)
                break  # more bytes are needed
            first = next_id = run.first
            end_id, edited, plain = run.end_id, call.edited, call.plain
            while at <= stop and next_id != end_id:
                size, correlation_id = headers.read_response(view, at)
                if correlation_id != next_id or size < 4:
                    raise _wrong_id_error(size, correlation_id, next_id)
                next_id += 1
                after = at + 4 + size
                if edited and not (plain and after <= end and plain.names_no_endpoint(view, at, after)):
                    self._call = call
                    self._response = call.respond(size, end - at, self._localise)
                    break
                at = after
            call.counters.add(now - run.since, next_id - first)
            in_flight.count -= next_id - first
            if next_id == end_id:
                runs.popleft()
            else:
                run.first = next_id
        self.begun = self.begun or at > 0
        if at >= end:
            self._left = at - end
            if at > end:
                self._half_sent = call
            tail = end
        else:
            self._left = 0
            tail = at
            self._tail = bytes(chunk[at:end])
        if pieces:
            pieces.append(chunk[done:tail])
            return b"".join(pieces)
        return chunk[:tail] if tail < end else chunk

    def _finish_response(self) -> None:
        assert self._response is not None
        assert self._call is not None
        if self._response.endpoints:
            self._on_rewritten(self._call.api, self._response.endpoints)
        if self._response.unknown_apis:
            self._on_unknown_apis(self._response.unknown_apis)
        self._response = self._call = None

    def _pass_token(self, chunk: Buffer, at: int) -> int:
        """Skip a frame that answers no request: a SASL token, or an error. Return the index behind it."""
        (size,) = INT32.unpack_from(chunk, at)
        if self._in_flight.tokens and not self._in_flight.tokens_end_here and 0 <= size <= MAX_TOKEN:
            return int(at + 4 + size)
        _check_size(chunk, at)
        raise WireError(*UNSOLICITED_RESPONSE.with_reason())


def _nothing() -> None: ...


def _check_size(chunk: Buffer, at: int) -> None:
    """Raise WireError if a response that begins here is too small for a correlation id.

    No more of it will come, so the size must show it, if it has come.
    """
    if len(chunk) - at >= 4:
        (size,) = INT32.unpack_from(chunk, at)
        if size < 4:
            raise malformed(f"the broker sent a response of {size} bytes")


def _wrong_id_error(size: int, correlation_id: int, expected: int) -> WireError:
    if size < 4:
        return malformed(f"the broker sent a response of {size} bytes")
    return WireError(*CORRELATION_MISMATCH.with_reason(correlation_id=correlation_id, expected=expected))
