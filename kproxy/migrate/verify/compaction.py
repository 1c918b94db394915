"""Compacted topics: which records may be missing on one side, and which may not.

Compaction removes a record only if a later one has its key, and a tombstone only if no earlier record of its key is
left. So a record that one side lacks is accepted there

- if that side has a later record with the same key, or
- if the last record with that key on the other side is a tombstone, and this side has no record with that key at all.

Nothing else is. To know it, both logs are read from their beginning to their end, for the keys of missing records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kproxy.migrate.clusters.log_bounds import LogBounds
from kproxy.migrate.verify.hashing import map_to_source, read_records, record_hash, source_ranges, target_ranges
from kproxy.migrate.verify.pieces import BLOCK_BITS, PartitionPiece, build_lookup


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Of one piece: records that are the same on both sides, those that compaction has removed from the source, from
    the target, from both; blocks with records that are wrong all the same, and the first of these on the source (-1:
    the target has records that the map does not have, `extra` the first of them)."""

    same: int = 0
    compacted_source: int = 0
    compacted_target: int = 0
    compacted_both: int = 0
    bad: int = 0
    first: int = -1
    extra: int = -1


_COLUMNS = ["topic", "partition", "key", "position", "h", "gone", "offset"]


def explain_missing(
    spark: Any,
    addresses: tuple[str, str],
    pieces: Sequence[PartitionPiece],
    logs: tuple[Mapping[tuple[str, int], LogBounds], Mapping[tuple[str, int], LogBounds]],
) -> dict[tuple[str, int], CompactionResult]:
    """By topic and partition on the source. `addresses`, `logs`: the source's, the target's."""
    from pyspark.sql.functions import broadcast, col, expr

    known = build_lookup(pieces)
    places = spark.createDataFrame(
        [(p.topic, p.target_topic, p.partition, p.begin, p.end, p.target_begin) for p in pieces],
        "s_topic string, t_topic string, s_partition int, s_begin long, s_end long, t_begin long",
    )
    left = read_records(spark, addresses[0], source_ranges(pieces)).selectExpr(
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
    left = left.withColumn("h", expr(record_hash())).select(*_COLUMNS)
    right = map_to_source(spark, read_records(spark, addresses[1], target_ranges(pieces)), known)
    right = right.withColumn("h", expr(record_hash())).withColumn("gone", expr("value is null"))
    renamed = broadcast(places.selectExpr("t_topic", "s_topic", "s_partition"))
    right = right.join(renamed, expr("topic = t_topic and partition = s_partition")).withColumn("topic", col("s_topic"))
    right = right.select(*_COLUMNS)
    extras = right.where("position is null").groupBy("topic", "partition").agg(expr("min(offset) as extra"))
    pairs = left.alias("l").join(
        right.where("position is not null").alias("r"),
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
    lasts = [
        _lasts(frame, keys, name)
        for name, frame in (
            ("s", _whole_source(spark, addresses[0], pieces, logs[0])),
            ("t", _whole_target(spark, addresses[1], pieces, logs[1], known, places)),
        )
    ]
    judged = pairs
    for last in lasts:
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
    alone = {(row["topic"], row["partition"]): row["extra"] for row in extras.collect()}
    rows = {(row["topic"], row["partition"]): row for row in counted.collect()}
    return {piece.where: _outcome(piece, rows.get(piece.where), alone.get(piece.where, -1)) for piece in pieces}


def _outcome(piece: PartitionPiece, row: Any, extra: int) -> CompactionResult:
    in_map = sum(count for _, _, count in piece.runs())
    if row is None:
        return CompactionResult(compacted_both=in_map, extra=extra)
    first = -1 if row["first"] is None else int(row["first"])
    compacted_both = max(0, in_map - row["all"])
    return CompactionResult(
        row["same"], row["compacted_source"], row["compacted_target"], compacted_both, row["bad"], first, extra
    )


def _lasts(frame: Any, keys: Any, side: str) -> Any:
    """Of each key on one side: the place of its last record, and whether that is a tombstone."""
    from pyspark.sql.functions import expr

    found = frame.join(keys, ["topic", "partition", "key"], "left_semi").groupBy("topic", "partition", "key")
    return found.agg(expr(f"max(place) as {side}_last"), expr(f"max_by(gone, place) as {side}_gone"))


def _whole_source(
    spark: Any, bootstrap: str, pieces: Sequence[PartitionPiece], logs: Mapping[tuple[str, int], LogBounds]
) -> Any:
    ranges = {piece.where: (logs[piece.where].begin, logs[piece.where].end) for piece in pieces}
    return read_records(spark, bootstrap, ranges).selectExpr(
        "topic", "partition", "key", "offset as place", "value is null as gone"
    )


def _whole_target(
    spark: Any,
    bootstrap: str,
    pieces: Sequence[PartitionPiece],
    logs: Mapping[tuple[str, int], LogBounds],
    known: Any,
    places: Any,
) -> Any:
    """Places are the source's offsets as far as the map of these pieces goes; before and after it, their order is kept
    and nothing else."""
    from pyspark.sql.functions import broadcast, expr

    ranges = {piece.target_where: (logs[piece.target_where].begin, logs[piece.target_where].end) for piece in pieces}
    frame = map_to_source(spark, read_records(spark, bootstrap, ranges), known)
    frame = frame.join(broadcast(places), expr("topic = t_topic and partition = s_partition"))
    place = "coalesce(position, if(offset < t_begin, offset - t_begin, s_end + offset))"
    return frame.selectExpr("s_topic as topic", "partition", "key", f"{place} as place", "value is null as gone")
