"""A gateway of which clients can reach one port only. TLS says which node they want.

    laptop ──── kafka.example:19092 ────▶ gateway ────▶ kafka-1.vpc.internal:9092
    203.0.113.50                          203.0.113.1   kafka-2.vpc.internal:9092
                                          10.0.0.1      kafka-3.vpc.internal:9092

On the laptop, *.kafka.example is the gateway. A packet filter there lets nothing in but port 19092.
"""

from __future__ import annotations

import json
import shlex
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.network import KPROXY, Host
from tests.harness.process import wait_until
from tests.harness.tls import Authority
from tests.harness.topics import unique
from tests.matrix.languages import Go
from tests.scenarios.sites import NAMES, PARTITIONS, Site

pytestmark = pytest.mark.integration

BOOTSTRAP = "kafka.example:19092"
NODES = (1, 2, 3)
ADMIN = "127.0.0.1:9400"


class Gateway:
    """With kproxy. Called, it says what that has logged."""

    def __init__(self, host: Host, said: Callable[[], str]) -> None:
        self._host = host
        self._said = said

    def __call__(self) -> str:
        return self._said()

    def sessions(self) -> dict[int, int]:
        """Of each node, as /status has them."""
        (cluster,) = self._host.call(status)["clusters"]
        return {node["id"]: node["sessions"] for node in cluster["nodes"]}


def status() -> Any:
    with urllib.request.urlopen(f"http://{ADMIN}/status", timeout=10) as answer:
        return json.load(answer)


@pytest.fixture
def gateway(host: Callable[..., Host], authority: Authority, tmp_path: Path) -> Iterator[Gateway]:
    both = authority.one_file("*.kafka.example", "kafka.example")
    made = host("gateway", "203.0.113.1/24", "10.0.0.4/24", names=NAMES)
    command = [
        *KPROXY, "run", "-b", "kafka-2.vpc.internal:9092", "--listen", "0.0.0.0:19092", "--advertise", "kafka.example",
        "--client-tls-cert", str(both), "--sni", "b{node}.kafka.example",
        "--admin", ADMIN,
    ]  # fmt: skip
    with made.running(*command, until="cluster default: ready") as said:
        yield Gateway(made, said)


@pytest.fixture
def laptop(host: Callable[..., Host], gateway: Gateway) -> Host:
    names = {name: "203.0.113.1" for name in ("kafka.example", *(f"b{node}.kafka.example" for node in NODES))}
    return host("laptop", "203.0.113.50/24", names=names)


def sent(word: str) -> list[str]:
    return [f"{word}-{number}" for number in range(60)]


def arrived(cloud: Site, topic: str, word: str) -> None:
    """On every broker."""
    assert cloud.records(topic) == sorted(one.encode() for one in sent(word))


def test_kcat(laptop: Host, cloud: Site, authority: Authority, gateway: Gateway) -> None:
    kcat = ["kcat", "-X", "security.protocol=ssl", "-X", f"ssl.ca.location={authority.pem}", "-b", BOOTSTRAP]
    topic, word = cloud.topic(), unique("word")
    listed = laptop.run(*kcat, "-L").stdout
    for node in NODES:
        assert f"broker {node} at b{node}.kafka.example:19092" in listed
    for partition in range(PARTITIONS):
        lines = "".join(f"{one}\n" for one in sent(word)[partition::PARTITIONS])
        done = laptop.run(*kcat, "-P", "-t", topic, "-p", str(partition), input=lines)
        assert done.returncode == 0, done.stderr
    arrived(cloud, topic, word)
    read = laptop.run(*kcat, "-C", "-t", topic, "-e", "-q").stdout.split()
    assert sorted(read) == sorted(sent(word))
    assert "bootstrap.servers=kafka.example:19092" in gateway()
    assert "WARNING" not in gateway()


def test_the_sessions_of_each_node_are_counted(
    laptop: Host, cloud: Site, authority: Authority, gateway: Gateway
) -> None:
    kcat = ["kcat", "-X", "security.protocol=ssl", "-X", f"ssl.ca.location={authority.pem}", "-b", BOOTSTRAP]
    reads = [*kcat, "-C", "-t", cloud.topic(), "-u"]
    with laptop.running(*reads), laptop.running(*reads):
        # Each has a partition on every broker.
        wait_until(lambda: gateway.sessions() == dict.fromkeys(NODES, 2), "both read from all")
    wait_until(lambda: gateway.sessions() == dict.fromkeys(NODES, 0), "both have ended")


def test_java(laptop: Host, cloud: Site, authority: Authority, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority.pem}\n"
        "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner\n"
    )
    topic, word = cloud.topic(), unique("word")
    producer = cloud.java("kafka-console-producer", BOOTSTRAP, "--topic", topic, "--command-config", str(properties))
    done = laptop.run(*producer, input="".join(f"{one}\n" for one in sent(word)))
    assert done.returncode == 0, done.stderr
    arrived(cloud, topic, word)
    consumer = cloud.java(
        "kafka-console-consumer", BOOTSTRAP, "--topic", topic, "--command-config", str(properties),
        "--from-beginning", "--max-messages", "60", "--timeout-ms", "30000",
    )  # fmt: skip
    assert sorted(laptop.run(*consumer).stdout.split()) == sorted(sent(word))


@pytest.mark.matrix
def test_go(laptop: Host, cloud: Site, authority: Authority) -> None:
    topic = cloud.topic()
    client = Go("franz-go", "", program="going_franz").command()
    named = [f"bootstrap.servers={BOOTSTRAP}", f"ssl.ca.location={authority.pem}"]
    words = shlex.join([*client, "produce", topic, str(PARTITIONS), "10", *named])
    said = laptop.run("sh", "-c", f"sleep 5 | {words}").stdout.splitlines()
    acked = [line.split()[1] for line in said if line.startswith("acked ")]
    assert len(acked) > 2 * PARTITIONS
    assert cloud.records(topic) == sorted(one.encode() for one in acked)


def test_a_name_of_no_node_reaches_a_bootstrap_server(laptop: Host, authority: Authority, cloud: Site) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    command = f"{openssl} s_client -connect kafka.example:19092 -servername b9.kafka.example -CAfile {authority.pem}"
    done = laptop.run("sh", "-c", f"{command} -verify_return_error < /dev/null")
    assert "Verify return code: 0 (ok)" in done.stdout, done.stdout + done.stderr
