"""What a person sees of a copy: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from kproxy.base.printable import one_line
from kproxy.migrate.copy.progress import CopyProgress, TopicProgress
from kproxy.migrate.format import format_count, format_duration, format_size

if TYPE_CHECKING:
    from rich.console import Group

# Without a terminal: how often a line is printed, in seconds.
_SAY_EVERY = 15.0
# What a terminal shows: topics, and words about what is stuck.
_ROWS, _WORDS = 20, 6
_LONGEST = 400
_WIDTH = 80
_HEADINGS = ("topic", "done", "records", "copied", "lag (offsets)", "per s", "left")


def summary_line(progress: CopyProgress) -> str:
    """One line."""
    total = progress.total()
    said = (
        f"{progress.name}: {total.done_share:.1%} of {format_count(total.partitions, 'partition')}, {total.records:,}"
        f" records, {format_size(total.size)}, {total.lag:,} offsets left, {format_size(total.rate)}/s"
    )
    if total.seconds_left:
        said += f", {format_duration(total.seconds_left)} left"
    if progress.paused:
        said += ", paused"
    return said


def batches_line(progress: CopyProgress) -> str:
    """How the batches were written that this run has copied: one line."""
    return "batches written: " + ", ".join(f"{count:,} {way}" for way, count in sorted(progress.batch_counts.items()))


def message_lines(progress: CopyProgress) -> Iterator[str]:
    """What a person should know beside the numbers: what is stuck and why, what is coming."""
    if progress.problem:
        yield f"trying again: {progress.problem}"
    reasons: dict[str, int] = {}
    for why in progress.stuck.values():
        reasons[why] = reasons.get(why, 0) + 1
    for why, count in list(reasons.items())[:_WORDS]:
        yield f"stuck: {why}" + (f" (and {count - 1} more partitions)" if count > 1 else "")
    if len(reasons) > _WORDS:
        yield f"stuck: {len(reasons) - _WORDS} more reasons: kproxy migrate status has all of them"
    yield from progress.warnings()[:_WORDS]


def _table(progress: CopyProgress, width: int) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(pad_edge=False, box=None)
    lines = progress.topics()
    # What is not done is of interest.
    shown = sorted(lines, key=lambda line: (not line.stuck, line.lag == 0, -line.lag))[:_ROWS]
    rows = [_cells(line) for line in [*shown, *([progress.total()] if len(lines) != 1 else [])]]
    widths = [max(len(heading), *(len(row[at]) for row in rows)) for at, heading in enumerate(_HEADINGS)]
    # Numbers are never cut; a topic's name is.
    widths[0] = max(len(_HEADINGS[0]), min(widths[0], width - sum(widths[1:]) - 2 * len(widths)))
    for at, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if at else "left", no_wrap=True, width=widths[at])
    for row in rows:
        table.add_row(*row)
    rest = [Text(f"{len(lines) - len(shown)} more topics", "dim")] if len(lines) > len(shown) else []
    said = [Text(one_line(line, _LONGEST), "yellow") for line in message_lines(progress)]
    state = "paused: kproxy migrate resume goes on" if progress.paused else f"round {progress.round}"
    return Group(Text(f"{progress.name}: {state}", "bold"), table, *rest, *said)


def _cells(line: TopicProgress) -> tuple[str, ...]:
    return (
        one_line(line.topic, _WIDTH),
        f"{100 * line.done_share:.1f}%",
        f"{line.records:,}",
        format_size(line.size),
        f"{line.lag:,}",
        format_size(line.rate),
        "stuck" if line.stuck else format_duration(line.seconds_left),
    )


class ProgressDisplay:
    """Takes what is new, from any thread, and shows it now and then."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._lock = threading.Lock()
        self._next = 0.0
        self._said: set[str] = set()
        self.update: object = None
        self.width = _WIDTH

    def __call__(self, progress: CopyProgress) -> None:
        with self._lock:
            if callable(self.update):
                self.update(_table(progress, self.width))
                return
            for line in message_lines(progress):
                if line not in self._said:
                    self._said.add(line)
                    print(one_line(line, _LONGEST), file=self._to, flush=True)
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + _SAY_EVERY
                print(summary_line(progress), file=self._to, flush=True)


@contextmanager
def display_progress(to: TextIO = sys.stderr) -> Iterator[ProgressDisplay]:
    """For as long as the context is open."""
    shown = ProgressDisplay(to)
    if not to.isatty():
        yield shown
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=to)
    with Live(console=console, refresh_per_second=2, transient=False) as live:
        shown.update, shown.width = live.update, console.width
        yield shown
