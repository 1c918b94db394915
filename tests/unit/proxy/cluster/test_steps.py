"""Nodes by the hundred get their listeners a little at a time; anything may happen in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, ListenersPending, NodeKind
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.topology import NodeKey
from tests.unit.proxy.cluster.doorway import Doorway, alone, in_loop, localised
from tests.unit.proxy.cluster.twoupstreams import Two

AT = "nowhere.invalid:1"
MANY = 30
# So many are bound in one go.
AT_ONCE = 8


def named(*nodes: int, complete: bool = True) -> Endpoints:
    return Endpoints(tuple(Endpoint(NodeKind.BROKER, node, Address.parse(AT)) for node in nodes), complete)


def begun(gateway: Gateway, endpoints: Endpoints) -> Iterator[None]:
    """The steps to take before these are told."""
    with pytest.raises(ListenersPending) as not_yet:
        gateway.localise("kproxy", endpoints)
    return not_yet.value.steps


def bound(gateway: Gateway) -> set[int]:
    return {key.node_id for key in gateway._listeners.bound if key is not None}


def check(gateway: Gateway) -> None:
    """Each node that counts as bound has a port that listens, and no other listener is left than its own."""
    listening = {key: one.port for key, one in gateway._listeners.bound.items() if key is not None}
    for upstream in gateway.upstreams.values():
        for key, node in upstream.topology.nodes.items():
            if gateway.is_bound(node):
                assert listening[key] == node.port


@alone()
def test_each_step_binds_one(door: Doorway) -> None:
    gateway, many = door.gateway, named(*range(MANY))
    steps = begun(gateway, many)
    for count in range(AT_ONCE, MANY):
        assert bound(gateway) == set(range(count))
        next(steps)
    assert list(steps) == []
    told = gateway.localise("kproxy", many)
    assert [address.port for address in told] == [gateway._listeners.bound[one].port for one in keys(many)]


def keys(endpoints: Endpoints) -> list[NodeKey]:
    return [NodeKey(each.kind, each.node_id) for each in endpoints.nodes]


@alone()
def test_few_are_bound_at_once(door: Doorway) -> None:
    assert len(door.gateway.localise("kproxy", named(*range(AT_ONCE - 1)))) == AT_ONCE - 1


@alone()
def test_two_responses_name_the_same_nodes(door: Doorway) -> None:
    """Each waits until all are bound, and each node is bound once, on the port that the rule says."""
    gateway, first = door.gateway, door.gateway._nodes._ports.first
    one, other = named(*range(MANY)), named(*reversed(range(MANY)), complete=False)
    steps, others = begun(gateway, one), begun(gateway, other)
    while next(steps, others) is None:
        next(others, None)
    list(others)
    ports = [first + node for node in range(MANY)]
    assert [address.port for address in gateway.localise("kproxy", one)] == ports
    assert [address.port for address in gateway.localise("kproxy", other)] == ports[::-1]


@alone()
def test_what_is_not_done_is_done_later(door: Doorway) -> None:
    """The session has ended."""
    begun(door.gateway, named(*range(MANY)))
    assert len(bound(door.gateway)) == AT_ONCE
    list(door.gateway.bind_missing())
    assert len(bound(door.gateway)) == MANY


@alone()
def test_nodes_that_are_forgotten_meanwhile_get_none(door: Doorway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.cluster.nodeports._MORE_NODES", 0)  # as many as the window has
    monkeypatch.setattr("kproxy.proxy.cluster.nodeports._CLUSTERS_AT_ONCE", 9)
    gateway, many, others = door.gateway, named(*range(MANY)), named(*range(100, 100 + MANY))
    steps = begun(gateway, many)
    rest = begun(gateway, others)
    known = {key.node_id for key in gateway.topology.nodes}
    assert len(known) == 39
    list(steps)
    check(gateway)
    assert bound(gateway) <= known
    list(rest)
    assert {address.port for address in gateway.localise("kproxy", others)} <= set(range(1, 65536))
    assert bound(gateway) <= known
    localised(gateway, "kproxy", many)  # they are back
    check(gateway)


@alone()
def test_listeners_of_forgotten_nodes_close_one_at_a_time(door: Doorway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.cluster.nodeports._MORE_NODES", 0)
    gateway = door.gateway
    before = localised(gateway, "kproxy", named(*range(MANY)))
    steps = begun(gateway, named(*range(100, 100 + MANY)))
    closed = set(range(MANY)) - bound(gateway)
    assert len(closed) == AT_ONCE
    assert len(gateway._nodes._closing) > AT_ONCE
    waits = next(iter(gateway._nodes._closing))
    back = named(waits.node_id, complete=False)
    assert not gateway._nodes.is_bound(waits)
    told = localised(gateway, "kproxy", back)
    assert list(told) == [before[waits.node_id]]
    list(steps)
    check(gateway)
    assert waits.node_id in bound(gateway)


@alone()
def test_after_the_end_nothing_is_bound(door: Doorway) -> None:
    many = named(*range(MANY))
    steps = begun(door.gateway, many)
    door.gateway.stop_accepting()
    list(steps)
    assert bound(door.gateway) == set()
    with pytest.raises(WireError) as refused:
        door.gateway.localise("kproxy", many)
    assert refused.value.reason == "not-localised"


@in_loop
async def test_an_upstream_that_is_removed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Two(monkeypatch)
    two.learn("blue", 1, 2)
    gateway = two.gateway
    steps = gateway._learn(gateway.upstreams["green"], named(*range(10, 10 + MANY)))
    for _ in range(5):
        next(steps)
    two.reconfigure("blue")
    list(steps)
    assert bound(gateway) == {1, 2, *range(10, 15)}
    assert {key.node_id for key in gateway._nodes._orphans if key is not None} == set(range(10, 15))
    gateway.stop_accepting()
    await two.tasks.__aexit__(None, None, None)
