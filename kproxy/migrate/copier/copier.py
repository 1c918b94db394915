"""Copies slices: fetches batches, and writes them and the new state in one transaction.

A slice is one loop: it begins at the state that the target has committed, and each transaction moves that state on.
After any failure the next attempt begins at the committed state with a new epoch. So no record is written twice or left
out, whichever process is killed, and however often.
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
from kproxy.migrate.copier.clusterclient import ClusterClient, backoff, is_retriable
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.sourcelog import CopyBlocked, SourceLog, SourceStartMoved
from kproxy.migrate.copier.state import (
    SEAL_THRESHOLD,
    Job,
    PartitionState,
    Slice,
    SliceResult,
    encode_map_piece,
    identities_differ,
    merge_identities,
    state_key,
    state_partition,
    transactional_id,
    truncation_text,
)
from kproxy.migrate.copier.statetopic import read_value
from kproxy.protocol.records.header import Batch, filter_committed
from kproxy.protocol.records.producebatches import produce_batches

# Maximum size and duration of a transaction: its markers make gaps in the target's offsets, and consumers of the
# target see its records at its end.
_TRANSACTION, _TRANSACTION_SECONDS = 64 * 1024 * 1024, 10.0
_NEVER = 1 << 63  # a slice ends between two batches


class Copier:
    """Copies the slices of one process, with the same connections."""

    def __init__(self, source: ClusterClient, target: ClusterClient, job: Job) -> None:
        self._source, self._target, self._job = source, target, job

    def copy(self, slice: Slice) -> SliceResult:
        """Copy a slice. Errors of a cluster or of the network are in the result, and are not raised."""
        began = time.monotonic()
        deadline = began + slice.seconds
        progress = SliceProgress()
        attempts, stuck, final = 0, "", False
        for pause in backoff():
            attempts += 1
            attempt = _Attempt(self._source, self._target, self._job, slice, deadline, progress)
            stuck, final = "", False
            try:
                attempt.run()
            except KproxyError as error:
                stuck, final = str(error), not is_retriable(error)
                attempt.abort()
                if isinstance(error, SourceStartMoved):
                    break
            progress.state = attempt.state or progress.state
            if not stuck or final or time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
        return SliceResult(
            topic=slice.topic,
            partition=slice.partition,
            state=progress.state or slice.state,
            records=progress.records,
            size=progress.size,
            seconds=time.monotonic() - began,
            log_start=progress.log_start,
            stable=progress.stable,
            stuck=stuck,
            is_final=final,
            attempts=attempts,
            batch_counts=dict(progress.batch_counts),
        )


@dataclass(slots=True)
class SliceProgress:
    """The work of all attempts at one slice together."""

    state: PartitionState | None = None
    records: int = 0
    size: int = 0
    log_start: int = -1
    stable: int = -1
    batch_counts: Counter[str] = field(default_factory=Counter)


class _Attempt:
    """One attempt to copy a slice."""

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        job: Job,
        slice: Slice,
        deadline: float,
        progress: SliceProgress,
    ) -> None:
        self.state: PartitionState | None = None  # what is committed
        self._source, self._target, self._job, self._slice = source, target, job, slice
        self._deadline, self._progress = deadline, progress
        self._producer = TransactionalProducer(target, transactional_id(job.name, slice.topic, slice.partition))
        self._key = state_key("partition", slice.topic, slice.partition)
        self._state_partition = state_partition(self._key, job.state_partitions)
        self._log = SourceLog(source, slice, deadline)
        self._began = time.monotonic()
        self._copied_size = 0

    def run(self) -> None:
        """Copy until the slice ends."""
        slice, producer = self._slice, self._producer
        producer.init_transactions(self._deadline)
        self.state = self._read_state()
        transaction = _Transaction(self.state, slice.skip_to)
        self._progress.state = self.state
        # At least once, however long the start took, so that the attempt makes progress.
        while (
            transaction.position < slice.upto
            and self._copied_size < slice.size
            and (not self._copied_size or time.monotonic() < self._deadline)
        ):
            response, fetched, next_position = self._fetch(transaction.position)
            has_more = next_position < slice.upto and self._copied_size + len(response.records) < slice.size
            if has_more:
                self._log.send_fetch(next_position)  # fetch the next batches while these are written
            self._write(transaction, response, fetched)
            transaction.position = next_position
            if transaction.size >= _TRANSACTION or time.monotonic() - transaction.began >= _TRANSACTION_SECONDS:
                transaction = self._commit(transaction)
            self._limit_rate()
        if transaction.position > self.state.source_next:
            self._commit(transaction)
        self._log.drain()

    def _read_state(self) -> PartitionState:
        """Return the committed state of the target, which no other producer can change any more."""
        slice, job = self._slice, self._job
        value = read_value(self._target, job.state_topic, self._state_partition, slice.state_offset, self._key)
        if value is not None:
            state = PartitionState.from_json(value)
        else:
            state = slice.state or PartitionState(slice.target_topic, slice.begin, slice.begin, 0)
        self._check_topics(state)
        origin, destination = (
            merge_identities(state.origin, slice.origin),
            merge_identities(state.destination, slice.destination),
        )
        return replace(state, origin=origin, destination=destination)

    def _check_topics(self, state: PartitionState) -> None:
        """Raise CopyBlocked if the state belongs to other topics."""
        slice = self._slice
        if state.target_topic != slice.target_topic:
            raise CopyBlocked(
                f"partition {slice.partition} of {slice.topic} was copied to {state.target_topic} before, and the file"
                f" now names {slice.target_topic}: undo the change of topics.rename, or give the migration another name"
            )
        for recorded, current, topic, side in (
            (state.origin, slice.origin, slice.topic, "source"),
            (state.destination, slice.destination, slice.target_topic, "target"),
        ):
            if identities_differ(recorded, current):
                raise CopyBlocked(
                    f"{topic} on the {side} is not the topic that was copied up to offset {state.source_next}: it was"
                    " deleted and recreated, or the file names another cluster. To copy again, give the migration"
                    " another name"
                )

    def _fetch(self, position: int) -> tuple[requests.FetchResponse, list[Batch], int]:
        state, log = self.state, self._log
        assert state is not None
        try:
            return log.fetch(position, has_copied=state.source_next > state.source_begin)
        finally:
            self._progress.log_start, self._progress.stable = log.start, log.stable

    # The target

    def _write(self, transaction: _Transaction, response: requests.FetchResponse, fetched: list[Batch]) -> None:
        slice, producer = self._slice, self._producer
        self._log.check_gaps(transaction.position, fetched)
        topic, partition = slice.target_topic, slice.partition
        batches = filter_committed(fetched, response.aborted)
        stamp = producer.stamp(topic, partition)
        for piece in produce_batches(
            batches, first=transaction.position, end=_NEVER, limit=slice.max_batch_size, producer=stamp
        ):
            if not transaction.data:
                transaction.data = True
                producer.add_partitions({topic: [partition], self._job.state_topic: [self._state_partition]})
            producer.send(
                topic,
                partition,
                piece.buffers,
                piece.count,
                transaction.acknowledged(piece.runs, self._check_truncation),
            )
            transaction.records += piece.count
            transaction.checksum = crc32c(pack(f">{len(piece.checksums)}I", *piece.checksums), transaction.checksum)
            self._progress.batch_counts[piece.method] += 1
        transaction.size += len(response.records)
        self._copied_size += len(response.records)

    def _check_truncation(self, base: int) -> None:
        """Raise CopyBlocked if the target's log is shorter than before."""
        assert self.state is not None
        if base < self.state.target_next:
            raise CopyBlocked(
                truncation_text(self._slice.target_topic, self._slice.partition, base, self.state.target_next)
            )

    def _commit(self, transaction: _Transaction) -> _Transaction:
        """Write the state, commit the transaction, and return the next one."""
        producer, job, slice = self._producer, self._job, self._slice
        assert self.state is not None
        producer.flush()
        previous = self.state
        offset_map = OffsetMap([*previous.map, *transaction.map])
        state = replace(
            previous,
            source_next=transaction.position,
            records=previous.records + transaction.records,
            size=previous.size + transaction.size,
            target_next=offset_map.targets[-1] + offset_map.counts[-1] if offset_map else previous.target_next,
            checksum=transaction.checksum,
            skipped=previous.skipped + transaction.skipped,
            map=offset_map,
            at=time.time_ns() // 1_000_000,
        )
        entries = []
        if len(offset_map) and len(offset_map.to_bytes()) >= SEAL_THRESHOLD:
            state, piece = state.seal()
            entries.append((state_key("map", slice.topic, slice.partition, piece.sources[0]), encode_map_piece(piece)))
        entries.append((self._key, state.to_json()))
        producer.add_partitions({job.state_topic: [self._state_partition]})
        producer.send_records(job.state_topic, self._state_partition, entries, state.at)
        producer.commit()
        self.state = state
        self._progress.records += transaction.records
        self._progress.size += transaction.size
        return _Transaction(state)

    def _limit_rate(self) -> None:
        """Wait until at most `rate` bytes a second have been copied."""
        if self._slice.rate:
            pause = self._copied_size / self._slice.rate - (time.monotonic() - self._began)
            if pause > 0:
                time.sleep(min(pause, _TRANSACTION_SECONDS))

    # After a failure

    def abort(self) -> None:
        """Abort after a failure, if possible, and forget the metadata."""
        self._source.invalidate()
        try:
            self._producer.abort()
        except KproxyError:
            self._target.invalidate()  # the next attempt ends the transaction, or the coordinator after its timeout


class _Transaction:
    """The work of one transaction so far."""

    __slots__ = ("began", "checksum", "data", "map", "position", "records", "size", "skipped")

    def __init__(self, state: PartitionState, skip_to: int = 0) -> None:
        self.position = max(state.source_next, skip_to)
        self.skipped = self.position - state.source_next
        self.checksum = state.checksum
        self.map = OffsetMap()
        self.records = self.size = 0
        self.data = False
        self.began = time.monotonic()

    def acknowledged(self, runs: Sequence[tuple[int, int, int]], check: Callable[[int], None]) -> Callable[[int], None]:
        """Return a callback that adds the runs of a batch to the map, once `check` accepts its base offset."""

        def note(base: int) -> None:
            check(base)
            for source, target, count in runs:
                self.map.add(source, base + target, count)

        return note
