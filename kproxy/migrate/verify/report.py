"""What a verification found, for a terminal of 80 columns and for programs. Pure; `reportpage` has the HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kproxy.base.printable import escaped
from kproxy.migrate.verify.results import PartitionResult, VerificationReport

_WIDTH = 80
_BAR, _NAME = 20, 34
# Partitions of one topic that are named one by one; of more, how many there are.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class TopicReport:
    """The partitions of one topic together."""

    name: str
    partitions: tuple[PartitionResult, ...]

    @property
    def copied(self) -> int:
        """Offsets of the source that were copied."""
        return sum(one.copied - one.begin for one in self.partitions)

    @property
    def deleted(self) -> int:
        return sum(one.kept.deleted for one in self.partitions)

    @property
    def verified(self) -> int:
        """Offsets that are verified, not those that could not be compared any more."""
        return sum(max(0, one.kept.upto - one.begin - one.kept.deleted) for one in self.partitions)

    @property
    def lag(self) -> int:
        """Offsets of the source that are not copied yet."""
        return sum(max(0, one.source_end - one.copied) for one in self.partitions)

    @property
    def differing(self) -> int:
        """Partitions that are not the same on both sides."""
        return sum(not one.is_equal for one in self.partitions)


def group_topics(report: VerificationReport) -> list[TopicReport]:
    """Those with differences first."""
    found: dict[str, list[PartitionResult]] = {}
    for one in report.partitions:
        found.setdefault(one.topic, []).append(one)
    made = [TopicReport(name, tuple(partitions)) for name, partitions in found.items()]
    return sorted(made, key=lambda topic: (not topic.differing, topic.name))


def percent(part: int, whole: int) -> str:
    """Never 100 % unless it is all, and never 0 % unless it is nothing."""
    if not whole:
        return "–"
    share = part / whole * 100
    return f"{100 if part >= whole else min(99.9, max(0.1, share)) if part else 0:.3g} %"


def topic_percent(topic: TopicReport, part: int, whole: int) -> str:
    """`percent` of a topic: never 100 % while something of it is not the same on both sides."""
    return percent(max(0, whole - 1) if topic.differing and part >= whole else part, whole)


def headline(report: VerificationReport) -> str:
    """One sentence that does not say more than is known."""
    wrong = sum(not one.is_equal for one in report.partitions)
    count, records = len(report.partitions), sum(one.records for one in report.partitions)
    if not count:
        return "Nothing has been copied yet, so nothing is verified."
    if report.share is not None:
        blocks, of = sum(one.blocks for one in report.partitions), sum(one.total_blocks for one in report.partitions)
        found = f"{wrong} of {count} partitions differ" if wrong else "no difference found"
        return f"Sampling: {blocks} of {of} blocks compared, {records:,} records: {found}. Nothing counts as verified."
    if wrong:
        return f"{wrong} of {count} partitions are not the same on both sides."
    behind = sum(not one.is_complete for one in report.partitions)
    if behind:
        return f"{behind} of {count} partitions are not verified up to where they are copied."
    return f"All {count} partitions are verified up to where they were copied when this began."


def notes(one: PartitionResult) -> Iterator[str]:
    """What has to be known of a partition beside how far it is verified."""
    if one.note:
        yield one.note
    if one.difference is not None:
        yield str(one.difference)
    if one.bad:
        yield f"{one.bad:,} blocks differ of the {one.blocks:,} that were compared"
    if one.extra:
        behind = f", {one.kept.unknown:,} of them after the last copied record" if one.kept.unknown else ""
        yield f"{one.extra:,} records on the target that were not copied from the source{behind}"
    if one.client_records:
        yield f"{one.client_records:,} records on the target were written by clients that were routed there before"
    if one.client_offsets:
        yield (
            f"{one.client_offsets:,} offsets on the target after the last copied record were not compared: clients"
            " that were routed to the target write there, and the source does not have these records"
        )
    if one.undecided_offsets:
        yield (
            f"{one.undecided_offsets:,} offsets at the end of the target's log belong to open transactions, of the"
            " copy or of another producer: the next verification checks them"
        )
    if one.kept.deleted:
        yield f"{one.kept.deleted:,} offsets cannot be verified any more: the source has deleted them"
    removed = {"the source": one.compacted_source, "the target": one.compacted_target, "both sides": one.compacted_both}
    said = [f"{number:,} from {side}" for side, number in removed.items() if number]
    if said:
        yield f"compaction has removed records since they were copied, which is accepted: {', '.join(said)}"


def verified_text(one: PartitionResult, *, sampling: bool = False) -> str:
    """How far one partition is verified. Never more than is known."""
    if sampling:
        return f"sampling: {one.blocks:,} of {one.total_blocks:,} blocks compared, {one.records:,} records"
    since = f" from {one.kept.since:,}" if one.kept.since else ""
    return f"verified{since} up to source offset {one.kept.upto:,} of {one.copied:,}"


def render_text(report: VerificationReport, *, fancy: bool = True) -> list[str]:
    """Lines for a terminal."""
    full, empty = ("█", "░") if fancy else ("#", ".")
    lines = [*textwrap.wrap(headline(report), _WIDTH), ""]
    sampling = report.share is not None
    for topic in group_topics(report):
        share = sum(one.blocks for one in topic.partitions), sum(one.total_blocks for one in topic.partitions)
        part, whole = share if sampling else (topic.verified, topic.copied)
        drawn = min(_BAR - bool(topic.differing), part * _BAR // whole) if whole else 0
        bar = full * drawn + empty * (_BAR - drawn)
        mark = "differs" if topic.differing else ""
        said = topic_percent(topic, part, whole)
        word = "compared" if sampling else "verified"
        name = escaped(topic.name)
        name = name if len(name) <= _NAME else name[: _NAME - 1] + ("…" if fancy else "~")
        lines.append(f"{name:<{_NAME}} {bar} {said:>6} {word} {mark}".rstrip())
        lines += _partitions(topic, sampling)
    compared = sum(one.records for one in report.partitions)
    lines += ["", f"{compared:,} records compared in {report.seconds:.1f} s."]
    if not sampling:
        lines[-1] += " Percentages are of the source's offsets."
    return lines


def _partitions(topic: TopicReport, sampling: bool) -> Iterator[str]:
    told = [(one, list(notes(one))) for one in topic.partitions]
    if len(told) > 1 and len({tuple(said) for _, said in told}) == 1 and told[0][0].note:
        for line in told[0][1]:
            line_text = f"all {len(told)} partitions: {escaped(line)}"
            yield from textwrap.wrap(line_text, _WIDTH, initial_indent="  ", subsequent_indent="    ")
        return
    shown = [(one, said) for one, said in told if said or not (one.is_complete or sampling)]
    for one, said in shown[:_NAMED]:
        yield f"  partition {one.partition}: {verified_text(one, sampling=sampling)}"[:_WIDTH]
        for line in said:
            yield from textwrap.wrap(escaped(line), _WIDTH, initial_indent="    ", subsequent_indent="      ")
    if len(shown) > _NAMED:
        yield f"  and {len(shown) - _NAMED} more partitions"


def to_json(report: VerificationReport) -> dict[str, Any]:
    """For programs."""
    return {
        "name": report.name,
        "at": report.at,
        "seconds": round(report.seconds, 3),
        "sampling": report.share,
        "headline": headline(report),
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "target_topic": one.target_topic,
                "copied_upto": one.copied,
                "verified_since": one.kept.since,
                "verified_upto": one.kept.upto,
                "gone": one.kept.deleted,
                "records": one.records,
                "blocks": one.blocks,
                "bad_blocks": one.bad,
                "extra": one.extra,
                "behind": one.client_offsets,
                "undecided": one.undecided_offsets,
                "right": one.is_equal,
                "notes": list(notes(one)),
            }
            for one in report.partitions
        ],
        "differences": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "field": one.field,
                "source_offset": one.source_offset,
                "target_offset": one.target_offset,
                "source": one.source,
                "target": one.target,
            }
            for one in report.differences
        ],
    }
