"""Real Spark: a home for a test, its Kafka connector, its processes. pyspark may not be installed."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.jars import fetch_spark_connector
from kproxy.spark.host import ProxyState, query_proxy
from tests.harness.clients.sparkclasses import java_options
from tests.harness.process import free_window

needs_spark = pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed: pip install --group spark"
)

# What the brokers of `cluster_with_login` want of clients.
PASSWORD = f"secret-{uuid4().hex}"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = {"sasl": "PLAIN", "sasl-username": "spark", "sasl-password": PASSWORD}

# Two executors, each a JVM of its own with one core.
TWO_EXECUTORS = "local-cluster[2,1,1024]"


def cluster_with_login() -> DevCluster:
    """Start three brokers whose clients must log in; other listeners, for the tests' own clients, are open."""
    properties = {
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f'{PLAIN} user_spark="{PASSWORD}";',
    }
    return DevCluster(3, client_protocol="SASL_PLAINTEXT", properties=properties)


def configuration(brokers: DevCluster, **more: Any) -> dict[str, Any]:
    """Return a user's configuration file for these brokers, with free ports."""
    return {"bootstrap-servers": brokers.bootstrap, "listen": f"127.0.0.1:{free_window(202)}", **LOGIN, **more}


def connector() -> str:
    """Return the jars of Spark's Kafka connector, for spark.jars."""
    import pyspark

    return ",".join(map(str, fetch_spark_connector(pyspark.__version__)))


def spark_home(directory: Path, of: Path | None = None, *, defaults: Mapping[str, str] | None = None) -> Path:
    """Create a separate SPARK_HOME, because executors of a local cluster write to its `work`.

    `of` is the SPARK_HOME of pyspark or of another Spark. It has no `conf`, as Java's archive of classes would not fit,
    unless `defaults` must be in its spark-defaults.conf, for a process that creates its session itself.
    """
    if of is None:
        import pyspark

        of = Path(pyspark.__file__).parent
    home = directory / "spark"
    home.mkdir()
    for entry in of.iterdir():
        if entry.name != "conf" or defaults is None:  # what is behind a link would be everybody's
            (home / entry.name).symlink_to(entry)
    if defaults is not None:
        (home / "conf").mkdir()
        lines = [f"{name} {value}\n" for name, value in defaults.items()]
        (home / "conf" / "spark-defaults.conf").write_text("".join(lines))
    return home


def environment(home: Path, python: str = sys.executable) -> dict[str, str]:
    """Return the environment for a test's own Spark.

    Executors get this interpreter, in which kproxy is installed; all JVMs start quickly.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "KPROXY_"))}
    local = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(home / "local")}
    quick = {"JDK_JAVA_OPTIONS": java_options()}
    return own | local | quick | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}


def bare_environment(home: Path) -> dict[str, str]:
    """Return the environment of a machine where no virtual environment is activated.

    Nothing names an interpreter, and the `python3` of PATH has no kproxy.
    """
    other = home.parent / "other-python"
    other.mkdir(exist_ok=True)
    program = other / "python3"
    if not program.exists():
        made = other / f"python3-{uuid4().hex}"
        made.write_text("#!/bin/sh\necho 'the python3 of PATH, which has no kproxy' >&2\nexit 1\n")
        made.chmod(0o755)
        made.rename(program)
    own = environment(home)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH"):
        own.pop(name, None)
    return own | {"PATH": f"{other}{os.pathsep}{own['PATH']}"}


def settings(**more: str) -> dict[str, str]:
    """Return the settings of every session here; `more` with `_` for `.`. Spark's parts authenticate to each other."""
    quick = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.authenticate": "true",
        "spark.authenticate.secret": uuid4().hex,
    }
    return quick | {key.replace("_", "."): value for key, value in more.items()}


@contextmanager
def session(home: Path, conf: Mapping[str, str]) -> Iterator[Any]:
    """Yield a SparkSession in this process; its JVM ends with the block."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(home).items():
            patch.setenv(name, value)
        with contextlib.chdir(home):  # where its JVM is, and leaves a directory
            made = SparkSession.builder.config(map=dict(conf)).getOrCreate()
        _leave_no_answer_behind(made.sparkContext._gateway._gateway_client)
        try:
            yield made
        finally:
            made.stop()
            gateway = SparkContext._gateway
            if gateway is not None:
                gateway.shutdown()
                gateway.proc.stdin.close()
                gateway.proc.wait(60)
            SparkContext._gateway = SparkContext._jvm = None
            gc.collect()  # its sockets, while warnings about them are ignored


def _leave_no_answer_behind(client: Any) -> None:
    """Close the connection to the JVM when a test's time limit interrupts a call.

    py4j does so for errors only, and a time limit is none of them (`BaseException`). The next test would take the
    answer that is still to come for its own.
    """
    send = client.send_command

    def send_command(*args: Any, **kwargs: Any) -> Any:
        try:
            return send(*args, **kwargs)
        except Exception:
            raise
        except BaseException:
            connection = client.get_thread_connection()
            if connection is not None:
                connection.close(True)
            raise

    client.send_command = send_command


def proxy_of(listen: str) -> ProxyState:
    """Return this host's proxy on that address, which must exist."""
    answer = query_proxy(listen)
    assert answer is not None, f"no kproxy on {listen}"
    return answer


def executor_pids(home: Path, application: str = "") -> dict[str, int]:
    """Return process ids of JVMs by executor id, of executors below `home`; of one application, or of all."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_text(errors="replace").split("\0")
            if (
                "--executor-id" in words
                and (not application or application in words)
                and (entry / "cwd").resolve().is_relative_to(home.resolve())
            ):
                found[words[words.index("--executor-id") + 1]] = int(entry.name)
        except OSError:
            continue
    return found


def had_kproxy_first(log: Path, listen: str) -> bool:
    """Return whether an executor's log has a task; fail if kproxy was not ready before it."""
    text = log.read_text(errors="replace") if log.exists() else ""
    if "Got assigned task" not in text:
        return False
    assert 0 < text.index(f"kproxy is ready for this executor: {listen}") < text.index("Got assigned task")
    return True
