"""One partition during its verification."""

from __future__ import annotations

from dataclasses import dataclass, field

from kproxy.migrate.clusters.log_bounds import LogBounds
from kproxy.migrate.clusters.topic_identities import MigratedTopic
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.verify.differences import EXTRA, Difference
from kproxy.migrate.verify.pieces import PartitionPiece, source_offset, whole_partition
from kproxy.migrate.verify.results import PartitionResult, VerifiedRange
from kproxy.migrate.verify.trailing_records import UnknownRecords

_COUNTS = (
    "records",
    "blocks",
    "bad",
    "extra",
    "compacted_source",
    "compacted_target",
    "compacted_both",
    "total_blocks",
    "client_records",
)


@dataclass(slots=True)
class PartitionComparison:
    """One partition during its verification."""

    copied: CopiedPartition
    piece: PartitionPiece
    source: LogBounds
    target: LogBounds
    since: int
    """Source offset from which the partition is verified."""
    upto: int
    """Source offset up to which it is verified."""
    previous: VerifiedRange | None
    """The range that an earlier verification saved."""
    deleted: int = 0
    """Offsets that the source deleted before they were compared."""
    stopped: bool = False
    """True after the first difference: later offsets count as compared, not as verified."""
    difference: Difference | None = None
    note: str = ""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    client_offsets: int = 0
    """Offsets after the last copied record that clients may have written."""
    undecided_offsets: int = 0
    """Offsets of open transactions at the end of the target's log."""
    unknown: int = 0
    """Records after the last copied one that kproxy did not copy."""

    @property
    def where(self) -> tuple[str, int]:
        """The topic and partition on the source."""
        return self.copied.topic, self.copied.partition

    def add_unknown(self, unknown: UnknownRecords | str) -> None:
        """Add unknown records after the last copied one, or the reason why they could not be read."""
        if isinstance(unknown, str):
            self.note = self.note or unknown
            self.unknown = 0 if self.previous is None else self.previous.unknown
            return
        self.unknown = unknown.count
        self.counts["extra"] += unknown.count
        if self.difference is None:
            copied, first = self.copied, unknown.first
            self.difference = Difference(
                copied.topic,
                copied.partition,
                copied.target_topic,
                EXTRA,
                copied.source_next,
                None,
                first.offset,
                "",
                f"{first}, written {unknown.writer}",
                first.content,
            )

    def to_result(self) -> PartitionResult:
        """Return the result for the report."""
        copied = self.copied
        return PartitionResult(
            copied.topic,
            copied.partition,
            copied.target_topic,
            copied.source_begin,
            copied.source_next,
            self.source.end,
            self.to_range(),
            deleted=self.deleted,
            client_offsets=self.client_offsets,
            undecided_offsets=self.undecided_offsets,
            difference=self.difference,
            note=self.note,
            **self.counts,
        )

    def to_range(self) -> VerifiedRange:
        """Return the verified range to save."""
        previous = self.previous or VerifiedRange(self.since, self.since)
        removed = sum(self.counts[name] for name in ("compacted_source", "compacted_target", "compacted_both"))
        return VerifiedRange(
            self.since,
            self.upto,
            previous.records + self.counts["records"],
            previous.deleted + self.deleted,
            previous.compacted + removed,
            self.unknown,
        )


def start_comparison(
    copied: CopiedPartition, previous: VerifiedRange | None, source: LogBounds, target: LogBounds
) -> PartitionComparison:
    """Return a comparison of the offsets that were copied and not verified before."""
    start = max(copied.source_begin, copied.verified_upto if previous is None else previous.upto)
    begin = min(max(start, source.begin), copied.source_next)
    since = previous.since if previous is not None else copied.source_begin if copied.verified_upto else begin
    comparison = PartitionComparison(
        copied,
        whole_partition(copied, begin),
        source,
        target,
        since,
        begin,
        previous,
        deleted=begin - min(start, begin),
    )
    if source.end < copied.source_next:
        comparison.note = (
            f"the source ends at {source.end}, but was copied up to {copied.source_next}: was the topic deleted and"
            " recreated, or did it lose records?"
        )
        comparison.piece = comparison.piece.part(begin, max(begin, source.end))
    if target.high >= 0:
        comparison.note = comparison.note or (
            f"an open transaction on the target hides the records from offset {target.end} on: run the same command"
            " when it has ended"
        )
        hidden = source_offset(copied.map, target.end)
        if hidden is not None:
            comparison.piece = comparison.piece.part(begin, max(begin, min(hidden, comparison.piece.end)))
    return comparison


def skip_comparison(copied: CopiedPartition, previous: VerifiedRange | None, reason: str) -> PartitionComparison:
    """Return a comparison without offsets, for a partition that cannot be compared now.

    Without `previous`, nothing of it counts as verified.
    """
    begin = copied.source_begin
    since, upto = (begin, begin) if previous is None else (previous.since, previous.upto)
    source, target = LogBounds(begin, copied.source_next), LogBounds(0, copied.target_next)
    comparison = PartitionComparison(
        copied, whole_partition(copied, copied.source_next), source, target, since, upto, previous
    )
    comparison.note = reason
    return comparison


def uncopied_partition(topic: MigratedTopic, partition: int, reason: str) -> PartitionComparison:
    """Return a comparison of a partition that the state topic does not have."""
    return skip_comparison(
        CopiedPartition(topic.topic, partition, topic.target_topic, 0, 0, 0, 0, 0, OffsetMap()), None, reason
    )
