"""Reads the state topic.

A read_committed consumer waits for each open transaction of a partition, also for those of tasks that died. So kproxy
reads all records, and keeps the records of a transaction until its marker comes: it sees committed records at once,
while other transactions are open.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kproxy.base.errors import ConfigError, WireError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.errorcodes import BrokerError, raise_for_code
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.requests import TopicPartition, parse_response
from kproxy.migrate.copier.state import Job, PartitionState, decode_map_piece, parse_key, parse_key_of, state_topic_name
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import COMMIT, Batch, read_batches
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode

# Size of a Fetch in bytes, and how long the broker may wait for records, in milliseconds.
_FETCH_SIZE, _WAIT_MS = 4 * 1024 * 1024, 200
# Maximum number of empty responses in a row before the end of the log.
_MAX_EMPTY_FETCHES = 50
# The beginnings of keys.
_MAP, VERIFIED = b'["map",', b'["verified",'
# How long a new topic may be unknown, and how long a leader may be missing, in seconds.
_NEW_TOPIC_TIMEOUT, _TIMEOUT = 3.0, 30.0


class StateLog:
    """One partition of the state topic. `values` has the committed values by key, as far as the log was read."""

    def __init__(
        self, topic: str, partition: int, begin: int = 0, key_filter: Callable[[bytes], bool] | None = None
    ) -> None:
        self.values: dict[bytes, bytes] = {}
        self._topic, self._partition, self._key_filter = topic, partition, key_filter
        self._next = begin
        self._open: dict[int, list[tuple[bytes, bytes | None]]] = {}  # by producer id
        self._open_since: dict[int, int] = {}

    @property
    def resume_offset(self) -> int:
        """The offset from which a reader that has `values` must read on."""
        return min([self._next, *self._open_since.values()])

    def read(self, cluster: ClusterClient) -> None:
        """Read up to the current end."""
        connection = cluster.connect_leader(self._topic, self._partition)
        version = connection.version(ApiKey.FETCH)
        end, empty = -1, 0
        while end < 0 or self._next < end:
            body = requests.encode_fetch(
                version,
                self._topic,
                self._partition,
                self._next,
                size=_FETCH_SIZE,
                wait_ms=_WAIT_MS if end > 0 else 0,
                committed=False,
            )
            response = parse_response(requests.read_fetch, version, connection.request(ApiKey.FETCH, version, body))
            if response.error == ErrorCode.OFFSET_OUT_OF_RANGE and response.start > self._next:
                # The log begins later: records were compacted or deleted.
                self._next = response.start
                continue
            raise_for_code(response.error, f"partition {self._partition} of {self._topic}")
            end = response.high if end < 0 else end
            before = self._next
            for batch in read_batches(memoryview(response.records)):
                self._add_batch(batch)
            empty = 0 if self._next > before else empty + 1
            if empty > _MAX_EMPTY_FETCHES:
                raise WireError(
                    "malformed", f"{self._topic}-{self._partition} has records that its broker does not return"
                )

    def _add_batch(self, batch: Batch) -> None:
        if batch.base_offset < self._next and batch.last_offset < self._next:
            return
        self._next = batch.last_offset + 1
        if batch.is_control:
            pending = self._open.pop(batch.producer_id, [])
            self._open_since.pop(batch.producer_id, None)
            if batch.control == COMMIT:
                self._apply(pending)
            return
        pairs = [(record.key or b"", record.value) for record in decode_records(batch)]
        matching = [pair for pair in pairs if self._key_filter is None or self._key_filter(pair[0])]
        if not batch.is_transactional:
            self._apply(matching)
            return
        self._open_since.setdefault(batch.producer_id, batch.base_offset)
        self._open.setdefault(batch.producer_id, []).extend(matching)

    def _apply(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in pairs:
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value


class StateTopic:
    """All partitions of the state topic."""

    def __init__(self, cluster: ClusterClient, topic: str, key_filter: Callable[[bytes], bool] | None = None) -> None:
        """Raise BrokerError if the topic does not exist, and UpstreamError."""
        self._cluster = cluster
        self.logs = [
            StateLog(topic, partition, key_filter=key_filter) for partition in range(cluster.partition_count(topic))
        ]

    def read(self) -> None:
        """Read the new records."""
        for log in self.logs:
            log.read(self._cluster)

    @property
    def values(self) -> dict[bytes, bytes]:
        """All committed values by key."""
        return {key: value for log in self.logs for key, value in log.values.items()}


def find_job(cluster: ClusterClient, name: str, seconds: float = 0.0) -> Job:
    """Return the job of a migration; try for `seconds` while the cluster cannot be reached.

    Raises ConfigError if the state topic does not exist.
    """
    topic = state_topic_name(name)

    def find() -> Job:
        try:
            # A broker may not know yet a topic that was created just now.
            return Job(name, retry(cluster, lambda: cluster.partition_count(topic), _NEW_TOPIC_TIMEOUT))
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise ConfigError(f"the target has no topic {topic}: run kproxy migrate prepare first") from None

    return retry(cluster, find, seconds)


def read_state_topic(
    cluster: ClusterClient, name: str, key_filter: Callable[[bytes], bool] | None = None
) -> StateTopic:
    """Read the state topic of a migration to its end; retry while a leader moves.

    Raises ConfigError if the topic does not exist.
    """
    find_job(cluster, name)

    def read() -> StateTopic:
        topic = StateTopic(cluster, state_topic_name(name), key_filter)
        topic.read()
        return topic

    return retry(cluster, read, _TIMEOUT)


def read_state(target: str, name: str, key_filter: Callable[[bytes], bool] | None = None) -> dict[bytes, bytes]:
    """Return the values of a migration's state topic by key. Raises ConfigError if the topic does not exist."""
    with ClusterClient(target) as cluster:
        return read_state_topic(cluster, name, key_filter).values


def is_partition_key(key: bytes) -> bool:
    """Return True if this is the key of a partition's state."""
    return key.startswith(b'["partition",')


def parse_states(values: Mapping[bytes, bytes]) -> dict[TopicPartition, PartitionState]:
    """Return the state of each partition of the source from the values of a state topic."""
    states = {}
    for key, value in values.items():
        if is_partition_key(key):
            match parse_key(key):
                case ["partition", str(topic), int(partition)]:
                    states[topic, partition] = PartitionState.from_json(value)
    return states


@dataclass(frozen=True, slots=True)
class CopiedPartition:
    """The copied part of one partition of the source, as `PartitionState` has it, with the complete offset map."""

    topic: str
    partition: int
    target_topic: str
    source_begin: int
    source_next: int
    target_next: int
    records: int
    size: int
    map: OffsetMap
    verified_upto: int = 0
    target_begin: int = 0
    origin: str = ""
    destination: str = ""

    @property
    def target_where(self) -> tuple[str, int]:
        """The topic and partition on the target."""
        return self.target_topic, self.partition

    @classmethod
    def without_records(
        cls, topic: str, partition: int, target_topic: str, *, begin: int = 0, end: int = 0, target_end: int = 0
    ) -> CopiedPartition:
        """Return a partition whose offsets count as copied, and have no records."""
        names = topic, partition, target_topic
        return cls(
            *names, source_begin=begin, source_next=end, target_next=target_end, records=0, size=0, map=OffsetMap()
        )


def parse_copied_partitions(values: Mapping[bytes, bytes]) -> dict[TopicPartition, CopiedPartition]:
    """Return the copied partitions from the values of a state topic.

    Raises WireError if the values contradict each other.
    """
    return copied_partitions(values, parse_states(values))


def copied_partitions(
    values: Mapping[bytes, bytes], states: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, CopiedPartition]:
    """Do what `parse_copied_partitions` does, where `states` are the partition states that `values` contain."""
    pieces: defaultdict[TopicPartition, list[tuple[int, bytes]]] = defaultdict(list)
    verified: dict[TopicPartition, int] = {}
    for key, value in values.items():
        match parse_key_of((_MAP, VERIFIED), key):
            case ["map", str(topic), int(partition), int(begin)]:
                pieces[topic, partition].append((begin, value))
            case ["verified", str(topic), int(partition)]:
                verified[topic, partition] = _verified_end(value)
    copied = {}
    for (topic, partition), state in states.items():
        offset_map = OffsetMap()
        for _, piece in sorted(pieces[topic, partition]):
            _append_runs(offset_map, decode_map_piece(piece))
        _append_runs(offset_map, state.map)
        if offset_map.records != state.records:
            raise WireError(
                "malformed",
                f"the offset map of partition {partition} of {topic} has {offset_map.records} records, but"
                f" {state.records} were copied: the state topic has lost records; was its cleanup.policy changed from"
                " compact?",
            )
        copied[topic, partition] = CopiedPartition(
            topic=topic,
            partition=partition,
            target_topic=state.target_topic,
            source_begin=state.source_begin,
            source_next=state.source_next,
            target_next=state.target_next,
            records=state.records,
            size=state.size,
            map=offset_map,
            verified_upto=verified.get((topic, partition), 0),
            target_begin=state.target_begin,
            origin=state.origin,
            destination=state.destination,
        )
    return copied


def _append_runs(offset_map: OffsetMap, piece: OffsetMap) -> None:
    for run in piece:
        try:
            offset_map.add(*run)
        except ValueError:
            raise WireError("malformed", "the state topic has two pieces of one offset map that overlap") from None


def _verified_end(value: bytes) -> int:
    try:
        return int(json.loads(value)["upto"])
    except (ValueError, KeyError, TypeError):
        raise WireError("malformed", "the state topic has a record that kproxy did not write") from None


def read_copied_partitions(target: str, name: str) -> dict[TopicPartition, CopiedPartition]:
    """Read the copied partitions of a migration from its target cluster.

    Raises ConfigError if the migration was not prepared there.
    """
    return parse_copied_partitions(read_state(target, name))


def read_values(
    cluster: ClusterClient, topic: str, partition: int, begin: int, keys: Collection[bytes]
) -> dict[bytes, bytes]:
    """Return the newest values of these keys that were written since the offset `begin`."""
    log = StateLog(topic, partition, begin, keys.__contains__)
    log.read(cluster)
    return log.values


def read_value(cluster: ClusterClient, topic: str, partition: int, begin: int, key: bytes) -> bytes | None:
    """Return the newest value of a key that was written since the offset `begin`, or None."""
    return read_values(cluster, topic, partition, begin, {key}).get(key)
