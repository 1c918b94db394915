"""Copies slices: fetches batches, and writes them and the new states in transactions.

All slices of a call have the same transactional id: either one slice of a partition that has much to copy, or many of
partitions that have little. These share transactions, and also requests: a producer id, a transaction and a state for
each of them would cost the brokers more than their records.

Each attempt begins at the states that the target has committed, with a new epoch, and each transaction moves states on.
So no record is written twice or left out, whichever process is killed, and however often. A partition with an error
does not stop the others: the next attempt leaves it out, and tries it again when the others are copied.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from kproxy.base.errors import KproxyError
from kproxy.migrate.copier.clusterclient import ClusterClient, backoff
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.partitioncopy import PartitionCopy, StateEntry
from kproxy.migrate.copier.producer import OutgoingBatch, TransactionalProducer
from kproxy.migrate.copier.sourcelog import FetchedBatches, SourceLog, SourceStartMoved
from kproxy.migrate.copier.state import Job, PartitionState, Slice, SliceResult
from kproxy.migrate.copier.statetopic import read_values

# Maximum size and duration of a transaction: its markers make gaps in the target's offsets, and consumers of the
# target see its records at its end.
_TRANSACTION, _TRANSACTION_SECONDS = 64 * 1024 * 1024, 10.0
# Maximum number of partitions in a transaction: the coordinator writes all of them again whenever some are added.
_TRANSACTION_PARTITIONS = 512


class Copier:
    """Copies the slices of one process, with the same connections."""

    def __init__(self, source: ClusterClient, target: ClusterClient, job: Job) -> None:
        self._source, self._target, self._job = source, target, job

    def copy(self, slices: Sequence[Slice]) -> list[SliceResult]:
        """Copy slices that have the same transactional id.

        Errors of a cluster or of the network are in the results, and are not raised.
        """
        began = time.monotonic()
        deadline = began + max(slice.seconds for slice in slices)
        partitions = [PartitionCopy(slice) for slice in slices]
        attempts, pauses = 0, backoff()
        while waiting := [partition for partition in partitions if partition.is_open]:
            ready = [partition for partition in waiting if partition.error is None]
            if not ready:
                pause = next(pauses)
                if time.monotonic() + pause >= deadline:
                    break
                time.sleep(pause)
            attempts += 1
            self._attempt(ready or waiting, deadline)
        seconds = time.monotonic() - began
        return [partition.result(seconds, attempts) for partition in partitions]

    def _attempt(self, partitions: Sequence[PartitionCopy], deadline: float) -> None:
        """Copy these partitions as far as possible; each is finished then, or has an error."""
        for partition in partitions:
            partition.error = None
        attempt = _Attempt(self._source, self._target, self._job, partitions, deadline)
        try:
            attempt.run()
        except KproxyError as error:
            attempt.abort(error)
        else:
            for partition in partitions:
                if partition.error is None:
                    partition.is_open = False
        if any(partition.error for partition in partitions):
            self._source.invalidate()


class _Attempt:
    """One attempt to copy slices."""

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        job: Job,
        partitions: Sequence[PartitionCopy],
        deadline: float,
    ) -> None:
        self._source, self._target, self._job = source, target, job
        self._partitions, self._deadline = partitions, deadline
        first = partitions[0].slice
        self._producer = TransactionalProducer(target, first.transactional_id(job))
        self._state_partition = first.state_partition(job)
        self._rate = first.rate
        self._began = self._transaction_began = time.monotonic()
        self._copied_size = self._transaction_size = 0

    def run(self) -> None:
        """Copy until all slices end, or have an error."""
        self._producer.init_transactions(self._deadline)
        self._read_states()
        self._transaction_began = time.monotonic()
        for partitions in self._by_source_leader():
            self._copy_from_leader(partitions)
        self._commit()

    def _read_states(self) -> None:
        """Read the committed states, which no other producer can change any more."""
        begin = min(partition.slice.state_offset for partition in self._partitions)
        keys = {partition.key for partition in self._partitions}
        values = read_values(self._target, self._job.state_topic, self._state_partition, begin, keys)
        for partition in self._partitions:
            try:
                partition.begin(values.get(partition.key))
            except KproxyError as error:
                partition.fail(error)

    def _by_source_leader(self) -> list[list[PartitionCopy]]:
        by_leader: dict[int, list[PartitionCopy]] = {}
        for partition in self._partitions:
            if partition.is_open:
                by_leader.setdefault(self._source.leader(*partition.reader.place), []).append(partition)
        return list(by_leader.values())

    def _copy_from_leader(self, partitions: Sequence[PartitionCopy]) -> None:
        """Copy partitions that one broker of the source leads."""
        by_place = {partition.reader.place: partition for partition in partitions}
        log = SourceLog(self._source, (partition.reader for partition in partitions), self._deadline)
        is_first = True  # at least once, however long the start took, so that the attempt makes progress
        while not log.is_finished and (is_first or time.monotonic() < self._deadline):
            fetched, failed = log.fetch()
            for reader in failed:
                self._note_failure(by_place[reader.place])
            if fetched:
                is_first = False
                log.send_fetch()  # fetch the next batches while these are written
                self._write([(by_place[batches.reader.place], batches) for batches in fetched])
            if not fetched or self._is_transaction_full():
                self._commit()
            self._limit_rate()
        log.drain()
        for partition in partitions:
            if partition.error is None and partition.reader.error is not None:
                partition.fail(partition.reader.error)

    def _note_failure(self, partition: PartitionCopy) -> None:
        """Note an error of the source. What was written before stays in the transaction.

        Raises SourceStartMoved if the copy of the partition must begin again, without what was written.
        """
        error = partition.reader.error
        assert error is not None
        partition.fail(error)
        if isinstance(error, SourceStartMoved) and partition.has_progress:
            raise error

    # The target

    def _write(self, fetched: Sequence[tuple[PartitionCopy, FetchedBatches]]) -> None:
        """Write batches. One request has the next batch of each partition."""
        columns = zip_longest(*(self._batches(partition, batches) for partition, batches in fetched))
        for column in columns:
            batches = [batch for batch in column if batch is not None]
            self._add_partitions(batches)
            self._producer.send(batches)
        size = sum(batches.size for _, batches in fetched)
        self._transaction_size += size
        self._copied_size += size

    def _batches(self, partition: PartitionCopy, fetched: FetchedBatches) -> Iterator[OutgoingBatch]:
        try:
            yield from partition.batches(fetched, self._producer.stamp(partition.target))
        except KproxyError as error:
            partition.fail(error)
            raise

    def _add_partitions(self, batches: Sequence[OutgoingBatch]) -> None:
        """Add what these batches need to the transaction, and the partition of the states."""
        partitions = {self._job.state_topic: [self._state_partition]}
        for batch in batches:
            topic, partition = batch.place
            partitions.setdefault(topic, []).append(partition)
        self._producer.add_partitions(partitions)

    def _is_transaction_full(self) -> bool:
        return (
            self._transaction_size >= _TRANSACTION
            or time.monotonic() - self._transaction_began >= _TRANSACTION_SECONDS
            or self._producer.partitions >= _TRANSACTION_PARTITIONS
        )

    def _commit(self) -> None:
        """Write the new states, commit the transaction, and begin the next one."""
        producer = self._producer
        producer.flush()
        states: list[tuple[PartitionCopy, PartitionState]] = []
        entries: list[StateEntry] = []
        for partition in self._partitions:
            if partition.has_progress:
                state, added = partition.next_state()
                states.append((partition, state))
                entries += added
        if states:
            self._add_partitions([])
            producer.send_records(self._job.state_topic, self._state_partition, entries, states[0][1].at)
            producer.commit()
        for partition, state in states:
            partition.commit(state)
        self._transaction_began, self._transaction_size = time.monotonic(), 0

    def _limit_rate(self) -> None:
        """Wait until at most `rate` bytes a second have been copied."""
        if self._rate:
            pause = self._copied_size / self._rate - (time.monotonic() - self._began)
            if pause > 0:
                time.sleep(min(pause, _TRANSACTION_SECONDS))

    # After a failure

    def abort(self, error: KproxyError) -> None:
        """Abort after a failure, if possible; note the error where it belongs, and forget the metadata."""
        failed = self._producer.failed
        for partition in self._partitions:
            if (failure := failed.get(partition.target)) is not None:
                partition.fail(failure)
        if isinstance(error, ProducerFenced) or not any(partition.error for partition in self._partitions):
            for partition in self._partitions:
                partition.fail(error)
        self._source.invalidate()
        try:
            self._producer.abort()
        except KproxyError:
            self._target.invalidate()  # the next attempt ends the transaction, or the coordinator after its timeout
