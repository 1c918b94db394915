"""`kproxy tap` on real traffic: on sessions that were there, with slow readers."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.dev.devcluster import DevCluster
from kproxy.proxy.admin.connection import WRITE_SECONDS
from tests.harness.clients.frames import Frames, fetch, records_in
from tests.harness.clients.frames import produce as produce_frame
from tests.harness.clients.rawclient import API_VERSIONS, METADATA, RawClient
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import create_topic, leaders, local_addresses, produce, read_topic, unique, values

pytestmark = pytest.mark.integration

RECORDS = [b"record-%d" % number for number in range(6)]
SECRET = b"a-secret-that-nobody-may-see"


class Tap:
    """`kproxy tap` as a process; `lines` is what it has printed so far."""

    def __init__(self, kproxy: Kproxy, *arguments: str) -> None:
        command = [sys.executable, "-m", "kproxy", "tap", "--admin", kproxy.admin, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    @property
    def exchanges(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.lines)]

    def saw(self, **wanted: object) -> list[dict[str, Any]]:
        """The exchanges so far with these values."""
        return [one for one in self.exchanges if wanted.items() <= one.items()]

    def end(self) -> str:
        """What it has said on stderr."""
        self.process.terminate()
        self.process.wait()
        self._thread.join(10)
        assert self.process.stderr is not None
        assert self.process.stdout is not None
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return said


@contextmanager
def tapped(kproxy: Kproxy, *arguments: str, knock: Callable[[], object] | None = None) -> Iterator[Tap]:
    """It looks on while this lasts. `knock` does something that it shows."""
    tap = Tap(kproxy, *arguments)

    def looks_on() -> bool:
        if knock is not None:
            knock()
        else:
            Producer({"bootstrap.servers": kproxy.bootstrap, "client.id": unique("knock")}).list_topics(timeout=10)
        return bool(tap.lines)

    try:
        wait_until(looks_on, "the first line")
        yield tap
    finally:
        said = tap.end()
        assert "Traceback" not in said, said


@pytest.fixture
def proxy(cluster: DevCluster, own_kproxy: Callable[..., Kproxy]) -> Kproxy:
    return own_kproxy(cluster.bootstrap)


def test_what_clients_do(cluster: DevCluster, proxy: Kproxy) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    with tapped(proxy, "--json") as tap:
        producer = Producer({"bootstrap.servers": proxy.bootstrap, "client.id": "billing"})
        for number in range(6):
            producer.produce(topic, SECRET, partition=number % 3)
        assert producer.flush(30) == 0
        assert len(values(read_topic(proxy.bootstrap, topic, client_id="reader"))) == 6
        wait_until(lambda: tap.saw(api="Produce", client_id="billing"), "a Produce request")
        wait_until(lambda: tap.saw(api="Fetch", client_id="reader"), "a Fetch request")
        metadata = wait_until(lambda: tap.saw(api="Metadata", client_id="billing"), "a Metadata request")
        hello = wait_until(lambda: tap.saw(api="ApiVersions", client_id="billing"), "an ApiVersions request")
    advertised = {str(address): local_addresses(proxy)[node] for node, address in cluster.advertised.items()}
    assert {one["from"]: one["to"] for one in metadata[0]["rewritten"]} == advertised
    assert hello[0]["software"].startswith("confluent-kafka-python ")
    fetch = tap.saw(api="Fetch", client_id="reader")[0]
    assert fetch["error"] == 0
    assert fetch["seconds"] > 0
    assert fetch["node"] in {str(node) for node in cluster.node_ids}
    assert fetch["client"].startswith("127.0.0.1:")
    assert not [line for line in tap.lines if SECRET.decode() in line]


def test_errors_of_partitions(cluster: DevCluster, proxy: Kproxy) -> None:
    """Produce has no other: here of a broker that does not lead the partition."""
    topic = create_topic(cluster.direct_bootstrap, 1, 1)
    produce(cluster.direct_bootstrap, topic, RECORDS)
    (leader,) = leaders(cluster.direct_bootstrap, topic).values()
    other = next(node for node in cluster.node_ids if node != leader)
    with Frames(local_addresses(proxy)[leader]) as frames:
        _, batches = records_in(frames.ask(fetch(1, topic, 0, 0, 1 << 20)), topic)
    with RawClient(local_addresses(proxy)[other]) as client:

        def refused() -> None:
            client.ask(METADATA, 1, struct.pack(">i", 0))
            client.socket.sendall(produce_frame(7, topic, 0, batches, acks=1))
            client.receive()

        with tapped(proxy, "--json", "--errors", knock=refused) as tap:
            pass
    assert {(one["api"], one["error"], one["node"]) for one in tap.exchanges} == {("Produce", 6, str(other))}


def test_answers_of_kproxy_itself(proxy: Kproxy) -> None:
    """Error 35 for a version of ApiVersions that kproxy does not pass on, at once and behind a response."""
    answers: list[bytes] = []
    with RawClient(proxy.bootstrap) as client:

        def ask_too_much() -> None:
            answers.append(client.ask(API_VERSIONS, 99))
            client.send(METADATA, 1, struct.pack(">i", 0))
            client.send(API_VERSIONS, 99)
            client.receive()
            answers.append(client.receive()[1])

        with tapped(proxy, "--json", "--errors", knock=ask_too_much) as tap:
            ask_too_much()
            wait_until(lambda: len(tap.exchanges) > 1, "both answers")
    assert {answer[:2] for answer in answers} == {b"\0\x23"}
    shown = {(one["api"], one["version"], one["error"], one["response_bytes"]) for one in tap.exchanges}
    assert shown == {("ApiVersions", 99, 35, 4 + len(answers[0]))}
    assert all(one["seconds"] is not None for one in tap.exchanges)


def test_a_session_that_was_there_before(cluster: DevCluster, proxy: Kproxy) -> None:
    """Somebody looks on for a while and again, and the producer notices nothing."""
    topic = create_topic(cluster.direct_bootstrap)
    failed: list[object] = []
    sent = 0
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "client.id": "elder"})

    def send() -> None:
        nonlocal sent
        sent += 30
        for number in range(30):
            producer.produce(topic, b"x", partition=number % 3, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(30) == 0

    send()
    sessions = proxy.metric("kproxy_sessions_total")
    for _ in range(2):
        with tapped(proxy, "--json", "--client", "elder", "--api", "Produce", knock=send) as tap:
            send()
        assert {one["api"] for one in tap.exchanges} == {"Produce"}
        send()
    assert failed == [None] * len(failed)
    assert len(values(read_topic(proxy.bootstrap, topic))) == sent
    assert proxy.metric("kproxy_refused_total") == 0
    assert proxy.metric("kproxy_sessions_total") >= sessions


def test_filters(cluster: DevCluster, proxy: Kproxy) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    with tapped(proxy, "--json", "--api", "Metadata") as tap:
        produce(proxy.bootstrap, topic, RECORDS)
        assert len(read_topic(proxy.bootstrap, topic)) == 6
    assert {one["api"] for one in tap.exchanges} == {"Metadata"}


def test_lines_for_people(cluster: DevCluster, proxy: Kproxy) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    with tapped(proxy) as tap:
        produce(proxy.bootstrap, topic, RECORDS)
        wait_until(lambda: [line for line in tap.lines if " Produce v" in line], "a Produce request")
    assert all(line.rstrip("\n").isprintable() for line in tap.lines)


def test_a_reader_that_reads_nothing(cluster: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    """It costs bounded memory, holds up nobody, and is let go."""
    proxy = own_kproxy(cluster.bootstrap)
    topic = create_topic(cluster.direct_bootstrap)
    host, _, port = proxy.admin.rpartition(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((host, int(port)))
        slow.sendall(b"GET /tap HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        # A response each, more than its socket takes.
        with RawClient(proxy.bootstrap) as client:
            for number in range(25_000):
                client.send(METADATA, 1, struct.pack(">i", 0))
                if number % 100 == 99:
                    for _ in range(100):
                        client.receive()
        produce(proxy.bootstrap, topic, RECORDS)
        assert len(read_topic(proxy.bootstrap, topic)) == 6
        assert proxy.rss < 200 * 1024 * 1024
        received = b""
        slow.settimeout(60)
        while b'{"lost": ' not in received:
            data = slow.recv(1 << 20)
            if not data:
                assert time.monotonic() - began > WRITE_SECONDS, "it was let go before it heard what it has missed"
                break  # on a slow machine, it has read nothing for that long
            received = received[-100:] + data
    assert "Traceback" not in proxy.log


def test_nobody_answers(capfd: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "tap", "--admin", "127.0.0.1:1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("kproxy: no kproxy answers at 127.0.0.1:1 (--admin): ")
    assert done.stderr.count("\n") == 1
