"""A kproxy in front of two real clusters whose advertised names resolve nowhere, on one bootstrap address and on ports
that never move. Blue has the brokers 1 and 2, green has 2 and 7."""

from __future__ import annotations

import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget NewTopic

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.frames import Frames, fetch, records_in
from tests.harness.clients.kafka_python import KafkaProducer
from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.migration.switched import BLUE, GREEN, Switched
from tests.harness.process import PATIENCE_S, wait_logged, wait_until
from tests.harness.signals import not_ignored_by_children
from tests.harness.topics import leaders, note_failures, produce, read_topic, unique, values

pytestmark = pytest.mark.integration

FORBIDDEN = ("blue.internal", "green.internal")
PARTITIONS = 4
CLOSED = "127.0.0.1:1"
Start = Callable[..., Switched]


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, DevCluster]]:
    properties = {"auto.create.topics.enable": "false"}
    with ExitStack() as held:
        yield {
            name: held.enter_context(
                DevCluster(brokers=ids, advertised=f"kafka-{{id}}.{name}.internal:9092", properties=properties)
            )
            for name, ids in ((BLUE, [1, 2]), (GREEN, [2, 7]))
        }


@pytest.fixture
def start(clusters: dict[str, DevCluster], tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as held:

        def make(kind: type[Switched] = Switched, **servers: str) -> Switched:
            of = {name: one.bootstrap for name, one in clusters.items()} | servers
            with not_ignored_by_children(signal.SIGHUP):  # under nohup it is
                return held.enter_context(kind(tmp_path / "kproxy", of[BLUE], of[GREEN], forbidden=FORBIDDEN))

        yield make


@pytest.fixture
def topic(clusters: dict[str, DevCluster]) -> str:
    """On both; each partition has a record with the name of its cluster. Each broker leads some of them."""
    name = unique("either")
    for cluster, one in clusters.items():
        bootstrap = one.direct_bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        new = NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)
        admin.create_topics([new])[name].result(PATIENCE_S)
        wait_until(lambda: len(leaders(bootstrap, name, admin)) == PARTITIONS, "all partitions have a leader")  # noqa: B023  # waited for at once
        assert set(leaders(bootstrap, name, admin).values()) == set(one.node_ids)
        for partition in range(PARTITIONS):
            produce(bootstrap, name, [cluster.encode()], partition)
    return name


def locals_of(kproxy: Switched) -> dict[str, dict[str, str]]:
    """By upstream: the local address of each broker."""
    return {
        one["name"]: {node["node"]: node["local"] for node in one["nodes"] if node["kind"] == "broker"}
        for one in kproxy.status()["upstreams"]
    }


def through(kproxy: Switched, topic: str) -> set[bytes]:
    """What a client reads there that was never connected before."""
    return set(values(read_topic(kproxy.bootstrap, topic, PARTITIONS, client_id=unique("reader"))))


def flip(kproxy: Switched, to: str, switch: str = "x") -> None:
    kproxy.hold(switch, to)
    kproxy.must("flip", switch)
    kproxy.must("release", switch)


def metadata(client: RawClient) -> tuple[dict[int, str], str]:
    """Brokers by id, and the cluster id (Metadata v2, no topics). Raises EOFError or OSError if the connection ends."""
    body = client.ask(METADATA, 2, struct.pack(">i", 0))
    count, at = struct.unpack_from(">i", body)[0], 4
    brokers = {}
    for _ in range(count):
        node, size = struct.unpack_from(">ih", body, at)
        host = body[at + 6 : at + 6 + size].decode()
        port, rack = struct.unpack_from(">ih", body, at + 6 + size)
        brokers[node] = f"{host}:{port}"
        at += 12 + size + max(0, rack)
    size = struct.unpack_from(">h", body, at)[0]
    return brokers, body[at + 2 : at + 2 + size].decode()


def test_a_node_that_comes_later_is_reached_at_its_port(
    clusters: dict[str, DevCluster], start: Start, topic: str
) -> None:
    """Who came to its port before was led to a bootstrap server, and would take that for the node for ever."""
    blue = clusters[BLUE]
    blue.kill(2)
    try:
        blue.wait_fenced(2)
        kproxy = start()
        port = locals_of(kproxy)[GREEN]["2"]
        early = RawClient(port)
        assert metadata(early)[0].keys() == {1}
    finally:
        blue.restart(2)
    with early, RawClient(kproxy.bootstrap) as other:
        wait_until(lambda: metadata(other)[0].get(2) == port, "blue has node 2 again")
        assert early.wait_closed()
    partition = next(at for at, leader in leaders(blue.direct_bootstrap, topic).items() if leader == 2)
    with Frames(port) as again:
        error, batches = records_in(again.ask(fetch(1, topic, partition, 0, 1 << 20)), topic)
    assert (error, BLUE.encode() in batches) == (0, True)


def test_the_same_addresses_serve_either_cluster(clusters: dict[str, DevCluster], start: Start, topic: str) -> None:
    kproxy = start()
    ports = locals_of(kproxy)
    assert ports[BLUE].keys() == {"1", "2"}
    assert ports[GREEN].keys() == {"2", "7"}
    assert ports[BLUE]["2"] == ports[GREEN]["2"]
    ids = {one["name"]: one["cluster_id"] for one in kproxy.status()["upstreams"]}
    has = {name: {name.encode()} for name in clusters}
    for active, other in ((BLUE, GREEN), (GREEN, BLUE)):
        assert through(kproxy, topic) == has[active]
        with ExitStack() as held:
            everywhere = [kproxy.bootstrap, *ports[BLUE].values(), *ports[GREEN].values()]
            clients = [held.enter_context(RawClient(address)) for address in everywhere]
            told = {int(node): address for node, address in ports[active].items()}
            assert [metadata(client) for client in clients] == [(told, ids[active])] * len(clients)
            flip(kproxy, other, f"to {other}")
            assert all(client.wait_closed() for client in clients)
        status = kproxy.status()
        assert locals_of(kproxy) == ports
        assert status["cluster_id"] == ids[other]
        assert [one["name"] for one in status["upstreams"] if one["active"]] == [other]
        written = f"written while {other} is active".encode()
        for partition in range(PARTITIONS):
            produce(kproxy.bootstrap, topic, [written], partition)
        has[other].add(written)
        assert through(kproxy, topic) == has[other]
        for name, one in clusters.items():
            assert set(values(read_topic(one.direct_bootstrap, topic, PARTITIONS))) == has[name]
    assert kproxy.get("/readyz")[0] == 200


def test_ls_lists_both_and_compares_the_active_one(start: Start, topic: str) -> None:
    kproxy = start()

    def ls(*args: str) -> str:
        command = [sys.executable, "-m", "kproxy", "ls", "--config", str(kproxy.config_file), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    flip(kproxy, GREEN)
    listed = ls()
    assert "== default/blue (not active)\n" in listed
    assert "== default/green\n" in listed
    assert listed.count("serves it: bootstrap.servers") == 1
    assert [(one["upstream"], one["active"]) for one in json.loads(ls("--json"))] == [(BLUE, False), (GREEN, True)]
    assert {one["cluster"]["id"] for one in json.loads(ls("--json"))} == {
        one["cluster_id"] for one in kproxy.status()["upstreams"]
    }
    ls("--compare")


def test_who_knows_only_nodes_that_the_other_lacks_finds_the_way(
    clusters: dict[str, DevCluster], start: Start, topic: str
) -> None:
    """Producers that work before the flip and after it, and one that comes later with an old address."""
    kproxy = start()
    first = locals_of(kproxy)[BLUE]["1"]
    failed: list[Any] = []
    confluent = Producer({"bootstrap.servers": first})
    with closing(KafkaProducer(bootstrap_servers=[first], retries=100)) as python:

        def write(text: bytes) -> None:
            for partition in range(PARTITIONS):
                confluent.produce(topic, text, partition=partition, on_delivery=note_failures(failed))
                python.send(topic, text, partition=partition).get(PATIENCE_S)
            assert confluent.flush(PATIENCE_S) == 0

        write(b"before")
        flip(kproxy, GREEN)
        write(b"after")
    produce(first, topic, [b"later"])
    assert failed == []
    for name, texts in ((BLUE, [b"before"]), (GREEN, [b"after"])):
        records = values(read_topic(clusters[name].direct_bootstrap, topic, PARTITIONS))
        for text in (b"before", b"after"):
            assert records.count(text) == (2 * PARTITIONS if text in texts else 0), (name, text)
        assert records.count(b"later") == (name == GREEN)


def test_no_connection_leads_to_the_former_cluster(start: Start) -> None:
    """Clients that connect all the time, to each port, and ask: what a connection is told is of one cluster for as long
    as it lasts, and of the active one as soon as the flip is over."""
    kproxy = start()
    ports = locals_of(kproxy)
    ids = {one["name"]: one["cluster_id"] for one in kproxy.status()["upstreams"]}
    known = {ids[name]: {int(node): local for node, local in ports[name].items()} for name in ids}
    active: list[str | None] = [BLUE]  # None while it changes
    wrong: list[object] = []
    answers = dict.fromkeys(ids.values(), 0)
    ending = threading.Event()

    def ask(client: RawClient, earlier: set[str]) -> None:
        before = tuple(active)
        brokers, cluster_id = metadata(client)
        earlier.add(cluster_id)
        answers[cluster_id] += 1
        stays = before == tuple(active) and before[-1] is not None
        told = brokers.items() <= known[cluster_id].items()  # a broker too busy for its heartbeats is left out
        if len(earlier) > 1 or not told or (stays and cluster_id != ids[str(before[-1])]):
            wrong.append((before, earlier, brokers, cluster_id))

    def keep_connecting(address: str, most: int) -> None:
        while not ending.is_set():
            earlier: set[str] = set()
            try:
                with RawClient(address) as client:
                    for _ in range(most):
                        ask(client, earlier)
            except (EOFError, OSError):
                continue  # cut

    addresses = [kproxy.bootstrap, *ports[BLUE].values(), ports[GREEN]["7"]]
    threads = [threading.Thread(target=keep_connecting, args=(one, most)) for one in addresses for most in (1, 1000)]
    for thread in threads:
        thread.start()
    try:
        for turn, to in zip(range(10), itertools.cycle((GREEN, BLUE)), strict=False):
            more = dict(answers)
            wait_until(lambda: sum(answers.values()) > sum(more.values()) + 5, "clients are answered")  # noqa: B023
            kproxy.hold(f"{turn}", to)
            active.append(None)
            kproxy.must("flip", f"{turn}")
            active.append(to)
            kproxy.must("release", f"{turn}")
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert all(answers.values())


def test_a_reload_changes_an_upstream_and_not_which_is_active(
    clusters: dict[str, DevCluster], start: Start, topic: str
) -> None:
    kproxy = start()
    with RawClient(kproxy.bootstrap) as client:
        assert client.works()
        kproxy.configure(*kproxy.upstreams, active=GREEN)
        os.kill(kproxy.process.pid, signal.SIGHUP)
        wait_until(lambda: "active has changed (blue → green)" in kproxy.log, "it is refused")
        wait_logged(kproxy, "kproxy migrate switch")
        kproxy.configure(clusters[BLUE].bootstrap, str(clusters[GREEN].dial[7]))
        os.kill(kproxy.process.pid, signal.SIGHUP)
        one = wait_until(lambda: len(kproxy.status()["upstreams"][1]["bootstrap_servers"]) == 1, "it is reloaded")
        assert one
        assert client.works(), "what concerns green alone leaves blue's sessions as they are"
        assert through(kproxy, topic) == {BLUE.encode()}


def test_one_cluster_twice_is_noticed_and_served(start: Start, clusters: dict[str, DevCluster], topic: str) -> None:
    kproxy = start(green=clusters[BLUE].bootstrap)
    wait_until(lambda: "no switch can be made" in kproxy.log, "it is in the log")
    said = f"upstreams blue and green are the same Kafka cluster (id {kproxy.status()['cluster_id']})"
    wait_logged(kproxy, said)
    assert [one["refuses"] for one in kproxy.status()["upstreams"]] == [None, said]
    assert kproxy.tell("hold", to=GREEN, seconds=5)[0] == 409
    assert through(kproxy, topic) == {BLUE.encode()}


class Lame(Switched):
    """Does not wait for green."""

    def _is_up(self) -> bool:
        return self.process.poll() is None and self.get("/readyz")[0] == 200


def test_an_upstream_that_is_not_there_harms_nobody(start: Start, clusters: dict[str, DevCluster], topic: str) -> None:
    kproxy = start(Lame, green=CLOSED)
    green = wait_until(lambda: (one := kproxy.status()["upstreams"][1])["problem"] and one, "it is said")
    assert not green["answered"]
    assert "upstream green does not answer" in green["refuses"]
    assert kproxy.tell("hold", to=GREEN, seconds=5)[0] == 409
    assert through(kproxy, topic) == {BLUE.encode()}
    kproxy.configure(clusters[BLUE].bootstrap, clusters[GREEN].bootstrap)
    os.kill(kproxy.process.pid, signal.SIGHUP)
    wait_until(lambda: kproxy.status()["upstreams"][1]["refuses"] is None, "it is found now")
    flip(kproxy, GREEN)
    assert through(kproxy, topic) == {GREEN.encode()}
