"""A Spark application on this Python and its pyspark: `spark_client.py BOOTSTRAP TOPIC JARS DIRECTORY CONF`.

Writes 1,000 records, reads them, counts them in a stream, has an executor killed and reads them again. Prints one line
of JSON: what was counted each time. Needs kproxy and pyspark only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

RECORDS = 1000
PATIENCE = 240.0


def main(bootstrap: str, topic: str, jars: str, directory: str, conf: str) -> None:
    from pyspark.sql import SparkSession

    import kproxy.spark

    settings = json.loads(conf) | kproxy.spark.plugin(jars=[jars])
    spark: Any = SparkSession.builder.config(map=settings).getOrCreate()
    kafka = {"kafka.bootstrap.servers": kproxy.spark.attach(spark, bootstrap, timeout=PATIENCE)}
    numbers = spark.range(RECORDS).selectExpr("cast(id as string) as value")
    numbers.write.format("kafka").options(**kafka, topic=topic).save()

    def total() -> list[int]:
        rows = spark.read.format("kafka").options(**kafka, subscribe=topic).load()
        [row] = rows.selectExpr("count(*) as n", "sum(cast(cast(value as string) as int)) as s").collect()
        return [row["n"], row["s"]]

    read = total()
    stream = spark.readStream.format("kafka").options(**kafka, subscribe=topic, startingOffsets="earliest").load()
    to = stream.groupBy().count().writeStream.format("memory").queryName("counted").outputMode("complete")
    query = to.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    [counted] = spark.sql("select * from counted").collect()
    before = executors(directory)
    os.kill(max(before), signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while len(executors(directory) - {max(before)}) < len(before):
        assert time.monotonic() < until, "no other executor came"
        time.sleep(0.2)
    again = total()
    spark.stop()
    sys.stdout.write(json.dumps({"read": read, "stream": counted[0], "again": again}) + "\n")


def executors(directory: str) -> set[int]:
    """The process ids of the executors that write below this directory."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_text(errors="replace").split("\0")
            if "--executor-id" in words and (entry / "cwd").resolve().is_relative_to(directory):
                found.add(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
