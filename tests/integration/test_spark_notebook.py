"""As in a notebook: one Python process attaches, fails, stops, and attaches again. Real Spark, real brokers."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.process import start_time
from kproxy.dev.devcluster import DevCluster
from kproxy.spark import attach, detach
from kproxy.spark.host import query_proxy
from tests.harness.clients.spark import (
    TWO_EXECUTORS,
    configuration,
    connector,
    executor_pids,
    needs_spark,
    proxy_of,
    session,
    settings,
    spark_home,
)
from tests.harness.process import free_window, wait_until
from tests.harness.topics import create_topic, read_topic, values

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    pytest.mark.timeout(600),
    # pyspark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Longer than any test: what needs it fails.
FOR_EVER = 3600.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Makes the session, on this master; once in a test, and `stop` ends it. Its JVM goes on until the test is over."""
    home = spark_home(tmp_path)
    with ExitStack() as made:
        yield lambda master: made.enter_context(session(home, settings(spark_master=master, spark_jars=connector())))


def nothing_is_left(listen: str) -> None:
    wait_until(lambda: query_proxy(listen) is None, "kproxy has ended")


def test_what_stands_in_the_way_is_said(
    brokers: DevCluster, start: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt fails for its own reason, leaves nothing, and does not disturb the next one."""
    spark = start("local[1]")
    listen = f"127.0.0.1:{free_window(202)}"
    one_of_three = configuration(brokers, listen=listen) | {"bootstrap-servers": str(brokers.dial[1])}
    with pytest.raises(ConfigError) as unknown:
        attach(spark, one_of_three, timeout=FOR_EVER)
    for node in (2, 3):
        assert f"broker {node} ({brokers.advertised[node]}) cannot be reached: " in str(unknown.value)
        # kproxy's own words were in the log before.
        assert any(f"broker {node}: " in line and "cannot be reached" in line for line in caplog.messages)
    said = "Say where each of them is: `map: [node:2=HOST:PORT, node:3=HOST:PORT]`. Or list"
    assert said in str(unknown.value)
    assert str(unknown.value).endswith("(in `…`: keys of the dict that attach was given)")
    assert "--" not in str(unknown.value)
    wrong = configuration(brokers, listen=listen) | {"sasl-password": "wrong"}
    with pytest.raises(
        ConfigError, match=r"SASL: the broker refused the login .*check sasl-username and the password$"
    ):
        attach(spark, wrong, timeout=FOR_EVER)
    caplog.clear()
    assert attach(spark, one_of_three, ready_requires="one") == listen
    said = [line for line in caplog.messages if "2 of 3 nodes cannot be reached from here" in line]
    assert said
    detach(spark)
    detach(spark)  # does nothing
    nothing_is_left(listen)
    # What is no session, or is none any more.
    no_session: tuple[tuple[Any, str], ...] = ((None, "None"), (spark.sparkContext, "of type SparkContext"))
    for given, words in no_session:
        expected = f"^the first argument must be a SparkSession, and not {words}$"
        with pytest.raises(ConfigError, match=expected):
            attach(given, listen)
        with pytest.raises(ConfigError, match=expected):
            detach(given)
    spark.sparkContext._jsc.sc().stop()  # by a program of Java's
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^this Spark session has been stopped: create another one"):
            attach(spark, one_of_three)
        detach(spark)
        spark.stop()


def test_detach_does_not_wait_for_brokers(brokers: DevCluster, start: Callable[[str], Any]) -> None:
    """The keeper is killed when the brokers have gone: a new kproxy would wait for them for a long time."""
    spark = start("local[1]")
    road = f"127.0.0.1:{free_window(1)}"
    config = configuration(brokers) | {"bootstrap-servers": road}
    command = [sys.executable, "-m", "tests.harness.servers.forward", f"{road}={brokers.dial[1]}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as forward:
        try:
            assert forward.stdout is not None
            assert forward.stdout.readline() == b"forwarding\n"
            listen = attach(spark, config, FOR_EVER, ready_requires="one")
        finally:
            forward.kill()
    before = proxy_of(listen)
    os.kill(before.keeper, signal.SIGKILL)
    wait_until(
        lambda: (now := query_proxy(listen)) and now.keeper != before.keeper and now.leases, "it is joined again"
    )
    detach(spark)
    nothing_is_left(listen)


@pytest.mark.matrix
def test_stop_edit_and_attach_again(brokers: DevCluster, start: Callable[[str], Any], tmp_path: Path) -> None:
    """In local mode the JVM goes on, with producers that would complain: the proxy stays until its place is wanted."""
    topic = create_topic(brokers.direct_bootstrap)
    spark = start("local[2]")
    config = configuration(brokers)
    bootstrap = attach(spark, config)
    rows = spark.createDataFrame([("one",), ("two",)], "value string")
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
    before = proxy_of(bootstrap)
    spark.stop()
    wait_until(lambda: not proxy_of(bootstrap).leases, "the application is over")
    assert proxy_of(bootstrap).kproxy == before.kproxy
    from pyspark.sql import SparkSession

    again = SparkSession.builder.config(map=settings(spark_master="local[2]", spark_jars=connector())).getOrCreate()
    try:
        edited = config | {"connect-timeout": "9s"}
        assert attach(again, edited) == bootstrap
        now = proxy_of(bootstrap)
        assert now.keeper != before.keeper
        assert start_time(before.keeper) is None
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        read = again.read.format("kafka").options(**options).load()
        assert read.count() == 2
        stream = again.readStream.format("kafka").options(**options).load()
        counted: list[int] = []
        to = stream.writeStream.foreachBatch(lambda rows, _: counted.append(rows.count()))
        to.option("checkpointLocation", str(tmp_path / "batches")).trigger(availableNow=True).start().awaitTermination()
        assert sum(counted) == 2
        to = stream.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        to.option("checkpointLocation", str(tmp_path / "files")).trigger(availableNow=True).start().awaitTermination()
        assert again.read.parquet(str(tmp_path / "table")).count() == 2
        with pytest.raises(ConfigError, match=r"call kproxy\.spark\.detach\(spark\) first"):
            attach(again, config)
        detach(again)
        assert attach(again, config) == bootstrap
    finally:
        detach(again)
        again.stop()
    nothing_is_left(bootstrap)
    assert values(read_topic(brokers.direct_bootstrap, topic)) == [b"one", b"two"]


@pytest.mark.matrix
def test_without_the_plugin(
    brokers: DevCluster, start: Callable[[str], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Executors have kproxy when `attach` returns, though Spark had none yet; the user is told what is not covered."""
    caplog.set_level(logging.WARNING, "kproxy.spark")
    spark = start(TWO_EXECUTORS)
    config = configuration(brokers)
    listen = config["listen"]
    spark.sparkContext._conf.set("spark.authenticate", "false")
    spark.sparkContext._jsc.sc().conf().set("spark.authenticate", "false")
    with pytest.raises(ConfigError, match=r"has a secret \(sasl-password\), and spark.authenticate is not true"):
        attach(spark, config)
    attach(spark, config, allow_unauthenticated=True)
    executors = executor_pids(tmp_path / "spark")
    assert len(executors) == 2
    assert {lease["pid"] for lease in proxy_of(listen).leases} == {os.getpid(), *executors.values()}
    [line] = [line for line in caplog.messages if "kproxy.spark.plugin()" in line]
    assert line.startswith("without kproxy's Spark plugin, an executor that starts later")
    before = proxy_of(listen)
    assert before.kproxy is not None
    os.kill(before.kproxy, 9)
    wait_until(
        lambda: [line for line in caplog.messages if f"kproxy (process {before.kproxy}) was ended" in line], "said"
    )
    detach(spark)
    nothing_is_left(listen)
    assert executor_pids(tmp_path / "spark") == executors


@pytest.mark.matrix
def test_fewer_executors_than_there_should_be(
    brokers: DevCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One of two, without the plugin: while a job has its only slot, `attach` fails; then it warns, and goes on."""
    conf = settings(spark_master=TWO_EXECUTORS, spark_cores_max="1", spark_jars=connector())
    config, fifo = configuration(brokers), tmp_path / "fifo"
    os.mkfifo(fifo)
    with session(spark_home(tmp_path), conf) as spark, ThreadPoolExecutor(1) as thread:
        waiting = spark.sparkContext.parallelize([0], 1).map(lambda _: fifo.read_text())
        busy = thread.submit(waiting.collect)
        said = r"^executor 0 ran no task within 6 s, so it has no kproxy$"
        with fifo.open("w"), pytest.raises(UpstreamError, match=said):  # it is open once the task has its slot
            attach(spark, config, timeout=6)
        assert busy.result() == [""]
        nothing_is_left(config["listen"])
        assert attach(spark, config, timeout=15) == config["listen"]
        assert "Spark has 1 of 2 executors after 15 s; attach continues" in caplog.messages
        detach(spark)
    nothing_is_left(config["listen"])


@pytest.mark.matrix
def test_without_the_plugin_and_without_a_python(
    brokers: DevCluster, start: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark cannot run the tasks of `attach`: in one line the cause, and no stack trace of Java's."""
    spark = start(TWO_EXECUTORS)
    config = configuration(brokers)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/there/is/no/python")
    with pytest.raises(UpstreamError) as failed:
        attach(spark, config)
    said = str(failed.value)
    assert said.startswith("Spark cannot run kproxy's tasks on executors: org.apache.spark.SparkException: Job aborted")
    assert 'Cannot run program "/there/is/no/python"' in said
    assert "\n" not in said
    nothing_is_left(config["listen"])
