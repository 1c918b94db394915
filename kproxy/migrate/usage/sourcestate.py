"""What the source knows of those who use it, at two moments: groups, transactional ids, producers, ends of logs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from kproxy.base.errors import KproxyError
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.clusters.groups import GroupOffsetsClient, read_members
from kproxy.migrate.clusters.topic_reader import (
    ActiveProducer,
    NotAllowedError,
    PermissionAwareQueries,
    TopicReader,
)
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import LATEST, TopicPartition, parse_response
from kproxy.migrate.spec.migration import Migration
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import CONTROL, TRANSACTIONAL, Batch, read_batches
from kproxy.protocol.wire.api import ApiKey

OWN_PREFIX = "kproxy-migration-"
"""The transactional ids of kproxy's own copier begin so."""
_OFFSETS = "__consumer_offsets"
# Bytes of one request, of one log, and offsets from its end, that are read.
_FETCH, _MOST_BYTES, _LAST_OFFSETS = 4 << 20, 64 << 20, 20_000
_PATIENCE = 30.0
_read_version = Struct(">h").unpack_from


@dataclass(frozen=True, slots=True)
class GroupUse:
    """A group: the topics of its committed offsets, and the client ids of its members."""

    topics: tuple[str, ...]
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TransactionUse:
    """A transactional id: the topics whose logs have records of its producer, and the groups whose offsets it wrote."""

    producer_id: int
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceState:
    """The source at one moment (a Unix time)."""

    at: float
    ends: Mapping[TopicPartition, int]
    """High watermarks."""
    producers: Mapping[TopicPartition, tuple[ActiveProducer, ...]]
    groups: Mapping[str, GroupUse]
    transactions: Mapping[str, TransactionUse]
    ids: Mapping[str, str]
    """Topics by their ids, as Kafka writes these."""
    unreadable: tuple[str, ...] = ()
    """What could not be read, and why."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What a producer has written to a partition between two moments."""

    topic: str
    partition: int
    producer_id: int
    """-1: producers without an id."""
    epoch: int
    last: int
    """The timestamp of its last batch, in milliseconds since 1970, -1 if unknown."""
    offsets: int = -1
    """The offsets that its records take, -1 if they were not counted."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The source at the end of an observation, and what was written to it since the beginning."""

    began: float
    ended: float
    groups: Mapping[str, GroupUse] = field(default_factory=dict)
    transactions: Mapping[str, TransactionUse] = field(default_factory=dict)
    writings: tuple[Writing, ...] = ()
    growth: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The offsets by which logs have grown, with markers of transactions."""
    unreadable: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the change as `read` takes it."""
        return {
            "began": self.began,
            "ended": self.ended,
            "groups": {name: {"topics": group.topics, "members": group.members} for name, group in self.groups.items()},
            "transactions": {
                name: {"producer_id": use.producer_id, "topics": use.topics, "groups": use.groups}
                for name, use in self.transactions.items()
            },
            "writings": [
                [each.topic, each.partition, each.producer_id, each.epoch, each.last, each.offsets]
                for each in self.writings
            ],
            "growth": [[topic, partition, offsets] for (topic, partition), offsets in self.growth.items()],
            "unreadable": self.unreadable,
        }

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> SourceChange:
        """Read it from a file. Raises AttributeError, KeyError, TypeError and ValueError."""
        return cls(
            float(value["began"]),
            float(value["ended"]),
            {
                str(name): GroupUse(_names(group["topics"]), _names(group["members"]))
                for name, group in value["groups"].items()
            },
            {
                str(name): TransactionUse(int(use["producer_id"]), _names(use["topics"]), _names(use["groups"]))
                for name, use in value["transactions"].items()
            },
            tuple(Writing(str(topic), *map(int, numbers)) for topic, *numbers in value["writings"]),
            {(str(topic), int(partition)): int(offsets) for topic, partition, offsets in value["growth"]},
            _names(value["unreadable"]),
        )


def _names(values: Iterable[Any]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError
    return tuple(str(value) for value in values)


def read_source(admin: Admin, migration: Migration) -> SourceState:
    """Read the selected topics and groups of the source. What may not be read is named in the result.

    Raises UpstreamError if the cluster does not reply.
    """
    at, unreadable = time.time(), list[str]()
    reader = TopicReader(PermissionAwareQueries(admin), sorted(admin.nodes()), migration.selects_topic)
    topics = reader.list_topics()
    producers: Mapping[TopicPartition, tuple[ActiveProducer, ...]] = {}
    with ClusterClient(admin.bootstrap) as cluster:
        wanted = [(name, number) for name, topic in topics.items() for number in range(len(topic.partitions))]
        ends = cluster.list_offsets_until(wanted, LATEST, time.monotonic() + _PATIENCE, committed=False)
        ids = {_base64(number): name for name, number in cluster.refresh_metadata(list(topics)).ids.items() if number}
        unreadable += [f"the end of {topic}-{number}" for topic, number in wanted if (topic, number) not in ends]
    try:
        producers = reader.read_producers()
    except (NotAllowedError, UnsupportedRequestError) as error:
        unreadable.append(f"the producers of partitions: {error}")
    groups = read_groups(admin, migration, unreadable)
    transactions = _read_transactions(admin, producers, unreadable)
    return SourceState(at, ends, producers, groups, transactions, ids, tuple(unreadable))


def read_groups(admin: Admin, migration: Migration, unreadable: list[str]) -> dict[str, GroupUse]:
    """Return the groups that read topics of the migration; adds what could not be read to `unreadable`."""
    try:
        members = read_members(admin, migration.selects_group)
        offsets = {group.name: group for group in GroupOffsetsClient(admin).read(migration.selects_group)}
    except (NotAllowedError, KproxyError) as error:
        unreadable.append(f"groups: {error}")
        return {}
    unreadable += [f"group {group.name}: {group.unreadable}" for group in offsets.values() if group.unreadable]
    groups = {}
    for name in sorted({*members, *offsets}):
        positions = offsets[name].positions if name in offsets else ()
        topics = {topic for topic, _ in positions if migration.selects_topic(topic)}
        if topics or members.get(name):  # others have only read what is not copied
            groups[name] = GroupUse(tuple(sorted(topics)), tuple(sorted(members.get(name, ()))))
    return groups


def _read_transactions(
    admin: Admin, producers: Mapping[TopicPartition, tuple[ActiveProducer, ...]], unreadable: list[str]
) -> dict[str, TransactionUse]:
    try:
        ids = dict(_list_transactions(admin))
    except UnsupportedRequestError:
        unreadable.append("transactional ids: these brokers do not list them (before Kafka 3.0)")
        return {}
    except KproxyError as error:
        unreadable.append(f"transactional ids: {error}")
        return {}
    topics: defaultdict[int, set[str]] = defaultdict(set)
    for (topic, _), active in producers.items():
        for producer in active:
            topics[producer.id].add(topic)
    groups: Mapping[int, set[str]] = {}
    if ids:
        try:
            groups = _committed_groups(admin, set(ids.values()))
        except (NotAllowedError, UnsupportedRequestError, KproxyError) as error:
            unreadable.append(f"the offsets that transactions commit: {error}")
    return {
        name: TransactionUse(number, tuple(sorted(topics.get(number, ()))), tuple(sorted(groups.get(number, ()))))
        for name, number in sorted(ids.items())
        if number in topics or name.startswith(OWN_PREFIX)  # others have written nothing that is copied
    }


def _list_transactions(admin: Admin) -> Iterator[tuple[str, int]]:
    """Yield the transactional ids of all coordinators with their producer ids."""
    from kafka.protocol.admin import ListTransactionsRequest

    for node in sorted(admin.nodes()):
        answer = admin.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[], max_version=0), node)
        raise_for_code(answer.error_code, f"transactions of broker {node}")
        for transaction in answer.transaction_states:
            yield str(transaction.transactional_id), int(transaction.producer_id)


def _committed_groups(admin: Admin, producer_ids: set[int]) -> dict[int, set[str]]:
    """Return, by producer id, the groups whose offsets it has committed lately, from the log of committed offsets."""
    reader = TopicReader(PermissionAwareQueries(admin), sorted(admin.nodes()), lambda topic: topic == _OFFSETS)
    reader.list_topics()
    groups: defaultdict[int, set[str]] = defaultdict(set)
    with ClusterClient(admin.bootstrap) as cluster:
        for place, active in reader.read_producers().items():
            if not any(producer.id in producer_ids for producer in active):
                continue
            end = cluster.list_offsets([place], LATEST, committed=False).get(place, 0)
            for batch in read_log(cluster, place, max(0, end - _LAST_OFFSETS), end):
                if batch.attributes & TRANSACTIONAL and not batch.attributes & CONTROL:
                    for record in decode_records(batch):
                        if (group := _group_of(record.key)) is not None and batch.producer_id in producer_ids:
                            groups[batch.producer_id].add(group)
    return groups


def _group_of(key: bytes | None) -> str | None:
    """Return the group in the key of a record with an offset: version 0 or 1, then the group (OffsetCommitKey.json)."""
    if key is None or len(key) < 4 or _read_version(key)[0] not in (0, 1):
        return None
    length = _read_version(key, 2)[0]
    return key[4 : 4 + length].decode("utf-8", "replace")


def read_log(cluster: ClusterClient, place: TopicPartition, start: int, end: int) -> Iterator[Batch]:
    """Yield the batches of a log from `start` to before `end`, of at most 64 MiB.

    Raises UpstreamError and BrokerError.
    """
    topic, partition = place
    first = cluster.list_offsets([place], requests.EARLIEST).get(place, start)
    position, left = max(start, first), _MOST_BYTES
    while position < end and left > 0:
        connection = cluster.connect_leader(topic, partition)
        version = connection.version(ApiKey.FETCH)
        body = requests.encode_fetch(version, topic, partition, position, size=_FETCH, wait_ms=0, committed=False)
        response = parse_response(requests.read_fetch, version, connection.request(ApiKey.FETCH, version, body))
        raise_for_code(response.error, f"partition {partition} of {topic}")
        left -= len(response.records)
        before = position
        for batch in read_batches(memoryview(response.records)):
            if batch.last_offset >= end:
                return
            if batch.last_offset >= position:
                position = batch.last_offset + 1
                yield batch
        if position == before:
            return


def compare(
    before: SourceState, after: SourceState, passed: Mapping[TopicPartition, int], bootstrap: str
) -> SourceChange:
    """Return what was written between two moments.

    `passed`: by partition, the offsets that passed kproxies. Where a log has grown by more, its batches are read:
    markers of transactions take offsets too, and records without a producer id must be counted.
    """
    unreadable = list(dict.fromkeys((*before.unreadable, *after.unreadable)))
    known = {topic for topic, _ in before.ends}
    # A topic that is new has begun at 0. Of others, a partition may have had no leader.
    begins = {place: before.ends.get(place, 0) for place in after.ends if place in before.ends or place[0] not in known}
    growth = {place: after.ends[place] - begin for place, begin in begins.items() if after.ends[place] > begin}
    earlier = {(place, producer.id): producer for place, active in before.producers.items() for producer in active}
    own = {use.producer_id for name, use in after.transactions.items() if name.startswith(OWN_PREFIX)}
    writings = {
        # The marker of a transaction may have raised the epoch (KIP-890); the producer uses that with its next record.
        (place, producer.id): Writing(*place, producer.id, producer.epoch - (producer.sequence < 0), producer.last)
        for place, active in after.producers.items()
        for producer in active
        if producer.id not in own and producer != earlier.get((place, producer.id)) and place in growth
    }
    with ClusterClient(bootstrap) as cluster:
        for place, offsets in growth.items():
            if offsets <= passed.get(place, 0):
                continue
            try:
                counted = list(count_records(cluster, place, begins[place], after.ends[place], own))
            except KproxyError as error:
                unreadable.append(f"the log of {place[0]}-{place[1]}: {error}")
                continue
            writings |= {(place, writing.producer_id): writing for writing in counted}
    return SourceChange(
        before.at, after.at, after.groups, after.transactions, tuple(writings.values()), growth, tuple(unreadable)
    )


def count_records(
    cluster: ClusterClient, place: TopicPartition, start: int, end: int, own: Collection[int]
) -> Iterator[Writing]:
    """Yield what each producer, but those with an id of `own`, has written to a log between two offsets.

    Of a producer with several epochs, the highest is returned, with the offsets of all. Raises as `read_log`.
    """
    counts: Counter[int] = Counter()
    last: dict[int, tuple[int, int]] = {}  # the highest epoch and timestamp of each
    for batch in read_log(cluster, place, start, end):
        if not batch.attributes & CONTROL and batch.producer_id not in own:
            counts[batch.producer_id] += batch.last_offset_delta + 1
            epoch, at = last.get(batch.producer_id, (-1, -1))
            last[batch.producer_id] = max(epoch, batch.producer_epoch), max(at, batch.max_timestamp)
    for producer_id, offsets in counts.items():
        yield Writing(*place, producer_id, *last[producer_id], offsets)


def read_own_producer_ids(admin: Admin) -> dict[str, int]:
    """Return the producer ids of kproxy's own copier, by transactional id.

    Brokers forget these ids after a time without a transaction. Raises UnsupportedRequestError before Kafka 3.0.
    """
    return {name: number for name, number in _list_transactions(admin) if name.startswith(OWN_PREFIX)}


def _base64(number: str) -> str:
    """Return a topic id, which is hexadecimal, as Kafka writes it."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(bytes.fromhex(number)).decode().rstrip("=")
