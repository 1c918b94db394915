"""The report of a verification, for a terminal of 80 columns and as JSON. Pure; `reportpage` has the HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kproxy.base.printable import escaped
from kproxy.migrate.copier.state import copy_again_advice
from kproxy.migrate.verify.results import PartitionResult, VerificationReport

_WIDTH = 80
_BAR, _NAME = 20, 34
# Maximum number of partitions of a topic that are listed.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class TopicReport:
    """The partitions of one topic together."""

    name: str
    partitions: tuple[PartitionResult, ...]

    @property
    def copied(self) -> int:
        """Number of source offsets that were copied."""
        return sum(partition.copied - partition.begin for partition in self.partitions)

    @property
    def deleted(self) -> int:
        return sum(partition.kept.deleted for partition in self.partitions)

    @property
    def verified(self) -> int:
        """Number of verified offsets, without those that could not be compared."""
        return sum(
            max(0, partition.kept.upto - partition.begin - partition.kept.deleted) for partition in self.partitions
        )

    @property
    def lag(self) -> int:
        """Number of source offsets that are not copied yet."""
        return sum(max(0, partition.source_end - partition.copied) for partition in self.partitions)

    @property
    def differing(self) -> int:
        """Number of partitions that differ."""
        return sum(not partition.is_equal for partition in self.partitions)


def group_topics(report: VerificationReport) -> list[TopicReport]:
    """Return the topics of a report, those with differences first."""
    partitions_by_topic: dict[str, list[PartitionResult]] = {}
    for partition in report.partitions:
        partitions_by_topic.setdefault(partition.topic, []).append(partition)
    topics = [TopicReport(name, tuple(partitions)) for name, partitions in partitions_by_topic.items()]
    return sorted(topics, key=lambda topic: (not topic.differing, topic.name))


def percent(part: int, total: int) -> str:
    """Return a percentage that is 100 % only for all, and 0 % only for nothing."""
    if not total:
        return "–"
    share = part / total * 100
    return f"{100 if part >= total else min(99.9, max(0.1, share)) if part else 0:.3g} %"


def topic_percent(topic: TopicReport, part: int, total: int) -> str:
    """Return a percentage of a topic that is never 100 % while a partition differs."""
    return percent(max(0, total - 1) if topic.differing and part >= total else part, total)


def headline(report: VerificationReport) -> str:
    """Return one sentence that claims no more than is known."""
    differing = sum(not partition.is_equal for partition in report.partitions)
    count, records = len(report.partitions), sum(partition.records for partition in report.partitions)
    if not count:
        return "Nothing has been copied yet, so nothing is verified."
    if report.sample_share is not None:
        blocks, total_blocks = (
            sum(partition.blocks for partition in report.partitions),
            sum(partition.total_blocks for partition in report.partitions),
        )
        result = f"{differing} of {count} partitions differ" if differing else "no difference found"
        compared = f"{blocks} of {total_blocks} blocks compared, {records:,} records"
        return f"Sampling: {compared}: {result}. Nothing counts as verified."
    if differing:
        return f"{differing} of {count} partitions are not the same on both sides."
    incomplete = sum(not partition.is_complete for partition in report.partitions)
    if incomplete:
        return f"{incomplete} of {count} partitions are not verified up to the copied offset."
    return f"All {count} partitions are verified up to the offset that was copied when the verification began."


def notes(result: PartitionResult) -> Iterator[str]:
    """Yield the notes on a partition."""
    if result.note:
        yield result.note
    if result.difference is not None:
        yield str(result.difference)
    if result.bad:
        yield f"{result.bad:,} blocks differ of the {result.blocks:,} that were compared"
    if result.extra:
        behind = f", {result.kept.unknown:,} of them after the last copied record" if result.kept.unknown else ""
        yield f"{result.extra:,} records on the target that were not copied from the source{behind}"
    if result.client_records:
        yield f"{result.client_records:,} records on the target were written by clients that were routed there before"
    if result.client_offsets:
        yield (
            f"{result.client_offsets:,} offsets on the target after the last copied record were not compared: clients"
            " that were routed to the target write there, and the source does not have these records"
        )
    if result.undecided_offsets:
        yield (
            f"{result.undecided_offsets:,} offsets at the end of the target's log belong to open transactions, of the"
            " copy or of another producer: the next verification checks them"
        )
    if result.kept.deleted:
        yield f"{result.kept.deleted:,} offsets cannot be verified any more: the source has deleted them"
    removed = {
        "the source": result.compacted_source,
        "the target": result.compacted_target,
        "both sides": result.compacted_both,
    }
    parts = [f"{number:,} from {side}" for side, number in removed.items() if number]
    if parts:
        yield f"compaction has removed records since they were copied, which is accepted: {', '.join(parts)}"


def verified_text(result: PartitionResult, *, sampling: bool = False) -> str:
    """Return how far a partition is verified."""
    if sampling:
        return f"sampling: {result.blocks:,} of {result.total_blocks:,} blocks compared, {result.records:,} records"
    since = f" from {result.kept.since:,}" if result.kept.since else ""
    return f"verified{since} up to source offset {result.kept.upto:,} of {result.copied:,}"


def render_text(report: VerificationReport, *, fancy: bool = True) -> list[str]:
    """Return the lines for a terminal."""
    full, empty = ("█", "░") if fancy else ("#", ".")
    lines = [*textwrap.wrap(headline(report), _WIDTH), ""]
    sampling = report.sample_share is not None
    for topic in group_topics(report):
        block_counts = (
            sum(partition.blocks for partition in topic.partitions),
            sum(partition.total_blocks for partition in topic.partitions),
        )
        part, total = block_counts if sampling else (topic.verified, topic.copied)
        drawn = min(_BAR - bool(topic.differing), part * _BAR // total) if total else 0
        bar = full * drawn + empty * (_BAR - drawn)
        mark = "differs" if topic.differing else ""
        percent_text = topic_percent(topic, part, total)
        word = "compared" if sampling else "verified"
        name = escaped(topic.name)
        name = name if len(name) <= _NAME else name[: _NAME - 1] + ("…" if fancy else "~")
        lines.append(f"{name:<{_NAME}} {bar} {percent_text:>6} {word} {mark}".rstrip())
        lines += _partition_lines(topic, sampling)
    compared = sum(partition.records for partition in report.partitions)
    lines += ["", f"{compared:,} records compared in {report.seconds:.1f} s."]
    if not sampling:
        lines[-1] += " Percentages are of the source's offsets."
    return lines


def _partition_lines(topic: TopicReport, sampling: bool) -> Iterator[str]:
    noted = [(partition, list(notes(partition))) for partition in topic.partitions]
    if len(noted) > 1 and len({tuple(partition_notes) for _, partition_notes in noted}) == 1 and noted[0][0].note:
        for line in noted[0][1]:
            line_text = f"all {len(noted)} partitions: {escaped(line)}"
            yield from textwrap.wrap(line_text, _WIDTH, initial_indent="  ", subsequent_indent="    ")
        return
    shown = [
        (partition, partition_notes)
        for partition, partition_notes in noted
        if partition_notes or not (partition.is_complete or sampling)
    ]
    for partition, partition_notes in shown[:_NAMED]:
        yield f"  partition {partition.partition}: {verified_text(partition, sampling=sampling)}"[:_WIDTH]
        for line in partition_notes:
            yield from textwrap.wrap(escaped(line), _WIDTH, initial_indent="    ", subsequent_indent="      ")
    if len(shown) > _NAMED:
        yield f"  and {len(shown) - _NAMED} more partitions"
    if any(partition.difference is not None for partition in topic.partitions):
        advice = escaped(copy_again_advice(topic.partitions[0].topic))
        yield from textwrap.wrap(advice, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def to_json(report: VerificationReport) -> dict[str, Any]:
    """Return the report as JSON data."""
    return {
        "name": report.name,
        "at": report.at,
        "seconds": round(report.seconds, 3),
        "sampling": report.sample_share,
        "headline": headline(report),
        "partitions": [
            {
                "topic": entry.topic,
                "partition": entry.partition,
                "target_topic": entry.target_topic,
                "copied_upto": entry.copied,
                "verified_since": entry.kept.since,
                "verified_upto": entry.kept.upto,
                "gone": entry.kept.deleted,
                "records": entry.records,
                "digest": entry.kept.digest_text or None,
                "blocks": entry.blocks,
                "bad_blocks": entry.bad,
                "extra": entry.extra,
                "behind": entry.client_offsets,
                "undecided": entry.undecided_offsets,
                "right": entry.is_equal,
                "notes": list(notes(entry)),
            }
            for entry in report.partitions
        ],
        "differences": [
            {
                "topic": entry.topic,
                "partition": entry.partition,
                "field": entry.field,
                "source_offset": entry.source_offset,
                "target_offset": entry.target_offset,
                "source": entry.source,
                "target": entry.target,
            }
            for entry in report.differences
        ],
    }
