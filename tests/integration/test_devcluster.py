"""The local cluster that the demo and the other integration tests stand on, asked by a real client."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.dev.devcluster import DEFAULT_VERSION, INTERNAL, DevCluster, ListenerSpec
from kproxy.dev.devcluster.node import NodeProcess
from kproxy.dev.devcluster.properties import CONTROLLER, NodeListener, controller_properties, new_uuid
from kproxy.dev.devcluster.storage import format_storage
from kproxy.dev.devcluster.tools import Programs
from kproxy.net.freeports import HOST

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    extra = [ListenerSpec("OTHER", "other-{id}.cluster.internal:{port}")]
    with DevCluster(
        brokers=[1, 2, 1001],
        extra_listeners=extra,
        controller_advertised="controller-{id}.cluster.internal:9093",
        properties={"message.max.bytes": "3000000"},
    ) as cluster:
        yield cluster


def _metadata(bootstrap: str) -> dict[int, Address]:
    """Node id → address, as librdkafka learned it."""
    brokers = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers
    return {one.id: Address(one.host, one.port) for one in brokers.values()}


def _alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_client_listeners_advertise_names_that_resolve_nowhere(cluster: DevCluster) -> None:
    expected = {node: Address(f"kafka-{node}.cluster.internal", 9092) for node in (1, 2, 1001)}
    assert cluster.advertised == expected
    for address in cluster.dial.values():
        assert _metadata(str(address)) == expected
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo(expected[1].host, expected[1].port)


def test_the_inter_broker_listener_says_the_truth(cluster: DevCluster) -> None:
    assert _metadata(cluster.direct_bootstrap) == cluster.listener(INTERNAL)


def test_an_extra_listener_is_there_with_its_own_name(cluster: DevCluster) -> None:
    bound = cluster.listener("OTHER")
    said = {node: Address(f"other-{node}.cluster.internal", bound[node].port) for node in bound}
    assert _metadata(str(bound[2])) == said


def test_tools_produce_and_consume_over_the_direct_path(cluster: DevCluster) -> None:
    where = ("--bootstrap-server", cluster.direct_bootstrap, "--topic", "tools")
    made = cluster.tool("kafka-topics", *where, "--create", "--partitions", "4")
    assert made.returncode == 0, made.stderr
    sent = cluster.tool("kafka-console-producer", *where, input="one\ntwo\nthree\n")
    assert sent.returncode == 0, sent.stderr
    group = ("--group", "tools-group", "--from-beginning", "--max-messages", "3", "--timeout-ms", "30000")
    got = cluster.tool("kafka-console-consumer", *where, *group)
    assert sorted(got.stdout.split()) == ["one", "three", "two"], got.stderr
    described = cluster.tool("kafka-topics", *where, "--describe")
    assert "ReplicationFactor: 3" in described.stdout
    assert "min.insync.replicas=2" in described.stdout


def test_properties_reach_the_brokers(cluster: DevCluster) -> None:
    where = ("--bootstrap-server", cluster.direct_bootstrap, "--entity-type", "brokers")
    said = cluster.tool("kafka-configs", *where, "--entity-name", "1001", "--describe", "--all")
    assert "message.max.bytes=3000000" in said.stdout, said.stderr


def test_programs_have_their_classes_from_an_archive(cluster: DevCluster) -> None:
    said = replace(cluster.programs, options=["-Xlog:class+load"]).run("kafka-topics", "--version")
    assert re.search(r"org\.apache\.kafka\.common\S+ source: shared objects file \(top\)", said.stdout), said.stdout[
        -2000:
    ]


def test_kafkas_tool_formats_once_for_each_kind_of_settings(
    cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars, ran, really = tmp_path / "jars", list[str](), Programs.run
    jars.mkdir()
    for jar in cluster.programs.jars.glob("*.jar"):
        (jars / jar.name).symlink_to(jar)
    programs = replace(cluster.programs, jars=jars)

    def run(self: Programs, main: str, *args: str) -> subprocess.CompletedProcess[str]:
        ran.append(main)
        return really(self, main, *args)

    monkeypatch.setattr(Programs, "run", run)

    def formatted(name: str, port: int, **more: str) -> tuple[str, bytes]:
        """Its cluster id, and the feature levels with which it begins."""
        node = NodeProcess(3000, tmp_path / name)
        at = NodeListener(CONTROLLER, Address(HOST, port), Address(HOST, port))
        format_storage(programs, node, controller_properties(3000, node.data, at, 3, {}, more), new_uuid())
        meta = (node.data / "meta.properties").read_text()
        (checkpoint,) = node.data.rglob("*.checkpoint")
        return re.findall(r"cluster\.id=(\S+)", meta)[0], checkpoint.read_bytes()

    ids, levels = zip(*(formatted(f"same-{port}", port) for port in (1, 2, 3)), strict=True)
    assert ran == ["kafka-storage"]
    assert len(set(ids)) == 3
    assert len(set(levels)) == 1
    formatted("other", 1, **{"unstable.feature.versions.enable": "true"})
    assert ran == ["kafka-storage"] * 2
    for attempt in range(2):
        with pytest.raises(UpstreamError, match=r"storage tool failed: .*num\.network\.threads"):
            formatted(f"refused-{attempt}", 1, **{"num.network.threads": "many"})
    assert ran == ["kafka-storage"] * 4
    kept = list(jars.glob("*.checkpoint"))
    assert len(kept) == 2
    assert not list(jars.glob(".*"))
    for file in kept:
        file.write_bytes(b"")
    assert formatted("again", 1)[1]
    assert ran == ["kafka-storage"] * 5


def test_a_cluster_has_the_features_of_its_kafka(cluster: DevCluster) -> None:
    """Without them it would have no KIP-848 groups and no second version of transactions."""
    direct = ("--bootstrap-server", cluster.direct_bootstrap)
    said = cluster.tool("kafka-features", *direct, "describe")
    found = dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", said.stdout))
    assert int(found["group.version"]) >= 1, said.stdout + said.stderr
    assert int(found["transaction.version"]) >= 2


@pytest.mark.parametrize("content", [b"no archive", None])
def test_an_archive_that_does_not_fit_goes_unmentioned(
    cluster: DevCluster, tmp_path: Path, content: bytes | None
) -> None:
    programs = replace(cluster.programs, jars=tmp_path)
    for jar in cluster.programs.jars.glob("*.jar"):
        (tmp_path / jar.name).symlink_to(jar)
    programs.archive.write_bytes(cluster.programs.archive.read_bytes() if content is None else content)
    assert f"-XX:SharedArchiveFile={programs.archive}" in programs.command("kafka-topics")
    said = programs.run("kafka-topics", "--version")
    assert said.stdout.startswith(DEFAULT_VERSION)
    assert len(said.stdout.splitlines()) == 1
    assert said.stderr == ""


def test_the_controller_answers(cluster: DevCluster) -> None:
    direct = ("--bootstrap-server", cluster.direct_bootstrap)
    said = cluster.tool("kafka-metadata-quorum", *direct, "describe", "--status")
    assert "LeaderId:               3000" in said.stdout, said.stderr


def test_the_controller_has_a_name_that_resolves_nowhere(cluster: DevCluster, tmp_path: Path) -> None:
    impatient = tmp_path / "client.properties"
    impatient.write_text("default.api.timeout.ms=2000\nrequest.timeout.ms=1000\n")
    asked = ("--bootstrap-controller", cluster.controller_bootstrap, "--command-config", str(impatient))
    said = cluster.tool("kafka-metadata-quorum", *asked, "describe", "--status")
    assert said.returncode != 0
    assert "UnknownHostException: controller-3000.cluster.internal" in said.stderr


def test_a_killed_broker_restarts_on_another_port_with_its_data() -> None:
    with DevCluster(brokers=2, properties={"default.replication.factor": "1"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
        made = cluster.tool(
            *("kafka-topics", "--bootstrap-server", cluster.direct_bootstrap),
            *("--create", "--topic", "kept", "--replica-assignment", "2"),
        )
        assert made.returncode == 0, made.stderr
        producer = Producer({"bootstrap.servers": cluster.direct_bootstrap})
        producer.produce("kept", b"still here")
        assert producer.flush(30) == 0

        before = cluster.dial[2]
        cluster.kill(2)
        assert cluster.running == [1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((before.host, before.port)).close()
        cluster.wait_fenced(2)
        assert set(_metadata(str(cluster.dial[1]))) == {1}

        cluster.restart(2, new_port=True, advertised="moved-{id}.cluster.internal:19092")
        assert cluster.dial[2] != before
        assert cluster.advertised[2] == Address("moved-2.cluster.internal", 19092)
        assert _metadata(str(cluster.dial[1])) == cluster.advertised
        assert _metadata(str(cluster.dial[2])) == cluster.advertised

        cluster.add(49176)
        assert _metadata(str(cluster.dial[49176])) == cluster.advertised
        assert set(cluster.advertised) == {1, 2, 49176}
        cluster.remove(49176)
        assert set(admin.list_topics(timeout=20).brokers) == {1, 2}
        assert cluster.node_ids == [1, 2]

        consumer = Consumer(
            {
                "bootstrap.servers": cluster.direct_bootstrap,
                "group.id": "kept",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.subscribe(["kept"])
            record = consumer.poll(60)
            assert record is not None
            assert record.error() is None
            assert record.value() == b"still here"
        finally:
            consumer.close()


def test_nothing_is_left_after_stop() -> None:
    cluster = DevCluster(brokers=1).start()
    pids, directory = cluster.pids, cluster.directory
    try:
        assert set(pids) == {1, 3000}
        assert all(_alive(pid) for pid in pids.values())
    finally:
        cluster.stop()
    assert not any(_alive(pid) for pid in pids.values())
    assert not directory.exists()
    cluster.stop()  # again: nothing to do, nothing said


_PARENT = """
import sys
from kproxy.dev.devcluster import DevCluster
cluster = DevCluster(brokers=1).start()
print(cluster.directory, *cluster.pids.values(), flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_the_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent:
        directory, *pids = parent.stdout.readline().split()
        assert len(pids) == 2
        # A file descriptor of a process becomes readable when the process ends, whoever its parent is.
        watched = [os.pidfd_open(int(pid)) for pid in pids]
        try:
            parent.send_signal(signal.SIGKILL)
            for one in watched:
                assert _ends(one)
        finally:
            for one in watched:
                os.close(one)
    _wait_until_gone(Path(directory))


def _ends(pidfd: int) -> bool:
    import select

    return bool(select.select([pidfd], [], [], 60)[0])


def _wait_until_gone(directory: Path) -> None:
    while directory.exists():  # ends: the watchdog is at it; else the test's own limit ends it
        os.sched_yield()


@pytest.mark.usefixtures("cluster")  # with it Java's archive is made, by a Node too
@pytest.mark.matrix
def test_a_port_that_was_taken_is_replaced() -> None:
    cluster = DevCluster(brokers=1)
    taken: list[socket.socket] = []
    first_start = NodeProcess.start

    def start(self: NodeProcess, *args: object) -> None:
        """Somebody else is quicker, once for the controller and once for the broker."""
        listener = next(iter(self.listeners.values()))
        if len(taken) < 2 and listener.bound not in [one.getsockname() for one in taken]:
            taken.append(socket.create_server((HOST, listener.bound.port)))
        first_start(self, *args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeProcess, "start", start)
        try:
            cluster.start()
            assert len(taken) == 2
            assert _metadata(cluster.bootstrap) == cluster.advertised
        finally:
            cluster.stop()
            for one in taken:
                one.close()


def test_a_broker_that_ends_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    cluster = DevCluster(brokers=1, properties={"num.io.threads": "none"}, directory=tmp_path)
    with pytest.raises(UpstreamError, match=r"node 1 ended with code 1: .*num\.io\.threads") as failed:
        cluster.start()
    assert "\n" not in str(failed.value)
    assert list(tmp_path.iterdir()) == []


def _demo(tmp_path: Path, *args: str) -> subprocess.Popen[str]:
    """`kproxy demo` with a temporary directory of its own, so that what it leaves is seen."""
    return subprocess.Popen(
        [sys.executable, "-m", "kproxy", "demo", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )


def test_the_demo_tells_its_story_and_leaves_nothing(tmp_path: Path) -> None:
    with _demo(tmp_path, "--once") as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert "Failed to resolve 'kafka-1.cluster.internal:9092'" in said
    assert "all 5,100 records arrived, each exactly once" in said
    assert "broker 3 at 127.0.0.1:" in said
    assert list(tmp_path.iterdir()) == []
    assert len(said.splitlines()) <= 60


@pytest.mark.parametrize("moment", [pytest.param("... starting brokers", marks=pytest.mark.matrix), "... producing"])
def test_ctrl_c_in_the_demo_leaves_nothing(tmp_path: Path, moment: str) -> None:
    with _demo(tmp_path) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if moment in line:
                demo.send_signal(signal.SIGINT)
    assert demo.returncode == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.matrix
def test_ctrl_c_after_the_story_is_a_good_end(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "Logs of kproxy" in line:
                demo.send_signal(signal.SIGINT)
    assert demo.returncode == 0
    assert list(tmp_path.iterdir()) == []
