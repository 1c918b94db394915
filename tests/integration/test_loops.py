"""Brokers that send kproxy in a circle: to itself, or to another kproxy that leads back. No real broker does so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.process import wait_logged, wait_until
from tests.harness.programs.beside import Beside
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer

pytestmark = pytest.mark.integration


@pytest.fixture
def brokers() -> Iterator[Callable[[FakeBroker], str]]:
    with ExitStack() as held:
        yield lambda broker: held.enter_context(Peer(broker)).address


def test_kproxy_dials_none_of_its_own_listeners(brokers: Callable[[FakeBroker], str], tmp_path: Path) -> None:
    honest, hostile = FakeBroker(cluster_id="honest"), FakeBroker(cluster_id="hostile")
    at = brokers(honest)
    host, _, port = at.rpartition(":")
    honest.nodes = [(1, host, int(port))]
    elsewhere = brokers(hostile)
    with Beside(tmp_path, at, elsewhere) as proxy:
        circles = [
            ("0.0.0.0", proxy.hostile),
            ("::ffff:127.0.0.1", proxy.hostile),
            ("0", int(proxy.admin.rpartition(":")[2])),
            ("2130706433", proxy.forward),
            ("0x7f.1", proxy.hostile + 1 + 1),  # its own node
            ("localhost", proxy.honest),
            ("127.0.0.9", proxy.honest + 1 + 1),  # this machine has all of 127.0.0.0/8
            ("0177.0.0.01", proxy.hostile),
        ]
        # A broker on this machine, at another port, is none of them.
        hostile.nodes = [(0, host, int(elsewhere.rpartition(":")[2])), *_numbered(circles)]
        wait_until(lambda: "kproxy" in proxy.get("/status")[1], "it answers")
        wait_until(lambda: proxy.get("/readyz?requires=one")[0] == 200, "it knows its nodes")
        with RawClient(proxy.local(0)) as client:
            assert client.works()
        for node in range(1, len(circles) + 1):
            with RawClient(proxy.local(node)) as client:
                assert not client.works()
        with RawClient(f"127.0.0.1:{proxy.honest + 1 + 1}") as client:
            assert client.works()
        for node, (_, own) in enumerate(circles, 1):
            wait_logged(proxy, f":{own} is kproxy's own listener: to connect there would be a loop")
            assert proxy.metric("kproxy_upstream_dial_failures_total", node=str(node), reason="loop") > 0
            for why in ("timeout", "closed", "limit"):
                assert not proxy.metric("kproxy_upstream_dial_failures_total", node=str(node), reason=why)
        for node in (30, 31):  # one soon after the other: each has its line
            hostile.nodes = [*hostile.nodes, (node, "0", proxy.hostile)]
            with RawClient(proxy.local(0)) as client:
                client.ask(METADATA, 2, b"\xff\xff\xff\xff")
            said = f"cluster hostile: broker {node} cannot be reached: 0:{proxy.hostile} is kproxy's own listener"
            wait_logged(proxy, said)  # though no client has come


def _numbered(addresses: list[tuple[str, int]]) -> list[tuple[int, str, int]]:
    return [(number, *address) for number, address in enumerate(addresses, 1)]
