"""Controllers where kproxy's user, or a port-forward, has put them in the place of brokers: a real cluster's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.servers.peers import Road
from tests.harness.topics import create_topic, produce, read_topic, values

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]
REFUSAL = "answers, but it is a controller, and clients of this cluster need a broker"


def write_and_read(cluster: DevCluster, proxy: Kproxy) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    produce(proxy.bootstrap, topic, [b"record"])
    assert values(read_topic(proxy.bootstrap, topic)) == [b"record"]


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_a_controller_among_the_bootstrap_servers(cluster: DevCluster, own_kproxy: Start, order: int) -> None:
    """Port 9093 beside 9092, as in a Compose file with one combined node."""
    servers = [cluster.controller_bootstrap, *map(str, cluster.dial.values())][::order]
    proxy = own_kproxy(",".join(servers))

    wait_logged(proxy, f"kproxy skips bootstrap server {cluster.controller_bootstrap}: ")
    wait_logged(proxy, REFUSAL)
    assert {node["kind"] for node in proxy.status()["nodes"]} == {"broker"}
    write_and_read(cluster, proxy)


def test_a_bootstrap_server_that_is_a_controller_for_a_while(cluster: DevCluster, own_kproxy: Start) -> None:
    """A port-forward leads to the controller when kproxy starts, then to a broker, to the controller, to a broker."""
    broker = str(next(iter(cluster.dial.values())))
    with Road(lambda: cluster.controller_bootstrap) as road:
        proxy = own_kproxy(road.address)
        assert [node["kind"] for node in proxy.status()["nodes"]] == ["controller"]
        wait_logged(proxy, "every bootstrap server that answers is a controller")
        road.lead(lambda: broker)
        with RawClient(proxy.bootstrap) as client:
            client.ask(METADATA, 2, b"\xff\xff\xff\xff")
        wait_until(lambda: "broker" in {node["kind"] for node in proxy.status()["nodes"]}, "it has seen the brokers")

        road.lead(lambda: cluster.controller_bootstrap)
        with RawClient(proxy.bootstrap) as client:
            assert not client.works()
        road.lead(lambda: broker)
        with RawClient(proxy.bootstrap) as client:
            assert client.works()
