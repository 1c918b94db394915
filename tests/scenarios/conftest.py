"""Two Kafka clusters in networks of their own; what stands around them, each scenario builds itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from kproxy.dev.devcluster import DevCluster, ListenerSpec
from tests.harness.network import Host, Network, unavailable
from tests.scenarios.sites import Site, Sites

ADVERTISED = "kafka-{id}.vpc.internal:9092"
THREE_LISTENERS = [
    ListenerSpec("BOB", "kafka0:29092", bound="172.18.0.10:29092"),
    ListenerSpec("FRED", "localhost:9092", bound="172.18.0.10:9092"),
    ListenerSpec("ALICE", "never-gonna-give-you-up:29094", bound="172.18.0.10:29094"),
]


@pytest.fixture(scope="package")
def network() -> Iterator[Network]:
    if problem := unavailable():
        pytest.skip(problem)
    with Network() as made:
        yield made


@pytest.fixture(scope="package")
def sites(network: Network) -> Iterator[Sites]:
    cloud = DevCluster(3, advertised=ADVERTISED, client_bound="10.0.0.1{id}:9092", heap="128m")
    other = DevCluster(
        1, advertised=ADVERTISED, client_bound="10.1.0.1{id}:9093", extra_listeners=THREE_LISTENERS, heap="128m"
    )
    with (
        network.host("cloud", *(f"10.0.0.1{node}/24" for node in (1, 2, 3))) as here,
        network.host("other", "10.1.0.11/24", "172.18.0.10/16") as there,
    ):
        try:
            starting = [here.submit(cloud.start), there.submit(other.start)]
            for one in starting:
                one.result()
            yield Sites(Site(here, cloud), Site(there, other))
        finally:
            cloud.stop(timeout=0)
            other.stop(timeout=0)


@pytest.fixture
def cloud(sites: Sites) -> Site:
    return sites.cloud


@pytest.fixture
def other(sites: Sites) -> Site:
    return sites.other


@pytest.fixture
def host(network: Network) -> Iterator[Callable[..., Host]]:
    """Makes hosts for one test."""
    with contextlib.ExitStack() as closing:
        yield lambda *addresses, **more: closing.enter_context(network.host(*addresses, **more))
