"""What the page shows, on a real cluster: sessions, their names, and each finding, made by a client that misbehaves."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.misbehaving import delaying, sending
from tests.harness.clients.rawclient import RawClient
from tests.harness.clients.spark import PASSWORD
from tests.harness.process import PATIENCE_S, Kproxy, wait_until
from tests.harness.topics import consumer, create_topic, leaders, produce

pytestmark = pytest.mark.integration

WRONG = f"wrong-{uuid4().hex}"
Start = Callable[..., Kproxy]
Snapshot = dict[str, Any]


class Viewer:
    """Reads `/live` as the page does, and connects again when the stream ends; `last` is the newest snapshot."""

    def __init__(self, proxy: Kproxy) -> None:
        self._admin = proxy.admin
        self._socket = self._connect()
        self._closed = threading.Event()
        self.last: Snapshot = {}
        self.text = ""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _connect(self) -> socket.socket:
        host, _, port = self._admin.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        connection.sendall(f"GET /live HTTP/1.0\r\nHost: {self._admin}\r\n\r\n".encode())
        return connection

    def _read(self) -> None:
        while True:
            with suppress(OSError), self._socket, self._socket.makefile("rb") as answer:
                for line in answer:
                    if line.startswith(b"data: "):
                        self.text = line.decode()
                        self.last = json.loads(line[6:])
            if self._closed.wait(1):
                return
            with suppress(OSError):
                self._socket = self._connect()

    def __enter__(self) -> Viewer:
        try:
            wait_until(lambda: self.last, "the first snapshot")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()

    @property
    def cluster(self) -> Snapshot:
        found: Snapshot = self.last["clusters"][0]
        return found

    def finding(self, fault: str, **of: str) -> Snapshot:
        """The finding of this fault, once there is one; `of` names its node or its client.

        What is measured needs it: on a busy machine another node may truly be slow for a moment.
        """
        wanted = {"fault": fault, **of}.items()
        try:
            found: Snapshot = wait_until(
                lambda: next((one for one in self.last["findings"] if wanted <= one.items()), None), f"finding {wanted}"
            )
        except AssertionError as error:
            age = f"{time.time() - self.last['time']:.0f} s"
            apis = [(of["node"], of["api"], of["requests"], of["p50"]) for of in self.cluster["apis"]]
            raise AssertionError(f"{error}; {age} ago: {apis}; {json.dumps(self.last['findings'])}") from None
        assert all(found[name] for name in ("title", "text", "why", "check", "advice"))
        return found


def sessions(proxy: Kproxy) -> list[Snapshot]:
    """What `/sessions` says."""
    found: list[Snapshot] = json.loads(proxy.get("/sessions")[1])
    return found


def test_who_talks_to_which_node(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap)
    topic = create_topic(cluster.direct_bootstrap)
    assert sessions(proxy) == []
    group = {"group.id": "billing", "client.id": "billing-reader"}
    with (
        Viewer(proxy) as viewer,
        consumer(proxy.bootstrap, **group) as reader,
        sending(proxy, topic, **{"client.id": "till"}),
    ):
        reader.subscribe([topic])
        reader.poll(1)

        def busy() -> bool:
            reader.poll(0.1)
            apis = {(one["node"], one["api"]) for one in viewer.cluster["apis"] if one["p50"] is not None}
            wanted = {(node, api) for node in ("1", "2", "1001") for api in ("Produce", "Fetch")}
            return wanted <= apis and any(one["group"] == "billing" for one in viewer.cluster["groups"])

        wait_until(busy, "requests of all nodes, and the group")
        shown = viewer.last
        told = sessions(proxy)
    whole = shown["clusters"][0]
    clients = {one["client_id"]: one for one in whole["clients"]}
    assert {"billing-reader", "till"} <= clients.keys()
    assert clients["till"]["software"].startswith("confluent-kafka-python ")
    assert {"1", "2", "1001"} <= clients["till"]["nodes"].keys()
    assert clients["till"]["traffic"]["requests"] > 0
    assert clients["till"]["address"] == "127.0.0.1"
    groups = {one["group"]: one for one in whole["groups"]}
    assert groups["billing"]["clients"] == ["billing-reader"]
    for node in whole["nodes"]:
        assert node["traffic"]["from_client"] > 0 or node["traffic"]["p50"] is not None
    assert whole["cluster_id"] == cluster.cluster_id
    assert {(one["client_id"], one["software"].split()[0]) for one in told} >= {
        ("till", "confluent-kafka-python"), ("billing-reader", "confluent-kafka-python")
    }  # fmt: skip
    assert all(one["since"] <= time.time() and one["client"].startswith("127.0.0.1:") for one in told)
    wait_until(lambda: sessions(proxy) == [], "none is left of sessions that have ended")


def test_a_client_that_cannot_reach_a_node(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap)
    topic = create_topic(proxy.bootstrap)
    port = proxy.node(2)["local"].rpartition(":")[2]
    walled = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.clients.walled", proxy.bootstrap, topic, port], stderr=subprocess.DEVNULL
    )
    try:
        with Viewer(proxy) as viewer:
            found = viewer.finding("client-blocked")
    finally:
        walled.kill()
        walled.wait()
    assert f"broker 2 (127.0.0.1:{port})" in found["text"]
    assert found["client"] == "walled at 127.0.0.2"
    assert "--node-ports" in found["advice"]


def test_a_partition_without_a_leader(tmp_path: Any) -> None:
    with DevCluster(brokers=2) as own, Kproxy(tmp_path / "kproxy", own.bootstrap) as proxy:
        topic = create_topic(proxy.bootstrap, partitions=3, replicas=1)
        of = leaders(own.direct_bootstrap, topic)
        lost = next(partition for partition, node in of.items() if node == 2)
        begun = time.time()
        own.kill(2)
        with sending(proxy, topic, **{"client.id": "orders"}):
            wait_until(lambda: not proxy.node(2)["present"], "the cluster does not name it any more")
            noticed = time.time()
            with Viewer(proxy) as viewer:  # who looks later sees since when it is so
                found, dead = viewer.finding("no-leader"), viewer.finding("broker-missing")
    missing = sorted(partition for partition, node in of.items() if node == 2)
    assert (dead["node"], dead["severity"]) == ("2", "error")
    assert dead["text"].startswith("Broker 2 ")
    assert "is not in the cluster's metadata any more" in dead["text"]
    assert begun <= dead["since"] <= noticed
    assert dead["advice"].startswith("Start the broker")
    assert any(f"cannot find a leader for {topic}-{partition}" in found["text"] for partition in missing), lost
    assert found["client"] == "orders at 127.0.0.1"
    assert "refreshes its metadata every" in found["text"]


def test_tls_to_a_plaintext_port(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap)
    settings = {"bootstrap.servers": proxy.bootstrap, "security.protocol": "SSL", "log_level": 0}
    with Viewer(proxy) as viewer:
        producer = Producer(settings)
        producer.poll(1)
        found = viewer.finding("tls-to-plaintext")
        del producer
        event = next(one for one in viewer.last["events"] if "the client spoke TLS" in one["text"])
    assert found["client"] == "127.0.0.1"
    assert "set security.protocol to PLAINTEXT" in found["text"]
    assert event["meaning"]
    assert "security.protocol" in event["fix"]


def test_programs_that_are_no_kafka_clients(cluster: DevCluster, own_kproxy: Start) -> None:
    """A health check asks again and again: one event, and nothing is said of the brokers."""
    proxy = own_kproxy(cluster.bootstrap)
    host, _, port = proxy.bootstrap.rpartition(":")
    with Viewer(proxy) as viewer:
        for _ in range(12):
            with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as browser:
                browser.sendall(b"GET /health HTTP/1.1\r\nHost: kafka\r\n\r\n")
                assert browser.recv(100).startswith(b"HTTP/1.1 400 ")
        found = viewer.finding("client-not-kafka")

        def refusals() -> list[Snapshot]:
            return [one for one in viewer.last["events"] if "the client spoke HTTP" in one["text"]]

        wait_until(lambda: refusals() and refusals()[0]["times"] == 12, "all twelve are counted")
        assert len(refusals()) == 1
    assert (found["client"], found["severity"]) == ("127.0.0.1", "error")
    assert "server" not in found["title"]
    assert "/readyz" in found["advice"]


def test_a_slow_node(cluster: DevCluster, own_kproxy: Start) -> None:
    # Ten times slower than the others, also where they are slow.
    with delaying(str(cluster.dial[2]), 2) as way:
        proxy = own_kproxy(cluster.bootstrap, "--map", f"node:2={way}")
        topic = create_topic(cluster.direct_bootstrap)
        with Viewer(proxy) as viewer, sending(proxy, topic):
            found = viewer.finding("slow-node", node="2")
    assert "Node 2 answers Produce" in found["text"]
    assert "times slower than its peers" in found["text"]


def test_logins_that_fail_again_and_again(login_kproxy: Kproxy) -> None:
    with Viewer(login_kproxy) as viewer:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "spark"}
        backoff = {"reconnect.backoff.ms": 200, "reconnect.backoff.max.ms": 500, "log_level": 0}
        settings = {"bootstrap.servers": login_kproxy.bootstrap, "client.id": "stubborn", "sasl.password": WRONG}
        producer = Producer({**login, **backoff, **settings})
        producer.poll(1)
        found = viewer.finding("credentials-refused")
        text = viewer.text
        del producer
    assert found["client"] == "stubborn at 127.0.0.1"
    assert "logs in and fails, " in found["text"]
    assert WRONG not in text
    assert PASSWORD not in text


def test_a_connection_leak(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap)
    with Viewer(proxy) as viewer, ExitStack() as held:
        local = proxy.node(2)["local"]
        leaked = [held.enter_context(RawClient(local)) for _ in range(120)]
        assert all(client.works() for client in leaked)

        def counted() -> bool:
            of_raw = [one for one in viewer.cluster["clients"] if one["client_id"] == "raw"]
            return [(one["sessions"], one["nodes"]["2"]) for one in of_raw] == [(120, 120)]

        wait_until(counted, "a snapshot with the last of them")
        found = viewer.finding("connection-leak")
    assert found["node"] == "2"
    assert "sessions of client id raw" in found["text"]


def test_a_healthy_cluster_has_no_findings(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap)
    topic = create_topic(proxy.bootstrap)
    with Viewer(proxy) as viewer, sending(proxy, topic):
        produce(proxy.bootstrap, topic, [b"x"] * 100)
        wait_until(lambda: len([one for one in viewer.cluster["apis"] if one["api"] == "Produce"]) == 3, "it works")
        begun = viewer.last["time"]
        wait_until(lambda: viewer.last["time"] > begun + 12, "more seconds than a client is given to connect")
        # A machine that is busy makes a node slow, and kproxy says so.
        assert [one for one in viewer.last["findings"] if one["fault"] != "slow-node"] == []


def test_a_slow_viewer_and_many(cluster: DevCluster, own_kproxy: Start) -> None:
    """One that never reads harms nobody; the seventeenth is told so."""
    proxy = own_kproxy(cluster.bootstrap)
    with ExitStack() as held:
        viewers = [held.enter_context(Viewer(proxy)) for _ in range(15)]
        deaf = held.enter_context(socket.create_connection(("127.0.0.1", int(proxy.admin.rpartition(":")[2]))))
        deaf.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert deaf.recv(100).startswith(b"HTTP/1.1 200")
        status, why = proxy.get("/live")
        assert (status, why.split()[:4]) == (503, ["16", "pages", "are", "connected"])
        seen = viewers[0].last["time"]
        wait_until(lambda: viewers[0].last["time"] > seen + 2, "the others go on")
    wait_until(lambda: first_line(proxy).endswith(b" 200 OK\r\n"), "those who have gone make room")


def first_line(proxy: Kproxy) -> bytes:
    """Of the answer to one who asks for `/live` and goes."""
    host, _, port = proxy.admin.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as asking, asking.makefile("rb") as answer:
        asking.sendall(f"GET /live HTTP/1.1\r\nHost: {proxy.admin}\r\n\r\n".encode())
        return answer.readline()
