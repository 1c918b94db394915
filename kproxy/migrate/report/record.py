"""All that the state topics have recorded of a migration: who did what, when, and what was compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import state_topic_name
from kproxy.migrate.journal.switch_journal import SwitchEntry, read_history
from kproxy.migrate.offsets.groupsync import parse_journal
from kproxy.migrate.prepare.change_journal import JournaledChange, read_changes
from kproxy.migrate.report.status import MigrationStatus, read_status, read_status_and_records
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.inverse_offset_map import reverse_name
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
    back: MigrationStatus | None = None
    """The copy from the target back to the source; None if there was none, or it cannot be read."""
    back_problem: str = ""
    """The reason why the copy back cannot be read, "" if it can or there was none."""
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
    back, problem = None, ""
    try:
        if isinstance(source, KproxyError):
            raise source
        if source is not None:
            back = read_status(source, reverse_name(migration))
    except ConfigError:
        problem = f"the source has no topic {state_topic_name(reverse_name(migration))}"
    except KproxyError as error:
        problem = f"the source cannot be reached: {error}"
    if not any(_is_copied_back(entry) for entry in switches):
        problem = ""  # nothing was copied back
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
        back=back,
        back_problem=problem,
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


def _is_copied_back(entry: SwitchEntry) -> bool:
    """Return True for a switch of all clients whose records were copied back; a wave has a copy of its own."""
    return entry.reversible and not entry.wave and entry.decision is JournalDecision.RELEASED
