"""The record of a migration as one HTML file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kproxy.base.diagnostic import Diagnostic, Severity
from kproxy.base.format import format_count, format_size
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.htmlpage import PAGE_END, escape_text, format_time, page_begin, stacked_table
from kproxy.migrate.journal.switch_journal import SwitchEntry
from kproxy.migrate.report.doubts import find_doubts
from kproxy.migrate.report.record import MigrationRecord, clients_of, operator_of, outcome_of, where_clients_are
from kproxy.migrate.report.status import MigrationStatus

_STYLE = """
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; } dt { color: var(--soft); }
dd { margin: 0; } body { max-width: 84rem; }
@page { size: A4 landscape; margin: 12mm; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; } }
"""
_PARTITIONS = (
    "Topic", "Partition", "Source offsets copied", "Records", "Bytes", "Checksum", "Copied", "Verified up to",
    "Records compared", "Digest", "Verified",
)  # fmt: skip
_SWITCHES = (
    "Began", "Last record", "What", "From", "To", "Clients", "Outcome", "Writes held", "Kproxies", "Operator"
)  # fmt: skip
_EXPLAINED = (
    "Checksum: CRC-32C over the checksums of all copied batches of the source, in their order. Digest: the sum, modulo"
    " 2^64, of xxHash64 over offset, key, value, headers and timestamp of each record that was compared; it was the"
    " same on both sides. kproxy migrate verify FILE --full computes it again from what both clusters still have. Times"
    " are of the hosts that wrote them."
)


def render_page(record: MigrationRecord) -> str:
    """Return the HTML file."""
    return "\n".join(_parts(record)) + "\n"


def _parts(record: MigrationRecord) -> Iterator[str]:
    doubts = find_doubts(record)
    yield from page_begin(f"Migration {record.status.name}", _STYLE)
    errors = sum(doubt.severity is Severity.ERROR for doubt in doubts)
    yield f'<p class="said {"bad" if errors else "good"}">{escape_text(_headline(record, errors))}</p>'
    yield f'<p class="soft">{escape_text(f"Read from the state topics at {format_time(record.at)}.")}</p>'
    yield from _summary(record)
    yield from _doubts(doubts)
    yield from _switches(record.switches)
    yield from _partitions("Copied and compared, from the source to the target", record.status)
    for copy in record.reverse_copies:
        if copy.status is not None:
            of_wave = f" of wave {copy.wave}" if copy.wave else ""
            yield from _partitions(f"Copied back{of_wave}, from the target to the source", copy.status)
    yield from _positions(record)
    yield from _changes(record)
    yield PAGE_END


def _headline(record: MigrationRecord, errors: int) -> str:
    status = record.status
    compared = sum(
        place[0] not in status.lost_topics and (kept := status.verified.get(place)) is not None
        and not kept.unknown and kept.upto >= state.source_next
        for place, state in status.partitions.items()
    )  # fmt: skip
    proven = f"{compared} of {format_count(len(status.partitions), 'partition')} compared up to all that was copied"
    open_points = f"; {format_count(errors, 'point')} that the record does not prove, in red below" if errors else ""
    return f"{proven}{open_points}. {where_clients_are(record)}"


def _summary(record: MigrationRecord) -> Iterator[str]:
    status, migration = record.status, record.migration
    driver = status.driver
    states = status.partitions.values()
    rows = [
        ("Source", _servers(migration.source)),
        ("Target", _servers(migration.target)),
        ("Topics", ", ".join(sorted(status.topics)) or "none"),
        (
            "Copied",
            f"{format_count(sum(state.records for state in states), 'record')},"
            f" {format_size(sum(state.size for state in states))}",
        ),
        (
            "Last copier",
            f"{driver.get('user') or 'not recorded'} on {driver.get('host')}, process {driver.get('pid')}, from"
            f" {_time_of(driver, 'since')} to {_time_of(driver, 'at')}"
            f"{'' if driver.get('ended') else ' (did not report its end)'}"
            if driver
            else "none",
        ),
        ("State topic", f"{migration.state_topic} on the target"),
    ]
    yield "<section><h2>The move</h2><dl>"
    for name, text in rows:
        yield f"<dt>{name}</dt><dd>{escape_text(text)}</dd>"
    yield "</dl></section>"


def _time_of(driver: object, name: str) -> str:
    at = driver.get(name) if isinstance(driver, dict) else None
    return format_time(at if isinstance(at, int) else 0)


def _servers(cluster: object) -> str:
    servers = cluster.get("bootstrap-servers", "") if isinstance(cluster, dict) else ""
    return servers if isinstance(servers, str) else ", ".join(map(str, servers))


def _doubts(doubts: Iterable[Diagnostic]) -> Iterator[str]:
    yield "<section><h2>What this does not prove</h2><ul>"
    for doubt in doubts:
        kind = {Severity.ERROR: "bad", Severity.NOTE: "soft"}.get(doubt.severity, "")
        yield f'<li class="{kind}">{escape_text(f"{doubt.severity.value}: {doubt}")}</li>'
    yield "</ul></section>"


def _switches(switches: Sequence[SwitchEntry]) -> Iterator[str]:
    yield "<section><h2>Switches and rollbacks</h2>"
    if not switches:
        yield "<p>None is recorded.</p></section>"
        return
    rows = [
        (
            format_time(entry.began),
            format_time(entry.at),
            f"{entry.what} {entry.switch}{', reversible' if entry.reversible else ''}",
            entry.origin,
            entry.to,
            clients_of(entry),
            outcome_of(entry),
            "not recorded" if entry.held_seconds is None else f"{entry.held_seconds:.1f} s",
            ", ".join(entry.kproxies),
            operator_of(entry),
        )
        for entry in switches
    ]
    yield from stacked_table("Switches and rollbacks", _SWITCHES, rows)
    yield '<p class="soft">Not recorded: dry runs, and what a finding stopped before writes were held.</p></section>'


def _partitions(title: str, status: MigrationStatus) -> Iterator[str]:
    yield f"<section><h2>{escape_text(title)}</h2>"
    rows = (_partition_row(status, place, state) for place, state in sorted(status.partitions.items()))
    yield from stacked_table(title, _PARTITIONS, rows)
    yield f'<p class="soft">{_EXPLAINED}</p></section>'


def _partition_row(status: MigrationStatus, place: TopicPartition, state: PartitionState) -> tuple[str | int, ...]:
    topic, partition = place
    kept = None if topic in status.lost_topics else status.verified.get(place)
    return (
        topic if topic == state.target_topic else f"{topic} → {state.target_topic}",
        partition,
        f"{state.source_begin:,} to {state.source_next:,}",
        state.records,
        state.size,
        f"{state.checksum:08x}",
        format_time(state.at),
        "nothing" if kept is None else f"{kept.upto:,}",
        0 if kept is None else kept.records,
        "" if kept is None else kept.digest_text,
        "" if kept is None else format_time(kept.at),
    )


def _positions(record: MigrationRecord) -> Iterator[str]:
    yield "<section><h2>Positions of groups</h2>"
    if not record.positions:
        yield "<p>kproxy has written none.</p></section>"
        return
    rows = (
        (group, topic, partition, offset)
        for group, offsets in record.positions.items()
        for (topic, partition), offset in offsets.items()
    )
    yield from stacked_table("Positions of groups", ("Group", "Topic of the target", "Partition", "Offset"), rows)
    yield "</section>"


def _changes(record: MigrationRecord) -> Iterator[str]:
    yield "<section><h2>Changes to the target</h2>"
    if not record.changes:
        yield "<p>None is recorded.</p></section>"
        return
    rows = ((format_time(change.at), str(change.change)) for change in record.changes)
    yield from stacked_table("Changes to the target", ("When", "What"), rows)
    yield "</section>"
