"""One slice while it is copied: its committed state, and what the current transaction adds.

A partition of the source has two transactional ids that may write it: one of its own, and one that it shares with
others. Each committed state names the one that may write next (`PartitionState.has_own_id`), and a copier reads the
state after InitProducerId for its id. So only a producer that is not fenced can give the partition to the other id, and
two producers never write it at the same time:

- A partition that the shared id writes, and that has more left than a slice of it, gets its own id.
- A partition that has been copied to its end with its own id gets the shared id, if it had little to copy.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from struct import pack

from crc32c import crc32c

from kproxy.base.errors import KproxyError
from kproxy.migrate.copier.clusterclient import is_retriable
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.producer import OutgoingBatch
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.sourcelog import CopyBlocked, FetchedBatches, PartitionReader, SourceStartMoved
from kproxy.migrate.copier.state import (
    LITTLE_SIZE,
    SEAL_THRESHOLD,
    PartitionState,
    Slice,
    SliceResult,
    copy_again_advice,
    encode_map_piece,
    identities_differ,
    merge_identities,
    state_key,
    truncation_text,
)
from kproxy.protocol.records.encoding import ProducerState
from kproxy.protocol.records.producebatches import produce_batches

_NEVER = 1 << 63  # a slice ends between two batches

StateEntry = tuple[bytes, bytes | None]
"""Key and value of a record of the state topic."""


class PartitionCopy:
    """The copy of one slice, over all attempts at it.

    `state` is what is committed, None before the first attempt has read it. `error` is why the last attempt failed.
    """

    def __init__(self, slice: Slice) -> None:
        self.slice = slice
        self.state: PartitionState | None = None
        self.error: KproxyError | None = None
        self.is_open = True  # False if no further attempt must be made
        self.reader = PartitionReader(slice, slice.begin, False)
        self._records = self._size = 0
        self._batch_counts: Counter[str] = Counter()
        self._position = self._copied_size = 0

    @property
    def key(self) -> bytes:
        """The key of the state."""
        return state_key("partition", self.slice.topic, self.slice.partition)

    @property
    def target(self) -> TopicPartition:
        """The topic and partition on the target."""
        return self.slice.target_topic, self.slice.partition

    def begin(self, value: bytes | None) -> None:
        """Begin an attempt at the committed state: the value that the state topic has, None if the driver knows it.

        Ends the slice if another transactional id may write the partition. Raises WireError, and CopyBlocked if the
        state belongs to other topics.
        """
        slice = self.slice
        self._position = 0  # so that what the attempt before has written is forgotten in any case
        if value is not None:
            state = PartitionState.from_json(value)
        else:
            state = slice.state or PartitionState(slice.target_topic, slice.begin, slice.begin, 0)
        self._check_topics(state)
        origin = merge_identities(state.origin, slice.origin)
        destination = merge_identities(state.destination, slice.destination)
        self.state = replace(state, origin=origin, destination=destination)
        self.is_open = state.has_own_id == slice.has_own_id
        self.reader = PartitionReader(
            slice,
            max(state.source_next, slice.skip_to),
            state.source_next > state.source_begin,
            start=self.reader.start,
            stable=self.reader.stable,
        )
        self._copied_size = 0
        self._begin_transaction(self.reader.position if self.is_open else state.source_next)

    def _check_topics(self, state: PartitionState) -> None:
        slice = self.slice
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
                    f" deleted and recreated, or the file names another cluster; {copy_again_advice(slice.topic)}"
                )

    def _begin_transaction(self, position: int) -> None:
        assert self.state is not None
        self._position = position
        self._skipped = position - self.state.source_next
        self._checksum = self.state.checksum
        self._map = OffsetMap()
        self._added_records = self._added_size = 0

    @property
    def has_progress(self) -> bool:
        """True if the current transaction changes the state."""
        return self.state is not None and self._position > self.state.source_next

    def batches(self, fetched: FetchedBatches, producer: ProducerState) -> Iterator[OutgoingBatch]:
        """Yield the batches to write. When the last one is written, the transaction has all that was fetched.

        Raises WireError if the source has a corrupt batch.
        """
        for piece in produce_batches(
            fetched.committed(), first=fetched.begin, end=_NEVER, limit=self.slice.max_batch_size, producer=producer
        ):
            self._added_records += piece.count
            self._checksum = crc32c(pack(f">{len(piece.checksums)}I", *piece.checksums), self._checksum)
            self._batch_counts[piece.method] += 1
            yield OutgoingBatch(self.target, piece.buffers, piece.count, self._acknowledgement(piece.runs))
        self._added_size += fetched.size
        self._copied_size += fetched.size
        self._position = fetched.position

    def _acknowledgement(self, runs: Sequence[tuple[int, int, int]]) -> Callable[[int], None]:
        """Return a callback that adds the runs of a batch to the map.

        It raises CopyBlocked if the target's log is shorter than before.
        """
        state, offset_map = self.state, self._map
        assert state is not None

        def note(base: int) -> None:
            if base < state.target_next:
                raise CopyBlocked(truncation_text(self.slice.topic, *self.target, base, state.target_next))
            for source, target, count in runs:
                offset_map.add(source, base + target, count)

        return note

    def next_state(self) -> tuple[PartitionState, list[StateEntry]]:
        """Return the state after the current transaction, and the records that it adds to the state topic."""
        previous, slice = self.state, self.slice
        assert previous is not None
        offset_map = OffsetMap([*previous.map, *self._map])
        state = replace(
            previous,
            source_next=self._position,
            records=previous.records + self._added_records,
            size=previous.size + self._added_size,
            target_next=offset_map.targets[-1] + offset_map.counts[-1] if offset_map else previous.target_next,
            checksum=self._checksum,
            skipped=previous.skipped + self._skipped,
            map=offset_map,
            at=time.time_ns() // 1_000_000,
            has_own_id=self._needs_own_id(),
            had_own_id=previous.had_own_id or slice.has_own_id,
        )
        entries: list[StateEntry] = []
        if len(offset_map) and len(offset_map.to_bytes()) >= SEAL_THRESHOLD:
            state, piece = state.seal()
            entries.append((state_key("map", slice.topic, slice.partition, piece.sources[0]), encode_map_piece(piece)))
        return state, [*entries, (self.key, state.to_json())]

    def _needs_own_id(self) -> bool:
        """Return True if the partition's own transactional id must write what comes next.

        While the slice continues, its id stays.
        """
        if self._position >= self.slice.upto:
            return self.slice.has_own_id and self._copied_size > LITTLE_SIZE
        return self.slice.has_own_id or self._copied_size >= self.slice.size

    def commit(self, state: PartitionState) -> None:
        """Take over the state of a transaction that was committed."""
        self.state = state
        self._records += self._added_records
        self._size += self._added_size
        self.reader.has_copied = state.source_next > state.source_begin
        self._begin_transaction(state.source_next)

    def fail(self, error: KproxyError) -> None:
        """Note why an attempt failed; some errors end the slice."""
        self.error = error
        if isinstance(error, (SourceStartMoved, ProducerFenced)) or not is_retriable(error):
            self.is_open = False

    def result(self, seconds: float, attempts: int) -> SliceResult:
        """Return the result. A slice that another process has fenced is not final: the next round begins it again."""
        slice, error = self.slice, self.error
        return SliceResult(
            topic=slice.topic,
            partition=slice.partition,
            state=self.state or slice.state,
            records=self._records,
            size=self._size,
            seconds=seconds,
            log_start=self.reader.start,
            stable=self.reader.stable,
            stuck="" if error is None else str(error),
            is_final=error is not None and not is_retriable(error) and not isinstance(error, ProducerFenced),
            attempts=attempts,
            batch_counts=dict(self._batch_counts),
        )
