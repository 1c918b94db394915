"""Connections to both clusters, and the plan made from their inventories: the start of `plan` and `prepare`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters import producerids
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.inventory import Inventory, InventoryGap
from kproxy.migrate.clusters.inventory_reader import read_inventory
from kproxy.migrate.clusters.topic_identities import MigratedTopic, find_topic_problems, migrated_topics
from kproxy.migrate.copier.errorcodes import BrokerError
from kproxy.migrate.format import LogWriter
from kproxy.migrate.plan.changes import CreateState, CreateTopic, MigrationHistory, plan_changes
from kproxy.migrate.plan.plan import MigrationPlan
from kproxy.migrate.plan.principals import selected_topics
from kproxy.migrate.prepare.change_journal import ChangeJournal, history_of
from kproxy.migrate.prepare.target_admin import TargetAdmin
from kproxy.migrate.spec.migration import Migration


@dataclass(frozen=True, slots=True)
class ClusterExamination:
    """A plan, and the topics that were prepared or copied before."""

    plan: MigrationPlan
    migrated_topics: Mapping[str, MigratedTopic] = field(default_factory=dict)
    """By source topic, the topics that the state topic describes."""


class ClusterPair:
    """Connections for administration to both clusters."""

    def __init__(self, migration: Migration, endpoints: ClusterEndpoints) -> None:
        """Connect to both clusters."""
        self.migration, self.endpoints = migration, endpoints
        self._stack = ExitStack()
        with ExitStack() as stack:
            self.source = stack.enter_context(Admin(endpoints.source))
            self.target = stack.enter_context(Admin(endpoints.target))
            self._stack = stack.pop_all()

    def __enter__(self) -> ClusterPair:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def target_admin(self, target: Inventory) -> TargetAdmin:
        """Return an object that applies changes to the target."""
        factors = [broker.configs.get("default.replication.factor", "1") for broker in target.brokers]
        return TargetAdmin(self.target, max((int(number) for number in factors), default=1))

    def examine(self, sample: float, log: LogWriter = lambda _: None) -> ClusterExamination:
        """Read both clusters and make the plan, without changing anything."""
        migration = self.migration
        log("reading the source")
        source = read_inventory(self.source, migration.selects_topic, sample)
        names = {migration.target_name(topic.name) for topic in selected_topics(migration, source)}
        log("reading the target")
        target = read_inventory(self.target, lambda topic: topic in names or topic == migration.state_topic)
        values = self._read_state(target)
        history = MigrationHistory() if values is None else history_of(values)
        topics = {
            topic: topic_record
            for topic, topic_record in migrated_topics(values or {}).items()
            if migration.selects_topic(topic)
        }
        admin = self.target_admin(target)
        changes = plan_changes(migration, source, target, history)
        creations = [change for change in changes if isinstance(change, CreateState | CreateTopic)]
        refused_topics, missing_rights = admin.validate_creations(creations)
        missing_rights += admin.check_transactional_id(f"kproxy-migration-{migration.name}")
        missing_rights += self._check_producer_id_right()
        changed_topics = find_topic_problems(self.endpoints.source, self.endpoints.target, topics)
        return ClusterExamination(
            MigrationPlan(migration, source, target, history, refused_topics, missing_rights, changed_topics), topics
        )

    def _check_producer_id_right(self) -> list[InventoryGap]:
        """Return the missing right if the principal may not get producer ids.

        The only way to find out is to take one.
        """
        try:
            producerids.take_one_id_each(dict(list(self.target.nodes().items())[:1]))
        except BrokerError:
            return [InventoryGap("to raise producer ids", "", "IdempotentWrite", "the cluster")]
        return []

    def _read_state(self, target: Inventory) -> dict[bytes, bytes] | None:
        """Return the records of the state topic; None if it does not exist."""
        state = target.topics.get(self.migration.state_topic)
        if state is None:
            return None
        if state.effective_configs and state.effective_configs.get("cleanup.policy") != "compact":
            raise ConfigError(
                f"{state.name} on the target is not compacted, so kproxy did not create it: delete it, or give the"
                " migration another name"
            )
        with ChangeJournal(self.endpoints.target, self.migration.name) as journal:
            return journal.read()
