"""One verification: the ranges that are compared, job by job, and the results that follow.

It shares only the offset map with the copier. It saves the verified ranges after each job, so an interrupted run is not
lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from kproxy.base.errors import KproxyError
from kproxy.migrate.clusters.log_bounds import find_compacted_topics, read_log_bounds
from kproxy.migrate.clusters.topic_identities import MigratedTopic, describe_changes, learn_topics
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.copy.sparksession import tuned_for_short_job
from kproxy.migrate.spec.migration import SOURCE, TARGET
from kproxy.migrate.verify.compaction import explain_missing
from kproxy.migrate.verify.comparison import PartitionComparison, skip_comparison, start_comparison, uncopied_partition
from kproxy.migrate.verify.differences import match_moved
from kproxy.migrate.verify.driverhashing import DriverHashing
from kproxy.migrate.verify.hashing import find_first_differences, hash_blocks, to_upstream_error
from kproxy.migrate.verify.pieces import (
    BLOCK_BITS,
    PartitionPiece,
    PieceVerdict,
    Sides,
    compare_blocks,
    plan_jobs,
    sample_blocks,
    source_offset,
    split_piece,
)
from kproxy.migrate.verify.results import VerificationReport, VerifiedRange
from kproxy.migrate.verify.trailing_records import CopiedEnd, check_tails

T = TypeVar("T")
# Receives the verified ranges after each job, unless it is a sampling.
SaveRanges = Callable[[Mapping[TopicPartition, VerifiedRange]], None]
# Maximum number of first differences.
MAX_DIFFERENCES = 20
# A job of at most this many offsets ends sooner without Spark's optimizations for long jobs.
SHORT_JOB_OFFSETS = 1 << 16
# Maximum number of attempts for a piece of which the source deletes records meanwhile.
_MAX_ATTEMPTS = 3
# How long a leader may be missing, in seconds.
_TIMEOUT = 30.0
_NO_OFFSETS = "the {} returned no offsets of this partition: does it have a leader, and may this principal describe it?"


class Verification:
    """One run of a verification.

    `source` and `target` are bootstrap servers that need no login, from every Spark host.
    """

    def __init__(
        self,
        spark: Any,
        source: str,
        target: str,
        *,
        sample_share: float | None = None,
        show_bytes: bool = False,
        full: bool = False,
        read_copied_ends: Callable[[], Mapping[TopicPartition, CopiedEnd]],
        save: SaveRanges = lambda _: None,
        on_progress: Callable[[str], None] = lambda _: None,
        others_write: bool = False,
        clients_write: Callable[[], bool] = lambda: False,
        driver_hashing: DriverHashing | None = None,
    ) -> None:
        """Create a verification.

        `driver_hashing` reads few records without a Spark job; None if Spark reads them all.
        `others_write`: records of clients between the copied ones on the target are no difference. `clients_write`:
        whether clients may write to the target now, so that records after the last copied one cannot be judged.
        `read_copied_ends` reads the current copied ends from the state topic.
        """
        self._others_write = others_write
        self._clients_write, self._read_copied_ends = clients_write, read_copied_ends
        self._spark, self._source, self._target = spark, source, target
        self._driver_hashing = driver_hashing
        self._sample_share, self._show_bytes, self._full = sample_share, show_bytes, full
        self._save: SaveRanges = save if sample_share is None else lambda _: None
        self._on_progress = on_progress
        self._comparisons: dict[TopicPartition, PartitionComparison] = {}
        self._suspects: dict[TopicPartition, PartitionPiece] = {}
        self._compacted: set[str] = set()

    def run(
        self,
        name: str,
        copied: Mapping[TopicPartition, CopiedPartition],
        ranges: Mapping[TopicPartition, VerifiedRange],
        topics: Mapping[str, MigratedTopic],
    ) -> VerificationReport:
        """Compare both sides, and return the report. `topics` has all topics of the migration, by source topic.

        Raises ConfigError if Spark has no Kafka connector.
        """
        started, timestamp = time.monotonic(), time.time_ns() // 1_000_000
        lost = self._find_lost(topics)
        existing = {place: partition for place, partition in copied.items() if partition.topic not in lost}
        sources = read_log_bounds(self._source, existing)
        target_ends = {partition.target_where: partition.target_next for partition in existing.values()}
        targets = read_log_bounds(self._target, target_ends, target_ends)
        if self._full:
            ranges = {
                place: partition.restart_at(sources[place].begin)
                for place, partition in ranges.items()
                if place in sources
            }
        for place, partition in sorted(copied.items()):
            previous = ranges.get(place)
            if place in sources and partition.target_where in targets:
                bounds = sources[place], targets[partition.target_where]
                self._comparisons[place] = start_comparison(partition, previous, *bounds)
            else:
                no_offsets = _NO_OFFSETS.format(TARGET if place in sources else SOURCE)
                reason, is_recreated = lost.get(partition.topic, (no_offsets, False))
                self._comparisons[place] = skip_comparison(partition, None if is_recreated else previous, reason)
        self._compacted = self._compacted_topics() if copied else set()
        self._compare()
        check_tails(
            self._target,
            self._comparisons,
            [migrated for topic, migrated in topics.items() if topic not in lost or not lost[topic][1]],
            clients_write=self._clients_write,
            read_copied_ends=self._read_copied_ends,
            show_bytes=self._show_bytes,
        )
        self._name_differences()
        self._save_rest(ranges)
        partitions = [partition.to_result() for partition in self._comparisons.values()]
        reported_topics = {partition.topic for partition in partitions}
        partitions += [
            uncopied_partition(topics[topic], 0, reason).to_result()
            for topic, (reason, _) in lost.items()
            if topic not in reported_topics
        ]
        partitions.sort(key=lambda partition: (partition.topic, partition.partition))
        seconds = time.monotonic() - started
        return VerificationReport(name, timestamp, seconds, tuple(partitions), self._sample_share)

    def _find_lost(self, topics: Mapping[str, MigratedTopic]) -> dict[str, tuple[str, bool]]:
        """Return why topics cannot be compared, because they were deleted or recreated, by source topic.

        The second value: whether nothing of the topic counts as verified any more.
        """
        lost: dict[str, tuple[str, bool]] = {}
        for side, address in ((SOURCE, self._source), (TARGET, self._target)):
            with ClusterClient(address) as cluster:
                names = [migrated_topic.name_on(side) for migrated_topic in topics.values()]
                metadata = retry(cluster, lambda: learn_topics(cluster, names), _TIMEOUT)  # noqa: B023
            lost |= {
                topic: (reason, side == TARGET) for topic, reason in describe_changes(side, topics, metadata).items()
            }
        return lost

    def _compacted_topics(self) -> set[str]:
        """Return the source topics that are compacted on at least one side."""
        copied = [comparison.copied for comparison in self._comparisons.values()]
        source = find_compacted_topics(self._source, {partition.topic for partition in copied})
        target = find_compacted_topics(self._target, {partition.target_topic for partition in copied})
        return {
            partition.topic for partition in copied if partition.topic in source or partition.target_topic in target
        }

    # Comparing

    def _compare(self) -> None:
        pieces_by_partition = [list(self._pieces(comparison)) for comparison in self._comparisons.values()]
        total = sum(piece.end - piece.begin for pieces in pieces_by_partition for piece in pieces)
        done = 0
        for number, job in enumerate(plan_jobs(pieces_by_partition), 1):
            offsets = sum(piece.end - piece.begin for piece in job)
            description = f"job {number}: {len(job)} partitions, {offsets:,} offsets of {total:,}, {done:,} done"
            self._on_progress(description)
            self._spark.sparkContext.setJobDescription(f"kproxy migrate verify, {description}")
            self._compare_job(job)
            done += offsets
            self._save({piece.where: self._comparisons[piece.where].to_range() for piece in job})

    def _pieces(self, comparison: PartitionComparison) -> Iterator[PartitionPiece]:
        if comparison.piece.begin >= comparison.piece.end:
            return
        if self._sample_share is None:
            yield from split_piece(comparison.piece)
            return
        comparison.result.total_blocks = (
            (comparison.piece.end - 1 >> BLOCK_BITS) - (comparison.piece.begin >> BLOCK_BITS) + 1
        )
        yield from sample_blocks(comparison.piece, self._sample_share)

    def _compare_job(self, job: Sequence[PartitionPiece]) -> None:
        """Compare these pieces; compare again those of which the source has deleted a part meanwhile."""
        for _ in range(_MAX_ATTEMPTS):
            verdicts = self._judge([self._readable(piece) for piece in job])
            begins = read_log_bounds(self._source, [piece.where for piece in job])
            retried, compacted = [], []
            for piece, verdict in zip(job, verdicts, strict=True):
                begin = begins[piece.where].begin if piece.where in begins else piece.begin
                if not verdict.is_equal and begin > piece.begin:
                    retried.append(self._drop_deleted(piece, begin))
                elif not verdict.is_equal and piece.topic in self._compacted:
                    compacted.append(verdict)
                else:
                    self._settle(verdict)
            if compacted:
                self._settle_compacted(compacted)
            job = [piece for piece in retried if piece.begin < piece.end]
            if not job:
                return
        for piece in job:
            self._stop(
                self._comparisons[piece.where], piece.begin, "the source deletes records faster than they are compared"
            )

    def _readable(self, piece: PartitionPiece) -> PartitionPiece:
        """Clip a piece to the target's log: consumers read from its begin to its end only."""
        target = self._comparisons[piece.where].target
        begin, end = max(piece.target_begin, target.begin), min(piece.target_end, target.end)
        return replace(piece, target_begin=min(begin, end), target_end=end)

    def _drop_deleted(self, piece: PartitionPiece, begin: int) -> PartitionPiece:
        """Return the rest of a piece whose beginning retention has deleted."""
        comparison = self._comparisons[piece.where]
        begin = min(begin, piece.end)
        comparison.result.deleted += begin - piece.begin
        self._advance(comparison, begin)
        return piece.part(begin, piece.end)

    def _judge(self, job: Sequence[PartitionPiece]) -> list[PieceVerdict]:
        source, target = self._hash(job)
        return [
            compare_blocks(
                piece, source.get(piece.where, {}), target.get(piece.target_where, {}), others_write=self._others_write
            )
            for piece in job
        ]

    def _hash(self, job: Sequence[PartitionPiece]) -> Sides:
        """Return the sums of both sides, with a Spark job unless the driver can read so few records itself."""
        if self._driver_hashing is not None and (sides := self._driver_hashing.hash_blocks(job)) is not None:
            return sides
        few = sum(piece.end - piece.begin for piece in job) <= SHORT_JOB_OFFSETS
        with tuned_for_short_job(self._spark) if few else nullcontext():
            return self._run_job(lambda: hash_blocks(self._spark, self._source, self._target, job))

    def _run_job(self, job: Callable[[], T]) -> T:
        """Run a Spark job, and replace its long error by one line."""
        try:
            return job()
        except KproxyError:
            raise
        except Exception as error:
            if not type(error).__module__.startswith(("pyspark.", "py4j.")):
                raise
            raise to_upstream_error(error) from error

    def _settle(self, verdict: PieceVerdict) -> None:
        comparison, piece = self._comparisons[verdict.piece.where], verdict.piece
        comparison.result.blocks += verdict.blocks
        comparison.result.records += verdict.matching
        comparison.result.client_records += verdict.client_records
        if verdict.is_equal:
            comparison.add_digest(verdict.digest)
            self._advance(comparison, piece.end)
            return
        comparison.result.bad += len(verdict.bad)
        comparison.result.extra += verdict.extra.count
        begin = max(piece.begin, verdict.bad[0] << BLOCK_BITS) if verdict.bad else piece.end
        if verdict.extra.count:
            begin = min(begin, _source_position(piece, verdict.extra.first))
        block = min(begin, piece.end - 1) >> BLOCK_BITS
        self._stop(comparison, begin, suspect=piece.part(block << BLOCK_BITS, block + 1 << BLOCK_BITS))

    def _settle_compacted(self, job: Sequence[PieceVerdict]) -> None:
        """Compare blocks that compaction may have changed record by record."""
        sources = {verdict.piece.where: self._comparisons[verdict.piece.where].source for verdict in job}
        targets = {verdict.piece.target_where: self._comparisons[verdict.piece.where].target for verdict in job}
        pieces = [verdict.piece for verdict in job]
        results = self._run_job(
            lambda: explain_missing(self._spark, (self._source, self._target), pieces, (sources, targets))
        )
        for verdict in job:
            piece = verdict.piece
            comparison, result = self._comparisons[piece.where], results[piece.where]
            comparison.digest = None  # these records were compared one by one
            comparison.result.records += result.same
            comparison.result.blocks += verdict.blocks
            comparison.result.extra += verdict.extra.count
            comparison.result.client_records += verdict.client_records
            extra = -1 if self._others_write else result.extra
            counts = comparison.result
            counts.compacted_source += result.compacted_source
            counts.compacted_target += result.compacted_target
            counts.compacted_both += result.compacted_both
            counts.bad += result.bad
            begin = piece.end if result.first < 0 else result.first
            if result.first < 0 and extra < 0:
                self._advance(comparison, piece.end)
                continue
            if extra >= 0:
                begin = min(begin, _source_position(piece, extra))
            position = min(begin, piece.end - 1)
            self._stop(comparison, begin, suspect=piece.part(position, position + 1))

    def _advance(self, comparison: PartitionComparison, upto: int) -> None:
        if not comparison.stopped and self._sample_share is None:
            comparison.upto = max(comparison.upto, upto)

    def _stop(
        self, comparison: PartitionComparison, upto: int, note: str = "", suspect: PartitionPiece | None = None
    ) -> None:
        """Count later offsets as compared, not as verified."""
        if comparison.stopped:
            return
        comparison.stopped, comparison.digest = True, None
        comparison.result.note = note or comparison.result.note
        if self._sample_share is None:
            comparison.upto = max(comparison.upto, upto)
        if suspect is not None:
            self._suspects[suspect.where] = self._readable(suspect)

    def _save_rest(self, saved: Mapping[TopicPartition, VerifiedRange]) -> None:
        """Save the ranges of partitions without a job."""
        current = {topic_partition: verified.to_range() for topic_partition, verified in self._comparisons.items()}
        if changed := {
            topic_partition: verified
            for topic_partition, verified in current.items()
            if _has_changed(verified, saved.get(topic_partition))
        }:
            self._save(changed)

    # Differences

    def _name_differences(self) -> None:
        """Find the first difference of each of the first partitions that differ."""
        suspects = [piece for _, piece in sorted(self._suspects.items())][:MAX_DIFFERENCES]
        if not suspects:
            return
        self._spark.sparkContext.setJobDescription("kproxy migrate verify, first differences")
        differences = self._run_job(
            lambda: list(
                find_first_differences(self._spark, self._source, self._target, suspects, show_bytes=self._show_bytes)
            )
        )
        trailing = [
            comparison.result.difference
            for comparison in self._comparisons.values()
            if comparison.result.difference is not None
        ]
        named = iter(match_moved([*(difference for difference in differences if difference is not None), *trailing]))
        for piece, difference in zip(suspects, differences, strict=True):
            comparison = self._comparisons[piece.where]
            if difference is None:
                comparison.result.note = "a difference was found, but is gone now: verify again"
                continue
            comparison.result.difference = next(named)
            if self._sample_share is None:
                comparison.upto = max(comparison.upto, min(difference.position, piece.end))
        self._save({piece.where: self._comparisons[piece.where].to_range() for piece in suspects})


def _source_position(piece: PartitionPiece, extra: int) -> int:
    """Return the source offset of the record that follows an extra record of the target."""
    next_offset = source_offset(piece.map, extra)
    return piece.end if next_offset is None else max(piece.begin, min(next_offset, piece.end))


def _has_changed(current: VerifiedRange, previous: VerifiedRange | None) -> bool:
    """Return True if the current range must be saved although no job did."""
    saved = previous or VerifiedRange(current.since, current.since)
    return current.unknown != saved.unknown or current.upto < saved.upto
