"""kproxy.spark on Hadoop's own YARN for tests (MiniYARNCluster), in client mode and in cluster mode. All node managers
are on this host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.base.java import find_java
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.jars import fetch
from kproxy.spark.host import query_proxy
from tests.harness.clients.spark import (
    connector,
    environment,
    executor_pids,
    had_kproxy_first,
    needs_spark,
    proxy_of,
    settings,
    spark_home,
)
from tests.harness.clients.sparkjob import PATIENCE, Job, run_job, running
from tests.harness.process import free_window, wait_until
from tests.harness.topics import create_topic, produce, read_topic, unique

pytestmark = [pytest.mark.matrix, needs_spark, pytest.mark.timeout(1800)]

RECORDS = 600
BATCH = Path(__file__).parents[2] / "examples" / "spark" / "batch.py"
SOURCE = Path(__file__).with_name("java") / "MiniYarn.java"
HADOOP = "3.4.1"
# What the shaded jar of Hadoop's cluster for tests does not bring.
OTHERS = (
    ("org.apache.hadoop", "hadoop-client-minicluster", HADOOP),
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
    ("org.bouncycastle", "bcprov-jdk18on", "1.78.1"),
    ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    ("javax.xml.bind", "jaxb-api", "2.3.1"),
    ("org.glassfish.jaxb", "jaxb-runtime", "2.3.1"),
)
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>kproxy</groupId>'
    "<artifactId>yarn</artifactId><version>1</version><dependencies>{}</dependencies></project>"
)


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """HADOOP_CONF_DIR of a YARN that runs."""
    try:
        jars = fetch(
            f"yarn-{HADOOP}", f"Hadoop {HADOOP}", POM.format("".join(DEPENDENCY.format(*one) for one in OTHERS))
        )
    except ConfigError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("yarn")
    conf = directory / "conf"
    conf.mkdir()
    command = [find_java(17, "Hadoop"), "-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED",
               "-cp", f"{jars}/*", str(SOURCE), str(conf / "yarn-site.xml")]  # fmt: skip
    log = directory / "log"
    with (
        log.open("wb") as to,
        subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=to, stderr=to) as process,
    ):

        def ready() -> bool:
            assert process.poll() is None, log.read_text()[-5000:]
            return "\nready\n" in log.read_text()

        try:
            wait_until(ready, "YARN is ready", 180)
            yield conf
        finally:
            process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
            try:
                process.wait(60)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def brokers() -> Iterator[DevCluster]:
    with DevCluster(brokers=3) as cluster:
        yield cluster


def on_yarn(yarn: Path, home: Path) -> dict[str, str]:
    return {**environment(home), "HADOOP_CONF_DIR": str(yarn), "YARN_CONF_DIR": str(yarn)}


def submitted(directory: Path, home: Path, *file: str, **more: str) -> list[str]:
    """spark-submit with two executors and what `conf` prints; `more` settings with `_` for `.`."""
    env = environment(home)
    python = env["PYSPARK_PYTHON"]
    own = settings(**more) | {
        "spark.yarn.jars": f"local:{home}/jars/*",
        "spark.yarn.stagingDir": f"file:{directory}/staging",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.pyspark.python": python,
    }
    asked = [python, "-m", "kproxy.spark", "conf", *file, "--jars", connector()]
    plugin = subprocess.run(asked, env=env, capture_output=True, text=True, check=True).stdout.split()
    words = [word for key, value in own.items() for word in ("--conf", f"{key}={value}")]
    return [str(home / "bin" / "spark-submit"), "--master", "yarn", *words, *plugin]


@pytest.mark.parametrize("mode", ["client", "cluster"])
@pytest.mark.parametrize("recipe", ["attach", "conf"])
def test_a_job(yarn: Path, brokers: DevCluster, tmp_path: Path, mode: str, recipe: str) -> None:
    """The batch example. In cluster mode its driver runs in a container too, where --files has put kproxy.yaml."""
    home = spark_home(tmp_path)
    file = tmp_path / "kproxy.yaml"
    listen = f"127.0.0.1:{free_window(202)}"
    file.write_text(json.dumps({"bootstrap-servers": brokers.bootstrap, "listen": listen}))
    prefix = unique("yarn")
    for name, count in (("a", 300), ("b", 700)):
        produce(brokers.direct_bootstrap, f"{prefix}-{name}", (b"%d" % n for n in range(count)))
    target = create_topic(brokers.direct_bootstrap)
    env = on_yarn(yarn, home)
    words = submitted(tmp_path, home, *([str(file)] if recipe == "conf" else []))
    config = str(file) if mode == "client" else file.name
    command = [*words, "--deploy-mode", mode, "--files", str(file), str(BATCH), config, f"{prefix}-.*", target]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stderr[-5000:] + logs(yarn)
    lines = {
        message.key(): json.loads(message.value() or b"") for message in read_topic(brokers.direct_bootstrap, target)
    }
    assert {key: line["records"] for key, line in lines.items()} == {
        f"{prefix}-a".encode(): 300,
        f"{prefix}-b".encode(): 700,
    }
    # A keeper that a container has started leaves it, and ends all the same.
    wait_until(lambda: query_proxy(listen) is None, "kproxy has ended", 60)


@contextmanager
def application(yarn: Path, directory: Path, name: str, home: Path) -> Iterator[tuple[Job, str]]:
    """A driver in client mode that does what it is told, and its id."""
    log = directory / f"{name}.log"
    command = submitted(directory, home)
    with run_job(directory / name, partial(running, log=log), *command, env=on_yarn(yarn, home)) as job:
        yield job, job.do("id", "id")


def topic_with_records(brokers: DevCluster) -> str:
    topic = create_topic(brokers.direct_bootstrap, 6, 1)
    for partition in range(6):
        values = [f"{partition}-{number}".encode() for number in range(RECORDS // 6)]
        produce(brokers.direct_bootstrap, topic, values, partition)
    return topic


def test_executors_come_and_go(yarn: Path, brokers: DevCluster, tmp_path: Path) -> None:
    """One comes late, one and the keeper are killed: each Kafka task finds a kproxy."""
    file = tmp_path / "kproxy.yaml"
    file.write_text(f"bootstrap-servers: {brokers.bootstrap}\n")
    topic = topic_with_records(brokers)
    with application(yarn, tmp_path, "job", spark_home(tmp_path)) as (job, name):
        bootstrap = job.do(f"attach {file}", "attached")

        def executors() -> dict[str, int]:
            return executor_pids(yarn.parent, name)

        def count() -> None:
            assert job.do(f"count {bootstrap} {topic}", "counted").startswith(f"{RECORDS} on ")

        def has_run_a_task(pid: int) -> bool:
            count()
            container = Path(f"/proc/{pid}/cwd").resolve().name
            [log] = yarn.parent.glob(f"*/**/{name}/{container}/stderr")
            return had_kproxy_first(log, bootstrap)

        def another(before: dict[str, int]) -> int:
            """Waits for another executor, and until it has run a task."""
            [new] = wait_until(lambda: executors().keys() - before.keys(), "another executor", PATIENCE)
            pid = executors()[new]
            wait_until(lambda: has_run_a_task(pid), "it has a task", PATIENCE)
            assert pid in {lease["pid"] for lease in proxy_of(bootstrap).leases}
            return pid

        before = executors()
        assert len(before) == 2
        count()
        job.do("executors 3", "asked")
        late = another(before)
        before = executors()
        os.kill(late, signal.SIGKILL)
        another(before)
        keeper = proxy_of(bootstrap).keeper
        os.kill(keeper, signal.SIGKILL)
        count()
        everyone = {*executors().values()}
        assert len(everyone) == 3
        wait_until(
            lambda: (now := query_proxy(bootstrap)) and everyone <= {lease["pid"] for lease in now.leases},
            "all have joined another", PATIENCE,
        )  # fmt: skip
        assert proxy_of(bootstrap).keeper != keeper
        count()
    wait_until(lambda: query_proxy(bootstrap) is None, "kproxy has ended", 60)


def test_two_applications_with_different_clusters(yarn: Path, brokers: DevCluster, tmp_path: Path) -> None:
    """At once, and on the same hosts: each has a port of its own, though nobody said which."""
    home = spark_home(tmp_path)
    with ExitStack() as held:
        clusters = {"one": brokers, "two": held.enter_context(DevCluster(brokers=1))}
        jobs, bootstraps, topics = {}, {}, {}
        for name, cluster in clusters.items():
            file = tmp_path / f"{name}.yaml"
            file.write_text(f"bootstrap-servers: {cluster.bootstrap}\n")
            topics[name] = topic_with_records(cluster)
            jobs[name], _ = held.enter_context(application(yarn, tmp_path, name, home))
            bootstraps[name] = jobs[name].do(f"attach {file}", "attached")
        assert bootstraps["one"] != bootstraps["two"]
        for _ in range(3):
            for name, job in jobs.items():
                assert job.do(f"count {bootstraps[name]} {topics[name]}", "counted").startswith(f"{RECORDS} on ")
        # Neither sees the other's topics.
        assert "UnknownTopicOrPartition" in jobs["one"].do(f"count {bootstraps['one']} {topics['two']}", "failed")
    for bootstrap in bootstraps.values():
        wait_until(lambda listen=bootstrap: query_proxy(listen) is None, "kproxy has ended", 60)


def logs(yarn: Path) -> str:
    """The ends of what containers have said."""
    found = [path for path in yarn.parent.rglob("std*") if path.is_file() and "container_" in str(path)]
    return "".join(f"\n== {path.parent.name} {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in found)
