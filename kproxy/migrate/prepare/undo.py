"""`kproxy migrate undo`: takes back what `prepare` did, by its journal, the last thing first.

What somebody has changed since stays as it is. A topic that has records which kproxy did not copy stays too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_inventory
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.statetopic import parse_copied_partitions
from kproxy.migrate.format import format_count
from kproxy.migrate.journal.driver import JOB_KEY, LOOK_TIMEOUT
from kproxy.migrate.offsets.unknown_records import count_unknown_records
from kproxy.migrate.plan.changes import (
    AddPartitions,
    AlterTopic,
    Change,
    CreateAcl,
    CreateState,
    CreateTopic,
    SetQuota,
    describe_entity,
)
from kproxy.migrate.prepare.change_journal import ChangeJournal, JournaledChange, RaiseProducerIds, read_changes
from kproxy.migrate.prepare.cluster_pair import ClusterPair, Say
from kproxy.migrate.prepare.target_admin import BATCH_SIZE, ChangeErrors, TargetAdmin

_POLL_INTERVAL = 0.5


@dataclass(slots=True)
class UndoResult:
    """`kept`: what was not taken back, and why. `failed`: what the target refused."""

    undone: int = 0
    remaining: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Undo:
    """One run. `force` deletes topics with any records."""

    def __init__(self, sides: ClusterPair, say: Say, *, force: bool, dry_run: bool) -> None:
        self._clusters, self._say, self._force, self._dry_run = sides, say, force, dry_run
        self._result = UndoResult()

    def run(self) -> UndoResult:
        """Raises ConfigError if there is nothing to undo or records are copied just now, UpstreamError and
        WireError."""
        migration = self._clusters.migration
        topic = migration.state_topic
        cluster = ClusterClient(self._clusters.endpoints.target)
        error, _ = cluster.refresh_metadata([topic]).topics.get(topic, (3, ()))
        cluster.close()
        if error:
            raise ConfigError(f"the target has no topic {topic}: nothing was prepared, or it was undone")
        with ChangeJournal(self._clusters.endpoints.target, migration.name, topic) as journal:
            values = journal.read()
            self._check_no_active_copy(journal, values)
            found = read_changes(values)
            if not any(isinstance(entry.change, CreateState) for entry in found):
                found.append(
                    JournaledChange(-1, CreateState(topic))
                )  # prepare was ended before it could write that down
            names = {name for entry in found if (name := getattr(entry.change, "topic", None)) is not None}
            there = read_inventory(self._clusters.target, lambda name: name in names)
            doing = self._clusters.target_admin(there)
            kept: set[str] = set()
            if not self._force:
                kept = self._find_foreign_topics(values, found, there)
            left = [entry for entry in found if not _creates_any(entry, kept)]
            for some in _batches(left):
                self._undo_batch(journal, doing, some, there)
        return self._result

    def _check_no_active_copy(self, journal: ChangeJournal, values: dict[bytes, bytes]) -> None:
        """Raises ConfigError if a driver writes its record while this looks."""
        before = _driver_record(values)
        until = time.monotonic() + LOOK_TIMEOUT
        while before and not before.get("ended") and time.monotonic() < until:
            now = _driver_record(journal.read())
            if now.get("beat") != before.get("beat") and not now.get("ended"):
                raise ConfigError(
                    f"{self._clusters.migration.name} is being copied, by process {now.get('pid')} on"
                    f" {now.get('host')}: end it first"
                )
            time.sleep(_POLL_INTERVAL)

    def _find_foreign_topics(
        self, values: dict[bytes, bytes], found: Sequence[JournaledChange], there: Inventory
    ) -> set[str]:
        """Topics that have records of somebody else."""
        created = {entry.change.topic for entry in found if isinstance(entry.change, CreateTopic)}
        states = parse_copied_partitions(values)
        kept = set()
        for topic in sorted({one.target_topic for one in states.values() if one.records} - created):
            self._add_remaining(f"topic {topic} was there before, and has records that kproxy copied: they stay")
        for topic in sorted(created & there.topics.keys()):
            ours = {one.partition: one for one in states.values() if one.target_topic == topic}
            count = count_unknown_records(self._clusters.endpoints.target, there.topics[topic], ours)
            if count:
                kept.add(topic)
                self._add_remaining(
                    f"topic {topic} has {format_count(count, 'record')} or more that kproxy did not copy: --force"
                    " deletes it"
                )
        return kept

    def _add_remaining(self, why: str) -> None:
        self._result.remaining.append(why)

    def _undo_batch(
        self, journal: ChangeJournal, doing: TargetAdmin, some: Sequence[JournaledChange], there: Inventory
    ) -> None:
        """Entries of one kind. They leave the journal when they are taken back, or nothing is left to take back."""
        todo: list[tuple[JournaledChange, Change]] = []
        over: list[int] = []
        again: dict[int, str] = {}  # entries of topics that were created more than once, by number
        created: set[str] = set()
        for entry in some:
            change = self._undoable(entry.change, there)
            if change is None:
                over.append(entry.number)
            elif isinstance(change, CreateTopic) and change.topic in created:
                again[entry.number] = change.topic
            else:
                todo.append((entry, change))
                if isinstance(change, CreateTopic):
                    created.add(change.topic)
        whole = isinstance(some[0].change, CreateState)
        if whole and (self._result.remaining or self._result.failed):
            self._add_remaining(f"topic {self._clusters.migration.state_topic}: it has the journal of what is left")
            return
        answers = [""] * len(todo) if self._dry_run else _undo_changes(doing, [change for _, change in todo])
        for (_, change), answer in zip(todo, answers, strict=True):
            text = _describe_undo(change)
            if answer:
                self._result.failed.append(f"could not {text}: {answer}")
            else:
                self._result.undone += 1
                self._say(f"{'would' if self._dry_run else 'did'}: {text}")
        done = [entry.number for (entry, _), answer in zip(todo, answers, strict=True) if not answer]
        failed = {getattr(change, "topic", None) for (_, change), answer in zip(todo, answers, strict=True) if answer}
        done += [number for number, topic in again.items() if topic not in failed]
        if not self._dry_run and not whole:
            journal.remove(sorted([*over, *done]))

    def _undoable(self, change: Change | RaiseProducerIds, there: Inventory) -> Change | None:
        """What of it can be taken back now."""
        match change:
            case CreateTopic(topic=topic):
                return change if topic in there.topics else None
            case AlterTopic(topic=topic):
                return self._undoable_configs(change, there) if topic in there.topics and change.after else None
            case AddPartitions():
                if change.topic in there.topics:
                    self._say(f"stays: topic {change.topic} has {change.after} partitions: Kafka cannot take them back")
                return None
            case CreateAcl(acl):
                return change if there.acls is None or acl in there.acls else None
            case SetQuota(entity, _, after):
                have = (there.quotas or {}).get(entity, {})
                mine = {key: value for key, value in after.items() if have.get(key) == value}
                for key in after.keys() - mine.keys():
                    self._say(f"stays: quota of {describe_entity(entity)}: somebody has changed {key}")
                return replace(change, after=mine) if mine else None
            case RaiseProducerIds():
                self._say(f"stays: producer ids are {change.floor} and higher: they never go down, and harm nobody")
                return None
            case CreateState():
                return change

    def _undoable_configs(self, change: AlterTopic, there: Inventory) -> AlterTopic | None:
        have = there.topics[change.topic].configs
        mine = {key: value for key, value in change.after.items() if have.get(key) == value}
        for key in change.after.keys() - mine.keys():
            self._say(f"stays: topic {change.topic}: somebody has changed {key}")
        return replace(change, after=mine) if mine else None


def _undo_changes(doing: TargetAdmin, changes: Sequence[Change]) -> ChangeErrors:
    if not changes:
        return []
    match changes[0]:
        case CreateTopic() | CreateState():
            return doing.delete_topics([one.topic for one in changes if isinstance(one, CreateTopic | CreateState)])
        case AlterTopic():
            # One after the other: the journal may have several of one topic.
            return [
                doing.alter_configs({one.topic: {key: one.before.get(key) for key in one.after}})[0]
                for one in changes
                if isinstance(one, AlterTopic)
            ]
        case CreateAcl():
            return doing.delete_acls([one.acl for one in changes if isinstance(one, CreateAcl)])
        case SetQuota():
            quotas = [one for one in changes if isinstance(one, SetQuota)]
            return doing.set_quotas({one.entity: {key: one.before.get(key) for key in one.after} for one in quotas})
        case AddPartitions():
            return ["" for _ in changes]


def _describe_undo(change: Change) -> str:
    match change:
        case CreateTopic() | CreateState():
            return f"delete topic {change.topic}"
        case AlterTopic():
            values = {key: change.before.get(key) for key in change.after}
            shown = ", ".join(f"{key}={'(default)' if value is None else value}" for key, value in values.items())
            return f"alter topic {change.topic}: {shown}"
        case CreateAcl():
            return f"delete ACL: {change.acl}"
        case SetQuota():
            return f"set quota of {describe_entity(change.entity)} as before: {', '.join(change.after)}"
        case AddPartitions():
            return str(change)


def _creates_any(entry: JournaledChange, topics: set[str]) -> bool:
    return isinstance(entry.change, CreateTopic) and entry.change.topic in topics


def _driver_record(values: Mapping[bytes, bytes]) -> dict[str, Any]:
    try:
        said = json.loads(values.get(JOB_KEY, b"{}"))
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {}


def _batches(found: Sequence[JournaledChange]) -> Iterator[list[JournaledChange]]:
    """The last first, those of one kind together. The state topic is the very last."""
    found = sorted(found, key=lambda entry: (isinstance(entry.change, CreateState), -entry.number))
    some: list[JournaledChange] = []
    for entry in found:
        if some and (entry.change.kind != some[0].change.kind or len(some) == BATCH_SIZE):
            yield some
            some = []
        some.append(entry)
    if some:
        yield some
