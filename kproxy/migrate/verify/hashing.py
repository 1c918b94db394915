"""Both sides read by Spark's own Kafka source, and the hashes of what they have, in expressions of Spark's.

The hash of a record has its offset on the source in it, and the hash of its content: key, value, headers and timestamp,
and the length of each, since Spark's hash passes over what is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.migrate.verify.blocks import EXTRA, BlockSums
from kproxy.migrate.verify.pieces import BLOCK_BITS, PartitionPiece, RunLookup, build_lookup

Ranges = Mapping[tuple[str, int], tuple[int, int]]

# The names of headers one after the other, their values, and where these are null. Most records have no headers, and
# Spark interprets what it does with them.
_CONTENT = """xxhash64(
    unix_micros(timestamp),
    coalesce(octet_length(key), -1), key, coalesce(octet_length(value), -1), value,
    case when size(headers) > 0 then xxhash64(
        size(headers), headers.key, headers.value,
        transform(headers, one -> coalesce(octet_length(one.value), -1))) else 0L end)"""
# What is hashed before the join with the map needs not be copied there.
_HASHED = ("topic", "partition", "offset", f"{_CONTENT} as content")
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10"


def read_records(spark: Any, bootstrap: str, ranges: Ranges, *, columns: Sequence[str] = ()) -> Any:
    """The committed records of these ranges. Raises ConfigError if Spark lacks its Kafka connector."""
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
        # Else one that was deleted meanwhile would be there again, and empty.
        "kafka.allow.auto.create.topics": "false",
        # What was deleted while it is read is seen by what is missing then.
        "failOnDataLoss": "false",
        "minPartitions": str(max(len(ranges), 2 * spark.sparkContext.defaultParallelism)),
        "kafka.max.poll.records": "2000",
        # A consumer asks for more than its range, and only ends when the answer is there: half a second for each task.
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.partition.fetch.bytes": str(4 << 20),
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
    return frame.select(*columns) if columns else frame


def _scala(spark: Any) -> str:
    try:
        version = str(spark.sparkContext._jvm.scala.util.Properties.versionNumberString())
    except Exception:  # noqa: BLE001  # it is for a message
        return "2.13"
    return ".".join(version.split(".")[:2])


def to_upstream_error(error: Exception) -> UpstreamError:
    """A job that Spark gave up, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return UpstreamError("other", f"Spark could not read: {(causes or lines or [type(error).__name__])[-1]}")


def map_to_source(spark: Any, target: Any, known: RunLookup) -> Any:
    """The target's records with `position`, their offset on the source; null if the map does not have them."""
    from pyspark.sql.functions import broadcast, expr

    schema = "m_topic string, m_partition int, bucket long, m_begin long, m_end long, delta long"
    table = broadcast(spark.createDataFrame(known.rows, schema))
    where = (
        f"topic = m_topic and partition = m_partition and shiftright(offset, {known.bits}) = bucket"
        " and offset >= m_begin and offset < m_end"
    )
    joined = target.join(table, expr(where), "left")
    return joined.withColumn("position", expr("offset + delta"))


def source_ranges(pieces: Sequence[PartitionPiece]) -> Ranges:
    return {piece.where: (piece.begin, piece.end) for piece in pieces}


def target_ranges(pieces: Sequence[PartitionPiece]) -> Ranges:
    return {piece.target_where: (piece.target_begin, piece.target_end) for piece in pieces}


def read_both_sides(spark: Any, source: str, target: str, pieces: Sequence[PartitionPiece]) -> tuple[Any, Any]:
    """Both sides, with `position` and the hash of the content."""
    from pyspark.sql.functions import col

    left = read_records(spark, source, source_ranges(pieces)).selectExpr(*_HASHED).withColumn("position", col("offset"))
    right = read_records(spark, target, target_ranges(pieces)).selectExpr(*_HASHED)
    right = map_to_source(spark, right, build_lookup(pieces))
    return left, right


Side = dict[tuple[str, int], dict[int, BlockSums]]


def hash_blocks(spark: Any, source: str, target: str, pieces: Sequence[PartitionPiece]) -> tuple[Side, Side]:
    """By topic, partition and block, of the source and of the target, in one job of Spark's."""
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
    found: tuple[Side, Side] = {}, {}
    for row in sums.collect():
        made = BlockSums(row["n"], row["x"], row["high"], row["low"], row["first"])
        found[row["side"]].setdefault((row["topic"], row["partition"]), {})[row["block"]] = made
    return found


def record_hash() -> str:
    """The expression for a record with `position`."""
    return f"xxhash64(position, {_CONTENT})"
