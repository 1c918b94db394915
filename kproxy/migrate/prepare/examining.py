"""Both clusters asked, and the plan made of it: what the commands `plan` and `prepare` begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters import producerids
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.identities import Begun, begun, problems
from kproxy.migrate.clusters.inventory import Inventory, Unseen
from kproxy.migrate.clusters.roads import Roads
from kproxy.migrate.clusters.stocktaking import take
from kproxy.migrate.copier.errorcodes import Refused
from kproxy.migrate.plan.changes import Past, changes, copied
from kproxy.migrate.plan.plan import Plan, make, to_create
from kproxy.migrate.prepare.doing import Doing
from kproxy.migrate.prepare.journal import Journal, past
from kproxy.migrate.spec.migration import Migration

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Examined:
    """The plan and what it was made of. `begun`: the topics of which something is written down, by topic of the
    source."""

    plan: Plan
    past: Past
    begun: Mapping[str, Begun] = field(default_factory=dict)


class Sides:
    """Connections for administration to both clusters."""

    def __init__(self, migration: Migration, roads: Roads) -> None:
        """Raises UpstreamError."""
        self.migration, self.roads = migration, roads
        self._open = ExitStack()
        with ExitStack() as stack:
            self.source = stack.enter_context(Admin(roads.source))
            self.target = stack.enter_context(Admin(roads.target))
            self._open = stack.pop_all()

    def __enter__(self) -> Sides:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def doing(self, target: Inventory) -> Doing:
        """Does things on the target."""
        given = [one.configs.get("default.replication.factor", "1") for one in target.brokers]
        return Doing(self.target, max((int(number) for number in given), default=1))

    def examine(self, sample: float, say: Say = lambda _: None) -> Examined:
        """Changes nothing. Raises UpstreamError and WireError."""
        migration = self.migration
        say("looking at the source")
        source = take(self.source, migration.wants, sample)
        names = {migration.target_of(topic.name) for topic in copied(migration, source)}
        say("looking at the target")
        target = take(self.target, lambda topic: topic in names or topic == migration.state_topic)
        values = self._values(target)
        done = Past() if values is None else past(values)
        topics = {topic: one for topic, one in begun(values or {}).items() if migration.wants(topic)}
        doing = self.doing(target)
        refused, missing = doing.refused(to_create(changes(migration, source, target, done)))
        missing += doing.transactional_id(f"kproxy-migration-{migration.name}")
        missing += self._producer_ids()
        lost = problems(self.roads.source, self.roads.target, topics)
        return Examined(make(migration, source, target, done, refused, missing, lost), done, topics)

    def _producer_ids(self) -> list[Unseen]:
        """Whether one may have them: there is no other way than to take one."""
        try:
            producerids.now(dict(list(self.target.nodes().items())[:1]))
        except Refused:
            return [Unseen("to raise producer ids", "", "IdempotentWrite", "the cluster")]
        return []

    def _values(self, target: Inventory) -> dict[bytes, bytes] | None:
        """What the state topic has; None if it is not there."""
        state = target.topics.get(self.migration.state_topic)
        if state is None:
            return None
        if state.effective and state.effective.get("cleanup.policy") != "compact":
            raise ConfigError(
                f"{state.name} on the target is not compacted, so kproxy did not make it: delete it, or give the"
                " migration another name"
            )
        with Journal(self.roads.target, self.migration.name, state.name) as journal:
            return journal.values()
