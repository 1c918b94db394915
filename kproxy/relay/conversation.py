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
from kproxy.relay.calls import LOGIN_APIS, Call, Calls, LoginCalls, OwnCall
from kproxy.relay.requests import Acks, check_answerable, find_mechanism
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


# Requests of one API and version that came together with correlation ids in a row: the next id that is to be answered,
# the id beyond the last, the call, when they came. Those that kproxy answers itself have no call.
_Run = list[Any]


class Conversation:
    """The frames of one session.

    `from_client` and `from_upstream` take what one side sent and return what may go on to the other.
    `in_flight` is how many requests have no response yet.
    `answers` is what kproxy has to say to the client itself, now; `take_answers` gives it, once. Until then
    nothing may be taken from upstream, and nothing need be from the client.
    `on_handshake` is told the mechanism of each SaslHandshake, "" if it cannot be read, and may raise WireError.
    `requested` and `answered`: whether the client and the broker have said anything Kafka-like yet.
    `holding` is how many hold the client's requests back.
    """

    __slots__ = (
        "_acks", "_calls", "_client_tail", "_left_to_broker", "_left_to_client", "_localise",
        "_max_request", "_on_gate", "_on_handshake", "_on_rewritten", "_own_runs", "_raw", "_response",
        "_response_call", "_runs", "_upstream_tail", "answered", "answers", "holding", "in_flight", "requested",
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
        self.in_flight = 0  # requests without a response
        self._runs: deque[_Run] = deque()  # the same in their order
        self._own_runs = 0  # of them those that kproxy answers itself
        self.answers = bytearray()
        self._left_to_broker = 0  # bytes of the current request that pass as they come
        self._left_to_client = 0
        self._client_tail = b""  # the beginning of a frame that cannot be judged yet
        self._upstream_tail = b""
        self._response: Response | None = None  # the response that is being rewritten,
        self._response_call: Call | None = None  # and its call
        self._acks = Acks()
        self._raw = False  # SASL tokens without headers may come
        self.holding = 0
        self._on_gate: Callable[[], None] | None = None
        self.requested = False
        self.answered = False

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way: no request half sent, none without its whole response."""
        return not (
            self._runs
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
        calls, limit = self._calls, self._max_request
        cut: list[tuple[int, int]] = []  # requests that kproxy answers itself
        stop = end - 12
        # A run, requests of one kind with ids in a row, is noted as one; `code` is its API and version, or -1 if the
        # next request needs a look even if it is alike.
        call: Call | None = None
        code, first, beyond = -1, 0, 0
        while True:
            if self._raw:
                at, self._raw = hop_over_tokens(chunk, at, end, limit)
            while at <= stop:
                size, next_code, correlation_id = _read_request(chunk, at)
                if next_code != code or correlation_id != beyond or not 10 <= size <= limit:
                    break
                beyond += 1
                at += 4 + size
            else:
                break
            next_call, code = calls[next_code], next_code
            if next_call is not call or correlation_id != beyond:
                if first != beyond and call is not None:
                    self._note(call, first, beyond, now)
                call, first, beyond = next_call, correlation_id, correlation_id
            after = at + 4 + size
            if call is None or not 10 <= size <= limit:
                if self._on_gate is not None and code >> 16 not in LOGIN_APIS:
                    self._meet_gate()
                    break
                check_answerable(size, code, limit)  # only ApiVersions of a later version is
                if after > end:
                    break
                self._answer(correlation_id)
                if cut and cut[-1][1] == at:
                    at = cut.pop()[0]
                cut.append((at, after))
                code = -1
            elif not call.special:
                beyond += 1
            elif call.key == SASL_HANDSHAKE:
                self._on_handshake(find_mechanism(chunk, at, min(end, after)))
                self._raw = call.version == 0
                code = -1  # tokens may stand before the next one
                beyond += 1
            else:
                expects = self._acks.expected(chunk, at, after if after < end else end, call)
                if expects is None:
                    if after <= end:
                        raise malformed("a Produce request ends before its acks")
                    break
                code = -1  # the next one may have other acks
                if expects:
                    beyond += 1
                else:
                    call.counters.count += 1
            at = after
        if first != beyond and call is not None:
            self._note(call, first, beyond, now)
        if at:
            self.requested = True
        if at >= end:
            self._left_to_broker = at - end
        else:
            self._left_to_broker = 0
            self._client_tail = bytes(chunk[at:end])
            if len(self._client_tail) > _HEAD_LIMIT and not self.holding:
                raise malformed("a request's header is longer than any client's")
            chunk = chunk[:at]
        return _without(chunk, cut) if cut else chunk

    def _note(self, call: Call, first: int, beyond: int, now: float) -> None:
        """Remember requests with the correlation ids from `first` up to `beyond`."""
        count = beyond - first
        call.counters.count += count
        self.in_flight += count
        if self.in_flight > MAX_IN_FLIGHT:
            raise _too_many()
        self._runs.append([first, beyond, call, now])

    def hold(self) -> None:
        """Let no further request through: what the client sends behind the one that is under way stays here. Each
        `hold` needs a `release` of its own."""
        self.holding += 1

    def hold_before_first_request(self, on_held: Callable[[], None]) -> None:
        """Let only requests of the login APIs through, and SASL tokens. Before any other, which is not judged yet,
        `hold` and call `on_held`. To be called before the client has said anything."""
        self._calls, self._on_gate = LoginCalls(self._calls), on_held

    def _meet_gate(self) -> None:
        assert isinstance(self._calls, LoginCalls)
        assert self._on_gate is not None
        self._calls, on_held, self._on_gate = self._calls.all, self._on_gate, None
        self.hold()
        on_held()

    @property
    def held(self) -> bool:
        """Whether no request is under way to the broker any more, since `hold`."""
        return self.holding > 0 and not self._left_to_broker

    def release(self, now: float) -> Buffer:
        """Undo one `hold`. With the last, let requests through again; return what goes on to the broker of those that
        came meanwhile."""
        assert self.holding, "it is not held"
        self.holding -= 1
        if self.holding:
            return b""
        tail, self._client_tail = self._client_tail, b""
        return self.from_client(memoryview(tail), now) if tail else b""

    def ask(self, request: bytes, on_response: Callable[[bytes], None]) -> bytes:
        """Send a request of kproxy's own, a whole frame, while `held`; return what goes on to the broker.

        `on_response` is given its response, without the size.
        """
        _, _, correlation_id = _read_request(request, 0)
        self._note(OwnCall(on_response), correlation_id, correlation_id + 1, 0.0)
        return request

    def take_answers(self) -> bytearray:
        """What kproxy says to the client itself, once; empty if nothing."""
        answers, self.answers = self.answers, bytearray()
        return answers

    def _check_first_request(self, chunk: Buffer) -> None:
        greeting = recognise(bytes(chunk[:ENOUGH]) if len(chunk) > ENOUGH else bytes(chunk))
        if greeting is not None:
            raise wrong_client(greeting)
        if len(chunk) >= 5 and chunk[4] == 0x60:
            self._raw = True

    def _answer(self, correlation_id: int) -> None:
        runs = self._runs
        if not (runs or self._left_to_client or self._response is not None):
            self.answers += apiversions.unsupported_version(correlation_id)
            return
        self.in_flight += 1
        if self.in_flight > MAX_IN_FLIGHT:
            raise _too_many()
        if runs and runs[-1][2] is None and runs[-1][1] == correlation_id:
            runs[-1][1] += 1
        else:
            runs.append([correlation_id, correlation_id + 1, None, 0.0])
            self._own_runs += 1

    # From upstream

    def from_upstream(self, chunk: Buffer, now: float) -> Buffer:  # noqa: C901  # likewise
        """Take what the broker sent; return what goes on to the client. `now` as in `from_client`.

        Raises WireError if it must not be passed on.
        """
        end = len(chunk)
        at = self._left_to_client
        if at > end or (at == end and not self._own_runs):
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
        runs = self._runs
        pieces: list[Buffer] = []
        done = 0  # chunk[:done] is in pieces
        stop = end - 8
        while at <= end:
            if self._response is not None:
                response = self._response
                part = chunk[at : at + response.left]
                taken, out = response.feed(part)
                if out is not part:
                    pieces += (chunk[done:at], out)
                    done = at + taken
                at += taken
                if response.passing:
                    at += response.left
                elif response.left:
                    break
                self._finish_response()
                continue
            if not runs:
                if end - at < (4 if self._raw else 8):
                    break
                at = self._pass_token(chunk, at)  # the answer to a PLAIN token is of size 0
                continue
            run = runs[0]
            first, beyond, call, since = run
            if call is None:
                pieces += (chunk[done:at], self._next_answers())
                done = at
                continue
            if at > stop:
                break  # more bytes are needed
            edited, plain, next_id = call.edited, call.plain, first
            while at <= stop and next_id != beyond:
                size, correlation_id = _read_response(chunk, at)
                if correlation_id != next_id or size < 4:
                    raise _not_the_next(size, correlation_id, next_id)
                next_id += 1
                after = at + 4 + size
                if edited and not (plain and after <= end and plain.names_no_endpoint(chunk, at, after)):
                    self._response_call = call
                    self._response = call.respond(size, end - at, self._localise)
                    break
                at = after
            call.counters.add(now - since, next_id - first)
            self.in_flight -= next_id - first
            if next_id == beyond:
                runs.popleft()
            else:
                run[0] = next_id
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

    def _next_answers(self) -> bytes:
        first, beyond, _, _ = self._runs.popleft()
        self._own_runs -= 1
        self.in_flight -= beyond - first
        return b"".join(map(apiversions.unsupported_version, range(first, beyond)))

    def _pass_token(self, chunk: Buffer, at: int) -> int:
        """Hop over a frame that answers no request: a SASL token, or an error. Return the index after it."""
        (size,) = INT32.unpack_from(chunk, at)
        if self._raw and not self._runs and 0 <= size <= MAX_TOKEN:
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


def _too_many() -> WireError:
    return WireError("too-many-in-flight", f"the client has over {MAX_IN_FLIGHT} requests without a response")


def _not_the_next(size: int, correlation_id: int, expected: int) -> WireError:
    if size < 4:
        return malformed(f"the broker sent a response of {size} bytes")
    return WireError(
        "correlation-mismatch",
        f"the broker answered with correlation id {correlation_id} where {expected} was next",
    )
