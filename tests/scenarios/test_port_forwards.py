"""One port-forward for each broker, in an order that nobody knows any more.

    laptop ──▶ gateway.example:19001 ──▶ kafka-3.vpc.internal:9092
               gateway.example:19002 ──▶ kafka-1.vpc.internal:9092
               gateway.example:19003 ──▶ kafka-2.vpc.internal:9092

As with `kubectl port-forward`, NAT rules of a router, or a load balancer's port for each broker. kproxy asks each of
them which broker it is; no `--map` says so.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tests.harness.network import KPROXY, PYTHON, Host
from tests.scenarios.sites import Site, fails, works

pytestmark = pytest.mark.integration

LEADS_TO = {19001: 3, 19002: 1, 19003: 2}
FORWARDS = ",".join(f"gateway.example:{port}" for port in LEADS_TO)


@pytest.fixture(autouse=True)
def gateway(host: Callable[..., Host], cloud: Site) -> Iterator[Host]:
    made = host("gateway", "10.0.0.1/24", "203.0.113.1/24")
    forwards = [f"203.0.113.1:{port}=10.0.0.1{node}:9092" for port, node in LEADS_TO.items()]
    with made.running(PYTHON, "-m", "tests.harness.servers.forward", *forwards, until="forwarding"):
        yield made


@pytest.fixture
def laptop(host: Callable[..., Host]) -> Host:
    return host("laptop", "203.0.113.50/24", names={"gateway.example": "203.0.113.1"})


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_the_ports_alone_do_not_help(laptop: Host, cloud: Site) -> None:
    said = fails(laptop, "librdkafka", FORWARDS, cloud.topic())
    assert "Failed to resolve 'kafka-" in said
    works(laptop, "librdkafka", cloud, through=f"-b {FORWARDS}")


def test_which_port_is_which_broker_is_found_out(laptop: Host) -> None:
    with laptop.running(*KPROXY, "run", "-b", FORWARDS, until="ready; bootstrap.servers=127.0.0.1:19092") as said:
        for port, node in LEADS_TO.items():
            way = f"reachable through gateway.example:{port} (learned)"
            assert f"broker {node}: kafka-{node}.vpc.internal:9092 -> 127.0.0.1:{19093 + node}: {way}" in said()
        status = json.loads(laptop.call(get, "http://127.0.0.1:19091/status"))["clusters"][0]
        assert {node["id"]: node["dial"] for node in status["nodes"]} == {
            node: f"gateway.example:{port}" for port, node in LEADS_TO.items()
        }
        assert laptop.run(*KPROXY, "wait").returncode == 0
