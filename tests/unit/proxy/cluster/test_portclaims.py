"""Several kproxies at the same ports. Each `ProcessClaims` stands for another process: claims are names of sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.config import ClusterConfig
from kproxy.config.values import Forward, PortRange
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.proxy.cluster import portclaims
from kproxy.proxy.cluster.listeners import Listener, Listeners
from kproxy.proxy.cluster.portclaims import PortClaim, PortSharing, ProcessClaims, short_hash
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.cluster.topology import LocalPorts, NodeKey
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.process import free_window
from tests.unit.proxy.cluster.doorway import Doorway, in_loop, until
from tests.unit.proxy.cluster.twoupstreams import Two

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="--reuse-port needs Linux")

HOST = "127.0.0.1"


def claim(first: int, last: int, meaning: str = "a", topic: str = "ports", host: str = HOST) -> PortClaim:
    return PortClaim.of(host, first, last, topic, meaning)


@pytest.mark.parametrize(
    ("one", "other", "contradicts"),
    [
        (claim(1, 9), claim(9, 12, "b"), True),
        (claim(1, 9), claim(10, 12, "b"), False),
        (claim(1, 9), claim(9, 12, "a"), False),
        (claim(1, 9), claim(9, 12, "b", "other"), False),
        (claim(1, 9), claim(9, 12, "b", host="127.0.0.2"), False),
        (claim(1, 9), claim(9, 12, "b", host="0.0.0.0"), True),
        (claim(1, 9, host="::"), claim(9, 12, "b"), True),
    ],
)
def test_what_contradicts(one: PortClaim, other: PortClaim, contradicts: bool) -> None:
    assert one.contradicts(other) is contradicts
    assert other.contradicts(one) is contradicts


@pytest.mark.parametrize(
    "made",
    [
        claim(1, 65535),
        PortClaim.of("2001:0db8:0000:0000:0000:0000:0000:0001", 10000, 65535, short_hash("x")[:9], "M" * 22),
        PortClaim.of("fe80::1%a/b", 1, 1, short_hash("id")[:9], "an id / with \0 what not"),
    ],
)
def test_a_claim_is_read_as_it_was_made(made: PortClaim) -> None:
    name = made.name("0" * 12)
    assert len(name) <= 108
    assert PortClaim.read(name[1:].decode()) == ("0" * 12, made)


@pytest.mark.parametrize(
    "name", ["", "kproxy/1/", "kproxy/1/a/b/1-2/c", "kproxy/1/a/b/x-y/c/d", "kproxy/2/a/b/1-2/c/d"]
)
def test_other_names_are_no_claims(name: str) -> None:
    assert PortClaim.read(name) is None


async def test_the_later_one_gives_way_until_the_first_one_is_gone() -> None:
    first = free_window(10)
    one, other = ProcessClaims(), ProcessClaims()
    mine = claim(first, first + 9)
    assert one.claim(mine) is None
    assert other.claim(claim(first + 9, first + 9, "b")) == mine
    assert other.claim(mine) is None
    other.withdraw(mine)
    one.withdraw(mine)
    assert other.claim(claim(first + 9, first + 9, "b")) is None
    other.withdraw(claim(first + 9, first + 9, "b"))


async def test_what_a_killed_process_claimed_is_free() -> None:
    program = (
        "import asyncio, sys\nfrom kproxy.proxy.cluster.portclaims import PortClaim, ProcessClaims\n"
        "async def main():\n"
        "    sharing = ProcessClaims()\n"
        "    port = int(sys.argv[1])\n"
        "    assert sharing.claim(PortClaim.of('127.0.0.1', port, port, 'ports', 'b')) is None\n"
        "    print(sharing.instance, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )

    port = free_window(1)
    process = subprocess.Popen([sys.executable, "-c", program, str(port)], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    with process:
        assert process.stdout is not None
        instance = process.stdout.readline().strip()
        try:
            mine = claim(port, port)
            # Names are ordered by the millisecond of their start.
            sharing = next(later for later in iter(ProcessClaims, None) if later.instance > instance)
            assert sharing.claim(mine) == claim(port, port, "b")
            assert sharing.claim(claim(port, port, "b")) is None
            assert sharing.peers([mine]) == [instance]
            sharing.withdraw(claim(port, port, "b"))
        finally:
            process.kill()
            process.wait()
    assert sharing.claim(mine) is None
    assert sharing.peers([mine]) == []
    sharing.withdraw(mine)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_a_claim_of_another_user_counts_for_nothing() -> None:
    """That user cannot share the port either."""
    program = (
        "import os, socket, sys\nos.setgid(65534)\nos.setuid(65534)\n"
        "sock = socket.socket(socket.AF_UNIX)\nsock.bind(b'\\0' + sys.argv[1].encode())\nsock.listen()\n"
        "print(flush=True)\nsys.stdin.read()\n"
    )

    port = free_window(1)
    name = claim(port, port, "b").name("0" * 12)[1:].decode()
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", program, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        sharing = ProcessClaims()
        assert sharing.claim(claim(port, port)) is None
        assert sharing.peers([claim(port, port)]) == []
        sharing.withdraw(claim(port, port))
        process.communicate()


async def test_a_busy_kproxy_keeps_its_claim() -> None:
    """Its socket takes a few connections, and it accepts none of them meanwhile."""
    port = free_window(1)
    one, other = ProcessClaims(), ProcessClaims()
    mine = claim(port, port)
    assert one.claim(mine) is None
    for _ in range(30):
        assert other.claim(claim(port, port, "b")) == mine
    with socket.socket(socket.AF_UNIX) as sock:
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.connect(mine.name(one.instance))
    one.withdraw(mine)


async def test_a_name_that_accepts_no_connection_is_no_claim() -> None:
    port = free_window(1)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(claim(port, port, "b").name("0" * 12))
        sharing = ProcessClaims()
        assert sharing.claim(claim(port, port)) is None
        sock.listen()
        assert sharing.claim(claim(port, port)) == claim(port, port, "b")


def sharing(hosts: list[str], port: int, window: PortRange) -> PortSharing:
    """What a kproxy claims that listens there."""
    config = ClusterConfig(bootstrap_servers=(Address(HOST, 1),), listen=Address(HOST, port), node_ports=window)
    listeners: Any = SimpleNamespace(hosts=hosts)
    return PortSharing(ProcessClaims(), (config,), listeners, SupervisedTaskGroup("a test"), lambda: True)


async def test_a_meaning_is_claimed_at_all_addresses_or_at_none() -> None:
    port = free_window(2)
    one, both, third = (
        sharing(hosts, port, PortRange(port + 1, port + 1)) for hosts in (["127.0.0.2"], [HOST, "127.0.0.2"], [HOST])
    )
    assert one.agree_on_cluster("id", "A") == "A"
    assert both.agree_on_cluster("id", "B") == "A"
    assert third.agree_on_cluster("id", "C") == "C"
    for each in (one, both, third):
        each.end()


async def test_they_agree_on_what_the_first_one_says() -> None:
    first = free_window(22)
    one, other = (sharing([HOST], first, PortRange(first + 1, first + 11)) for _ in range(2))
    assert one.agree_on_cluster("blue", "A") == "A"
    assert other.agree_on_cluster("blue", "B") == "A"
    assert other.agree_on_cluster("green", "B") == "B"
    assert (one.others, other.others) == ([other.instance], [one.instance])
    assert other.claim_route("blue", {})
    assert not one.claim_route("green", {"part": "blue"})
    other.retract_route()
    assert one.claim_route("green", {"part": "blue"})
    one.end()
    other.forget_upstream("blue")
    assert other.agree_on_cluster("blue", "B") == "B"
    with pytest.raises(ConfigError, match=f"another kproxy shares port {first + 11}-{first + 11}"):
        sharing([HOST], first + 21, PortRange(first + 11, first + 20))
    other.end()


# Ports


def broker(number: int) -> NodeKey:
    return NodeKey(NodeKind.BROKER, number)


def controller(number: int) -> NodeKey:
    return NodeKey(NodeKind.CONTROLLER, number)


def test_a_node_has_one_port_or_none() -> None:
    ports = LocalPorts(1000, 1199, fixed=True)
    assert [list(ports.ports_for(broker(number))) for number in (0, 149, 150, 1001)] == [[1000], [1149], [], []]
    assert [list(ports.ports_for(controller(number))) for number in (1, 3000, 3001, 49)] == [
        [1198], [1199], [1198], [1150],
    ]  # fmt: skip
    ports.add_topology_node(controller(1))
    ports.assign(controller(1), 1198)
    assert list(ports.ports_for(controller(3001))) == [], "another node has it"
    assert list(ports.ports_for(controller(1))) == [1198]
    ports.forget(controller(1), 1.0)
    assert list(ports.ports_for(controller(3001))) == [], "clients may believe it to be there still"
    assert ports.fixed
    brokers = {port for number in range(400) for port in ports.ports_for(broker(number))}
    controllers = {ports.only_port(controller(number)) for number in range(400)}
    assert brokers.isdisjoint(controllers)


def test_a_window_of_a_few_ports() -> None:
    for size in range(1, 9):
        ports = LocalPorts(10, 9 + size, fixed=True)
        given = [ports.only_port(NodeKey(kind, number)) for kind in NodeKind for number in range(20)]
        assert all(port == 0 or 10 <= port < 10 + size for port in given)


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        (
            [broker(1)],
            "port {taken} cannot be had: it is taken by a process that does not share it, or of another user",
        ),
        ([broker(2)], "port {local} cannot be had: it is the local end of a connection to 127.0.0.1:{remote}; keep"),
        ([broker(6)], "its id does not fit --node-ports {first}-{last}. With --reuse-port, ids of brokers up to 5 fit"),
        (
            [controller(1), controller(3)],
            "another node has port {controllers}, and with --reuse-port it can have no other",
        ),
    ],
)
@in_loop
async def test_why_a_node_has_no_port(
    selector: RelaySelector, nodes: list[NodeKey], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_window(9)
    sharing = ProcessClaims()
    door = Doorway(
        selector,
        "127.0.0.1:1",
        sharing=sharing,
        listen=Address(HOST, port),
        node_ports=PortRange(port + 1, port + 8),
    )
    with socket.create_server((HOST, port + 2)) as taken, socket.create_server((HOST, 0)) as remote:
        ports = {"taken": port + 2, "local": port + 3, "remote": remote.getsockname()[1]}
        ports |= {"first": port + 1, "last": port + 8, "controllers": port + 7}
        with socket.create_connection((HOST, ports["remote"]), 30, (HOST, ports["local"])):
            endpoints = Endpoints(
                tuple(Endpoint(key.kind, key.node_id, Address("nowhere.invalid", 1)) for key in nodes),
                complete=True,
            )
            list(door.gateway._learn(door.gateway.upstream_of_part(""), endpoints))
    assert f"{nodes[-1]} has no local port: {problem.format(**ports)}" in caplog.text
    bound = [key for key in nodes if door.gateway.is_bound(door.gateway.topology.nodes[key])]
    assert bound == nodes[:-1]
    taken.close()
    await door.close()


async def test_it_listens_only_between_resume_and_pause() -> None:
    port = free_window(1)
    came: dict[int, list[socket.socket]] = {0: [], 1: []}

    def accepting(number: int) -> Callable[[socket.socket, Address, Listener], None]:
        return lambda client, *_: came[number].append(client)

    both = [Listeners(Address(HOST, port), accepting(number), shared=True) for number in range(2)]
    for each in both:
        each.bind(None, port)

    async def connect() -> None:
        with socket.socket() as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, (HOST, port))
            await asyncio.sleep(0.01)

    with pytest.raises(ConnectionRefusedError):
        await connect()
    for rounds in range(2):
        both[1].resume()
        for _ in range(20):
            await connect()
        assert (len(came[0]), len(came[1])) == (20 * rounds, 20 * (rounds + 1))
        both[0].resume()
        both[1].pause()
        for _ in range(20):
            await connect()
        assert (len(came[0]), len(came[1])) == (20 * (rounds + 1), 20 * (rounds + 1))
        both[0].pause()
    with pytest.raises(OSError, match="in use"), socket.create_server((HOST, port)):
        pass
    for each in both:
        each.close_all()
    for client in (*came[0], *came[1]):
        client.close()


# Which of them begins


@pytest.mark.parametrize("shared", [True, False])
async def test_a_port_whose_last_plain_connections_have_just_ended_can_be_bound(shared: bool) -> None:
    """Those connections are in TIME_WAIT for a minute."""
    with socket.create_server((HOST, 0)) as plain:
        port = plain.getsockname()[1]
        with socket.create_connection((HOST, port)) as client:
            plain.accept()[0].close()  # the side that closes first keeps the port
            assert client.recv(1) == b""
    listeners = Listeners(Address(HOST, port), lambda *_: None, shared=shared)
    assert listeners.bind(None, port).port == port
    listeners.close_all()


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize("reuses", [True, False])
async def test_a_shared_port_and_one_of_another_program_exclude_each_other(reuses: bool, listens: bool) -> None:
    def listen(port: int) -> int:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuses)
        other.bind((HOST, port))
        other.listen()
        return int(other.getsockname()[1])

    listeners = Listeners(Address(HOST, 0), lambda *_: None, shared=True)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        listeners.bind(None, listen(0))
    port = listeners.bind(None, 0).port
    if listens:
        listeners.resume()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        listen(port)
    listeners.close_all()


@in_loop
async def test_a_gateway_that_must_not_begin_claims_nothing(selector: RelaySelector) -> None:
    """Neither a port, nor that of a forward, nor which Kafka cluster it serves."""
    port = free_window(12)

    def begin(sharing: ProcessClaims, **options: Any) -> Doorway:
        return Doorway(
            selector,
            "127.0.0.1:1",
            sharing=sharing,
            listen=Address(HOST, port),
            node_ports=PortRange(port + 1, port + 10),
            **options,
        )

    def forward(to: str) -> Forward:
        return Forward(None, port + 11, Address(to, 5432))

    first = begin(ProcessClaims(), cluster_id="a", forward=(forward("db-1"),))
    for options, text in (
        ({"cluster_id": "a", "forward": (forward("db-2"),)}, f"another kproxy shares port {port + 11}-{port + 11}"),
        (
            {"cluster_id": "b", "forward": (forward("db-1"),)},
            f"cluster-id is b, and another kproxy that shares port {port} .--reuse-port. serves the Kafka cluster"
            " with the id a",
        ),
    ):
        sharing, files = ProcessClaims(), len(os.listdir("/proc/self/fd"))
        with pytest.raises(ConfigError, match=text):
            begin(sharing, **options)
        assert sharing._sockets == {}
        assert len(os.listdir("/proc/self/fd")) == files, "no port is bound"
    await first.close()
    second = begin(ProcessClaims(), cluster_id="b", forward=(forward("db-2"),))
    await second.close()


@in_loop
async def test_a_removed_upstream_no_longer_claims_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    two, other = Two(monkeypatch, ProcessClaims()), ProcessClaims()
    assert two.gateway.sharing.agree_on_cluster("green", "A") == "A"
    port = two.gateway.listen.port
    another = PortClaim.of(HOST, port, port, short_hash("id of green")[:9], "B")
    assert other.claim(another) is not None
    two.reconfigure("blue")
    assert other.claim(another) is None
    other.withdraw(another)
    two.gateway.end(0)


# Which of them accepts clients


@in_loop
async def test_after_a_switch_the_one_that_began_first_accepts_clients(
    selector: RelaySelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it ends, or the time is over."""
    monkeypatch.setattr(portclaims, "_CHOOSE_AGAIN", 0.01)
    port = free_window(12)
    options = {"listen": Address(HOST, port), "node_ports": PortRange(port + 1, port + 11)}
    one, other = sorted(
        (Doorway(selector, "127.0.0.1:1", sharing=ProcessClaims(), **options) for _ in range(2)), key=instance
    )
    both, over = (one.gateway._listeners, other.gateway._listeners), list[str]()
    assert [each._listening for each in both] == [True, True], "a bootstrap server has answered"
    for each in (one, other):
        each.gateway.sharing.accept_in_one_process(3600.0, lambda: over.append("never"))
    assert [each._listening for each in both] == [True, False]
    other.learn((3, "b:1"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port + 4))
    await one.close()
    await until(lambda: other.gateway._listeners._listening, "the other one accepts clients")
    socket.create_connection((HOST, port + 4)).close()
    third = Doorway(selector, "127.0.0.1:1", sharing=ProcessClaims(), **options)
    third.gateway.sharing.accept_in_one_process(3600.0, lambda: over.append("never"))
    assert not third.gateway._listeners._listening
    third.gateway.sharing.accept_in_one_process(0.0, lambda: over.append("over"))
    await until(lambda: over, "the time is over")
    assert over == ["over"]
    assert third.gateway._listeners._listening
    await other.close()
    await third.close()


def instance(door: Doorway) -> str:
    return door.gateway.sharing.instance
