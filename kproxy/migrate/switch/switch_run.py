"""What leading clients has in any direction: the kproxies, what was found before the hold, and the drive."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.journal.switch_journal import SwitchEntry, SwitchJournal
from kproxy.migrate.plan.finding import STOP, MigrationFinding
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.client_selection import abbreviate
from kproxy.migrate.switch.drive import TIMEOUTS, Drive, DriveResult, DriveTimeouts, HoldTask, Say
from kproxy.migrate.switch.final_sync import SyncTimings
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, split_name
from kproxy.migrate.switch.kproxy_replies import ClusterReply, KproxyReply
from kproxy.migrate.switch.members import read_members
from kproxy.migrate.switch.transactions import OpenTransaction
from kproxy.proxy.switching.parts import split_unit
from kproxy.proxy.switching.twophase import SwitchPlan, Work, driver_id, driver_number

ReportFindings = Callable[[Iterable[MigrationFinding]], None]

# How long is waited for sessions of members that have gone, and how often is looked, in seconds. The default of
# session.timeout.ms is 45 s.
_SESSION_TIMEOUT, _POLL_INTERVAL = 60.0, 1.0


@dataclass
class PreflightResult:
    """`answers`: what the kproxies said."""

    findings: list[MigrationFinding] = field(default_factory=list)
    replies: Mapping[str, KproxyReply] = field(default_factory=dict)

    @property
    def is_blocked(self) -> bool:
        return any(one.severity == STOP for one in self.findings)


def was_switched_before(last: SwitchEntry | None) -> bool:
    """Whether the cluster as a whole was switched before."""
    return last is not None and (not last.part or last.again)


class SwitchRun:
    """`took`, `ended`: how long the work of the hold took, and which transactions it ended."""

    timings: SyncTimings
    ended_transactions: Sequence[OpenTransaction]

    def __init__(
        self,
        fleet: KproxyFleet,
        section: SwitchSection,
        say: Say,
        show: ReportFindings,
        limits: DriveTimeouts = TIMEOUTS,
    ) -> None:
        self.fleet, self.section = fleet, section
        self.log, self._report, self._timeouts = say, show, limits
        self.preflight = PreflightResult()
        self.drive: Drive | None = None
        self._abort_reason = ""

    def abort(self, why: str) -> None:
        """From a signal handler."""
        self._abort_reason = why
        if self.drive is not None:
            self.drive.abort(why)

    def report_findings(self, findings: Iterable[MigrationFinding]) -> None:
        """In the preflight."""
        for one in findings:
            self.preflight.findings.append(one)
            self._report([one])

    def check_kproxies(self, direction: preflight.Direction) -> None:
        """Ask them all."""
        findings, self.preflight.replies = preflight.check_kproxies(self.fleet, self.section, direction)
        self.report_findings(findings)

    def units_at(self, kproxy: Kproxy) -> Iterator[Kproxy]:
        """The cluster at this kproxy, and those of its parts that are where it is."""
        clusters = self.preflight.replies[kproxy.name].clusters
        yield kproxy
        for name, one in clusters.items():
            cluster, part = split_unit(name)
            if part and cluster == kproxy.cluster and one.state.active == clusters[cluster].state.active:
                if one.state.holds:
                    text = f"part {part} is in switch {one.state.switch} ({one.state.phase}): end it first"
                    self.report_findings([MigrationFinding(STOP, f"kproxy {kproxy.name}", text)])
                yield kproxy.for_part(part)

    def origin_units(self) -> Iterator[ClusterReply]:
        """What kproxies say of the units whose clients are where they are led away from."""
        for kproxy in self.fleet.kproxies:
            for one in self.units_at(kproxy):
                yield self.preflight.replies[kproxy.name].clusters[one.cluster]

    def unit_replies(self) -> list[ClusterReply]:
        """What the kproxies said before of all that is switched."""
        return [self.preflight.replies[split_name(one.name)[0]].clusters[one.cluster] for one in self.fleet.kproxies]

    def wait_for_sessions(self, there: Admin, wants: Callable[[str], bool]) -> None:
        """Wait until these groups have no members where they are to go, if clients were led away from there before:
        brokers count those until their sessions end, and take no position of such a group. Raises UpstreamError."""
        until, waits = time.monotonic() + _SESSION_TIMEOUT, False
        while left := [group for group, ids in read_members(there, wants).items() if ids]:
            if time.monotonic() >= until or self._abort_reason:
                why = (
                    "has members where it is to go: end those that reach it without kproxy; the sessions of those that"
                    " were led away end by themselves (session.timeout.ms)"
                )
                self.report_findings([MigrationFinding(STOP, f"group {abbreviate(left)}", why)])
                return
            if not waits:
                self.log(
                    f"waits for the sessions to end that members of group {abbreviate(left)} had where they are to go"
                )
            waits, wants = True, set(left).__contains__
            time.sleep(_POLL_INTERVAL)

    def drive_switch(
        self,
        journal: SwitchJournal,
        what: str,
        to: str,
        told: Callable[[SwitchEntry | None, SwitchEntry], SwitchEntry],
        works: Mapping[Work, HoldTask],
    ) -> DriveResult:
        """Hold writes, do the work, flip and release. `told` gets what was decided last and what is to be decided now,
        adds what it knows, and may refuse. Raises KproxyError."""
        if self._abort_reason:
            raise ConfigError(f"{self._abort_reason}: nothing was held")
        last = journal.take_over()
        states = [one.state for one in self.unit_replies()]
        former = states[0].active
        driver = driver_id(1 + max(driver_number(one.driver) for one in states), secrets.token_hex(4))
        names = tuple(one.name for one in self.fleet.kproxies)
        plan = SwitchPlan(secrets.token_hex(4), driver, names, former, to, self.section.hold_seconds)
        began = time.time_ns() // 1_000_000
        entry = SwitchEntry(
            plan.switch, what, self.section.cluster, former, to, names, began=began, again=was_switched_before(last)
        )
        self.drive = Drive(plan, self.fleet, journal, told(last, entry), works, self.log, self._timeouts)
        if self._abort_reason:
            self.drive.abort(self._abort_reason)
        return self.drive.run()
