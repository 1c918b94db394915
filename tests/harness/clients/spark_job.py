"""A Spark job that obeys commands: `spark-submit spark_job.py COMMANDS`, a fifo with one command on each line.

    id                   prints `id ID`, the application's
    attach CONFIG        kproxy.spark.attach; prints `attached BOOTSTRAP`
    count BOOTSTRAP TOPIC  counts records; prints `counted N on HOST,…`, the hosts that ran the Kafka tasks
    executors N          asks Spark for so many executors in all; prints `asked N`
    stop                 ends

It prints an error as `failed TEXT` and continues. It prints everything to stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def main(commands: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    say("ready")
    with Path(commands).open() as lines:
        for line in lines:
            try:
                match line.split():
                    case ["id"]:
                        say("id", spark.sparkContext.applicationId)
                    case ["attach", config]:
                        from kproxy.spark import attach

                        say("attached", attach(spark, config))
                    case ["count", bootstrap, topic]:
                        say("counted", *count(spark, bootstrap, topic))
                    case ["executors", number]:
                        assert spark.sparkContext._jsc.sc().requestExecutors(int(number))
                        say("asked", number)
                    case ["stop"]:
                        break
            except Exception as error:  # noqa: BLE001 - the test reads what is wrong, and goes on
                say("failed", " ".join(str(error).split())[:2000])
    spark.stop()


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def count(spark: Any, bootstrap: str, topic: str) -> tuple[int, str, str]:
    """Return the number of records, and the hosts that read them, from a Python function after the source."""

    def here(rows: Iterable[Any]) -> Iterator[tuple[str, int]]:
        import socket

        yield socket.gethostname(), sum(1 for _ in rows)

    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    found = source.option("subscribe", topic).option("minPartitions", "6").load().rdd.mapPartitions(here).collect()
    return sum(number for _, number in found), "on", ",".join(sorted({host for host, _ in found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
