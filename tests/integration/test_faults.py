"""What happens to brokers must not happen to clients: a broker dies, moves, joins, goes, while records flow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.readiness import live_brokers
from tests.harness.clients.flow import Flow, JavaFlow, create_topic
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until

pytestmark = pytest.mark.integration

# One partition led by each broker, two in-sync replicas without any one of them.
SPREAD = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
# The names resolve nowhere, the port is the real one: as where a load balancer's name is all that is missing.
MAP = "kafka-*.cluster.internal=127.0.0.1:{port}"
NEW = 49176


@pytest.fixture(scope="module")
def fragile() -> Iterator[DevCluster]:
    """A cluster of this module's own; its brokers advertise the port that they really have."""
    with DevCluster(brokers=[1, 2, 3], advertised="kafka-{id}.cluster.internal:{port}") as made:
        yield made


@pytest.fixture(autouse=True)
def whole(fragile: DevCluster) -> None:
    """Each test begins with every broker up, whatever the one before left."""
    for node in set(fragile.node_ids) - set(fragile.running):
        fragile.restart(node)
    fragile.wait_ready()


@pytest.fixture
def proxy(fragile: DevCluster, own_kproxy: Callable[..., Kproxy], request: pytest.FixtureRequest) -> Kproxy:
    return own_kproxy(fragile.bootstrap, "--map", MAP, *getattr(request, "param", []))


@pytest.fixture
def topic(fragile: DevCluster, request: pytest.FixtureRequest) -> str:
    """A topic whose three partitions are led by three brokers."""
    name = re.sub(r"\W|_", "-", str(request.node.name))
    create_topic(fragile.direct_bootstrap, name, assignment=SPREAD)
    return name


def addresses(proxy: Kproxy) -> dict[int, Address]:
    """What a client is told at the bootstrap listener."""
    return live_brokers(Address.parse(proxy.bootstrap))


def test_a_killed_broker_comes_back(fragile: DevCluster, proxy: Kproxy, topic: str, tmp_path: Path) -> None:
    create_topic(fragile.direct_bootstrap, f"{topic}-java", assignment=SPREAD)
    local = {node: proxy.node(node)["local"] for node in (1, 2, 3)}
    with (
        Flow(proxy.bootstrap, topic, partitions=3) as flow,
        JavaFlow(fragile.programs, proxy.bootstrap, f"{topic}-java", tmp_path) as java,
        RawClient(local[1]) as to_1,
        RawClient(local[2]) as to_2,
        RawClient(local[3]) as to_3,
    ):
        assert to_1.works()
        assert to_2.works()
        assert to_3.works()
        fragile.kill(2)
        assert to_2.wait_closed()
        fragile.wait_fenced(2)
        # Partition 1 has another leader now, and the clients have found it.
        flow.wait_flowing()
        java.wait_flowing()
        fragile.restart(2)
        wait_until(lambda: 2 in addresses(proxy), "broker 2 is back in the metadata")
        flow.wait_flowing()
        java.wait_flowing()
        assert to_1.works()
        assert to_3.works()
    assert {node: proxy.node(node)["local"] for node in (1, 2, 3)} == local


def test_a_broker_that_moves_keeps_its_local_port(fragile: DevCluster, proxy: Kproxy, topic: str) -> None:
    local, before = proxy.node(2)["local"], fragile.dial[2]
    with (
        Flow(proxy.bootstrap, topic, partitions=3) as flow,
        RawClient(proxy.node(1)["local"]) as to_1,
        RawClient(proxy.node(3)["local"]) as to_3,
    ):
        assert to_1.works()
        assert to_3.works()
        fragile.restart(2, new_port=True)
        after = fragile.dial[2]
        assert after != before
        wait_until(lambda: addresses(proxy).get(2) == Address.parse(local), "broker 2 is back, at its local port")
        wait_until(lambda: proxy.node(2)["advertised"] == str(fragile.advertised[2]), "the move was noticed")
        flow.wait_flowing()
        with RawClient(local) as to_2:
            assert to_2.works()
        assert to_1.works()
        assert to_3.works()
    assert proxy.node(2)["local"] == local
    assert proxy.node(2)["dial"] == str(after)
    wait_logged(proxy, f"broker 2 moved from kafka-2.cluster.internal:{before.port}")


def test_a_new_broker_is_used(fragile: DevCluster, proxy: Kproxy, topic: str) -> None:
    new = NEW + len(fragile.node_ids)
    assert not proxy.node(new)
    with Flow(proxy.bootstrap, topic, partitions=3) as flow, RawClient(proxy.node(1)["local"]) as to_1:
        assert to_1.works()
        fragile.add(new)
        wait_until(lambda: new in addresses(proxy), "the new broker is in the metadata")
        create_topic(proxy.bootstrap, f"{topic}-on-it", assignment=[[new, 1], [new, 2]])
        with Flow(proxy.bootstrap, f"{topic}-on-it", partitions=2):
            assert proxy.metric("kproxy_sessions_open", node=str(new)) >= 2
        flow.wait_flowing()
        assert to_1.works()
    assert proxy.node(new)["local"] == str(addresses(proxy)[new])
    assert proxy.metric("kproxy_requests_total", node=str(new), api="Produce") > 0


def test_a_dead_broker_closes_its_clients_and_no_others(fragile: DevCluster, proxy: Kproxy) -> None:
    local = {node: proxy.node(node)["local"] for node in (1, 2, 3)}
    with RawClient(local[1]) as to_1, RawClient(local[3]) as to_3:
        assert to_1.works()
        assert to_3.works()
        fragile.kill(3)
        assert to_3.wait_closed()
        for _ in range(3):
            with RawClient(local[3]) as again:
                assert not again.works()
        assert to_1.works()
        assert addresses(proxy)[1] == Address.parse(local[1])
    assert proxy.metric("kproxy_upstream_dial_failures_total", node="3", reason="refused") >= 3
    wait_logged(proxy, "broker 3 cannot be reached")
    fragile.restart(3)
    with RawClient(local[3]) as once_more:
        assert once_more.works()


def test_kproxy_waits_for_a_cluster_that_is_not_up(fragile: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    fragile.stop_broker(2)
    early = own_kproxy(str(fragile.dial[2]), "--map", MAP, ready=False)
    wait_until(lambda: "no bootstrap server answers" in early.log, "kproxy says that nothing answers")
    code, why = early.get("/readyz")
    assert code == 503
    assert "nothing listens on that port" in why
    with RawClient(early.bootstrap) as too_early:
        assert not too_early.works()
    fragile.restart(2)
    early.wait_ready()
    assert addresses(early).keys() >= {1, 2, 3}


def test_a_gone_brokers_port_is_closed_and_comes_back(fragile: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    proxy = own_kproxy(fragile.bootstrap, "--map", MAP, "--retire-after", "1s")
    local = proxy.node(3)["local"]
    listeners = proxy.metric("kproxy_listeners")
    in_use = RawClient(local)
    assert in_use.works()
    fragile.stop_broker(3)
    fragile.wait_fenced(3)
    assert in_use.wait_closed()
    in_use.close()
    assert 3 not in addresses(proxy)  # a client's metadata is how kproxy hears of it
    wait_until(lambda: not proxy.node(3)["bound"], "the listener of broker 3 is closed")
    assert proxy.metric("kproxy_listeners") == listeners - 1
    assert not proxy.node(3)["present"]
    assert proxy.get("/readyz")[0] == 200
    with pytest.raises(ConnectionRefusedError):
        RawClient(local)
    fragile.restart(3)
    wait_until(lambda: 3 in addresses(proxy), "broker 3 is back in the metadata")
    assert addresses(proxy)[3] == Address.parse(local)
    with RawClient(local) as back:
        assert back.works()
