"""A switch that begins here, in one of two directions: what is looked at, then the hold with its work."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.errors import ConfigError
from kproxy.migrate.examining import Sides
from kproxy.migrate.finding import STOP, Finding
from kproxy.migrate.migration import Migration
from kproxy.migrate.roads import Roads
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.answers import Answer
from kproxy.migrate.switch.drive import LIMITS, Doing, Drive, Driven, Limits, Say
from kproxy.migrate.switch.journal import ROLLBACK, SWITCHING, Entry, SwitchJournal
from kproxy.migrate.switch.kproxies import Fleet
from kproxy.migrate.switch.section import Switch
from kproxy.migrate.switch.tail import Tail
from kproxy.switching.plan import Plan, Work, later, number_of

Show = Callable[[Iterable[Finding]], None]


@dataclass
class Preflight:
    """`answers`: what the kproxies said."""

    findings: list[Finding] = field(default_factory=list)
    answers: Mapping[str, Answer] = field(default_factory=dict)

    @property
    def stopped(self) -> bool:
        return any(one.severity == STOP for one in self.findings)


@dataclass
class Way:
    """Clients are led from the source to the target of `migration`, which may be the reverse of the file's. `to`: the
    upstream's name. `journal_at`: the cluster that has the journal, always the target of the file, and `name` the name
    there. `force` and `compose`: as `Tail` has them. `before`, `meanwhile`: what is to be done for the way back, before
    the hold and while writes are held; the second may raise KproxyError."""

    migration: Migration
    roads: Roads
    to: str
    what: str = SWITCHING
    journal_at: str = ""
    name: str = ""
    force: bool = False
    before: Callable[[], list[Finding]] = lambda: []
    meanwhile: Callable[[Tail, float], None] = lambda _, __: None
    compose: Callable[[Any], None] = lambda _: None


class Running:
    """A switch that begins here; `resume` is another thing."""

    def __init__(
        self, spark: Any, way: Way, fleet: Fleet, section: Switch, say: Say, show: Show, limits: Limits = LIMITS
    ) -> None:  # fmt: skip
        self._spark, self._way, self.fleet, self.section = spark, way, fleet, section
        self._say, self._show, self._limits = say, show, limits
        self.preflight = Preflight()
        self.tail = Tail(spark, way.migration, way.roads, say, way.force, way.compose)
        self.drive: Drive | None = None
        self._aborted = ""

    def abort(self, why: str) -> None:
        """From a signal handler."""
        self._aborted = why
        if self.drive is not None:
            self.drive.abort(why)

    def run(self, *, dry_run: bool, reversible: bool = False) -> Driven | None:
        """None if something stops it, or nothing more is to be done. Raises KproxyError."""
        with SwitchJournal(self._way.journal_at, self._way.name) as journal:
            last = journal.read()
            self._may_begin(last)
            # Consumers have been there before: what they have committed is of another time.
            self.tail.force = self.tail.force or last is not None
            self._look(first=last is None)
            if self.preflight.stopped:
                return None
            with self.tail:
                self.tail.begin(take_over=not dry_run)
                self._found(preflight.of_tail(self.tail, self.section, dry_run=dry_run))
                if not dry_run and not self.preflight.stopped:
                    self._found(self._way.before())
                if dry_run or self.preflight.stopped:
                    return None
                return self._driven(journal, reversible)

    def _may_begin(self, last: Entry | None) -> None:
        """Raises ConfigError."""
        way = self._way
        if last is not None and not last.ended:
            raise ConfigError(
                f"{last.what} {last.switch} was begun on {last.host} and is not over: kproxy migrate switch --resume"
                " goes on with it, --abort takes it back where that can be done"
            )
        moved = last is not None and last.moved
        if moved and way.what == SWITCHING:
            assert last is not None
            raise ConfigError(f"clients are on {last.to} already: kproxy migrate rollback leads them back")
        if not moved and way.what == ROLLBACK:
            raise ConfigError("clients are on the source: there is nothing to roll back")

    def _look(self, *, first: bool) -> None:
        way, section = self._way, self.section
        direction = preflight.Direction(way.to, way.roads.source_cluster_id, way.roads.target_cluster_id)
        findings, self.preflight.answers = preflight.of_kproxies(self.fleet, section, direction)
        self._found(findings)
        if self.preflight.stopped:
            return
        self._found(preflight.of_clients(section, self.preflight.answers))
        with Sides(way.migration, way.roads) as sides:
            self._found(preflight.of_clusters(sides, first=first))

    def _found(self, findings: Iterable[Finding]) -> None:
        for one in findings:
            self.preflight.findings.append(one)
            self._show([one])

    # The hold

    def _driven(self, journal: SwitchJournal, reversible: bool) -> Driven:
        way, section = self._way, self.section
        if self._aborted:
            raise ConfigError(f"{self._aborted}: nothing was held")
        self._may_begin(journal.take())
        states = [one.clusters[section.cluster].state for one in self.preflight.answers.values()]
        former = states[0].active
        driver = later(1 + max(number_of(one.driver) for one in states), secrets.token_hex(4))
        names = tuple(one.name for one in self.fleet.all)
        plan = Plan(secrets.token_hex(4), driver, names, former, way.to, section.hold_seconds)
        entry = Entry(
            plan.switch, way.what, section.cluster, former, way.to, names, reversible=reversible,
            began=time.time_ns() // 1_000_000,
        )  # fmt: skip
        self.drive = Drive(plan, self.fleet, journal, entry, self._works(), self._say, self._limits)
        if self._aborted:
            self.drive.abort(self._aborted)
        return self.drive.run()

    def _works(self) -> Mapping[Work, Doing]:
        tail, way = self.tail, self._way

        def last(until: float) -> None:
            tail.translate(until)
            way.meanwhile(tail, until)
            tail.check_quiet(until)

        return {Work.DRAIN: tail.drain, Work.COPY: tail.copy, Work.VERIFY: tail.verify, Work.TRANSLATE: last}
