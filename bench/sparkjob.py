"""Jobs of Spark as a separate process.

python -m bench.sparkjob DIRECT KPROXY-CONFIG TOPIC TARGET ROUNDS SCRATCH

Prints a line of JSON for each job: its name, its path, its seconds. All jobs run in one session, because starting one
takes longer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, length, lit
from pyspark.sql.functions import sum as total

from bench.peers import DIRECT, KPROXY
from kproxy.spark import attach, plugin


def say(job: str, path: str, seconds: float) -> None:
    sys.stdout.write(json.dumps({"job": job, "path": path, "seconds": seconds}) + "\n")
    sys.stdout.flush()


def batch(spark: Any, bootstrap: str, topic: str) -> None:
    """Read a topic to its end and sum it up."""
    records = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic}).load()
    records.agg(count(lit(1)), total(length("value"))).collect()


def streaming(spark: Any, bootstrap: str, topic: str, target: str, checkpoint: Path) -> None:
    """Read a topic to its end in batches, count by key, write each record to another topic."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger="100000").load()
    to = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": str(checkpoint)}
    query = records.select(col("key"), col("value")).writeStream.format("kafka").options(**to)
    query.trigger(availableNow=True).start().awaitTermination()


def timed(job: str, path: str, run: Callable[[], object]) -> None:
    began = time.perf_counter()
    run()
    say(job, path, time.perf_counter() - began)


def main(direct: str, config: str, topic: str, target: str, rounds: int, scratch: Path) -> None:
    spark = SparkSession.builder.config(map=plugin(jars=json.loads(scratch.joinpath("jars").read_text()))).getOrCreate()
    try:
        timed("first-python-job", DIRECT, lambda: spark.sparkContext.parallelize(range(4), 4).map(abs).collect())
        timed("attach", KPROXY, lambda: attach(spark, config))
        paths = [(DIRECT, direct), (KPROXY, attach(spark, config))]
        for turn in range(rounds + 1):
            for name, bootstrap in paths if turn % 2 else reversed(paths):
                warm = "warm-" if turn == 0 else ""  # JVMs are slow at first
                timed(f"{warm}batch", name, lambda at=bootstrap: batch(spark, at, topic))
                checkpoint = scratch / f"checkpoint-{turn}-{name}"
                timed(
                    f"{warm}streaming",
                    name,
                    lambda at=bootstrap, into=checkpoint: streaming(spark, at, topic, target, into),
                )
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), Path(sys.argv[6]))
