"""A Kafka cluster that is created again behind a running kproxy: refused, until an operator or an option accepts it."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.config import read
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.app.main import App
from kproxy.proxy.cluster import clusterwatch
from kproxy.proxy.status.model import ClusterStatus
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.unit.proxy.app.serving import broker, client_of, put, served, works
from tests.unit.proxy.cluster.doorway import API_VERSIONS, is_closed, until

OPTIONS = "listen: 127.0.0.1:0\nadmin: off\nconnect-timeout: 500ms\n"
AFTER = "accept-new-cluster-after: 1s\n"


class Broker(FakeBroker):
    """A broker that names itself. `flaps`: a load balancer before two clusters, each of which answers in turn."""

    flaps = False

    def answer(self, connection: socket.socket, request: bytes) -> bool:
        if self.flaps and struct.unpack_from(">h", request)[0] == ApiKey.METADATA:
            self.cluster_id = "newer" if self.asked % 3 else "new"
        return super().answer(connection, request)


class World:
    """Brokers at addresses that stay, and the file of a kproxy in front of them."""

    def __init__(self, path: Path, brokers: list[Broker], peers: list[Peer]) -> None:
        self.path, self.brokers, self.peers = path, brokers, peers

    def run(self, scenario: Callable[[App], Awaitable[None]], options: str = "", servers: int | None = None) -> None:
        named = ",".join(peer.address for peer in self.peers[:servers])
        put(self.path, f"bootstrap-servers: {named}\n{OPTIONS}{options}")

        async def when_found(running: App) -> None:
            await until(lambda: bool(cluster(running).nodes) and cluster(running).searched, "the nodes are known")
            await scenario(running)

        served(self.path, when_found)

    def create_again(self, cluster_id: str = "new") -> None:
        for behave in self.brokers:
            behave.cluster_id = cluster_id


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two brokers that name themselves."""
    brokers = [Broker(refusal=f"Unexpected broker id, expected {node} or empty", cluster_id="old") for node in (1, 2)]
    with Peer(brokers[0]) as one, Peer(brokers[1]) as two:
        addresses = [Address.parse(peer.address) for peer in (one, two)]
        nodes = [(node, address.host, address.port) for node, address in enumerate(addresses, 1)]
        for behave in brokers:
            behave.nodes = list(nodes)
        yield World(tmp_path / "kproxy.yaml", brokers, [one, two])


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_PAUSE", "_LONGEST_PAUSE"):
        monkeypatch.setattr(clusterwatch, name, 0.02)
    monkeypatch.setattr(clusterwatch, "_LONGEST_ROUND", 0.05)


def cluster(running: App, name: str = "default") -> ClusterStatus:
    return next(status for status in running.status().clusters if status.name == name)


async def refused(running: App, node: int | None = None) -> None:
    client = client_of(running, "default", node)
    with client:
        client.send(API_VERSIONS)
        await until(lambda: is_closed(client), "kproxy has disconnected the client")


async def comes(running: App) -> None:
    """A client comes, and may be served by what is left of the former cluster."""
    with client_of(running, "default") as client:
        client.send(API_VERSIONS)
        await until(lambda: is_readable(client), "the client is served or disconnected")


def is_readable(client: socket.socket) -> bool:
    return bool(select.select([client], [], [], 0)[0])


async def is_noticed(running: App, cluster_id: str = "new") -> None:
    """A client comes, so kproxy sees that another cluster answers."""
    await refused(running)
    await until(lambda: cluster(running).replaced_by == cluster_id, "kproxy has noticed")


def test_it_says_in_a_line_what_has_happened_and_what_to_do(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(running: App) -> None:
        world.create_again()
        await is_noticed(running)
        text = (
            "another Kafka cluster (id new) answers at all bootstrap servers that answer, and kproxy serves the one "
            f"with the id old, according to {world.peers[0].address}. If it was created again: "
            "kproxy reload --accept-cluster, or restart kproxy"
        )
        assert cluster(running).problem == text
        assert cluster(running).cluster_id == "old"
        assert list(running.not_ready()) == [f"cluster default: {text}"]
        assert [record.getMessage() for record in caplog.records].count(f"cluster default: {text}") == 1
        world.create_again("old")  # the former one is back
        await until(lambda: cluster(running).replaced_by is None, "kproxy has noticed that too")
        assert running.not_ready() == []
        with client_of(running, "default") as client:
            await works(client)

    world.run(scenario)


def test_accepted(world: World) -> None:
    """All sessions end, ports stay, nodes are those of the new cluster."""

    async def scenario(running: App) -> None:
        with client_of(running, "default") as idle, client_of(running, "default", 1) as client:
            await works(idle)
            await works(client)
            before = {node.id: node.local for node in cluster(running).nodes}
            one, two = world.brokers
            one.nodes = two.nodes = [one.nodes[0], (7, *one.nodes[1][1:])]
            two.refusal = "Unexpected broker id, expected 7 or empty"
            world.create_again()
            answer = await running._reload("default")
            assert (answer.outcome, list(answer.lines)) == (
                "done",
                ["cluster default: serves the Kafka cluster with the id new from now on (--accept-cluster), and no "
                 "longer the one with the id old; closed 2 sessions"],
            )  # fmt: skip
            await until(lambda: is_closed(idle) and is_closed(client), "the sessions have ended")
        await until(lambda: {node.id for node in cluster(running).nodes} == {1, 7}, "the new nodes are known")
        await until(lambda: running.not_ready("all") == [], "all of them can be reached")
        assert (cluster(running).cluster_id, cluster(running).replaced_by) == ("new", None)
        assert next(node.local for node in cluster(running).nodes if node.id == 1) == before[1]
        for node in (None, 1, 7):
            with client_of(running, "default", node) as client:
                await works(client)
        world.create_again("old")  # it is as foreign now as any other one
        await is_noticed(running, "old")

    world.run(scenario)


def test_nothing_has_changed(world: World) -> None:
    async def scenario(running: App) -> None:
        with client_of(running, "default") as client:
            await works(client)
            answer = await running._reload("default")
            assert (answer.outcome, list(answer.lines)) == (
                "done",
                ["cluster default: nothing has changed: the bootstrap servers that answer belong to the cluster that "
                 "kproxy serves (id old)"],
            )  # fmt: skip
            await works(client)

    world.run(scenario)


def two_clusters(world: World) -> None:
    world.brokers[0].cluster_id = "new"


def no_id(world: World) -> None:
    world.create_again()
    world.brokers[1].cluster_id = None


def nobody(world: World) -> None:
    for behave in world.brokers:
        behave.deaf_to = {ApiKey.METADATA}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (two_clusters, "the bootstrap servers belong to different clusters: "),
        (no_id, "does not say which cluster it belongs to"),
        (nobody, "no bootstrap server answers"),
    ],
)
def test_not_accepted(world: World, change: Callable[[World], None], text: str) -> None:
    async def scenario(running: App) -> None:
        with client_of(running, "default") as client:
            await works(client)
            change(world)
            answer = await running._reload("default")
            assert answer.outcome == "refused"
            assert [line.startswith("cluster default: ") and text in line for line in answer.lines] == [True]
            world.create_again("old")
            for behave in world.brokers:
                behave.deaf_to = set()
            await works(client)  # its session stays

    world.run(scenario)


def test_a_server_that_is_silent_has_no_say(world: World) -> None:
    async def scenario(running: App) -> None:
        world.create_again()
        world.brokers[1].deaf_to = {ApiKey.METADATA}
        assert (await running._reload("default")).outcome == "done"
        assert cluster(running).cluster_id == "new"

    world.run(scenario)


@pytest.mark.parametrize(
    ("options", "name", "text"),
    [
        ("", "nonsense", "there is no cluster nonsense; allowed: default"),
        ("cluster-id: old\n", "default", "--cluster-id is old, and kproxy serves no other cluster"),
    ],
)
def test_what_cannot_be_accepted(world: World, options: str, name: str, text: str) -> None:
    async def scenario(running: App) -> None:
        world.create_again()
        answer = await running._reload(name)
        assert answer.outcome == "refused"
        assert [text in line for line in answer.lines] == [True]
        assert cluster(running).cluster_id == "old"

    world.run(scenario, options)


def test_two_requests_at_once_and_a_mistake_in_the_file(world: World) -> None:
    async def scenario(running: App) -> None:
        world.create_again()
        answers = await asyncio.gather(running._reload("default"), running._reload("default"))
        assert sorted(answer.outcome for answer in answers) == ["busy", "done"]
        world.create_again("newer")
        text = world.path.read_text()
        put(world.path, text + "color: red\n")
        assert (await running._reload("default")).outcome == "refused"
        assert cluster(running).cluster_id == "new"
        put(world.path, text + "map: x=y\n")
        answer = await running._reload("default")
        assert (answer.outcome, len(answer.lines)) == ("done", 2), answer.lines
        assert answer.lines[0] == "map: x=y"
        assert cluster(running).cluster_id == "newer"

    world.run(scenario)


def test_other_clusters_notice_nothing(world: World) -> None:
    other = FakeBroker()
    with Peer(other) as peer:
        broker(peer, other)
        put(
            world.path,
            "admin: off\nclusters:\n"
            f"- {{name: a, bootstrap-servers: '{world.peers[0].address}', listen: '127.0.0.1:0'}}\n"
            f"- {{name: b, bootstrap-servers: '{peer.address}', listen: '127.0.0.1:0'}}\n",
        )

        async def scenario(running: App) -> None:
            await until(lambda: all(c.searched and c.nodes for c in running.status().clusters), "the nodes are known")
            with client_of(running, "b", 1) as client, client_of(running, "a", 1) as ends:
                await works(client)
                await works(ends)
                world.create_again()
                assert "--accept-cluster a, or" in running._all_clusters().gateways[
                    0
                ].dialer.reachability.replaced_text("x")
                assert (await running._reload("a")).outcome == "done"
                await until(lambda: is_closed(ends), "its session has ended")
                await works(client)
            assert [c.cluster_id for c in running.status().clusters] == ["new", "fake"]

        served(world.path, scenario)


def test_a_cluster_that_can_be_switched_refuses(world: World) -> None:
    other = FakeBroker()
    with Peer(other) as peer:
        broker(peer, other)
        named = f"upstreams:\n  blue: {{bootstrap-servers: '{world.peers[0].address}'}}\n"
        put(
            world.path,
            f"listen: 127.0.0.1:0\nadmin: off\nactive: blue\n{named}  green: {{bootstrap-servers: '{peer.address}'}}\n",
        )

        async def scenario(running: App) -> None:
            await until(lambda: bool(cluster(running).nodes), "the nodes are known")
            world.create_again()
            answer = await running._reload("default")
            assert answer.outcome == "refused"
            assert [line.startswith("cluster default has two upstreams") for line in answer.lines] == [True]
            assert cluster(running).cluster_id == "old"

        served(world.path, scenario)


# --accept-new-cluster-after


def test_accepted_by_itself(world: World) -> None:
    async def scenario(running: App) -> None:
        world.create_again()
        await refused(running)
        await until(lambda: cluster(running).cluster_id == "new", "kproxy serves it")
        await until(lambda: running.not_ready("all") == [], "all nodes can be reached")
        with client_of(running, "default", 2) as client:
            await works(client)
        world.create_again("old")  # back again: a new one once more
        await refused(running)
        await until(lambda: cluster(running).cluster_id == "old", "kproxy serves it")

    world.run(scenario, AFTER)


def half_silent(world: World) -> None:
    world.create_again()
    world.brokers[1].deaf_to = {ApiKey.METADATA}


def one_broker_is_left(world: World) -> None:
    world.brokers[0].cluster_id = "new"


def flapping(world: World) -> None:
    world.brokers[0].flaps = True


ROUNDS = 40
"""In so many rounds, the time would be over."""


@pytest.mark.parametrize(
    ("change", "servers", "text"),
    [
        (no_id, 2, "does not say which cluster it belongs to"),
        (
            half_silent,
            2,
            "kproxy does not serve the new Kafka cluster yet (--accept-new-cluster-after): no answer from ",
        ),
        (one_broker_is_left, 1, "broker 2 of the former cluster still answers"),
        (flapping, 1, "another Kafka cluster (id newer) answers"),
    ],
)
def test_never_by_itself(
    world: World, change: Callable[[World], None], servers: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def scenario(running: App) -> None:
        change(world)
        until_asked = world.brokers[0].asked + ROUNDS
        while world.brokers[0].asked < until_asked:
            await comes(running)
        assert cluster(running).cluster_id == "old"

    world.run(scenario, AFTER, servers)
    assert text in caplog.text


def test_one_server_of_another_cluster_changes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(running: App) -> None:
        two_clusters(world)
        before = [behave.asked for behave in world.brokers]
        await comes(running)
        await until(
            lambda: all(behave.asked >= asked + 2 for behave, asked in zip(world.brokers, before, strict=True)),
            "the client has been there, and kproxy has asked both servers",
        )
        assert "it is another cluster (id new)" in caplog.text
        assert (cluster(running).cluster_id, cluster(running).problem) == ("old", None)
        assert running.not_ready() == []

    world.run(scenario, AFTER)


def test_never_while_a_session_of_the_former_cluster_is_answered(world: World) -> None:
    async def scenario(running: App) -> None:
        with client_of(running, "default", 1) as client:
            await works(client)
            world.create_again()  # new connections lead there
            await refused(running)
            until_asked = world.brokers[0].asked + ROUNDS
            while world.brokers[0].asked < until_asked:
                await works(client)
                await asyncio.sleep(0.01)
            assert cluster(running).cluster_id == "old"
        await until(lambda: cluster(running).cluster_id == "new", "kproxy serves the new one")

    world.run(scenario, AFTER)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("cluster-id: a\n", "cannot be combined with cluster-id"),
        ("reuse-port: true\nlisten: 127.0.0.1:19092\n", "cannot be combined with reuse-port"),
        ("active: a\nupstreams:\n  a: {bootstrap-servers: 'a:1'}\n  b: {bootstrap-servers: 'b:1'}\n", "with upstreams"),
    ],
)
def test_with_other_options(tmp_path: Path, options: str, text: str) -> None:
    file = tmp_path / "kproxy.yaml"
    servers = "" if "upstreams" in options else "bootstrap-servers: a:1\n"
    put(file, servers + AFTER + options)
    with pytest.raises(ConfigError, match=text):
        read({}, {}, file)
    put(file, servers + AFTER.replace("1s", "off") + options)
    assert read({}, {}, file).config.clusters[0].accept_new_cluster_after is None
