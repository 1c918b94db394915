"""Spark's session for one command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kproxy.errors import ConfigError

# Without spark-submit: a task is tried again only with the second number.
_HERE = "local[*,4]"


@contextmanager
def spark_session(name: str, master: str | None, *, reads_kafka: bool = False) -> Iterator[Any]:
    """A session for as long as the context is open: spark-submit's, or one on this machine. If Spark's own Kafka source
    is needed and nothing has given it, Spark fetches it. Raises ConfigError if pyspark is not there."""
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError(
            "pyspark is not installed: pip install pyspark, or run spark-submit with python -m kproxy.migrate"
        ) from None
    builder = SparkSession.builder.appName(name)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is not None or not submitted:
        builder = builder.master(master or _HERE)
    if reads_kafka and not submitted:
        scala = "2.12" if pyspark.__version__.startswith("3.") else "2.13"
        package = f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{pyspark.__version__}"
        builder = builder.config("spark.jars.packages", package)
    # A task that runs twice at once fences itself.
    spark = builder.config("spark.speculation", "false").getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
