"""Reads partitions of one broker of the source: their batches in order, and the reasons why a log cannot be copied.

While the copier writes batches, the next Fetch is in flight. One Fetch has several partitions if each of them has
little to read.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kproxy.base.errors import KproxyError, UpstreamError, WireError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import FetchResponse, TopicPartition, parse_response
from kproxy.migrate.copier.state import Slice
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import Batch, filter_committed, read_batches
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import Buffer

# Maximum and minimum size of a Fetch, in bytes.
_MAX_FETCH = 8 * 1024 * 1024
_MIN_FETCH = 64 * 1024
# Maximum number of partitions in a Fetch.
_MAX_PARTITIONS = 64
# How long the broker waits for new records, in milliseconds.
_WAIT_MS = 500


class CopyBlocked(WireError):
    """The copy of this partition cannot continue until the operator decides what to do."""

    def __init__(self, text: str) -> None:
        super().__init__("stopped", text)


class SourceStartMoved(UpstreamError):
    """The source has deleted the first records of a slice before they were copied; the driver plans it again."""

    def __init__(self, text: str) -> None:
        super().__init__("other", text)


@dataclass(slots=True)
class PartitionReader:
    """The position of the reader in one partition of the source.

    `start` and `stable` are the log start offset and the last stable offset of the last response, -1 before the first.
    """

    slice: Slice
    position: int
    """Offset of the next batch."""
    has_copied: bool
    """True if records of this partition were copied before."""
    size: int = 0
    """Bytes that were read."""
    start: int = -1
    stable: int = -1
    error: KproxyError | None = None
    """The reason why it cannot be read; None if it can."""

    @property
    def place(self) -> TopicPartition:
        return self.slice.topic, self.slice.partition

    @property
    def name(self) -> str:
        return f"partition {self.slice.partition} of {self.slice.topic}"

    @property
    def is_finished(self) -> bool:
        """True if the slice has been read, or cannot be read."""
        return self.error is not None or self.position >= self.slice.upto or self.size >= self.slice.size


@dataclass(slots=True)
class FetchedBatches:
    """The batches of one partition in a response, at least one. `position` is the offset of the next one."""

    reader: PartitionReader
    batches: list[Batch]
    begin: int
    position: int
    size: int
    aborted: Sequence[tuple[int, int]] = field(default=())

    def committed(self) -> list[Batch]:
        """Return the batches without markers and aborted records."""
        return list(filter_committed(self.batches, self.aborted))


class SourceLog:
    """Partitions that one broker of the source leads.

    An error of a partition, or of the broker, is in the readers, and is not raised.
    """

    def __init__(self, cluster: ClusterClient, readers: Iterable[PartitionReader], deadline: float) -> None:
        self._cluster, self._deadline = cluster, deadline
        self._waiting = deque(readers)
        self._window: list[PartitionReader] = []  # the readers of the next Fetch
        self._pending: BrokerConnection | None = None

    @property
    def is_finished(self) -> bool:
        """True if nothing is left to read."""
        return self._pending is None and not self._fill_window()

    def _fill_window(self) -> list[PartitionReader]:
        self._window = [reader for reader in self._window if not reader.is_finished]
        while self._waiting and len(self._window) < _MAX_PARTITIONS:
            reader = self._waiting.popleft()
            if not reader.is_finished:
                self._window.append(reader)
        return self._window

    def send_fetch(self) -> None:
        """Send a Fetch request for the next batches, unless nothing is left to read."""
        if self._pending is not None or not (window := self._fill_window()):
            return
        try:
            self._pending = self._send(window)
        except KproxyError as error:
            self._fail(error)

    def _send(self, window: Sequence[PartitionReader]) -> BrokerConnection:
        connection = self._cluster.connect_leader(*window[0].place)
        version = connection.version(ApiKey.FETCH)
        rate = window[0].slice.rate
        size = max(
            _MIN_FETCH, min(_MAX_FETCH, sum(reader.slice.size for reader in window), int(2 * rate) or _MAX_FETCH)
        )
        body = requests.encode_fetch_many(
            version,
            {reader.place: reader.position for reader in window},
            size=size,
            partition_size=max(_MIN_FETCH, size // len(window)),
            wait_ms=_WAIT_MS,
        )
        connection.send(ApiKey.FETCH, version, body)
        return connection

    def fetch(self) -> tuple[list[FetchedBatches], list[PartitionReader]]:
        """Return the next batches of the partitions that have any, and the readers that have an error now.

        At the deadline, a partition without a batch is an error.
        """
        self.send_fetch()
        window, fetched = self._window, list[FetchedBatches]()
        try:
            responses = self._receive()
        except KproxyError as error:
            return [], self._fail(error)
        for reader in window:
            response = responses.get(reader.place)
            try:
                batches = None if response is None else self._take(reader, response)
            except KproxyError as error:
                reader.error = error
                continue
            if batches is not None:
                fetched.append(batches)
        failed = [reader for reader in window if reader.error is not None]
        if not fetched and not failed and time.monotonic() >= self._deadline:
            for reader in window:
                reader.error = UpstreamError(
                    "timeout",
                    f"{reader.name} on the source has records from offset {reader.position}, but its broker returns"
                    " none",
                )
            return [], window
        return fetched, failed

    def _receive(self) -> dict[TopicPartition, FetchResponse]:
        connection, self._pending = self._pending, None
        if connection is None:  # the request could not be sent
            return {}
        version = connection.version(ApiKey.FETCH)
        error, responses = parse_response(requests.read_fetch_many, version, connection.receive())
        raise_for_code(error, f"reading from {connection.address} on the source")
        return responses

    def _fail(self, error: KproxyError) -> list[PartitionReader]:
        """Give the error to all that is not finished, and return it."""
        failed = [reader for reader in (*self._window, *self._waiting) if not reader.is_finished]
        for reader in failed:
            reader.error = error
        self._waiting.clear()
        return failed

    def _take(self, reader: PartitionReader, response: FetchResponse) -> FetchedBatches | None:
        reader.start, reader.stable = response.start, response.stable
        if response.error == ErrorCode.OFFSET_OUT_OF_RANGE or reader.position < response.start:
            raise self._out_of_range(reader, response)
        raise_for_code(response.error, f"{reader.name} on the source")
        batches = _list_batches(response.records)
        if not batches:
            return None
        begin = reader.position
        _check_gaps(reader, batches)
        reader.position = batches[-1].last_offset + 1
        reader.size += len(response.records)
        return FetchedBatches(reader, batches, begin, reader.position, len(response.records), response.aborted)

    def _out_of_range(self, reader: PartitionReader, response: FetchResponse) -> KproxyError:
        position, name = reader.position, reader.name
        starts = self._cluster.list_offsets([reader.place], requests.EARLIEST)
        start = reader.start = starts.get(reader.place, response.start)
        if start > position and not reader.has_copied:
            return SourceStartMoved(
                f"{name}: the source deletes records while the copy begins: the log now begins at offset {start}"
            )
        if start > position:
            slice = reader.slice
            return CopyBlocked(
                f"{name}: the source has deleted offsets {position} to {start - 1} before they were copied (retention,"
                " or DeleteRecords). The copy leaves out no records by itself. To accept the loss:"
                f" --skip-deleted {slice.topic}:{slice.partition}:{start}"
            )
        return CopyBlocked(
            f"{name}: the copy is at offset {position}, and the source ends before it: the log was truncated"
            " (unclean leader election), or the topic was recreated; the target has records that the source does not"
            " have"
        )

    def drain(self) -> None:
        """Receive a response that is not needed, so that the connection can be used again."""
        try:
            self._receive()
        except KproxyError as error:
            self._fail(error)


def _check_gaps(reader: PartitionReader, batches: Sequence[Batch]) -> None:
    """Raise CopyBlocked if offsets are missing without a reason.

    Transaction markers and aborted batches are batches too. So in a log that is not compacted, each batch begins where
    the batch before ends.
    """
    if reader.slice.allows_gaps:
        return
    expected = reader.position
    for batch in batches:
        first_offset = _first_offset(batch)
        if first_offset > expected:
            raise CopyBlocked(
                f"{reader.name}: the source has no offsets {expected} to"
                f" {first_offset - 1}, and the topic is not compacted; the copy leaves out no offsets by"
                " itself: if the topic was compacted before, set topics.allow-offset-gaps in the file"
            )
        expected = batch.last_offset + 1


def _list_batches(content: Buffer) -> list[Batch]:
    """Return all batches of a response, of which there can be 100,000.

    The garbage collector is off meanwhile: it would scan the growing list again and again, which takes half of the
    time, and batches have no cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return list(read_batches(memoryview(content)))
    finally:
        if was_enabled:
            gc.enable()


def _first_offset(batch: Batch) -> int:
    """Return the offset of the first record of a batch.

    The header of a compressed message of magic 0 and 1 has the offset of its last record.
    """
    return decode_records(batch)[0].offset if batch.magic < 2 and batch.codec else batch.base_offset
