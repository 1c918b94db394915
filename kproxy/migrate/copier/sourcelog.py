"""Reading one partition of the source: its batches in order, and what is wrong with a log that cannot be copied.

While batches are written, the next ones are on their way.
"""

from __future__ import annotations

import gc
import time

from kproxy.base.errors import KproxyError, UpstreamError, WireError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import OFFSET_OUT_OF_RANGE, raise_for_code
from kproxy.migrate.copier.requests import parse_response
from kproxy.migrate.copier.slices import Slice
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import Batch, read_batches
from kproxy.protocol.wire.primitives import Buffer

# What is fetched at once, in bytes.
_FETCH = 8 * 1024 * 1024
_LEAST = 64 * 1024
# How long the broker waits for something to come, in milliseconds.
_WAIT_MS = 500


class CopyBlocked(WireError):
    """The partition cannot be copied on, and only a person can decide what to do."""

    def __init__(self, text: str) -> None:
        super().__init__("stopped", text)


class SourceStartMoved(UpstreamError):
    """The source has deleted what the copy was to begin with: it begins later. The driver plans it again."""

    def __init__(self, text: str) -> None:
        super().__init__("other", text)


class SourceLog:
    """`start` and `stable`: the log's first offset and its last stable one, when it was last asked, -1 before."""

    def __init__(self, cluster: ClusterClient, slice: Slice, until: float) -> None:
        self.start = self.stable = -1
        self._cluster, self._slice, self._until = cluster, slice, until
        self._fetching: BrokerConnection | None = None
        self._where = f"partition {slice.partition} of {slice.topic}"

    def send_fetch(self, offset: int) -> None:
        """Have the batches from this offset on sent."""
        slice = self._slice
        link = self._cluster.connect_leader(slice.topic, slice.partition)
        version = link.version(requests.FETCH)
        size = max(_LEAST, min(_FETCH, slice.size, int(2 * slice.rate) or _FETCH))
        link.send(
            requests.FETCH,
            version,
            requests.encode_fetch(version, slice.topic, slice.partition, offset, size=size, wait_ms=_WAIT_MS),
        )
        self._fetching = link

    def fetch(self, position: int, *, begun: bool) -> tuple[requests.FetchResponse, list[Batch], int]:
        """What is there from `position` on, at least a batch: its batches, and where the next ones begin. `begun`:
        whether something was copied before. Raises Stopped, Later, Refused and UpstreamError."""
        while True:
            if self._fetching is None:
                self.send_fetch(position)
            answer = self._answer()
            self.start, self.stable = answer.start, answer.stable
            if answer.error == OFFSET_OUT_OF_RANGE or position < answer.start:
                raise self._out_of_range(position, answer, begun)
            raise_for_code(answer.error, f"{self._where} on the source")
            found = _all_batches(answer.records)
            if found:
                return answer, found, found[-1].last_offset + 1
            if time.monotonic() >= self._until:
                raise UpstreamError(
                    "timeout", f"{self._where} on the source has records from offset {position} on, but gives none"
                )

    def _answer(self) -> requests.FetchResponse:
        link, self._fetching = self._fetching, None
        assert link is not None
        return parse_response(requests.read_fetch, link.version(requests.FETCH), link.receive())

    def _out_of_range(self, position: int, answer: requests.FetchResponse, begun: bool) -> KproxyError:
        slice, where = self._slice, self._where
        ends = self._cluster.list_offsets([(slice.topic, slice.partition)], requests.EARLIEST)
        start = ends.get((slice.topic, slice.partition), answer.start)
        self.start = start
        if start > position and not begun:
            return SourceStartMoved(
                f"{where}: the source deletes records while the copy begins: it begins at offset {start}"
            )
        if start > position:
            return CopyBlocked(
                f"{where}: the source has deleted offsets {position} to {start - 1} before they were copied (retention,"
                " or DeleteRecords); the copy does not leave them out by itself: accept the loss with"
                f" --skip-deleted {slice.topic}:{slice.partition}:{start}"
            )
        return CopyBlocked(
            f"{where}: the copy has got to offset {position}, and the source ends before it: its log was truncated"
            " (unclean leader election), or the topic was made anew; the target has records that the source has not"
        )

    def drain(self) -> None:
        """Take what was asked for and is not wanted, so that the connection can be used again."""
        if self._fetching is not None:
            self._answer()

    def check_gaps(self, position: int, found: list[Batch]) -> None:
        """Raises Stopped if offsets are missing that nothing explains. Transactions' markers and aborted batches are
        batches as well, so in a log that is not compacted one begins where the one before ends."""
        if self._slice.allows_gaps:
            return
        expected = position
        for batch in found:
            first = _first(batch)
            if first > expected:
                raise CopyBlocked(
                    f"{self._where}: the source has no offsets {expected} to"
                    f" {first - 1}, and the topic is not compacted; the copy does not leave them out by"
                    " itself: if the topic was compacted once, say so with topics.gaps in the file"
                )
            expected = batch.last_offset + 1


def _all_batches(content: Buffer) -> list[Batch]:
    """There can be 100,000. The garbage collector would go through them again and again while they become more, and
    takes half of the time; they have no cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return list(read_batches(memoryview(content)))
    finally:
        if collecting:
            gc.enable()


def _first(batch: Batch) -> int:
    """The offset of the first record. The header of a compressed message of magic 0 and 1 has that of the last one."""
    return decode_records(batch)[0].offset if batch.magic < 2 and batch.codec else batch.base_offset
