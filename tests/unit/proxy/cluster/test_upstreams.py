"""A cluster that can lead to either of two Kafka clusters: its ports, where they lead, and when it may flip."""

from __future__ import annotations

import asyncio

import pytest

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.proxy.cluster.report import report
from kproxy.proxy.cluster.topology import NodeKey
from tests.unit.proxy.cluster.doorway import in_loop
from tests.unit.proxy.cluster.twoupstreams import Two


def broker(node: int) -> NodeKey:
    return NodeKey(NodeKind.BROKER, node)


@in_loop
async def test_ports_belong_to_nodes_and_never_move(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Two(monkeypatch)
    two.learn("blue", 1, 2)
    two.learn("green", 2, 5)
    before = two.ports("blue"), two.ports("green")
    assert before[0][2] == before[1][2]
    assert len({*before[0].values(), *before[1].values()}) == 3
    assert len(two.gateway._listeners.bound) == 4, "the bootstrap listener, and those of all nodes"
    two.gateway.flip("green")
    assert (two.ports("blue"), two.ports("green")) == before
    assert two.named(("green", 2), ("green", 5)) == [before[1][2], before[1][5]]
    two.gateway.flip("blue")
    assert two.named(("blue", 1), ("blue", 2)) == [before[0][1], before[0][2]]
    two.gateway.end(0)


@in_loop
async def test_where_ports_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may know only nodes that the active upstream does not have: a bootstrap server is at their ports."""
    two = Two(monkeypatch)
    two.learn("blue", 1, 2)
    two.learn("green", 2, 5)
    keys = [None, broker(1), broker(2), broker(5)]
    for key in keys:
        await two.gateway.dial(key)
    assert two.dialled == [("blue", None), ("blue", broker(1)), ("blue", broker(2)), ("blue", None)]
    two.dialled.clear()
    two.gateway.flip("green")
    for key in keys:
        await two.gateway.dial(key)
    assert two.dialled == [("green", None), ("green", None), ("green", broker(2)), ("green", broker(5))]
    two.dialled.clear()
    two.learn("green", 2)
    await two.gateway.dial(broker(5))
    assert two.dialled == [("green", None)], "a node that has left the cluster"
    two.gateway.end(0)


@in_loop
async def test_nobody_is_led_before_the_nodes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a client that comes right after a start would have a bootstrap server in place of its node."""
    two = Two(monkeypatch)
    two.learn("green", 2)
    async with asyncio.TaskGroup() as tasks:
        dialled = tasks.create_task(two.gateway.dial(broker(2)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert two.dialled == []
        two.learn("blue", 1, 2)
    assert dialled.result().key == broker(2)
    assert two.dialled == [("blue", broker(2))]
    two.gateway.end(0)


@in_loop
async def test_a_port_is_kept_while_any_upstream_has_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Two(monkeypatch, retire_after=0.0)
    two.learn("blue", 1, 2)
    two.learn("green", 2)
    two.learn("blue", 3)
    list(two.gateway.retire())
    bound = {key.node_id for key in two.gateway._listeners.bound if key is not None}
    assert bound == {2, 3}, "1 is gone from blue, and 2 is still green's"
    two.learn("green", 5)
    list(two.gateway.retire())
    assert {key.node_id for key in two.gateway._listeners.bound if key is not None} == {3, 5}
    two.gateway.end(0)


@pytest.mark.parametrize(
    ("blue", "green", "to", "why"),
    [
        ("b", "g", "green", None),
        ("b", "g", "blue", None),
        ("b", "g", "red", "cluster default has no upstream red; allowed: blue, green"),
        ("b", "b", "green", "upstreams blue and green are the same Kafka cluster (id b)"),
        ("b", None, "green", "upstream green has not sent its cluster id: kproxy cannot distinguish the two"),
        (None, "g", "green", "upstream blue has not sent its cluster id: kproxy cannot distinguish the two"),
        ("b", "-", "green", "upstream green does not answer: no bootstrap server has been asked yet"),
    ],
)
@in_loop
async def test_when_it_may_not_flip(
    monkeypatch: pytest.MonkeyPatch, blue: str | None, green: str | None, to: str, why: str | None
) -> None:
    two = Two(monkeypatch)
    two.answers("blue", blue)
    if green != "-":
        two.answers("green", green)
    assert two.gateway.activation_problem(to) == why
    if to == "green":
        _, shown = report(two.gateway).upstreams
        assert (shown.name, shown.active, shown.refuses) == ("green", False, why)
    two.gateway.end(0)


@in_loop
async def test_what_the_status_says_is_of_the_active_one(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Two(monkeypatch)
    two.answers("blue", "b")
    two.answers("green", "g")
    two.learn("blue", 1)
    two.learn("green", 7)
    for active, node in (("blue", "1"), ("green", "7")):
        if active == "green":
            changes = two.changes
            two.gateway.flip("green")
            assert two.changes == changes + 1
        shown = report(two.gateway)
        assert (shown.cluster_id, [one.node for one in shown.nodes]) == (active[0], [node])
        assert [(one.name, one.active) for one in shown.upstreams] == [
            ("blue", active == "blue"),
            ("green", active == "green"),
        ]
    two.gateway.end(0)


@in_loop
async def test_a_hostile_upstream_takes_no_port_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many nodes it names."""
    two = Two(monkeypatch)
    two.learn("blue", 1, 2)
    before = two.ports("blue")
    with pytest.raises(WireError, match="nodes"):
        two.learn("green", *range(2000))
    two.learn("green", *range(100))
    assert two.ports("blue") == before
    two.gateway.end(0)


@in_loop
async def test_ports_of_a_removed_upstream_serve_until_retired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may know only its nodes. Their ports stay theirs, and are there again with an upstream that has them."""
    two = Two(monkeypatch)
    two.learn("blue", 1, 2)
    two.learn("green", 2, 5)
    ports = two.ports("blue")
    two.gateway.flip("green")
    two.reconfigure("green")
    assert {key.node_id for key in two.gateway._listeners.bound if key is not None} == {1, 2, 5}
    await two.gateway.dial(broker(1))
    await two.gateway.dial(broker(2))
    assert two.dialled == [("green", None), ("green", broker(2))]
    two.reconfigure("green", "red")
    two.learn("red", 1, 9)
    assert two.ports("red")[1] == ports[1]
    two.reconfigure("green")
    list(two.gateway.retire())
    assert {key.node_id for key in two.gateway._listeners.bound if key is not None} == {1, 2, 5, 9}, "for a while"
    two.reconfigure("green", retire_after=0.0)
    list(two.gateway.retire())
    assert {key.node_id for key in two.gateway._listeners.bound if key is not None} == {2, 5}
    two.learn("green", 1, 2, 5)
    assert two.ports("green")[1] == ports[1]
    two.gateway.end(0)
