"""The rollback of clients that were switched by themselves (`--only`) and only read.

Nothing has to be copied back: each record that they have read on the target came from the source, and the inverse of
the copy's offset map has its offset there. Before and during the hold, kproxy checks that no client has written to the
target: such records were not copied back, and would be missing on the source.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.diagnostic import ERROR, NOTE, Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.base.format import abbreviate
from kproxy.base.messages.migrations import POSITIONS_NOT_TRANSLATED
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.groups import GroupMembers, read_members
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import parse_copied_partitions, read_state
from kproxy.migrate.format import LogWriter
from kproxy.migrate.journal.switch_journal import ROLLBACK, MovedPart, SwitchEntry, SwitchJournal
from kproxy.migrate.offsets.groupsync import (
    GroupOffsetSync,
    GroupResult,
    parse_journal,
    unwritten_positions,
    write_journal,
)
from kproxy.migrate.offsets.log_ranges import count_beyond
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.client_effects import check_clients
from kproxy.migrate.switch.client_selection import ClientSelection
from kproxy.migrate.switch.drive import DriveResult, HoldTask
from kproxy.migrate.switch.final_sync import FinalSyncError, read_offsets
from kproxy.migrate.switch.inverse_offset_map import invert_maps
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.reverse_copy import read_reverse_migration
from kproxy.migrate.switch.switch_run import SwitchContext, SwitchRun
from kproxy.migrate.switch.sync_timings import SyncTimings
from kproxy.migrate.verify.driverhashing import DriverHashing
from kproxy.migrate.verify.runner import run_verification
from kproxy.proxy.switching.parts import Part, unit_name
from kproxy.proxy.switching.twophase import Work

_TIMEOUT = 60.0
_RETRY_INTERVAL = 0.05


def select_moved_part(parts: Sequence[MovedPart], selection: ClientSelection | None) -> MovedPart:
    """Return the part to move back: the named one, or the only one. Raises ConfigError (pure)."""
    if selection is not None and selection.wave:
        (wave,) = (part for part in parts if part.wave == selection.wave)
        if wave.writes:
            raise ConfigError(
                f"wave {wave.wave} was moved without --reversible, and its clients have written to the target: these"
                " records were not copied back, so no rollback is possible"
            )
        return wave
    if writers := [part for part in parts if part.writes and not part.wave]:
        raise ConfigError(
            f"clients {abbreviate(writers[0].clients)} were moved to the target by themselves (--only) and have"
            " written there: these records were not copied back, so no rollback is possible. Switch all other"
            " clients too"
        )
    matching = [
        part
        for part in parts
        if selection is None
        or (not part.wave and set(selection.groups) <= set(part.groups) and set(selection.clients) <= set(part.clients))
    ]
    if len(matching) == 1:
        return matching[0]
    names = "; ".join(_part_options(part) for part in parts)
    if selection is not None and not matching:
        raise ConfigError(f"--only names clients that were not moved to the target together; on the target are {names}")
    raise ConfigError(f"which clients? Name them with --only or --wave; on the target are {names}")


def _part_options(part: MovedPart) -> str:
    if part.wave:
        return f"wave {part.wave}"
    groups = [f"group={name}" for name in part.groups]
    return abbreviate(groups or [f"client-id={name}" for name in part.clients])


@dataclass
class TargetPositions:
    """Positions on the target, of groups that have read there."""

    spark: Any
    migration: Migration
    endpoints: ClusterEndpoints
    timings: SyncTimings = field(default_factory=SyncTimings)
    groups: Collection[str] = ()
    log: LogWriter = lambda _: None

    def __enter__(self) -> TargetPositions:
        self._reverse = read_reverse_migration(self.migration, self.endpoints)
        self._source, self._target = ClusterClient(self.endpoints.source), ClusterClient(self.endpoints.target)
        self._driver_hashing = DriverHashing(self.endpoints.source, self.endpoints.target, self.log)
        self._driver_may_compare = False
        return self

    def __exit__(self, *_: object) -> None:
        self._driver_hashing.close()
        self._source.close()
        self._target.close()

    def check_no_foreign_records(self, _: float) -> None:
        """Raise FinalSyncError if the target has records that were not copied, before the last copied one."""
        source, target = self.endpoints.source, self.endpoints.target
        with self.timings.measure("verify"):
            selects_topic = self.migration.selects_topic
            report = run_verification(
                self.spark,
                source,
                target,
                self.migration.name,
                others_write=False,
                selects_topic=selects_topic,
                driver_hashing=self._driver_hashing if self._driver_may_compare else None,
            )
        self._driver_may_compare = True  # the little that comes until the hold
        for partition in report.partitions:
            if partition.extra:
                raise _foreign_records_error(partition.target_topic, partition.partition, partition.extra)

    def translate(self, until: float, *, dry_run: bool = False) -> list[Diagnostic]:
        """Translate the positions, and return what could not be translated.

        Raises FinalSyncError if the target has records that were not copied.
        """
        began = time.monotonic()
        ends = self._read_ends(until)
        values = read_state(self.endpoints.target, self.migration.name)
        copied_partitions = parse_copied_partitions(values)
        for partition, end in ends.items():
            if partition in copied_partitions and (
                count := count_beyond(self._target, copied_partitions[partition], end)
            ):
                raise _foreign_records_error(*partition, count)
        begins = read_offsets(self._source, ends.keys() - copied_partitions.keys(), requests.EARLIEST, until)
        with Admin(self.endpoints.target) as target, Admin(self.endpoints.source) as source:
            offsets = GroupOffsetSync(
                self._reverse,
                target,
                source,
                force=True,
                copied=invert_maps(copied_partitions, ends, begins),
                journal=False,
            )
            results = offsets.run(self.groups.__contains__, dry_run=True)
            if not dry_run:
                # Otherwise the next switch would treat them as positions that kproxy did not write.
                self._record_positions(results, values)
                results = offsets.run(self.groups.__contains__, dry_run=False)
        self.timings.translate = time.monotonic() - began
        return unwritten_positions(results, self._reverse)

    def _record_positions(self, results: Sequence[GroupResult], values: Mapping[bytes, bytes]) -> None:
        before = parse_journal(values)
        wrote = {
            result.group: before.get(result.group, {})
            | {(row.position.topic, row.position.partition): [row.position.source] for row in result.positions}
            for result in results
        }
        write_journal(self.endpoints.target, self.migration.name, wrote)

    def _read_ends(self, until: float) -> dict[TopicPartition, int]:
        """Return the ends of the target's logs, when no transaction before them is open."""
        layout = self._target.refresh_metadata(list(self._reverse.topics.include))
        places = {(topic, partition.index) for topic, (_, leaders) in layout.topics.items() for partition in leaders}
        ends = read_offsets(self._target, places, requests.LATEST, until, committed=False)
        unsettled = set(ends)
        while unsettled:
            stable = read_offsets(self._target, unsettled, requests.LATEST, until)
            unsettled = {partition_id for partition_id in unsettled if stable[partition_id] < ends[partition_id]}
            if unsettled:
                if time.monotonic() >= until:
                    topic, partition = min(unsettled)
                    raise FinalSyncError(f"partition {partition} of {topic} on the target has an open transaction")
                time.sleep(_RETRY_INTERVAL)
        return ends


def _foreign_records_error(topic: str, partition: int, count: int) -> FinalSyncError:
    return FinalSyncError(
        f"partition {partition} of {topic} on the target has at least {count} records that were not copied there: a"
        " client has written to it. They are not on the source, and clients that move back would not see them there"
    )


class PartialRollback(SwitchRun):
    """The rollback of one part."""

    def __init__(self, context: SwitchContext) -> None:
        super().__init__(context)
        self._migration, self._endpoints = context.migration, context.endpoints
        self._positions = TargetPositions(context.spark, context.migration, context.endpoints, log=context.log)
        self.timings, self.ended_transactions = self._positions.timings, ()

    def run(self, selection: ClientSelection | None, *, dry_run: bool) -> DriveResult | None:
        """Run the rollback, and return its result; None if a finding blocks it, or after a dry run."""
        with SwitchJournal(self._endpoints.target, self._migration.name) as journal, self._positions as positions:
            last = journal.read()
            assert last is not None
            part = select_moved_part(last.parts_on_target, selection)
            self._run_preflight(last, part)
            if self.preflight.is_blocked:
                return None
            until = time.monotonic() + _TIMEOUT
            try:
                positions.check_no_foreign_records(until)
                self.report_findings(preflight.while_clients_move(positions.translate(until, dry_run=True)))
            except FinalSyncError as error:
                self.report_findings([Diagnostic(ERROR, "target", str(error))])
            if dry_run or self.preflight.is_blocked:
                return None

            def complete_entry(current: SwitchEntry | None, entry: SwitchEntry) -> SwitchEntry:
                if current != last:
                    raise ConfigError("another driver has started meanwhile; no writes were held")
                other_parts = tuple(other for other in last.parts_on_target if other != part)
                groups = tuple(sorted(positions.groups))
                entry = replace(entry, clients=part.clients, groups=groups, parts=other_parts)
                return replace(entry, wave=part.wave, topics=part.topics, since=part.since)

            return self.drive_switch(journal, ROLLBACK, last.source_upstream, complete_entry, self._hold_tasks())

    def _run_preflight(self, last: SwitchEntry, moved_part: MovedPart) -> None:
        self.choose_unit(unit_name(self.section.cluster, moved_part.name))
        endpoints = self._endpoints
        self.report_findings(preflight.check_topics(self._migration, endpoints))
        self.check_kproxies(
            preflight.Direction(last.source_upstream, endpoints.target_cluster_id, endpoints.source_cluster_id)
        )
        if self.preflight.is_blocked:
            return
        part = Part(moved_part.name, moved_part.clients)
        clients = [client for reply in self.unit_replies() for client in reply.clients]
        with Admin(endpoints.target) as target:
            members = read_members(target, self._migration.selects_group)
        groups = {group for group, ids in members.items() if any(part.has(client_id) for client_id in ids)}
        self._positions.groups = groups | set(moved_part.groups)
        self.report_findings(check_part(part, self._positions.groups, members, clients))
        self.report_findings(check_clients(clients))
        with Admin(endpoints.source) as source:
            self.check_logins(source, clients, last.source_upstream, part, back=True)
            if not self.preflight.is_blocked:
                self.wait_for_sessions(source, self._positions.groups.__contains__)

    def _hold_tasks(self) -> Mapping[Work, HoldTask]:
        def do_nothing(_: float) -> None: ...

        def translate(until: float) -> None:
            if problems := self._positions.translate(until):
                raise FinalSyncError(POSITIONS_NOT_TRANSLATED(problem=problems[0].text, more=""))

        check = self._positions.check_no_foreign_records
        return {Work.DRAIN: do_nothing, Work.COPY: do_nothing, Work.VERIFY: check, Work.TRANSLATE: translate}


def check_part(
    part: Part,
    groups: Collection[str],
    members: GroupMembers,
    connected: Sequence[ConnectedClient],
    *,
    may_write: bool = False,
) -> Iterator[Diagnostic]:
    """Yield findings if not all clients of the part can go back; `may_write`: what they wrote is copied back (pure)."""
    yield Diagnostic(
        NOTE,
        "part",
        f"clients {abbreviate(part.clients)}" + (f", members of group {abbreviate(sorted(groups))}" if groups else ""),
    )
    if not may_write and (writers := sorted({client.name for client in connected if client.writes})):
        yield Diagnostic(
            ERROR,
            "part",
            f"{abbreviate(writers)} have written to the target since they were moved there: these records were not"
            " copied back, and would be missing on the source",
        )
    connected_ids = {client.name for client in connected}
    for group in sorted(groups):
        ids = members.get(group, frozenset())
        if staying := sorted(
            client_id for client_id in ids if not part.has(client_id) or client_id not in connected_ids
        ):
            yield Diagnostic(
                ERROR,
                f"group {group}",
                f"its members {abbreviate(staying)} are on the target, and are not among the clients of this part"
                " that are connected through these kproxies: they would stay there; stop them",
            )
