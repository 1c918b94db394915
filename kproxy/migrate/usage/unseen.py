"""What was written to the source and passed no kproxy: producers that go round the kproxies. Pure.

 * A producer with an id wrote between two moments, and no kproxy recorded this id at the partition; or one of a later
   epoch than was recorded.
 * A log has more records of producers without an id than passed the kproxies.

Not named are kproxy's own copier, and producers that wrote nothing in that time. A mirror that writes to the source is
named, as it goes round the kproxies: `--allow-unseen TOPIC` allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic, Severity
from kproxy.base.format import abbreviate, format_count
from kproxy.base.printable import one_line
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.sourcestate import Writing
from kproxy.proxy.switching.parts import MAX_CLIENT_ID

_NO_ID = -1


def unseen_writings(usage: ObservedUsage) -> Iterator[Writing]:
    """Yield what was written and passed no kproxy."""
    source, written = usage.source, usage.written()
    for writing in () if source is None else source.writings:
        partition = written.get((writing.topic, writing.partition))
        recorded = None if partition is None else partition.producers.get(writing.producer_id)
        if writing.producer_id != _NO_ID:
            if recorded is None or recorded.epoch < writing.epoch:
                yield writing
        elif partition is None or not partition.unsized:
            left = writing.offsets - (0 if recorded is None else recorded.offsets)
            if left > 0:
                yield replace(writing, offsets=left)


def check_unseen(
    usage: ObservedUsage,
    allowed: Iterable[str] = (),
    selects_topic: Callable[[str], bool] = lambda _: True,
    severity: Severity = ERROR,
) -> Iterator[Diagnostic]:
    """Yield a finding for each topic to which a client writes that goes round the kproxies, and for groups of others.

    `allowed`: names or globs of topics where that is a note. `severity`: of the others, if the record is complete.
    """
    if usage.source is None:
        return
    allowed = tuple(allowed)
    for topic, text in describe_writings(each for each in unseen_writings(usage) if selects_topic(each.topic)):
        is_allowed = any(fnmatchcase(topic, glob) for glob in allowed)
        hint = "" if is_allowed else f"; move it behind a kproxy, or allow it with --allow-unseen {topic}"
        doubt = "" if usage.is_complete else " (or passed a kproxy while it recorded nothing)"
        yield Diagnostic(
            NOTE if is_allowed else severity if usage.is_complete else WARNING,
            f"topic {topic}",
            f"a producer goes round the kproxies{doubt}: {text}{hint}",
        )
    yield from _unseen_members(usage)


def _unseen_members(usage: ObservedUsage) -> Iterator[Diagnostic]:
    """Yield groups with members whose client ids no kproxy has recorded."""
    recorded = {one_line(client.client_id, MAX_CLIENT_ID) for client in usage.clients}
    for name, group in () if usage.source is None else usage.source.groups.items():
        if others := [member for member in group.members if member not in recorded]:
            text = (
                f"has members that no kproxy has recorded: {abbreviate(others)}. They go round the kproxies, or did"
                " nothing in that time; after a switch they get no new records"
            )
            yield Diagnostic(WARNING, f"group {name}", text)


def describe_writings(writings: Iterable[Writing]) -> Iterator[tuple[str, str]]:
    """Yield each topic that was written, and by whom, in words."""
    by_topic: dict[str, list[Writing]] = {}
    for writing in writings:
        by_topic.setdefault(writing.topic, []).append(writing)
    for topic, of_topic in sorted(by_topic.items()):
        more = f"; and {format_count(len(of_topic) - 3, 'more producer')}" if len(of_topic) > 3 else ""
        yield topic, "; ".join(map(_describe, of_topic[:3])) + more


def _describe(writing: Writing) -> str:
    who = (
        "without a producer id"
        if writing.producer_id == _NO_ID
        else f"producer id {writing.producer_id}, epoch {writing.epoch}"
    )
    count = f", {format_count(writing.offsets, 'record')}" if writing.offsets >= 0 else ""
    last = ""
    if 0 <= writing.last < 1 << 45:
        last = f", last at {datetime.fromtimestamp(writing.last / 1000, UTC).isoformat(timespec='seconds')}"
    return f"partition {writing.partition}: {who}{count}{last}"
