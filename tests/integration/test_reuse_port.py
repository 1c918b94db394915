"""`--reuse-port`: kproxies of one configuration at the same ports, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.readiness import live_brokers
from tests.harness.clients.flow import Flow, JavaFlow
from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.clusters.steady import STEADY
from tests.harness.process import Kproxy, free_window, wait_logged, wait_until
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.harness.topics import create_topic as new_topic

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="--reuse-port needs Linux"),
]

Start = Callable[..., Kproxy]
COUNT = 60
"""Node ports."""


class Shared:
    """Ports that kproxies share. `options` has what all of them are given."""

    def __init__(self) -> None:
        self.first = free_window(COUNT + 1)
        self.bootstrap = f"127.0.0.1:{self.first}"
        self.options = ("--reuse-port", *self.at(COUNT))

    def at(self, count: int) -> tuple[str, ...]:
        """Listen there, with so many node ports."""
        return "--listen", self.bootstrap, "--node-ports", f"{self.first + 1}-{self.first + count}"

    def node(self, number: int) -> str:
        """Where a broker is."""
        return f"127.0.0.1:{self.first + 1 + number}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """With ids that fit a small window."""
    with DevCluster(3, properties=STEADY) as made:
        yield made


@pytest.fixture
def shared() -> Shared:
    return Shared()


@pytest.fixture
def two(cluster: DevCluster, own_kproxy: Start, shared: Shared) -> tuple[Kproxy, Kproxy]:
    one = own_kproxy(cluster.bootstrap, *shared.options)
    return one, own_kproxy(cluster.bootstrap, *shared.options)


def sessions(proxy: Kproxy) -> int:
    return int(proxy.status()["sessions"])


@contextlib.contextmanager
def spread(bootstrap: str, *proxies: Kproxy) -> Iterator[list[RawClient]]:
    """Clients, until each of these has some."""
    with ExitStack() as held:
        clients: list[RawClient] = []

        def some_each() -> bool:
            clients.append(held.enter_context(RawClient(bootstrap)))
            return clients[-1].works() and all(map(sessions, proxies))

        wait_until(some_each, "each has clients")
        yield clients


def refused(*args: str, directory: Path, bootstrap: str) -> str:
    """The one line with which a kproxy does not begin."""
    proxy = Kproxy(directory, bootstrap, *args, ready=False)
    assert proxy.process.wait(60) == 2
    (line,) = proxy.log.splitlines()
    return line


def test_clients_are_spread_and_told_the_same_ports(shared: Shared, two: tuple[Kproxy, Kproxy]) -> None:
    with spread(shared.bootstrap, *two) as clients:
        expected = {node: Address.parse(shared.node(node)) for node in (1, 2, 3)}
        for _ in range(8):
            assert live_brokers(Address.parse(shared.bootstrap)) == expected
        assert sum(map(sessions, two)) == len(clients), "each shows itself alone"
    for proxy in two:
        assert {node["local"] for node in proxy.status()["nodes"]} == set(map(str, expected.values()))
        assert proxy.metric("kproxy_listeners") == 4


def test_a_kproxy_that_is_killed_loses_nothing(
    cluster: DevCluster, shared: Shared, two: tuple[Kproxy, Kproxy], own_kproxy: Start, tmp_path: Path
) -> None:
    """librdkafka and Java, idempotent: what comes back is there once, and in order."""
    topic, java_topic = new_topic(cluster.direct_bootstrap), new_topic(cluster.direct_bootstrap)
    with (
        spread(shared.bootstrap, *two),
        Flow(shared.bootstrap, topic, partitions=3) as flow,
        JavaFlow(cluster.programs, shared.bootstrap, java_topic, tmp_path) as java,
    ):
        for number in range(3):
            victim = max(two, key=lambda proxy: proxy.metric("kproxy_sessions_open")) if number else two[0]
            stays = two[1] if victim is two[0] else two[0]
            victim.process.kill()
            victim.process.wait()
            flow.wait_flowing()
            java.wait_flowing()
            assert sessions(stays) > 0
            two = stays, own_kproxy(cluster.bootstrap, *shared.options)
            flow.wait_flowing()


def test_a_restart_of_one_leaves_the_clients_of_the_other_alone(
    cluster: DevCluster, shared: Shared, two: tuple[Kproxy, Kproxy], own_kproxy: Start
) -> None:
    one, other = two
    with spread(shared.bootstrap, one, other) as clients:
        here = {port_of(client) for client in clients} & connected(one)
        stay = [client for client in clients if port_of(client) in here]
        assert 0 < len(stay) < len(clients)
        assert other.stop() == 0
        assert all(client.works() for client in stay)
        for _ in range(20):
            with RawClient(shared.bootstrap) as client:
                assert client.works()
        again = own_kproxy(cluster.bootstrap, *shared.options)
        assert all(client.works() for client in stay)
        with spread(shared.bootstrap, again):
            assert all(client.works() for client in stay)


def port_of(client: RawClient) -> int:
    return int(client.socket.getsockname()[1])


def connected(proxy: Kproxy) -> set[int]:
    """The ports of the clients that it has."""
    found = json.loads(proxy.get("/sessions")[1])
    return {int(one["client"].rpartition(":")[2]) for one in found}


def test_one_that_means_something_else_does_not_begin(
    cluster: DevCluster, shared: Shared, two: tuple[Kproxy, Kproxy], tmp_path: Path
) -> None:
    fewer = ("--reuse-port", *shared.at(COUNT - 1))
    line = refused(*fewer, directory=tmp_path / "other", bootstrap=cluster.bootstrap)
    assert "another kproxy shares port" in line
    assert "need the same listen, node-ports," in line
    alone = refused(*shared.at(COUNT), directory=tmp_path / "alone", bootstrap=cluster.bootstrap)
    assert f"--listen {shared.bootstrap}: the port is taken by another process" in alone
    with spread(shared.bootstrap, *two):
        pass


def test_one_of_another_cluster_serves_no_client(
    cluster: DevCluster, shared: Shared, two: tuple[Kproxy, Kproxy], own_kproxy: Start
) -> None:
    """The same configuration, where a name leads to another cluster say."""
    broker = FakeBroker(cluster_id="another")
    with Peer(broker) as peer:
        host, _, port = peer.address.rpartition(":")
        broker.nodes = [(1, host, int(port))]
        stranger = own_kproxy(peer.address, *shared.options, ready=False)
        wait_logged(stranger, "it is another cluster (id another): kproxy serves the cluster with the id")
        assert "as do the kproxies that share its ports (--reuse-port)" in stranger.log
        assert stranger.get("/readyz")[0] == 503
        for _ in range(30):
            with RawClient(shared.bootstrap) as client:
                assert client.works()
        assert stranger.status()["sessions"] == 0


def test_a_port_that_another_program_has_is_an_error(
    cluster: DevCluster, shared: Shared, own_kproxy: Start, tmp_path: Path
) -> None:
    host, _, port = shared.bootstrap.rpartition(":")
    with socket.create_server((host, int(port))):
        line = refused(*shared.options, directory=tmp_path / "refused", bootstrap=cluster.bootstrap)
        assert f"--listen {shared.bootstrap}: the port is taken by a process that does not share it" in line
    host, _, port = shared.node(2).rpartition(":")
    with socket.create_server((host, int(port))):
        proxy = own_kproxy(cluster.bootstrap, *shared.options, ready=False)
        wait_logged(proxy, f"ERROR   broker 2 has no local port: port {port} cannot be had: it is taken by a process")
        wait_until(lambda: proxy.node(2), "it knows the broker")
        with RawClient(shared.bootstrap) as client:
            client.send(METADATA, 1, struct.pack(">i", 0))  # its answer would name the broker
            assert client.wait_closed()
        assert not proxy.node(2)["bound"]
        assert proxy.metric("kproxy_refused_total", reason="no-local-port") >= 1


def test_an_id_that_does_not_fit_is_an_error(shared: Shared, own_kproxy: Start) -> None:
    broker = FakeBroker(cluster_id="one")
    with Peer(broker) as peer:
        host, _, port = peer.address.rpartition(":")
        broker.nodes = [(1, host, int(port)), (COUNT * 3 // 4, host, int(port))]
        proxy = own_kproxy(peer.address, *shared.options, ready=False)
        window = f"{shared.first + 1}-{shared.first + COUNT}"
        wait_logged(proxy, f"broker {COUNT * 3 // 4} has no local port: its id does not fit --node-ports {window}")
        assert f"ids of brokers up to {COUNT * 3 // 4 - 1} fit there" in proxy.log


def test_a_kproxy_that_cannot_serve_takes_no_client_from_another(
    cluster: DevCluster, shared: Shared, two: tuple[Kproxy, Kproxy], own_kproxy: Start
) -> None:
    """As long as no bootstrap server has answered it."""
    lost = own_kproxy("127.0.0.1:1", *shared.options, ready=False)
    wait_logged(lost, "no bootstrap server answers")
    for _ in range(30):
        with RawClient(shared.bootstrap) as client:
            assert client.works()
    assert lost.metric("kproxy_sessions_total") == 0
    lost.process.send_signal(signal.SIGTERM)
    assert lost.process.wait(60) == 0
