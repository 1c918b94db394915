"""A broker that is newer than kproxy: everything works, on the versions that kproxy knows."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from kproxy.protocol.wire.api import APIS
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy
from tests.matrix.brokers import FORBIDDEN
from tests.matrix.client import Client
from tests.matrix.clients import CLIENTS, NEXT_PROTOCOL
from tests.matrix.cut_down import NEWEST, UNKNOWN

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]

# The newest of each library that has transactions, whose requests depend on what the cluster says it can do.
NEWEST_CLIENTS = {
    client.library: client for client in CLIENTS if client.transactions and client.properties != NEXT_PROTOCOL
}


class OlderKproxy(Kproxy):
    watched = "tests.matrix.cut_down"


@pytest.fixture(scope="module")
def older_kproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kproxy]:
    with (
        DevCluster(brokers=[1, 2, 1001], version=DEFAULT_VERSION) as cluster,
        OlderKproxy(tmp_path_factory.mktemp("kproxy"), cluster.bootstrap, forbidden=[FORBIDDEN]) as kproxy,
    ):
        yield kproxy


@pytest.mark.parametrize("client", NEWEST_CLIENTS.values(), ids=str)
def test_records_groups_and_transactions(older_kproxy: Kproxy, client: Client, tmp_path: Path) -> None:
    before = older_kproxy.metric("kproxy_refused_total")
    outcome = client.run(older_kproxy.bootstrap, "newer-" + uuid.uuid4().hex[:12])
    assert not outcome.complaint(transactions=True), outcome.errors[-4000:]
    assert outcome.brokers == {node["id"]: node["local"] for node in older_kproxy.status()["nodes"]}
    assert older_kproxy.metric("kproxy_refused_total") == before
    for key, newest in NEWEST.items():
        used = {version for version in range(30) if _requests(older_kproxy, key, version)}
        assert not used or max(used) <= newest, APIS[key].name
    for key in (0, 1):
        assert _requests(older_kproxy, key, NEWEST[key]), f"{APIS[key].name}: the newest version is not in use"
    for key in set(UNKNOWN) & set(APIS):
        assert not older_kproxy.metric("kproxy_requests_total", api=APIS[key].name)


def test_what_clients_lose_by_that_is_logged_once(older_kproxy: Kproxy) -> None:
    for _ in range(2):
        with RawClient(older_kproxy.bootstrap) as client:
            assert client.works()
    lines = [line for line in older_kproxy.log.splitlines() if "which this kproxy does not know" in line]
    keys = [int(key) for line in lines for key in re.findall(r"the API with key (\d+)", line)]
    assert len(keys) == len(set(keys)) > 0
    assert set(keys) <= set(UNKNOWN) & set(APIS)


def _requests(kproxy: Kproxy, key: int, version: int) -> float:
    return kproxy.metric("kproxy_requests_total", api=APIS[key].name, version=str(version))
