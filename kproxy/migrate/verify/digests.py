"""Single records of both sides, fetched with Spark's source for the few blocks in which something differs."""

from __future__ import annotations

from typing import Any

from kproxy.migrate.verify.differences import BytesDigest, Difference, RecordComparison, RecordDigest
from kproxy.migrate.verify.hashing import Ranges, read_records
from kproxy.migrate.verify.pieces import PartitionPiece

# Of a SHA-256: compared, in hexadecimal digits. Bytes that are shown if they may be.
_DIGITS, _HEAD = 16, 48
# Blocks that the driver has in memory at once, of both sides.
_AT_ONCE = 4


def _digest(name: str, show_bytes: bool) -> str:
    head = f"substring({name}, 1, {_HEAD})" if show_bytes else "cast(null as binary)"
    return f"if({name} is null, null, struct(octet_length({name}), substring(sha2({name}, 256), 1, {_DIGITS}), {head}))"


def _seen(spark: Any, bootstrap: str, ranges: Ranges, show_bytes: bool) -> dict[tuple[str, int], list[RecordDigest]]:
    headers = f"transform(headers, one -> struct(one.key, {_digest('one.value', show_bytes)}))"
    rows = read_records(spark, bootstrap, ranges).selectExpr(
        "topic",
        "partition",
        "offset",
        "unix_micros(timestamp)",
        _digest("key", show_bytes),
        _digest("value", show_bytes),
        headers,
    )
    found: dict[tuple[str, int], list[RecordDigest]] = {where: [] for where in ranges}
    for topic, partition, offset, timestamp, key, value, names in rows.collect():
        pairs = tuple((name, _bytes(data)) for name, data in names or ())
        found[topic, partition].append(RecordDigest(offset, timestamp, _bytes(key), _bytes(value), pairs))
    return found


def _bytes(row: Any) -> BytesDigest | None:
    if row is None:
        return None
    length, digest, head = row
    return BytesDigest(length, digest, None if head is None else bytes(head))


def find_first_differences(
    spark: Any, source: str, target: str, pieces: list[PartitionPiece], *, show_bytes: bool
) -> list[Difference | None]:
    """Of each piece, which should be one block or less, of partitions that are not the same."""
    found: list[Difference | None] = []
    for begin in range(0, len(pieces), _AT_ONCE):
        found += _first_differences(spark, source, target, pieces[begin : begin + _AT_ONCE], show_bytes)
    return found


def _first_differences(
    spark: Any, source: str, target: str, pieces: list[PartitionPiece], show_bytes: bool
) -> list[Difference | None]:
    left = _seen(spark, source, {piece.where: (piece.begin, piece.end) for piece in pieces}, show_bytes)
    there = {piece.target_where: (piece.target_begin, piece.target_end) for piece in pieces}
    right = _seen(spark, target, there, show_bytes)
    return [
        RecordComparison(
            (piece.topic, piece.partition, piece.target_topic),
            piece.runs(),
            left[piece.where],
            right[piece.target_where],
        ).first()
        for piece in pieces
    ]
