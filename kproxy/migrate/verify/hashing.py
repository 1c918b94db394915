"""Reads both sides with Spark's own Kafka source: hashes of all records, and single records of blocks that differ.

The hash of a record includes its offset on the source and a hash of its content: key, value, headers and timestamp, and
the length of each, since Spark's hash ignores nulls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.verify.differences import BytesDigest, Difference, RecordComparison, RecordDigest
from kproxy.migrate.verify.pieces import BLOCK_BITS, EXTRA, BlockSums, PartitionPiece, RunLookup, Sides, build_lookup

Ranges = Mapping[TopicPartition, tuple[int, int]]

# Includes the names of headers, their values, and which values are null. Most records have no headers, for which Spark
# would otherwise interpret code.
_CONTENT = """xxhash64(
    unix_micros(timestamp),
    coalesce(octet_length(key), -1), key, coalesce(octet_length(value), -1), value,
    case when size(headers) > 0 then xxhash64(
        size(headers), headers.key, headers.value,
        transform(headers, one -> coalesce(octet_length(one.value), -1))) else 0L end)"""
# Content that is hashed before the join with the map need not be copied there.
_HASHED = ("topic", "partition", "offset", f"{_CONTENT} as content")
# Hexadecimal digits of a SHA-256 that are compared; number of bytes that are shown if allowed.
HASH_DIGITS, HEAD_SIZE = 16, 48
# Number of blocks of both sides that the driver has in memory at the same time.
_PIECES_AT_ONCE = 4
# Maximum number of tasks of a side, at least and for each slot. Spark would read each partition in a task of its own,
# which takes longer than reading the few records that most of very many partitions have.
_MAX_TASKS, _MAX_TASKS_EACH = 256, 32
# A consumer lives for one partition. Registering its metrics takes longer than reading a few records: at JMX (by either
# name, as versions of Kafka differ), and at the brokers (KIP-714).
_PLAIN_CONSUMER = {
    "kafka.metric.reporters": "",
    "kafka.auto.include.jmx.reporter": "false",
    "kafka.enable.metrics.push": "false",
}
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10"


def read_records(spark: Any, bootstrap: str, ranges: Ranges) -> Any:
    """Read the committed records of these ranges. Raises ConfigError if Spark lacks its Kafka connector."""
    assigned: dict[str, list[int]] = {}
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (begin, end) in sorted(ranges.items()):
        assigned.setdefault(topic, []).append(partition)
        begins.setdefault(topic, {})[str(partition)] = begin
        ends.setdefault(topic, {})[str(partition)] = max(begin, end)
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(begins),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
        # Otherwise a topic that was deleted meanwhile would be created again, empty.
        "kafka.allow.auto.create.topics": "false",
        # Records that are deleted while Spark reads are noticed because they are missing.
        "failOnDataLoss": "false",
        "minPartitions": str(max(len(ranges), 2 * spark.sparkContext.defaultParallelism)),
        "kafka.max.poll.records": "2000",
        # A consumer fetches beyond its range, and waits for the response: half a second for each task by default.
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.partition.fetch.bytes": str(4 << 20),
        **_PLAIN_CONSUMER,
    }
    try:
        frame = spark.read.format("kafka").options(**options).load()
    except Exception as error:
        if "data source" not in str(error) or "kafka" not in str(error):
            raise
        scala = _scala(spark)
        raise ConfigError(
            f"this Spark has no Kafka connector: give spark-submit --packages {_CONNECTOR}_{scala}:{spark.version}"
        ) from None
    most = max(_MAX_TASKS, _MAX_TASKS_EACH * int(spark.sparkContext.defaultParallelism))
    # Here, so that a task does only the reading again for each of its partitions.
    return frame if len(ranges) <= most else frame.coalesce(most)


def _scala(spark: Any) -> str:
    try:
        version = str(spark.sparkContext._jvm.scala.util.Properties.versionNumberString())
    except Exception:  # noqa: BLE001  # it is for a message
        return "2.13"
    return ".".join(version.split(".")[:2])


def to_upstream_error(error: Exception) -> UpstreamError:
    """Return a one-line error for a failed Spark job."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return UpstreamError("other", f"Spark could not read: {(causes or lines or [type(error).__name__])[-1]}")


def map_to_source(spark: Any, target: Any, run_lookup: RunLookup) -> Any:
    """Add `position` to the target's records: their offset on the source, null if the map does not have them."""
    from pyspark.sql.functions import broadcast, expr

    schema = "m_topic string, m_partition int, bucket long, m_begin long, m_end long, delta long"
    table = broadcast(spark.createDataFrame(run_lookup.rows, schema))
    condition = (
        f"topic = m_topic and partition = m_partition and shiftright(offset, {run_lookup.bits}) = bucket"
        " and offset >= m_begin and offset < m_end"
    )
    joined = target.join(table, expr(condition), "left")
    return joined.withColumn("position", expr("offset + delta"))


def source_ranges(pieces: Sequence[PartitionPiece]) -> Ranges:
    return {piece.where: (piece.begin, piece.end) for piece in pieces}


def target_ranges(pieces: Sequence[PartitionPiece]) -> Ranges:
    return {piece.target_where: (piece.target_begin, piece.target_end) for piece in pieces}


def read_both_sides(spark: Any, source: str, target: str, pieces: Sequence[PartitionPiece]) -> tuple[Any, Any]:
    """Read both sides, with `position` and the hash of the content."""
    from pyspark.sql.functions import col

    source_frame = (
        read_records(spark, source, source_ranges(pieces)).selectExpr(*_HASHED).withColumn("position", col("offset"))
    )
    target_frame = read_records(spark, target, target_ranges(pieces)).selectExpr(*_HASHED)
    target_frame = map_to_source(spark, target_frame, build_lookup(pieces))
    return source_frame, target_frame


def hash_blocks(spark: Any, source: str, target: str, pieces: Sequence[PartitionPiece]) -> Sides:
    """Return the sums by topic, partition and block, of the source and of the target, with one Spark job."""
    from pyspark.sql.functions import expr

    block = f"coalesce(shiftright(position, {BLOCK_BITS}), {EXTRA}L) as block"
    frames = [
        frame.selectExpr(f"{side} as side", "topic", "partition", block, "offset", "xxhash64(position, content) as h")
        for side, frame in enumerate(read_both_sides(spark, source, target, pieces))
    ]
    # Halves of the hashes are added up: their sums are far from what would not fit.
    grouped = frames[0].unionAll(frames[1]).groupBy("side", "topic", "partition", "block")
    sums = grouped.agg(
        expr("count(1) as n"),
        expr("bit_xor(h) as x"),
        expr("sum(shiftright(h, 32)) as high"),
        expr("sum(h & 4294967295L) as low"),
        expr("min(offset) as first"),
    )
    sums_by_side: Sides = {}, {}
    for row in sums.collect():
        block_sums = BlockSums(row["n"], row["x"], row["high"], row["low"], row["first"])
        sums_by_side[row["side"]].setdefault((row["topic"], row["partition"]), {})[row["block"]] = block_sums
    return sums_by_side


def record_hash() -> str:
    """Return the expression for the hash of a record with `position`."""
    return f"xxhash64(position, {_CONTENT})"


# Single records, of the few blocks that differ


def _digest_expression(name: str, show_bytes: bool) -> str:
    head = f"substring({name}, 1, {HEAD_SIZE})" if show_bytes else "cast(null as binary)"
    digest = f"substring(sha2({name}, 256), 1, {HASH_DIGITS})"
    return f"if({name} is null, null, struct(octet_length({name}), {digest}, {head}))"


def _read_digests(
    spark: Any, bootstrap: str, ranges: Ranges, show_bytes: bool
) -> dict[TopicPartition, list[RecordDigest]]:
    headers = f"transform(headers, one -> struct(one.key, {_digest_expression('one.value', show_bytes)}))"
    frame = read_records(spark, bootstrap, ranges).selectExpr(
        *("topic", "partition", "offset", "unix_micros(timestamp)"),
        *(_digest_expression(name, show_bytes) for name in ("key", "value")),
        headers,
    )
    records: dict[TopicPartition, list[RecordDigest]] = {topic_partition: [] for topic_partition in ranges}
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
) -> Iterator[Difference | None]:
    """Yield the first difference of each piece, which should be at most one block of a partition that differs."""
    for begin in range(0, len(pieces), _PIECES_AT_ONCE):
        some = pieces[begin : begin + _PIECES_AT_ONCE]
        sources = _read_digests(spark, source, source_ranges(some), show_bytes)
        targets = _read_digests(spark, target, target_ranges(some), show_bytes)
        for piece in some:
            names = piece.topic, piece.partition, piece.target_topic
            yield RecordComparison(names, piece.runs(), sources[piece.where], targets[piece.target_where]).first()
