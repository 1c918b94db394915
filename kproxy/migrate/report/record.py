"""All that the state topics have recorded of a migration: who did what, when, and what was compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kproxy.base.errors import KproxyError
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.journal.switch_journal import SwitchEntry, read_history
from kproxy.migrate.offsets.groupsync import parse_journal
from kproxy.migrate.prepare.change_journal import JournaledChange, read_changes
from kproxy.migrate.report.reversecopies import ever_copied_back, read_reverse_copies
from kproxy.migrate.report.status import MigrationStatus, ReverseCopyStatus, read_status_and_records
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.proxy.switching.twophase import JournalDecision

Positions = Mapping[str, Mapping[TopicPartition, int]]
"""By group and partition of the target, the offset that kproxy has written there last."""


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """The record of one migration."""

    at: int
    """The time of reading, in milliseconds since 1970."""
    migration: Migration
    status: MigrationStatus
    switches: tuple[SwitchEntry, ...]
    """Switches and rollbacks in their order."""
    changes: tuple[JournaledChange, ...]
    """The changes of `prepare` that were not undone."""
    positions: Positions
    reverse_copies: tuple[ReverseCopyStatus, ...] = ()
    """The copies from the target back to the source, after switches of all clients or of waves."""
    usage: ObservedUsage | None = None
    """The result of `kproxy migrate observe`; None without one."""


def read_record(
    migration: Migration, target: str, source: str | KproxyError | None, at: int, usage: ObservedUsage | None
) -> MigrationRecord:
    """Read the record from the target, and what was copied back from the source.

    `source`: its bootstrap servers, or why it cannot be reached; None if nothing was copied back. Raises ConfigError
    if nothing was prepared.
    """
    status, values = read_status_and_records(target, migration.name)
    switches = read_history(values)
    journal = parse_journal(values)
    return MigrationRecord(
        at=at,
        migration=migration,
        status=status,
        switches=tuple(switches),
        changes=tuple(read_changes(values)),
        positions={
            group: {place: offsets[0] for place, offsets in sorted(written.items()) if offsets}
            for group, written in sorted(journal.items())
        },
        reverse_copies=read_reverse_copies(migration, ever_copied_back(switches), source),
        usage=usage,
    )


def outcome_of(entry: SwitchEntry) -> str:
    """Return how a switch or rollback ended."""
    if entry.decision is JournalDecision.RELEASED:
        return "done" if entry.ended else "decided, not confirmed by all kproxies"
    return "undone" if entry.ended else "not finished"


def operator_of(entry: SwitchEntry) -> str:
    """Return the user and host of the driver that wrote the entry."""
    return f"{entry.user or 'not recorded'} on {entry.host or 'not recorded'}, process {entry.pid}"


def clients_of(entry: SwitchEntry) -> str:
    """Return which clients a switch or rollback has moved, in words."""
    return f"part {entry.part}: {', '.join(entry.clients)}" if entry.part else "all clients"


def where_clients_are(record: MigrationRecord) -> str:
    """Return one sentence on the side of the clients, by the journal."""
    last = record.status.last_switch
    if last is None:
        return "No switch is recorded: clients that connect through kproxies are on the source."
    if not last.ended:
        return (
            f"{last.what} {last.switch} has not finished: which side clients are on is decided by --resume or --abort."
        )
    side = f"{last.target_upstream}, the target" if last.is_moved else f"{last.source_upstream}, the source"
    parts = [client for part in last.parts_on_target for client in part.clients]
    others = f", except those of {', '.join(parts)}, which are on {last.target_upstream}, the target" if parts else ""
    return f"By the last {last.what}, all clients are on {side}{others}."
