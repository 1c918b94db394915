"""The changes of `prepare`, recorded in the state topic before they are applied, so that `undo` reverts just them."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, TypeVar

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.inventory import Acl
from kproxy.migrate.clusters.topic_identities import MigratedTopic, topic_key, topic_of_copy
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.state import Job, parse_key, state_key, state_topic_name
from kproxy.migrate.copier.statetopic import StateTopic, parse_states
from kproxy.migrate.journal.driver import write_records
from kproxy.migrate.plan.changes import (
    AddPartitions,
    AlterTopic,
    Change,
    CreateAcl,
    CreateState,
    CreateTopic,
    MigrationHistory,
    SetQuota,
)

T = TypeVar("T")

_PREFIX = b'["journal",'
_PATIENCE = 60.0
# Records in one transaction, of those that `forget_copies` removes.
_MAX_REMOVED = 5000


@dataclass(frozen=True, slots=True)
class JournaledChange:
    """A change that was applied, or was about to be; `number` counts up."""

    number: int
    change: Change | RaiseProducerIds
    at: int = field(default=0, compare=False)
    """The time of the record, in milliseconds since 1970; 0 if it is unknown."""


@dataclass(frozen=True, slots=True)
class RaiseProducerIds:
    """The target assigns producer ids from `floor` on. This cannot be undone, and needs no undoing."""

    floor: int
    kind = "producer-ids"

    def __str__(self) -> str:
        return f"raise producer ids to {self.floor}"


_KINDS: Mapping[str, type[Change] | type[RaiseProducerIds]] = {
    kind.kind: kind
    for kind in (CreateState, CreateTopic, AddPartitions, AlterTopic, CreateAcl, SetQuota, RaiseProducerIds)
}
# The names of fields in records, where they are others.
_NAMES_IN_RECORDS = {"final_configs": "wanted"}


def to_record(change: Change | RaiseProducerIds) -> dict[str, Any]:
    """Return the value of the record of a change."""
    values = {_NAMES_IN_RECORDS.get(each.name, each.name): getattr(change, each.name) for each in fields(change)}
    if isinstance(change, CreateAcl):
        values["acl"] = list(astuple(change.acl))
    return {"v": 1, "kind": change.kind, "at": time.time_ns() // 1_000_000, **values}


def from_record(record: Mapping[str, Any]) -> Change | RaiseProducerIds:
    """Return the change of a record. Raises WireError if the record is not of `to_record`."""
    try:
        if record["v"] != 1:
            raise WireError("malformed", "the journal was written by a newer kproxy: update this one")
        kind = _KINDS[record["kind"]]
        values = {each.name: record[_NAMES_IN_RECORDS.get(each.name, each.name)] for each in fields(kind)}
        if kind is CreateAcl:
            values["acl"] = Acl(*values["acl"])
        if kind is SetQuota:
            values["entity"] = tuple((entity, name) for entity, name in values["entity"])
        return kind(**values)
    except (KeyError, TypeError, ValueError):
        raise WireError("malformed", "the state topic has a journal that kproxy did not write") from None


def read_changes(values: Mapping[bytes, bytes]) -> list[JournaledChange]:
    """Return the changes among the records of the state topic, in order."""
    changes = []
    for name, value in values.items():
        if name.startswith(_PREFIX):
            try:
                record = json.loads(value)
                change = from_record(record)
                changes.append(JournaledChange(int(parse_key(name)[1]), change, int(record.get("at", 0))))
            except (IndexError, TypeError, ValueError):
                raise WireError("malformed", "the state topic has a journal that kproxy did not write") from None
    return sorted(changes, key=lambda entry: entry.number)


def history_of(values: Mapping[bytes, bytes]) -> MigrationHistory:
    """Return the history that planning needs, from the records of the state topic."""
    final_configs: dict[str, Mapping[str, str | None]] = {}
    created: set[str] = set()
    for entry in read_changes(values):
        match entry.change:
            case CreateTopic(topic=topic):
                created.add(topic)
                final_configs[topic] = entry.change.final_configs
            case AlterTopic(topic=topic):
                final_configs[topic] = entry.change.final_configs
            case _:
                pass
    copied = {state.target_topic for state in parse_states(values).values()}
    return MigrationHistory(final_configs, frozenset(copied), frozenset(created), has_state_topic=True)


class ChangeJournal:
    """The journal of one migration, while its state topic exists.

    A second `prepare` at the same time is fenced, or fences this one.
    """

    def __init__(self, target: str, name: str) -> None:
        self._cluster = ClusterClient(target)
        self._name, self._topic = name, state_topic_name(name)
        self._writer: tuple[Job, TransactionalProducer] | None = None
        self._next = 0

    def __enter__(self) -> ChangeJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def read(self) -> dict[bytes, bytes]:
        """Return all records of the state topic, by key."""
        topic = self._with_retries(self._read_topic)
        self._next = max((entry.number + 1 for entry in read_changes(topic.values)), default=0)
        return topic.values

    def append(self, changes: Iterable[Change | RaiseProducerIds]) -> list[int]:
        """Record changes in one transaction, and return their numbers."""
        numbered = {self._next + count: change for count, change in enumerate(changes)}
        self._write({state_key("journal", number): to_record(change) for number, change in numbered.items()})
        self._next += len(numbered)
        return list(numbered)

    def record_topics(self, topics: Mapping[str, MigratedTopic]) -> None:
        """Record the identities of topics, by source topic."""
        if topics:
            self._write({topic_key(topic): topic_record.to_record() for topic, topic_record in topics.items()})

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove changes that were not applied, or were undone."""
        if numbers:
            self._write({state_key("journal", number): None for number in numbers})

    def forget_copies(self, topics: Collection[str], values: Mapping[bytes, bytes]) -> None:
        """Remove the records about copies of source topics: identities, positions, offset maps and verified ranges.

        `values` are those of `read`. The records of a partition go together, and identities last: after a failure, what
        is left is complete, and a second call removes it.
        """
        partitions: defaultdict[tuple[str, ...], list[bytes]] = defaultdict(list)
        for key in values:
            if topic_of_copy(key) in topics:
                partitions[tuple(map(str, parse_key(key)[1:3]))].append(key)
        keys: list[bytes] = []
        for _, own in sorted(partitions.items(), key=lambda entry: -len(entry[0])):
            if keys and len(keys) + len(own) > _MAX_REMOVED:
                self._write(dict.fromkeys(keys))
                keys = []
            keys += own
        if keys:
            self._write(dict.fromkeys(keys))

    def _read_topic(self) -> StateTopic:
        topic = StateTopic(self._cluster, self._topic)
        topic.read()
        return topic

    def _write(self, records: Mapping[bytes, Mapping[str, Any] | None]) -> None:
        job, producer = self._writer or self._with_retries(self._start)
        self._writer = job, producer
        write_records(job, producer, records)

    def _start(self) -> tuple[Job, TransactionalProducer]:
        job = Job(self._name, self._cluster.partition_count(self._topic))
        producer = TransactionalProducer(self._cluster, f"kproxy-migration-{self._name}/prepare")
        producer.init_transactions(time.monotonic() + _PATIENCE)
        return job, producer

    def _with_retries(self, ask: Callable[[], T]) -> T:
        """Call `ask`, and retry while a new topic has no leader yet or a coordinator loads."""
        return retry(self._cluster, ask, _PATIENCE)
