"""Spark's session for one command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kproxy.base.errors import ConfigError
from kproxy.base.packages import install_command

# Without spark-submit: a task is tried again only with the second number.
_HERE = "local[*,4]"
_PYTHON = "PYSPARK_PYTHON"
# A JVM that lives for a minute spends most of it compiling code that it has only just begun to run.
_ONE_TIER = "-XX:TieredStopAtLevel=1"
_TIERS = re.compile(r"-XX:(TieredStopAtLevel=|[+-]TieredCompilation)|-Xint\b")
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
_SHORT = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
_CONNECTOR = "spark-sql-kafka-0-10"


@contextmanager
def spark_session(
    name: str, master: str | None, *, reads_kafka: bool = False, short_jobs: bool = False
) -> Iterator[Any]:
    """A session for as long as the context is open: spark-submit's, or one on this machine. If Spark's own Kafka source
    is needed and nothing has given it, Spark fetches it. On this machine, Python tasks run in the interpreter that has
    kproxy; on a cluster, in that which its configuration names. `short_jobs`: what counts is how soon a job of few
    records has ended, not how many records a second it takes. Raises ConfigError if pyspark is not there, or Spark does
    not start."""
    try:
        import pyspark
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError(
            f"pyspark is not installed: {install_command('pyspark')}, or run spark-submit with python -m kproxy.migrate"
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
    if short_jobs and not submitted:
        for key in _JAVA_OPTIONS:
            builder = builder.config(key, _quick(_default_of(key)))
    # A task that runs twice at once fences itself.
    builder = builder.config("spark.speculation", "false")
    with _own_python(_master(master or (None if submitted else _HERE))):
        try:
            spark = builder.getOrCreate()
        except PySparkRuntimeError as error:  # its JVM has ended
            raise ConfigError(f"Spark did not start; what it printed says why.{remedy}") from error
        try:
            yield spark
        finally:
            spark.stop()


def _master(given: str | None) -> str:
    """Where the tasks will run; spark-submit says it to its JVM."""
    if given is not None:
        return given
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return str(SparkConf().get("spark.master", ""))


@contextmanager
def _own_python(master: str) -> Iterator[None]:
    """pyspark takes the interpreter of tasks from PYSPARK_PYTHON when a context begins, else `python3`. On this machine
    none but this process's own is sure to have kproxy."""
    if not re.match(r"local(\[|-cluster\[|$)", master) or not sys.executable:
        yield
        return
    before = os.environ.get(_PYTHON)
    os.environ[_PYTHON] = sys.executable
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PYTHON]
        else:
            os.environ[_PYTHON] = before


def python_problem(error: Exception) -> str:
    """What is wrong with the interpreter of Spark's Python tasks, in one line, if that is why a job failed; else ""."""
    text = str(error)
    remedy = (
        "give all hosts one Python with kproxy and its extra migrate, and name it with PYSPARK_PYTHON or"
        " spark.pyspark.python"
    )
    if found := re.search(r"No module named '([\w.]+)'", text):
        return f"the Python of Spark's tasks ({_interpreter()}) lacks {found[1]}: {remedy}"
    if "PYTHON_VERSION_MISMATCH" in text:
        versions = re.findall(r"\b3\.\d+\b", text[text.index("PYTHON_VERSION_MISMATCH") :])[:2]
        said = f" ({versions[0]}, and the driver has {versions[1]})" if len(versions) == 2 else ""
        return f"the Python of Spark's tasks ({_interpreter()}) has another version than the driver's{said}: {remedy}"
    return ""


def _interpreter() -> str:
    return os.environ.get(_PYTHON, "python3")


@contextmanager
def tuned_for_short_job(spark: Any) -> Iterator[None]:
    """For a job of few records: nearly all of its time is Spark's own, for planning, compiling, and tasks that have
    nothing to do. What the user has set stays."""
    given, had = spark.sparkContext.getConf(), {}
    for key, value in _SHORT.items():
        if not given.contains(key):
            had[key] = spark.conf.get(key)
            spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in had.items():
            spark.conf.set(key, value)


def _quick(options: str) -> str:
    """Java's options with which code is compiled once and quickly, unless they say otherwise."""
    return options if _TIERS.search(options) else f"{options} {_ONE_TIER}".strip()


def _default_of(key: str) -> str:
    """What spark-defaults.conf has, "" if nothing: a session's own setting would replace it."""
    for line in _defaults().splitlines():
        if found := re.match(rf"\s*{re.escape(key)}(?:\s*[=:]\s*|\s+)(.*\S)", line):
            return found[1]
    return ""


def _defaults() -> str:
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    file = Path(os.environ.get("SPARK_CONF_DIR", home / "conf")) / "spark-defaults.conf"
    return file.read_text(errors="replace") if file.is_file() else ""


def _has_connector() -> bool:
    """Whether Spark is given its Kafka connector by its environment, its configuration or its installation."""
    from pyspark.find_spark_home import _find_spark_home

    said = os.environ.get("PYSPARK_SUBMIT_ARGS", "") + _defaults()
    return _CONNECTOR in said or any((Path(_find_spark_home()) / "jars").glob(f"{_CONNECTOR}*"))
