"""Judges the requests of one session by the access rules of its cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from kproxy.base.errors import WireError
from kproxy.base.messages.sessions import (
    ACCESS_API_REFUSED,
    ACCESS_PRODUCE_WITHOUT_ACKS,
    ACCESS_REQUEST_TOO_LARGE,
)
from kproxy.base.printable import one_line
from kproxy.config.access import Decision, Extent
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import INT32, Buffer, Underflow, malformed
from kproxy.proxy.access import autocreate
from kproxy.proxy.access.apis import BETWEEN_BROKERS, CHANGES, OF_CLUSTER_USERS, Change
from kproxy.proxy.access.names import LONGEST_DECODED, Name, cost_of, decode_request
from kproxy.proxy.access.produce import (
    ProduceReader,
    ProduceTopic,
    refused_response,
    with_refused_topics,
    without_topics,
)
from kproxy.proxy.access.refusals import Refusal, answer_in_steps, flat_answer
from kproxy.proxy.access.sessionrules import RefusedRequest, SessionRules
from kproxy.proxy.relay.calls import Call, Calls, GuardVerdict, SelectedCalls
from kproxy.proxy.relay.judged import ChangedCall, DiscardedRequest, JudgedCall, SubstitutedRequest

_LONGEST_HEAD = 128 * 1024
"""The most bytes from the beginning of a request to the last name that decides: three strings of at most 32 KiB."""
LONGEST_PRODUCE = 2 * 1024 * 1024
"""The most bytes of a Produce request to several topics that kproxy keeps until it can judge it, if the rules differ
for topics. Java's max.request.size is 1 MiB by default; librdkafka writes to one partition with each request."""
TURN = 128
"""The cost of requests in one turn of the loop, each 1 and 1 more for each 32 bytes that a step of its judgement
examines, or for 32 patterns with which names are compared. With one step too many, a turn takes a few milliseconds."""
_PATTERN_COST, _PATTERNS_OF_STEP = 5, 1024
_LONGEST_NAME = 100
_OTHER_USERS = Decision(False, "clients log in at kproxy (--client-sasl), not with users and tokens of the cluster")


class SessionAuthorizer:
    """Judges the requests of one client.

    `resume` is called if the rest of what was read must be judged in the next turn of the loop. `on_refused` receives
    each refused request.
    """

    longest = LONGEST_PRODUCE

    def __init__(
        self, rules: SessionRules, on_refused: Callable[[RefusedRequest], None], resume: Callable[[], None]
    ) -> None:
        self.rules = rules
        self._on_refused = on_refused
        self._resume = resume
        self._turn = -1.0  # the time of the present read,
        self._spent = 0  # and what its requests have cost
        self._steps: Generator[int, None, GuardVerdict | bytes | DiscardedRequest] | None = None
        # The rest of the judgement of the request that waits; or of Produce, its reader and what is decided so far.
        self._held: tuple[ProduceReader, list[Decision | None]] | None = None

    def wrap(self, calls: Calls) -> Calls:
        """Return these calls, with those that it judges."""
        return _AuthorizedCalls(calls, self)

    def judge(
        self, call: Call, request: Buffer, size: int, now: float
    ) -> GuardVerdict | bytes | SubstitutedRequest | DiscardedRequest:
        """Judge a request that begins with these bytes, of `size` bytes without its size field. Raises WireError."""
        if now != self._turn:
            self._turn, self._spent = now, 0
        if self._spent > TURN:
            self._resume()
            return GuardVerdict.HOLD
        self._spent += 1
        try:
            if call.key == ApiKey.PRODUCE:
                return self._judge_produce(call, request, size)
            if call.key == ApiKey.METADATA:
                return self._judge_metadata(call, request, size)
            change = CHANGES.get(call.key) or OF_CLUSTER_USERS.get(call.key)
            if change is None:
                raise WireError(*ACCESS_API_REFUSED.with_reason(api=call.api))
            return self._judge_change(change, call, request, size)
        except Underflow:
            if len(request) >= 4 + size:
                raise malformed(f"a {call.api} request ends before its last field") from None
            return self._await(call, len(request), _LONGEST_HEAD)

    def _await(self, call: Call, size: int, longest: int) -> GuardVerdict:
        """Wait for more of a request, if it is not too large."""
        if size > longest:
            raise WireError(*ACCESS_REQUEST_TOO_LARGE.with_reason(api=call.api, size=size, most=longest))
        return GuardVerdict.MORE

    def _judge_change(
        self, change: Change, call: Call, request: Buffer, size: int
    ) -> GuardVerdict | bytes | DiscardedRequest:
        """Do the next steps of a judgement, as many as this turn has room for."""
        steps = self._steps or self._judge_in_steps(change, call, request, size)
        self._steps = None
        try:
            while True:
                self._spent += next(steps)
                if self._spent > TURN:
                    self._steps = steps
                    self._resume()
                    return GuardVerdict.HOLD
        except StopIteration as end:
            verdict: GuardVerdict | bytes | DiscardedRequest = end.value
            return verdict

    def _judge_in_steps(
        self, change: Change, call: Call, request: Buffer, size: int
    ) -> Generator[int, None, GuardVerdict | bytes | DiscardedRequest]:
        """Judge a request. Yields what a step has cost, if the request is whole: else few names are read."""
        names = change.read_names(request, call.key, call.version)
        correlation_id, is_whole = _correlation_id(request), len(request) >= 4 + size
        is_flat = change.is_flat(call.version)
        # The buffer is not there any more in the next turn.
        frame = b"" if is_flat else bytes(request[: 4 + min(size, LONGEST_DECODED)])
        if is_whole and len(names) > 1:
            yield cost_of(request[: 4 + size])
        forbidden, first = [], None
        cost = 0
        for family, name in names:
            decision = _OTHER_USERS if call.key in self.rules.refused else self.rules.forbidden_by(family, name)
            if decision is not None:
                forbidden.append((family, name))
                first = first or (family, name, decision.reason)
            cost += self.rules.pattern_counts[family]
            if is_whole and cost > _PATTERNS_OF_STEP:
                yield cost >> _PATTERN_COST
                cost = 0
        if first is None:
            return GuardVerdict.PASS
        family, name, reason = first
        refusal = Refusal(call.key, forbidden, self.rules.text(family, reason))
        if is_flat:
            response = flat_answer(call.key, call.version, correlation_id, refusal)
        else:
            if not is_whole:
                decode_request(frame)  # raises: more must come, or it is too large
            yield cost_of(frame)
            response = yield from answer_in_steps(frame, refusal)
        self._report(call, correlation_id, family, name, reason, refusal.error)
        return response if is_whole else _Discarded(call, correlation_id, lambda: response)

    # Produce

    def _judge_produce(
        self, call: Call, request: Buffer, size: int
    ) -> GuardVerdict | bytes | SubstitutedRequest | DiscardedRequest:
        held, self._held = self._held, None
        reader, decisions = held or (ProduceReader(call.version), [])
        if held is None:
            reader.feed(request[: 4 + size])
            self._spent += reader.elements >> 3
        is_whole = len(request) >= 4 + size
        if reader.acks is None:
            raise Underflow
        extent = self.rules.extents["produce"]
        if extent is Extent.SOME:
            may_decide = reader.has_all_topics or (reader.count == 1 and reader.topics)
            if not may_decide and not is_whole:
                return self._await(call, size, LONGEST_PRODUCE)
            if not self._decide_topics(reader, decisions):
                return self._hold_produce(reader, decisions)
            refused = [topic for topic, decision in zip(reader.topics, decisions, strict=True) if decision is not None]
            if not refused:
                return GuardVerdict.PASS
            reason = next(decision.reason for decision in decisions if decision is not None)
        else:
            refused = reader.topics
            reason = self.rules.rules.decide("produce", "*").reason
        if self._spent > TURN and held is None and reader.has_all_topics:  # the answer is work for another turn
            return self._hold_produce(reader, decisions)
        return self._refuse_produce(call, request, size, reader, refused, reason)

    def _hold_produce(self, reader: ProduceReader, decisions: list[Decision | None]) -> GuardVerdict:
        self._held = reader, decisions
        self._resume()
        return GuardVerdict.HOLD

    def _refuse_produce(
        self,
        call: Call,
        request: Buffer,
        size: int,
        reader: ProduceReader,
        refused: Sequence[ProduceTopic],
        reason: str,
    ) -> GuardVerdict | bytes | SubstitutedRequest | DiscardedRequest:
        extent, is_whole = self.rules.extents["produce"], len(request) >= 4 + size
        correlation_id = _correlation_id(request)
        text = self.rules.text("produce", reason)
        name = reader.name(refused[0]) if refused else None
        if reader.acks == 0:
            raise WireError(*ACCESS_PRODUCE_WITHOUT_ACKS.with_reason(topic=_shown(name) or "?", text=text))
        in_part = len(refused) < reader.count and extent is Extent.SOME
        if is_whole and not reader.has_all_topics:
            raise Underflow
        if in_part and not is_whole:
            return self._await(call, size, LONGEST_PRODUCE)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        self._report(call, correlation_id, "produce", name, reason, error, in_part=in_part)
        if in_part:
            return self._substitute(call, request[: 4 + size], reader, refused, text)
        if is_whole:
            return refused_response(refused, call.version, correlation_id, text)
        return _DiscardedProduce(call, correlation_id, text)

    def _decide_topics(self, reader: ProduceReader, decisions: list[Decision | None]) -> bool:
        """Add what forbids each of the topics to the decisions; return False if the rest waits for the next turn."""
        cost = 0
        for topic in reader.topics[len(decisions) :]:
            if cost and self._spent + (cost >> _PATTERN_COST) > TURN:
                self._spent += cost >> _PATTERN_COST
                return False
            decisions.append(self.rules.forbidden_by("produce", reader.name(topic)))
            cost += self.rules.pattern_counts["produce"]
        self._spent += cost >> _PATTERN_COST
        return True

    def _substitute(
        self, call: Call, request: Buffer, reader: ProduceReader, refused: Sequence[ProduceTopic], text: str
    ) -> SubstitutedRequest:
        def change(response: bytes) -> bytes:
            try:
                return with_refused_topics(response, call.version, refused, text)
            except Underflow:
                raise malformed("a Produce response ends before its last field") from None

        what = "a Produce response to which refused topics must be added"
        passes = without_topics(request, reader, call.version, refused)
        return SubstitutedRequest(passes, ChangedCall(_inner(call), change, what))

    # Metadata

    def _judge_metadata(self, call: Call, request: Buffer, size: int) -> GuardVerdict | SubstitutedRequest:
        if len(request) < 4 + size:
            return self._await(call, size, LONGEST_PRODUCE)
        request = request[: 4 + size]
        self._spent += len(request) >> 10
        passes = autocreate.without_creation(request, call.version)
        if passes is None:
            return GuardVerdict.PASS
        inner = _inner(call)
        if call.version >= autocreate.SAYS_SO:
            return SubstitutedRequest(passes, inner)

        def change(response: bytes) -> bytes:
            try:
                return autocreate.as_older(response, call.version)
            except Underflow:
                raise malformed("a Metadata response ends before its last field") from None

        return SubstitutedRequest(passes, ChangedCall(inner, change, "a Metadata response for an old client"))

    def _report(
        self,
        call: Call,
        correlation_id: int,
        family: str,
        name: Name,
        reason: str,
        error: int,
        *,
        in_part: bool = False,
    ) -> None:
        shown = _shown(name)
        self._on_refused(
            RefusedRequest(
                call.api, call.key, correlation_id, family, shown, reason, error, in_part, _shown(self.rules.user)
            )
        )


class _AuthorizedCalls(SelectedCalls):
    """The calls of a session that an authorizer judges."""

    def __init__(self, calls: Calls, authorizer: SessionAuthorizer) -> None:
        super().__init__(calls)
        self._authorizer = authorizer
        between: dict[int, int] = dict.fromkeys(BETWEEN_BROKERS, -1)
        self.highest = _lower(_lower(calls.highest, authorizer.rules.newest), between)

    def __missing__(self, code: int) -> Call | None:
        call = self._all[code]
        if call is None:
            return None
        rules = self._authorizer.rules
        if call.key == ApiKey.API_VERSIONS:
            authorized: Call = Call(call.key, call.version, call.counters, _lower(call.highest, self.highest))
        elif call.key in rules.free:
            authorized = call
        elif call.version > rules.newest.get(call.key, call.version):
            return None
        else:
            authorized = JudgedCall(call, self._authorizer)
        if call.guard is None:  # a guard leaves when it is not needed any more
            self[code] = authorized
        return authorized


def _lower(highest: Mapping[int, int], other: Mapping[int, int]) -> Mapping[int, int]:
    """Return the lower one of both, for each API."""
    merged = dict(highest)
    for key, version in other.items():
        merged[key] = min(version, merged.get(key, version))
    return merged


def _inner(call: Call) -> Call:
    assert isinstance(call, JudgedCall)
    return call.inner


class _Discarded:
    """A refused request whose answer is known before it has come whole."""

    def __init__(self, call: Call, correlation_id: int, make_answer: Callable[[], bytes]) -> None:
        self.key, self.version, self.correlation_id = call.key, call.version, correlation_id
        self._make_answer = make_answer

    def feed(self, chunk: Buffer) -> None:
        """Forget the bytes."""

    def answer(self) -> bytes:
        return self._make_answer()


class _DiscardedProduce:
    """A refused Produce request, of which only the topics and partitions are read."""

    def __init__(self, call: Call, correlation_id: int, text: str) -> None:
        self.key, self.version, self.correlation_id = call.key, call.version, correlation_id
        self._text = text
        self._reader = ProduceReader(call.version)

    def feed(self, chunk: Buffer) -> None:
        self._reader.feed(chunk)

    def answer(self) -> bytes:
        if not self._reader.has_all_topics:
            raise malformed("a Produce request ends before its last field")
        return refused_response(self._reader.topics, self.version, self.correlation_id, self._text)


def _shown(name: Name) -> str:
    return one_line(name, _LONGEST_NAME) if isinstance(name, str) else ""


def _correlation_id(request: Buffer) -> int:
    return int(INT32.unpack_from(request, 8)[0])
