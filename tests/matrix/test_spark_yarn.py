"""kproxy.spark on Hadoop's own YARN for tests (MiniYARNCluster), in client mode and in cluster mode."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.devcluster import DevCluster
from kproxy.devcluster.jars import fetch
from kproxy.errors import ConfigError
from kproxy.java import find_java
from kproxy.spark.host import look
from tests.harness.clients import create_topic, produce, read_topic, unique
from tests.harness.process import free_window, wait_until
from tests.harness.spark import connector, environment, needs_spark, settings, spark_home

pytestmark = [pytest.mark.matrix, needs_spark, pytest.mark.timeout(1800)]

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
    env = environment(home)
    python = env["PYSPARK_PYTHON"]
    own = {
        "spark.yarn.jars": f"local:{home}/jars/*",
        "spark.yarn.stagingDir": f"file:{tmp_path}/staging",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.pyspark.python": python,
    }
    asked = [python, "-m", "kproxy.spark", "conf", *([str(file)] if recipe == "conf" else []), "--jars", connector()]
    plugin = subprocess.run(asked, env=env, capture_output=True, text=True, check=True).stdout.split()
    config = str(file) if mode == "client" else file.name
    words = [word for key, value in (settings() | own).items() for word in ("--conf", f"{key}={value}")]
    command = [
        str(home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode, "--files", str(file),
        *words, *plugin, str(BATCH), config, f"{prefix}-.*", target,
    ]  # fmt: skip
    done = subprocess.run(
        command, env={**env, "HADOOP_CONF_DIR": str(yarn), "YARN_CONF_DIR": str(yarn)}, cwd=tmp_path,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:] + logs(yarn)
    lines = {
        message.key(): json.loads(message.value() or b"") for message in read_topic(brokers.direct_bootstrap, target)
    }
    assert {key: line["records"] for key, line in lines.items()} == {
        f"{prefix}-a".encode(): 300,
        f"{prefix}-b".encode(): 700,
    }
    # A keeper that a container has started leaves it, and ends all the same.
    wait_until(lambda: look(listen) is None, "kproxy has ended", 60)


def logs(yarn: Path) -> str:
    """The ends of what containers have said."""
    found = [path for path in yarn.parent.rglob("std*") if path.is_file() and "container_" in str(path)]
    return "".join(f"\n== {path.parent.name} {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in found)
