"""Hashes few records in the driver itself, without a Spark job: those of the last seconds, while writes are held.

The sums are those of `hashing`, whose hash is Spark's: xxHash64 with the seed 42, and with the hash of the value before
as the seed of the next one; a null changes nothing (`XxHash64` of `org.apache.spark.sql.catalyst.expressions`). So the
digest of a partition does not depend on where its records were hashed.

Memory is bounded: one response of a broker at a time, and one batch of it decompressed. What does not fit the bounds,
and every error, is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from xxhash import xxh64_intdigest

from kproxy.base.errors import KproxyError, WireError
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.offsets.log_ranges import fetch_batches
from kproxy.migrate.verify.pieces import BLOCK_BITS, EXTRA, BlockSums, PartitionPiece, Run, Side, Sides
from kproxy.protocol.records.decoding import decode_entries, decode_tail

# The most that the driver reads of both sides together: offsets, and bytes as brokers send them.
MAX_OFFSETS, MAX_BYTES = 1 << 17, 64 << 20
# The largest batch that it decompresses, in bytes.
_MAX_PLAIN_BATCH = 32 << 20
# How long it tries again while a leader moves, before Spark takes over, in seconds.
_RETRY_SECONDS = 2.0

_SEED = 42
_ZERO = bytes(8)
# Spark has timestamps in microseconds, and shifts those before 1900 to another calendar.
_MIN_TIMESTAMP, _MAX_TIMESTAMP = -2_208_988_800_000 + 86_400_000, (1 << 63) // 1000 - 1
_SIGN, _MODULUS, _LOW = 1 << 63, 1 << 64, (1 << 32) - 1


def _hash_int(number: int, seed: int) -> int:
    return xxh64_intdigest(number.to_bytes(4, "little", signed=True), seed)


def _hash_long(number: int, seed: int) -> int:
    return xxh64_intdigest(number.to_bytes(8, "little", signed=True), seed)


def hash_content(timestamp: int, tail: bytes) -> int:
    """Return the hash of a record without its offset: `_CONTENT` of `hashing`, as an unsigned number (pure).

    `timestamp` is in milliseconds. Raises WireError for a record that only Spark can hash, and for a damaged one.
    """
    if not _MIN_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
        raise WireError("other", f"a record has the timestamp {timestamp}")
    key, value, headers = decode_tail(tail)
    result = _hash_long(timestamp * 1000, _SEED)
    for data in (key, value):
        result = _hash_int(-1 if data is None else len(data), result)
        if data is not None:
            result = xxh64_intdigest(data, result)
    return xxh64_intdigest(_ZERO, result) if not headers else _hash_long(_signed(_hash_headers(headers)), result)


def _hash_headers(headers: Sequence[tuple[bytes, bytes | None]]) -> int:
    result = _hash_int(len(headers), _SEED)
    for name, _ in headers:
        try:
            name.decode()
        except UnicodeDecodeError:
            raise WireError("other", "the name of a header is not UTF-8") from None  # Java replaces what is wrong
        result = xxh64_intdigest(name, result)
    for _, value in headers:
        if value is not None:
            result = xxh64_intdigest(value, result)
    for _, value in headers:
        result = _hash_int(-1 if value is None else len(value), result)
    return result


def _signed(number: int) -> int:
    return number - _MODULUS if number >= _SIGN else number


class _Sums:
    """The sums of a partition so far, by block."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[int]] = {}

    def add(self, offset: int, position: int | None, content: int) -> None:
        """Add a record at an offset of its own side; `position` is its offset on the source, None if it has none."""
        content = _signed(content)
        if position is None:
            block, number = EXTRA, _signed(_hash_long(content, _SEED))
        else:
            block, number = position >> BLOCK_BITS, _signed(_hash_long(content, _hash_long(position, _SEED)))
        sums = self._blocks.setdefault(block, [0, 0, 0, 0, offset])
        sums[0] += 1
        sums[1] ^= number
        sums[2] += number >> 32
        sums[3] += number & _LOW

    def blocks(self) -> dict[int, BlockSums]:
        return {block: BlockSums(*sums) for block, sums in self._blocks.items()}


class _Budget:
    """The bytes that may still be read. Two threads share it, so a run may read twice what is left at its end."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> None:
        """Raise WireError if too much was read."""
        self._left -= size
        if self._left < 0:
            raise WireError("too-large", f"the records take more than {MAX_BYTES >> 20} MiB")


def positions_of(runs: Iterator[Run]) -> Callable[[int], int | None]:
    """Return a function that maps target offsets, which must be given in order, to the source (pure)."""
    source, target, count = next(runs, (0, 0, 0))

    def position(offset: int) -> int | None:
        nonlocal source, target, count
        while count and offset >= target + count:
            source, target, count = next(runs, (0, 0, 0))
        return source + offset - target if count and offset >= target else None

    return position


def _sum_blocks(
    cluster: ClusterClient,
    where: TopicPartition,
    offsets: tuple[int, int],
    position: Callable[[int], int | None],
    budget: _Budget,
) -> dict[int, BlockSums]:
    """Return the sums of the committed records between two offsets of a partition."""
    sums, (first, end) = _Sums(), offsets
    for batch, aborted in fetch_batches(cluster, *where, first, end, complete=True):
        budget.take(batch.size)
        if aborted:
            continue
        batch.check()
        for entries in decode_entries(batch, first, end, _MAX_PLAIN_BATCH):
            for offset, timestamp, tail in entries:
                sums.add(offset, position(offset), hash_content(timestamp, tail))
    return sums.blocks()


class DriverHashing:
    """Hashes the records of pieces in the driver, as long as they are few. It keeps its connections.

    `log` receives why Spark must do it.
    """

    def __init__(self, source: str, target: str, log: Callable[[str], None] = lambda _: None) -> None:
        self._clusters = ClusterClient(source), ClusterClient(target)
        self._log = log

    def close(self) -> None:
        for cluster in self._clusters:
            cluster.close()

    def hash_blocks(self, pieces: Sequence[PartitionPiece]) -> Sides | None:
        """Return what `hashing.hash_blocks` does; None if these are too many records, or they could not be read."""
        offsets = sum(piece.end - piece.begin + piece.target_end - piece.target_begin for piece in pieces)
        if offsets > MAX_OFFSETS:
            return None
        budget = _Budget(MAX_BYTES)
        try:
            with ThreadPoolExecutor(2, "kproxy verify") as pool:
                sides = [
                    pool.submit(_hash_side, self._clusters[side], pieces, budget, is_target=bool(side))
                    for side in range(2)
                ]
                return sides[0].result(), sides[1].result()
        except KproxyError as error:
            self._log(f"Spark compares the last records, as the driver cannot: {error}")
            return None


def _hash_side(cluster: ClusterClient, pieces: Sequence[PartitionPiece], budget: _Budget, *, is_target: bool) -> Side:
    hash_piece = _hash_target if is_target else _hash_source
    return {
        piece.target_where if is_target else piece.where: retry(
            cluster, partial(hash_piece, cluster, piece, budget), _RETRY_SECONDS
        )
        for piece in pieces
    }


def _hash_source(cluster: ClusterClient, piece: PartitionPiece, budget: _Budget) -> dict[int, BlockSums]:
    return _sum_blocks(cluster, piece.where, (piece.begin, piece.end), lambda offset: offset, budget)


def _hash_target(cluster: ClusterClient, piece: PartitionPiece, budget: _Budget) -> dict[int, BlockSums]:
    offsets = piece.target_begin, piece.target_end
    return _sum_blocks(cluster, piece.target_where, offsets, positions_of(piece.runs()), budget)
