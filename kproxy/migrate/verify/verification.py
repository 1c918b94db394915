"""The verification: which ranges of both sides are compared, job by job, and what follows from it.

It shares nothing with the copier but the offset map. What is verified is kept after every job, so that a run which is
ended has not been in vain.
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
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.copy.sparksession import tuned_for_short_job
from kproxy.migrate.spec.migration import SOURCE, TARGET
from kproxy.migrate.verify.blocks import PieceVerdict, compare_blocks
from kproxy.migrate.verify.compaction import explain_missing
from kproxy.migrate.verify.comparison import PartitionComparison, skip_comparison, start_comparison, uncopied_partition
from kproxy.migrate.verify.differences import match_moved
from kproxy.migrate.verify.digests import find_first_differences
from kproxy.migrate.verify.hashing import hash_blocks, to_upstream_error
from kproxy.migrate.verify.pieces import (
    BLOCK_BITS,
    PartitionPiece,
    plan_jobs,
    sample_blocks,
    source_offset,
    split_piece,
)
from kproxy.migrate.verify.results import LagSample, VerificationReport, VerifiedRange
from kproxy.migrate.verify.tailcheck import TailCheck
from kproxy.migrate.verify.trailing_records import CopiedEnd

T = TypeVar("T")
Where = tuple[str, int]
# Called after each job with what is verified now, unless it is a sampling.
SaveRanges = Callable[[Mapping[Where, VerifiedRange]], None]
# How many first differences are looked for.
MAX_DIFFERENCES = 20
# A job of so many offsets is over sooner without what Spark does to make long ones fast.
SHORT_JOB_OFFSETS = 1 << 16
# How often a piece of which the source has deleted records meanwhile is tried again.
_TRIES = 3
# While a leader moves, in seconds.
_PATIENCE = 30.0
_SILENT = (
    "the {} does not tell where this partition begins and ends: has it a leader, and may this principal describe it?"
)


class Verification:
    """One run. `source`, `target`: bootstrap servers that ask for no login, from every host of Spark's."""

    def __init__(
        self,
        spark: Any,
        source: str,
        target: str,
        *,
        share: float | None = None,
        show_bytes: bool = False,
        again: bool = False,
        save: SaveRanges | None = None,
        said: Callable[[str], None] = lambda _: None,
        others_write: bool = False,
        clients_write: Callable[[], bool] = lambda: False,
        reached: Callable[[], Mapping[Where, CopiedEnd]] | None = None,
    ) -> None:
        """`others_write`: that the target has records of others among those that were copied is no difference.
        `clients_write`: whether clients may write to the target now, so that nothing can be said of what lies behind
        the last copied record. `reached`: asks the state topic how far partitions of the target are copied by now."""
        self._others_write = others_write
        self._tails = TailCheck(target, clients_write, reached, show_bytes)
        self._spark, self._source, self._target = spark, source, target
        self._share, self._show_bytes, self._again = share, show_bytes, again
        self._save, self._said = save, said
        self._all: dict[Where, PartitionComparison] = {}
        self._suspects: dict[Where, PartitionPiece] = {}
        self._compacted: set[str] = set()

    def run(
        self,
        name: str,
        copied: Mapping[Where, CopiedPartition],
        kept: Mapping[Where, VerifiedRange],
        lag: Sequence[LagSample] = (),
        topics: Mapping[str, MigratedTopic] | None = None,
    ) -> VerificationReport:
        """`topics`: all of the migration, by topic of the source; None: those of `copied`. Raises UpstreamError,
        WireError, and ConfigError if Spark has no Kafka connector."""
        began, at = time.monotonic(), time.time_ns() // 1_000_000
        topics = _topics(copied) if topics is None else topics
        lost = self._lost(topics)
        sources = read_log_bounds(self._source, {where for where in copied if where[0] not in lost})
        targets = read_log_bounds(
            self._target, {(one.target_topic, one.partition) for one in copied.values() if one.topic not in lost}
        )
        if self._again:
            kept = {where: one.again(sources[where].begin) for where, one in kept.items() if where in sources}
        for where, one in sorted(copied.items()):
            there = one.target_topic, one.partition
            if where in sources and there in targets:
                self._all[where] = start_comparison(one, kept.get(where), sources[where], targets[there])
            else:
                why, anew = lost.get(one.topic, (_SILENT.format(TARGET if where in sources else SOURCE), False))
                self._all[where] = skip_comparison(one, None if anew else kept.get(where), why)
        self._compacted = self._policies() if copied else set()
        self._compare()
        self._tails.check(self._all, [one for topic, one in topics.items() if topic not in lost or not lost[topic][1]])
        self._name_differences()
        self._save_rest(kept)
        partitions = [one.to_result() for one in self._all.values()]
        known = {one.topic for one in partitions}
        partitions += [
            uncopied_partition(topics[topic], 0, why).to_result()
            for topic, (why, _) in lost.items()
            if topic not in known
        ]
        partitions.sort(key=lambda one: (one.topic, one.partition))
        differences = tuple(one.difference for one in partitions if one.difference is not None)
        return VerificationReport(
            name, at, time.monotonic() - began, tuple(partitions), self._share, differences, tuple(lag)
        )

    def _lost(self, topics: Mapping[str, MigratedTopic]) -> dict[str, tuple[str, bool]]:
        """By topic of the source: why it cannot be compared, as it is not there any more or is another one on some
        side; and whether nothing counts as verified any more."""
        found: dict[str, tuple[str, bool]] = {}
        for side, address in ((SOURCE, self._source), (TARGET, self._target)):
            cluster = ClusterClient(address)
            try:
                names = [one.name_on(side) for one in topics.values()]
                layout = retry(cluster, lambda: learn_topics(cluster, names), _PATIENCE)  # noqa: B023
            finally:
                cluster.close()
            found |= {topic: (why, side == TARGET) for topic, why in describe_changes(side, topics, layout).items()}
        return found

    def _policies(self) -> set[str]:
        """Topics that are compacted on one side at least."""
        source = find_compacted_topics(self._source, {one.copied.topic for one in self._all.values()})
        target = find_compacted_topics(self._target, {one.copied.target_topic for one in self._all.values()})
        every = (one.copied for one in self._all.values())
        return {one.topic for one in every if one.topic in source or one.target_topic in target}

    # Comparing

    def _compare(self) -> None:
        ways = [list(self._pieces(one)) for one in self._all.values()]
        total = sum(piece.end - piece.begin for way in ways for piece in way)
        done = 0
        for number, job in enumerate(plan_jobs(ways), 1):
            offsets = sum(piece.end - piece.begin for piece in job)
            what = f"job {number}: {len(job)} partitions, {offsets:,} offsets of {total:,}, {done:,} done"
            self._said(what)
            self._spark.sparkContext.setJobDescription(f"kproxy migrate verify, {what}")
            self._take(job)
            done += offsets
            if self._save is not None and self._share is None:
                self._save({piece.where: self._all[piece.where].to_range() for piece in job})

    def _pieces(self, one: PartitionComparison) -> Iterator[PartitionPiece]:
        if one.piece.begin >= one.piece.end:
            return
        if self._share is None:
            yield from split_piece(one.piece)
            return
        one.counts["total_blocks"] = (one.piece.end - 1 >> BLOCK_BITS) - (one.piece.begin >> BLOCK_BITS) + 1
        yield from sample_blocks(one.piece, self._share)

    def _take(self, job: Sequence[PartitionPiece]) -> None:
        """Compare these pieces; those of which the source has just deleted a part are compared again without it."""
        for _ in range(_TRIES):
            judged = self._judged([self._readable(piece) for piece in job])
            begins = read_log_bounds(self._source, [piece.where for piece in job])
            again, compacted = [], []
            for piece, one in zip(job, judged, strict=True):
                begin = begins[piece.where].begin if piece.where in begins else piece.begin
                if not one.is_equal and begin > piece.begin:
                    again.append(self._without(piece, begin))
                elif not one.is_equal and piece.topic in self._compacted:
                    compacted.append(one)
                else:
                    self._settle(one)
            if compacted:
                self._settle_compacted(compacted)
            job = [piece for piece in again if piece.begin < piece.end]
            if not job:
                return
        for piece in job:
            self._stop(self._all[piece.where], piece.begin, "the source deletes records faster than they are compared")

    def _readable(self, piece: PartitionPiece) -> PartitionPiece:
        """Without what the target's log does not have: readers get no further than its end, and begin at its begin."""
        there = self._all[piece.where].target
        begin, end = max(piece.target_begin, there.begin), min(piece.target_end, there.end)
        return replace(piece, target_begin=min(begin, end), target_end=end)

    def _without(self, piece: PartitionPiece, begin: int) -> PartitionPiece:
        """What is left of a piece whose beginning retention has taken."""
        one = self._all[piece.where]
        begin = min(begin, piece.end)
        one.deleted += begin - piece.begin
        self._advance(one, begin)
        return piece.part(begin, piece.end)

    def _judged(self, job: Sequence[PartitionPiece]) -> list[PieceVerdict]:
        few = sum(piece.end - piece.begin for piece in job) <= SHORT_JOB_OFFSETS
        with tuned_for_short_job(self._spark) if few else nullcontext():
            source, target = self._spoken(lambda: hash_blocks(self._spark, self._source, self._target, job))
        return [
            compare_blocks(
                piece, source.get(piece.where, {}), target.get(piece.target_where, {}), others_write=self._others_write
            )
            for piece in job
        ]

    def _spoken(self, job: Callable[[], T]) -> T:
        """What Spark says of a job that failed is long: one line of it."""
        try:
            return job()
        except KproxyError:
            raise
        except Exception as error:
            if not type(error).__module__.startswith(("pyspark.", "py4j.")):
                raise
            raise to_upstream_error(error) from error

    def _settle(self, judged: PieceVerdict) -> None:
        one, piece = self._all[judged.piece.where], judged.piece
        one.counts["blocks"] += judged.blocks
        one.counts["records"] += judged.matching
        one.counts["client_records"] += judged.client_records
        if judged.is_equal:
            self._advance(one, piece.end)
            return
        one.counts["bad"] += len(judged.bad)
        one.counts["extra"] += judged.extra.count
        begin = max(piece.begin, judged.bad[0] << BLOCK_BITS) if judged.bad else piece.end
        if judged.extra.count:
            begin = min(begin, _before(piece, judged.extra.first))
        block = min(begin, piece.end - 1) >> BLOCK_BITS
        self._stop(one, begin, suspect=piece.part(block << BLOCK_BITS, block + 1 << BLOCK_BITS))

    def _settle_compacted(self, job: Sequence[PieceVerdict]) -> None:
        """Blocks that compaction may have changed: record by record."""
        sources = {one.piece.where: self._all[one.piece.where].source for one in job}
        targets = {one.piece.target_where: self._all[one.piece.where].target for one in job}
        pieces = [one.piece for one in job]
        found = self._spoken(
            lambda: explain_missing(self._spark, (self._source, self._target), pieces, (sources, targets))
        )
        for judged in job:
            piece, one, outcome = judged.piece, self._all[judged.piece.where], found[judged.piece.where]
            one.counts["records"] += outcome.same
            one.counts["blocks"] += judged.blocks
            one.counts["extra"] += judged.extra.count
            one.counts["client_records"] += judged.client_records
            extra = -1 if self._others_write else outcome.extra
            for name in ("compacted_source", "compacted_target", "compacted_both", "bad"):
                one.counts[name] += getattr(outcome, name)
            begin = piece.end if outcome.first < 0 else outcome.first
            if outcome.first < 0 and extra < 0:
                self._advance(one, piece.end)
                continue
            if extra >= 0:
                begin = min(begin, _before(piece, extra))
            at = min(begin, piece.end - 1)
            self._stop(one, begin, suspect=piece.part(at, at + 1))

    def _advance(self, one: PartitionComparison, upto: int) -> None:
        if not one.stopped and self._share is None:
            one.upto = max(one.upto, upto)

    def _stop(self, one: PartitionComparison, at: int, note: str = "", suspect: PartitionPiece | None = None) -> None:
        """What comes after this offset counts as compared, and not as verified."""
        if one.stopped:
            return
        one.stopped = True
        one.note = note or one.note
        if self._share is None:
            one.upto = max(one.upto, at)
        if suspect is not None:
            self._suspects[suspect.where] = self._readable(suspect)

    def _save_rest(self, kept: Mapping[Where, VerifiedRange]) -> None:
        """Of partitions without a job."""
        if self._save is None or self._share is not None:
            return
        now = {where: one.to_range() for where, one in self._all.items()}
        if rest := {where: one for where, one in now.items() if _says_else(one, kept.get(where))}:
            self._save(rest)

    # Differences

    def _name_differences(self) -> None:
        """The first one of each partition, of the first partitions that have any."""
        suspects = [piece for _, piece in sorted(self._suspects.items())][:MAX_DIFFERENCES]
        if not suspects:
            return
        self._spark.sparkContext.setJobDescription("kproxy migrate verify, what the first differences are")
        found = self._spoken(
            lambda: find_first_differences(
                self._spark, self._source, self._target, suspects, show_bytes=self._show_bytes
            )
        )
        behind = [one.difference for one in self._all.values() if one.difference is not None]
        named = iter(match_moved([*(difference for difference in found if difference is not None), *behind]))
        for piece, difference in zip(suspects, found, strict=True):
            one = self._all[piece.where]
            if difference is None:
                one.note = "a difference that was found is not there any more: verify again"
                continue
            one.difference = next(named)
            if self._share is None:
                one.upto = max(one.upto, min(difference.position, piece.end))
        if self._save is not None and self._share is None:
            self._save({piece.where: self._all[piece.where].to_range() for piece in suspects})


def _before(piece: PartitionPiece, extra: int) -> int:
    """The offset on the source of what follows a record that only the target has."""
    after = source_offset(piece.map, extra)
    return piece.end if after is None else max(piece.begin, min(after, piece.end))


def _says_else(now: VerifiedRange, before: VerifiedRange | None) -> bool:
    """What a job has saved since says as much of these two."""
    had = before or VerifiedRange(now.since, now.since)
    return now.unknown != had.unknown or now.upto < had.upto


def _topics(copied: Mapping[Where, CopiedPartition]) -> dict[str, MigratedTopic]:
    return {
        one.topic: MigratedTopic(one.topic, one.target_topic, one.origin, one.destination) for one in copied.values()
    }
