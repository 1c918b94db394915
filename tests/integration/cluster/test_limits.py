"""What a limit stops, it names; everybody else goes on."""

from __future__ import annotations

import contextlib
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.rawclient import API_VERSIONS, METADATA, RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.programs.beside import Beside
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.harness.topics import create_topic, read_topic, values

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]

PROBLEM = "too many open files"


def test_one_connection_too_many_is_refused(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, "--max-connections", "3")
    with contextlib.ExitStack() as held:
        clients = [held.enter_context(RawClient(proxy.bootstrap)) for _ in range(2)]
        # One limit for all listeners of the cluster; a connection that has said nothing yet counts.
        clients.append(held.enter_context(RawClient(proxy.node(1)["local"])))
        assert all(client.works() for client in clients)
        with RawClient(proxy.node(2)["local"]) as one_too_many:
            assert one_too_many.wait_closed()
        assert all(client.works() for client in clients)
        assert "the limit of --max-connections" in proxy.get("/readyz")[1]
        assert proxy.metric("kproxy_refused_total", side="client", reason="too-many-connections") == 1
        clients[0].close()
        wait_until(lambda: proxy.status()["sessions"] == 2, "a place is free")
        with RawClient(proxy.bootstrap) as next_one:
            assert next_one.works()
    wait_logged(proxy, "has 3 connections, the limit of --max-connections")


def test_no_more_connections_than_open_files_allow(cluster: DevCluster, own_kproxy: Start) -> None:
    """Two for each session. Four sockets listen, 128 files are for all else."""
    most = 18
    proxy = own_kproxy(cluster.bootstrap, open_files=168)
    with contextlib.ExitStack() as held:
        clients = [held.enter_context(RawClient(proxy.bootstrap)) for _ in range(most)]
        assert all(client.works() for client in clients)
        for node in (1, 2):
            with RawClient(proxy.node(node)["local"]) as one_too_many:
                assert one_too_many.wait_closed()
        assert all(client.works() for client in clients)
    assert proxy.metric("kproxy_refused_total", side="client", reason="too-many-connections") == 2
    wait_logged(proxy, f"kproxy has {most} connections, the limit with 168 open files: raise that limit")
    assert PROBLEM not in proxy.log


def test_without_file_descriptors_it_survives_and_gives_advice(cluster: DevCluster, own_kproxy: Start) -> None:
    limit, flood = 64, 150
    proxy = own_kproxy(cluster.bootstrap)
    nodes = [proxy.node(node)["local"] for node in (1, 2)]
    resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    with RawClient(proxy.bootstrap) as settled:
        assert settled.works()
        with contextlib.ExitStack() as held:
            clients = [held.enter_context(RawClient(nodes[0])) for _ in range(flood)]
            wait_until(lambda: f"{PROBLEM}: kproxy refused a connection" in proxy.log, "kproxy says that it is full")
            assert settled.works()
            held.enter_context(RawClient(proxy.admin))
            wait_until(lambda: f"{PROBLEM}: the admin endpoint" in proxy.log, "kproxy says that admin is out, too")
            for client in clients:
                with contextlib.suppress(OSError):  # refused already
                    client.send(API_VERSIONS, 0)
            # Each is answered or closed; none waits for ever.
            assert sum(hears_something(client) for client in clients) < flood
            assert settled.works()
        wait_until(lambda: proxy.get("/livez")[0] == 200, "the admin endpoint answers again")
        wait_until(lambda: proxy.status()["sessions"] == 1, "the flood is over")
        for address in (proxy.bootstrap, *nodes):
            with RawClient(address) as client:
                assert client.works()
        assert settled.works()
    assert proxy.log.count("raise the limit (ulimit -n)") >= 2


def hears_something(client: RawClient) -> bool:
    """Wait for the answer; False if the connection is closed instead."""
    try:
        client.receive()
    except (ConnectionError, EOFError):
        return False
    return True


def test_a_request_that_is_too_large(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, "--max-request-size", "20KiB")
    topic = create_topic(cluster.direct_bootstrap)
    small, large = b"s" * 10_000, b"l" * 30_000
    with RawClient(proxy.bootstrap) as other:
        assert other.works()
        assert deliver(proxy.bootstrap, topic, small) is None
        assert deliver(proxy.bootstrap, topic, large) is not None
        with RawClient(proxy.bootstrap) as client:
            client.send(METADATA, 1, b"\0" * 20 * 1024)
            assert client.wait_closed()
        assert other.works()
    assert deliver(proxy.bootstrap, topic, small) is None
    assert values(read_topic(cluster.direct_bootstrap, topic)) == [small, small]
    assert proxy.metric("kproxy_refused_total", side="client", reason="request-too-large") >= 2
    wait_logged(proxy, "(--max-request-size)")


def deliver(bootstrap: str, topic: str, value: bytes) -> str | None:
    """Produce one record; what went wrong, None if nothing."""
    problems: list[str] = []
    # Sent once: retries would only repeat what the log says.
    producer = Producer({"bootstrap.servers": bootstrap, "message.send.max.retries": 0})
    producer.produce(topic, value, on_delivery=lambda error, _: problems.append(str(error)) if error else None)
    assert producer.flush(60) == 0
    return problems[0] if problems else None


def test_a_cluster_of_1000_nodes_takes_no_port_from_another(tmp_path: Path) -> None:
    """The hard limit is 1,024 files, as it often is. No real cluster is like this."""
    honest, hostile = FakeBroker(cluster_id="honest"), FakeBroker(cluster_id="hostile")
    with Peer(honest) as one, Peer(hostile) as other:
        host, _, port = one.address.rpartition(":")
        honest.nodes = [(1, host, int(port))]
        at = int(other.address.rpartition(":")[2])
        hostile.nodes = [(0, host, at)]
        with Beside(tmp_path, one.address, other.address, open_files=1024) as proxy:
            wait_until(lambda: proxy.get("/readyz")[0] == 200, "it is ready")
            hostile.nodes = [(0, host, at), *((number, host, 1) for number in range(1, 1000))]
            with RawClient(proxy.local(0)) as client:
                client.send(METADATA, 2, b"\xff\xff\xff\xff")
                assert client.wait_closed()
            wait_logged(proxy, "has no local port: kproxy already listens on")
            assert proxy.metric("kproxy_refused_total", reason="no-local-port", cluster="hostile") == 1
            honest.nodes = [(number, host, int(port)) for number in range(30)]
            with RawClient(f"127.0.0.1:{proxy.honest}") as client:
                answer = client.ask(METADATA, 2, b"\xff\xff\xff\xff")
            ports = ports_in(answer)
            assert len(ports) == len(set(ports)) == 30
            for told in ports:
                with RawClient(f"127.0.0.1:{told}"):
                    pass  # somebody listens


def ports_in(answer: bytes) -> list[int]:
    """Those of the brokers in a Metadata response of version 2."""
    (count,), at, ports = struct.unpack_from(">i", answer), 4, []
    for _ in range(count):
        _, length = struct.unpack_from(">ih", answer, at)
        at += 6 + length
        port, rack = struct.unpack_from(">ih", answer, at)
        at += 6 + max(0, rack)
        ports.append(port)
    return ports
