"""Spark's session for one command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kproxy.errors import ConfigError
from kproxy.packages import install

# Without spark-submit: a task is tried again only with the second number.
_HERE = "local[*,4]"
_CONNECTOR = "spark-sql-kafka-0-10"


@contextmanager
def spark_session(name: str, master: str | None, *, reads_kafka: bool = False) -> Iterator[Any]:
    """A session for as long as the context is open: spark-submit's, or one on this machine. If Spark's own Kafka source
    is needed and nothing has given it, Spark fetches it. Raises ConfigError if pyspark is not there, or Spark does not
    start."""
    try:
        import pyspark
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError(
            f"pyspark is not installed: {install('pyspark')}, or run spark-submit with python -m kproxy.migrate"
        ) from None
    builder = SparkSession.builder.appName(name)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is not None or not submitted:
        builder = builder.master(master or _HERE)
    remedy = ""
    if reads_kafka and not submitted and not _has_connector():
        scala = "2.12" if pyspark.__version__.startswith("3.") else "2.13"
        package = f"org.apache.spark:{_CONNECTOR}_{scala}:{pyspark.__version__}"
        builder = builder.config("spark.jars.packages", package)
        remedy = (
            f" If it could not fetch {package}: set PYSPARK_SUBMIT_ARGS='--jars FILES pyspark-shell', where FILES are"
            f" {_CONNECTOR} and the jars that it needs"
        )
    if not reads_kafka:
        # Spark would draw its bar over the table of the copy; a verification shows nothing else while a job runs.
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    # A task that runs twice at once fences itself.
    builder = builder.config("spark.speculation", "false")
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:  # its JVM has ended
        raise ConfigError(f"Spark did not start; what it printed says why.{remedy}") from error
    try:
        yield spark
    finally:
        spark.stop()


def _has_connector() -> bool:
    """Whether Spark is given its Kafka connector by its environment, its configuration or its installation."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    defaults = Path(os.environ.get("SPARK_CONF_DIR", home / "conf")) / "spark-defaults.conf"
    said = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if defaults.is_file():
        said += defaults.read_text(errors="replace")
    return _CONNECTOR in said or any((home / "jars").glob(f"{_CONNECTOR}*"))
