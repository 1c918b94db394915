"""A switch, or a rollback with a copy back: the last records are copied while writes are held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kproxy.base.diagnostic import ERROR, Diagnostic
from kproxy.base.errors import AdminError, ConfigError
from kproxy.base.format import abbreviate
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.groups import GroupMembers, read_members
from kproxy.migrate.journal.switch_journal import (
    ROLLBACK,
    SWITCHING,
    MovedPart,
    SwitchEntry,
    SwitchJournal,
    require_ended,
)
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.client_effects import check_clients
from kproxy.migrate.switch.client_selection import ClientSelection, SelectedPart, select_part, wave_part
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.final_sync import FinalSync, list_topics
from kproxy.migrate.switch.switch_run import SwitchContext, SwitchRun, was_switched_before
from kproxy.migrate.switch.unseen_check import UnseenCheck
from kproxy.migrate.switch.wave_alarms import check_moved_waves
from kproxy.migrate.switch.wave_sides import wave_boundary, with_groups_now
from kproxy.migrate.usage.waveboundary import check_boundary, check_shared_topics
from kproxy.proxy.switching.parts import Part, unit_name
from kproxy.proxy.switching.twophase import Work

_PARTS_HAVE_WRITTEN = (
    "clients that were moved to the target by themselves (--only) have written there, and these records would not be"
    " copied back: switch without --reversible"
)
_WAVES_HAVE_MOVED = (
    "wave {waves} is on the target, and a rollback of all clients would take it back without its records: switch"
    " without --reversible; then no rollback is possible any more, also not of a wave"
)


@dataclass
class SwitchSetup:
    """The options of a switch from the source to the target of `migration`, which may be the reverse of the file's."""

    migration: Migration
    endpoints: ClusterEndpoints
    target_upstream: str
    """The kproxies' name of the upstream to which clients are moved."""
    kind: str = SWITCHING
    """SWITCHING or ROLLBACK."""
    force: bool = False
    """True if positions on the target that kproxy did not write are overwritten."""
    before_hold: Callable[[], list[Diagnostic]] = lambda: []
    """Prepares the reverse copy before the hold, and returns findings."""
    during_hold: Callable[[FinalSync, float], None] = lambda _, __: None
    """Starts the reverse copy while writes are held. May raise KproxyError."""
    compose: Callable[[Any], None] = lambda _: None
    """Extends the offset maps, if positions are translated by more than what this migration has copied."""
    selection: ClientSelection | None = None
    """The clients to switch; None for all."""
    unseen: UnseenCheck | None = None
    """The check of producers that go round the kproxies; None if there is none."""


def _check_returned_members(parts: Sequence[MovedPart], members: GroupMembers) -> Iterator[Diagnostic]:
    """Yield groups that were moved to the target and have members on the source nevertheless."""
    for moved_part in parts:
        for group in moved_part.groups:
            # Its former members may still be counted there, for as long as a session of the group lasts.
            part = Part(moved_part.name, moved_part.clients)
            if ids := sorted(client_id for client_id in members.get(group, ()) if not part.has(client_id)):
                yield Diagnostic(
                    ERROR,
                    f"group {group}",
                    f"it was moved to the target, and has members on the source: {', '.join(ids[:3])}. They have"
                    " other client ids than before, or connect to the source without kproxy: stop them",
                )


class SyncedSwitch(SwitchRun):
    """A new switch or rollback; `resumption.resume_drive` resumes an interrupted one."""

    def __init__(self, context: SwitchContext, setup: SwitchSetup) -> None:
        super().__init__(context)
        self._setup = setup
        self._sync = FinalSync(
            spark=context.spark,
            migration=setup.migration,
            endpoints=setup.endpoints,
            log=context.log,
            force=setup.force,
            compose=setup.compose,
        )
        self._sync.selection = setup.selection
        self.timings, self.ended_transactions = self._sync.timings, self._sync.ended_transactions
        self._selected: SelectedPart | None = None
        self._wave = "" if setup.selection is None else setup.selection.wave

    def run(self, *, dry_run: bool, reversible: bool = False) -> DriveResult | None:
        """Run the switch, and return its result; None if a finding blocks it, or after a dry run."""
        with SwitchJournal(self.context.endpoints.target, self.context.migration.name) as journal:
            last = journal.read()
            self._check_may_begin(last)
            # If all consumers have been there before, what they have committed is of another time.
            self._sync.force = self._sync.force or self._were_there_before(last)
            parts = self._parts_on_target(last)
            self._sync.others_write = any(part.writes and not part.wave for part in parts)
            self.context.log("preflight: kproxies, both clusters, clients")
            self._run_preflight(parts, last, dry_run=dry_run)
            if reversible:
                self.report_findings(self._check_reversible(parts))
            if self.preflight.is_blocked:
                return None
            with self._sync:
                self._sync.start(take_over=not dry_run)
                self.has_replaced_copy = not dry_run
                self.context.log("preflight: rehearsing what is done while writes are held")
                self.report_findings(preflight.check_final_sync(self._sync, self.section, dry_run=dry_run))
                if not dry_run and not self.preflight.is_blocked:
                    self.report_findings(self._setup.before_hold())
                    self._sync.verify(0.0)  # so that only the records of the last second are compared in the hold
                if dry_run or self.preflight.is_blocked:
                    return None
                return self._drive(journal, reversible)

    def check_still_written(self) -> None:
        """Report topics to which clients still write on the side that was left, if all clients were moved."""
        if self._setup.unseen is not None:
            self.report_findings(self._setup.unseen.after(self._setup.endpoints.source, self._sync.source_ends))

    def _were_there_before(self, last: SwitchEntry | None) -> bool:
        """Return True if these clients, or some of them, have been on the side to which they are moved."""
        waves = () if last is None else last.switched_waves
        return was_switched_before(last) or (self._wave in waves if self._wave else bool(waves))

    def _check_reversible(self, parts: Sequence[MovedPart]) -> Iterator[Diagnostic]:
        """Yield why what these clients write to the target could not be copied back."""
        if self._sync.others_write:
            yield Diagnostic(ERROR, "--reversible", _PARTS_HAVE_WRITTEN)
        if not self._wave and (waves := [part.wave for part in parts if part.wave]):
            yield Diagnostic(ERROR, "--reversible", _WAVES_HAVE_MOVED.format(waves=abbreviate(waves)))

    def _check_may_begin(self, last: SwitchEntry | None) -> None:
        """Raise ConfigError unless this switch or rollback can follow the last one."""
        require_ended(last)
        if last is not None and self._wave in last.waves_on_target:
            raise ConfigError(
                f"wave {self._wave} is on {last.target_upstream}: kproxy migrate rollback FILE --wave {self._wave}"
                " moves it back"
            )
        if last is not None and last.is_moved and self._setup.kind == SWITCHING:
            raise ConfigError(
                f"clients are already on {last.target_upstream}: kproxy migrate rollback FILE moves them back"
            )
        if (last is None or not last.is_moved) and self._setup.kind == ROLLBACK:
            raise ConfigError("clients are on the source: there is nothing to roll back")

    def _parts_on_target(self, last: SwitchEntry | None) -> tuple[MovedPart, ...]:
        """Return the parts that were moved to the target before."""
        return () if last is None or self._setup.kind == ROLLBACK else last.parts_on_target

    def _other_parts(self, last: SwitchEntry | None) -> tuple[MovedPart, ...]:
        """Return the parts on the target that stay there."""
        return self._parts_on_target(last)

    def _since(self, last: SwitchEntry | None) -> int:
        """Return when the wave came to the target, in milliseconds since 1970; 0 if it is on the source."""
        return 0

    def _run_preflight(self, parts: Sequence[MovedPart], last: SwitchEntry | None, *, dry_run: bool) -> None:
        setup = self._setup
        direction = preflight.Direction(
            setup.target_upstream, setup.endpoints.source_cluster_id, setup.endpoints.target_cluster_id
        )
        self.check_kproxies(direction)
        if setup.unseen is not None:
            self.report_findings(setup.unseen.before())
        if self.preflight.is_blocked:
            return
        with ClusterPair(setup.migration, setup.endpoints) as sides:
            members = read_members(sides.source, setup.migration.selects_group)
            self.report_findings(_check_returned_members(parts, members))
            self._choose_groups(parts, members)
            if self._selected is not None and self._wave:
                self.report_findings(self._check_boundary(sides, self._selected, last))
            if self.preflight.is_blocked:
                return
            self._choose_units(direction, dry_run=dry_run)
            if self.preflight.is_blocked:
                return
            part = None if self._selected is None else self._selected.part
            clients = [client for reply in self.unit_replies() for client in reply.clients]
            affected = [client for client in clients if part is None or part.has(client.name)]
            self.report_findings(check_clients(affected, switched_before=self._were_there_before(last)))
            back = setup.kind == ROLLBACK
            self.check_logins(sides.target if back else sides.source, affected, setup.target_upstream, part, back=back)
            self.report_findings(check_moved_waves(self.context.endpoints, self.context.migration, last))
            first = not self._were_there_before(last) and not self._sync.others_write
            groups = None if self._selected is None else self._selected.groups
            findings = preflight.check_clusters(
                sides, first=first, back=back, dry_run=dry_run, groups=groups, selection=self._setup.selection
            )
            self.report_findings(findings)
            if last is not None and not self.preflight.is_blocked:
                assert self._sync.groups is not None
                self.wait_for_sessions(sides.target, self._sync.groups)

    def _check_boundary(
        self, sides: ClusterPair, selected: SelectedPart, last: SwitchEntry | None
    ) -> Iterator[Diagnostic]:
        """Yield what the wave would be separated from."""
        selection, migration = self._setup.selection, self.context.migration
        assert selection is not None
        moved_parts = () if last is None else last.parts_on_target
        to_target = self._setup.kind == SWITCHING
        boundary = wave_boundary(
            migration, selected, moved_parts, to_target=to_target, allow_split_readers=selection.allow_split_readers
        )
        yield from check_shared_topics(migration.whole(), migration.wave, list_topics(sides.source.bootstrap))
        yield from check_boundary(boundary, with_groups_now(self.context.usage, sides.source, migration, to_target))

    def _choose_groups(self, parts: Sequence[MovedPart], members: GroupMembers) -> None:
        """Choose the groups whose positions are translated: not those that already continue on the target."""
        moved_groups = {group for part in parts for group in part.groups}
        selects_group = self._setup.migration.selects_group
        self._sync.groups = lambda group: selects_group(group) and group not in moved_groups
        if self._setup.selection is None:
            return
        connected = [
            client
            for kproxy in self.fleet.kproxies
            for unit in self.units_at(kproxy)
            for client in self.preflight.replies[kproxy.name].clusters[unit.cluster].clients
        ]
        selected, findings = select_part(self._setup.selection, members, connected, self._former_clients())
        self.report_findings(findings)
        if selected is not None:
            self._selected = selected
            self._sync.groups = lambda group: group in selected.groups and selects_group(group)

    def _former_clients(self) -> Sequence[str]:
        """Return the client ids that the part of the wave has at the kproxies, from an earlier switch."""
        name = unit_name(self.section.cluster, wave_part(self._wave)) if self._wave else ""
        units = [reply.clusters[name] for reply in self.preflight.replies.values() if name in reply.clusters]
        return sorted({client for unit in units for client in unit.members})

    def _choose_units(self, direction: preflight.Direction, *, dry_run: bool) -> None:
        """Choose the selected part, or the cluster with those of its parts that were not moved before.

        Raises ConfigError if a kproxy cannot create the part.
        """
        if self._selected is None:
            self.fleet = self.fleet.subset([unit for kproxy in self.fleet.kproxies for unit in self.units_at(kproxy)])
        elif not dry_run:
            part = self._selected.part
            self.choose_unit(unit_name(self.section.cluster, part.name))
            anew = bool(self._wave)
            for kproxy, answer in self.fleet.request_all(lambda kproxy: kproxy.make_part(part.clients, anew=anew)):
                if isinstance(answer, AdminError):
                    raise ConfigError(f"{kproxy.name} cannot route these clients by themselves: {answer}")
            self.check_kproxies(direction)

    def _drive(self, journal: SwitchJournal, reversible: bool) -> DriveResult:
        sync, setup, selected = self._sync, self._setup, self._selected

        def complete_entry(last: SwitchEntry | None, entry: SwitchEntry) -> SwitchEntry:
            self._check_may_begin(last)
            entry = replace(entry, reversible=reversible, parts=self._other_parts(last))
            if selected is None:
                return entry
            groups = tuple(sorted(selected.groups))
            entry = replace(entry, clients=selected.part.clients, groups=groups, writes=selected.writes)
            topics = self.context.migration.topics.within
            return replace(entry, wave=self._wave, topics=topics, since=self._since(last)) if self._wave else entry

        def translate(until: float) -> None:
            sync.translate(until)
            setup.during_hold(sync, until)
            sync.check_source_idle(until)

        sync.set_urgent(True)
        tasks = {Work.DRAIN: sync.drain, Work.COPY: sync.copy, Work.VERIFY: sync.verify, Work.TRANSLATE: translate}
        return self.drive_switch(journal, setup.kind, setup.target_upstream, complete_entry, tasks)
