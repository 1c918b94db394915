"""A standalone Spark cluster on three hosts, each with a /tmp of its own, that know no name of a broker.

spark-master    10.0.0.31   Spark's master, and the driver          kafka-1.vpc.internal   10.0.0.11
worker-1        10.0.0.32   a worker with one core                  kafka-2.vpc.internal   10.0.0.12
worker-2        10.0.0.33   a worker that joins late                kafka-3.vpc.internal   10.0.0.13

All three are in the network of the other cluster too (10.1.0.0/24), whose broker has the name of the first broker here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.clients.spark import connector, environment, needs_spark, settings, spark_home
from tests.harness.clients.sparkjob import PATIENCE, Job, run_job
from tests.harness.network import Host
from tests.harness.process import wait_until
from tests.harness.topics import produce
from tests.scenarios.sites import Site

pytestmark = [pytest.mark.matrix, needs_spark, pytest.mark.timeout(900)]

NAMES = {"spark-master": "10.0.0.31", "worker-1": "10.0.0.32", "worker-2": "10.0.0.33"}
RECORDS = 600


@dataclass
class Cluster:
    """Spark's hosts, and what they have in common."""

    home: Path
    directory: Path
    settings: dict[str, str]
    hosts: dict[str, Host]
    held: ExitStack

    @property
    def env(self) -> dict[str, str]:
        return {**environment(self.home), "SPARK_LOCAL_IP": "", "SPARK_NO_DAEMONIZE": "1"}

    def start(self, host: str, *command: str, until: str) -> Callable[[], str]:
        """A program of Spark's that runs until the test is over."""
        env = self.env | {"SPARK_LOCAL_DIRS": str(self.directory / host / "local")}
        words = [word for key, value in self.settings.items() for word in (f"-D{key}={value}",)]
        env["SPARK_DAEMON_JAVA_OPTS"] = " ".join(words)
        return self.held.enter_context(
            self.hosts[host].running(str(self.home / "bin" / "spark-class"), *command, env=env, until=until)
        )

    def worker(self, host: str) -> None:
        self.start(
            host, "org.apache.spark.deploy.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g",
            "--webui-port", "0", "-d", str(self.directory / host), "spark://spark-master:7077",
            until="Successfully registered with master",
        )  # fmt: skip

    def executors(self, host: str) -> dict[int, Path]:
        """The executors that run on this host: process id → the directory of its logs."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_text(errors="replace").split("\0")
                where = (entry / "cwd").resolve()
            except (OSError, ValueError):
                continue
            if "--executor-id" in words and where.is_relative_to(self.directory / host):
                found[int(entry.name)] = where
        return found


def start_job(cluster: Cluster, name: str, *conf: str) -> Job:
    """A driver on the master's host."""
    words = [word for key, value in cluster.settings.items() for word in ("--conf", f"{key}={value}")]
    submit = (
        str(cluster.home / "bin" / "spark-submit"), "--master", "spark://spark-master:7077",
        "--conf", "spark.driver.host=spark-master", *words, *conf,
    )  # fmt: skip
    running = cluster.hosts["spark-master"].running
    return cluster.held.enter_context(run_job(cluster.directory / name, running, *submit, env=cluster.env))


@pytest.fixture
def cluster(host: Callable[..., Host], cloud: Site, tmp_path: Path) -> Iterator[Cluster]:
    """With one worker; `cloud` is there first."""
    with spark_cluster(host, tmp_path) as made:
        made.worker("worker-1")
        yield made


@contextmanager
def spark_cluster(host: Callable[..., Host], directory: Path) -> Iterator[Cluster]:
    with ExitStack() as held:
        hosts = {
            name: host(name, f"{address}/24", f"{address.replace('10.0', '10.1', 1)}/24", names=NAMES)
            for name, address in NAMES.items()
        }
        meeting = Path(f"/tmp/kproxy-spark-{os.getuid()}")
        meeting.mkdir(mode=0o700, exist_ok=True)
        for name, one in hosts.items():
            (directory / name / "tmp").mkdir(parents=True, mode=0o700)
            one.sh(f"mount --bind {directory / name / 'tmp'} {meeting}")
        made = Cluster(spark_home(directory), directory, settings(), hosts, held)
        # Of all settings, daemons read those of security.
        made.start(
            "spark-master", "org.apache.spark.deploy.master.Master", "--host", "spark-master", "--port", "7077",
            "--webui-port", "0", until="I have been elected leader!",
        )  # fmt: skip
        yield made


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where the brokers are, as a user would list them; and with a listener that the tests know."""
    file = tmp_path / "kproxy.yaml"
    servers = ",".join(f"10.0.0.1{node}:9092" for node in (1, 2, 3))
    document: dict[str, Any] = {"bootstrap-servers": servers, "listen": "127.0.0.1:19092"}
    file.write_text(yaml.safe_dump(document))
    return file


def with_plugin(cluster: Cluster, file: Path | None = None) -> list[str]:
    from kproxy.spark import plugin

    return [word for key, value in plugin(file, [connector()]).items() for word in ("--conf", f"{key}={value}")]


def topic_with_records(cloud: Site) -> str:
    topic = cloud.topic()
    for partition in range(6):
        values = [f"{partition}-{number}".encode() for number in range(RECORDS // 6)]
        cloud.host.call(produce, cloud.cluster.direct_bootstrap, topic, values, partition)
    return topic


def test_with_the_plugin(cluster: Cluster, cloud: Site, config: Path) -> None:
    """A worker that joins late, an executor and a keeper that are killed: each Kafka task finds a kproxy."""
    job = start_job(cluster, "job", *with_plugin(cluster))
    bootstrap = job.do(f"attach {config}", "attached")
    topic = topic_with_records(cloud)
    assert job.do(f"count {bootstrap} {topic}", "counted") == f"{RECORDS} on worker-1"

    cluster.worker("worker-2")
    [(pid, logs)] = wait_until(lambda: cluster.executors("worker-2").items(), "an executor", PATIENCE)
    log = logs / "stderr"
    both = f"{RECORDS} on worker-1,worker-2"
    wait_until(lambda: job.do(f"count {bootstrap} {topic}", "counted") == both, "both are used", PATIENCE)
    text = log.read_text()
    assert 0 < text.index("kproxy is ready for this executor: 127.0.0.1:19092") < text.index("Got assigned task")

    os.kill(pid, signal.SIGKILL)
    [(_, logs)] = wait_until(
        lambda: {one: path for one, path in cluster.executors("worker-2").items() if one != pid}.items(),
        "another executor", PATIENCE,
    )  # fmt: skip
    wait_until(lambda: job.do(f"count {bootstrap} {topic}", "counted") == both, "both are used again", PATIENCE)
    text = (logs / "stderr").read_text()
    assert 0 < text.index("kproxy is ready for this executor") < text.index("Got assigned task")

    keeper = int(cluster.hosts["worker-1"].run("pgrep", "--nslist", "net", "--ns", str(cluster.hosts["worker-1"].pid),
                                               "-f", "kproxy.spark.keeper").stdout)  # fmt: skip
    os.kill(keeper, signal.SIGKILL)
    assert job.do(f"count {bootstrap} {topic}", "counted").startswith(f"{RECORDS} on ")
    # What happened on another host is in the driver's log.
    proxy = int(cluster.hosts["worker-2"].run("pgrep", "--nslist", "net", "--ns", str(cluster.hosts["worker-2"].pid),
                                              "-f", "kproxy.spark.proxy").stdout)  # fmt: skip
    os.kill(proxy, signal.SIGKILL)
    wait_until(lambda: f"worker-2: kproxy (process {proxy}) was ended by a signal" in job.said(), "it is said")
    assert job.do(f"count {bootstrap} {topic}", "counted").startswith(f"{RECORDS} on ")


@pytest.mark.parametrize("recipe", ["attach", "conf FILE"])
def test_each_process_is_killed_on_each_host(cluster: Cluster, cloud: Site, config: Path, recipe: str) -> None:
    """The keeper and kproxy, on the driver's host and on an executor's: each comes back, the driver's log says so, and
    the job goes on."""
    if recipe == "attach":
        job = start_job(cluster, "job", *with_plugin(cluster))
        bootstrap = job.do(f"attach {config}", "attached")
    else:
        job = start_job(cluster, "job", *with_plugin(cluster, config))
        bootstrap = "127.0.0.1:19092"
    topic = topic_with_records(cloud)
    all_of_it = f"{RECORDS} on worker-1"
    assert job.do(f"count {bootstrap} {topic}", "counted") == all_of_it
    for name in ("spark-master", "worker-1"):
        for module in ("keeper", "proxy"):
            pid = process_of(cluster, name, module)
            os.kill(pid, signal.SIGKILL)

            def is_back(name: str = name, module: str = module, pid: int = pid) -> bool:
                return process_of(cluster, name, module) not in (0, pid)

            wait_until(is_back, f"the {module} on {name} is back", PATIENCE)
            end = (
                f"kproxy (process {pid}) was ended by a signal"
                if module == "proxy"
                else f"the keeper of kproxy (process {pid})"
            )
            wait_until(
                lambda name=name, end=end: any(f"{name}: {end}" in line for line in job.said().splitlines()),
                f"the driver's log says what happened on {name}",
            )
            assert job.do(f"count {bootstrap} {topic}", "counted") == all_of_it


def process_of(cluster: Cluster, name: str, module: str) -> int:
    """The process id of a host's keeper or proxy; 0 if there is none."""
    host = cluster.hosts[name]
    words = ("pgrep", "--nslist", "net", "--ns", str(host.pid), "-f", f"kproxy.spark.{module}")
    pids = host.run(*words).stdout.split()
    return int(pids[0]) if len(pids) == 1 else 0


@pytest.mark.parametrize("plugin", [True, False], ids=["with the plugin", "without it"])
def test_dynamic_allocation(cluster: Cluster, cloud: Site, config: Path, plugin: bool) -> None:
    """No executor at first, and none after a while: with the plugin, those that start with the work find a kproxy.
    Without it that holds for those that are there when `attach` returns (docs/spark.md)."""
    dynamic = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "5s",
        "spark.dynamicAllocation.initialExecutors": "0",
    }
    words = [word for key, value in dynamic.items() for word in ("--conf", f"{key}={value}")]
    job = start_job(
        cluster, "job", *(with_plugin(cluster) if plugin else ["--conf", f"spark.jars={connector()}"]), *words
    )
    wait_until(lambda: not cluster.executors("worker-1"), "there is no executor", PATIENCE)
    bootstrap = job.do(f"attach {config}", "attached")
    # With the plugin nobody has to wait for an executor; without it one must be there, and know of kproxy.
    assert bool(cluster.executors("worker-1")) != plugin
    if not plugin:
        return
    topic = topic_with_records(cloud)
    for _ in range(2):
        assert job.do(f"count {bootstrap} {topic}", "counted") == f"{RECORDS} on worker-1"
        wait_until(lambda: not cluster.executors("worker-1"), "it has gone", PATIENCE)


def test_two_applications_with_different_clusters(cluster: Cluster, cloud: Site, other: Site, tmp_path: Path) -> None:
    """At once, and on the same hosts: each has a port of its own, though nobody said which."""
    cluster.worker("worker-2")
    configs = {}
    for name, servers in (("one", "10.0.0.11:9092,10.0.0.12:9092,10.0.0.13:9092"), ("two", "10.1.0.11:9093")):
        configs[name] = tmp_path / f"{name}.yaml"
        configs[name].write_text(f"bootstrap-servers: {servers}\n")
    jobs = {name: start_job(cluster, name, *with_plugin(cluster), "--conf", "spark.cores.max=1") for name in configs}
    bootstrap = {name: job.do(f"attach {configs[name]}", "attached") for name, job in jobs.items()}
    assert bootstrap["one"] != bootstrap["two"]
    topics = {"one": topic_with_records(cloud), "two": topic_with_records(other)}
    for _ in range(3):
        for name, job in jobs.items():
            assert job.do(f"count {bootstrap[name]} {topics[name]}", "counted").startswith(f"{RECORDS} on worker-")
    # Neither sees the other's topics.
    assert "UnknownTopicOrPartition" in jobs["one"].do(f"count {bootstrap['one']} {topics['two']}", "failed")


def test_brokers_that_one_host_cannot_reach(cluster: Cluster, cloud: Site, config: Path) -> None:
    """`attach` fails with the words of the kproxy there."""
    one = cluster.hosts["worker-1"]
    one.sh("ip route add unreachable 10.0.0.12/32")
    job = start_job(cluster, "job", *with_plugin(cluster))
    said = job.do(f"attach {config}", "failed")
    assert said.startswith("worker-1: kproxy is not ready after 4")  # of 60, the driver took some
    assert " s: cluster default: broker 2 " in said
    assert "broker 2 (kafka-2.vpc.internal:9092) cannot be reached" in said
    assert "`map: [node:2=HOST:PORT]`" in said
    assert "1 of 3 nodes cannot be reached from here" in said
    one.sh("ip route del unreachable 10.0.0.12/32")
    assert job.do(f"attach {config}", "attached") == "127.0.0.1:19092"


def test_without_the_plugin(cluster: Cluster, cloud: Site, config: Path) -> None:
    """What `attach` warns of; executors that are there have kproxy."""
    cluster.worker("worker-2")
    job = start_job(cluster, "job", "--conf", f"spark.jars={connector()}")
    bootstrap = job.do(f"attach {config}", "attached")
    assert "without kproxy's Spark plugin, an executor that starts later" in job.said()
    topic = topic_with_records(cloud)
    both = f"{RECORDS} on worker-1,worker-2"
    wait_until(lambda: job.do(f"count {bootstrap} {topic}", "counted") == both, "both are used", PATIENCE)
