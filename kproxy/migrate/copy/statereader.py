"""The state topic, as both threads of a run see it: one reader, and one snapshot for planning and for display."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from kproxy.base.errors import KproxyError
from kproxy.migrate.clusters.topic_identities import is_topic_record
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState, state_key, state_partition
from kproxy.migrate.copier.statetopic import StateTopic, parse_states, read_state_topic
from kproxy.migrate.journal.driver import LEAVE_KEY, ORDER_KEY


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The committed records of the state topic at one time."""

    values: Mapping[bytes, bytes]
    states: Mapping[TopicPartition, PartitionState]
    """The progress of the copy in each partition of the source."""
    resume_offsets: tuple[int, ...]
    """By partition of the state topic, the offset from which a task reads what is newer than this snapshot."""

    def resume_offset(self, topic_partition: TopicPartition) -> int:
        """Return the offset from which a task reads newer states of a partition of the source."""
        return self.resume_offsets[state_partition(state_key("partition", *topic_partition), len(self.resume_offsets))]


class StateReader:
    """The reader of the state topic of one migration, with its own connections. Any thread may call `read`.

    Its snapshots have the records that a copy needs, or with `complete` all records.
    """

    def __init__(self, target: str, name: str, *, complete: bool = False) -> None:
        self._cluster, self._name = ClusterClient(target), name
        self._key_filter = None if complete else _is_relevant_key
        self._topic: StateTopic | None = None
        self._values: dict[bytes, bytes] = {}
        self._states: dict[TopicPartition, PartitionState] = {}
        self._committed: dict[TopicPartition, PartitionState] = {}  # newer than `_states`
        self._lock = threading.Lock()

    def _read_topic(self) -> StateTopic:
        if self._topic is None:
            self._topic = read_state_topic(self._cluster, self._name, self._key_filter)
        self._topic.read()
        return self._topic

    def read(self, seconds: float = 0.0) -> StateSnapshot:
        """Read what is new, and return the snapshot; only changed states are parsed. Retries for `seconds`."""
        with self._lock:
            try:
                topic = retry(self._cluster, self._read_topic, seconds)
            except KproxyError:
                self._cluster.invalidate()
                raise
            values = topic.values
            changed = {key: value for key, value in values.items() if self._values.get(key) is not value}
            if self._values.keys() <= values.keys():
                self._states = {**self._states, **parse_states(changed)}
            else:  # records were removed
                self._states, self._committed = parse_states(values), {}
            self._values = values
            self._committed = {
                place: state
                for place, state in self._committed.items()
                if place not in self._states or self._states[place].source_next < state.source_next
            }
            states = {**self._states, **self._committed}
            return StateSnapshot(values, states, tuple(log.resume_offset for log in topic.logs))

    def add_committed(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Add states that tasks have committed to the next snapshots, until they can be read.

        A coordinator confirms a commit before it writes the markers, and a reader waits for these.
        """
        with self._lock:
            self._committed |= states

    def __enter__(self) -> StateReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._cluster.close()


def _is_relevant_key(key: bytes) -> bool:
    return is_topic_record(key) or key in (ORDER_KEY, LEAVE_KEY)
