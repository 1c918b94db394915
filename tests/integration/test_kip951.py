"""KIP-951: a broker that no longer leads names the new leader, with its address, in Produce and Fetch responses.

A client that believes such an address goes past kproxy. Here every advertised address is a trap: it leads to a socket
of the test's own, so that one connection past kproxy, by whichever client, is counted.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.flow import Flow, JavaFlow, create_topic
from tests.harness.clients.kafka_python import KafkaAdminClient, TopicPartition
from tests.harness.process import Kproxy, free_window, wait_until
from tests.harness.servers.peers import Peer, closing
from tests.harness.topics import leaders, needs_kcat, unique

pytestmark = pytest.mark.integration

NODES = (1, 2, 3)
# All of 127.0.0.0/8 is this machine; nobody else uses this part of it.
TRAP_NET = "127.77.0."


@dataclass
class Trapped:
    """The cluster, and the traps at its advertised addresses."""

    cluster: DevCluster
    traps: list[Peer]

    @property
    def caught(self) -> int:
        return sum(trap.accepted for trap in self.traps)

    @property
    def maps(self) -> list[str]:
        """What kproxy is told: where each broker really is."""
        return [word for node in NODES for word in ("--map", f"node:{node}={self.cluster.dial[node]}")]


@pytest.fixture(scope="module")
def trapped() -> Iterator[Trapped]:
    with contextlib.ExitStack() as stack:
        port = free_window(1)
        traps = [stack.enter_context(Peer(closing, f"{TRAP_NET}{node}", port)) for node in NODES]
        cluster = stack.enter_context(DevCluster(brokers=NODES, advertised=f"{TRAP_NET}{{id}}:{port}"))
        yield Trapped(cluster, traps)


@pytest.fixture
def proxy(trapped: Trapped, tmp_path: Path) -> Iterator[Kproxy]:
    with Kproxy(tmp_path, trapped.cluster.bootstrap, *trapped.maps, forbidden=[TRAP_NET]) as made:
        yield made


def lead(cluster: DevCluster, topic: str, leader: int) -> None:
    """Make `leader` lead every partition of the topic, while the leaders before it live on."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.direct_bootstrap)
    try:
        partitions = sorted(leaders(cluster.direct_bootstrap, topic))
        replicas = [leader, *(node for node in NODES if node != leader)]
        changed = admin.alter_partition_reassignments({TopicPartition(topic, p): replicas for p in partitions})
        assert set(changed.values()) == {None}, changed
        admin.elect_leaders(0, {topic: partitions}, raise_errors=False)  # complains where it leads already
        wait_until(
            lambda: set(leaders(cluster.direct_bootstrap, topic).values()) == {leader},
            f"broker {leader} leads {topic}",
        )
    finally:
        admin.close()


def follow(proxy: Kproxy, trapped: Trapped, topic: str, flowing: Callable[[], None]) -> None:
    """Move leadership round and round, until the clients have been told of it in both ways, and still work."""

    def told(api: str) -> float:
        return proxy.metric("kproxy_endpoints_rewritten_total", api=api)

    for leader in (*NODES[1:], *NODES, *NODES):
        before = proxy.metric("kproxy_requests_total", node=str(leader), api="Produce")
        lead(trapped.cluster, topic, leader)
        flowing()
        assert proxy.metric("kproxy_requests_total", node=str(leader), api="Produce") > before
        if told("Produce") and told("Fetch"):
            break
    assert told("Produce"), "no Produce response has named a new leader"
    assert told("Fetch"), "no Fetch response has named a new leader"


def uses_only(proxy: Kproxy, api: str, oldest: int) -> None:
    """The clients spoke `api` in version `oldest` or later, and in no other."""
    by_version = {v: proxy.metric("kproxy_requests_total", api=api, version=str(v)) for v in range(30)}
    used = {version for version, count in by_version.items() if count}
    assert used, f"no {api} request went through kproxy"
    assert min(used) >= oldest, used


@needs_kcat
def test_the_traps_catch_a_client_without_kproxy(trapped: Trapped) -> None:
    """The proof that the other tests can fail."""
    before = trapped.caught
    command = ["kcat", "-b", trapped.cluster.bootstrap, "-t", unique("direct"), "-P", "-X", "message.timeout.ms=2000"]
    assert subprocess.run(command, input="x\n", text=True, capture_output=True).returncode != 0
    assert trapped.caught > before


def test_librdkafka_follows_the_leader_through_kproxy(trapped: Trapped, proxy: Kproxy) -> None:
    topic, before = unique("rdkafka"), trapped.caught
    create_topic(trapped.cluster.direct_bootstrap, topic, assignment=[[1, 2, 3]] * 2)
    # With such a refresh interval, only the responses can tell where the leader is.
    with Flow(proxy.bootstrap, topic, 2, **{"topic.metadata.refresh.interval.ms": 900_000}) as flow:
        follow(proxy, trapped, topic, flow.wait_flowing)
    uses_only(proxy, "Produce", 10)
    uses_only(proxy, "Fetch", 16)
    assert trapped.caught == before


def test_java_clients_follow_the_leader_through_kproxy(trapped: Trapped, proxy: Kproxy, tmp_path: Path) -> None:
    topic, before = unique("java"), trapped.caught
    create_topic(trapped.cluster.direct_bootstrap, topic, assignment=[[1, 2, 3]] * 2)
    slow = "metadata.max.age.ms=900000"
    with JavaFlow(trapped.cluster.programs, proxy.bootstrap, topic, tmp_path, slow) as flow:
        follow(proxy, trapped, topic, flow.wait_flowing)
    uses_only(proxy, "Produce", 10)
    uses_only(proxy, "Fetch", 16)
    assert trapped.caught == before


class StreamingKproxy(Kproxy):
    """One that holds no such response, so that each keeps its length."""

    watched = "tests.harness.programs.streaming"


@pytest.mark.parametrize("advertised", ["127.0.0.1", "127.100.100.100"], ids=["replaced", "left-out"])
def test_both_follow_when_the_response_has_to_keep_its_length(
    trapped: Trapped, tmp_path: Path, advertised: str
) -> None:
    """A local address that is not longer than the broker's takes its place, and what is left over is filled. A longer
    one does not fit: the endpoints are left out, and the client asks for metadata."""
    before = trapped.caught
    port = free_window(201)
    listen = ("--listen", f"0.0.0.0:{port}", "--advertise", advertised)
    topic, java_topic = unique("streamed"), unique("streamed-java")
    for name in (topic, java_topic):
        create_topic(trapped.cluster.direct_bootstrap, name, assignment=[[1, 2, 3]] * 2)
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(
            StreamingKproxy(tmp_path, trapped.cluster.bootstrap, *trapped.maps, *listen, forbidden=[TRAP_NET])
        )
        bootstrap = f"127.0.0.1:{port}"
        flow = stack.enter_context(Flow(bootstrap, topic, 2, **{"topic.metadata.refresh.interval.ms": 900_000}))
        slow = "metadata.max.age.ms=900000"
        java = stack.enter_context(JavaFlow(trapped.cluster.programs, bootstrap, java_topic, tmp_path, slow))
        follow(proxy, trapped, topic, flow.wait_flowing)
        follow(proxy, trapped, java_topic, java.wait_flowing)
    assert trapped.caught == before
