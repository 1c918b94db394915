"""What clients were told holds until anything changes that it depends on, and not longer."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.config.values import Advertise
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.protocol.rewrite.prefixcache import MAX_PREFIX_ENDPOINTS
from kproxy.proxy.cluster import upstream as room
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.upstream import LocalAddressCache
from tests.unit.proxy.cluster.doorway import Doorway, alone, in_loop
from tests.unit.proxy.cluster.twoupstreams import Two

HOST = "127.0.0.1"


def named(*nodes: int, at: str = "up", complete: bool = True) -> Endpoints:
    return Endpoints(tuple(Endpoint(NodeKind.BROKER, node, Address(f"{at}-{node}", 9092)) for node in nodes), complete)


def ports(gateway: Gateway, endpoints: Endpoints, host: str = HOST, part: str = "") -> list[int]:
    """What is told of them, which is the same as for a response that is not known to have come before."""
    before = gateway.localise(host, endpoints, part)
    editions = [one.topology.revision for one in gateway.upstreams.values()]
    assert gateway.localise(host, deepcopy(endpoints), part) == before
    assert [one.topology.revision for one in gateway.upstreams.values()] == editions, "there was something to learn"
    assert all(address.host == host for address in before)
    return [address.port for address in before]


def present(gateway: Gateway) -> set[int]:
    return {key.node_id for key, node in gateway.topology.nodes.items() if node.absent_since is None}


@alone()
def test_nothing_is_learned_twice(door: Doorway, monkeypatch: pytest.MonkeyPatch) -> None:
    said = named(1, 2)
    first = door.gateway.localise(HOST, said)
    monkeypatch.setattr(door.gateway, "_learn", None)  # whoever calls it fails
    assert door.gateway.localise(HOST, said) is first
    with pytest.raises(TypeError):
        door.gateway.localise("other", said)


@alone()
def test_only_news_wakes_the_explorer(door: Doorway) -> None:
    stirred, said = door.gateway.upstreams[""].explorer._changed, named(1, 2)
    for endpoints, news in ((said, True), (said, False), (deepcopy(said), False), (named(1), True), (said, True)):
        stirred.clear()
        door.gateway.localise(HOST, endpoints)
        assert stirred.is_set() == news


@alone()
def test_a_node_that_goes_moves_and_comes_back_is_noticed(door: Doorway) -> None:
    gateway, both, one, moved = door.gateway, named(1, 2), named(1), named(1, 2, at="elsewhere")
    before = ports(gateway, both)
    ports(gateway, one)
    assert present(gateway) == {1}
    assert ports(gateway, both) == before
    assert present(gateway) == {1, 2}
    for said in (moved, both, moved):
        assert ports(gateway, said) == before
        assert {node.advertised for node in gateway.topology.nodes.values()} == {e.advertised for e in said.nodes}
    assert ports(gateway, named(3, complete=False)) != before
    assert ports(gateway, moved) == before
    assert present(gateway) == {1, 2}, "3 is not in a complete list"


@alone(retire_after=0.0)
def test_a_retired_node_has_a_listener_before_it_is_advertised(door: Doorway) -> None:
    gateway, both, one = door.gateway, named(1, 2), named(1)
    before = ports(gateway, both)
    ports(gateway, one)
    list(gateway.retire())
    assert len(gateway._listeners.bound) == 2
    assert ports(gateway, both) == before
    assert len(gateway._listeners.bound) == 3


@alone()
def test_a_port_that_a_node_is_given_later_is_told_at_once(door: Doorway) -> None:
    said = named(1)
    door.connection_limit.files = 0
    door.connection_limit.listening += 1000
    with pytest.raises(WireError, match="broker 1 has no local port"):
        ports(door.gateway, said)
    door.connection_limit.files = None
    list(door.gateway.bind_missing())
    assert 0 not in ports(door.gateway, said)


@alone()
def test_each_host_is_told_its_own(door: Doorway) -> None:
    said = named(1)
    for host in ("127.0.0.1", "10.0.0.1", "127.0.0.1", "proxy.example"):
        ports(door.gateway, said, host)


@alone()
def test_another_configuration_is_told_at_once(door: Doorway) -> None:
    """The ports that --advertise says stand for those that are listened on."""
    gateway, said = door.gateway, named(1)
    (local,) = ports(gateway, said)
    upstream = gateway.upstreams[""]
    first = upstream.config.effective_node_ports(gateway.listen.port).first
    upstream.config = upstream.config.replace(advertise=Advertise("proxy", first + 100))
    assert ports(gateway, said) == [local + 100]


@in_loop
async def test_after_a_flip_all_is_learned_of_the_other_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Two(monkeypatch)
    gateway, said = two.gateway, named(1, 2)
    before = ports(gateway, said)
    for name, nodes in (("green", {1, 2}), ("blue", {1, 2})):
        gateway.flip(name)
        assert (present(gateway) == nodes) == (name == "blue")
        assert ports(gateway, said) == before
        assert present(gateway) == nodes
    gateway.parts["some"] = "green"
    ports(gateway, named(7), part="some")
    assert present(gateway) == {1, 2}
    assert ports(gateway, said, part="some") == before
    assert ports(gateway, said) == before
    gateway.parts.clear()
    two.reconfigure("blue", "red")
    assert ports(gateway, said) == before
    gateway.end(0)


@alone()
def test_when_it_ends_only_what_is_known_is_told(door: Doorway) -> None:
    gateway, both, one = door.gateway, named(1, 2), named(1)
    before = ports(gateway, both)
    gateway.end(0)
    assert ports(gateway, both) == before
    with pytest.raises(WireError, match="no longer serves"):
        gateway.localise(HOST, one)
    assert ports(gateway, both) == before


@alone()
def test_a_negative_id_is_refused_each_time(door: Doorway) -> None:
    said = named(-1)
    for _ in range(2):
        with pytest.raises(WireError, match="negative"):
            door.gateway.localise(HOST, said)


@settings(max_examples=25)
@given(
    said=st.lists(
        st.tuples(
            st.sampled_from(["say", "say", "say", "retire", "bind", "flip", "part"]),
            st.integers(0, 9),
            st.sampled_from(["127.0.0.1", "proxy"]),
        ),
        max_size=25,
    )
)
@in_loop
async def test_cached_addresses_always_equal_computed_addresses(said: list[tuple[str, int, str]]) -> None:
    """The same objects come again in between, towards both upstreams of a cluster."""
    objects = [
        named(*nodes, at=at, complete=complete)
        for at in ("up", "elsewhere")
        for nodes, complete in (((1, 2), True), ((1,), True), ((2, 3), True), ((1, 3), False), ((4, 5, 1000), True))
    ]
    with pytest.MonkeyPatch.context() as patches:
        gateway = Two(patches, retire_after=0.0).gateway
        gateway.parts["some"] = "green"
        for act, number, host in said:
            if act == "retire":
                list(gateway.retire())
            elif act == "bind":
                list(gateway.bind_missing())
            elif act == "flip":
                gateway.flip("green" if number % 2 else "blue")
            else:
                part = "some" if act == "part" else ""
                found = ports(gateway, objects[number], host, part)
                bound = {key: one.port for key, one in gateway._listeners.bound.items() if key is not None}
                by_id = {key.node_id: port for key, port in bound.items()}
                assert found == [by_id[one.node_id] for one in objects[number].nodes], "each is bound"
        gateway.end(0)


def test_the_memory_is_bounded() -> None:
    told = LocalAddressCache()
    for _ in range(10 * room._MOST):
        said = named(1)
        told.put(HOST, said, 1, ())
        assert told.get(HOST, said, 1) == ()
        assert told.get(HOST, said, 2) is None
        assert len(told._answers) <= room._MOST
    for said in (named(*range(MAX_PREFIX_ENDPOINTS + 1)), named(1, complete=False)):
        told.put(HOST, said, 2, ())
        assert told.get(HOST, said, 2) is None
    assert not told._answers


def test_other_endpoints_are_not_mistaken_for_cached_ones() -> None:
    """They may get the memory of former ones, and so their identity."""
    told = LocalAddressCache()
    for number in range(1000):
        said = named(number)
        assert told.get(HOST, said, 1) is None
        told.put(HOST, said, 1, (Address(HOST, number),))
