"""The steps that a switch and a rollback share: the kproxies, the findings before the hold, and the drive."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kproxy.base.diagnostic import ERROR, Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.base.format import abbreviate
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.journal.switch_journal import SwitchEntry, SwitchJournal
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.drive import TIMEOUTS, Drive, DriveResult, DriveTimeouts, HoldTask, LogWriter
from kproxy.migrate.switch.final_sync import SyncTimings
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, split_name
from kproxy.migrate.switch.kproxy_replies import ClusterReply, KproxyReply
from kproxy.migrate.switch.members import read_members
from kproxy.migrate.switch.transactions import OpenTransaction
from kproxy.proxy.switching.parts import split_unit
from kproxy.proxy.switching.twophase import SwitchPlan, Work, driver_id, driver_number

ReportFindings = Callable[[Iterable[Diagnostic]], None]

# How long to wait for sessions of members that have left, and how often to check, in seconds. The default of
# session.timeout.ms is 45 s.
_SESSION_TIMEOUT, _POLL_INTERVAL = 60.0, 1.0


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

    def __init__(
        self,
        fleet: KproxyFleet,
        section: SwitchSection,
        log: LogWriter,
        report: ReportFindings,
        timeouts: DriveTimeouts = TIMEOUTS,
    ) -> None:
        self.fleet, self.section = fleet, section
        self.log, self._report, self._timeouts = log, report, timeouts
        self.preflight = PreflightResult()
        self.drive: Drive | None = None
        self._abort_reason = ""

    def abort(self, why: str) -> None:
        """Go back; can be called from a signal handler."""
        self._abort_reason = why
        if self.drive is not None:
            self.drive.abort(why)

    def report_findings(self, findings: Iterable[Diagnostic]) -> None:
        """Add findings to the preflight, and show them."""
        for finding in findings:
            self.preflight.findings.append(finding)
            self._report([finding])

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

    def origin_units(self) -> Iterator[ClusterReply]:
        """Yield the replies about the units whose clients are on the upstream that they leave."""
        for kproxy in self.fleet.kproxies:
            for unit in self.units_at(kproxy):
                yield self.preflight.replies[kproxy.name].clusters[unit.cluster]

    def unit_replies(self) -> list[ClusterReply]:
        """Return the replies of the preflight about all units that are switched."""
        return [self.preflight.replies[split_name(unit.name)[0]].clusters[unit.cluster] for unit in self.fleet.kproxies]

    def wait_for_sessions(self, admin: Admin, is_selected: Callable[[str], bool]) -> None:
        """Wait until these groups have no members on the side to which clients are moved.

        If clients were moved away from there before, the brokers count their members until the sessions end, and accept
        no positions of such a group.
        """
        until, is_waiting = time.monotonic() + _SESSION_TIMEOUT, False
        while occupied := [group for group, ids in read_members(admin, is_selected).items() if ids]:
            if time.monotonic() >= until or self._abort_reason:
                why = (
                    "has members on the side to which clients are moved: stop those that connect without kproxy; the"
                    " sessions of clients that were moved away end by themselves (session.timeout.ms)"
                )
                self.report_findings([Diagnostic(ERROR, f"group {abbreviate(occupied)}", why)])
                return
            if not is_waiting:
                self.log(
                    f"waiting until the sessions of group {abbreviate(occupied)} end on the side to which clients are"
                    " moved"
                )
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
        plan = SwitchPlan(secrets.token_hex(4), driver, names, former, target_upstream, self.section.hold_seconds)
        began = time.time_ns() // 1_000_000
        entry = SwitchEntry(
            plan.switch,
            kind,
            self.section.cluster,
            former,
            target_upstream,
            names,
            began=began,
            again=was_switched_before(last),
        )
        self.drive = Drive(plan, self.fleet, journal, complete_entry(last, entry), tasks, self.log, self._timeouts)
        if self._abort_reason:
            self.drive.abort(self._abort_reason)
        return self.drive.run()
