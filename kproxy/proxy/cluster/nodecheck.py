"""The check whether a broker is a certain node of a certain cluster: ApiVersions 5, which names both (KIP-1242).

A broker of Kafka 4.4 or later that is another node, or of another cluster, answers REBOOTSTRAP_REQUIRED. The question
needs no right, and kproxy can ask it with a client's own ApiVersions request: then the check costs no round trip. But a
confirmation proves something only if the broker would have refused otherwise. Not all do:

 * Kafka's controllers, and a broker whose listener requires a login, before the login, confirm any node.
 * Software that is not Kafka may offer version 5 and ignore its fields.

So kproxy believes a confirmation only from software that it has seen refuse: once another cluster, and once a node that
no cluster has. It recognises software by its list of APIs and versions, which differs between Kafka's brokers and
controllers, and between versions. Asking for the refusals on each connection was considered: each would count as an
error in the broker's metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum, auto
from time import monotonic
from typing import TypeVar

from kproxy.base.address import Address
from kproxy.base.messages.start import CHECK_NOT_USABLE
from kproxy.base.repeats import about
from kproxy.client.ask.channel import Channel
from kproxy.client.ask.question import UnreadableResponse
from kproxy.client.ask.questions import UNUSED_NODE_ID, Versions, address_question
from kproxy.protocol.rewrite.versionsanswer import VersionsAnswer
from kproxy.protocol.rewrite.versionsrequest import ADDRESSED, VersionsRequest
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import Underflow

log = logging.getLogger(__name__)

T = TypeVar("T")

# For so many seconds kproxy knows whether a broker offers version 5: brokers are upgraded, one after the other.
_VERSIONS_VALID_FOR = 300.0
# The most addresses and kinds of software that are remembered: bounds for a cluster that always names new ones.
_ADDRESSES, _SOFTWARE = 10_000, 64
# A cluster id that no cluster has: ids are UUIDs in base64.
_NO_CLUSTER = "kproxy.asks.for.another.cluster"
# For so many seconds kproxy omits the check at an address whose answers prove nothing.
_OMITTED_FOR = 300.0
# How often in a row a broker may close the connection, or not answer.
_FAILURES_UNTIL_OMITTED = 2
# The most nodes that are asked for in one round trip, and in all.
_AT_ONCE, _MOST = 50, 1000


class Verdict(Enum):
    """What the answer of a broker says about the node that kproxy has asked for."""

    CONFIRMED = auto()
    """It is that node."""
    REFUSED = auto()
    """It is another node, or of another cluster."""
    UNKNOWN = auto()
    """The answer proves nothing."""


class NodeCheck:
    """What kproxy knows of the brokers of one cluster for this check."""

    def __init__(self) -> None:
        self._newest: dict[Address | None, tuple[int, float]] = {}  # the newest ApiVersions, and until when it is known
        self._refusing: dict[bytes, None] = {}  # the APIs of software that has refused another cluster and node
        self._failures: dict[Address | None, int] = {}  # in a row
        self._interrupted: dict[Address | None, None] = {}  # whose answer was awaited no longer
        self._omitted_until: dict[Address | None, float] = {}

    def newest(self, address: Address | None) -> int | None:
        """Return the newest version of ApiVersions that the broker at an address offers; None while it is unknown.

        An address of None stands for the broker that was asked last.
        """
        newest, until = self._newest.get(address, (0, 0.0))
        return newest if monotonic() < until else None

    def note_versions(self, address: Address | None, versions: Versions) -> None:
        """Note the versions that a broker offers."""
        newest = max(versions.get(ApiKey.API_VERSIONS, range(1)), default=0)
        _put(self._newest, address, (newest, monotonic() + _VERSIONS_VALID_FOR))

    def may_ask(self, address: Address | None) -> bool:
        """Check whether the broker at an address offers the check, as far as is known."""
        offered = self.newest(address)
        if offered is None or offered < ADDRESSED:
            return False
        return not self._omitted_until or monotonic() >= self._omitted_until.get(address, 0.0)

    def may_confirm(self, address: Address) -> bool:
        """Check whether one answer may prove which node is at this address."""
        return bool(self._refusing) and self.may_ask(address)

    def distrust(self, address: Address | None, seconds: float) -> None:
        """Omit the check at an address for so long."""
        self._failures.pop(address, None)
        _put(self._omitted_until, address, monotonic() + seconds)

    def note_failure(self, address: Address | None, problem: str, *, at_once: bool = False) -> None:
        """Note that the broker has not answered; omit the check after the second time, or `at_once`.

        A connection may break at any moment.
        """
        failures = self._failures.get(address, 0) + 1
        _put(self._failures, address, failures)
        if at_once or failures >= _FAILURES_UNTIL_OMITTED:
            self._omit(address, f"ApiVersions 5: {problem}")

    def note_interrupted(self, address: Address | None) -> None:
        """Note that the answer of the broker is awaited no longer, perhaps because it has taken too long."""
        _put(self._interrupted, address, None)

    def note_timeout(self, address: Address | None) -> None:
        """Note that the broker has taken too long for an answer, perhaps for this one."""
        if address in self._interrupted:
            del self._interrupted[address]
            self.note_failure(address, "no answer")

    def note_answered(self, address: Address | None) -> None:
        """Note that the broker has answered."""
        for facts in (self._failures, self._interrupted):
            if facts:  # usually there are none
                facts.pop(address, None)

    async def confirm(
        self, channel: Channel, address: Address, cluster_id: str, node_id: int, request: VersionsRequest | None
    ) -> tuple[Verdict, bytes]:
        """Ask the broker at an address whether it is this node, with a client's request if there is one.

        Return the verdict and, if it is CONFIRMED, the body of the response to the client. Raises UpstreamError and
        WireError, as `Question.read_answer`; the connection cannot be used any more then.
        """
        try:
            answer = await address_question(cluster_id, node_id, request).ask(channel)
            if answer.error == ErrorCode.NONE and answer.ranges in self._refusing:
                return Verdict.CONFIRMED, b"" if request is None else answer.in_version(request.version)
        except (UnreadableResponse, Underflow) as error:
            self._omit(address, f"ApiVersions 5: {error or 'its answer ends early'}")
            return Verdict.UNKNOWN, b""
        if answer.error == ErrorCode.REBOOTSTRAP_REQUIRED:
            return Verdict.REFUSED, b""
        if answer.error == ErrorCode.UNSUPPORTED_VERSION:
            self._note_older(address)
        return Verdict.UNKNOWN, b""

    async def find(
        self, channel: Channel, address: Address | None, cluster_id: str, ids: Sequence[int]
    ) -> tuple[Verdict, int | None]:
        """Find out which of these nodes of its cluster the broker at an address is.

        Return CONFIRMED and the node's id, REFUSED if it is none of them, or UNKNOWN. Raises UpstreamError and
        WireError, as `Question.read_answer`.
        """
        for begin in range(0, min(len(ids), _MOST), _AT_ONCE):
            part = ids[begin : begin + _AT_ONCE]
            # A broker that confirms one of the first two confirms any.
            pairs = [*((cluster_id, node_id) for node_id in part)]
            if not begin:
                pairs = [(_NO_CLUSTER, part[0]), (cluster_id, UNUSED_NODE_ID), *pairs]
            answers = await self._ask_all(channel, pairs)
            errors = [None if answer is None else answer.error for answer in answers]
            if ErrorCode.UNSUPPORTED_VERSION in errors:
                self._note_older(address)
                return Verdict.UNKNOWN, None
            confirmed = [number for number, error in enumerate(errors) if error == ErrorCode.NONE]
            if len(confirmed) + errors.count(ErrorCode.REBOOTSTRAP_REQUIRED) < len(errors):
                self._omit(address, "ApiVersions 5: it neither confirms nor refuses")
                return Verdict.UNKNOWN, None
            if len(confirmed) > 1 or (confirmed and pairs[confirmed[0]] in (pairs[:2] if not begin else ())):
                self._omit(address, "it confirms any node")
                return Verdict.UNKNOWN, None
            if confirmed:
                self._note_refusing(answers[confirmed[0]])
                return Verdict.CONFIRMED, pairs[confirmed[0]][1]
        return Verdict.REFUSED, None

    async def _ask_all(self, channel: Channel, pairs: Sequence[tuple[str, int]]) -> list[VersionsAnswer | None]:
        """Ask for each cluster and node, in one round trip; None where an answer cannot be read."""
        asked = [address_question(cluster_id, node_id) for cluster_id, node_id in pairs]
        for question in asked:
            question.send(channel)
        answers: list[VersionsAnswer | None] = []
        for question in asked:
            try:
                answers.append(await question.read_answer(channel))
            except UnreadableResponse:
                answers.append(None)
        return answers

    def _note_refusing(self, answer: VersionsAnswer | None) -> None:
        if answer is not None and answer.ranges not in self._refusing:
            if len(self._refusing) >= _SOFTWARE:
                del self._refusing[next(iter(self._refusing))]
            self._refusing[answer.ranges] = None

    def _note_older(self, address: Address | None) -> None:
        """Note that the broker does not offer the check, although the one that was there before has done."""
        self._newest.pop(address, None)
        self.distrust(address, _VERSIONS_VALID_FOR)

    def _omit(self, address: Address | None, problem: str) -> None:
        """Omit the check at an address for a while, and log why."""
        self.distrust(address, _OMITTED_FOR)
        log.warning(CHECK_NOT_USABLE(address=address or "a broker", problem=problem), extra=about(address))


def _put(facts: dict[Address | None, T], address: Address | None, fact: T) -> None:
    """Remember a fact of an address, of a bounded number of them."""
    if len(facts) >= _ADDRESSES and address not in facts:
        facts.clear()
    facts[address] = fact
