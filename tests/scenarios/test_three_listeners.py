"""A broker in a Docker network, with the three listeners that every explanation of `advertised.listeners` has.

┌ docker network 172.18.0.0/16 ────────────────────────────────┐
│                                                              │
│  kafka0 172.18.0.10   BOB    29092  "kafka0:29092"           │     ALICE, on a laptop
│                       FRED    9092  "localhost:9092"         │     192.168.1.20
│                       ALICE  29094  "never-gonna-give…"      │         │
│                                                              │         │
│  app    172.18.0.20   uses BOB ✓                             │         │
└──────────────────────────┬───────────────────────────────────┘         │
             docker host 192.168.1.10, publishes 9092, 29094 ────────────┘
             FRED's programs, on this host, use FRED ✓           FRED: told "localhost"      ✗
                                                                 ALICE: told an unknown name ✗
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.network import PYTHON, Host
from tests.harness.topics import unique
from tests.scenarios.sites import Site, fails, kproxy_exec, works

pytestmark = pytest.mark.integration


@pytest.fixture
def docker_host(host: Callable[..., Host]) -> Iterator[Host]:
    """With the ports that it publishes."""
    made = host("docker-host", "172.18.0.1/16", "192.168.1.10/24")
    published = [f"0.0.0.0:{port}=172.18.0.10:{port}" for port in (9092, 29094)]
    with made.running(PYTHON, "-m", "tests.harness.servers.forward", *published, until="forwarding"):
        yield made


@pytest.fixture
def app(host: Callable[..., Host]) -> Host:
    return host("app", "172.18.0.20/16", names={"kafka0": "172.18.0.10"})


@pytest.fixture
def laptop(host: Callable[..., Host]) -> Host:
    return host("laptop", "192.168.1.20/24", names={"dockerhost": "192.168.1.10"})


def test_inside_bob_s_listener_serves(app: Host, other: Site) -> None:
    works(app, "librdkafka", other, bootstrap="kafka0:29092")
    works(app, "librdkafka", other, through="-b kafka0:29092")


def test_on_the_host_fred_s_listener_serves(docker_host: Host, other: Site) -> None:
    works(docker_host, "librdkafka", other, bootstrap="localhost:9092")
    works(docker_host, "librdkafka", other, through="-b localhost:9092")


def test_outside_no_listener_serves_but_kproxy(docker_host: Host, laptop: Host, other: Site) -> None:
    topic = other.topic()
    said = fails(laptop, "librdkafka", "dockerhost:9092", topic)
    assert "localhost:9092/1: Connect to ipv4#127.0.0.1:9092 failed: Connection refused" in said
    said = fails(laptop, "librdkafka", "dockerhost:29094", topic)
    assert "Failed to resolve 'never-gonna-give-you-up:29094': Name or service not known" in said

    works(laptop, "librdkafka", other, through="-b dockerhost:9092")
    works(laptop, "kafka-python", other, through="-b dockerhost:29094")


def test_java_outside(docker_host: Host, laptop: Host, other: Site, tmp_path: Path) -> None:
    impatient = tmp_path / "client.properties"
    impatient.write_text("default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n")
    create = ("--create", "--topic", unique("topic"), "--command-config", str(impatient))
    done = laptop.run(*other.java("kafka-topics", "dockerhost:29094", *create))
    assert done.returncode == 1
    assert "java.net.UnknownHostException: never-gonna-give-you-up" in done.stderr
    assert "Timed out waiting for a node assignment" in done.stdout + done.stderr

    done = laptop.run(*kproxy_exec("-b dockerhost:29094"), *other.java("kafka-topics", "{bootstrap}", *create))
    assert done.returncode == 0, done.stdout + done.stderr
