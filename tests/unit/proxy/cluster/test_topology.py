"""Which port a node gets, and what a response tells that was not known."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.proxy.cluster.topology import LocalPorts, NodeKey, Topology, TopologyChange

FIRST, LAST = 19093, 19292  # the default 200 ports
KEYS = st.builds(
    NodeKey,
    st.sampled_from(NodeKind),
    st.integers(0, 250) | st.sampled_from([1001, 1002, 3000, 3001, 49176, 2147483647]),
)


def broker(node_id: int, host: str = "b", port: int = 9092) -> Endpoint:
    return Endpoint(NodeKind.BROKER, node_id, Address(host, port))


def controller(node_id: int) -> Endpoint:
    return Endpoint(NodeKind.CONTROLLER, node_id, Address("c", 9093))


def key(node_id: int, kind: NodeKind = NodeKind.BROKER) -> NodeKey:
    return NodeKey(kind, node_id)


def no_nodes(last: int = LAST) -> Topology:
    return Topology(LocalPorts(FIRST, last))


def learn(topology: Topology, *nodes: Endpoint, complete: bool = True, now: float = 0.0) -> TopologyChange:
    return topology.learn(Endpoints(nodes, complete), now)


def settle(topology: Topology, keys: Iterable[NodeKey], unavailable: Iterable[int] = ()) -> dict[NodeKey, int]:
    """Learn of nodes together and give each the first of its ports that can be had, as the gateway does."""
    nodes = tuple(Endpoint(one.kind, one.node_id, Address("b", 1)) for one in keys)
    for node in learn(topology, *nodes, complete=False).new:
        port = next((port for port in topology.ports.ports_for(node.key) if port not in unavailable), 0)
        if port:
            topology.assign(node.key, port)
    return {one: node.port for one, node in topology.nodes.items() if node.port}


# Ports


@pytest.mark.parametrize(
    ("kind", "node_id", "port"),
    [
        (NodeKind.BROKER, 0, 19093),
        (NodeKind.BROKER, 3, 19096),
        (NodeKind.BROKER, 199, 19292),
        (NodeKind.BROKER, 200, 19282),
        (NodeKind.BROKER, 1001, 19238),
        (NodeKind.BROKER, 49176, 19285),
        (NodeKind.BROKER, 2147483647, 19268),
        (NodeKind.CONTROLLER, 3000, 19213),
        (NodeKind.CONTROLLER, 1, 19245),  # a combined node's broker has 19094
    ],
)
def test_the_first_port_is_the_same_on_all_machines_and_releases(kind: NodeKind, node_id: int, port: int) -> None:
    """These figures are in people's configuration and firewalls: changing the rule breaks them."""
    assert settle(no_nodes(), [key(node_id, kind)]) == {key(node_id, kind): port}


@given(st.lists(KEYS, max_size=200, unique=True), st.data())
def test_the_order_in_a_response_does_not_matter(keys: list[NodeKey], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(keys))
    unavailable = data.draw(st.sets(st.integers(FIRST, LAST), max_size=20))
    ports = settle(no_nodes(), keys, unavailable)
    assert ports == settle(no_nodes(), shuffled, unavailable)
    assert len(set(ports.values())) == len(ports), "two nodes on one port"
    assert len(ports) == min(len(keys), LAST - FIRST + 1 - len(unavailable))
    assert all(FIRST <= port <= LAST and port not in unavailable for port in ports.values())


@given(st.lists(KEYS, max_size=60, unique=True))
def test_brokers_that_fit_the_window_have_the_port_of_their_id(keys: list[NodeKey]) -> None:
    ports = settle(no_nodes(), keys)
    for one, port in ports.items():
        if one.kind is NodeKind.BROKER and one.node_id < 200:
            assert port == FIRST + one.node_id


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_small_window_is_used_to_the_last_port(size: int) -> None:
    keys = [key(1000 + at) for at in range(size + 1)]
    ports = settle(no_nodes(FIRST + size - 1), keys)
    assert sorted(ports.values()) == list(range(FIRST, FIRST + size))
    topology = no_nodes(FIRST + size - 1)
    settle(topology, keys)
    assert list(topology.ports.ports_for(key(1000 + size))) == []


def test_a_broker_whose_port_is_another_s_takes_one_above() -> None:
    """Known one after the other, so the outsider could come first."""
    topology = no_nodes(FIRST + 1)
    settle(topology, [key(1001)])
    settle(topology, [key(1002)])
    taken = {topology.nodes[key(1001)].port, topology.nodes[key(1002)].port}
    assert taken == {FIRST, FIRST + 1}
    learn(topology, broker(0))
    assert list(topology.ports.ports_for(key(0))) == []


@given(st.lists(KEYS, min_size=1, max_size=20, unique=True), st.data())
def test_a_port_once_given_never_goes_to_another_node(keys: list[NodeKey], data: st.DataObject) -> None:
    """Not even if its node has had to take another: clients may remember the first."""
    topology = no_nodes(FIRST + 59)
    owners: dict[int, NodeKey] = {}
    for one in keys:
        learn(topology, Endpoint(one.kind, one.node_id, Address("b", 1)), complete=False)
        for _ in range(data.draw(st.integers(1, 3))):  # bound again, perhaps elsewhere
            ports = list(topology.ports.ports_for(one))
            port = data.draw(st.sampled_from(ports))
            topology.assign(one, port)
            assert owners.setdefault(port, one) == one
            assert topology.nodes[one].port == port
            assert next(topology.ports.ports_for(one)) == port, "the port it has is tried first"


def test_a_port_that_was_not_available_goes_to_no_other_node() -> None:
    topology = no_nodes(FIRST + 9)
    settle(topology, [key(1001)])
    before = topology.nodes[key(1001)].port
    topology.assign(key(1001), FIRST)  # its listener was retired, and somebody took its port meanwhile
    learn(topology, broker(1002), complete=False)
    assert before not in topology.ports.ports_for(key(1002))
    assert FIRST not in topology.ports.ports_for(key(1002))
    assert before in topology.ports.ports_for(key(1001)), "it may have it back"


def test_a_port_outside_the_window_is_kept_too() -> None:
    topology = no_nodes(FIRST)
    settle(topology, [key(0)])
    learn(topology, broker(5), complete=False)
    topology.assign(key(5), 40000)
    assert list(topology.ports.ports_for(key(5))) == [40000]


# Room for others


def test_a_forgotten_node_has_its_port_again_when_it_comes_back() -> None:
    topology = no_nodes()
    settle(topology, [key(1001), key(1002), key(3)])
    before = {node.key: node.port for node in topology.nodes.values()}
    for one in before:
        topology.forget(one, 5.0)
    assert topology.nodes == {}
    assert settle(topology, [key(7000 + number) for number in range(190)] + list(before)).items() >= before.items()


def test_a_forgotten_nodes_port_is_reused_only_after_a_long_time() -> None:
    topology = no_nodes(FIRST + 2)
    ports = settle(topology, [key(0), key(1), key(2)])
    learn(topology, broker(2), now=5.0)
    topology.forget(key(1), 9.0)
    learn(topology, broker(2), broker(0), now=6.0)
    learn(topology, broker(2), now=7.0)
    topology.forget(key(0), 9.0)
    learn(topology, broker(9), complete=False)
    assert list(topology.ports.ports_for(key(9))) == []
    assert topology.ports.reusable_ports(4.9) == []
    assert topology.ports.reusable_ports(5.0) == [ports[key(1)]]
    assert topology.ports.reusable_ports(7.0) == [ports[key(1)], ports[key(0)]], (
        "the one that is gone for longest first"
    )
    topology.assign(key(9), ports[key(1)])
    assert topology.ports.reusable_ports(99.0) == [ports[key(0)]]
    learn(topology, broker(1), complete=False)
    assert list(topology.ports.ports_for(key(1))) == []


def test_nodes_missing_from_a_complete_list_are_dispensable() -> None:
    topology = no_nodes()
    learn(topology, broker(1), broker(2), broker(3), broker(4), controller(1))
    learn(topology, broker(1), broker(3), broker(4), now=5.0)
    learn(topology, broker(1), broker(4), now=6.0)
    assert topology.removable_nodes(Endpoints((broker(2),), complete=False)) == [key(3)]
    assert topology.removable_nodes(Endpoints((broker(1),), complete=True)) == [key(2), key(3), key(4)]


def test_a_label_tells_the_kind() -> None:
    assert key(3).label == "3"
    assert key(3000, NodeKind.CONTROLLER).label == "controller-3000"
    assert str(key(3)) == "broker 3"


# What is learned


def ids(nodes: Iterable[object]) -> list[int]:
    return [getattr(node, "key").node_id for node in nodes]  # noqa: B009


def test_new_nodes_come_in_the_order_of_the_rule() -> None:
    told = learn(no_nodes(), broker(1001), controller(2), broker(7), broker(2), broker(500), controller(1))
    assert [node.key for node in told.new] == [
        key(2), key(7), key(500), key(1001), key(1, NodeKind.CONTROLLER), key(2, NodeKind.CONTROLLER),
    ]  # fmt: skip
    assert (told.moved, told.gone, told.back) == ((), (), ())


def test_what_is_known_is_not_told_again() -> None:
    topology = no_nodes()
    learn(topology, broker(1), broker(2))
    assert learn(topology, broker(2), broker(1)) == TopologyChange()


def test_a_node_that_moves_keeps_its_port() -> None:
    topology = no_nodes()
    settle(topology, [key(1)])
    learn(topology, broker(1, "old"))
    told = learn(topology, broker(1, "new", 9999))
    assert [(node.key, node.advertised, before) for node, before in told.moved] == [
        (key(1), Address("new", 9999), Address("old", 9092))
    ]
    assert topology.nodes[key(1)].port == FIRST + 1


def test_nodes_go_and_come_back() -> None:
    topology = no_nodes()
    learn(topology, broker(1), broker(2))
    assert ids(learn(topology, broker(1), now=5.0).gone) == [2]
    assert topology.nodes[key(2)].absent_since == 5.0
    assert learn(topology, broker(1), now=6.0) == TopologyChange(), "gone once, told once"
    assert topology.nodes[key(2)].absent_since == 5.0
    told = learn(topology, broker(1), broker(2, "elsewhere"), now=7.0)
    assert ids(told.back) == [2]
    assert [node.key for node, _ in told.moved] == [key(2)]
    assert topology.nodes[key(2)].absent_since is None


def test_only_a_complete_list_makes_nodes_absent() -> None:
    topology = no_nodes()
    learn(topology, broker(1), broker(2), controller(1))
    assert learn(topology, broker(1), complete=False) == TopologyChange()
    assert ids(learn(topology, broker(2), complete=True).gone) == [1]
    assert topology.nodes[key(1, NodeKind.CONTROLLER)].absent_since is None, (
        "a list of brokers tells nothing of controllers"
    )
    assert ids(learn(topology, broker(1), complete=False).back) == [1]


def test_a_node_named_twice_is_one_node() -> None:
    told = learn(no_nodes(), broker(1), broker(1))
    assert ids(told.new) == [1]


# What says nothing new

ENDPOINTS = st.builds(
    Endpoints,
    st.lists(
        st.builds(
            Endpoint,
            st.sampled_from(NodeKind),
            st.integers(0, 3),
            st.builds(Address, st.sampled_from(["a", "b"]), st.just(9092)),
        ),
        max_size=4,
    ).map(tuple),
    st.booleans(),
)


@given(st.lists(ENDPOINTS, max_size=5), ENDPOINTS)
def test_what_is_known_would_change_nothing(before: list[Endpoints], endpoints: Endpoints) -> None:
    topology = no_nodes()
    for each in before:
        topology.learn(each, 0.0)
    known = topology.contains(endpoints)
    assert known == (topology.learn(endpoints, 1.0) == TopologyChange())


# Editions


@given(st.data())
def test_each_change_makes_another_edition_and_nothing_else_does(data: st.DataObject) -> None:
    """Then who knows what was told of an edition need not learn the same again."""
    ports = LocalPorts(FIRST, FIRST + 3)
    one, other = Topology(ports), Topology(ports)
    some = st.lists(st.builds(broker, st.integers(0, 3), st.sampled_from(["b", "c"])), max_size=4)
    for now in range(data.draw(st.integers(0, 12))):
        before, edition = state(one), one.revision
        topology = data.draw(st.sampled_from([one, one, other]))
        act = data.draw(st.sampled_from(["learn", "learn", "assign", "forget"]))
        known = sorted(topology.nodes, key=lambda each: each.node_id)
        if act == "learn":
            learn(topology, *data.draw(some), complete=data.draw(st.booleans()), now=now)
        elif known and act == "assign":
            topology.assign(data.draw(st.sampled_from(known)), FIRST + data.draw(st.integers(0, 3)))
        elif known:
            topology.forget(data.draw(st.sampled_from(known)), now)
        if state(one) != before:
            assert one.revision != edition
        elif act == "learn":
            assert one.revision == edition


def state(topology: Topology) -> dict[NodeKey, tuple[Address, int, float | None]]:
    return {key: (one.advertised, one.port, one.absent_since) for key, one in topology.nodes.items()}
