"""A switch or rollback: the preflight, then the hold with its tasks.

`SwitchRun` has the steps that all of them share. `kproxy.migrate.switch.synced_switch` copies the last records while
writes are held; `partial_rollback` does not need to.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.diagnostic import ERROR, Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.base.format import abbreviate
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.groups import read_occupied_groups
from kproxy.migrate.format import LogWriter
from kproxy.migrate.journal.switch_journal import SwitchEntry, SwitchJournal
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.drive import Drive, DriveResult, HoldTask
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, split_name
from kproxy.migrate.switch.kproxy_replies import ClusterReply, ConnectedClient, KproxyReply
from kproxy.migrate.switch.sync_timings import SyncTimings
from kproxy.migrate.switch.transactions import OpenTransaction
from kproxy.migrate.switch.user_logins import check_users
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.proxy.switching.parts import Part, split_unit
from kproxy.proxy.switching.twophase import SwitchPlan, Work, driver_id, driver_number

ReportFindings = Callable[[Iterable[Diagnostic]], None]

# How long to wait for sessions of members that have left, and how often to check, in seconds. The default of
# session.timeout.ms is 45 s.
_SESSION_TIMEOUT, _POLL_INTERVAL = 60.0, 1.0


@dataclass(frozen=True, slots=True)
class SwitchContext:
    """The open connections of a switch or rollback, and where it reports."""

    spark: Any
    migration: Migration
    """The migration of the file, whichever direction the switch has."""
    endpoints: ClusterEndpoints
    fleet: KproxyFleet
    section: SwitchSection
    log: LogWriter
    report: ReportFindings
    show_hold: LogWriter = lambda _: None
    """Receives the state of the hold, a few times a second."""
    usage: ObservedUsage | None = None
    """The result of `kproxy migrate observe` before the switch; None without one."""


@dataclass
class PreflightResult:
    """The findings before the hold, and the replies of the kproxies."""

    findings: list[Diagnostic] = field(default_factory=list)
    replies: Mapping[str, KproxyReply] = field(default_factory=dict)

    @property
    def is_blocked(self) -> bool:
        return any(finding.severity == ERROR for finding in self.findings)


def was_switched_before(last: SwitchEntry | None) -> bool:
    """Return True if the whole cluster was switched before."""
    return last is not None and (not last.part or last.again)


class SwitchRun:
    """One run of a switch or rollback; subclasses define the preflight and the tasks of the hold."""

    timings: SyncTimings
    """The durations of the tasks of the hold, in seconds."""
    ended_transactions: Sequence[OpenTransaction]
    """The transactions that the hold ended."""

    def __init__(self, context: SwitchContext) -> None:
        self.context, self.fleet, self.section = context, context.fleet, context.section
        self.preflight = PreflightResult()
        self.drive: Drive | None = None
        self.users: tuple[str, ...] = ()
        """The users whose clients are connected, or were observed."""
        self.has_replaced_copy = False
        """True if this has ended the copy that ran, and runs none itself any more."""
        self._abort_reason = ""

    def abort(self, why: str) -> None:
        """Go back; can be called from a signal handler."""
        self._abort_reason = why
        if self.drive is not None:
            self.drive.abort(why)

    def report_findings(self, findings: Iterable[Diagnostic]) -> None:
        """Add findings to the preflight, and show them, also those before an error."""
        batch: list[Diagnostic] = []
        try:
            batch.extend(findings)
        finally:
            self.preflight.findings += batch
            self.context.report(batch)

    def check_kproxies(self, direction: preflight.Direction) -> None:
        """Read the replies of all kproxies, and report findings about them."""
        findings, self.preflight.replies = preflight.check_kproxies(self.fleet, self.section, direction)
        self.report_findings(findings)

    def units_at(self, kproxy: Kproxy) -> Iterator[Kproxy]:
        """Yield the cluster at this kproxy, and those of its parts that are on the same upstream."""
        clusters = self.preflight.replies[kproxy.name].clusters
        yield kproxy
        for name, unit in clusters.items():
            cluster, part = split_unit(name)
            if part and cluster == kproxy.cluster and unit.state.active == clusters[cluster].state.active:
                if unit.state.holds:
                    text = f"part {part} is in switch {unit.state.switch} ({unit.state.phase}): finish it first"
                    self.report_findings([Diagnostic(ERROR, f"kproxy {kproxy.name}", text)])
                yield kproxy.for_part(part)

    def unit_replies(self) -> list[ClusterReply]:
        """Return the replies of the preflight about all units that are switched."""
        return [self.preflight.replies[split_name(unit.name)[0]].clusters[unit.cluster] for unit in self.fleet.kproxies]

    def choose_unit(self, name: str) -> None:
        """Switch the unit with this name at each kproxy."""
        self.section = replace(self.section, cluster=name)
        self.fleet = self.fleet.subset([replace(kproxy, cluster=name) for kproxy in self.fleet.kproxies])

    def check_logins(
        self, source: Admin, clients: Iterable[ConnectedClient], upstream: str, part: Part | None, *, back: bool
    ) -> None:
        """Let each kproxy log in at this upstream for the users of these clients, and for those not connected now.

        `source` is that of the file; `back`: clients are moved to it. `part`: only its clients are moved.
        """
        context, seen = self.context, {client.user for client in clients if client.user}
        usage = context.usage if context.usage is None or part is None else context.usage.of_clients(part.has)
        users, findings = preflight.read_expected_users(context.migration, source, seen, usage, back=back)
        self.users = tuple(user.name for user in users if user.is_seen)
        self.report_findings(findings)
        self.report_findings(
            check_users(context.fleet, [user for user in users if part is None or user.is_seen], upstream)
        )

    def wait_for_sessions(self, admin: Admin, is_selected: Callable[[str], bool]) -> None:
        """Wait until these groups have no members on the side to which clients are moved.

        If clients were moved away from there before, the brokers count their members until the sessions end, and accept
        no positions of such a group.
        """
        until, is_waiting = time.monotonic() + _SESSION_TIMEOUT, False
        while occupied := read_occupied_groups(admin, is_selected):
            groups = f"group {abbreviate(occupied)}"
            if time.monotonic() >= until or self._abort_reason:
                why = (
                    "has members on the side to which clients are moved: stop those that connect without kproxy; the"
                    " sessions of clients that were moved away end by themselves (session.timeout.ms)"
                )
                self.report_findings([Diagnostic(ERROR, groups, why)])
                return
            if not is_waiting:
                self.context.log(f"waiting until the sessions of {groups} end on the side to which clients are moved")
            is_waiting, is_selected = True, set(occupied).__contains__
            time.sleep(_POLL_INTERVAL)

    def drive_switch(
        self,
        journal: SwitchJournal,
        kind: str,
        target_upstream: str,
        complete_entry: Callable[[SwitchEntry | None, SwitchEntry], SwitchEntry],
        tasks: Mapping[Work, HoldTask],
    ) -> DriveResult:
        """Hold writes, do the tasks, flip and release.

        `complete_entry` gets the last entry and the new one, completes the new one, and may refuse.
        """
        if self._abort_reason:
            raise ConfigError(f"{self._abort_reason}: no writes were held")
        last = journal.take_over()
        states = [reply.state for reply in self.unit_replies()]
        former = states[0].active
        driver = driver_id(1 + max(driver_number(state.driver) for state in states), secrets.token_hex(4))
        names = tuple(kproxy.name for kproxy in self.fleet.kproxies)
        plan = SwitchPlan(
            switch=secrets.token_hex(4),
            driver=driver,
            kproxies=names,
            former=former,
            to=target_upstream,
            seconds=self.section.hold_seconds,
        )
        began, cluster = time.time_ns() // 1_000_000, self.section.cluster
        entry = SwitchEntry(
            switch=plan.switch,
            what=kind,
            cluster=cluster,
            origin=former,
            to=target_upstream,
            kproxies=names,
            began=began,
            users=self.users,
        )
        waves_before = () if last is None else last.switched_waves
        entry = complete_entry(last, replace(entry, again=was_switched_before(last), waves_before=waves_before))
        self.drive = Drive(plan, self.fleet, journal, entry, tasks, self.context.log, show_hold=self.context.show_hold)
        if self._abort_reason:
            self.drive.abort(self._abort_reason)
        return self.drive.run()
