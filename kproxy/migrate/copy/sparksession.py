"""The Spark session of one command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from kproxy.base.errors import ConfigError
from kproxy.base.packages import install_command

# The master without spark-submit; the second number is the number of attempts of a task.
_LOCAL_MASTER = "local[*,4]"
_PYTHON = "PYSPARK_PYTHON"
# A JVM that lives for a minute spends most of that time compiling code that it has just begun to run.
_C1_ONLY = "-XX:TieredStopAtLevel=1"
_TIERS = re.compile(r"-XX:(TieredStopAtLevel=|[+-]TieredCompilation)|-Xint\b")
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
_SHORT_JOB_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
_CONNECTOR = "spark-sql-kafka-0-10"


@contextmanager
def spark_session(
    name: str,
    master: str | None,
    *,
    reads_kafka: bool = False,
    short_jobs: bool = False,
    output: TextIO | None = None,
) -> Iterator[Any]:
    """Open a Spark session while the context is open: spark-submit's, or one on this machine.

    `reads_kafka`: Spark fetches its Kafka source unless it has it. On this machine, Python tasks run in the interpreter
    that has kproxy; on a cluster, in the configured one. `short_jobs`: optimize for the duration of jobs with few
    records, not for records per second. `output`: the file that gets what Spark's JVM prints, unless spark-submit has
    started the JVM; None for the outputs of this process. Raises ConfigError if pyspark is not installed, or Spark does
    not start.
    """
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
        builder = builder.master(master or _LOCAL_MASTER)
    remedy = ""
    if reads_kafka and not submitted and not _has_connector():
        scala = "2.12" if pyspark.__version__.startswith("3.") else "2.13"
        package = f"org.apache.spark:{_CONNECTOR}_{scala}:{pyspark.__version__}"
        builder = builder.config("spark.jars.packages", package)
        remedy = (
            f" If it could not fetch {package}: set PYSPARK_SUBMIT_ARGS='--jars FILES pyspark-shell', where FILES are"
            f" {_CONNECTOR} and the jars that it needs"
        )
    if not reads_kafka or output is not None:
        # Spark would draw its progress bar over the table of the copy.
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    if short_jobs and not submitted:
        for key in _JAVA_OPTIONS:
            builder = builder.config(key, _with_c1_only(_default_setting(key)))
    # Two attempts of a task at the same time would fence each other.
    builder = builder.config("spark.speculation", "false")
    with _own_python(_master(master or (None if submitted else _LOCAL_MASTER))):
        try:
            with _children_print_to(output):
                spark = builder.getOrCreate()
        except PySparkRuntimeError as error:  # its JVM has ended
            where = "its output" if output is None else output.name
            raise ConfigError(f"Spark did not start; see {where} for the reason.{remedy}") from error
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _children_print_to(output: TextIO | None) -> Iterator[None]:
    """Let processes that are started while the context is open print to this file; None changes nothing."""
    if output is None:
        yield
        return
    for stream in (sys.stdout, sys.stderr, output):
        stream.flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in saved:
            os.dup2(output.fileno(), number)
        yield
    finally:
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


def _master(master: str | None) -> str:
    """Return the master of the session, which spark-submit gives to its JVM."""
    if master is not None:
        return master
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return str(SparkConf().get("spark.master", ""))


@contextmanager
def _own_python(master: str) -> Iterator[None]:
    """Let tasks on this machine use the interpreter of this process while the context is open.

    pyspark takes the interpreter of tasks from PYSPARK_PYTHON when a context begins, or `python3`. Only the interpreter
    of this process surely has kproxy.
    """
    if not re.match(r"local(\[|-cluster\[|$)", master) or not sys.executable:
        yield
        return
    previous = os.environ.get(_PYTHON)
    os.environ[_PYTHON] = sys.executable
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_PYTHON]
        else:
            os.environ[_PYTHON] = previous


def python_problem(error: Exception) -> str:
    """Return one line about the interpreter of Spark's Python tasks, if it is why a job failed, else ""."""
    text = str(error)
    remedy = (
        "give all hosts one Python with kproxy and its extra migrate, and name it with PYSPARK_PYTHON or"
        " spark.pyspark.python"
    )
    if missing := re.search(r"No module named '([\w.]+)'", text):
        return f"the Python of Spark's tasks ({_interpreter()}) lacks {missing[1]}: {remedy}"
    if "PYTHON_VERSION_MISMATCH" in text:
        versions = re.findall(r"\b3\.\d+\b", text[text.index("PYTHON_VERSION_MISMATCH") :])[:2]
        version_text = f" ({versions[0]}, and the driver has {versions[1]})" if len(versions) == 2 else ""
        python = f"the Python of Spark's tasks ({_interpreter()})"
        return f"{python} has another version than the driver's{version_text}: {remedy}"
    return ""


def _interpreter() -> str:
    return os.environ.get(_PYTHON, "python3")


@contextmanager
def tuned_for_short_job(spark: Any) -> Iterator[None]:
    """Set Spark's options for a job of few records while the context is open. Options of the user stay.

    Nearly all time of such a job is Spark's own, for planning, compiling, and empty tasks.
    """
    user_conf, previous = spark.sparkContext.getConf(), {}
    for key, value in _SHORT_JOB_CONF.items():
        if not user_conf.contains(key):
            previous[key] = spark.conf.get(key)
            spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in previous.items():
            spark.conf.set(key, value)


def _with_c1_only(options: str) -> str:
    """Return Java options with which code is compiled once and quickly, unless they set the compilation already."""
    return options if _TIERS.search(options) else f"{options} {_C1_ONLY}".strip()


def _default_setting(key: str) -> str:
    """Return a setting of spark-defaults.conf, "" if there is none: a session's own setting would replace it."""
    for line in _defaults().splitlines():
        if match := re.match(rf"\s*{re.escape(key)}(?:\s*[=:]\s*|\s+)(.*\S)", line):
            return match[1]
    return ""


def _defaults() -> str:
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    file = Path(os.environ.get("SPARK_CONF_DIR", home / "conf")) / "spark-defaults.conf"
    return file.read_text(errors="replace") if file.is_file() else ""


def _has_connector() -> bool:
    """Return True if environment, configuration or installation give Spark its Kafka connector."""
    from pyspark.find_spark_home import _find_spark_home

    settings = os.environ.get("PYSPARK_SUBMIT_ARGS", "") + _defaults()
    return _CONNECTOR in settings or any((Path(_find_spark_home()) / "jars").glob(f"{_CONNECTOR}*"))
