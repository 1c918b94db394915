"""Hanging transactions: open in a partition's log, though their coordinator knows no such transaction (KIP-664).

Readers of committed records, the copy among them, stop at the first record of such a transaction, for ever. A broker
that was killed can leave one behind: its coordinator ends the transaction, and writes no marker into a log whose leader
is not registered yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

from kproxy.base.diagnostic import ERROR, WARNING, Diagnostic
from kproxy.base.errors import UpstreamError
from kproxy.base.format import abbreviate
from kproxy.base.messages.migrations import HANGING_TRANSACTION, PERHAPS_HANGING_TRANSACTION
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.clusters.topic_reader import NOT_ALLOWED, NotAllowedError, PermissionAwareQueries, TopicReader
from kproxy.migrate.switch.transactions import list_ids
from kproxy.protocol.wire.errorcodes import ErrorCode, error_name

# So many have a line of their own.
_MAX_LINES = 20
_STATE_TOPIC = "__transaction_state"


@dataclass(frozen=True, slots=True, order=True)
class LoggedTransaction:
    """A transaction that is open in the log of one partition; `start` is the offset of its first record there."""

    topic: str
    partition: int
    producer_id: int
    start: int


def check_hanging(admin: Admin, selects_topic: Callable[[str], bool], until: float) -> Iterator[Diagnostic]:
    """Yield the hanging transactions in the logs of these topics, each with the command that aborts it.

    Brokers before Kafka 3.0 cannot tell them from others, and then there is no finding. Raises UpstreamError if a
    broker does not reply, or is not ready at `until` (of time.monotonic).
    """
    try:
        hanging = _find_hanging(admin, selects_topic, until)
        sees_all = not hanging or _sees_all(admin)
    except (NotAllowedError, UnsupportedRequestError):
        return
    if not sees_all:
        places = abbreviate([f"{each.topic}-{each.partition}" for each in hanging])
        yield Diagnostic(WARNING, "transactions", PERHAPS_HANGING_TRANSACTION(places=places))
        return
    for each in hanging[:_MAX_LINES]:
        text = HANGING_TRANSACTION(
            producer_id=each.producer_id, start=each.start, topic=each.topic, partition=each.partition
        )
        yield Diagnostic(ERROR, f"partition {each.topic}-{each.partition}", text)
    if len(hanging) > _MAX_LINES:
        yield Diagnostic(ERROR, "transactions", f"{len(hanging) - _MAX_LINES} more partitions have a hanging one")


def _find_hanging(admin: Admin, selects_topic: Callable[[str], bool], until: float) -> list[LoggedTransaction]:
    """Return what is open in the logs before and after the coordinators were asked, and unknown to them.

    A partition is added to a transaction, by the producer or by the broker (KIP-890), before a record is written there.
    So what a coordinator does not know between two looks at the log has neither just begun nor just ended.
    """
    before = _open_in_logs(admin, selects_topic)
    if not before:
        return []
    known = _known_to_coordinators(admin, {each.producer_id for each in before}, until)
    unknown = {each for each in before if (each.topic, each.partition) not in known.get(each.producer_id, ())}
    return sorted(unknown & _open_in_logs(admin, selects_topic)) if unknown else []


def _open_in_logs(admin: Admin, selects_topic: Callable[[str], bool]) -> set[LoggedTransaction]:
    reader = TopicReader(PermissionAwareQueries(admin), sorted(admin.nodes()), selects_topic)
    reader.list_topics()
    reader.keep_partitions_with_open_transactions()
    return {
        LoggedTransaction(topic, partition, producer.id, producer.transaction_start)
        for (topic, partition), producers in reader.read_producers().items()
        for producer in producers
        if producer.transaction_start >= 0
    }


def _known_to_coordinators(admin: Admin, producer_ids: set[int], until: float) -> Mapping[int, set[tuple[str, int]]]:
    """Return the partitions in the transactions of these producers, by producer id."""
    from kafka.protocol.admin import DescribeTransactionsRequest

    known: dict[int, set[tuple[str, int]]] = {}
    for node in sorted(admin.nodes()):
        ids = list_ids(admin, node, [], until, producer_ids)
        if not ids:
            continue
        answer = admin.ask(DescribeTransactionsRequest(transactional_ids=ids), node)
        for transaction in answer.transaction_states:
            if transaction.error_code not in (0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                name = error_name(transaction.error_code)
                raise UpstreamError("other", f"broker {node} does not describe its transactions: {name}")
            known.setdefault(int(transaction.producer_id), set()).update(
                (str(topic.topic), int(partition)) for topic in transaction.topics for partition in topic.partitions
            )
    return known


def _sees_all(admin: Admin) -> bool:
    """Check whether the brokers together show each transactional id.

    A broker shows ids that the principal may describe, as it shows when it is asked about an id that does not exist. It
    lists those that it coordinates, so each partition of __transaction_state needs a leader.
    """
    from kafka.protocol.admin import DescribeTransactionsRequest
    from kafka.protocol.metadata import MetadataRequest

    named = [MetadataRequest.MetadataRequestTopic(name=_STATE_TOPIC)]
    (topic,) = admin.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False)).topics
    if topic.error_code or any(partition.leader_id < 0 for partition in topic.partitions):
        return False
    answer = admin.ask(DescribeTransactionsRequest(transactional_ids=[uuid4().hex]))
    return all(state.error_code not in NOT_ALLOWED for state in answer.transaction_states)
