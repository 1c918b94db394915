"""A streaming query of Spark that continues during a switch.

    going_spark.py TOPIC CHECKPOINT [option=value ...]

It prints `batch NUMBER PARTITION:VALUE ...` for each batch; a batch that runs again replaces itself. It prints `died
ERROR` when Spark ends it. It ends when its standard input ends.
"""

from __future__ import annotations

import sys
import threading
import time

from pyspark.sql import SparkSession


def say(line: str) -> None:
    print(line, flush=True)


def note(frame, number: int) -> None:
    say(" ".join([f"batch {number}", *(f"{row['partition']}:{row['value']}" for row in frame.collect())]))


def in_a_line(error: str) -> str:
    """Return Spark's error of many lines as one line."""
    wanted = (line for line in error.splitlines() if "Cannot fetch" in line or "data may have been missed" in line)
    return next(wanted, error).strip().replace("\n", " ")[:300]


def main() -> None:
    topic, checkpoint, *pairs = sys.argv[1:]
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    spark = SparkSession.builder.getOrCreate()
    options = dict(pair.split("=", 1) for pair in pairs)
    read = spark.readStream.format("kafka").options(subscribe=topic, startingOffsets="earliest", **options).load()
    query = (
        read.selectExpr("partition", "cast(value as string) as value").writeStream.foreachBatch(note)
        .option("checkpointLocation", checkpoint).trigger(processingTime="500 milliseconds").start()
    )  # fmt: skip
    while query.isActive and not ends.is_set():
        time.sleep(0.2)
    if not query.isActive:
        say(f"died {in_a_line(str(query.exception()))}")
    query.stop()
    spark.stop()


main()
