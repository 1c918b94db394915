"""A server of Spark Connect whose executors have kproxy, and clients of it that know nothing of that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from kproxy.spark.host import query_proxy
from tests.harness.clients.spark import (
    TWO_EXECUTORS,
    connector,
    environment,
    executor_pids,
    had_kproxy_first,
    needs_spark,
    proxy_of,
    settings,
    spark_home,
)
from tests.harness.clients.sparkjob import PATIENCE, running
from tests.harness.process import free_window, wait_until
from tests.harness.programs.javac import NotInstalled
from tests.harness.topics import create_topic, produce
from tests.matrix import pythons

pytestmark = [pytest.mark.matrix, needs_spark, pytest.mark.timeout(1800)]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLIENT = """
import sys
from pyspark.sql import SparkSession
from kproxy.spark import attach

remote, bootstrap = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
print("ready", flush=True)
for line in sys.stdin:
    try:
        if line.strip() == "attach":
            attach(spark, bootstrap)
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": line.strip()}
        print(spark.read.format("kafka").options(**options).load().repartition(4).count(), flush=True)
    except Exception as error:
        print(" ".join(str(error).split()), flush=True)
"""
# Each of two partitions has as many.
RECORDS = 3


@pytest.fixture(scope="module")
def client_python() -> Path:
    import pyspark

    python = max(one for one in pythons.found() if one.numbers[:2] <= (3, 13))
    try:
        return python.environment(f"pyspark[connect]=={pyspark.__version__}", "setuptools<81")
    except NotInstalled as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def brokers() -> Iterator[DevCluster]:
    with DevCluster(brokers=2) as made:
        yield made


@dataclass(frozen=True)
class Server:
    """One that runs."""

    home: Path
    url: str
    listen: str

    def executors(self) -> dict[str, int]:
        return executor_pids(self.home)


@contextmanager
def serving(directory: Path, brokers: DevCluster, **conf: str) -> Iterator[Server]:
    directory.mkdir()
    home = spark_home(directory)
    port = free_window(1)
    listen = f"127.0.0.1:{free_window(202)}"
    file = directory / "kproxy.yaml"
    file.write_text(f"bootstrap-servers: {brokers.bootstrap}\nlisten: {listen}\n")
    asked = [sys.executable, "-m", "kproxy.spark", "conf", str(file), "--jars", connector()]
    plugin = subprocess.run(asked, env=environment(home), capture_output=True, text=True, check=True).stdout
    own = settings(spark_master=TWO_EXECUTORS, **conf) | {"spark.connect.grpc.binding.port": str(port)}
    words = [word for key, value in own.items() for word in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--class", SERVER, *words, *plugin.split(), "spark-internal"]
    until = "Spark Connect server started"
    with running(*command, env=environment(home), until=until, log=home / "log"):
        yield Server(home, f"sc://127.0.0.1:{port}", listen)
    wait_until(lambda: query_proxy(listen) is None, "kproxy has ended", 60)


class Client:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, line: str) -> str:
        """`attach`, or a topic, whose records are counted."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def client(python: Path, server: Server) -> Iterator[Client]:
    with (server.home / "client").open("w") as log, subprocess.Popen(
        [python, "-c", CLIENT, server.url, server.listen], cwd="/", text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", (server.home / "client").read_text()[-3000:]
            yield Client(process)
        finally:
            process.kill()


def topic_with_records(brokers: DevCluster) -> str:
    topic = create_topic(brokers.direct_bootstrap, 2, 1)
    for partition in range(2):
        produce(brokers.direct_bootstrap, topic, [b"one", b"two", b"three"], partition)
    return topic


def test_executors_come_and_go(client_python: Path, brokers: DevCluster, tmp_path: Path) -> None:
    """They start with the work, and end without it; they and the keeper are killed: each Kafka task finds a kproxy."""
    dynamic = {
        "spark_dynamicAllocation_enabled": "true",
        "spark_dynamicAllocation_shuffleTracking_enabled": "true",
        "spark_dynamicAllocation_initialExecutors": "0",
        "spark_dynamicAllocation_executorIdleTimeout": "5s",
    }
    topic = topic_with_records(brokers)
    with serving(tmp_path / "one", brokers, **dynamic) as server, client(client_python, server) as own:

        def another(before: dict[str, int]) -> None:
            """Counts until another executor has had a task."""

            def found() -> bool:
                assert own.ask(topic) == str(2 * RECORDS)
                new = server.executors().keys() - before.keys()
                logs = [log for name in new for log in (server.home / "work").glob(f"app-*/{name}/stderr")]
                return any(had_kproxy_first(log, server.listen) for log in logs)

            wait_until(found, "another executor has a task", PATIENCE)

        wait_until(lambda: not server.executors(), "there is no executor", PATIENCE)
        another({})
        before = server.executors()
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        another(before)
        keeper = proxy_of(server.listen).keeper
        os.kill(keeper, signal.SIGKILL)
        assert own.ask(topic) == str(2 * RECORDS)
        wait_until(
            lambda: (now := query_proxy(server.listen)) and now.keeper != keeper and now.ready(), "another keeper"
        )
        assert own.ask(topic) == str(2 * RECORDS)


def test_two_servers_with_different_clusters(client_python: Path, brokers: DevCluster, tmp_path: Path) -> None:
    """At once, on the same host. A client of either cannot attach: only the server has the driver."""
    with ExitStack() as held:
        other = held.enter_context(DevCluster(brokers=1))
        asked, topics = [], []
        for name, cluster in (("one", brokers), ("two", other)):
            topics.append(topic_with_records(cluster))
            server = held.enter_context(serving(tmp_path / name, cluster))
            asked.append(held.enter_context(client(client_python, server)))
        for _ in range(3):
            for own, topic in zip(asked, topics, strict=True):
                assert own.ask(topic) == str(2 * RECORDS)
        # Neither sees the other's topics.
        assert "UnknownTopicOrPartition" in asked[0].ask(topics[1])
        assert asked[0].ask("attach") == (
            "attach cannot reach the driver of Spark Connect's server from its client; "
            "start the server with the settings of: python -m kproxy.spark conf FILE"
        )
