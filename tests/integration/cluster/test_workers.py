"""`--workers`: several processes that are one kproxy to everybody outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.process import parent
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.ready import known_brokers
from tests.harness.clients.flow import Flow
from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.topics import create_topic as new_topic
from tests.harness.topics import leaders, produce

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="--workers needs Linux"),
]

Start = Callable[..., Kproxy]
COUNT = 3
FOREVER_MS = 3_600_000


@pytest.fixture
def proxy(cluster: DevCluster, own_kproxy: Start) -> Iterator[Kproxy]:
    """A kproxy with workers; no process of it is left in the end."""
    made = own_kproxy(cluster.bootstrap, "--workers", str(COUNT))
    wait_until(lambda: complete(made), "all workers are there")
    of_it = descendants(made.process.pid)
    assert set(pids(made)) < set(of_it)
    yield made
    made.stop()
    wait_until(lambda: not any(alive(pid) for pid in of_it), "every process has ended")


def workers(proxy: Kproxy) -> list[dict[str, Any]]:
    return list(json.loads(proxy.get("/status")[1])["workers"])


def pids(proxy: Kproxy) -> list[int]:
    return [worker["pid"] for worker in workers(proxy)]


def complete(proxy: Kproxy) -> bool:
    """Whether all workers are there, and are given clients."""
    found = workers(proxy)
    return len(found) == COUNT and all(worker["answers"] for worker in found)


def descendants(pid: int) -> list[int]:
    """All processes below one, deepest last."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_sessions_are_spread_and_the_numbers_are_sums(cluster: DevCluster, proxy: Kproxy) -> None:
    asked = 5
    with contextlib.ExitStack() as held:
        clients = [held.enter_context(RawClient(proxy.bootstrap)) for _ in range(2 * COUNT)]
        for client in clients:
            for _ in range(asked):
                assert client.works()
        assert [worker["sessions"] for worker in workers(proxy)] == [2] * COUNT
        assert proxy.metric("kproxy_sessions_open", node="bootstrap") == len(clients)
        assert proxy.metric("kproxy_requests_total", node="bootstrap", api="ApiVersions") == asked * len(clients)
        assert proxy.metric("kproxy_request_duration_seconds_count", api="ApiVersions") == asked * len(clients)
        assert proxy.status()["sessions"] == len(clients)
    wait_until(lambda: proxy.status()["sessions"] == 0, "the sessions have ended")
    assert proxy.metric("kproxy_sessions_open") == 0
    assert proxy.metric("kproxy_sessions_total", node="bootstrap") == len(clients)
    assert proxy.metric("kproxy_listeners") == 4
    assert proxy.metric("process_open_fds") > 0


def test_every_worker_tells_the_same_ports(proxy: Kproxy) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(COUNT):
            held.enter_context(RawClient(proxy.bootstrap)).works()
        told = []
        for _ in range(COUNT):
            told.append(known_brokers(Address.parse(proxy.bootstrap)))
            held.enter_context(RawClient(proxy.bootstrap)).works()
    expected = {node["id"]: Address.parse(node["local"]) for node in proxy.status()["nodes"]}
    assert told == [expected] * COUNT


def test_a_killed_worker_is_replaced_and_no_record_is_lost(cluster: DevCluster, proxy: Kproxy) -> None:
    topic = new_topic(cluster.direct_bootstrap)
    with Flow(proxy.bootstrap, topic, partitions=3) as flow:
        before = pids(proxy)
        requests = proxy.metric("kproxy_requests_total")
        victim = max(workers(proxy), key=lambda worker: worker["sessions"])
        assert victim["sessions"] > 0
        os.kill(victim["pid"], signal.SIGKILL)
        wait_until(
            lambda: victim["pid"] not in pids(proxy) and complete(proxy),
            "another worker takes its place",
        )
        assert set(pids(proxy)) >= set(before) - {victim["pid"]}
        flow.wait_flowing()
        # Without the dead worker's this would be less, and Prometheus would see a restart.
        assert proxy.metric("kproxy_requests_total") >= requests
        with RawClient(proxy.bootstrap) as client:
            assert client.works()
    wait_logged(proxy, f"process {victim['pid']} was ended by SIGKILL")
    wait_logged(proxy, f"worker {victim['worker']} (process {victim['pid']}) has ended, with its ")


def test_draining_loses_no_answer(cluster: DevCluster, proxy: Kproxy) -> None:
    topic = new_topic(cluster.direct_bootstrap, partitions=1)
    leader = wait_until(lambda: leaders(cluster.direct_bootstrap, topic).get(0), "a leader that all know")
    with contextlib.ExitStack() as held:
        fetching = [held.enter_context(RawClient(proxy.node(leader)["local"])) for _ in range(2 * COUNT)]
        idle = held.enter_context(RawClient(proxy.bootstrap))
        assert idle.works()
        sent = [client.send_fetch(topic, 0, 0, FOREVER_MS) for client in fetching]
        wait_until(lambda: proxy.metric("kproxy_requests_in_flight") == len(sent), "the fetches are in flight")
        proxy.process.send_signal(signal.SIGTERM)
        assert idle.wait_closed()
        assert proxy.get("/readyz") == (503, "kproxy is stopping\n")
        with pytest.raises(ConnectionRefusedError):
            RawClient(proxy.bootstrap)
        produce(cluster.direct_bootstrap, topic, [b"what the fetches wait for"])
        for client, correlation_id in zip(fetching, sent, strict=True):
            answered, answer = client.receive()
            assert answered == correlation_id
            assert b"what the fetches wait for" in answer
            assert client.wait_closed()
    assert proxy.process.wait(60) == 0
    wait_logged(proxy, f"SIGTERM: stopping; {len(sent)} requests in flight")
    assert "still busy" not in proxy.log


def test_what_does_not_finish_is_closed_in_the_end(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, "--workers", "2", "--drain-timeout", "1s")
    topic = new_topic(cluster.direct_bootstrap, partitions=1)
    leader = leaders(cluster.direct_bootstrap, topic)[0]
    with RawClient(proxy.node(leader)["local"]) as client:
        client.send_fetch(topic, 0, 0, FOREVER_MS)
        wait_until(lambda: proxy.metric("kproxy_requests_in_flight") == 1, "the fetch is in flight")
        proxy.process.send_signal(signal.SIGTERM)
        assert client.wait_closed()
    assert proxy.process.wait(60) == 0
    wait_logged(proxy, "closed 1 session still busy after 1 s")


@pytest.mark.parametrize("how", ["killed", "told twice"])
def test_no_worker_outlives_the_main_process(cluster: DevCluster, own_kproxy: Start, how: str) -> None:
    proxy = own_kproxy(cluster.bootstrap, "--workers", str(COUNT), "--drain-timeout", "1h")
    topic = new_topic(cluster.direct_bootstrap, partitions=1)
    leader = leaders(cluster.direct_bootstrap, topic)[0]
    of_it = descendants(proxy.process.pid)
    with RawClient(proxy.node(leader)["local"]) as busy, RawClient(proxy.bootstrap) as idle:
        assert idle.works()
        busy.send_fetch(topic, 0, 0, FOREVER_MS)
        wait_until(lambda: proxy.metric("kproxy_requests_in_flight") == 1, "the fetch is in flight")
        if how == "killed":
            proxy.process.kill()
        else:
            proxy.process.send_signal(signal.SIGTERM)
            assert idle.wait_closed()
            proxy.process.send_signal(signal.SIGTERM)
        assert busy.wait_closed()
    assert proxy.process.wait(60) == (-signal.SIGKILL if how == "killed" else 128 + signal.SIGTERM)
    wait_until(lambda: not any(alive(pid) for pid in of_it), "every process has ended")


def test_the_limit_of_connections_is_that_of_the_whole(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, "--workers", "2", "--max-connections", "3")
    with contextlib.ExitStack() as held:
        clients = [held.enter_context(RawClient(proxy.bootstrap)) for _ in range(3)]
        assert all(client.works() for client in clients)
        with RawClient(proxy.node(1)["local"]) as one_too_many:
            assert one_too_many.wait_closed()
        clients[0].close()
        wait_until(lambda: proxy.status()["sessions"] == 2, "a place is free")
        with RawClient(proxy.bootstrap) as next_one:
            assert next_one.works()
    assert proxy.metric("kproxy_refused_total", side="client", reason="too-many-connections") == 1


def test_what_goes_wrong_in_a_worker_is_in_the_log_and_counted(proxy: Kproxy) -> None:
    for client in [RawClient(proxy.bootstrap) for _ in range(2 * COUNT)]:
        with client:
            client.send(METADATA, 999)
            assert client.wait_closed()
    assert proxy.metric("kproxy_refused_total", side="client", reason="unknown-version") == 2 * COUNT
    lines = [line for line in proxy.log.splitlines() if "closed a connection to the bootstrap server" in line]
    assert len(lines) == 1, lines  # the same line a while long once, whichever worker it is


def test_two_of_them_never_share_a_port(cluster: DevCluster, proxy: Kproxy) -> None:
    command = ["run", "-b", cluster.bootstrap, "--listen", proxy.bootstrap, "--workers", "2", "--no-admin"]
    ended = subprocess.run([sys.executable, "-m", "kproxy", *command], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert f"--listen {proxy.bootstrap}: the port is taken by another process" in line


def test_a_stopped_worker_gets_no_clients_and_is_replaced(proxy: Kproxy) -> None:
    victim = pids(proxy)[0]
    os.kill(victim, signal.SIGSTOP)
    clients = [RawClient(proxy.bootstrap) for _ in range(2 * COUNT)]
    with contextlib.ExitStack() as held:
        for client in clients:
            assert held.enter_context(client).works()  # not one waits for the stopped one
        wait_until(lambda: not alive(victim), "it is killed", 60)
        wait_until(lambda: complete(proxy), "another takes its place")
        assert all(client.works() for client in clients)
    wait_logged(proxy, f"(process {victim}) has not answered for 3 s: new connections go to others")
    wait_logged(proxy, f"(process {victim}) has not answered for 15 s: kproxy kills it, with its 0 connections")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_without_the_process_that_starts_workers_sessions_go_on(proxy: Kproxy, how: signal.Signals) -> None:
    worker = pids(proxy)[0]
    forker = parent(worker)
    with RawClient(proxy.bootstrap) as client:
        assert client.works()
        os.kill(forker, how)
        os.kill(next(one["pid"] for one in workers(proxy) if not one["sessions"]), signal.SIGKILL)
        wait_until(lambda: f"(process {forker}) was ended by SIGKILL: kproxy starts another" in proxy.log, "it is said")
        wait_until(lambda: complete(proxy), "the worker is replaced")
        assert client.works()
    assert proxy.process.poll() is None
