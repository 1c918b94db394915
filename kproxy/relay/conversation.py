"""The frames of one session: which requests are in flight, and what to do with each frame. Sans-IO.

Requests stream to the broker as they came; of each, only the size, API key, API version and correlation id
are read (of Produce also its acks, because acks=0 has no response). A broker answers the requests of a
connection in their order, so a response is known by its place; its correlation id must confirm it. Most
responses stream too; those that carry addresses are rewritten on the way.

Two exceptions to "a frame has a header":
 * after SaslHandshake v0, tokens go back and forth as bare size and bytes until the client sends its next
   request (KIP-43). Where that is, is not on the wire: a frame that reads as a request is one.
 * a GSSAPI client of the 0.9 age sends such a token first of all; it begins with 0x60 (RFC 2743 §3.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any

from kproxy.errors import WireError
from kproxy.relay.calls import Call, Calls, OwnCall
from kproxy.relay.requests import check_answerable, find_acks, find_mechanism
from kproxy.relay.tokens import MAX_TOKEN, hop_over_tokens
from kproxy.relay.wrongpeer import wrong_client, wrong_upstream
from kproxy.rewrite import apiversions
from kproxy.rewrite.endpoints import Localise
from kproxy.rewrite.response import Response
from kproxy.wire.api import SASL_HANDSHAKE
from kproxy.wire.greeting import ENOUGH, recognise
from kproxy.wire.primitives import INT32, Buffer, malformed

_read_request = Struct(">iIi").unpack_from  # size, API key and version as one number, correlation id
_read_response = Struct(">ii").unpack_from  # size, correlation id

# What is held back of a request until it can be judged: before the acks of Produce stand two strings of at most
# 32 KiB each; an ApiVersions request has two short ones.
_HEAD_LIMIT = 128 * 1024
# Requests of one connection that wait for their responses. A broker works on one at a time, clients send 5 to
# some hundreds ahead; this bounds what a client can make kproxy remember.
MAX_IN_FLIGHT = 100_000
# What may be remembered of a Produce request, in bytes from its beginning to its acks.
_MAX_PRODUCE_HEAD = 512


class Conversation:
    """The frames of one session.

    `from_client` and `from_upstream` take what one side sent and return what may go on to the other.
    `answers` is what kproxy has to say to the client itself; `take_answers` gives it, once.
    `on_handshake` is told the mechanism of each SaslHandshake, "" if it cannot be read, and may raise WireError.
    `requested` and `answered`: whether the client and the broker have said anything Kafka-like yet.
    """

    __slots__ = (
        "_calls", "_client_tail", "_left_to_broker", "_left_to_client", "_local_answers", "_localise", "_max_request",
        "_on_handshake", "_on_rewritten", "_produce_call", "_produce_head", "_raw", "_response", "_response_call",
        "_upstream_tail", "answered", "answers", "holding", "in_flight", "requested",
    )  # fmt: skip

    def __init__(
        self,
        calls: Calls,
        localise: Localise,
        max_request: int,
        on_rewritten: Callable[[str, int], None] = lambda api, endpoints: None,
        on_handshake: Callable[[str], None] = lambda mechanism: None,
    ) -> None:
        self._calls = calls
        self._localise = localise
        self._max_request = max_request
        self._on_rewritten = on_rewritten
        self._on_handshake = on_handshake
        # Of each request: its correlation id, its call, when it came. kproxy's own answers stand in line with
        # them, with no call and the answer in the last place.
        self.in_flight: deque[tuple[int, Call | None, Any]] = deque()
        self._local_answers = 0
        self.answers = b""
        self._left_to_broker = 0  # bytes of the current request that pass as they come
        self._left_to_client = 0
        self._client_tail = b""  # the beginning of a frame that cannot be judged yet
        self._upstream_tail = b""
        self._response: Response | None = None  # the response that is being rewritten,
        self._response_call: Call | None = None  # and its call
        self._produce_call: Call | None = None  # of the last Produce request that has a response,
        self._produce_head = b""  # and what stood between its correlation id and the end of its acks
        self._raw = False  # SASL tokens without headers may come
        self.holding = False
        self.requested = False
        self.answered = False

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way: no request half sent, none without its whole response."""
        return not (
            self.in_flight
            or self._left_to_broker
            or self._left_to_client
            or self._client_tail
            or self._upstream_tail
            or self._response
        )

    # From the client

    def from_client(self, chunk: Buffer, now: float) -> Buffer:  # noqa: C901  # one loop, no call for a usual frame
        """Take what the client sent; return what goes on to the broker. `now` is in seconds of any clock.

        Raises WireError if the client must be disconnected.
        """
        end = len(chunk)
        at = self._left_to_broker
        if at >= end:
            self._left_to_broker = at - end
            return chunk
        if self.holding:
            self._left_to_broker = 0
            self._client_tail += chunk[at:]
            return chunk[:at]
        if self._client_tail:
            chunk = memoryview(self._client_tail + chunk)
            self._client_tail = b""
            end = len(chunk)
        if not self.requested:
            self._check_first_request(chunk)
        calls, in_flight, limit = self._calls, self.in_flight, self._max_request
        answered: list[tuple[int, int]] = []
        note = in_flight.append
        stop = end - 12
        call: Call | None = None
        code, run = -1, 0  # so many requests of one kind in a row
        while True:
            if self._raw:
                at, self._raw = hop_over_tokens(chunk, at, end, limit)
            while at <= stop:
                size, next_code, correlation_id = _read_request(chunk, at)
                if next_code != code or not 10 <= size <= limit:
                    break
                note((correlation_id, call, now))
                run += 1
                at += 4 + size
            else:
                break
            if run and call is not None:
                call.counters.count += run
            call, code, run = calls[next_code], next_code, 1
            after = at + 4 + size
            if call is None or not 10 <= size <= limit:
                check_answerable(size, code, limit)  # only ApiVersions of a later version is
                code, run = -1, 0
                if after > end:
                    break
                self._answer(correlation_id)
                answered.append((at, after))
            elif not call.special:
                note((correlation_id, call, now))
            elif call.key == SASL_HANDSHAKE:
                code = -1  # tokens may stand before the next one
                self._on_handshake(find_mechanism(chunk, at, min(end, after)))
                self._raw = call.version == 0
                note((correlation_id, call, now))
            else:
                code = -1  # the next one may have other acks
                expects = self._expects_response(chunk, at, end, after, call)
                if expects is None:
                    run = 0
                    break
                if expects:
                    note((correlation_id, call, now))
            at = after
        if run and call is not None:
            call.counters.count += run
        self.requested = self.requested or at > 0
        if len(in_flight) > MAX_IN_FLIGHT:
            raise WireError("too-many-in-flight", f"the client has over {MAX_IN_FLIGHT} requests without a response")
        if at >= end:
            self._left_to_broker = at - end
        else:
            self._left_to_broker = 0
            self._client_tail = bytes(chunk[at:end])
            if len(self._client_tail) > _HEAD_LIMIT:
                raise malformed("a request's header is longer than any client's")
            chunk = chunk[:at]
        return _without(chunk, answered) if answered else chunk

    def hold(self) -> None:
        """Let no further request through: what the client sends behind the one that is under way stays here."""
        self.holding = True

    @property
    def held(self) -> bool:
        """Whether no request is under way to the broker any more, since `hold`."""
        return self.holding and not self._left_to_broker

    def release(self, now: float) -> Buffer:
        """Let requests through again; return what goes on to the broker of those that came meanwhile."""
        self.holding = False
        tail, self._client_tail = self._client_tail, b""
        return self.from_client(memoryview(tail), now) if tail else b""

    def ask(self, request: bytes, on_response: Callable[[bytes], None]) -> bytes:
        """Send a request of kproxy's own, a whole frame, while `held`; return what goes on to the broker.

        `on_response` is given its response, without the size.
        """
        _, _, correlation_id = _read_request(request, 0)
        self.in_flight.append((correlation_id, OwnCall(on_response), 0.0))
        return request

    def take_answers(self) -> bytes:
        """What kproxy says to the client itself, once; empty if nothing."""
        answers, self.answers = self.answers, b""
        return answers

    def _check_first_request(self, chunk: Buffer) -> None:
        greeting = recognise(bytes(chunk[:ENOUGH]) if len(chunk) > ENOUGH else bytes(chunk))
        if greeting is not None:
            raise wrong_client(greeting)
        if len(chunk) >= 5 and chunk[4] == 0x60:
            self._raw = True

    def _answer(self, correlation_id: int) -> None:
        answer = apiversions.unsupported_version(correlation_id)
        if self.in_flight or self._left_to_client or self._response is not None:
            self.in_flight.append((correlation_id, None, answer))
            self._local_answers += 1
        else:
            self.answers += answer

    def _expects_response(self, chunk: Buffer, at: int, end: int, after: int, call: Call) -> bool | None:
        """Whether the Produce request at chunk[at:after] has a response; None if its acks, which say so, are not here.

        A producer writes the same client id, transactional id and acks into all its requests, so what stood there in
        one that has a response is remembered.
        """
        head = self._produce_head
        stop = at + 12 + len(head)
        if call is self._produce_call and stop <= after and chunk[at + 12 : stop] == head:
            return True
        acks_at = find_acks(chunk, at, min(end, after), call.version)
        if acks_at is None:
            if after <= end:
                raise malformed("a Produce request ends before its acks")
            return None
        stop = acks_at + 2
        expects = chunk[acks_at:stop] != b"\0\0"
        if expects and stop - at <= _MAX_PRODUCE_HEAD:
            self._produce_call, self._produce_head = call, bytes(chunk[at + 12 : stop])
        return expects

    # From upstream

    def from_upstream(self, chunk: Buffer, now: float) -> Buffer:  # noqa: C901  # likewise
        """Take what the broker sent; return what goes on to the client. `now` as in `from_client`.

        Raises WireError if it must not be passed on.
        """
        end = len(chunk)
        at = self._left_to_client
        if at > end or (at == end and not self._local_answers):
            self._left_to_client = at - end
            return chunk
        if self._upstream_tail:
            chunk = memoryview(self._upstream_tail + chunk)
            self._upstream_tail = b""
            end = len(chunk)
        if not self.answered:
            greeting = recognise(bytes(chunk[:ENOUGH]), from_upstream=True)
            if greeting is not None:
                raise wrong_upstream(greeting)
        in_flight = self.in_flight
        pieces: list[Buffer] = []
        done = 0  # chunk[:done] is in pieces
        next_in_flight, stop = in_flight.popleft, end - 8
        run_call: Call | None = None
        run_since, run = 0.0, 0  # so many responses to requests of one kind that came together
        try:
            while at <= end:
                if self._response is not None:
                    response = self._response
                    left = response.left
                    part = chunk[at : at + left]
                    out = response.feed(part)
                    begun, at = at, at + left - response.left
                    if out is not part:
                        pieces += (chunk[done:begun], out)
                        done = at
                    if response.passing:
                        at += response.left
                    elif response.left:
                        break
                    self._finish_response()
                    continue
                if not in_flight or (self._local_answers and in_flight[0][1] is None):
                    if in_flight:
                        pieces += (chunk[done:at], self._next_answer())
                        done = at
                    elif end - at < (4 if self._raw else 8):
                        break
                    else:
                        at = self._pass_token(chunk, at)  # the answer to a PLAIN token is of size 0
                    continue
                while in_flight and at <= stop:
                    size, correlation_id = _read_response(chunk, at)
                    expected, call, since = next_in_flight()
                    if call is None:
                        in_flight.appendleft((expected, call, since))
                        break
                    if correlation_id != expected or size < 4:
                        raise _not_the_next(size, correlation_id, expected)
                    if since is not run_since or call is not run_call:
                        if run and run_call is not None:
                            run_call.counters.add(now - run_since, run)
                        run_call, run_since, run = call, since, 0
                    run += 1
                    after = at + 4 + size
                    if call.edited and not (after <= end and call.is_plain(chunk, at, after)):
                        self._response_call = call
                        self._response = call.respond(size, end - at, self._localise)
                        call.counters.add(now - since, run)
                        run_call, run = None, 0
                        break
                    at = after
                else:
                    if in_flight and in_flight[0][1] is not None:
                        break  # more bytes are needed
        finally:
            if run and run_call is not None:
                run_call.counters.add(now - run_since, run)
        self.answered = self.answered or at > 0
        if at >= end:
            self._left_to_client = at - end
            tail = end
        else:
            self._left_to_client = 0
            tail = at
            self._upstream_tail = bytes(chunk[at:end])
        if pieces:
            pieces.append(chunk[done:tail])
            return b"".join(pieces)
        return chunk[:tail] if tail < end else chunk

    def _finish_response(self) -> None:
        assert self._response is not None
        assert self._response_call is not None
        if self._response.endpoints:
            self._on_rewritten(self._response_call.api, self._response.endpoints)
        self._response = self._response_call = None

    def _next_answer(self) -> bytes:
        _, _, answer = self.in_flight.popleft()
        assert isinstance(answer, bytes)
        self._local_answers -= 1
        return answer

    def _pass_token(self, chunk: Buffer, at: int) -> int:
        """Hop over a frame that answers no request: a SASL token, or an error. Return the index after it."""
        (size,) = INT32.unpack_from(chunk, at)
        if self._raw and not self.in_flight and 0 <= size <= MAX_TOKEN:
            return int(at + 4 + size)
        if size < 4:
            raise malformed(f"the broker sent a response of {size} bytes")
        raise WireError("unsolicited-response", "the broker sent a response that no request asked for")


def _without(chunk: Buffer, gaps: list[tuple[int, int]]) -> bytes:
    pieces = []
    at = 0
    for start, end in gaps:
        pieces.append(chunk[at:start])
        at = end
    return b"".join([*pieces, chunk[at:]])


def _not_the_next(size: int, correlation_id: int, expected: int) -> WireError:
    if size < 4:
        return malformed(f"the broker sent a response of {size} bytes")
    return WireError(
        "correlation-mismatch",
        f"the broker answered with correlation id {correlation_id} where {expected} was next",
    )
