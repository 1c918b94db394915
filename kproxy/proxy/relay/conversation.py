"""The frames of one session: which may pass, and when. Sans-IO.

Requests stream to the broker as they came; of each, only the size, API key, API version and correlation id
are read (of Produce also its acks, because acks=0 has no response). A broker answers the requests of a
connection in their order, so a response is known by its place; its correlation id must confirm it. Most
responses stream too; those that carry addresses are rewritten on the way.

Two exceptions to "a frame has a header":
 * after SaslHandshake v0, tokens go back and forth as bare size and bytes until the client sends its next
   request (KIP-43). Where that is, is not on the wire: a frame that reads as a request is one.
 * a GSSAPI client of the 0.9 age sends such a token first of all; it begins with 0x60 (RFC 2743 §3.1).
Where clients log in at kproxy, an authenticator takes these tokens, and none of them passes.

The client's side is in one of these states:

    between   a request, or a token, begins with the next byte
    within    `_left_to_broker` bytes of a request that passes have not come yet; what comes passes unread
    discards  `_left_to_broker` bytes of a request that kproxy refuses have not come yet; none of them passes
    begun     a request has begun that cannot be judged yet: `_client_tail` is what has come of it
    held      `hold_count`, and nothing is half sent: what comes waits in `_client_tail`, unread

    between, begun → within      the request passes. If it has a response, it is noted in flight first
    between, begun → between     it has come whole and passes; or kproxy answers it, and no byte of it passes
    between, begun → discards    it is refused before it has come whole
    discards → between           its last byte has come, and kproxy answers it
    between → begun              there are too few bytes to judge it
    within → between             its last byte has passed
    between, begun → held        `hold`, or the gate (`hold_before_first_request`) is met
    within → held                its last byte has passed, and there is a hold
    held → between               as many `release` as `hold`: what waits is looked at as if it came now

The broker's side (`responses`) is between two responses or within one, and never held. Both sides share what is in
flight (`inflight`). What always holds:

 1. No response finds its request missing: a request is noted before its first byte passes.
 2. A byte of the client passes once and in order, or is a byte of a request that kproxy answers, or that an
    authorizer replaces by another one.
 3. kproxy's own requests (`ask`) pass whole, and only while the client's side is held.
 4. What kproxy answers itself goes to the client between two responses: it is in flight like the requests before it;
    `answers` is for now, and gets something only if nothing is in flight and no response is within.
 5. Once held, always held until the last `release`: each caller releases only its own hold.
 6. What is kept is bounded: `_HEAD_LIMIT` bytes of a request, or what a guard or an authorizer needs; of a held client
    what one read brought; `MAX_IN_FLIGHT` requests, and `MAX_LOCAL_BYTES` of kproxy's answers to them; of a response
    what `rewrite.response` says.
 7. A WireError ends the conversation: nothing may be asked of it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kproxy.protocol.rewrite.endpoints import Localise
from kproxy.protocol.wire import headers
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.greeting import ENOUGH, recognise, wrong_client
from kproxy.protocol.wire.primitives import INT32, Buffer, malformed
from kproxy.proxy.relay.calls import (
    LOGIN_APIS,
    LONGEST_REQUEST,
    SASL_APIS,
    Call,
    Calls,
    GuardVerdict,
    LocalCall,
    LoginCalls,
    OwnCall,
    SessionCalls,
)
from kproxy.proxy.relay.inflight import InFlight
from kproxy.proxy.relay.introduction import NO_INTRODUCTION, Introduction, has_names, read_introduction
from kproxy.proxy.relay.judged import SubstitutedRequest
from kproxy.proxy.relay.observer import ObserverStart
from kproxy.proxy.relay.requests import (
    SMALLEST,
    Acks,
    check_answerable,
    check_size,
    find_mechanism,
    find_token,
    skip_tokens,
)
from kproxy.proxy.relay.responses import Responses
from kproxy.proxy.switching.writes import WRITES

if TYPE_CHECKING:
    from kproxy.protocol.capture.sessioncapture import CaptureStart
    from kproxy.proxy.relay.guard import EpochGuard, GuardedCalls
    from kproxy.proxy.relay.judged import Authenticator, Authorizer, DiscardedRequest

# The most bytes of a request that wait until it can be judged: before the acks of Produce stand two strings of at most
# 32 KiB each; an ApiVersions request has two short ones.
_HEAD_LIMIT = 128 * 1024
# As plain numbers, which compare faster than members of an enum.
_API_VERSIONS, _PRODUCE, _SASL_HANDSHAKE = (
    key.value for key in (ApiKey.API_VERSIONS, ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE)
)


class Conversation:
    """The frames of one session.

    `from_client` and `from_upstream` take what one side sent and return what may pass to the other. `answers` is what
    kproxy itself answers to the client, now; `take_answers` returns it, once. Until then, nothing may be taken from
    upstream, and nothing need be from the client.

    `on_handshake` receives the mechanism of each SaslHandshake, "" if it cannot be read, and may raise WireError.
    `on_token` receives the SASL message of each SaslAuthenticate that passes, or the beginning of a long one.
    `on_unknown_apis` receives the keys of APIs that a broker offers and that kproxy keeps from the client, because they
    are newer than kproxy.
    `requested`: the client has sent a Kafka request. `introduction`: what its first requests say about the client.
    `hold_count`: the number of holds on the client's requests. `used_calls`: the APIs that the client has used; None if
    that is not recorded.
    """

    __slots__ = (
        "_acks",
        "_all_calls",
        "_authenticator",
        "_calls",
        "_client_tail",
        "_discarded",
        "_guarded",
        "_half_sent",
        "_head_limit",
        "_in_flight",
        "_left_to_broker",
        "_login_apis",
        "_max_request",
        "_on_first",
        "_on_handshake",
        "_on_token",
        "_on_write",
        "_responses",
        "answers",
        "from_upstream",
        "hold_count",
        "introduction",
        "requested",
        "used_calls",
    )

    def __init__(
        self,
        calls: Calls,
        localise: Localise,
        max_request: int,
        on_rewritten: Callable[[str, int], None] = lambda api, endpoints: None,
        on_handshake: Callable[[str], None] = lambda mechanism: None,
        on_unknown_apis: Callable[[Sequence[int]], None] = lambda keys: None,
        on_token: Callable[[bytes], None] = lambda token: None,
    ) -> None:
        self._all_calls = calls
        self._calls = calls  # those that pass no gate
        self.used_calls = calls if isinstance(calls, SessionCalls) else None
        self._max_request = max_request
        self._on_handshake = on_handshake
        self._on_token = on_token
        self._in_flight = InFlight()
        self._responses = Responses(self._in_flight, localise, on_rewritten, on_unknown_apis)
        self.from_upstream: Callable[[Buffer, float], Buffer] = self._responses.take
        self.answers = bytearray()
        self._left_to_broker = 0  # bytes of the current request that pass as they come
        self._client_tail = b""  # the beginning of a frame that cannot be judged yet; if held, all that has come
        self._acks = Acks()
        self._half_sent: Call | None = None  # of `_left_to_broker`
        self._discarded: DiscardedRequest | None = None  # if these bytes do not pass
        self._on_first: Callable[[], None] | None = None  # the gates: what to call when one is met
        self._login_apis = LOGIN_APIS  # which pass the first of them
        self._on_write: Callable[[], None] | None = None
        self._guarded: GuardedCalls | None = None
        self._authenticator: Authenticator | None = None
        self._head_limit = _HEAD_LIMIT
        self.hold_count = 0
        self.introduction = NO_INTRODUCTION
        self.requested = False

    @property
    def in_flight(self) -> int:
        """The number of requests without a response, kproxy's own included."""
        return self._in_flight.count

    @property
    def answered(self) -> bool:
        """True if the broker has sent a Kafka response."""
        return self._responses.begun

    @property
    def buffered(self) -> int:
        """The number of bytes that wait here: for others to come, for a release, or to be taken."""
        return len(self._client_tail) + len(self.answers) + self._responses.buffered

    @property
    def settled(self) -> bool:
        """True if nothing that has passed is in flight: no request half sent, none without its whole response."""
        return not self._in_flight.runs and not self._left_to_broker and self._responses.is_idle

    @property
    def produces(self) -> str:
        """The way in which the client writes records (`switching.producers`), "" while no request has shown it."""
        return self._acks.produces

    def note_used_apis(self, *, unsure: bool) -> None:
        """Record from now on which APIs the client uses; those in flight count as used.

        `unsure`: the client may have used all APIs that clients of this node have used.
        """
        if self.used_calls is None:
            used_calls = SessionCalls(self._all_calls)
            used_calls.software = self.introduction.software
            used_calls.update(
                {
                    code: call
                    for code, call in self._all_calls.items()
                    if call and (unsure or self.unanswered((call.key,)))
                }
            )
            self._all_calls = self.used_calls = used_calls
            self._choose_calls()

    def has_used(self, keys: Collection[int]) -> bool:
        """Check whether the client has used one of these APIs, as far as that is recorded."""
        return self.used_calls is not None and self.used_calls.has_used(keys)

    def forget_used(self, keys: Collection[int]) -> None:
        """Forget that the client has used these APIs, if that is recorded."""
        if self.used_calls is not None:
            self._all_calls.forget(keys)

    def unanswered(self, keys: Collection[int]) -> int:
        """Return how many requests of these APIs are in flight: half sent, or without their whole response.

        A request without a response (acks=0) is in flight until it has been sent whole.
        """
        runs = self._in_flight.runs
        count = sum(run.end_id - run.first for run in runs if run.call.key in keys)
        if self._responses.partial_response_key in keys:
            count += 1
        half_sent = self._half_sent if self._left_to_broker else None
        if half_sent is not None and half_sent.key in keys and not (runs and runs[-1].call is half_sent):
            count += 1
        return count

    @property
    def is_idle(self) -> bool:
        """True if nothing is in flight, and nothing of the client waits here."""
        return self.settled and not self._client_tail

    @property
    def is_finished(self) -> bool:
        """True if a client that sends no more waits for nothing.

        Where its use of APIs is recorded, the broker decides: until it closes, the client confirms what it was sent.
        """
        return self.used_calls is None and self.is_idle and not self._in_flight.tokens

    # For observers

    @property
    def observer_start(self) -> ObserverStart | None:
        """The state from which an observer can begin now.

        None: it cannot, as a response is half rewritten.
        """
        bytes_left = self._responses.bytes_left_to_client
        if bytes_left is None:
            return None
        return ObserverStart(
            self._left_to_broker, self._client_tail, bytes_left, self._in_flight.tokens, self.introduction
        )

    @property
    def capture_start(self) -> CaptureStart | None:
        """The state from which a capture of what the client sees can begin now; None as of `observer_start`."""
        bytes_left, flight = self._responses.bytes_left_to_client, self._in_flight
        if bytes_left is None:
            return None
        from kproxy.protocol.capture.sessioncapture import CaptureStart  # few captures

        return CaptureStart(self._left_to_broker, self._client_tail, bytes_left, flight.client_runs(), flight.tokens)

    def set_on_busy(self, call: Callable[[], None]) -> None:
        """Call this when `from_upstream` has more work than it may do at once.

        Then it must be given nothing, again and again, before the next bytes of the broker, until it does not call any
        more.
        """
        self._responses.on_busy = call

    def wrap_localise(self, wrap: Callable[[Localise], Localise]) -> Callable[[], None]:
        """Wrap the function that returns the local addresses for later responses; return what undoes that."""
        return self._responses.wrap_localise(wrap)

    # From the client

    def from_client(self, chunk: Buffer, now: float) -> Buffer:  # noqa: C901  # one loop, no call for a usual frame
        """Take what the client sent; return what passes to the broker. `now` is in seconds of any clock.

        Raises WireError if the client must be disconnected.
        """
        at = self._left_to_broker
        if at and self._discarded is not None:
            chunk, at = self._discard(chunk, self._discarded), 0
            if not chunk:
                return b""
        end = len(chunk)
        if at >= end:
            self._left_to_broker = at - end
            return chunk
        if self.hold_count:
            self._left_to_broker = 0
            self._client_tail += chunk[at:]
            return chunk[:at]
        if self._client_tail:
            chunk = memoryview(self._client_tail + chunk)
            self._client_tail = b""
            end = len(chunk)
        if not self.requested:
            self._check_first_request(chunk)
        view = chunk  # what is read of it; compiled, this has a type (docs/performance.md)
        calls, limit, in_flight = self._calls, self._max_request, self._in_flight
        cut: list[tuple[int, int, bytes]] = []  # requests that kproxy answers or replaces, and what passes instead
        stop = end - 12
        # A run, requests of one kind with ids in a row, is noted as one; `code` is its API and version, or -1 if the
        # next request needs a look even if it is alike.
        call: Call | None = None
        next_call: Call | None = None
        code, asked, first, end_id = -1, -1, 0, 0  # `asked`: which code `next_call` has
        while True:
            if in_flight.tokens:
                if in_flight.tokens_end_here:
                    at = self._take_tokens(chunk, at, end, cut)
                    if in_flight.tokens:
                        break
                else:
                    at, in_flight.tokens = skip_tokens(chunk, at, end, limit)
            while at <= stop:
                size, next_code, correlation_id = headers.read_request(view, at)
                if next_code != code or correlation_id != end_id or not 10 <= size <= limit:
                    break
                end_id += 1
                at += 4 + size
            else:
                break
            if next_code != asked:
                next_call, asked = calls[next_code], next_code
            code = next_code
            if next_call is not call or correlation_id != end_id:
                if first != end_id and call is not None:
                    call.counters.count += end_id - first
                    in_flight.note(call, first, end_id, now)
                call, first, end_id = next_call, correlation_id, correlation_id
            after = at + 4 + size
            if call is None or not 10 <= size <= limit:
                if self._meets_gate(code):
                    break
                check_answerable(size, code, limit, calls.highest)  # only ApiVersions of a later version is
                if after > end:
                    break
                self._answer(calls.too_new, correlation_id)
                _cut_out(cut, at, after)
                code = -1
            elif not call.special:
                end_id += 1
            elif call.is_judged:
                verdict = self._consult(call, chunk, at, after if after < end else end, size, now)
                if verdict is GuardVerdict.MORE or verdict is GuardVerdict.HOLD:
                    break
                code = asked = -1  # the guard may judge the next one no more
                if verdict is GuardVerdict.PASS:
                    end_id += 1
                elif verdict is None:
                    call.counters.count += 1
                else:
                    if first != end_id:
                        call.counters.count += end_id - first
                        in_flight.note(call, first, end_id, now)
                    self._execute(verdict, call, chunk[at : after if after < end else end], correlation_id, now)
                    passes = verdict.request if isinstance(verdict, SubstitutedRequest) else b""
                    _cut_out(cut, at, after if after < end else end, passes)
                    call, first, end_id = None, 0, 0
            elif call.key == _PRODUCE:
                expects = self._acks.expects_response(view, at, after, end, call)
                if expects is None:
                    break
                code = -1  # the next one may have other acks
                if expects:
                    end_id += 1
                else:
                    call.counters.count += 1
            elif call.key == _API_VERSIONS:
                if not has_names(size, end - at):
                    break
                self._note_names(memoryview(chunk)[at:end])
                code = -1
                end_id += 1
            elif call.key == _SASL_HANDSHAKE:
                self._on_handshake(find_mechanism(chunk, at, min(end, after)))
                in_flight.tokens = call.version == 0
                if self._on_first is not None:
                    self._login_apis = SASL_APIS
                    self._choose_calls()
                    calls = self._calls
                code = -1  # tokens may stand before the next one
                end_id += 1
            else:  # SaslAuthenticate
                if not has_names(size, end - at):
                    break
                self._on_token(find_token(chunk, at, min(end, after), call.version))
                code = -1
                end_id += 1
            at = after
        if first != end_id and call is not None:
            call.counters.count += end_id - first
            in_flight.note(call, first, end_id, now)
        if at:
            self.requested = True
        if at == end:
            self._left_to_broker = 0
        elif at > end:
            self._left_to_broker, self._half_sent = at - end, call
        else:
            self._left_to_broker = 0
            self._client_tail = bytes(chunk[at:end])
            if not self.hold_count and not in_flight.tokens:
                check_size(self._client_tail, limit)
            if len(self._client_tail) > self._head_limit and not self.hold_count:
                raise malformed("a request's header is longer than any client's")
            chunk = chunk[:at]
        return _replaced(chunk, cut) if cut else chunk

    def hold(self) -> None:
        """Let no further request pass: what the client sends behind the present one stays here.

        Each `hold` needs its own `release`.
        """
        self.hold_count += 1

    def hold_before_first_request(self, on_held: Callable[[], None]) -> None:
        """Let only requests of the login APIs and SASL tokens pass. Before any other request, hold and call `on_held`.

        An ApiVersions request behind SaslHandshake is such another one: a broker answers it only after the login. To be
        called before the client has sent anything.
        """
        self._on_first = on_held
        self._choose_calls()

    def guard(self, guard: EpochGuard) -> None:
        """Let this guard judge requests. To be called before the client has sent anything."""
        self._all_calls = self._guarded = guard.wrap(self._all_calls)
        self._head_limit = max(self._head_limit, LONGEST_REQUEST + _HEAD_LIMIT)
        self._choose_calls()

    def authorize(self, authorizer: Authorizer) -> None:
        """Let this authorizer judge requests, before any guard. To be called before the client has sent anything."""
        self._all_calls = authorizer.wrap(self._all_calls)
        self._head_limit = max(self._head_limit, authorizer.longest + _HEAD_LIMIT)
        self._choose_calls()

    def authenticate(self, authenticator: Authenticator) -> None:
        """Let the client log in here: only what this authenticator allows passes, and no message of the login.

        To be called before the client has sent anything, and after `authorize` and `guard`.
        """
        self._authenticator = authenticator
        self.authorize(authenticator)

    def judge_anew(self) -> None:
        """Look up each API anew: what an authorizer or an authenticator decides about it has changed."""
        self._all_calls.forget_all()
        self._calls.forget_all()

    def _consult(
        self, call: Call, chunk: Buffer, at: int, end: int, size: int, now: float
    ) -> GuardVerdict | bytes | SubstitutedRequest | DiscardedRequest | None:
        """Let the authorizer and the guard judge a request, chunk[at:end] of it.

        Return None if it passes and has no response.
        """
        request = memoryview(chunk)[at:end]
        passes: GuardVerdict | SubstitutedRequest = GuardVerdict.PASS
        if call.authorizer is not None:
            judged = call.authorizer.judge(call, request, size, now)
            if not isinstance(judged, SubstitutedRequest) and judged is not GuardVerdict.PASS:
                if judged is GuardVerdict.HOLD:
                    self.hold()
                return judged
            passes = judged
        if call.key == _PRODUCE:
            expects = self._acks.expects_response(chunk, at, at + 4 + size, end, call)
            if not expects:
                return GuardVerdict.MORE if expects is None else None
        guard, calls = call.guard, self._guarded
        if guard is None or calls is None:
            return passes
        verdict = guard.judge(call, request, size, now)
        calls.keep_only(guard.keys)
        if verdict is GuardVerdict.HOLD:
            self.hold()
        return passes if verdict is GuardVerdict.PASS else verdict

    def _execute(
        self,
        verdict: bytes | SubstitutedRequest | DiscardedRequest,
        call: Call,
        request: Buffer,
        correlation_id: int,
        now: float,
    ) -> None:
        """Answer a request, note what passes in its place, or begin to discard it."""
        if isinstance(verdict, SubstitutedRequest):
            call.counters.count += 1
            self._in_flight.note(verdict.call, correlation_id, correlation_id + 1, now)
        elif isinstance(verdict, bytes):
            answer = LocalCall(call.key, call.version, partial(_constant_answer, verdict), len(verdict))
            self._answer(answer, correlation_id)
            if self._authenticator is not None:
                self._in_flight.tokens = self._in_flight.tokens_end_here = self._authenticator.awaits_token
        else:
            self._discarded = verdict
            verdict.feed(request)

    def _take_tokens(self, chunk: Buffer, at: int, end: int, cut: list[tuple[int, int, bytes]]) -> int:
        """Give the client's tokens to the authenticator; return the index behind those that it has taken.

        None of them passes. `in_flight.tokens` is False if a request follows.
        """
        assert self._authenticator is not None
        while self._in_flight.tokens and end - at >= 4:
            (size,) = INT32.unpack_from(chunk, at)
            after = at + 4 + size
            if 0 <= size <= self._authenticator.longest and after > end:
                break
            verdict = self._authenticator.judge_token(size, chunk[at + 4 : after])
            if verdict is GuardVerdict.HOLD:
                self.hold()
                break
            assert isinstance(verdict, bytes)
            self._answer(LocalCall(_SASL_HANDSHAKE, 0, partial(_constant_answer, verdict), len(verdict)), 0)
            _cut_out(cut, at, after)
            at = after
            self._in_flight.tokens = self._authenticator.awaits_token
        return at

    def _discard(self, chunk: Buffer, discarded: DiscardedRequest) -> Buffer:
        """Let no byte of this request pass; return the bytes behind it. With its last byte, answer it."""
        taken = min(self._left_to_broker, len(chunk))
        discarded.feed(chunk[:taken])
        self._left_to_broker -= taken
        if not self._left_to_broker:
            self._discarded = None
            answer = discarded.answer()
            call = LocalCall(discarded.key, discarded.version, partial(_constant_answer, answer), len(answer))
            self._answer(call, discarded.correlation_id)
        return chunk[taken:]

    def hold_before_write(self, on_held: Callable[[], None]) -> None:
        """Let all requests but writes pass. Before the next write, hold and call `on_held`."""
        self._on_write = on_held
        self._choose_calls()

    def pass_writes(self) -> bool:
        """Undo `hold_before_write`; return False if it has held, once, because of a write."""
        unmet, self._on_write = self._on_write is not None, None
        self._choose_calls()
        return unmet

    def _choose_calls(self) -> None:
        calls = self._all_calls if self._on_write is None else self._all_calls.without_writes
        self._calls = calls if self._on_first is None else LoginCalls(calls, self._login_apis)

    def _meets_gate(self, code: int) -> bool:
        """Hold if this request meets a gate, and return whether it does."""
        if self._on_first is not None and code >> 16 not in self._login_apis:
            on_held, self._on_first = self._on_first, None
        elif self._on_write is not None and code >> 16 in WRITES:
            on_held, self._on_write = self._on_write, None
        else:
            return False
        self._choose_calls()
        self.hold()
        on_held()
        return True

    @property
    def held(self) -> bool:
        """True if there is a hold, and no request is half sent."""
        return self.hold_count > 0 and not self._left_to_broker

    @property
    def waiting(self) -> bytes:
        """The client's bytes that wait here: while `held`, from the beginning of a request on."""
        return self._client_tail

    def release(self, now: float) -> Buffer:
        """Undo one `hold`; return what passes to the broker.

        With the last hold, requests pass again, beginning with those that came meanwhile.
        """
        assert self.hold_count, "it is not held"
        self.hold_count -= 1
        if self.hold_count:
            return b""
        tail, self._client_tail = self._client_tail, b""
        return self.from_client(memoryview(tail), now) if tail else b""

    def ask(self, request: bytes, on_response: Callable[[bytes], None]) -> bytes:
        """Send a request of kproxy's own, a whole frame, while `held`; return what passes to the broker.

        `on_response` receives its response, without the size.
        """
        assert self.held, "a request of the client may be half sent"
        _, _, correlation_id = headers.read_request(request, 0)
        self._in_flight.note(OwnCall(on_response), correlation_id, correlation_id + 1, 0.0)
        return request

    def take_answers(self) -> bytearray:
        """Return what kproxy itself answers to the client, once; empty if nothing."""
        answers, self.answers = self.answers, bytearray()
        return answers

    def _check_first_request(self, chunk: Buffer) -> None:
        greeting = recognise(bytes(chunk[:ENOUGH]) if len(chunk) > ENOUGH else bytes(chunk))
        if greeting is not None:
            raise wrong_client(greeting)
        if len(chunk) >= 5 and chunk[4] == 0x60 and INT32.unpack_from(chunk)[0] >= SMALLEST:
            self._in_flight.tokens = True
            self._in_flight.tokens_end_here = self._authenticator is not None
        else:
            self._introduce(read_introduction(chunk))

    def _note_names(self, request: Buffer) -> None:
        """Note the name of the software in an ApiVersions request, if an earlier one had none."""
        if not self.introduction.software:
            names = read_introduction(request)
            self._introduce(Introduction(self.introduction.client_id or names.client_id, names.software))

    def _introduce(self, introduction: Introduction) -> None:
        self.introduction = introduction
        if self.used_calls is not None:
            self.used_calls.software = introduction.software

    def _answer(self, call: LocalCall, correlation_id: int) -> None:
        if self._in_flight.runs or self._responses.has_partial_response:
            self._in_flight.note_local(call, correlation_id)
        else:
            self.answers += call.answer(correlation_id)


def _constant_answer(answer: bytes, correlation_id: int) -> bytes:
    return answer


def _cut_out(cut: list[tuple[int, int, bytes]], at: int, after: int, passes: bytes = b"") -> None:
    if cut and cut[-1][1] == at and not cut[-1][2]:
        at = cut.pop()[0]
    cut.append((at, after, passes))


def _replaced(chunk: Buffer, cut: list[tuple[int, int, bytes]]) -> bytes:
    pieces: list[Buffer] = []
    at = 0
    for start, end, passes in cut:
        pieces += (chunk[at:start], passes)
        at = end
    return b"".join([*pieces, chunk[at:]])
