"""A cluster in a cloud network: its brokers advertise internal names, and each has a public address.

        you                 │ public              │ cloud network 10.0.0.0/24
                            │                     │
    laptop ─────────────────┼─▶ 203.0.113.11:9092 ┼─▶ kafka-1.vpc.internal  10.0.0.11:9092
    203.0.113.50            │   203.0.113.12:9092 ┼─▶ kafka-2.vpc.internal  10.0.0.12:9092
                            │   203.0.113.13:9092 ┼─▶ kafka-3.vpc.internal  10.0.0.13:9092

Two kinds of this are met. The internal names resolve everywhere, but to private addresses that cannot be reached from
outside (managed services put them into public DNS); or they resolve inside only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.harness.network import PYTHON, Host
from tests.scenarios.sites import NAMES, Site, fails, kproxy_exec, works

pytestmark = pytest.mark.integration

PUBLIC = "203.0.113.11:9092,203.0.113.12:9092,203.0.113.13:9092"


@pytest.fixture(autouse=True)
def edge(host: Callable[..., Host], cloud: Site) -> Iterator[Host]:
    """Where the cloud network and the public one meet: a public address leads to one broker."""
    made = host("edge", "10.0.0.1/24", "203.0.113.1/24", *(f"203.0.113.1{node}/24" for node in (1, 2, 3)))
    public = [f"203.0.113.1{node}:9092=10.0.0.1{node}:9092" for node in (1, 2, 3)]
    with made.running(PYTHON, "-m", "tests.harness.servers.forward", *public, until="forwarding"):
        yield made


def test_inside_the_names_are_right(host: Callable[..., Host], cloud: Site) -> None:
    inside = host("inside", "10.0.0.50/24", names=NAMES)
    works(inside, "librdkafka", cloud, bootstrap="kafka-2.vpc.internal:9092")


def test_names_that_resolve_to_addresses_out_of_reach(host: Callable[..., Host], cloud: Site) -> None:
    """Packets to private addresses go to the default route, which drops them."""
    laptop = host("laptop", "203.0.113.50/24", names=NAMES, gateway="203.0.113.1")
    said = fails(laptop, "librdkafka", PUBLIC, cloud.topic())
    assert "Connection setup timed out in state CONNECT" in said
    assert ".vpc.internal:9092/" in said
    works(laptop, "librdkafka", cloud, through=f"-b {PUBLIC}")


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python"])
def test_names_that_resolve_inside_only(client: str, host: Callable[..., Host], cloud: Site) -> None:
    laptop = host("laptop", "203.0.113.50/24")
    said = fails(laptop, client, PUBLIC, cloud.topic())
    assert ".vpc.internal:9092" in said
    assert "Failed to resolve" in said or "DNS lookup failed" in said
    works(laptop, client, cloud, through=f"-b {PUBLIC}")


def test_one_public_address_is_not_enough_and_kproxy_says_so(host: Callable[..., Host], cloud: Site) -> None:
    laptop = host("laptop", "203.0.113.50/24")
    done = laptop.run(*kproxy_exec("-b 203.0.113.12:9092 --ready-requires one"), "true")
    assert done.returncode == 0
    assert "broker 1: kafka-1.vpc.internal:9092" in done.stderr
    assert (
        "cannot be reached: kafka-1.vpc.internal:9092: the name 'kafka-1.vpc.internal' cannot be resolved"
        in done.stderr
    )
    assert "list one reachable address of each broker in --bootstrap-servers" in done.stderr
