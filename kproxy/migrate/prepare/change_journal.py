"""What `prepare` does, written down in the state topic before it is done, so that `undo` takes back exactly that."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.inventory import Acl
from kproxy.migrate.clusters.topic_identities import MigratedTopic, topic_key
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.slices import Job
from kproxy.migrate.copier.state import PartitionState, parse_key, state_key
from kproxy.migrate.copier.statetopic import StateTopic
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
_PARTITION = b'["partition",'
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class JournaledChange:
    """One thing that was done, or was about to be done. `number` counts up."""

    number: int
    change: Change | RaiseProducerIds


@dataclass(frozen=True, slots=True)
class RaiseProducerIds:
    """The target hands out ids from `floor` on. That cannot be taken back, and harms nobody."""

    floor: int
    kind = "producer-ids"

    def __str__(self) -> str:
        return f"raise producer ids to {self.floor}"


def to_record(change: Change | RaiseProducerIds) -> dict[str, Any]:
    """The value of a record."""
    match change:
        case CreateState(topic, replication):
            said: dict[str, Any] = {"topic": topic, "replication": replication}
        case CreateTopic(topic, partitions, replication, configs, wanted):
            said = {
                "topic": topic,
                "partitions": partitions,
                "replication": replication,
                "configs": dict(configs),
                "wanted": dict(wanted),
            }
        case AddPartitions(topic, before, after):
            said = {"topic": topic, "before": before, "after": after}
        case AlterTopic(topic, was, now, wanted):
            said = {"topic": topic, "before": dict(was), "after": dict(now), "wanted": dict(wanted)}
        case CreateAcl(acl):
            said = {
                "acl": [acl.resource, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission]
            }
        case SetQuota(entity, old, new):
            said = {"entity": [list(part) for part in entity], "before": dict(old), "after": dict(new)}
        case RaiseProducerIds(floor):
            said = {"floor": floor}
    return {"v": 1, "kind": change.kind, "at": time.time_ns() // 1_000_000, **said}


def from_record(said: Mapping[str, Any]) -> Change | RaiseProducerIds:
    """What `to_record` made. Raises WireError for anything else."""
    try:
        if said["v"] != 1:
            raise WireError("malformed", "the journal was written by a newer kproxy: update this one")
        match said["kind"]:
            case "state":
                return CreateState(said["topic"], said["replication"])
            case "topic":
                return CreateTopic(
                    said["topic"], said["partitions"], said["replication"], said["configs"], said["wanted"]
                )
            case "partitions":
                return AddPartitions(said["topic"], said["before"], said["after"])
            case "configs":
                return AlterTopic(said["topic"], said["before"], said["after"], said["wanted"])
            case "acl":
                return CreateAcl(Acl(*said["acl"]))
            case "quota":
                entity = tuple((kind, name) for kind, name in said["entity"])
                return SetQuota(entity, said["before"], said["after"])
            case "producer-ids":
                return RaiseProducerIds(said["floor"])
    except (KeyError, TypeError, ValueError):
        pass
    raise WireError("malformed", "the state topic has a journal that kproxy did not write")


def read_changes(values: Mapping[bytes, bytes]) -> list[JournaledChange]:
    """Of a state topic's records, in order. Raises WireError."""
    found = []
    for name, value in values.items():
        if name.startswith(_PREFIX):
            try:
                found.append(JournaledChange(int(parse_key(name)[1]), from_record(json.loads(value))))
            except (IndexError, TypeError, ValueError):
                raise WireError("malformed", "the state topic has a journal that kproxy did not write") from None
    return sorted(found, key=lambda entry: entry.number)


def history_of(values: Mapping[bytes, bytes]) -> MigrationHistory:
    """What `changes` has to know of it. Raises WireError."""
    wanted: dict[str, Mapping[str, str | None]] = {}
    created: set[str] = set()
    for entry in read_changes(values):
        match entry.change:
            case CreateTopic(topic=topic):
                created.add(topic)
                wanted[topic] = entry.change.final_configs
            case AlterTopic(topic=topic):
                wanted[topic] = entry.change.final_configs
            case _:
                pass
    copied = {
        PartitionState.from_json(value).target_topic for name, value in values.items() if name.startswith(_PARTITION)
    }
    return MigrationHistory(wanted, frozenset(copied), frozenset(created), has_state_topic=True)


class ChangeJournal:
    """Of one migration, for as long as its state topic is there. A second `prepare` at the same time is fenced, or
    fences this one."""

    def __init__(self, target: str, name: str, topic: str) -> None:
        self._cluster = ClusterClient(target)
        self._name, self._topic = name, topic
        self._writer: tuple[Job, TransactionalProducer] | None = None
        self._next = 0

    def __enter__(self) -> ChangeJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.close()

    def read(self) -> dict[bytes, bytes]:
        """All records of the state topic, by key. Raises UpstreamError and WireError."""
        topic = self._with_retries(self._read_topic)
        self._next = max((entry.number + 1 for entry in read_changes(topic.values)), default=0)
        return topic.values

    def append(self, changes: Iterable[Change | RaiseProducerIds]) -> list[int]:
        """Write them down, in one transaction. Returns their numbers. Raises UpstreamError and WireError."""
        numbered = {self._next + count: change for count, change in enumerate(changes)}
        self._write({state_key("journal", number): to_record(change) for number, change in numbered.items()})
        self._next += len(numbered)
        return list(numbered)

    def record_topics(self, topics: Mapping[str, MigratedTopic]) -> None:
        """Write down which topics these are, by topic of the source. Raises UpstreamError and WireError."""
        if topics:
            self._write({topic_key(topic): one.to_record() for topic, one in topics.items()})

    def remove(self, numbers: Sequence[int]) -> None:
        """As they were not done, or have been taken back."""
        if numbers:
            self._write({state_key("journal", number): None for number in numbers})

    def _read_topic(self) -> StateTopic:
        topic = StateTopic(self._cluster, self._topic)
        topic.read()
        return topic

    def _write(self, records: Mapping[bytes, Mapping[str, Any] | None]) -> None:
        job, producer = self._writer or self._with_retries(self._start)
        self._writer = job, producer
        write_records(job, producer, records)

    def _start(self) -> tuple[Job, TransactionalProducer]:
        job = Job(self._name, self._topic, self._cluster.partition_count(self._topic))
        producer = TransactionalProducer(self._cluster, f"kproxy-migration-{self._name}/prepare")
        producer.start(time.monotonic() + _PATIENCE)
        return job, producer

    def _with_retries(self, ask: Callable[[], T]) -> T:
        """A topic that was created just now is not led yet, a coordinator that was never asked loads. Raises
        UpstreamError and WireError."""
        return retry(self._cluster, ask, _PATIENCE)
