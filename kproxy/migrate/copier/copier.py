"""Copying slices: fetch, make batches of it, write them and the new state in one transaction.

One slice is one loop: the state that the target has committed says where to begin; each transaction moves it on.
Whatever fails on the way, the next attempt begins at the committed state with a new epoch. So nothing is written twice
or left out, whoever is killed and however often.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from struct import pack

from crc32c import crc32c

from kproxy.base.errors import KproxyError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.retries import backoff, is_retriable
from kproxy.migrate.copier.slices import Job, Slice, SliceResult
from kproxy.migrate.copier.sourcelog import CopyBlocked, SourceLog, SourceStartMoved
from kproxy.migrate.copier.state import (
    SEAL_THRESHOLD,
    PartitionState,
    encode_map_piece,
    identities_differ,
    merge_identities,
    state_key,
    state_partition,
    transactional_id,
    truncation_text,
)
from kproxy.migrate.copier.statetopic import read_value
from kproxy.protocol.records.header import Batch
from kproxy.protocol.records.producebatches import produce_batches
from kproxy.protocol.records.readcommitted import filter_committed

# A transaction ends after so many bytes or seconds: its markers make holes in the target's offsets, and readers of the
# target see its records at its end.
_TRANSACTION, _TRANSACTION_SECONDS = 64 * 1024 * 1024, 10.0
_NEVER = 1 << 63  # a slice ends between two batches


class Copier:
    """Of one process. Its connections serve one slice after the other."""

    def __init__(self, source: ClusterClient, target: ClusterClient, job: Job) -> None:
        self._source, self._target, self._job = source, target, job

    def copy(self, slice: Slice) -> SliceResult:
        """Never raises for what a cluster or the network does: the outcome says it."""
        began = time.monotonic()
        until = began + slice.seconds
        seen = SliceProgress()
        attempts, stuck, final = 0, "", False
        for pause in backoff():
            attempts += 1
            run = _Attempt(self._source, self._target, self._job, slice, until, seen)
            stuck, final = "", False
            try:
                run.run()
            except KproxyError as error:
                stuck, final = str(error), not is_retriable(error)
                run.give_up()
                if isinstance(error, SourceStartMoved):
                    break
            seen.state = run.state or seen.state
            if not stuck or final or time.monotonic() + pause >= until:
                break
            time.sleep(pause)
        return SliceResult(
            slice.topic,
            slice.partition,
            seen.state or slice.state,
            seen.records,
            seen.size,
            time.monotonic() - began,
            seen.log_start,
            seen.stable,
            stuck,
            final,
            attempts,
            dict(seen.batch_counts),
        )


@dataclass(slots=True)
class SliceProgress:
    """What the attempts at one slice have done together."""

    state: PartitionState | None = None
    records: int = 0
    size: int = 0
    log_start: int = -1
    stable: int = -1
    batch_counts: Counter[str] = field(default_factory=Counter)


class _Attempt:
    """One attempt."""

    def __init__(
        self, source: ClusterClient, target: ClusterClient, job: Job, slice: Slice, until: float, seen: SliceProgress
    ) -> None:
        self.state: PartitionState | None = None  # what is committed
        self._source, self._target, self._job, self._slice = source, target, job, slice
        self._until, self._seen = until, seen
        self._producer = TransactionalProducer(target, transactional_id(job.name, slice.topic, slice.partition))
        self._key = state_key("partition", slice.topic, slice.partition)
        self._state_partition = state_partition(self._key, job.state_partitions)
        self._log = SourceLog(source, slice, until)
        self._began = time.monotonic()
        self._taken = 0

    def run(self) -> None:
        """Raises UpstreamError and WireError."""
        slice, producer = self._slice, self._producer
        producer.start(self._until)
        self.state = self._committed()
        step = _Transaction(self.state, slice.skip_to)
        self._seen.state = self.state
        # Once at least, however long the start took: then there is something to say.
        while step.position < slice.upto and self._taken < slice.size and (not self._taken or self._has_time()):
            answer, found, after = self._fetch(step.position)
            goes_on = after < slice.upto and self._taken + len(answer.records) < slice.size
            if goes_on:
                self._log.send_fetch(after)  # while these are written, the next are on their way
            self._write(step, answer, found)
            step.position = after
            if step.size >= _TRANSACTION or time.monotonic() - step.began >= _TRANSACTION_SECONDS:
                step = self._commit(step)
            self._keep_rate()
        if step.position > self.state.source_next:
            self._commit(step)
        self._log.drain()

    def _has_time(self) -> bool:
        return time.monotonic() < self._until

    def _committed(self) -> PartitionState:
        """What the target has, now that nobody else can write it any more."""
        slice, job = self._slice, self._job
        value = read_value(self._target, job.state_topic, self._state_partition, slice.state_offset, self._key)
        if value is not None:
            state = PartitionState.from_json(value)
        else:
            state = slice.state or PartitionState(slice.target_topic, slice.begin, slice.begin, 0)
        self._same(state)
        origin, destination = (
            merge_identities(state.origin, slice.origin),
            merge_identities(state.destination, slice.destination),
        )
        return replace(state, origin=origin, destination=destination)

    def _same(self, state: PartitionState) -> None:
        """Raises Stopped if the state is that of other topics."""
        slice = self._slice
        if state.target_topic != slice.target_topic:
            raise CopyBlocked(
                f"partition {slice.partition} of {slice.topic} was copied to {state.target_topic} until now, and would"
                f" go on in {slice.target_topic}: undo the change of topics.rename, or give the migration another name"
            )
        for then, now, what, side in (
            (state.origin, slice.origin, slice.topic, "source"),
            (state.destination, slice.destination, slice.target_topic, "target"),
        ):
            if identities_differ(then, now):
                raise CopyBlocked(
                    f"{what} on the {side} is not the topic of which the copy has got to offset {state.source_next}:"
                    " it was deleted and made anew, or the file names another cluster; give the migration another name"
                    " to begin again"
                )

    def _fetch(self, position: int) -> tuple[requests.FetchResponse, list[Batch], int]:
        state, log = self.state, self._log
        assert state is not None
        try:
            return log.fetch(position, begun=state.source_next > state.source_begin)
        finally:
            self._seen.log_start, self._seen.stable = log.start, log.stable

    # The target

    def _write(self, step: _Transaction, answer: requests.FetchResponse, found: list[Batch]) -> None:
        slice, producer = self._slice, self._producer
        self._log.check_gaps(step.position, found)
        topic, partition = slice.target_topic, slice.partition
        batches = filter_committed(found, answer.aborted)
        stamp = producer.stamp(topic, partition)
        for piece in produce_batches(
            batches, first=step.position, end=_NEVER, limit=slice.max_batch_size, producer=stamp
        ):
            if not step.data:
                step.data = True
                producer.add({topic: [partition], self._job.state_topic: [self._state_partition]})
            producer.send(topic, partition, piece.buffers, piece.count, step.acknowledged(piece.runs, self._behind))
            step.records += piece.count
            step.checksum = crc32c(pack(f">{len(piece.checksums)}I", *piece.checksums), step.checksum)
            self._seen.batch_counts[piece.method] += 1
        step.size += len(answer.records)
        self._taken += len(answer.records)

    def _behind(self, base: int) -> None:
        """Raises Stopped if the target's log is shorter than it was."""
        assert self.state is not None
        if base < self.state.target_next:
            raise CopyBlocked(
                truncation_text(self._slice.target_topic, self._slice.partition, base, self.state.target_next)
            )

    def _commit(self, step: _Transaction) -> _Transaction:
        """Write the state, end the transaction; the next begins."""
        producer, job, slice = self._producer, self._job, self._slice
        assert self.state is not None
        producer.flush()
        known = self.state
        whole = OffsetMap([*known.map, *step.map])
        state = replace(
            known,
            source_next=step.position,
            records=known.records + step.records,
            size=known.size + step.size,
            target_next=whole.targets[-1] + whole.counts[-1] if whole else known.target_next,
            checksum=step.checksum,
            skipped=known.skipped + step.skipped,
            map=whole,
            at=time.time_ns() // 1_000_000,
        )
        written = []
        if len(whole) and len(whole.to_bytes()) >= SEAL_THRESHOLD:
            state, piece = state.seal()
            written.append((state_key("map", slice.topic, slice.partition, piece.sources[0]), encode_map_piece(piece)))
        written.append((self._key, state.to_json()))
        producer.add({job.state_topic: [self._state_partition]})
        producer.write(job.state_topic, self._state_partition, written, state.at)
        producer.commit()
        self.state = state
        self._seen.records += step.records
        self._seen.size += step.size
        return _Transaction(state)

    def _keep_rate(self) -> None:
        """Wait until no more than `rate` bytes a second have been taken."""
        if self._slice.rate:
            ahead = self._taken / self._slice.rate - (time.monotonic() - self._began)
            if ahead > 0:
                time.sleep(min(ahead, _TRANSACTION_SECONDS))

    # The end

    def give_up(self) -> None:
        """After a failure: leave nothing open, as far as can be, and forget who led."""
        self._source.invalidate()
        try:
            self._producer.abort()
        except KproxyError:
            self._target.invalidate()  # the next attempt, or the coordinator after a minute, ends the transaction


class _Transaction:
    """What one transaction has until now."""

    __slots__ = ("began", "checksum", "data", "map", "position", "records", "size", "skipped")

    def __init__(self, state: PartitionState, skip_to: int = 0) -> None:
        self.position = max(state.source_next, skip_to)
        self.skipped = self.position - state.source_next
        self.checksum = state.checksum
        self.map = OffsetMap()
        self.records = self.size = 0
        self.data = False
        self.began = time.monotonic()

    def acknowledged(self, runs: Sequence[tuple[int, int, int]], judge: Callable[[int], None]) -> Callable[[int], None]:
        """Notes where these records are, when the target has told the offset of the first, and `judge` accepts it."""

        def note(base: int) -> None:
            judge(base)
            for source, at, count in runs:
                self.map.add(source, base + at, count)

        return note
