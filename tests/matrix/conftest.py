"""One cluster at a time, kproxy in front of it, and the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.base.errors import UpstreamError
from tests.harness.clusters.twosides import TwoSides, two_sides
from tests.harness.migration.carried import apart
from tests.harness.migration.led import Led
from tests.harness.migration.switched import Switched
from tests.harness.process import Kproxy
from tests.harness.topics import unique
from tests.matrix import brokers, clients
from tests.matrix.client import Client
from tests.matrix.report import Report, java_release

IDENTITY = "kproxy itself: which address is which node"


def row(client: Client) -> str:
    """A client's row in the report."""
    return f"{client}{' T' if client.transactions else ''}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A cluster and the kproxy in front of it, or why the cluster did not start."""

    version: str
    cluster: brokers.Cluster | None
    kproxy: Kproxy | None
    problem: str = ""


@pytest.fixture(scope="session")
def report() -> Iterator[Report]:
    rows = [IDENTITY, *map(row, clients.CLIENTS)]
    made = Report(rows, brokers.VERSIONS, java_release(), [v for v in brokers.VERSIONS if brokers.uses_zookeeper(v)])
    yield made
    made.write()


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Parametrized indirectly by a version; pytest ends one cluster before it starts the next."""
    version = request.param
    try:
        running = brokers.running(version)
        cluster = running.__enter__()
    except UpstreamError as error:
        yield Pair(version, None, None, str(error))
        return
    try:
        directory = tmp_path_factory.mktemp(f"kproxy-{version}")
        with Kproxy(directory, cluster.bootstrap, forbidden=[brokers.FORBIDDEN]) as kproxy:
            yield Pair(version, cluster, kproxy)
    finally:
        running.__exit__(None, None, None)


@pytest.fixture(scope="module")
def sides() -> Iterator[TwoSides]:
    """Two clusters whose producer ids differ."""
    with two_sides() as made:
        apart(made)
        # A broker makes the topic of transactions when a client asks for a coordinator (docs/flip.md).
        Producer({"bootstrap.servers": made.target, "transactional.id": unique("first")}).init_transactions(60)
        yield made


@pytest.fixture
def led(sides: TwoSides, tmp_path: Path) -> Iterator[Led]:
    """A kproxy that can lead clients from one to the other, and clients that go on until the test ends."""
    blue, green = (cluster.bootstrap for cluster in sides.clusters)
    with Switched(tmp_path / "kproxy", blue, green) as kproxy:
        made = Led(sides.migration(), kproxy, tmp_path)
        with made.clients:
            yield made


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and the only directory where programs are looked for beside the shell's."""
    monkeypatch.setenv("KPROXY_CACHE", str(tmp_path / "cache"))
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory
