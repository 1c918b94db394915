"""Clients that were switched by themselves (`--only`), and are led back to the source: those that only read.

Nothing has to be copied back then: each record that they have read on the target came from the source, and the offset
map of the copy, turned round, says where it is there. Before and while writes are held, kproxy looks whether somebody
has written to the target all the same: what nobody has copied back would be missing on the source.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.statetopic import parse_copied_partitions
from kproxy.migrate.journal.switch_journal import ROLLBACK, MovedPart, SwitchEntry, SwitchJournal
from kproxy.migrate.offsets.groupsync import (
    GroupOffsetSync,
    GroupResult,
    count_unwritten,
    load_state_topic,
    parse_journal,
    write_journal,
)
from kproxy.migrate.offsets.unknown_records import count_beyond
from kproxy.migrate.plan.finding import NOTE, STOP, MigrationFinding
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.client_selection import ClientSelection, abbreviate
from kproxy.migrate.switch.drive import TIMEOUTS, DriveResult, DriveTimeouts, HoldTask, Say
from kproxy.migrate.switch.final_sync import FinalSyncError, SyncTimings
from kproxy.migrate.switch.fleet import KproxyFleet
from kproxy.migrate.switch.inverse_offset_map import invert_maps
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.members import GroupMembers, read_members
from kproxy.migrate.switch.reverse_copy import read_reverse_migration
from kproxy.migrate.switch.switch_run import ReportFindings, SwitchRun
from kproxy.migrate.verify.runner import run_verification
from kproxy.proxy.switching.parts import Part, unit_name
from kproxy.proxy.switching.twophase import Work

TopicPartition = tuple[str, int]

_TIMEOUT = 60.0
_RETRY_INTERVAL = 0.05


def select_moved_part(there: Sequence[MovedPart], only: ClientSelection | None) -> MovedPart:
    """Which part is led back: the one that is named, or the only one. Raises ConfigError (pure)."""
    if writers := [one for one in there if one.writes]:
        raise ConfigError(
            f"clients {abbreviate(writers[0].clients)} were led to the target by themselves (--only) and have written"
            " there: that is not copied back. Switch all others too; there is no way back from it"
        )
    found = [
        one
        for one in there
        if only is None or (set(only.groups) <= set(one.groups) and set(only.clients) <= set(one.clients))
    ]
    if len(found) == 1:
        return found[0]
    which = "; ".join(_part_options(one) for one in there)
    if only is not None and not found:
        raise ConfigError(f"--only names clients that were not led to the target together; there are {which}")
    raise ConfigError(f"which clients? Name them with --only; on the target are {which}")


def _part_options(one: MovedPart) -> str:
    groups = [f"group={name}" for name in one.groups]
    return abbreviate(groups or [f"client-id={name}" for name in one.clients])


@dataclass
class TargetPositions:
    """On the target, of groups that have read there. Each method raises UpstreamError and WireError."""

    spark: Any
    migration: Migration
    endpoints: ClusterEndpoints
    timings: SyncTimings = field(default_factory=SyncTimings)
    groups: Collection[str] = ()

    def __enter__(self) -> TargetPositions:
        self._reverse = read_reverse_migration(self.migration, self.endpoints)
        self._source, self._target = ClusterClient(self.endpoints.source), ClusterClient(self.endpoints.target)
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        self._target.close()

    def check_no_foreign_records(self, _: float) -> None:
        """Raises TailError if somebody has written to the target before what was copied last."""
        began = time.monotonic()
        endpoints = self.endpoints
        report = run_verification(
            self.spark, endpoints.source, endpoints.target, self.migration.name, others_write=False
        )
        self.timings.verify = time.monotonic() - began
        for one in report.partitions:
            if one.extra:
                raise _foreign_records_error(one.target_topic, one.partition, one.extra)

    def translate(self, until: float, *, dry_run: bool = False) -> list[str]:
        """Returns what could not be. Raises TailError if somebody has written to the target."""
        began = time.monotonic()
        ends = self._read_ends(until)
        topic = load_state_topic(self.endpoints.target, self.migration)
        known = parse_copied_partitions(topic.values)
        for where, end in ends.items():
            if where in known and (count := count_beyond(self._target, known[where], end)):
                raise _foreign_records_error(*where, count)
        begins = self._read_offsets(self._source, ends.keys() - known.keys(), requests.EARLIEST, until)
        with Admin(self.endpoints.target) as target, Admin(self.endpoints.source) as source:
            back = GroupOffsetSync(
                self._reverse, target, source, force=True, known=invert_maps(known, ends, begins), journal=False
            )
            results = back.run(self.groups.__contains__, dry_run=True)
            if not dry_run:
                # Else the next switch would take them for positions that somebody else has written.
                self._record_positions(results, topic.values, len(topic.logs))
                results = back.run(self.groups.__contains__, dry_run=False)
        self.timings.translate = time.monotonic() - began
        return list(count_unwritten(results, self._reverse))

    def _record_positions(self, results: Sequence[GroupResult], values: Mapping[bytes, bytes], partitions: int) -> None:
        before = parse_journal(values)
        wrote = {
            one.group: before.get(one.group, {})
            | {(row.position.topic, row.position.partition): [row.position.source] for row in one.positions}
            for one in results
        }
        write_journal(self.endpoints.target, self.migration, partitions, wrote)

    def _read_ends(self, until: float) -> dict[TopicPartition, int]:
        """Where the target's logs end now, when all before it is decided."""
        layout = self._target.refresh_metadata(list(self._reverse.topics.include))
        places = {(topic, led.index) for topic, (_, those) in layout.topics.items() for led in those}
        ends = self._read_offsets(self._target, places, requests.LATEST, until, committed=False)
        waits = set(ends)
        while waits:
            stable = self._read_offsets(self._target, waits, requests.LATEST, until)
            waits = {where for where in waits if stable[where] < ends[where]}
            if waits:
                if time.monotonic() >= until:
                    topic, partition = min(waits)
                    raise FinalSyncError(
                        f"partition {partition} of {topic} on the target has a transaction that is open"
                    )
                time.sleep(_RETRY_INTERVAL)
        return ends

    def _read_offsets(
        self,
        cluster: ClusterClient,
        places: Collection[TopicPartition],
        which: int,
        until: float,
        *,
        committed: bool = True,
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        while missing := [where for where in places if where not in found]:
            try:
                found |= cluster.list_offsets(missing, which, committed=committed)
            except UpstreamError:
                cluster.invalidate()
            if len(found) < len(places):
                if time.monotonic() >= until:
                    topic, partition = next(where for where in places if where not in found)
                    raise FinalSyncError(f"nobody tells where partition {partition} of {topic} begins or ends")
                time.sleep(_RETRY_INTERVAL)
        return found


def _foreign_records_error(topic: str, partition: int, count: int) -> FinalSyncError:
    return FinalSyncError(
        f"partition {partition} of {topic} on the target has {count} records or more that were not copied there:"
        " somebody has written to it. They are not on the source, and those who go back would not see them there"
    )


class PartialRollback(SwitchRun):
    """A part goes back to the source."""

    def __init__(
        self,
        spark: Any,
        migration: Migration,
        endpoints: ClusterEndpoints,
        fleet: KproxyFleet,
        section: SwitchSection,
        say: Say,
        show: ReportFindings,
        limits: DriveTimeouts = TIMEOUTS,
    ) -> None:
        super().__init__(fleet, section, say, show, limits)
        self._migration, self._endpoints = migration, endpoints
        self._positions = TargetPositions(spark, migration, endpoints)
        self.timings, self.ended_transactions = self._positions.timings, ()

    def run(self, only: ClientSelection | None, *, dry_run: bool) -> DriveResult | None:
        """None if something stops it, or nothing more is to be done. Raises KproxyError."""
        with SwitchJournal(self._endpoints.target, self._migration.name) as journal, self._positions as positions:
            last = journal.read()
            assert last is not None
            moved = select_moved_part(last.parts_on_target, only)
            self._run_preflight(last, moved)
            if self.preflight.is_blocked:
                return None
            until = time.monotonic() + _TIMEOUT
            try:
                positions.check_no_foreign_records(until)
                self.report_findings(_position_findings(positions.translate(until, dry_run=True)))
            except FinalSyncError as error:
                self.report_findings([MigrationFinding(STOP, "target", str(error))])
            if dry_run or self.preflight.is_blocked:
                return None

            def told(now: SwitchEntry | None, entry: SwitchEntry) -> SwitchEntry:
                if now != last:
                    raise ConfigError("another driver has begun meanwhile: nothing was held")
                others = tuple(one for one in last.parts_on_target if one != moved)
                groups = tuple(sorted(positions.groups))
                return replace(entry, clients=moved.clients, groups=groups, parts=others)

            return self.drive_switch(journal, ROLLBACK, last.source_upstream, told, self._hold_tasks())

    def _run_preflight(self, last: SwitchEntry, moved: MovedPart) -> None:
        name = unit_name(self.section.cluster, moved.name)
        self.section = replace(self.section, cluster=name)
        self.fleet = self.fleet.subset([replace(one, cluster=name) for one in self.fleet.kproxies])
        endpoints = self._endpoints
        self.report_findings(preflight.check_topics(self._migration, endpoints))
        self.check_kproxies(
            preflight.Direction(last.source_upstream, endpoints.target_cluster_id, endpoints.source_cluster_id)
        )
        if self.preflight.is_blocked:
            return
        part = Part(moved.name, moved.clients)
        clients = [client for one in self.unit_replies() for client in one.clients]
        with Admin(endpoints.target) as target:
            members = read_members(target, self._migration.selects_group)
        theirs = {group for group, ids in members.items() if any(part.has(one) for one in ids)}
        self._positions.groups = theirs | set(moved.groups)
        self.report_findings(check_part(part, self._positions.groups, members, clients))
        self.report_findings(preflight.check_clients(clients))
        if not self.preflight.is_blocked:
            with Admin(endpoints.source) as source:
                self.wait_for_sessions(source, self._positions.groups.__contains__)

    def _hold_tasks(self) -> Mapping[Work, HoldTask]:
        def last(until: float) -> None:
            problems = self._positions.translate(until)
            if problems:
                raise FinalSyncError(f"not all positions could be translated: {problems[0]}")

        def nothing(_: float) -> None: ...

        return {
            Work.DRAIN: nothing,
            Work.COPY: nothing,
            Work.VERIFY: self._positions.check_no_foreign_records,
            Work.TRANSLATE: last,
        }


def check_part(
    part: Part, groups: Collection[str], members: GroupMembers, connected: Sequence[ConnectedClient]
) -> Iterator[MigrationFinding]:
    """Whether all of them can go back (pure)."""
    yield MigrationFinding(
        NOTE,
        "part",
        f"clients {abbreviate(part.clients)}" + (f", members of group {abbreviate(sorted(groups))}" if groups else ""),
    )
    if writers := sorted({one.name for one in connected if one.writes}):
        yield MigrationFinding(
            STOP,
            "part",
            f"{abbreviate(writers)} have written to the target since they were led there: that is not copied"
            " back, and would be missing on the source",
        )
    here = {one.name for one in connected}
    for group in sorted(groups):
        ids = members.get(group, frozenset())
        if stay := sorted(one for one in ids if not part.has(one) or one not in here):
            yield MigrationFinding(
                STOP,
                f"group {group}",
                f"its members {abbreviate(stay)} are on the target, and are not among the clients of"
                " this part that are connected through these kproxies: they would stay there; end them",
            )


def _position_findings(problems: Sequence[str]) -> Iterator[MigrationFinding]:
    for text in problems:
        # While members go on, they are ahead of what was just looked at.
        yield MigrationFinding(NOTE if "are not copied so far" in text else STOP, "positions", text)
