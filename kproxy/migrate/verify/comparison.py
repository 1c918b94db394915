"""One partition during its verification."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kproxy.migrate.clusters.log_bounds import LogBounds
from kproxy.migrate.clusters.topic_identities import MigratedTopic
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.verify.differences import EXTRA, Difference, RecordDigest
from kproxy.migrate.verify.pieces import DIGEST_MODULUS, PartitionPiece, source_offset, whole_partition
from kproxy.migrate.verify.results import PartitionResult, VerifiedRange


@dataclass(frozen=True, slots=True)
class UnknownRecords:
    """Records of a target partition that kproxy did not copy."""

    count: int
    """Minimum number of records."""
    first: RecordDigest
    """The first of them."""
    writer: str
    """Description of the producer that wrote the first one."""


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
    result: PartitionResult
    """The result so far; its range is that of `to_range` in the end."""
    stopped: bool = False
    """True after the first difference: later offsets count as compared, not as verified."""
    unknown: int = 0
    """Records after the last copied one that kproxy did not copy."""
    digest: int | None = 0
    """The digest of `VerifiedRange`."""

    def add_digest(self, digest: int) -> None:
        """Add the hashes of more records that were compared and are equal."""
        if self.digest is not None:
            self.digest = (self.digest + digest) % DIGEST_MODULUS

    @property
    def where(self) -> TopicPartition:
        """The topic and partition on the source."""
        return self.copied.topic, self.copied.partition

    def add_unknown(self, unknown: UnknownRecords | str) -> None:
        """Add unknown records after the last copied one, or the reason why they could not be read."""
        if isinstance(unknown, str):
            self.result.note = self.result.note or unknown
            self.unknown = 0 if self.previous is None else self.previous.unknown
            return
        self.unknown = unknown.count
        self.result.extra += unknown.count
        if self.result.difference is None:
            copied, first = self.copied, unknown.first
            self.result.difference = Difference(
                *(copied.topic, copied.partition, copied.target_topic),
                field=EXTRA,
                position=copied.source_next,
                source_offset=None,
                target_offset=first.offset,
                target=f"{first}, written {unknown.writer}",
                content=first.content,
            )

    def to_result(self) -> PartitionResult:
        """Return the result for the report."""
        return replace(self.result, kept=self.to_range())

    def to_range(self) -> VerifiedRange:
        """Return the verified range to save."""
        previous, result = self.previous or VerifiedRange(self.since, self.since), self.result
        removed = result.compacted_source + result.compacted_target + result.compacted_both
        return VerifiedRange(
            since=self.since,
            upto=self.upto,
            records=previous.records + result.records,
            deleted=previous.deleted + result.deleted,
            compacted=previous.compacted + removed,
            unknown=self.unknown,
            digest=self.digest,
        )


def _new_comparison(
    copied: CopiedPartition,
    begin: int,
    logs: tuple[LogBounds, LogBounds],
    verified: VerifiedRange,
    previous: VerifiedRange | None,
) -> PartitionComparison:
    piece, (source, target) = whole_partition(copied, begin), logs
    names = copied.topic, copied.partition, copied.target_topic
    result = PartitionResult(*names, copied.source_begin, copied.source_next, source.end, verified)
    return PartitionComparison(
        copied=copied,
        piece=piece,
        source=source,
        target=target,
        since=verified.since,
        upto=verified.upto,
        previous=previous,
        result=result,
        digest=0 if previous is None else previous.digest,
    )


def start_comparison(
    copied: CopiedPartition, previous: VerifiedRange | None, source: LogBounds, target: LogBounds
) -> PartitionComparison:
    """Return a comparison of the offsets that were copied and not verified before."""
    start = max(copied.source_begin, copied.verified_upto if previous is None else previous.upto)
    begin = min(max(start, source.begin), copied.source_next)
    since = previous.since if previous is not None else copied.source_begin if copied.verified_upto else begin
    comparison = _new_comparison(copied, begin, (source, target), VerifiedRange(since, begin), previous)
    comparison.result.deleted = begin - min(start, begin)
    if source.end < copied.source_next:
        comparison.result.note = (
            f"the source ends at {source.end}, but was copied up to {copied.source_next}: was the topic deleted and"
            " recreated, or did it lose records?"
        )
        comparison.piece = comparison.piece.part(begin, max(begin, source.end))
    if target.high >= 0:
        comparison.result.note = comparison.result.note or (
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
    logs = LogBounds(begin, copied.source_next), LogBounds(0, copied.target_next)
    verified = previous or VerifiedRange(begin, begin)
    comparison = _new_comparison(copied, copied.source_next, logs, verified, previous)
    comparison.result.note = reason
    return comparison


def uncopied_partition(topic: MigratedTopic, partition: int, reason: str) -> PartitionComparison:
    """Return a comparison of a partition that the state topic does not have."""
    return skip_comparison(CopiedPartition.without_records(topic.topic, partition, topic.target_topic), None, reason)
