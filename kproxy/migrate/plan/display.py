"""A plan as text for a terminal: tables that fit 80 columns, and all findings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kproxy.base.diagnostic import Severity, show
from kproxy.base.format import format_count, format_duration, format_size
from kproxy.base.printable import escaped
from kproxy.migrate.plan.estimate import (
    COPY_CPU_SECONDS_PER_GB,
    CORES_PER_EXECUTOR,
    VERIFY_CPU_SECONDS_PER_GB,
    Estimate,
)
from kproxy.migrate.plan.plan import MigrationPlan
from kproxy.migrate.usage.wavetext import draw_waves

# So many topics, changes and findings of each severity are shown; JSON has all.
_MAX_ROWS = 60
_SHORTEST = 60.0


def show_plan(plan: MigrationPlan, console: Console) -> None:
    """Print the plan."""
    console.print(_cluster_table(plan), "", _topic_table(plan), *_estimate_section(plan), sep="\n")
    if plan.changes:
        count = format_count(len(plan.changes), "change")
        console.print(f"\n'kproxy migrate prepare' would make {count} on the target", style="bold")
        for change in plan.changes[:_MAX_ROWS]:
            console.print(_change_line(str(change)))
        _show_left_out(len(plan.changes), console)
    else:
        console.print("\nThe target is prepared: only producer ids may have to be raised", style="bold")
    if plan.waves and plan.usage is not None:
        observed = datetime.fromtimestamp(plan.usage.ended).strftime("%Y-%m-%d %H:%M")
        console.print(f"\nWhat may move separately, as observed until {observed}", style="bold")
        console.print(draw_waves(plan.waves[:_MAX_ROWS]))
        for number, wave in enumerate(plan.waves[:_MAX_ROWS], start=1):
            console.print(f"  wave {number}: {_estimate_text(plan.wave_estimate(wave))}", style="dim")
        _show_left_out(len(plan.waves), console)
    console.print()
    for severity in Severity:
        findings = [finding for finding in plan.findings if finding.severity is severity]
        show(findings[:_MAX_ROWS], console)
        _show_left_out(len(findings), console)
    if plan.is_blocked:
        console.print("\nThe errors block the migration. Nothing was changed.", style="bold red")
    else:
        text = "The migration can continue. Nothing was changed. Next: kproxy migrate prepare FILE"
        console.print(f"\n{text}", style="bold")


def _show_left_out(count: int, console: Console) -> None:
    if count > _MAX_ROWS:
        console.print(f"  … and {count - _MAX_ROWS} more: --json shows them all")


def _change_line(text: str) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(overflow="fold")
    table.add_row(Text("+", style="green"), Text(escaped(text)))
    return Padding(table, (0, 0, 0, 2))


def _cluster_table(plan: MigrationPlan) -> Table:
    table = Table(box=None, pad_edge=False, title=f"Migration {plan.migration.name}", title_justify="left")
    for heading in ("", "cluster", "Kafka, at least", "brokers", "topics", "groups", "ACLs"):
        table.add_column(heading, justify="right" if heading in ("brokers", "topics", "groups", "ACLs") else "left")
    for side, inventory in (("source", plan.source), ("target", plan.target)):
        things = (inventory.brokers, inventory.topics, inventory.groups, inventory.acls)
        counts = ("?" if thing is None else str(len(thing)) for thing in things)
        table.add_row(side, escaped(inventory.cluster_id), ".".join(map(str, inventory.version)), *counts)
    return table


def _topic_table(plan: MigrationPlan) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("topic", overflow="fold")
    table.add_column("on the target", overflow="fold")
    for heading in ("partitions", "offsets", "size", "written"):
        table.add_column(heading, justify="right")
    rows = sorted(plan.topics(), key=lambda row: -(row.size or 0))
    for row in rows[:_MAX_ROWS]:
        state = "new" if row.target_partitions is None else format_count(row.target_partitions, "partition")
        name = state if row.target == row.topic else f"{row.target} ({state})"
        table.add_row(
            Text(row.topic),
            Text(name),
            str(row.partitions),
            f"{row.offsets:,}",
            "?" if row.size is None else format_size(row.size),
            "?" if row.rate is None else f"{format_size(row.rate)}/s",
        )
    if len(rows) > _MAX_ROWS:
        table.add_row(f"… and {len(rows) - _MAX_ROWS} more")
    return table


# Under the table.
_OFFSETS_NOTE = "Offsets: an upper bound of the records; a topic that is compacted or has transactions has fewer."


def _estimate_section(plan: MigrationPlan) -> Iterator[RenderableType]:
    yield Padding(Text(_OFFSETS_NOTE, style="dim"), (0, 0, 0, 2))
    estimate = plan.estimate
    total = "of unknown size" if estimate.size is None else format_size(estimate.size)
    counts = f"{format_count(len(plan.topics()), 'topic')}, {format_count(estimate.partitions, 'partition')}"
    yield Text(f"\n{total} in {counts}, growing by {format_size(estimate.rate)}/s", style="bold")
    if estimate.size is not None:
        table = Table(box=None, pad_edge=False)
        table.add_column(f"executors of {CORES_PER_EXECUTOR} cores", justify="right")
        table.add_column("copy and verification take", justify="right")
        for count, seconds in estimate.seconds_by_executors:
            mark = "  <- advised" if count == estimate.advised_executors else ""
            table.add_row(str(count), _duration_text(seconds) + mark)
        yield Padding(table, (0, 0, 0, 2))
    costs = f"{COPY_CPU_SECONDS_PER_GB:g} CPU-seconds per GB to copy and {VERIFY_CPU_SECONDS_PER_GB:g} to verify"
    text = f"Assumed: {costs}, for each side, both measured at 1 KB; the network and both clusters keep up; small"
    text += " batches and records cost more."
    yield Padding(Text(text, style="dim"), (0, 0, 0, 2))


def _estimate_text(estimate: Estimate) -> str:
    """Return what is copied of a wave, and how long that takes with the advised executors."""
    if not estimate.partitions:
        return "nothing of it is copied"
    if estimate.size is None:
        return f"{format_count(estimate.partitions, 'partition')} of unknown size"
    count = estimate.advised_executors
    seconds = dict(estimate.seconds_by_executors)[count]
    return (
        f"{format_size(estimate.size)} in {format_count(estimate.partitions, 'partition')}; with"
        f" {format_count(count, 'executor')}, copy and verification take {_duration_text(seconds)}"
    )


def _duration_text(seconds: float | None) -> str:
    if seconds is None:
        return "never ends: records are written faster"
    return f"about {format_duration(seconds)}" if seconds >= _SHORTEST else "less than a minute, plus Spark's start"
