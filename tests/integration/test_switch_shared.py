"""Two kproxies that share their ports (`--reuse-port`) lead real clients to another cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.migrate.switch.kproxy_replies import KproxyReply
from kproxy.migrate.switch.readiness import ExpectedState, TimedReply, check_readiness
from tests.harness.clients.flow import Flow, create_topic
from tests.harness.clients.rawclient import RawClient
from tests.harness.clusters.twosides import TwoSides, two_sides
from tests.harness.migration.carried import Numbers, apart, carry, in_log, positions
from tests.harness.migration.switched import GREEN, Switched
from tests.harness.process import free_window, wait_until
from tests.harness.topics import unique

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="--reuse-port needs Linux"),
]

PARTITIONS = 2


@pytest.fixture(scope="module")
def sides() -> Iterator[TwoSides]:
    """Blue and green."""
    with two_sides() as made:
        apart(made)
        yield made


@pytest.fixture
def pair(sides: TwoSides, tmp_path: Path) -> Iterator[list[Switched]]:
    """Two at the same ports, the one that began first first. A test may replace one."""
    bootstrap = f"127.0.0.1:{free_window(202)}"
    blue, green = (cluster.bootstrap for cluster in sides.clusters)
    with ExitStack() as held:
        yield [held.enter_context(Switched(tmp_path / name, blue, green, shares=bootstrap)) for name in ("a", "b")]


def flow_of(sides: TwoSides, bootstrap: str, **settings: object) -> Flow:
    """A producer and a consumer with a topic of their own on both sides."""
    topic = unique("shared")
    for side in (sides.source, sides.target):
        create_topic(side, topic, PARTITIONS)
    flow = Flow(bootstrap, topic, PARTITIONS, **{"auto.commit.interval.ms": 200, "client.id": topic, **settings})
    flow.log = Numbers(contiguous=True)
    return flow


def hold(pair: Sequence[Switched], switch: str, to: str = GREEN) -> None:
    for kproxy in pair:
        kproxy.must("hold", switch, to=to, seconds=25)
    for kproxy in pair:
        kproxy.wait_for("held")


def flip(pair: Sequence[Switched], switch: str) -> None:
    for do in ("flip", "commit", "release"):
        for kproxy in pair:
            kproxy.must(do, switch)


def answers(bootstrap: str) -> bool:
    try:
        with RawClient(bootstrap) as client:
            return client.works()
    except ConnectionRefusedError:
        return False


def clients(kproxy: Switched) -> int:
    return int(kproxy.status()["sessions"])


def test_both_lead_all_clients_to_green(sides: TwoSides, pair: list[Switched]) -> None:
    """Nothing is lost or doubled, and no client is at blue afterwards. One kproxy dies soon after the switch."""
    one, other = pair
    flows = [flow_of(sides, one.bootstrap) for _ in range(4)]
    with ExitStack() as held:
        for flow in flows:
            held.enter_context(flow)
            wait_until(lambda flow=flow: len(positions(sides.source, f"{flow.topic}-readers")) == PARTITIONS, "commits")
        assert all(map(clients, pair)), "both have clients"
        mine = [sides.migration() for _ in flows]
        for each, flow in zip(mine, flows, strict=True):
            carry(each, flow.topic, f"{flow.topic}-readers")
        hold(pair, "x")
        for each, flow in zip(mine, flows, strict=True):
            carry(each, flow.topic, f"{flow.topic}-readers")
        there = [in_log(sides.source, flow.topic, PARTITIONS) for flow in flows]
        flip(pair, "x")
        for flow in flows:
            flow.wait_flowing()
        wait_until(lambda: not clients(other), "the one that began first has all of them")
        # What only the dead one knew, clients ask again.
        one.kill()
        for flow in flows:
            flow.wait_flowing()
        assert clients(other)
        assert {kproxy.seen()["active"] for kproxy in pair[1:]} == {GREEN}
    assert [in_log(sides.source, flow.topic, PARTITIONS) for flow in flows] == there, "nobody has written to blue"
    for flow in flows:
        assert in_log(sides.target, flow.topic, PARTITIONS) == [list(range(sent)) for sent in flow.acked]


def test_one_that_is_not_listed_stops_the_switch(pair: list[Switched]) -> None:
    heard = {kproxy.admin: TimedReply(KproxyReply.read(kproxy.ask()[1], kproxy.admin), 0.0, 2e9) for kproxy in pair}
    cluster = next(iter(heard.values())).reply.clusters["default"]  # type: ignore[union-attr]
    ids = dict(cluster.upstreams)
    wanted = ExpectedState("default", GREEN, ids["blue"], ids["green"], heard[pair[0].admin].reply.version)  # type: ignore[union-attr]
    stops = [one.text for one in check_readiness(heard, wanted) if one.severity == "error"]
    assert stops == []
    alone = {pair[0].admin: heard[pair[0].admin]}
    (stop,) = [one.text for one in check_readiness(alone, wanted) if one.severity == "error"]
    assert stop.startswith("1 more share these ports")


def test_one_that_comes_later_leads_to_where_the_others_do(
    sides: TwoSides, pair: list[Switched], tmp_path: Path
) -> None:
    hold(pair, "x")
    flip(pair, "x")
    blue, green = pair[0].upstreams
    with pytest.raises(AssertionError, match=r"another kproxy that shares port .* routes clients to another upstream"):
        Switched(tmp_path / "late", blue, green, shares=pair[0].bootstrap)
    for kproxy in pair:  # each knows by itself
        kproxy.again()
        assert kproxy.seen()["active"] == GREEN
    wait_until(lambda: answers(pair[0].bootstrap), "one of them accepts clients")
