"""Reading of single records of both sides, with Spark's source, for the few blocks that differ."""

from __future__ import annotations

from typing import Any

from kproxy.migrate.verify.differences import BytesDigest, Difference, RecordComparison, RecordDigest
from kproxy.migrate.verify.hashing import Ranges, read_records
from kproxy.migrate.verify.pieces import PartitionPiece

# Hexadecimal digits of a SHA-256 that are compared; number of bytes that are shown if allowed.
_HASH_DIGITS, _HEAD_SIZE = 16, 48
# Number of blocks of both sides that the driver has in memory at the same time.
_PIECES_AT_ONCE = 4


def _digest_expression(name: str, show_bytes: bool) -> str:
    head = f"substring({name}, 1, {_HEAD_SIZE})" if show_bytes else "cast(null as binary)"
    digest = f"substring(sha2({name}, 256), 1, {_HASH_DIGITS})"
    return f"if({name} is null, null, struct(octet_length({name}), {digest}, {head}))"


def _read_digests(
    spark: Any, bootstrap: str, ranges: Ranges, show_bytes: bool
) -> dict[tuple[str, int], list[RecordDigest]]:
    headers = f"transform(headers, one -> struct(one.key, {_digest_expression('one.value', show_bytes)}))"
    frame = read_records(spark, bootstrap, ranges).selectExpr(
        "topic",
        "partition",
        "offset",
        "unix_micros(timestamp)",
        _digest_expression("key", show_bytes),
        _digest_expression("value", show_bytes),
        headers,
    )
    records: dict[tuple[str, int], list[RecordDigest]] = {topic_partition: [] for topic_partition in ranges}
    for topic, partition, offset, timestamp, key, value, headers_row in frame.collect():
        pairs = tuple((name, _parse_digest(data)) for name, data in headers_row or ())
        records[topic, partition].append(
            RecordDigest(offset, timestamp, _parse_digest(key), _parse_digest(value), pairs)
        )
    return records


def _parse_digest(row: Any) -> BytesDigest | None:
    if row is None:
        return None
    length, digest, head = row
    return BytesDigest(length, digest, None if head is None else bytes(head))


def find_first_differences(
    spark: Any, source: str, target: str, pieces: list[PartitionPiece], *, show_bytes: bool
) -> list[Difference | None]:
    """Return the first difference of each piece, which should be at most one block of a partition that differs."""
    differences: list[Difference | None] = []
    for begin in range(0, len(pieces), _PIECES_AT_ONCE):
        differences += _first_differences(spark, source, target, pieces[begin : begin + _PIECES_AT_ONCE], show_bytes)
    return differences


def _first_differences(
    spark: Any, source: str, target: str, pieces: list[PartitionPiece], show_bytes: bool
) -> list[Difference | None]:
    source_records = _read_digests(
        spark, source, {piece.where: (piece.begin, piece.end) for piece in pieces}, show_bytes
    )
    target_ranges = {piece.target_where: (piece.target_begin, piece.target_end) for piece in pieces}
    target_records = _read_digests(spark, target, target_ranges, show_bytes)
    return [
        RecordComparison(
            (piece.topic, piece.partition, piece.target_topic),
            piece.runs(),
            source_records[piece.where],
            target_records[piece.target_where],
        ).first()
        for piece in pieces
    ]
