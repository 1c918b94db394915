"""Which nodes a gateway keeps, and which port each has, whatever a broker names."""

from __future__ import annotations

import asyncio
import logging
import os
import socket

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, WireError
from kproxy.config.values import Advertise, PortRange
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.proxy.cluster import nodeports as room
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.process import free_window
from tests.harness.servers.peers import Peer, refused, silent
from tests.unit.proxy.cluster.doorway import API_VERSIONS, Doorway, Lines, in_loop, localised, until

AT = "nowhere.invalid:1"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MORE_NODES", 7)


def window(size: int) -> PortRange:
    first = free_window(size)
    return PortRange(first, first + size - 1)


def ids(door: Doorway) -> list[int]:
    return sorted(key.node_id for key in door.gateway.topology.nodes)


def endpoints(*nodes: int, complete: bool = True) -> Endpoints:
    return Endpoints(tuple(Endpoint(NodeKind.BROKER, node, Address.parse(AT)) for node in nodes), complete)


def port(door: Doorway, node: int) -> int:
    return next(each.port for each in door.gateway.topology.nodes.values() if each.key.node_id == node)


@in_loop
async def test_a_broker_that_names_new_nodes_for_ever_bars_no_real_one(selector: RelaySelector) -> None:
    door = Doorway(selector, AT, node_ports=window(4))
    for number in range(0, 500, 10):
        door.learn(*((number + one, AT) for one in range(10)))
        assert len(ids(door)) <= 10
        assert len(door.gateway._listeners.bound) <= 11
    door.learn((1, AT), (2, AT), (3, AT))
    assert {1, 2, 3} <= set(ids(door))
    assert all(door.gateway.is_bound(node) for node in door.gateway.topology.nodes.values())
    assert port(door, 1) > 0
    await door.close()


@in_loop
async def test_nodes_for_ever_leave_nothing_behind(selector: RelaySelector) -> None:
    """Whatever is known of a node, and counted of it, goes with the node."""
    with Peer(silent) as broker, refused() as nobody:
        door = Doorway(selector, broker.address, node_ports=window(4))
        metrics, reach = door.metrics, door.gateway.dialer
        late: list[asyncio.Task[None]] = []
        for number in range(0, 300, 10):
            keys = [NodeKey(NodeKind.BROKER, number + one) for one in range(10)]
            # The first one answers nothing, so it is forgotten while it is tried.
            door.learn(*((key.node_id, broker.address if key == keys[0] else nobody) for key in keys))
            late.append(door.tasks.create_task(reach.try_node(keys[0])))
            await asyncio.gather(*(reach.try_node(key) for key in keys[1:]))
            for key in keys:
                metrics.node("default", key.label)
                reach.verifier._assumed.add(key)
            assert len(metrics.dial_failures) < 40
            assert len(metrics.nodes) <= 20
        await asyncio.wait(late)
        client = door.connect(290)
        client.send(API_VERSIONS)
        await until(lambda: reach._outages._outages, "there is an outage")
        list(door.gateway.retire())
        known = set(door.gateway.topology.nodes)
        assert len(known) <= 10
        assert reach.reachability.nodes.keys() <= known
        assert reach._outages._outages.keys() <= known
        assert reach.verifier._assumed <= known
        labels = {key.label for key in known} | {"bootstrap"}
        assert {label for _, label, *_ in metrics.dial_failures} <= labels
        assert {label for _, label in metrics.nodes} <= labels
        client.close()
        await door.close()


@in_loop
async def test_new_nodes_by_the_hundred_are_bounded_and_bar_no_few(
    selector: RelaySelector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each costs a listener, and a line."""
    monkeypatch.setattr(room, "_MORE_NODES", 100)
    caplog.set_level(logging.INFO)
    door = Doorway(selector, AT, node_ports=window(4))
    with Lines() as log:
        for number in range(2):
            door.learn(*((number * 1000 + one, AT) for one in range(100)))
        with pytest.raises(WireError, match="100 new nodes, and has named so many before") as error:
            door.learn(*((5000 + one, AT) for one in range(100)))
        assert error.value.reason == "too-many-new-nodes"
        for number in range(50):
            door.learn(*((6000 + number * 20 + one, AT) for one in range(20)))
        assert 6999 in ids(door)
        assert len([line for line in log.texts if "is at local port" in line]) == 1 + 64
        assert len([line for line in log.texts if "so on: 99 more nodes" in line]) == 1
        assert len([line for line in log.texts if "outside --node-ports" in line]) == 1
    await door.close()


@in_loop
async def test_nodes_that_are_there_are_never_forgotten(selector: RelaySelector) -> None:
    door = Doorway(selector, AT, node_ports=window(4))
    real = [(1, AT), (2, AT), (3, AT)]
    door.learn(*real)
    with pytest.raises(WireError, match="has 11 nodes, more than the range of ports: widen --node-ports"):
        door.learn(*((number, AT) for number in range(10, 18)), complete=False)
    assert ids(door) == [1, 2, 3]
    door.learn(*((number, AT) for number in range(10, 17)), complete=False)
    with pytest.raises(WireError, match="11 nodes"):
        door.learn((99, AT), complete=False)
    door.learn(*real)  # the others are gone
    door.learn((99, AT), complete=False)
    assert {1, 2, 3, 99} <= set(ids(door))
    assert len(ids(door)) == 10
    await door.close()


@in_loop
async def test_a_node_with_clients_is_not_forgotten(selector: RelaySelector) -> None:
    with Peer(silent) as broker:
        door = Doorway(selector, broker.address, node_ports=window(4))
        door.learn((1, broker.address), (2, broker.address))
        client = door.connect(1)
        client.send(API_VERSIONS)
        await until(lambda: door.gateway.slots.sessions, "it has its session")
        for number in range(0, 100, 8):
            door.learn(*((100 + number + one, AT) for one in range(8)))
        assert 1 in ids(door)
        assert 2 not in ids(door)
        client.close()
        await door.close()


@pytest.mark.parametrize("retire_after", [0.0, 600.0])
@in_loop
async def test_an_exhausted_window_reuses_the_port_of_a_retired_node(
    selector: RelaySelector, retire_after: float
) -> None:
    """And only then: until clients have surely asked for metadata again, one that is outside is the lesser evil."""
    ports = window(3)
    door = Doorway(selector, AT, node_ports=ports, retire_after=retire_after)
    door.learn((0, AT), (1, AT), (2, AT))
    door.learn((0, AT), (1, AT))
    list(door.gateway.retire())
    door.learn((0, AT), (1, AT), (7, AT))
    assert (port(door, 7) == ports.last) == (retire_after == 0)
    assert (port(door, 7) in ports) == (retire_after == 0)
    assert ids(door) == ([0, 1, 7] if retire_after == 0 else [0, 1, 2, 7])
    await door.close()


@in_loop
async def test_a_client_is_told_no_address_that_is_not_served(
    selector: RelaySelector, caplog: pytest.LogCaptureFixture
) -> None:
    connection_limit = ConnectionLimit(128 + 10)  # sixteen may listen
    door = Doorway(selector, AT, connection_limit, node_ports=window(40))
    first, more = endpoints(*range(15)), endpoints(*range(40))
    assert len({address.port for address in localised(door.gateway, "kproxy", first)}) == 15
    for _ in range(2):
        with pytest.raises(
            WireError, match="broker 15 has no local port: kproxy already listens on 16 ports"
        ) as caught:
            localised(door.gateway, "kproxy", more)
        assert caught.value.reason == "no-local-port"
    list(door.gateway.bind_missing())
    nodes = door.gateway.topology.nodes
    assert [key.node_id for key, node in nodes.items() if not node.port] == list(range(15, 40))
    assert len(localised(door.gateway, "kproxy", endpoints(3, 4, complete=False))) == 2, "those have their ports"
    assert caplog.text.count("has no local port") == 1
    # A node that comes back to a port which was closed meanwhile.
    localised(door.gateway, "kproxy", endpoints(*range(1, 15)))
    list(door.gateway._nodes.retire(0.0))
    assert connection_limit.listening == 15
    assert localised(door.gateway, "kproxy", endpoints(20, complete=False))[0].port > 0, "there is room"
    with pytest.raises(WireError, match="broker 0 has no local port"):
        localised(door.gateway, "kproxy", endpoints(0, complete=False))
    door.gateway.stop_accepting()
    assert len(localised(door.gateway, "kproxy", first)) == 15, "what is in flight at the end is still answered"
    await door.close()


@in_loop
async def test_each_cluster_has_a_share_of_the_listeners(selector: RelaySelector) -> None:
    """A cluster that names a thousand nodes takes no port from those of another one."""
    connection_limit = ConnectionLimit(128 + 60)  # thirty may listen
    hostile, honest = (Doorway(selector, AT, connection_limit, node_ports=window(40), name=name) for name in ("a", "b"))
    honest.learn(*((number, AT) for number in range(4)))
    hostile.learn(*((number, AT) for number in range(40)))
    assert len(hostile.gateway._listeners.bound) == 15
    honest.learn(*((number, AT) for number in range(14)))
    assert all(honest.gateway.is_bound(node) for node in honest.gateway.topology.nodes.values())
    assert len(localised(honest.gateway, "kproxy", endpoints(*range(14)))) == 14
    with pytest.raises(WireError, match="no local port"):
        localised(honest.gateway, "kproxy", endpoints(*range(15)))
    await hostile.close()
    assert len(localised(honest.gateway, "kproxy", endpoints(*range(20)))) == 20, "now it has all"
    await honest.close()
    assert connection_limit.listening == 0


@in_loop
async def test_a_port_that_the_user_has_not_mapped_is_not_told(selector: RelaySelector) -> None:
    ports = window(3)
    door = Doorway(selector, AT, node_ports=ports, advertise=Advertise("proxy", 30000))
    told = localised(door.gateway, "kproxy", endpoints(0, 1, 2))
    assert [address.port for address in told] == [30000, 30001, 30002]
    with pytest.raises(WireError, match="no port is free: widen --node-ports"):
        localised(door.gateway, "kproxy", endpoints(0, 1, 2, 3))
    await door.close()


@in_loop
async def test_listeners_count_as_open_files(selector: RelaySelector) -> None:
    connection_limit = ConnectionLimit(128 + 60)
    door = Doorway(selector, AT, connection_limit, node_ports=window(40))
    before = connection_limit.maximum
    door.learn(*((number, AT) for number in range(20)))
    assert connection_limit.listening == 21
    assert before == 29
    assert connection_limit.maximum == 19
    door.learn(*((number, AT) for number in range(40)))
    assert connection_limit.listening == 30, "half of them are for connections"
    unbound = [node.key.node_id for node in door.gateway.topology.nodes.values() if not door.gateway.is_bound(node)]
    assert unbound == list(range(29, 40))
    door.learn(*((number, AT) for number in range(25, 40)))
    door.learn(*((number, AT) for number in range(25, 35)), (45, AT))
    assert all(door.gateway.is_bound(node) for node in door.gateway.topology.nodes.values() if node.key.node_id == 45)
    assert connection_limit.listening <= 30
    changes: list[int] = []
    door.gateway._learn(door.gateway.upstream_of_part(""), endpoints(*range(25, 35), 45, 50))  # no step is taken
    door.gateway._on_change = lambda: changes.append(1)
    list(door.gateway.bind_missing())
    assert all(door.gateway.is_bound(n) for n in door.gateway.topology.nodes.values() if n.absent_since is None)
    assert connection_limit.listening <= 30
    assert changes == [1]
    list(door.gateway.bind_missing())
    assert changes == [1]
    await door.close()
    assert connection_limit.listening == 0


@pytest.mark.parametrize(
    ("host", "is_taken", "problem"),
    [
        ("127.0.0.1", True, "the port is taken by another process; choose another"),
        ("192.0.2.1", False, "Cannot assign requested address"),
    ],
)
@in_loop
async def test_a_port_that_cannot_be_bound_costs_no_file(
    selector: RelaySelector, host: str, is_taken: bool, problem: str
) -> None:
    """Else each reload of such a configuration would cost one."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = Address(host, other.getsockname()[1] if is_taken else 0)
        files = len(os.listdir("/proc/self/fd"))
        with pytest.raises(ConfigError, match=f"^--listen {listen}: {problem}"):
            Doorway(selector, AT, listen=listen)
        assert len(os.listdir("/proc/self/fd")) == files


@in_loop
async def test_a_name_that_has_no_address_cannot_be_listened_on(selector: RelaySelector) -> None:
    with pytest.raises(ConfigError, match=r"the name 'nowhere\.invalid' cannot be resolved here"):
        Doorway(selector, AT, listen=Address("nowhere.invalid", 0))
