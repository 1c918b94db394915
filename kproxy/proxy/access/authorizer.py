"""Judges the requests of one session by the access rules of its cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from kproxy.base.errors import WireError
from kproxy.base.messages.sessions import (
    ACCESS_API_REFUSED,
    ACCESS_PRODUCE_WITHOUT_ACKS,
    ACCESS_REQUEST_TOO_LARGE,
)
from kproxy.base.printable import one_line
from kproxy.config.access import FAMILIES, AccessRules, Decision, Extent
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import INT32, Buffer, Underflow, malformed
from kproxy.proxy.access import autocreate
from kproxy.proxy.access.apis import BETWEEN_BROKERS, CHANGES, LOGINS, NAMED_BY_ID, OF_CLUSTER_USERS, READS, Change
from kproxy.proxy.access.names import Name, Unnamed
from kproxy.proxy.access.produce import (
    ProduceReader,
    ProduceTopic,
    refused_response,
    with_refused_topics,
    without_topics,
)
from kproxy.proxy.access.refusals import Refusal, answer, flat_answer
from kproxy.proxy.relay.calls import Call, Calls, GuardVerdict, SelectedCalls
from kproxy.proxy.relay.judged import ChangedCall, DiscardedRequest, JudgedCall, SubstitutedRequest

_LONGEST_HEAD = 128 * 1024
"""The most bytes from the beginning of a request to the last name that decides: three strings of at most 32 KiB."""
LONGEST_PRODUCE = 2 * 1024 * 1024
"""The most bytes of a Produce request to several topics that kproxy keeps until it can judge it, if the rules differ
for topics. Java's max.request.size is 1 MiB by default; librdkafka writes to one partition with each request."""
TURN = 128
"""What requests may cost in one turn of the loop, each 1 and 1 more for each KiB that is examined."""
_LONGEST_TEXT, _LONGEST_NAME = 400, 100
_OTHER_USERS = Decision(False, "clients log in at kproxy (--client-sasl), not with users and tokens of the cluster")
_UNKNOWN_NAME = Decision(False, "the request names a topic by its id, about which no rule can decide")


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that was refused, in whole or in part."""

    api: str
    key: int
    correlation_id: int
    family: str
    name: str
    """The first name that is forbidden, escaped and cut; "" if the family has none."""
    reason: str
    """The option that forbids it, in words."""
    error: int
    """Kafka's error code."""
    in_part: bool = False
    """Something of it reaches the broker."""
    user: str = ""
    """The user who has logged in at kproxy, escaped and cut."""


class SessionRules:
    """The access rules of a cluster, as sessions need them whose clients have logged in as one user, or not at all.

    `has_users`: clients log in at kproxy, and all users share kproxy's login to the brokers. So no client may have
    passwords or delegation tokens of the cluster: they would be of kproxy's user, or of no use here.
    """

    def __init__(self, all_rules: AccessRules, *, has_users: bool = False, user: str = "") -> None:
        self.rules = rules = all_rules.for_user(user)
        self.user = user
        self.refused: Collection[int] = OF_CLUSTER_USERS if has_users else ()
        self.extents: Mapping[str, Extent] = {family: rules.extent(family) for family in FAMILIES}
        self.newest = {
            key: version
            for family, versions in NAMED_BY_ID.items()
            # A client learns the versions before its user is known.
            if self.extents[family] is Extent.SOME or family in all_rules.families_by_user
            for key, version in versions.items()
        }
        self.free = {*LOGINS, *READS, *(key for key, change in CHANGES.items() if self._is_free(APIS[key], change))}
        """The APIs that pass unread."""
        if self.extents["topic"] is not Extent.ALL:
            self.free.remove(ApiKey.METADATA)
        self.free.difference_update(self.refused)

    def _is_free(self, key: ApiKey, change: Change) -> bool:
        families = {
            ApiKey.INIT_PRODUCER_ID: ("transaction", "produce"),
            ApiKey.ADD_PARTITIONS_TO_TXN: ("transaction", "produce"),
            ApiKey.ADD_OFFSETS_TO_TXN: ("transaction", "group"),
            ApiKey.TXN_OFFSET_COMMIT: ("transaction", "group"),
            ApiKey.ALTER_CONFIGS: ("admin", "topic", "group"),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: ("admin", "topic", "group"),
        }.get(key, (change.family,))
        return all(self.extents[family] is Extent.ALL for family in families)

    def forbidden_by(self, family: str, name: Name) -> Decision | None:
        """Return the decision that forbids this; None if it is allowed."""
        extent = self.extents[family]
        if extent is Extent.ALL:
            return None
        if name is None:
            return _UNKNOWN_NAME
        if isinstance(name, Unnamed):
            return None if extent is Extent.SOME else self.rules.decide(family, "*")
        decision = self.rules.decide(family, name)
        return None if decision.allows else decision

    def text(self, family: str, reason: str) -> str:
        """Return what a client gets to read: what forbids its request, and which names are allowed."""
        allowed = self.rules.allowed_names(family)
        names = f"; allowed {FAMILIES[family]}s: {', '.join(allowed)}" if allowed else ""
        return one_line(f"kproxy refuses this: {reason}{names}", _LONGEST_TEXT)


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
        names = change.read_names(request, call.key, call.version)
        is_refused = call.key in self.rules.refused
        decisions = [
            (family, name, _OTHER_USERS if is_refused else self.rules.forbidden_by(family, name))
            for family, name in names
        ]
        forbidden = [(family, name) for family, name, decision in decisions if decision is not None]
        if not forbidden:
            return GuardVerdict.PASS
        is_whole = len(request) >= 4 + size
        family, name, reason = next(
            (family, name, decision.reason) for family, name, decision in decisions if decision is not None
        )
        refusal = Refusal(call.key, forbidden, self.rules.text(family, reason))
        correlation_id = _correlation_id(request)
        if change.is_flat(call.version):
            response = flat_answer(call.key, call.version, correlation_id, refusal)
        else:
            self._spent += min(size, len(request)) >> 10
            response = answer(request, refusal)
        self._report(call, correlation_id, family, name, reason, refusal.error)
        return response if is_whole else _Discarded(call, correlation_id, lambda: response)

    # Produce

    def _judge_produce(
        self, call: Call, request: Buffer, size: int
    ) -> GuardVerdict | bytes | SubstitutedRequest | DiscardedRequest:
        reader = ProduceReader(call.version)
        reader.feed(request[: 4 + size])
        is_whole = len(request) >= 4 + size
        if reader.acks is None:
            raise Underflow
        extent = self.rules.extents["produce"]
        if extent is Extent.SOME:
            may_decide = reader.has_all_topics or (reader.count == 1 and reader.topics)
            if not may_decide and not is_whole:
                return self._await(call, size, LONGEST_PRODUCE)
            decisions = [(topic, self.rules.forbidden_by("produce", reader.name(topic))) for topic in reader.topics]
            refused = [topic for topic, decision in decisions if decision is not None]
            if not refused:
                return GuardVerdict.PASS
            reason = next(decision.reason for _, decision in decisions if decision is not None)
        else:
            refused = reader.topics
            reason = self.rules.rules.decide("produce", "*").reason
        self._spent += len(reader.topics) >> 5
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
