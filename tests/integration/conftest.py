"""What tests before real brokers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.spark import cluster_with_login
from tests.harness.process import Kproxy
from tests.harness.servers.ways import Home, Ways

# A part of every advertised name; it must never reach a client.
FORBIDDEN = "cluster.internal"


@pytest.fixture(scope="module")
def brokers() -> Iterator[DevCluster]:
    """Of the tests of Spark, which restart them."""
    with cluster_with_login() as made:
        yield made


@pytest.fixture(autouse=True)
def no_leak(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: no advertised upstream name went to a client."""
    yield
    if "kproxy" in request.fixturenames:
        found = request.getfixturevalue("kproxy").leaks()
        assert not found, found[:2000]


@pytest.fixture
def own_kproxy(tmp_path: Path) -> Iterator[Callable[..., Kproxy]]:
    """Makes kproxy processes of a test's own, and ends them."""
    made: list[Kproxy] = []

    def make(bootstrap: str, *args: str, ready: bool = True, open_files: int | None = None) -> Kproxy:
        directory = tmp_path / f"kproxy-{len(made)}"
        proxy = Kproxy(directory, bootstrap, *args, forbidden=[FORBIDDEN], ready=ready, open_files=open_files)
        made.append(proxy)
        return proxy

    yield make
    for proxy in made:
        proxy.stop()


@pytest.fixture(scope="session")
def shared_ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    directory = tmp_path_factory.mktemp("ways")
    with ExitStack() as held:
        yield Ways(directory, Home(directory / "home"), held)


@pytest.fixture
def ways(shared_ways: Ways, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ways]:
    """Proxies and sshd. This process and its children are at home there, and each test finds the files as they were."""
    home = shared_ways.home
    monkeypatch.setenv("HOME", str(home.path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    known = home.known_hosts.read_text()
    yield shared_ways
    home.known_hosts.write_text(known)
    home.config.unlink(missing_ok=True)
