"""What lies on the target behind the last copied record, and in partitions to which nothing was copied.

Markers of transactions and attempts of the copy that were aborted lie there, and what the copy has written since.
Everything else somebody else has written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kproxy.base.errors import KproxyError, WireError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.offsets.aborted_ranges import count_in_range, fetch_batches
from kproxy.migrate.verify.differences import BytesDigest, RecordDigest
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import Batch

Where = tuple[str, int]

# Of one partition so many records are counted; of more, that there are more.
MAX_COUNTED = 100_000
# How long a transaction whose end is decided may be without the state that it wrote, in seconds, and how often is
# looked: its markers come to one partition after the other.
_SETTLES, _AGAIN = 5.0, 0.5
# While a leader moves, in seconds.
_PATIENCE = 30.0
# As `digests` has them.
_DIGITS, _HEAD = 16, 48


@dataclass(frozen=True, slots=True)
class UnknownRecords:
    """Records that kproxy has not copied, in one partition of the target: how many at least, the first one, and in
    words who has written it."""

    count: int
    first: RecordDigest
    writer: str


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Of a partition of the target: the first offset, the last stable one, and the high watermark."""

    begin: int
    stable: int
    high: int


@dataclass(frozen=True, slots=True)
class CopiedEnd:
    """How far a partition of the target was copied: `upto` is one beyond the last record. `marked`: the marker of the
    copy's transaction is there."""

    upto: int
    has_marker: bool = False

    @classmethod
    def of(cls, state: PartitionState) -> CopiedEnd:
        """Where a state was not written by a copy of a record, but when clients were led over, there is no marker."""
        runs = state.map
        return cls(state.target_next, bool(runs) and runs.targets[-1] + runs.counts[-1] == state.target_next)


def list_log_offsets(cluster: ClusterClient, partitions: Iterable[Where]) -> dict[Where, LogOffsets]:
    """A partition of which its leader does not tell for half a minute is left out. Raises UpstreamError and
    WireError."""
    wanted = set(partitions)
    found: dict[Where, LogOffsets] = {}
    until = time.monotonic() + _PATIENCE
    while missing := wanted - found.keys():
        stable = cluster.list_offsets(missing, requests.LATEST)
        high = cluster.list_offsets(missing, requests.LATEST, committed=False)
        begin = cluster.list_offsets(missing, requests.EARLIEST)
        for where in missing & stable.keys() & high.keys() & begin.keys():
            found[where] = LogOffsets(begin[where], stable[where], max(stable[where], high[where]))
        if wanted <= found.keys() or time.monotonic() >= until:
            break
        time.sleep(_AGAIN)
        cluster.invalidate()
    return found


def find_unknown_records(
    cluster: ClusterClient,
    ends: Mapping[Where, LogOffsets],
    reached: Callable[[], Mapping[Where, CopiedEnd]],
    *,
    show_bytes: bool = False,
) -> dict[Where, UnknownRecords | str]:
    """By partition of the target, as far as `ends` go; words for one that could not be read. `reached` asks the state
    topic how far it was copied by now. Raises UpstreamError and WireError."""
    suspects = set(ends)
    until = time.monotonic() + _SETTLES
    while True:
        # After the ends: what the copy has written before them is known by now, or soon.
        known = reached()
        looked = {where: _look(cluster, where, ends[where], known.get(where), show_bytes) for where in sorted(suspects)}
        found = {where: one for where, one in looked.items() if one is not None}
        suspects = set(found)
        if not suspects or time.monotonic() >= until:
            return found
        time.sleep(_AGAIN)


def _look(
    cluster: ClusterClient, where: Where, ends: LogOffsets, reached: CopiedEnd | None, show_bytes: bool
) -> UnknownRecords | str | None:
    first = ends.begin if reached is None else max(ends.begin, reached.upto)
    if reached is not None and reached.has_marker and ends.stable <= reached.upto + 1:
        return None  # nothing but the marker
    try:
        return retry(cluster, lambda: _foreign(cluster, where, first, ends.stable, show_bytes), _PATIENCE)
    except KproxyError as error:
        return f"what lies behind the last copied record on the target could not be read: {error}"


def _foreign(cluster: ClusterClient, where: Where, first: int, last: int, show_bytes: bool) -> UnknownRecords | None:
    count, one, by = 0, None, ""
    for batch, aborted in fetch_batches(cluster, *where, first, last, complete=True):
        if aborted:
            continue
        if one is None:
            one, by = _first(batch, first, show_bytes), _by(batch)
        count += count_in_range(batch, first, last)
        if count >= MAX_COUNTED:
            break
    return None if one is None else UnknownRecords(count, one, by)


def _first(batch: Batch, first: int, show_bytes: bool) -> RecordDigest:
    """The first record of a batch from this offset on."""
    try:
        record = next(one for one in decode_records(batch) if one.offset >= first)
    except (WireError, StopIteration):  # a damaged batch, or one whose last records compaction has removed
        return RecordDigest(max(first, batch.base_offset), batch.base_timestamp * 1000, None, None)
    headers = tuple((name.decode(errors="replace"), _bytes(value, show_bytes)) for name, value in record.headers)
    key, value = _bytes(record.key, show_bytes), _bytes(record.value, show_bytes)
    return RecordDigest(record.offset, record.timestamp * 1000, key, value, headers)


def _bytes(data: bytes | None, show_bytes: bool) -> BytesDigest | None:
    if data is None:
        return None
    return BytesDigest(len(data), hashlib.sha256(data).hexdigest()[:_DIGITS], data[:_HEAD] if show_bytes else None)


def _by(batch: Batch) -> str:
    if batch.producer_id < 0:
        return "by a producer that is not idempotent"
    kind = "in a transaction of producer id" if batch.is_transactional else "by producer id"
    return f"{kind} {batch.producer_id}, epoch {batch.producer_epoch}"
