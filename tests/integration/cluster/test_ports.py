"""Which local port each node has, what clients are told, and that both outlive a restart."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.readiness import live_brokers
from tests.harness.clients.flow import Flow, create_topic
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, free_window, wait_logged
from tests.harness.servers.peers import taken
from tests.harness.topics import create_topic as new_topic
from tests.harness.topics import produce, read_topic, unique, values

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]


def told(address: str) -> dict[int, Address]:
    """Where the nodes are, as a client is told that connects to `address`."""
    return live_brokers(Address.parse(address))


def ports(proxy: Kproxy) -> dict[int, int]:
    return {node["id"]: Address.parse(node["local"]).port for node in proxy.status()["nodes"]}


def moves_a_record(bootstrap: str) -> None:
    """A client produces and consumes through `bootstrap`, in a topic with a leader on each broker."""
    topic = new_topic(bootstrap)
    for partition in range(3):
        produce(bootstrap, topic, [b"hello"], partition)
    assert values(read_topic(bootstrap, topic)) == [b"hello"] * 3


def test_small_ids_have_own_ports_that_survive_a_restart(cluster: DevCluster, own_kproxy: Start) -> None:
    first = own_kproxy(cluster.bootstrap)
    before = ports(first)
    assert before[1] == first.first_port + 1
    assert before[2] == first.first_port + 2
    # 1001 does not fit the window; it has a port in the upper half, away from small ids.
    assert first.first_port + 100 <= before[1001] <= first.first_port + 199
    first.stop()
    again = own_kproxy(cluster.bootstrap, "--listen", first.bootstrap)
    assert ports(again) == before
    assert {node: address.port for node, address in told(first.bootstrap).items()} == before


def test_a_taken_port_is_replaced_by_the_same_one_every_time(cluster: DevCluster, own_kproxy: Start) -> None:
    listen = free_window(201)
    with taken(listen + 2):
        first = own_kproxy(cluster.bootstrap, "--listen", f"127.0.0.1:{listen}")
        before = ports(first)
        assert before[1] != listen + 2
        assert listen + 101 <= before[1] <= listen + 200
        assert before[2] == listen + 3
        moves_a_record(f"127.0.0.1:{listen}")
        first.stop()
        again = own_kproxy(cluster.bootstrap, "--listen", f"127.0.0.1:{listen}")
        assert ports(again) == before


def test_a_window_that_is_too_small_fails_nothing(cluster: DevCluster, own_kproxy: Start) -> None:
    listen = free_window(3)
    window = (listen + 1, listen + 2)
    proxy = own_kproxy(cluster.bootstrap, "--listen", f"127.0.0.1:{listen}", "--node-ports", f"{window[0]}-{window[1]}")
    found = ports(proxy)
    assert found[1] == window[1]  # ids 0 and 1 fit a window of two
    assert found[2] == window[0]
    assert found[1001] not in (0, listen, *window)
    wait_logged(proxy, f"broker 1001 has the local port {found[1001]} outside --node-ports {window[0]}-{window[1]}")
    wait_logged(proxy, "widen the range")
    moves_a_record(f"127.0.0.1:{listen}")


def test_a_wildcard_is_never_advertised(cluster: DevCluster, own_kproxy: Start) -> None:
    """Clients are told the address that they came to. All of 127.0.0.0/8 is this machine."""
    port = free_window(202)
    proxy = own_kproxy(cluster.bootstrap, "--listen", f"0.0.0.0:{port}")
    for host in ("127.0.0.1", "127.0.0.2"):
        for node, address in told(f"{host}:{port}").items():
            assert address.host == host
            with RawClient(str(told(str(address))[node])) as client:  # a node's listener tells the same
                assert client.works()
        moves_a_record(f"{host}:{port}")
    warnings = [line for line in proxy.log.splitlines() if "means every interface" in line]
    assert len(warnings) == 1, warnings
    assert "--advertise HOST" in warnings[0]


def test_what_advertise_says_is_told(cluster: DevCluster, own_kproxy: Start) -> None:
    port, outside = free_window(202), 42000
    proxy = own_kproxy(
        cluster.bootstrap, "--listen", f"0.0.0.0:{port}", "--advertise", f"kproxy.example:{outside}",
    )  # fmt: skip
    found = told(f"127.0.0.1:{port}")
    assert found[1] == Address("kproxy.example", outside + 1)
    assert found[2] == Address("kproxy.example", outside + 2)
    assert found[1001].host == "kproxy.example"
    assert outside + 100 <= found[1001].port <= outside + 199
    assert proxy.node(1)["local"] == f"kproxy.example:{outside + 1}"
    assert "means every interface" not in proxy.log


def test_advertise_without_a_port_keeps_the_ports(cluster: DevCluster, own_kproxy: Start) -> None:
    port = free_window(202)
    own_kproxy(cluster.bootstrap, "--listen", f"0.0.0.0:{port}", "--advertise", "127.0.0.3")
    assert told(f"127.0.0.1:{port}")[1] == Address("127.0.0.3", port + 2)
    moves_a_record(f"127.0.0.1:{port}")


@pytest.mark.parametrize("host", ["[::1]", "localhost"])
def test_other_hosts_to_listen_on(cluster: DevCluster, own_kproxy: Start, host: str) -> None:
    if host == "[::1]" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    port = free_window(202)
    own_kproxy(cluster.bootstrap, "--listen", f"{host}:{port}")
    assert told(f"{host}:{port}")[2] == Address(host.strip("[]"), port + 3)
    moves_a_record(f"{host}:{port}")


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_a_listen_port_that_is_taken_is_one_line(cluster: DevCluster) -> None:
    port = free_window(1)
    with taken(port):
        command = ["run", "-b", cluster.bootstrap, "--listen", f"127.0.0.1:{port}", "--no-admin"]
        ended = subprocess.run([sys.executable, "-m", "kproxy", *command], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "the port is taken by another process" in line
    assert "--listen HOST:PORT" in line


def test_two_clusters_in_one_process(cluster: DevCluster, tmp_path: Path) -> None:
    """The client listeners and the brokers' own ones stand for two clusters: other ports, other advertised names."""
    base = free_window(32)
    config = tmp_path / "kproxy.yaml"
    config.write_text(f"""
clusters:
  - name: orders
    bootstrap-servers: {cluster.bootstrap}
    listen: 127.0.0.1:{base}
    node-ports: {base + 1}-{base + 10}
  - name: billing
    bootstrap-servers: {cluster.direct_bootstrap}
    listen: 127.0.0.1:{base + 15}
    node-ports: {base + 16}-{base + 25}
admin: 127.0.0.1:{base + 30}
""")
    with Running(["-c", str(config)], f"127.0.0.1:{base + 30}", tmp_path) as running:
        clusters = {each["name"]: each for each in running.status()["clusters"]}
        assert set(clusters) == {"orders", "billing"}
        for first, name in ((base, "orders"), (base + 15, "billing")):
            found = told(f"127.0.0.1:{first}")
            assert {node: str(address) for node, address in found.items()} == {
                node["id"]: node["local"] for node in clusters[name]["nodes"]
            }
            assert all(first < address.port <= first + 10 for address in found.values())
            moves_a_record(f"127.0.0.1:{first}")
            assert running.metric("kproxy_listeners", cluster=name) == 4
            assert running.metric("kproxy_requests_total", cluster=name, api="Produce") > 0
        for node in clusters["orders"]["nodes"]:
            assert node["advertised"] == str(cluster.advertised[node["id"]])
        for node in clusters["billing"]["nodes"]:
            assert node["advertised"] == str(cluster.listener("INTERNAL")[node["id"]])


class Running(Kproxy):
    """A kproxy whose command line is given whole."""

    def __init__(self, args: list[str], admin: str, directory: Path) -> None:
        self._findings = directory / "leaks"
        self.log_path = directory / "kproxy.log"
        self.admin = admin
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kproxy", "run", *args],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=Path(__file__).parents[3],
                env={key: value for key, value in os.environ.items() if not key.startswith("KPROXY_")},
            )
        self.wait_ready()

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.get("/status")[1]))


def test_clients_outlive_a_restart_of_kproxy(cluster: DevCluster, own_kproxy: Start) -> None:
    """The bootstrap port that they were given is gone for good: only the nodes' ports can save them."""
    topic = unique("restart")
    create_topic(cluster.direct_bootstrap, topic, assignment=[[1, 2, 1001], [2, 1001, 1]])
    first = own_kproxy(cluster.bootstrap)
    # Not to ask the bootstrap servers again (KIP-899), which clients do by default when all brokers are gone.
    with Flow(first.bootstrap, topic, 2, **{"metadata.recovery.strategy": "none"}) as flow:
        before = ports(first)
        first.stop()
        window = f"{first.first_port}-{first.first_port + 199}"
        again = own_kproxy(cluster.bootstrap, "--listen", f"127.0.0.1:{free_window(1)}", "--node-ports", window)
        assert ports(again) == before
        flow.wait_flowing()
        assert again.metric("kproxy_sessions_total", node="1") > 0
        assert again.metric("kproxy_sessions_total", node="2") > 0
        assert again.metric("kproxy_sessions_total", node="bootstrap") == 0
