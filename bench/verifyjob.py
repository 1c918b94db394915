"""Verifications by `kproxy migrate verify` in one session of Spark, as a separate process.

python -m bench.verifyjob SOURCE TARGET JARS MIGRATION...

Prints a line of JSON for the session's start and for each verification: CPU-seconds of this process and of Spark's JVM,
seconds, records. The results are not kept, so that the same copy can be verified again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from bench.machine import cpu_seconds, descendants
from kproxy.migrate.clusters.topic_identities import migrated_topics
from kproxy.migrate.copier.statetopic import parse_copied_partitions, read_state
from kproxy.migrate.verify.trailing_records import CopiedEnd
from kproxy.migrate.verify.verification import Verification


def say(what: str, run: Callable[[], int]) -> None:
    cpu, began = cpu_seconds(descendants(os.getpid())), time.monotonic()
    records = run()
    document = {
        "what": what,
        "cpu": cpu_seconds(descendants(os.getpid())) - cpu,
        "seconds": time.monotonic() - began,
        "records": records,
    }
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def verified(spark: SparkSession, source: str, target: str, name: str) -> int:
    """Verify from reading the state to the last job; return how many records are equal."""
    values = read_state(target, name)
    copied = parse_copied_partitions(values)
    ends = {partition.target_where: CopiedEnd(partition.target_next) for partition in copied.values()}
    verification = Verification(spark, source, target, read_copied_ends=lambda: ends).run(
        name, copied, {}, migrated_topics(values)
    )
    if verification.exit_code:
        raise SystemExit(f"{name} is not the same on both sides: {verification.differences}")
    return sum(partition.records for partition in verification.partitions)


def main(source: str, target: str, jars: str, names: list[str]) -> None:
    settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.jars": jars}

    def start() -> int:
        SparkSession.builder.config(map=settings).getOrCreate().sparkContext.setLogLevel("ERROR")
        return 0

    say("start", start)
    spark = SparkSession.builder.getOrCreate()
    try:
        for name in names:
            say(name, lambda name=name: verified(spark, source, target, name))  # type: ignore[misc]  # mypy knows no type of a default
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4], sys.argv[4:])
