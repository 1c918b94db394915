"""`kproxy migrate prepare`: makes the target ready for records. Each change is in the journal before it is applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kproxy.migrate.clusters import producerids
from kproxy.migrate.clusters.topic_identities import learn_topics, prepared_topics
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.errorcodes import BrokerError
from kproxy.migrate.format import LogWriter, describe_action
from kproxy.migrate.plan.changes import Change, CreateState
from kproxy.migrate.plan.principals import selected_topics
from kproxy.migrate.prepare.change_journal import ChangeJournal, RaiseProducerIds
from kproxy.migrate.prepare.cluster_pair import ClusterExamination, ClusterPair
from kproxy.migrate.prepare.target_admin import BATCH_SIZE, TargetAdmin, raise_first_error

# Of the margin, the share that may be used up before a further run raises producer ids again.
_MAX_USED_MARGIN = 0.5
# While a leader moves, in seconds.
_PATIENCE = 30.0


@dataclass(slots=True)
class PreparationResult:
    """The number of applied changes, and the texts of those that the target refused.

    `taken_ids` are the producer ids of the target that kproxy used up.
    """

    applied: int
    failed: list[str]
    taken_ids: Sequence[producerids.IdRange] = ()


class Preparation:
    """One run of `prepare`."""

    def __init__(self, clusters: ClusterPair, examination: ClusterExamination, log: LogWriter) -> None:
        self._clusters, self._examination, self._log = clusters, examination, log
        self._admin: TargetAdmin = clusters.target_admin(examination.plan.target)
        self._failed: list[str] = []
        self._applied = 0
        self._taken_ids: Sequence[producerids.IdRange] = ()

    def run(self) -> PreparationResult:
        """Apply the changes. Raises UpstreamError and WireError; the changes applied by then are in the journal."""
        migration = self._clusters.migration
        changes = list(self._examination.plan.changes)
        with ChangeJournal(self._clusters.endpoints.target, migration.name) as journal:
            if changes and isinstance(changes[0], CreateState):
                state = changes.pop(0)
                raise_first_error(self._admin.apply([state]), str(state))
                journal.read()
                journal.append([state])
                self._report(state)
            else:
                journal.read()
            for batch in _batches(changes):
                self._apply(journal, batch)
            self._record_topics(journal)
            self._raise_producer_ids(journal)
        return PreparationResult(self._applied, self._failed, self._taken_ids)

    def _apply(self, journal: ChangeJournal, changes: Sequence[Change]) -> None:
        numbers = journal.append(changes)
        answers = self._admin.apply(changes)
        journal.remove([number for number, answer in zip(numbers, answers, strict=True) if answer])
        for change, answer in zip(changes, answers, strict=True):
            if answer:
                self._failed.append(f"could not {change}: {answer}")
            else:
                self._report(change)

    def _report(self, change: Change | RaiseProducerIds) -> None:
        self._applied += 1
        self._log(describe_action(str(change)))

    def _record_topics(self, journal: ChangeJournal) -> None:
        """Record topic identities, so that a topic which is deleted and recreated later is recognized."""
        migration = self._clusters.migration
        topics = {
            topic.name: migration.target_name(topic.name)
            for topic in selected_topics(migration, self._examination.plan.source)
        }
        endpoints = self._clusters.endpoints
        with ClusterClient(endpoints.source) as source, ClusterClient(endpoints.target) as target:
            source_layout = retry(source, lambda: learn_topics(source, topics), _PATIENCE)
            target_layout = retry(target, lambda: learn_topics(target, topics.values()), _PATIENCE)
        before = self._examination.migrated_topics
        journal.record_topics(
            {
                topic: topic_record
                for topic, topic_record in prepared_topics(topics, source_layout, target_layout).items()
                if topic not in before or before[topic].identity != topic_record.identity
            }
        )

    def _raise_producer_ids(self, journal: ChangeJournal) -> None:
        usage = producerids.read_usage(self._examination.plan.source, self._clusters.source.nodes())
        for why in usage.unknown_reasons:
            self._log(f"producer ids of the source could not be read: {why}")
        target = self._clusters.target.nodes()
        try:
            lowest = producerids.take_one_id_each(target)
        except BrokerError as error:
            self._failed.append(f"could not raise producer ids: {error}")
            return
        if min(lowest.values()) >= usage.floor + int(producerids.MARGIN * (1 - _MAX_USED_MARGIN)):
            self._log(
                f"producer ids: the target assigns {min(lowest.values())} and higher, the source's are below"
                f" {usage.floor}: nothing to do"
            )
            return
        self._taken_ids = raise_producer_ids(target, usage, lowest, journal, self._log)
        self._applied += 1


def raise_producer_ids(
    target: Mapping[int, str],
    usage: producerids.ProducerIdUsage,
    lowest: Mapping[int, int],
    journal: ChangeJournal,
    log: LogWriter = lambda _: None,
) -> Sequence[producerids.IdRange]:
    """Raise the ids that the target's brokers assign above those of the source, and return those that were used up.

    `lowest` is what each broker assigned last. `journal` has been read.
    """
    floor = usage.floor + producerids.MARGIN
    raised = producerids.raise_to(target, floor, lowest)
    journal.append([RaiseProducerIds(floor)])
    speed = f"{raised.ids_used} ids in {raised.seconds:.1f} s"
    log(
        f"raised producer ids: every broker of the target assigns {floor} and higher now; the source's are below"
        f" {usage.floor}, with a margin of {producerids.MARGIN} for new ones ({speed})"
    )
    return raised.taken


def _batches(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Yield changes of one kind that fit one request."""
    for _, group in groupby(changes, key=lambda change: change.kind):
        changes_of_kind = list(group)
        for start in range(0, len(changes_of_kind), BATCH_SIZE):
            yield changes_of_kind[start : start + BATCH_SIZE]
