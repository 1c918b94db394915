"""The topology of a Kafka Streams application (KIP-1331): sent to the broker and described through kproxy."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from kproxy.dev.devcluster.jars import cache_directory
from kproxy.dev.devcluster.tools import Programs
from tests.harness.process import Kproxy
from tests.harness.programs.javac import compiled
from tests.harness.topics import unique
from tests.matrix import frameworks
from tests.matrix.brokers import FORBIDDEN
from tests.matrix.client import HERE

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(600)]

STREAMS = frameworks.Java("Kafka Streams", DEFAULT_VERSION, ("group.protocol=streams",), program="streams/Streams")


def _plugin(directory: Path) -> Path:
    """The jar of `java/topology`, as that of a Java agent."""
    classes = cache_directory() / "matrix" / f"java-topology-{DEFAULT_VERSION}"
    compiled(Programs.of(DEFAULT_VERSION), [HERE / "java/topology/Topologies.java"], classes, "matrix.Topologies")
    with zipfile.ZipFile(directory / "topologies.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: matrix.Topologies$Agent\n")
        for path in classes.rglob("*.class"):
            jar.write(path, path.relative_to(classes))
    return directory / "topologies.jar"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DevCluster]:
    plugin = {"group.streams.topology.description.plugin.class": "matrix.Topologies"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-javaagent:{_plugin(tmp_path)}")
        made = DevCluster(brokers=[1, 2, 1001], properties=plugin).start()
    try:
        yield made
    finally:
        made.stop(timeout=0)


def test_the_topology_of_an_application(cluster: DevCluster, tmp_path: Path) -> None:
    group = unique("streams")
    with Kproxy(tmp_path, cluster.bootstrap, forbidden=[FORBIDDEN]) as kproxy:
        outcome = STREAMS.run(kproxy.bootstrap, group)
        assert not outcome.complaint(transactions=False), outcome.errors[-4000:]
        assert kproxy.metric("kproxy_requests_total", api="StreamsGroupTopologyDescriptionUpdate") > 0
        described = []
        for bootstrap in (cluster.direct_bootstrap, kproxy.bootstrap):
            where = ("--bootstrap-server", bootstrap, "--group", group)
            done = cluster.tool("kafka-streams-groups", "--describe", "--topology", *where)
            assert done.returncode == 0, done.stdout + done.stderr
            described.append(done.stdout)
    assert described[0] == described[1]
    assert "KSTREAM-AGGREGATE-STATE-STORE" in described[1]
    assert f"{group}-counts" in described[1]
