"""Reads one partition of the source: its batches in order, and the reasons why a log cannot be copied.

While the copier writes batches, the next Fetch is in flight.
"""

from __future__ import annotations

import gc
import time

from kproxy.base.errors import KproxyError, UpstreamError, WireError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import parse_response
from kproxy.migrate.copier.state import Slice
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import Batch, read_batches
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import Buffer

# Maximum and minimum size of a Fetch, in bytes.
_MAX_FETCH = 8 * 1024 * 1024
_MIN_FETCH = 64 * 1024
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


class SourceLog:
    """The log of one partition of the source.

    `start` and `stable` are the log start offset and the last stable offset of the last response, -1 before the first.
    """

    def __init__(self, cluster: ClusterClient, slice: Slice, deadline: float) -> None:
        self.start = self.stable = -1
        self._cluster, self._slice, self._deadline = cluster, slice, deadline
        self._pending: BrokerConnection | None = None
        self._partition_name = f"partition {slice.partition} of {slice.topic}"

    def send_fetch(self, offset: int) -> None:
        """Send a Fetch request for the batches from this offset."""
        slice = self._slice
        connection = self._cluster.connect_leader(slice.topic, slice.partition)
        version = connection.version(ApiKey.FETCH)
        size = max(_MIN_FETCH, min(_MAX_FETCH, slice.size, int(2 * slice.rate) or _MAX_FETCH))
        connection.send(
            ApiKey.FETCH,
            version,
            requests.encode_fetch(version, slice.topic, slice.partition, offset, size=size, wait_ms=_WAIT_MS),
        )
        self._pending = connection

    def fetch(self, position: int, *, has_copied: bool) -> tuple[requests.FetchResponse, list[Batch], int]:
        """Return the response from `position`, its batches (at least one), and the offset of the next batch.

        `has_copied`: whether records of this partition were copied before. Raises CopyBlocked and SourceStartMoved.
        """
        while True:
            if self._pending is None:
                self.send_fetch(position)
            response = self._receive()
            self.start, self.stable = response.start, response.stable
            if response.error == ErrorCode.OFFSET_OUT_OF_RANGE or position < response.start:
                raise self._out_of_range(position, response, has_copied)
            raise_for_code(response.error, f"{self._partition_name} on the source")
            fetched = _list_batches(response.records)
            if fetched:
                return response, fetched, fetched[-1].last_offset + 1
            if time.monotonic() >= self._deadline:
                raise UpstreamError(
                    "timeout",
                    f"{self._partition_name} on the source has records from offset {position}, but its broker returns"
                    " none",
                )

    def _receive(self) -> requests.FetchResponse:
        connection, self._pending = self._pending, None
        assert connection is not None
        return parse_response(requests.read_fetch, connection.version(ApiKey.FETCH), connection.receive())

    def _out_of_range(self, position: int, response: requests.FetchResponse, has_copied: bool) -> KproxyError:
        slice, name = self._slice, self._partition_name
        starts = self._cluster.list_offsets([(slice.topic, slice.partition)], requests.EARLIEST)
        start = starts.get((slice.topic, slice.partition), response.start)
        self.start = start
        if start > position and not has_copied:
            return SourceStartMoved(
                f"{name}: the source deletes records while the copy begins: the log now begins at offset {start}"
            )
        if start > position:
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
        if self._pending is not None:
            self._receive()

    def check_gaps(self, position: int, fetched: list[Batch]) -> None:
        """Raise CopyBlocked if offsets are missing without a reason.

        Transaction markers and aborted batches are batches too. So in a log that is not compacted, each batch begins
        where the batch before ends.
        """
        if self._slice.allows_gaps:
            return
        expected = position
        for batch in fetched:
            first_offset = _first_offset(batch)
            if first_offset > expected:
                raise CopyBlocked(
                    f"{self._partition_name}: the source has no offsets {expected} to"
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
