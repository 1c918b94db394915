"""Reading the state topic.

Readers of committed records wait for every open transaction of a partition, also for those of tasks that died. So
kproxy reads everything and keeps what transactions have written until their marker is there: what was committed is seen
at once, whoever else has something open.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kproxy.base.errors import ConfigError, WireError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import UNKNOWN_TOPIC_OR_PARTITION, BrokerError, raise_for_code
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.requests import parse_response
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.state import PartitionState, decode_map_piece, parse_key, state_topic_name
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import COMMIT, Batch, read_batches

# What is asked for at once, in bytes, and how long the broker may think, in milliseconds.
_AT_ONCE, _WAIT_MS = 4 * 1024 * 1024, 200
# So often nothing may come although there should be something.
_EMPTY = 50
# How long a topic may be unknown that was created just now, and a leader missing, in seconds.
_YOUNG, _PATIENCE = 3.0, 30.0


class StateLog:
    """One partition of the state topic, as far as it was read. `values` has what is committed, by key."""

    def __init__(
        self, topic: str, partition: int, begin: int = 0, key_filter: Callable[[bytes], bool] | None = None
    ) -> None:
        self.values: dict[bytes, bytes] = {}
        self._topic, self._partition, self._key_filter = topic, partition, key_filter
        self._next = begin
        self._open: dict[int, list[tuple[bytes, bytes | None]]] = {}  # by producer id
        self._since: dict[int, int] = {}

    @property
    def resume_offset(self) -> int:
        """Somebody who has `values` and reads from this offset on misses nothing."""
        return min([self._next, *self._since.values()])

    def read(self, cluster: ClusterClient) -> None:
        """Up to what is there now. Raises UpstreamError, Refused and WireError."""
        link = cluster.connect_leader(self._topic, self._partition)
        version = link.version(requests.FETCH)
        end, empty = -1, 0
        while end < 0 or self._next < end:
            body = requests.encode_fetch(
                version,
                self._topic,
                self._partition,
                self._next,
                size=_AT_ONCE,
                wait_ms=_WAIT_MS if end > 0 else 0,
                committed=False,
            )
            answer = parse_response(requests.read_fetch, version, link.request(requests.FETCH, version, body))
            if answer.error == 1 and answer.start > self._next:  # begins later: records were compacted, or deleted
                self._next = answer.start
                continue
            raise_for_code(answer.error, f"partition {self._partition} of {self._topic}")
            end = answer.high if end < 0 else end
            before = self._next
            for batch in read_batches(memoryview(answer.records)):
                self._take(batch)
            empty = 0 if self._next > before else empty + 1
            if empty > _EMPTY:
                raise WireError("malformed", f"{self._topic} has records that its broker does not give")

    def _take(self, batch: Batch) -> None:
        if batch.base_offset < self._next and batch.last_offset < self._next:
            return
        self._next = batch.last_offset + 1
        if batch.is_control:
            written = self._open.pop(batch.producer_id, [])
            self._since.pop(batch.producer_id, None)
            if batch.control == COMMIT:
                self._apply(written)
            return
        pairs = [(one.key or b"", one.value) for one in decode_records(batch)]
        found = [pair for pair in pairs if self._key_filter is None or self._key_filter(pair[0])]
        if not batch.is_transactional:
            self._apply(found)
            return
        self._since.setdefault(batch.producer_id, batch.base_offset)
        self._open.setdefault(batch.producer_id, []).extend(found)

    def _apply(self, written: list[tuple[bytes, bytes | None]]) -> None:
        for name, value in written:
            if value is None:
                self.values.pop(name, None)
            else:
                self.values[name] = value


class StateTopic:
    """The whole of it."""

    def __init__(self, cluster: ClusterClient, topic: str, key_filter: Callable[[bytes], bool] | None = None) -> None:
        """Raises Refused if it is not there, and UpstreamError."""
        self._cluster = cluster
        self.logs = [
            StateLog(topic, partition, key_filter=key_filter) for partition in range(cluster.partition_count(topic))
        ]

    def read(self) -> None:
        """What came since. Raises UpstreamError, Refused and WireError."""
        for log in self.logs:
            log.read(self._cluster)

    @property
    def values(self) -> dict[bytes, bytes]:
        """All, by key."""
        return {name: value for log in self.logs for name, value in log.values.items()}


def count_state_partitions(cluster: ClusterClient, name: str) -> int:
    """How many partitions the state topic of this migration has. Raises ConfigError if it is not there; UpstreamError
    and WireError."""
    topic = state_topic_name(name)
    try:
        # A broker may not know yet what was created just now.
        return retry(cluster, lambda: cluster.partition_count(topic), _YOUNG)
    except BrokerError as error:
        if error.code != UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise ConfigError(f"the target has no topic {topic}: run kproxy migrate prepare first") from None


def read_state_topic(
    cluster: ClusterClient, name: str, key_filter: Callable[[bytes], bool] | None = None
) -> StateTopic:
    """The state topic of this migration, read to its end, although a leader may move meanwhile. Raises ConfigError if
    it is not there; UpstreamError and WireError."""
    count_state_partitions(cluster, name)

    def once() -> StateTopic:
        topic = StateTopic(cluster, state_topic_name(name), key_filter)
        topic.read()
        return topic

    return retry(cluster, once, _PATIENCE)


@dataclass(frozen=True, slots=True)
class CopiedPartition:
    """What was copied of one partition of the source, as `State` has it, with the whole offset map."""

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


def parse_copied_partitions(values: Mapping[bytes, bytes]) -> dict[tuple[str, int], CopiedPartition]:
    """From what a state topic has. Raises WireError if it does not fit together."""
    pieces: defaultdict[tuple[str, int], list[tuple[int, bytes]]] = defaultdict(list)
    states: dict[tuple[str, int], PartitionState] = {}
    verified: dict[tuple[str, int], int] = {}
    for name, value in values.items():
        match parse_key(name):
            case ["map", str(topic), int(partition), int(begin)]:
                pieces[topic, partition].append((begin, value))
            case ["partition", str(topic), int(partition)]:
                states[topic, partition] = PartitionState.from_json(value)
            case ["verified", str(topic), int(partition)]:
                verified[topic, partition] = _upto(value)
    found = {}
    for (topic, partition), state in states.items():
        whole = OffsetMap()
        for _, piece in sorted(pieces[topic, partition]):
            _append(whole, decode_map_piece(piece))
        _append(whole, state.map)
        if whole.records != state.records:
            raise WireError(
                "malformed",
                f"the offset map of partition {partition} of {topic} has {whole.records} records, and {state.records}"
                " were copied: the state topic has lost records; was its cleanup.policy changed from compact?",
            )
        found[topic, partition] = CopiedPartition(
            topic,
            partition,
            state.target_topic,
            state.source_begin,
            state.source_next,
            state.target_next,
            state.records,
            state.size,
            whole,
            verified.get((topic, partition), 0),
            state.target_begin,
            state.origin,
            state.destination,
        )
    return found


def _append(whole: OffsetMap, piece: OffsetMap) -> None:
    for run in piece:
        try:
            whole.add(*run)
        except ValueError:
            raise WireError("malformed", "the state topic has two pieces of one offset map that overlap") from None


def _upto(value: bytes) -> int:
    try:
        return int(json.loads(value)["upto"])
    except (ValueError, KeyError, TypeError):
        raise WireError("malformed", "the state topic has a record that kproxy did not write") from None


def read_copied_partitions(target: str, name: str) -> dict[tuple[str, int], CopiedPartition]:
    """Of the migration with this name, from its target cluster. Raises ConfigError if nothing was prepared there;
    UpstreamError, WireError."""
    cluster = ClusterClient(target)
    try:
        topic = read_state_topic(cluster, name)
    finally:
        cluster.close()
    return parse_copied_partitions(topic.values)


def read_value(cluster: ClusterClient, topic: str, partition: int, begin: int, name: bytes) -> bytes | None:
    """The newest value of one key, if it came since the offset `begin`."""
    log = StateLog(topic, partition, begin, lambda found: found == name)
    log.read(cluster)
    return log.values.get(name)
