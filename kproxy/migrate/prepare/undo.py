"""`kproxy migrate undo`: reverts the changes of `prepare` by its journal, the last one first.

Values that were changed since stay as they are. A topic with records that kproxy did not copy stays too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kproxy.base.errors import ConfigError
from kproxy.base.format import format_count
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_inventory
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.statetopic import parse_copied_partitions
from kproxy.migrate.format import LogWriter, describe_action
from kproxy.migrate.journal.driver import JOB_KEY, LOOK_TIMEOUT, parse_driver_record, watch_driver
from kproxy.migrate.offsets.log_ranges import count_unknown_records
from kproxy.migrate.plan.changes import (
    AddPartitions,
    AlterTopic,
    Change,
    CreateAcl,
    CreateState,
    CreateTopic,
    SetQuota,
)
from kproxy.migrate.plan.principals import describe_entity
from kproxy.migrate.prepare.change_journal import ChangeJournal, JournaledChange, RaiseProducerIds, read_changes
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.target_admin import BATCH_SIZE, ChangeErrors, TargetAdmin


@dataclass(slots=True)
class UndoResult:
    """The result of `undo`."""

    undone: int = 0
    remaining: list[str] = field(default_factory=list)
    """The changes that were not undone, each with the reason."""
    failed: list[str] = field(default_factory=list)
    """The error texts of changes that the target refused."""


class Undo:
    """One run of `undo`; with `force`, it deletes topics with any records."""

    def __init__(self, clusters: ClusterPair, log: LogWriter, *, force: bool, dry_run: bool) -> None:
        self._clusters, self._log, self._force, self._dry_run = clusters, log, force, dry_run
        self._result = UndoResult()

    def run(self) -> UndoResult:
        """Undo the changes. Raises ConfigError if nothing is left to undo or a copy is running."""
        migration = self._clusters.migration
        topic = migration.state_topic
        cluster = ClusterClient(self._clusters.endpoints.target)
        error = cluster.refresh_metadata([topic]).topic_error(topic)
        cluster.close()
        if error:
            raise ConfigError(f"the target has no topic {topic}: nothing was prepared, or it was undone")
        with ChangeJournal(self._clusters.endpoints.target, migration.name) as journal:
            values = journal.read()
            self._check_no_active_copy(journal)
            journaled = read_changes(values)
            if not any(isinstance(entry.change, CreateState) for entry in journaled):
                # prepare was ended before it could write that down.
                journaled.append(JournaledChange(-1, CreateState(topic)))
            names = {name for entry in journaled if (name := getattr(entry.change, "topic", None)) is not None}
            inventory = read_inventory(self._clusters.target, lambda name: name in names)
            admin = self._clusters.target_admin(inventory)
            kept_topics: set[str] = set()
            if not self._force:
                kept_topics = self._find_foreign_topics(values, journaled, inventory)
            undoable = [entry for entry in journaled if not _creates_any(entry, kept_topics)]
            for batch in _batches(undoable):
                self._undo_batch(journal, admin, batch, inventory)
        return self._result

    def _check_no_active_copy(self, journal: ChangeJournal) -> None:
        """Raise ConfigError if a driver updates its record within some seconds."""
        if record := watch_driver(lambda: parse_driver_record(journal.read().get(JOB_KEY)), LOOK_TIMEOUT):
            raise ConfigError(
                f"{self._clusters.migration.name} is being copied, by process {record.get('pid')} on"
                f" {record.get('host')}: stop it first"
            )

    def _find_foreign_topics(
        self, values: dict[bytes, bytes], journaled: Sequence[JournaledChange], inventory: Inventory
    ) -> set[str]:
        """Return created topics that have records which kproxy did not copy."""
        created = {entry.change.topic for entry in journaled if isinstance(entry.change, CreateTopic)}
        states = parse_copied_partitions(values)
        kept_topics = set()
        copied = {partition.target_topic for partition in states.values() if partition.records}
        for topic in sorted(copied - created):
            self._add_remaining(f"topic {topic} existed before, and has records that kproxy copied: they stay")
        for topic in sorted(created & inventory.topics.keys()):
            partitions = {state.partition: state for state in states.values() if state.target_topic == topic}
            count = count_unknown_records(self._clusters.endpoints.target, inventory.topics[topic], partitions)
            if count:
                kept_topics.add(topic)
                self._add_remaining(
                    f"topic {topic} has at least {format_count(count, 'record')} that kproxy did not copy: --force"
                    " deletes it"
                )
        return kept_topics

    def _add_remaining(self, why: str) -> None:
        self._result.remaining.append(why)

    def _undo_batch(
        self, journal: ChangeJournal, admin: TargetAdmin, batch: Sequence[JournaledChange], inventory: Inventory
    ) -> None:
        """Undo changes of one kind, and remove from the journal those that are undone or obsolete."""
        undoable: list[tuple[JournaledChange, Change]] = []
        obsolete: list[int] = []
        recreated: dict[int, str] = {}  # entries of topics that were created more than once, by number
        created: set[str] = set()
        for entry in batch:
            change = self._undoable(entry.change, inventory)
            if change is None:
                obsolete.append(entry.number)
            elif isinstance(change, CreateTopic) and change.topic in created:
                recreated[entry.number] = change.topic
            else:
                undoable.append((entry, change))
                if isinstance(change, CreateTopic):
                    created.add(change.topic)
        is_state_topic = isinstance(batch[0].change, CreateState)
        if is_state_topic and (self._result.remaining or self._result.failed):
            self._add_remaining(
                f"topic {self._clusters.migration.state_topic}: it contains the journal of the remaining changes"
            )
            return
        answers = [""] * len(undoable) if self._dry_run else _undo_changes(admin, [change for _, change in undoable])
        for (_, change), answer in zip(undoable, answers, strict=True):
            text = _describe_undo(change)
            if answer:
                self._result.failed.append(f"could not {text}: {answer}")
            else:
                self._result.undone += 1
                self._log(describe_action(text, dry_run=self._dry_run))
        undone = [entry.number for (entry, _), answer in zip(undoable, answers, strict=True) if not answer]
        failed = {
            getattr(change, "topic", None) for (_, change), answer in zip(undoable, answers, strict=True) if answer
        }
        undone += [number for number, topic in recreated.items() if topic not in failed]
        if not self._dry_run and not is_state_topic:
            journal.remove(sorted([*obsolete, *undone]))

    def _undoable(self, change: Change | RaiseProducerIds, inventory: Inventory) -> Change | None:
        """Return the part of a change that can be undone now."""
        match change:
            case CreateTopic(topic=topic):
                return change if topic in inventory.topics else None
            case AlterTopic(topic=topic):
                return self._undoable_configs(change, inventory) if topic in inventory.topics and change.after else None
            case AddPartitions():
                if change.topic in inventory.topics:
                    self._log(
                        f"stays: topic {change.topic} keeps {change.after} partitions: Kafka cannot remove partitions"
                    )
                return None
            case CreateAcl(acl):
                return change if inventory.acls is None or acl in inventory.acls else None
            case SetQuota(entity, _, after):
                current = (inventory.quotas or {}).get(entity, {})
                unchanged = {key: value for key, value in after.items() if current.get(key) == value}
                for key in after.keys() - unchanged.keys():
                    self._log(f"stays: quota of {describe_entity(entity)}: {key} was changed since")
                return replace(change, after=unchanged) if unchanged else None
            case RaiseProducerIds():
                self._log(f"stays: producer ids of {change.floor} and higher: they cannot be lowered, and do no harm")
                return None
            case CreateState():
                return change

    def _undoable_configs(self, change: AlterTopic, inventory: Inventory) -> AlterTopic | None:
        current = inventory.topics[change.topic].configs
        unchanged = {key: value for key, value in change.after.items() if current.get(key) == value}
        for key in change.after.keys() - unchanged.keys():
            self._log(f"stays: topic {change.topic}: {key} was changed since")
        return replace(change, after=unchanged) if unchanged else None


def _undo_changes(admin: TargetAdmin, changes: Sequence[Change]) -> ChangeErrors:
    if not changes:
        return []
    match changes[0]:
        case CreateTopic() | CreateState():
            return admin.delete_topics(
                [change.topic for change in changes if isinstance(change, CreateTopic | CreateState)]
            )
        case AlterTopic():
            # One after the other: the journal may have several of one topic.
            return [
                admin.alter_configs({change.topic: {key: change.before.get(key) for key in change.after}})[0]
                for change in changes
                if isinstance(change, AlterTopic)
            ]
        case CreateAcl():
            return admin.delete_acls([change.acl for change in changes if isinstance(change, CreateAcl)])
        case SetQuota():
            quotas = [change for change in changes if isinstance(change, SetQuota)]
            return admin.set_quotas(
                {quota.entity: {key: quota.before.get(key) for key in quota.after} for quota in quotas}
            )
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
            return f"restore quota of {describe_entity(change.entity)}: {', '.join(change.after)}"
        case AddPartitions():
            return str(change)


def _creates_any(entry: JournaledChange, topics: set[str]) -> bool:
    return isinstance(entry.change, CreateTopic) and entry.change.topic in topics


def _batches(journaled: Sequence[JournaledChange]) -> Iterator[list[JournaledChange]]:
    """Yield changes of one kind together, the last one first; the state topic is the very last."""
    journaled = sorted(journaled, key=lambda entry: (isinstance(entry.change, CreateState), -entry.number))
    batch: list[JournaledChange] = []
    for entry in journaled:
        if batch and (entry.change.kind != batch[0].change.kind or len(batch) == BATCH_SIZE):
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch
