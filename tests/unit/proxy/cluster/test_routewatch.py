"""Forwards that no session uses, and what kproxy says when they no longer lead to their nodes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.client.sasl.mechanism import LoginRefused
from kproxy.config.values import Map
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.cluster import routewatch
from kproxy.proxy.cluster.nodedialer import NodeDialer
from kproxy.proxy.cluster.reachability import NodeAddress, Proof
from kproxy.proxy.cluster.routewatch import RouteWatch
from kproxy.proxy.cluster.topology import NodeKey
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.unit.proxy.cluster.doorway import until
from tests.unit.proxy.cluster.site import Site, at, in_site, key, reaches

IS = "Unexpected broker id, expected {} or empty"


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with in_site() as site:
        yield site


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routewatch, "_EVERY", 0.02)
    monkeypatch.setattr(routewatch, "_PAUSE_AT_LEAST", 0.01)


async def two_mapped(here: Site) -> tuple[FakeBroker, Address, NodeDialer]:
    """Return broker 3, whose name resolves nowhere, its port-forward, and the dialer; broker 1 has one as well."""
    one, one_at = here.broker(1)
    three, three_at = here.broker(3)
    one.nodes = three.nodes = [(1, "b1.internal", 9092), (3, "b3.internal", 9092)]
    maps = (Map.parse(f"node:1={one_at}"), Map.parse(f"node:3={three_at}"))
    reach = here.cluster(one_at, map=maps)
    await here.explorer.explore()
    assert (await reaches(reach, 3)).dial == three_at
    return three, three_at, reach


def watch(here: Site, *in_use: Address) -> None:
    routes = RouteWatch("default", here.topology, here.dialer, lambda: in_use)
    here.tasks.create_task(routes.watch())


async def test_a_forward_that_leads_to_another_broker_now(here: Site, caplog: pytest.LogCaptureFixture) -> None:
    three, three_at, reach = await two_mapped(here)
    three.refusal = IS.format(1)
    for _ in range(2):
        with pytest.raises(UpstreamError, match="it is broker 1 of this cluster, not broker 3"):
            await reaches(reach, 3)
    (line,) = [text for text in caplog.messages if "no longer leads" in text]
    assert line.startswith(f"{three_at} no longer leads to broker 3, since 20")
    assert "answers, but it is broker 1 of this cluster, not broker 3" in line
    assert reach.reachability.node_addresses[three_at].key == key(1), "to whom it belongs now"
    reached = reach.reachability.of_node(key(3))
    assert (reached.route.dial if reached.route else None, reached.reason) == (three_at, "wrong-node")
    assert reached.since is not None
    three.refusal = IS.format(3)
    assert (await reaches(reach, 3)).dial == three_at
    assert reach.reachability.of_node(key(3)).since is None


async def test_an_advertised_address_is_no_forward(here: Site, caplog: pytest.LogCaptureFixture) -> None:
    """That its broker is down, the log says with the first client."""
    broker, _, reach = here.one_broker()
    await here.explorer.explore()
    await reaches(reach, 1)
    broker.refusal = IS.format(2)
    broker.nodes.append((2, "b2.internal", 9092))
    with pytest.raises(UpstreamError):
        await reaches(reach, 1)
    assert not [text for text in caplog.messages if "no longer leads" in text]


async def test_a_forward_without_a_client_that_leads_to_another_broker(
    here: Site, caplog: pytest.LogCaptureFixture
) -> None:
    three, three_at, reach = await two_mapped(here)
    watch(here)
    asked = three.asked
    await until(lambda: three.asked > asked + 1, "kproxy looks again and again")
    assert not reach.reachability.problems
    three.refusal = IS.format(1)
    problem = await until(lambda: reach.reachability.problems.get(key(3)), "kproxy notices")
    assert problem == f"{three_at} answers, but it is broker 1 of this cluster, not broker 3"
    (line,) = [text for text in caplog.messages if "no longer leads" in text]
    assert line.endswith(problem)


async def test_a_forward_without_a_client_that_ends_and_belongs_to_another_broker_later(
    here: Site, caplog: pytest.LogCaptureFixture
) -> None:
    one, one_at = here.broker(1)
    three, _ = here.broker(3)
    one.nodes = three.nodes = [(1, "b1.internal", 9092), (3, "b3.internal", 9092)]
    with Peer(three) as forward:
        three_at = Address.parse(forward.address)
        reach = here.cluster(one_at, map=(Map.parse(f"node:1={one_at}"), Map.parse(f"node:3={three_at}")))
        await here.explorer.explore()
        watch(here)
    await until(lambda: reach.reachability.problems.get(key(3)), "kproxy notices")
    (line,) = [text for text in caplog.messages if "no longer leads" in text]
    assert "connection refused: nothing listens on that port" in line
    since = reach.reachability.of_node(key(3)).since
    with Peer(one, port=three_at.port):
        await reach.try_node(key(3))  # as the explorer does
    assert reach.reachability.of_node(key(3)).since == since
    (line,) = [text for text in caplog.messages if " now; it led to " in text]
    assert line.startswith(f"{three_at} leads to broker 1 now; it led to broker 3, which cannot be reached since 20")
    assert len([text for text in caplog.messages if "no longer leads" in text]) == 1


async def test_no_look_where_sessions_show_the_end(here: Site) -> None:
    three, three_at, reach = await two_mapped(here)
    tried: list[NodeKey] = []
    try_node = reach.try_node

    async def note(key: NodeKey) -> None:
        tried.append(key)
        await try_node(key)

    reach.try_node = note  # type: ignore[method-assign]  # to see what it looks at
    asked = three.asked
    watch(here, three_at)
    await until(lambda: len(tried) > 3, "kproxy looks at the other one")
    assert set(tried) == {key(1)}
    assert three.asked == asked


async def test_no_look_at_advertised_addresses_nor_at_nodes_that_are_gone(here: Site) -> None:
    two, two_at = here.broker(2)
    one, one_at = here.broker(1)
    three, three_at = here.broker(3)
    one.nodes = two.nodes = three.nodes = [*at((1, one_at), (2, two_at)), (3, "b3.internal", 9092)]
    here.cluster(one_at, map=(Map.parse(f"node:3={three_at}"),))
    await here.explorer.explore()
    here.topology.nodes[key(3)].absent_since = 1.0
    asked = one.asked, two.asked, three.asked
    routes = RouteWatch("default", here.topology, here.dialer, tuple)
    assert routes._unused_nodes() == []
    here.topology.nodes[key(3)].absent_since = None
    assert routes._unused_nodes() == [key(3)]
    watch(here)
    await until(lambda: three.asked > asked[2] + 2, "kproxy looks at the forward")
    assert (one.asked, two.asked) == asked[:2]


async def test_what_a_refused_login_says_of_the_address(
    here: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing: the log names the login, and claims no end of the forward."""
    _, three_at, reach = await two_mapped(here)

    async def refuse(*_: object, **__: object) -> None:
        raise LoginRefused(f"{three_at}: the broker refuses the login")

    monkeypatch.setattr(reach.verifier, "connect", refuse)
    watch(here)
    await until(lambda: reach.reachability.problems.get(key(3)), "kproxy notices")
    await until(lambda: any("broker 3 cannot be reached" in text for text in caplog.messages), "the log says so")
    assert not [text for text in caplog.messages if "no longer leads" in text]


async def test_where_only_clients_can_log_in_a_look_claims_no_more_than_that_it_answers(here: Site) -> None:
    three, _, reach = await two_mapped(here)
    three.deaf_to = {ApiKey.METADATA}
    reach.verifier._identifier._has_required_login = True
    reach.verifier._identifier._login_required_until = float("inf")
    received = len(three.received)
    tried_before = reach.reachability.of_node(key(3))
    await RouteWatch("default", here.topology, reach, tuple)._look(key(3))
    assert reach.reachability.of_node(key(3)) == tried_before
    assert tried_before.proof is Proof.OWN_WORD
    assert len(three.received) == received, "kproxy sends nothing: it has no credentials"


async def test_a_fact_about_an_address_of_no_lost_node_is_not_logged(
    here: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    _, three_at, reach = await two_mapped(here)
    caplog.clear()
    reach.note(NodeAddress(three_at, key(1), Proof.OWN_WORD))
    assert not caplog.messages
