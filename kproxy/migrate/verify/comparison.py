"""One partition while it is verified, and what is said of it then."""

from __future__ import annotations

from dataclasses import dataclass, field

from kproxy.migrate.clusters.log_bounds import LogBounds
from kproxy.migrate.clusters.topic_identities import MigratedTopic
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.verify.differences import EXTRA, Difference
from kproxy.migrate.verify.pieces import PartitionPiece, whole_partition
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
    """One partition while it is verified."""

    copied: CopiedPartition
    piece: PartitionPiece
    source: LogBounds
    target: LogBounds
    since: int
    upto: int
    previous: VerifiedRange | None
    deleted: int = 0
    stopped: bool = False
    difference: Difference | None = None
    note: str = ""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    client_offsets: int = 0
    undecided_offsets: int = 0
    unknown: int = 0

    @property
    def where(self) -> tuple[str, int]:
        """The source's topic and partition."""
        return self.copied.topic, self.copied.partition

    def add_unknown(self, found: UnknownRecords | str) -> None:
        """Records that were not copied, behind the last one that was, or why nothing is known."""
        if isinstance(found, str):
            self.note = self.note or found
            self.unknown = 0 if self.previous is None else self.previous.unknown
            return
        self.unknown = found.count
        self.counts["extra"] += found.count
        if self.difference is None:
            one, first = self.copied, found.first
            self.difference = Difference(
                one.topic,
                one.partition,
                one.target_topic,
                EXTRA,
                one.source_next,
                None,
                first.offset,
                "",
                f"{first}, written {found.writer}",
                first.content,
            )

    def to_result(self) -> PartitionResult:
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
        had = self.previous or VerifiedRange(self.since, self.since)
        removed = sum(self.counts[name] for name in ("compacted_source", "compacted_target", "compacted_both"))
        return VerifiedRange(
            self.since,
            self.upto,
            had.records + self.counts["records"],
            had.deleted + self.deleted,
            had.compacted + removed,
            self.unknown,
        )


def start_comparison(
    copied: CopiedPartition, kept: VerifiedRange | None, source: LogBounds, target: LogBounds
) -> PartitionComparison:
    """What was copied and not verified before is to be compared."""
    start = max(copied.source_begin, copied.verified_upto if kept is None else kept.upto)
    begin = min(max(start, source.begin), copied.source_next)
    since = kept.since if kept is not None else copied.source_begin if copied.verified_upto else begin
    made = PartitionComparison(
        copied, whole_partition(copied, begin), source, target, since, begin, kept, deleted=begin - min(start, begin)
    )
    if source.end < copied.source_next:
        made.note = (
            f"the source ends at {source.end}, and was copied up to {copied.source_next}: was the topic deleted and"
            " created again, or did it lose records?"
        )
        made.piece = made.piece.part(begin, max(begin, source.end))
    return made


def skip_comparison(copied: CopiedPartition, kept: VerifiedRange | None, why: str) -> PartitionComparison:
    """Nothing of it can be compared now; without `kept`, nothing counts as verified."""
    begin = copied.source_begin
    since, upto = (begin, begin) if kept is None else (kept.since, kept.upto)
    here, there = LogBounds(begin, copied.source_next), LogBounds(0, copied.target_next)
    made = PartitionComparison(copied, whole_partition(copied, copied.source_next), here, there, since, upto, kept)
    made.note = why
    return made


def uncopied_partition(topic: MigratedTopic, partition: int, why: str) -> PartitionComparison:
    """Of a partition of which the state topic has nothing."""
    return skip_comparison(
        CopiedPartition(topic.topic, partition, topic.target_topic, 0, 0, 0, 0, 0, OffsetMap()), None, why
    )
