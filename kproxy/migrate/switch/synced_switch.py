"""A switch that begins here, in one of two directions: what is looked at, then the hold with its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kproxy.base.errors import AdminError, ConfigError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, MovedPart, SwitchEntry, SwitchJournal
from kproxy.migrate.plan.finding import STOP, MigrationFinding
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.client_selection import ClientSelection, SelectedPart, select_part
from kproxy.migrate.switch.drive import TIMEOUTS, DriveResult, DriveTimeouts, HoldTask, Say
from kproxy.migrate.switch.final_sync import FinalSync
from kproxy.migrate.switch.fleet import KproxyFleet
from kproxy.migrate.switch.members import GroupMembers, read_members
from kproxy.migrate.switch.switch_run import ReportFindings, SwitchRun, was_switched_before
from kproxy.proxy.switching.parts import Part, unit_name
from kproxy.proxy.switching.twophase import Work


@dataclass
class SwitchSetup:
    """Clients are led from the source to the target of `migration`, which may be the reverse of the file's. `to`: the
    upstream's name. `journal_at`: the cluster that has the journal, always the target of the file, and `name` the name
    there. `force` and `compose`: as `Tail` has them. `before`, `meanwhile`: what is to be done for the way back, before
    the hold and while writes are held; the second may raise KproxyError. `only`: these clients alone."""

    migration: Migration
    endpoints: ClusterEndpoints
    target_upstream: str
    kind: str = SWITCHING
    journal_cluster: str = ""
    journal_name: str = ""
    force: bool = False
    before_hold: Callable[[], list[MigrationFinding]] = lambda: []
    during_hold: Callable[[FinalSync, float], None] = lambda _, __: None
    compose: Callable[[Any], None] = lambda _: None
    selection: ClientSelection | None = None


_PARTS_HAVE_WRITTEN = (
    "clients that were led to the target by themselves have written there, and that would not be copied back: switch"
    " without it"
)


def _check_returned_members(there: Sequence[MovedPart], members: GroupMembers) -> Iterator[MigrationFinding]:
    """Groups that were led to the target, and have members on the source all the same."""
    for one in there:
        for group in one.groups:
            # Its former members may still be counted there, for as long as a session of the group lasts.
            part = Part(one.name, one.clients)
            if ids := sorted(found for found in members.get(group, ()) if not part.has(found)):
                yield MigrationFinding(
                    STOP,
                    f"group {group}",
                    "it was led to the target, and has members on the source:"
                    f" {', '.join(ids[:3])}. They have other client ids than before, or reach the source without"
                    " kproxy: end them",
                )


class SyncedSwitch(SwitchRun):
    """A switch that begins here; `resume` is another thing."""

    def __init__(
        self,
        spark: Any,
        way: SwitchSetup,
        fleet: KproxyFleet,
        section: SwitchSection,
        say: Say,
        show: ReportFindings,
        limits: DriveTimeouts = TIMEOUTS,
    ) -> None:
        super().__init__(fleet, section, say, show, limits)
        self._setup = way
        self._sync = FinalSync(spark, way.migration, way.endpoints, say, way.force, way.compose)
        self._sync.selection = way.selection
        self.timings, self.ended_transactions = self._sync.timings, self._sync.ended_transactions
        self._selected: SelectedPart | None = None

    def run(self, *, dry_run: bool, reversible: bool = False) -> DriveResult | None:
        """None if something stops it, or nothing more is to be done. Raises KproxyError."""
        with SwitchJournal(self._setup.journal_cluster, self._setup.journal_name) as journal:
            last = journal.read()
            self._check_may_begin(last)
            # If all consumers have been there before, what they have committed is of another time.
            self._sync.force = self._sync.force or was_switched_before(last)
            there = self._parts_on_target(last)
            self._sync.others_write = any(one.writes for one in there)
            self._run_preflight(there, last, dry_run=dry_run)
            if reversible and self._sync.others_write:
                self.report_findings([MigrationFinding(STOP, "--reversible", _PARTS_HAVE_WRITTEN)])
            if self.preflight.is_blocked:
                return None
            with self._sync:
                self._sync.start(take_over=not dry_run)
                self.report_findings(preflight.check_final_sync(self._sync, self.section, dry_run=dry_run))
                if not dry_run and not self.preflight.is_blocked:
                    self.report_findings(self._setup.before_hold())
                if dry_run or self.preflight.is_blocked:
                    return None
                return self._drive(journal, reversible)

    def _check_may_begin(self, last: SwitchEntry | None) -> None:
        """Raises ConfigError."""
        way = self._setup
        if last is not None and not last.ended:
            raise ConfigError(
                f"{last.what} {last.switch} was begun on {last.host} and is not over: kproxy migrate switch --resume"
                " goes on with it, --abort takes it back where that can be done"
            )
        moved = last is not None and last.is_moved
        if moved and way.kind == SWITCHING:
            assert last is not None
            raise ConfigError(f"clients are on {last.target_upstream} already: kproxy migrate rollback leads them back")
        if not moved and way.kind == ROLLBACK:
            raise ConfigError("clients are on the source: there is nothing to roll back")

    def _parts_on_target(self, last: SwitchEntry | None) -> tuple[MovedPart, ...]:
        """The parts that were led to the target before."""
        return () if last is None or self._setup.kind == ROLLBACK else last.parts_on_target

    def _run_preflight(self, there: Sequence[MovedPart], last: SwitchEntry | None, *, dry_run: bool) -> None:
        way = self._setup
        direction = preflight.Direction(
            way.target_upstream, way.endpoints.source_cluster_id, way.endpoints.target_cluster_id
        )
        self.check_kproxies(direction)
        if self.preflight.is_blocked:
            return
        with ClusterPair(way.migration, way.endpoints) as sides:
            members = read_members(sides.source, way.migration.selects_group)
            self.report_findings(_check_returned_members(there, members))
            self._choose_groups(there, members)
            if self.preflight.is_blocked:
                return
            self._choose_units(direction, dry_run=dry_run)
            if self.preflight.is_blocked:
                return
            part = None if self._selected is None else self._selected.part
            clients = [client for one in self.unit_replies() for client in one.clients]
            theirs = [one for one in clients if part is None or part.has(one.name)]
            self.report_findings(preflight.check_clients(theirs, again=was_switched_before(last)))
            first = not was_switched_before(last) and not self._sync.others_write
            self.report_findings(preflight.check_clusters(sides, first=first))
            if last is not None and not self.preflight.is_blocked:
                assert self._sync.groups is not None
                self.wait_for_sessions(sides.target, self._sync.groups)

    def _choose_groups(self, there: Sequence[MovedPart], members: GroupMembers) -> None:
        """Whose positions are translated: not those of groups that have gone on at the target."""
        moved = {group for one in there for group in one.groups}
        self._sync.groups = lambda group: self._setup.migration.selects_group(group) and group not in moved
        if self._setup.selection is None:
            return
        connected = [client for one in self.origin_units() for client in one.clients]
        self._selected, findings = select_part(self._setup.selection, members, connected)
        self.report_findings(findings)
        if self._selected is not None:
            chosen = self._selected
            self._sync.groups = lambda group: group in chosen.groups and self._setup.migration.selects_group(group)

    def _choose_units(self, direction: preflight.Direction, *, dry_run: bool) -> None:
        """The part that is switched, or the cluster with those of its parts that have not been led there before. Raises
        AdminError."""
        if self._selected is None:
            self.fleet = self.fleet.subset([unit for one in self.fleet.kproxies for unit in self.units_at(one)])
        elif not dry_run:
            self._make_part(self._selected.part)
            self.check_kproxies(direction)

    def _make_part(self, part: Part) -> None:
        """At each kproxy. Raises ConfigError."""
        name = unit_name(self.section.cluster, part.name)
        self.section = replace(self.section, cluster=name)
        self.fleet = self.fleet.subset([replace(one, cluster=name) for one in self.fleet.kproxies])
        for kproxy, answer in self.fleet.request_all(lambda one: one.make_part(part.clients)):
            if isinstance(answer, AdminError):
                raise ConfigError(f"{kproxy.name} cannot lead these clients by themselves: {answer}")

    # The hold

    def _drive(self, journal: SwitchJournal, reversible: bool) -> DriveResult:
        way, chosen = self._setup, self._selected

        def told(last: SwitchEntry | None, entry: SwitchEntry) -> SwitchEntry:
            self._check_may_begin(last)
            return replace(
                entry,
                reversible=reversible,
                parts=self._parts_on_target(last),
                clients=() if chosen is None else chosen.part.clients,
                groups=() if chosen is None else tuple(sorted(chosen.groups)),
                writes=chosen is not None and chosen.writes,
            )

        return self.drive_switch(journal, way.kind, way.target_upstream, told, self._hold_tasks())

    def _hold_tasks(self) -> Mapping[Work, HoldTask]:
        tail, way = self._sync, self._setup

        def last(until: float) -> None:
            tail.translate(until)
            way.during_hold(tail, until)
            tail.check_source_idle(until)

        return {Work.DRAIN: tail.drain, Work.COPY: tail.copy, Work.VERIFY: tail.verify, Work.TRANSLATE: last}
