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
from kproxy.relay.calls import Call, Calls
from kproxy.relay.wrongpeer import wrong_client, wrong_upstream
from kproxy.rewrite import apiversions
from kproxy.rewrite.endpoints import Localise
from kproxy.rewrite.response import CappedVersions, Response, respond
from kproxy.wire.api import API_VERSIONS, APIS, PRODUCE, SASL_HANDSHAKE
from kproxy.wire.greeting import ENOUGH, recognise
from kproxy.wire.primitives import INT16, INT32, Buffer, Underflow, malformed, read_uvarint

_REQUEST = Struct(">iIi")  # size, API key and version as one number, correlation id
_RESPONSE = Struct(">ii")  # size, correlation id

# What is held back of a request until it can be judged: before the acks of Produce stand two strings of at most
# 32 KiB each; an ApiVersions request has two short ones.
_HEAD_LIMIT = 128 * 1024
# No request header has any tagged field so far; they are walked over again with each chunk.
_MAX_HEADER_TAGS = 32
# Requests of one connection that wait for their responses. A broker works on one at a time, clients send 5 to
# some hundreds ahead; this bounds what a client can make kproxy remember.
MAX_IN_FLIGHT = 100_000
# A broker takes SASL tokens up to sasl.server.max.receive.size, by default as many bytes.
MAX_TOKEN = 524_288
# Where a SASL token may stand, a frame is a request if its API key and version are below and up to these: room for
# those that are not known yet, so that they are refused. No token begins so: a PLAIN one has printable characters
# among its third and fourth byte, SCRAM and OAUTHBEARER begin with a letter, GSSAPI with 0x60 or 0x05.
_TOKEN_KEYS = 128
_TOKEN_VERSIONS = 30


class Conversation:
    """The frames of one session.

    `from_client` and `from_upstream` take what one side sent and return what may go on to the other.
    `take_answers` gives what kproxy has to say to the client itself.
    `requested` and `answered`: whether the client and the broker have said anything Kafka-like yet.
    """

    __slots__ = (
        "_answers", "_calls", "_client_tail", "_left_to_broker", "_left_to_client", "_local_answers", "_localise",
        "_max_request", "_on_rewritten", "_raw", "_response", "_response_call", "_upstream_tail", "answered",
        "in_flight", "requested",
    )  # fmt: skip

    def __init__(
        self,
        calls: Calls,
        localise: Localise,
        max_request: int,
        on_rewritten: Callable[[str, int], None] = lambda api, endpoints: None,
    ) -> None:
        self._calls = calls
        self._localise = localise
        self._max_request = max_request
        self._on_rewritten = on_rewritten
        # Of each request: its correlation id, its call, when it came. kproxy's own answers stand in line with
        # them, with no call and the answer in the last place.
        self.in_flight: deque[tuple[int, Call | None, Any]] = deque()
        self._local_answers = 0
        self._answers = b""
        self._left_to_broker = 0  # bytes of the current request that pass as they come
        self._left_to_client = 0
        self._client_tail = b""  # the beginning of a frame that cannot be judged yet
        self._upstream_tail = b""
        self._response: Response | None = None  # the response that is being rewritten,
        self._response_call: Call | None = None  # and its call
        self._raw = False  # SASL tokens without headers may come
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
        if self._client_tail:
            chunk = memoryview(self._client_tail + chunk)
            self._client_tail = b""
            end = len(chunk)
        if not self.requested:
            self._check_first_request(chunk)
        calls, in_flight = self._calls, self.in_flight
        answered: list[tuple[int, int]] = []
        while True:
            if self._raw:
                at = self._pass_tokens(chunk, at, end)
            if end - at < 12:
                break
            size, code, correlation_id = _REQUEST.unpack_from(chunk, at)
            call = calls[code]
            after = at + 4 + size
            if call is None or not 10 <= size <= self._max_request:
                self._check_request(chunk, at, size, code)  # returns only for ApiVersions of a later version
                if after > end:
                    break
                self._answer(correlation_id)
                answered.append((at, after))
            elif not call.special:
                call.counters.count += 1
                in_flight.append((correlation_id, call, now))
            elif call.key == SASL_HANDSHAKE:
                self._raw = True
                call.counters.count += 1
                in_flight.append((correlation_id, call, now))
            else:
                acks = _acks(chunk, at, min(end, after), call)
                if acks is None:
                    if after <= end:
                        raise malformed("a Produce request ends before its acks")
                    break
                call.counters.count += 1
                if acks:
                    in_flight.append((correlation_id, call, now))
            at = after
        self.requested = self.requested or at > 0
        if len(in_flight) > MAX_IN_FLIGHT:
            raise WireError("too-many-in-flight", f"the client has over {MAX_IN_FLIGHT} requests without a response")
        self._left_to_broker = max(0, at - end)
        if at < end:
            self._client_tail = bytes(chunk[at:end])
            if len(self._client_tail) > _HEAD_LIMIT:
                raise malformed("a request's header is longer than any client's")
            chunk = chunk[:at]
        return _without(chunk, answered) if answered else chunk

    def take_answers(self) -> bytes:
        """What kproxy says to the client itself, once; empty if nothing."""
        answers, self._answers = self._answers, b""
        return answers

    def _check_first_request(self, chunk: Buffer) -> None:
        greeting = recognise(bytes(chunk[:ENOUGH]) if len(chunk) > ENOUGH else bytes(chunk))
        if greeting is not None:
            raise wrong_client(greeting)
        if len(chunk) >= 5 and chunk[4] == 0x60:
            self._raw = True

    def _check_request(self, chunk: Buffer, at: int, size: int, code: int) -> None:
        """Raise WireError for a request that cannot be passed on; return if it can be answered here."""
        key, version = code >> 16, code & 0xFFFF
        api = APIS.get(key)
        if size > self._max_request or size < 10:
            known = "" if api is None else f"{api.name} "
            reason = "request-too-large" if size > self._max_request and api is not None else "malformed"
            raise WireError(
                reason,
                f"the client sent a {known}request of {size} bytes; allowed are 10 to {self._max_request}"
                + (" (--max-request-size)" if reason == "request-too-large" else ""),
            )
        if api is None:
            raise WireError(
                "unknown-api",
                f"the client sent a request with API key {key}, which kproxy does not pass on"
                " (it is for brokers only, or newer than this kproxy)",
            )
        if key != API_VERSIONS:
            raise WireError(
                "unknown-version",
                f"the client sent {api.name} version {version}; this kproxy knows {api.oldest} to {api.newest},"
                " and clients that ask for ApiVersions keep to that",
            )
        if size > _HEAD_LIMIT:
            raise malformed(f"the client sent an ApiVersions request of {size} bytes")

    def _answer(self, correlation_id: int) -> None:
        answer = apiversions.unsupported_version(correlation_id)
        if self.in_flight or self._left_to_client or self._response is not None:
            self.in_flight.append((correlation_id, None, answer))
            self._local_answers += 1
        else:
            self._answers += answer

    def _pass_tokens(self, chunk: Buffer, at: int, end: int) -> int:
        """Hop over SASL tokens; return the index after them, where a request begins or bytes are missing."""
        while end - at >= 4:
            (size,) = INT32.unpack_from(chunk, at)
            if not 0 <= size <= self._max_request:
                raise malformed(f"the client sent a SASL token of {size} bytes")
            if size >= 10:
                if end - at < 12:
                    break
                _, code, _ = _REQUEST.unpack_from(chunk, at)
                if code >> 16 < _TOKEN_KEYS and code & 0xFFFF <= _TOKEN_VERSIONS:
                    self._raw = False
                    break
            if size > MAX_TOKEN:
                raise malformed(f"the client sent a SASL token of {size} bytes; brokers take {MAX_TOKEN}")
            at += 4 + size
        return at

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
        while at <= end:
            if self._response is not None:
                response = self._response
                part = chunk[at : at + response.left]
                out = response.feed(part)
                if out is not part:
                    pieces += (chunk[done:at], out)
                    done = at + len(part)
                at += len(part)
                if response.passing:
                    at += response.left
                elif response.left:
                    break
                self._finish_response()
                continue
            if self._local_answers and in_flight and in_flight[0][1] is None:
                pieces += (chunk[done:at], self._next_answer())
                done = at
                continue
            if end - at < 8:
                if not self._raw or in_flight or end - at < 4:
                    break
                at = self._pass_token(chunk, at)  # the answer to a PLAIN token is of size 0
                continue
            size, correlation_id = _RESPONSE.unpack_from(chunk, at)
            if size < 4 or not in_flight:
                at = self._pass_token(chunk, at)
                continue
            expected, call, since = in_flight.popleft()
            if correlation_id != expected:
                raise WireError(
                    "correlation-mismatch",
                    f"the broker answered with correlation id {correlation_id} where {expected} was next",
                )
            assert call is not None  # kproxy's own answers were taken above
            call.counters.add(now - since)
            if call.rewritten:
                self._response_call = call
                self._response = _respond(call, size, end - at, self._localise)
                continue
            at += 4 + size
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


def _respond(call: Call, size: int, available: int, localise: Localise) -> Response:
    if call.plan is None:
        return CappedVersions(call.version, size)
    return respond(call.plan, size, available, localise)


def _without(chunk: Buffer, gaps: list[tuple[int, int]]) -> bytes:
    pieces = []
    at = 0
    for start, end in gaps:
        pieces.append(chunk[at:start])
        at = end
    return b"".join([*pieces, chunk[at:]])


def _acks(chunk: Buffer, at: int, end: int, call: Call) -> int | None:
    """The acks of the Produce request at chunk[at:end], None if they have not come yet.

    They stand first (v0-2), or behind the nullable TransactionalId (v3+); before them the request header with a
    nullable ClientId, and from v9 on its tag section.
    """
    try:
        at = _skip_string(chunk, at + 12, end)
        if call.version >= APIS[PRODUCE].flexible:
            fields, at = read_uvarint(chunk, at, end)
            if fields > _MAX_HEADER_TAGS:
                raise malformed(f"a request's header has {fields} tagged fields")
            for _ in range(fields):
                _, at = read_uvarint(chunk, at, end)
                size, at = read_uvarint(chunk, at, end)
                at += size
            length, at = read_uvarint(chunk, at, end)
            at += max(0, length - 1)
        elif call.version >= 3:
            at = _skip_string(chunk, at, end)
    except Underflow:
        return None
    return INT16.unpack_from(chunk, at)[0] if end - at >= 2 else None


def _skip_string(chunk: Buffer, at: int, end: int) -> int:
    if end - at < 2:
        raise Underflow
    (length,) = INT16.unpack_from(chunk, at)
    if length < -1:
        raise malformed("a request's header has a string of negative length")
    return at + 2 + max(0, int(length))
