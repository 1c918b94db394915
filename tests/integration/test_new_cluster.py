"""A Kafka cluster that is created again, with another id, at the addresses of the former one, behind a running kproxy.

A consumer of KIP-848 in an application that does not expect GROUP_ID_NOT_FOUND ends, with kproxy and without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.flow import create_topic
from tests.harness.clients.going import Going, java, python
from tests.harness.clusters.steady import STEADY
from tests.harness.process import Kproxy, free_window, wait_logged, wait_until

pytestmark = pytest.mark.integration

TOPIC = "orders"
NODES = (1, 2)
# Clients of the former cluster must not create the topic: kproxy may serve the new one before the test has created it.
_PROPERTIES = STEADY | {"auto.create.topics.enable": "false"}


@contextmanager
def cluster_at(first: int, replicas: list[list[int]] | None = None) -> Iterator[DevCluster]:
    """A new cluster, whose brokers are at these ports plus their ids, and which has the topic."""
    with DevCluster(NODES, client_bound=f"127.0.0.1:{first // 10}{{id}}", properties=_PROPERTIES) as made:
        create_topic(made.direct_bootstrap, TOPIC, assignment=replicas or [[1, 2], [2, 1]])
        yield made


@pytest.fixture
def first_port() -> int:
    return (free_window(20) + 9) // 10 * 10


def clients(held: ExitStack, cluster: DevCluster, bootstrap: str, logs: Path) -> dict[str, Going]:
    """Clients that write, or read, for as long as the test lasts. They do not know that the cluster is another one."""
    produce = ("produce", TOPIC, "2", "50")
    consume = ("consume", TOPIC)
    group = {"auto.offset.reset": "earliest"}
    at = {"bootstrap.servers": bootstrap}
    started = {
        "java writes": java(cluster.programs, produce, at, logs / "java-writes"),
        "java reads": java(cluster.programs, consume, {**at, **group, "group.id": "java"}, logs / "java-reads"),
        "librdkafka writes": python("confluent", produce, at, logs / "librdkafka-writes"),
        "librdkafka reads": python("confluent", consume, {**at, **group, "group.id": "rd"}, logs / "librdkafka-reads"),
        "kafka-python writes": python(
            "kafka_python", produce, {"bootstrap_servers": bootstrap}, logs / "python-writes"
        ),
    }
    for going in started.values():
        held.enter_context(going)
    return started


def work(started: dict[str, Going]) -> None:
    """Each of them writes or reads more."""
    for name, going in started.items():
        going.wait_more("acked" if name.endswith("writes") else "got", 20)


def reload(proxy: Kproxy, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kproxy", "reload", "--admin", proxy.admin, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def assert_doctor_says_it(address: str, proxy: Kproxy, former: DevCluster, made: DevCluster) -> None:
    command = [sys.executable, "-m", "kproxy", "doctor", address, "--json"]
    environment = {**os.environ, "KPROXY_ADMIN": proxy.admin}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    texts = [finding["text"] for finding in json.loads(done.stdout)["findings"]]
    text = next(text for text in texts if f"(--admin {proxy.admin})" in text)
    assert all(part in text for part in (former.cluster_id, made.cluster_id, "kproxy reload --accept-cluster"))
    assert done.returncode == 1


@pytest.mark.parametrize(
    "way", [pytest.param("--accept-cluster", marks=pytest.mark.matrix), "--accept-new-cluster-after"]
)
def test_clients_work_with_the_cluster_that_was_created_again(
    way: str, first_port: int, own_kproxy: Callable[..., Kproxy], tmp_path: Path
) -> None:
    option = ("--admin-reload",) if way == "--accept-cluster" else (way, "2s")
    servers = ",".join(f"127.0.0.1:{first_port + node}" for node in NODES)
    with ExitStack() as held:
        with cluster_at(first_port) as former:
            proxy = own_kproxy(servers, *option)
            started = clients(held, former, proxy.bootstrap, tmp_path)
            work(started)
            ports = {node: proxy.node(node)["local"] for node in NODES}
            if way == "--accept-cluster":
                done = reload(proxy, way)
                assert (done.returncode, done.stderr) == (0, "")
                assert "nothing has changed: the bootstrap servers that answer belong to the cluster" in done.stdout
        with cluster_at(first_port) as made:
            wait_logged(
                proxy,
                f"another Kafka cluster (id {made.cluster_id}) answers at all bootstrap servers that answer, and "
                f"kproxy serves the one with the id {former.cluster_id}",
            )
            if way == "--accept-cluster":
                wait_until(lambda: proxy.status()["replaced_by"] == made.cluster_id, "the status says it too")
                code, text = proxy.get("/readyz")
                assert (code, text.count("\n")) == (503, 1)
                assert "kproxy reload --accept-cluster" in text
                for address in (servers, proxy.bootstrap):
                    assert_doctor_says_it(address, proxy, former, made)
                done = reload(proxy, way)
                assert (done.returncode, done.stderr) == (0, "")
                assert f"serves the Kafka cluster with the id {made.cluster_id} from now on" in done.stdout
            wait_until(lambda: proxy.status()["cluster_id"] == made.cluster_id, "kproxy serves it")
            work(started)
            assert {node: proxy.node(node)["local"] for node in NODES} == ports
            assert not proxy.leaks()


def test_librdkafka_takes_leaders_with_lower_epochs(
    first_port: int, own_kproxy: Callable[..., Kproxy], tmp_path: Path
) -> None:
    """It has seen a partition of the former cluster without a leader, and with a higher epoch (librdkafka #4898).

    Without kproxy it then neither writes nor reads that partition of the new cluster.
    """
    servers = ",".join(f"127.0.0.1:{first_port + node}" for node in NODES)
    with ExitStack() as held:
        with cluster_at(first_port, [[1], [2]]) as former:
            proxy = own_kproxy(servers, "--accept-new-cluster-after", "2s")
            at = {"bootstrap.servers": proxy.bootstrap, "debug": "topic", "topic.metadata.refresh.interval.ms": "1000"}
            group = {"group.id": "rd", "auto.offset.reset": "earliest"}
            started = {
                "writes": python("confluent", ("produce", TOPIC, "2", "50"), at, tmp_path / "writes"),
                "reads": python("confluent", ("consume", TOPIC), at | group, tmp_path / "reads"),
            }
            for going in started.values():
                held.enter_context(going)
            work(started)
            former.stop_broker(2)
            for name in started:
                log = tmp_path / name
                wait_until(lambda log=log: "-> leader -1 epoch" in log.read_text(), f"what {name} knows that")  # type: ignore[misc]
        with cluster_at(first_port) as made:
            wait_until(lambda: proxy.status()["cluster_id"] == made.cluster_id, "kproxy serves it")
            for name, word, where in (("writes", "acked", 1), ("reads", "got", 0)):
                going = started[name]
                before = [line[where] for line in going.said(word)].count("1")
                going.wait(
                    lambda going=going, word=word, where=where, before=before: (  # type: ignore[misc]
                        [line[where] for line in going.said(word)].count("1") >= before + 20
                    ),
                    f"what {name} uses partition 1",
                )
