"""Compacted topics: the records that may be missing on one side.

Compaction removes a record only if a later one has its key, and a tombstone only if no earlier record of its key is
left. So a record that one side lacks is accepted there

- if that side has a later record with the same key, or
- if the last record with that key on the other side is a tombstone, and this side has no record with that key.

Nothing else is accepted. To decide it, Spark reads both logs completely, for the keys of missing records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kproxy.migrate.clusters.log_bounds import LogBounds
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.verify.hashing import map_to_source, read_records, record_hash, source_ranges, target_ranges
from kproxy.migrate.verify.pieces import BLOCK_BITS, PartitionPiece, build_lookup


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result for one piece, in records."""

    same: int = 0
    """Equal on both sides."""
    compacted_source: int = 0
    """Removed from the source by compaction."""
    compacted_target: int = 0
    """Removed from the target by compaction."""
    compacted_both: int = 0
    """Removed from both sides."""
    bad: int = 0
    """Blocks with records that differ."""
    first: int = -1
    """Source offset of the first record that differs, -1 if there is none."""
    extra: int = -1
    """Offset of the first record on the target that is not in the map, -1 if there is none."""


_COLUMNS = ["topic", "partition", "key", "position", "h", "gone", "offset"]


def explain_missing(
    spark: Any,
    addresses: tuple[str, str],
    pieces: Sequence[PartitionPiece],
    logs: tuple[Mapping[TopicPartition, LogBounds], Mapping[TopicPartition, LogBounds]],
) -> dict[TopicPartition, CompactionResult]:
    """Return the result of each piece, by topic and partition of the source.

    `addresses` and `logs`: of the source, then of the target.
    """
    from pyspark.sql.functions import broadcast, col, expr

    run_lookup = build_lookup(pieces)
    places = spark.createDataFrame(
        [(p.topic, p.target_topic, p.partition, p.begin, p.end, p.target_begin) for p in pieces],
        "s_topic string, t_topic string, s_partition int, s_begin long, s_end long, t_begin long",
    )
    source_frame = read_records(spark, addresses[0], source_ranges(pieces)).selectExpr(
        "topic",
        "partition",
        "key",
        "offset as position",
        "value is null as gone",
        "offset",
        "timestamp",
        "value",
        "headers",
    )
    source_frame = source_frame.withColumn("h", expr(record_hash())).select(*_COLUMNS)
    target_frame = map_to_source(spark, read_records(spark, addresses[1], target_ranges(pieces)), run_lookup)
    target_frame = target_frame.withColumn("h", expr(record_hash())).withColumn("gone", expr("value is null"))
    topic_names = broadcast(places.selectExpr("t_topic", "s_topic", "s_partition"))
    target_frame = target_frame.join(topic_names, expr("topic = t_topic and partition = s_partition")).withColumn(
        "topic", col("s_topic")
    )
    target_frame = target_frame.select(*_COLUMNS)
    extras = target_frame.where("position is null").groupBy("topic", "partition").agg(expr("min(offset) as extra"))
    pairs = source_frame.alias("l").join(
        target_frame.where("position is not null").alias("r"),
        expr("l.topic = r.topic and l.partition = r.partition and l.position = r.position"),
        "full",
    )
    pairs = pairs.selectExpr(
        "coalesce(l.topic, r.topic) as topic",
        "coalesce(l.partition, r.partition) as partition",
        "coalesce(l.position, r.position) as position",
        "coalesce(l.key, r.key) as key",
        "case when l.h = r.h then 'same' when l.h is null then 'source' when r.h is null then 'target' else 'bad' end"
        " as lacks",
    )
    lacking = pairs.where("lacks in ('source', 'target')")
    keys = lacking.select("topic", "partition", "key").distinct()
    last_records = [
        _last_by_key(frame, keys, name)
        for name, frame in (
            ("s", _read_source_log(spark, addresses[0], pieces, logs[0])),
            ("t", _read_target_log(spark, addresses[1], pieces, logs[1], run_lookup, places)),
        )
    ]
    judged = pairs
    for last in last_records:
        judged = judged.join(last, ["topic", "partition", "key"], "left")
    judged = judged.withColumn(
        "verdict",
        expr("""case
            when lacks = 'source' and (s_last > position or (s_last is null and t_gone)) then 'compacted_source'
            when lacks = 'target' and (t_last > position or (t_last is null and s_gone)) then 'compacted_target'
            when lacks = 'same' then 'same' else 'bad' end"""),
    )
    counted = judged.groupBy("topic", "partition").agg(
        *(expr(f"count_if(verdict = '{name}') as {name}") for name in ("same", "compacted_source", "compacted_target")),
        expr("count(1) as all"),
        expr("min(case when verdict = 'bad' then position end) as first"),
        expr(f"count(distinct case when verdict = 'bad' then shiftright(position, {BLOCK_BITS}) end) as bad"),
    )
    extra_offsets = {(row["topic"], row["partition"]): row["extra"] for row in extras.collect()}
    rows = {(row["topic"], row["partition"]): row for row in counted.collect()}
    return {piece.where: _result(piece, rows.get(piece.where), extra_offsets.get(piece.where, -1)) for piece in pieces}


def _result(piece: PartitionPiece, counts: Any, extra: int) -> CompactionResult:
    in_map = sum(count for _, _, count in piece.runs())
    if counts is None:
        return CompactionResult(compacted_both=in_map, extra=extra)
    first = -1 if counts["first"] is None else int(counts["first"])
    compacted_both = max(0, in_map - counts["all"])
    return CompactionResult(
        same=counts["same"],
        compacted_source=counts["compacted_source"],
        compacted_target=counts["compacted_target"],
        compacted_both=compacted_both,
        bad=counts["bad"],
        first=first,
        extra=extra,
    )


def _last_by_key(frame: Any, keys: Any, side: str) -> Any:
    """Return the place of the last record of each key on one side, and whether it is a tombstone."""
    from pyspark.sql.functions import expr

    grouped = frame.join(keys, ["topic", "partition", "key"], "left_semi").groupBy("topic", "partition", "key")
    return grouped.agg(expr(f"max(place) as {side}_last"), expr(f"max_by(gone, place) as {side}_gone"))


def _read_source_log(
    spark: Any, bootstrap: str, pieces: Sequence[PartitionPiece], logs: Mapping[TopicPartition, LogBounds]
) -> Any:
    ranges = {piece.where: (logs[piece.where].begin, logs[piece.where].end) for piece in pieces}
    return read_records(spark, bootstrap, ranges).selectExpr(
        "topic", "partition", "key", "offset as place", "value is null as gone"
    )


def _read_target_log(
    spark: Any,
    bootstrap: str,
    pieces: Sequence[PartitionPiece],
    logs: Mapping[TopicPartition, LogBounds],
    run_lookup: Any,
    places: Any,
) -> Any:
    """Return the target's records with their places.

    A place is an offset of the source as far as the map of these pieces goes. Before and after it, only the order is
    kept.
    """
    from pyspark.sql.functions import broadcast, expr

    ranges = {piece.target_where: (logs[piece.target_where].begin, logs[piece.target_where].end) for piece in pieces}
    frame = map_to_source(spark, read_records(spark, bootstrap, ranges), run_lookup)
    frame = frame.join(broadcast(places), expr("topic = t_topic and partition = s_partition"))
    place = "coalesce(position, if(offset < t_begin, offset - t_begin, s_end + offset))"
    return frame.selectExpr("s_topic as topic", "partition", "key", f"{place} as place", "value is null as gone")
