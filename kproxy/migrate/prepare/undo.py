"""`kproxy migrate undo`: reverts the changes of `prepare` by its journal, the last one first.

Values that were changed since stay as they are. A topic with records that kproxy did not copy stays too. If only some
topics are undone, the records of the state topic about their copy are removed too: they can be copied again.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from kproxy.base.errors import ConfigError
from kproxy.base.format import abbreviate, format_count
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_inventory
from kproxy.migrate.clusters.topic_identities import MigratedTopic, migrated_topics
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.statetopic import find_job, parse_copied_partitions, parse_states
from kproxy.migrate.format import LogWriter, describe_action
from kproxy.migrate.journal.driver import JOB_KEY, LOOK_TIMEOUT, parse_driver_record, watch_driver
from kproxy.migrate.journal.switch_journal import SWITCH_KEY, SwitchEntry, require_ended
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

# While a leader or coordinator moves, in seconds.
_PATIENCE = 60.0


@dataclass(slots=True)
class UndoResult:
    """The result of `undo`."""

    undone: int = 0
    remaining: list[str] = field(default_factory=list)
    """The changes that were not undone, each with the reason."""
    failed: list[str] = field(default_factory=list)
    """The error texts of changes that the target refused."""


class Undo:
    """One run of `undo`.

    With `topics`, names of the source, it reverts only what was done for these, and removes what the state topic says
    of their copy. With `force`, it also deletes topics with any records, and topics that clients use.
    """

    def __init__(
        self, clusters: ClusterPair, log: LogWriter, *, topics: Collection[str] = (), force: bool, dry_run: bool
    ) -> None:
        self._clusters, self._log, self._force, self._dry_run = clusters, log, force, dry_run
        self._topics = topics
        self._result = UndoResult()
        self._failed_topics: set[str] = set()

    def run(self) -> UndoResult:
        """Undo the changes.

        Raises ConfigError if nothing is left to undo, a topic is not of this migration, a copy is running, or clients
        use the topics on the target.
        """
        migration = self._clusters.migration
        topic = migration.state_topic
        cluster = ClusterClient(self._clusters.endpoints.target)
        error = cluster.refresh_metadata([topic]).topic_error(topic)
        cluster.close()
        if error:
            raise ConfigError(f"the target has no topic {topic}: nothing was prepared, or it was undone")
        with ChangeJournal(self._clusters.endpoints.target, migration.name) as journal:
            values = journal.read()
            selected = self._select(migrated_topics(values))
            self._check_no_active_copy(journal)
            self._check_not_used(SwitchEntry.read(values.get(SWITCH_KEY)), selected)
            if not self._dry_run:
                self._fence_copiers(values, selected)
            journaled = self._journaled(values, selected)
            names = {name for entry in journaled if (name := getattr(entry.change, "topic", None)) is not None}
            names |= {migrated.target_topic for migrated in selected.values()}
            inventory = read_inventory(self._clusters.target, lambda name: name in names)
            admin = self._clusters.target_admin(inventory)
            kept_topics = self._find_kept_topics(values, journaled, inventory, selected)
            undoable = [entry for entry in journaled if not self._is_kept(entry, kept_topics)]
            for batch in _batches(undoable):
                self._undo_batch(journal, admin, batch, inventory)
            if self._topics:
                self._forget_copies(journal, values, selected, kept_topics)
        return self._result

    def _select(self, migrated: Mapping[str, MigratedTopic]) -> Mapping[str, MigratedTopic]:
        """Return the topics to undo, by source topic. Raises ConfigError if one is not of this migration."""
        if not self._topics:
            return migrated
        if unknown := sorted(set(self._topics) - migrated.keys()):
            nearest = difflib.get_close_matches(unknown[0], migrated, cutoff=0.3)
            advice = f"; nearest: {', '.join(nearest)}" if nearest else ""
            raise ConfigError(
                f"--topic {unknown[0]}: no topic of {self._clusters.migration.name} has this name on the source{advice}"
            )
        return {topic: migrated[topic] for topic in self._topics}

    def _check_not_used(self, last: SwitchEntry | None, selected: Mapping[str, MigratedTopic]) -> None:
        """Raise ConfigError if a switch has moved clients of the topics to the target, or has not ended."""
        if last is None or self._force:
            return
        require_ended(last)
        moved = last.moved_topics
        used = sorted(topic for topic in selected if any(fnmatchcase(topic, glob) for glob in moved))
        if last.is_moved or used or any(not part.topics for part in last.parts_on_target):
            whose = f" of {abbreviate(used)}" if used and not last.is_moved else ""
            raise ConfigError(
                f"clients{whose} are on {last.target_upstream} now, and use the topics there: run kproxy migrate"
                " rollback first; --force deletes the topics all the same"
            )

    def _fence_copiers(self, values: Mapping[bytes, bytes], selected: Mapping[str, MigratedTopic]) -> None:
        """Fence tasks of an earlier copy that may still live, so that none of them writes what was copied again."""
        with ClusterClient(self._clusters.endpoints.target) as cluster:
            job = find_job(cluster, self._clusters.migration.name, _PATIENCE)
            ids = {
                id
                for (topic, partition), state in parse_states(values).items()
                if topic in selected
                for id in state.writers(job, topic, partition)
            }
            for id in sorted(ids):
                producer, until = TransactionalProducer(cluster, id), time.monotonic() + _PATIENCE
                retry(cluster, lambda: producer.init_transactions(until), _PATIENCE)  # noqa: B023

    def _journaled(self, values: Mapping[bytes, bytes], selected: Mapping[str, MigratedTopic]) -> list[JournaledChange]:
        """Return the changes to undo, in the order of the journal."""
        journaled = read_changes(dict(values))
        if self._topics:
            targets = {migrated.target_topic for migrated in selected.values()}
            return [entry for entry in journaled if getattr(entry.change, "topic", None) in targets]
        if not any(isinstance(entry.change, CreateState) for entry in journaled):
            # prepare was ended before it could write that down.
            journaled.append(JournaledChange(-1, CreateState(self._clusters.migration.state_topic)))
        return journaled

    def _is_kept(self, entry: JournaledChange, kept_topics: Collection[str]) -> bool:
        """Return True if a change stays because its topic does.

        For some topics alone, all changes of such a topic stay, because it can still be copied further.
        """
        change = entry.change
        return getattr(change, "topic", None) in kept_topics and (bool(self._topics) or isinstance(change, CreateTopic))

    def _forget_copies(
        self,
        journal: ChangeJournal,
        values: Mapping[bytes, bytes],
        selected: Mapping[str, MigratedTopic],
        kept_topics: Collection[str],
    ) -> None:
        """Remove the records of the state topic about topics that are no longer on the target."""
        gone = {
            topic: migrated
            for topic, migrated in selected.items()
            if migrated.target_topic not in kept_topics and migrated.target_topic not in self._failed_topics
        }
        if not self._dry_run:
            journal.forget_copies(gone, values)
        for topic, migrated in sorted(gone.items()):
            text = f"forget the copy of {topic}: {format_count(migrated.records, 'record')}"
            self._log(describe_action(text, dry_run=self._dry_run))

    def _check_no_active_copy(self, journal: ChangeJournal) -> None:
        """Raise ConfigError if a driver updates its record within some seconds."""
        if record := watch_driver(lambda: parse_driver_record(journal.read().get(JOB_KEY)), LOOK_TIMEOUT):
            raise ConfigError(
                f"{self._clusters.migration.name} is being copied, by process {record.get('pid')} on"
                f" {record.get('host')}: stop it first"
            )

    def _find_kept_topics(
        self,
        values: dict[bytes, bytes],
        journaled: Sequence[JournaledChange],
        inventory: Inventory,
        selected: Mapping[str, MigratedTopic],
    ) -> set[str]:
        """Return the topics that stay: they existed before, or have records that kproxy did not copy (not by force)."""
        created = {entry.change.topic for entry in journaled if isinstance(entry.change, CreateTopic)}
        states = parse_copied_partitions(values)
        kept_topics = set()
        if self._topics:
            targets = {migrated.target_topic for migrated in selected.values()}
            kept_topics = (targets & inventory.topics.keys()) - created
            for topic in sorted(kept_topics):
                self._add_remaining(
                    f"topic {topic} existed before kproxy prepared it: delete it, then repeat this command"
                )
        elif not self._force:
            copied = {partition.target_topic for partition in states.values() if partition.records}
            for topic in sorted(copied - created):
                self._add_remaining(f"topic {topic} existed before, and has records that kproxy copied: they stay")
        if self._force:
            return kept_topics
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
                if isinstance(change, CreateTopic):
                    self._failed_topics.add(change.topic)
            else:
                self._result.undone += 1
                self._log(describe_action(text, dry_run=self._dry_run))
        undone = [entry.number for (entry, _), answer in zip(undoable, answers, strict=True) if not answer]
        undone += [number for number, topic in recreated.items() if topic not in self._failed_topics]
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
