"""A server of Spark Connect whose executors have kproxy, and a client of it that knows nothing of that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.devcluster import DevCluster
from tests.harness.clients import create_topic, produce
from tests.harness.process import free_window, wait_until
from tests.harness.spark import TWO_EXECUTORS, connector, environment, needs_spark, settings, spark_home
from tests.matrix import pythons
from tests.matrix.clients import NotInstalled

pytestmark = [pytest.mark.matrix, needs_spark, pytest.mark.timeout(1800)]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from kproxy.spark import attach

remote, bootstrap, topic = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
count = spark.read.format("kafka").options(**options).load().count()
try:
    attach(spark, bootstrap)
except Exception as error:
    print(json.dumps({"count": count, "attach": str(error)}))
"""


def test_connect(tmp_path: Path) -> None:
    import pyspark

    python = max(one for one in pythons.found() if one.numbers[:2] <= (3, 13))
    try:
        client = python.environment(f"pyspark[connect]=={pyspark.__version__}", "setuptools<81")
    except NotInstalled as reason:
        pytest.skip(str(reason))
    home = spark_home(tmp_path)
    port, log = free_window(1), tmp_path / "log"
    with DevCluster(brokers=2) as brokers:
        file, listen = tmp_path / "kproxy.yaml", f"127.0.0.1:{free_window(202)}"
        file.write_text(json.dumps({"bootstrap-servers": brokers.bootstrap, "listen": listen}))
        topic = create_topic(brokers.direct_bootstrap, 2, 2)
        for partition in range(2):
            produce(brokers.direct_bootstrap, topic, [b"one", b"two", b"three"], partition)
        asked = [sys.executable, "-m", "kproxy.spark", "conf", str(file), "--jars", connector()]
        plugin = subprocess.run(asked, env=environment(home), capture_output=True, text=True, check=True).stdout
        own = settings(spark_master=TWO_EXECUTORS) | {"spark.connect.grpc.binding.port": str(port)}
        words = [word for key, value in own.items() for word in ("--conf", f"{key}={value}")]
        command = [str(home / "bin" / "spark-submit"), "--class", SERVER, *words, *plugin.split(), "spark-internal"]
        with (
            log.open("wb") as to,
            subprocess.Popen(
                command, cwd=home, env=environment(home), stdin=subprocess.DEVNULL, stdout=to, stderr=to
            ) as server,
        ):

            def ready() -> bool:
                assert server.poll() is None, log.read_text()[-5000:]
                return "Spark Connect server started" in log.read_text()

            try:
                wait_until(ready, "the server is ready", 180)
                script = [client, "-c", CLIENT, f"sc://127.0.0.1:{port}", listen, topic]
                done = subprocess.run(script, capture_output=True, text=True, check=False, cwd="/", timeout=300)
            finally:
                server.terminate()
                server.wait(60)
    assert done.returncode == 0, done.stderr[-3000:] + log.read_text()[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["count"] == 6
    assert said["attach"] == (
        "attach cannot reach the driver of Spark Connect's server from its client; "
        "start the server with the settings of: python -m kproxy.spark conf FILE"
    )
