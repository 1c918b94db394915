"""Routes to nodes: which one is taken, what is said of the others. Brokers on sockets of this machine, made by hand."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.client.ask.channel import ConnectionChannel
from kproxy.config import ClusterConfig
from kproxy.config.values import Map
from kproxy.net.dial.routes import RouteKind
from kproxy.net.dial.stream import Stream
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest, read_versions_request
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.messages import encode_request
from kproxy.proxy.cluster import explorer, nodeverifier
from kproxy.proxy.cluster.nodedialer import Misrouted, NodeDialer
from kproxy.proxy.cluster.reachability import ExplorationState, Proof
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from tests.harness.servers import answers as answers_of_brokers
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Behaviour, closing, refused, saying, silent
from tests.unit.proxy.cluster.doorway import until
from tests.unit.proxy.cluster.site import Site, at, in_site, key, reaches

HTTP = saying(b"HTTP/1.1 400 Bad Request\r\n\r\n", first=False)


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with in_site() as site:
        yield site


async def verify(upstream: VerifiedConnection) -> None:
    """Verify the connection as within a session, once the client has logged in; close it."""
    assert upstream.verify is not None
    with upstream.sock:
        await upstream.verify(ConnectionChannel(Stream(upstream.sock)))


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_PAUSE", "_LONGEST_PAUSE", "_TRY_AGAIN", "_TRY_AGAIN_AT_MOST"):
        monkeypatch.setattr(explorer, name, 0.02)


# Which route


async def test_a_map_for_a_bootstrap_server(here: Site) -> None:
    """Its name resolves nowhere; what it leads to is also an address of the node that answers there."""
    one, one_at = here.broker(1)
    one.nodes = [(1, "b1.internal", 9093)]
    server = Address("seed.internal", 9092)
    reach = here.cluster(server, map=(Map.parse(f"seed.internal:9092={one_at}"),))
    await here.explorer.explore()
    assert (await reaches(reach, None)).dial == one_at
    upstream = await reaches(reach, 1)
    assert (upstream.dial, reach.reachability.of_node(key(1)).proof) == (one_at, Proof.OWN_WORD)
    assert reach.routes.unused_maps() == []
    without = ClusterConfig(bootstrap_servers=(server,), connect_timeout=0.5)
    affects = reach.reconfigure(without, None, 0.1)
    assert affects(None, one_at)
    with pytest.raises(UpstreamError, match=r"seed\.internal"):
        await reaches(reach, None)


async def test_a_broker_without_a_cluster_id_is_refused_if_required(here: Site) -> None:
    one, one_at = here.broker(1, None)
    one.nodes = at((1, one_at))
    reach = here.cluster(one_at, cluster_id="c")
    with pytest.raises(UpstreamError, match="does not say which cluster it belongs to"):
        await reach.verifier.identify_bootstrap(one_at, one_at.host)
    one.cluster_id = "c"
    assert (await reach.verifier.identify_bootstrap(one_at, one_at.host)).cluster_id == "c"


async def test_an_address_that_says_more_than_it_was_asked(here: Site) -> None:
    """What is left over would be taken for answers to the client's requests."""
    one, one_at, reach = here.one_broker()
    await here.explorer.explore()
    one.adds = b"\0\0\0\x04more"
    for node in (1, None):
        with pytest.raises(UpstreamError) as error:
            await reach.dial(None if node is None else key(node))
        assert str(one_at) in str(error.value)
    assert here.dials("1", "malformed") == 1


async def test_the_advertised_address_if_the_node_is_there(here: Site) -> None:
    one, one_at = here.broker(1)
    two, two_at = here.broker(2)
    one.nodes = two.nodes = at((1, one_at), (2, two_at))
    reach = here.cluster(one_at)
    await here.explorer.explore()
    for node, address in ((1, one_at), (2, two_at)):
        found = reach.reachability.of_node(key(node))
        assert found.route is not None
        assert (found.route.dial, found.route.kind, found.proof) == (address, RouteKind.ADVERTISED, Proof.OWN_WORD)
        await reaches(reach, node)
    assert reach.reachability.cluster_id == "c"


@pytest.mark.parametrize(
    ("behave", "reason", "words"),
    [
        pytest.param(HTTP, "upstream-speaks-http", "the server is a web server", id="http"),
        pytest.param(closing, "closed", "closed the connection without answering", id="closing"),
        pytest.param(silent, "timeout", "connected, but no Kafka broker answers there", id="silent"),
        pytest.param(saying(b"\0\0\0\4nope", first=False), "malformed", "not a Kafka broker", id="nonsense"),
        pytest.param(saying(b"\x7f" * 4096, first=False), "malformed", "not a Kafka broker", id="too large"),
        pytest.param(
            FakeBroker([(1, "x", 1)], cluster_id="other"), "wrong-cluster", "another cluster (id other)", id="cluster"
        ),
        pytest.param(
            FakeBroker([(1, "x", 1), (2, "x", 1)], "expected 2 or", cluster_id="c"),
            "wrong-node", "it is broker 2 of this cluster, not broker 1", id="node",
        ),
    ],
)  # fmt: skip
async def test_what_else_may_stand_at_the_advertised_address(
    here: Site, behave: Behaviour, reason: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named, and the bootstrap server that turned out to be the node is taken."""
    wrong_at = here.peer(behave)
    one, one_at = here.broker(1)
    two, two_at = here.broker(2)
    one.nodes = two.nodes = at((1, wrong_at), (2, two_at))
    reach = here.cluster(one_at)
    await here.explorer.explore()
    upstream = await reaches(reach, 1)
    assert upstream.verify is None
    found = reach.reachability.of_node(key(1))
    assert found.route is not None
    assert (found.route.dial, found.route.kind, found.problem) == (one_at, RouteKind.LEARNED, None)
    assert here.dials("1", reason) >= 1
    reach.routes = type(reach.routes)([])  # now without the bootstrap server
    reach.reachability.node_addresses.clear()
    reach._config = reach.verifier._config = ClusterConfig(bootstrap_servers=(two_at,), connect_timeout=0.5)
    with pytest.raises(
        UpstreamError, match="broker 2 of this cluster|" + words.replace("(", r"\(").replace(")", r"\)")
    ):
        await reaches(reach, 1)
    assert words in str(reach.reachability.problems[key(1)])
    assert reason not in ("wrong-cluster", "wrong-node") or any(words in r.getMessage() for r in caplog.records)


async def test_one_address_for_all_nodes_identifies_only_its_own(here: Site) -> None:
    one, one_at = here.broker(1)
    one.nodes = at((1, one_at), (2, one_at))
    reach = here.cluster(one_at)
    await here.explorer.explore()
    await reaches(reach, 1)
    with pytest.raises(UpstreamError, match="it is broker 1 of this cluster, not broker 2"):
        await reaches(reach, 2)


async def test_an_unverified_advertised_address_is_assumed_to_be_right(
    here: Site,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    one, one_at = here.broker(1, tells=False)
    with refused() as nobody:
        one.nodes = at((1, one_at), (2, Address.parse(nobody)))
        reach = here.cluster(one_at)
        await here.explorer.explore()
        assert reach.reachability.of_node(key(1)).proof is Proof.ASSUMED
        with pytest.raises(UpstreamError, match="cannot tell which broker it is: give the user DescribeConfigs"):
            await reaches(reach, 2)
    assert len([r for r in caplog.records if "kproxy assumes that" in r.getMessage()]) == 1


@pytest.mark.parametrize("cluster_id", [None, ""])
async def test_brokers_that_know_of_no_cluster_id(here: Site, cluster_id: str | None) -> None:
    one, one_at = here.broker(1, cluster_id)
    one.nodes = at((1, one_at))
    reach = here.cluster(one_at)
    await here.explorer.explore()
    await reaches(reach, 1)
    assert reach.reachability.cluster_id is None


# When it is asked


class Thrifty(FakeBroker):
    """Answers who is there when it has been asked who it is, too."""

    def answer(self, connection: socket.socket, request: bytes) -> bool:
        key = struct.unpack_from(">h", request)[0]
        if key == ApiKey.METADATA:
            self.kept = request
            return True
        return (key != ApiKey.DESCRIBE_CONFIGS or super().answer(connection, self.kept)) and super().answer(
            connection, request
        )


async def test_every_connection_is_asked_in_one_round_trip(here: Site) -> None:
    one = Thrifty(refusal="expected 1 or empty", cluster_id="c")
    one_at = here.peer(one)
    one.nodes = at((1, one_at), (2, one_at))
    reach = here.cluster(one_at)
    await here.explorer.explore()
    asked = one.asked
    await reaches(reach, 1)
    await reaches(reach, None)
    assert one.asked == asked + 2


async def test_a_cluster_that_is_replaced_while_nobody_is_connected(here: Site) -> None:
    one, _one_at, reach = here.one_broker()
    await here.explorer.explore()
    await reaches(reach, 1)
    one.cluster_id = "another"
    for node in (1, None):
        with pytest.raises(UpstreamError, match=r"another cluster \(id another\)"):
            await reaches(reach, node)


async def test_the_user_says_which_cluster_it_is(here: Site) -> None:
    one, one_at = here.broker(1, "another")
    one.nodes = at((1, one_at))
    reach = here.cluster(one_at, cluster_id="the-right-one")
    exploring = here.tasks.create_task(here.explorer.explore())
    await reach.bootstrap_asked.wait()
    text = (
        f"{one_at} answers, but it is another cluster (id another): kproxy serves the cluster with the id the-right-one"
    )
    assert reach.reachability.exploration.problem == f"{text}, as --cluster-id says"
    with pytest.raises(UpstreamError, match="as --cluster-id says"):
        await reaches(reach, None)
    one.cluster_id = "the-right-one"
    await exploring
    await reaches(reach, 1)


async def test_identity_in_the_session_if_only_clients_can_log_in(here: Site) -> None:
    """Two bootstrap servers, each the other's node as far as anybody knows: two attempts, and all is known."""
    one, one_at = here.broker(1)
    two, two_at = here.broker(2)
    with refused() as nobody:
        advertised = Address.parse(nobody)
        one.nodes = two.nodes = at((1, advertised), (2, advertised))
        login = {ApiKey.METADATA}
        for broker in (one, two):
            broker.deaf_to = login
        reach = here.cluster(two_at, one_at)
        exploring = here.tasks.create_task(here.explorer.explore())
        await reach.searched.wait()
        assert reach.verifier.verifies_in_session
        upstream = await reach.dial(None)
        login.clear()  # the client has logged in
        here.learn(named_by(one))
        await exploring
        await verify(upstream)
        assert [str(one.address) for one in reach.reachability.addresses_of(key(2))] == [str(two_at)]
        upstream = await reach.dial(key(1))
        await verify(upstream)
        assert reach.reachability.of_node(key(1)).proof is Proof.OWN_WORD


def named_by(broker: FakeBroker) -> Endpoints:
    return Endpoints(tuple(_endpoints(broker)), complete=True)


def _endpoints(broker: FakeBroker) -> list[Endpoint]:
    return [Endpoint(NodeKind.BROKER, node, Address(host, port)) for node, host, port in broker.nodes]


async def test_a_bootstrap_server_of_another_cluster_is_skipped(here: Site) -> None:
    other, other_at = here.broker(1, "other")
    one, one_at = here.broker(1)
    one.nodes = other.nodes = at((1, one_at))
    login = {ApiKey.METADATA}
    one.deaf_to = other.deaf_to = login
    reach = here.cluster(other_at, one_at, cluster_id="c")
    here.tasks.create_task(here.explorer.explore())
    await reach.searched.wait()
    login.clear()
    upstream = await reach.dial(None)
    with pytest.raises(UpstreamError, match=r"another cluster \(id other\)"):
        await verify(upstream)
    upstream = await reach.dial(None)  # the client comes again
    await verify(upstream)


# Exploring


async def test_bootstrap_servers_of_different_clusters_serve_no_client(here: Site) -> None:
    one, one_at = here.broker(1)
    other, other_at = here.broker(1, "other")
    one.nodes = other.nodes = at((1, one_at))
    reach = here.cluster(one_at, other_at)
    async with asyncio.timeout(30):
        exploring = here.tasks.create_task(here.explorer.explore())
        await reach.bootstrap_asked.wait()
        text = f"{one_at} (cluster id c), {other_at} (cluster id other); list those of one cluster only"
        with pytest.raises(UpstreamError) as error:
            await reach.dial(None)
        assert text in str(error.value)
        assert text in str(reach.reachability.exploration.problem)
        other.cluster_id = "c"
        await exploring
    assert reach.reachability.exploration == ExplorationState(
        bootstrap_asked=True, answered=True, searched=True, problem=None
    )
    await reaches(reach, None)


async def test_a_silent_bootstrap_server_holds_nobody_up_for_long(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "_OTHERS_MAY_TAKE", 0.05)
    one, one_at = here.broker(1)
    one.nodes = at((1, one_at))
    reach = here.cluster(here.peer(silent), one_at)
    await here.explorer.explore()
    assert reach.reachability.exploration.answered
    assert reach.reachability.bootstrap_index == 1  # it begins with the one that answers


async def test_a_node_that_comes_back_is_found_in_the_background(here: Site) -> None:
    one, one_at = here.broker(1)
    two, two_at = here.broker(2)
    with refused() as nobody:
        one.nodes = at((1, one_at), (2, Address.parse(nobody)))
        reach = here.cluster(one_at)
        await here.explorer.explore()
        assert key(2) in reach.reachability.problems
        watching = here.tasks.create_task(here.explorer.retry_nodes())
        one.nodes = two.nodes = at((1, one_at), (2, two_at))
        here.learn(named_by(one))
        async with asyncio.timeout(30):
            while reach.reachability.problems:  # noqa: ASYNC110  # the outcome has no event
                await asyncio.sleep(0.01)
        watching.cancel()


async def test_a_node_that_comes_back_is_found_although_no_client_asks(here: Site) -> None:
    one, one_at = here.broker(1)
    two, two_at = here.broker(2)
    one.nodes = two.nodes = at((1, one_at), (2, two_at))
    reach = here.cluster(one_at)
    await here.explorer.explore()
    watching = here.tasks.create_task(here.explorer.retry_nodes())
    one.nodes = at((1, one_at))
    list(here.learn(named_by(one)))
    absent = here.topology.nodes[key(2)]
    assert absent.absent_since is not None
    asked = one.asked
    async with asyncio.timeout(30):
        while one.asked < asked + 2:  # noqa: ASYNC110  # the outcome has no event
            await asyncio.sleep(0.01)
        assert absent.absent_since is not None
        one.nodes = two.nodes
        while absent.absent_since is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not reach.reachability.problems
    watching.cancel()


async def test_absent_nodes_are_left_to_the_clients_where_only_they_can_log_in(here: Site) -> None:
    one, one_at = here.broker(1)
    two, two_at = here.broker(2)
    one.nodes = two.nodes = at((1, one_at), (2, two_at))
    one.deaf_to = two.deaf_to = {ApiKey.METADATA}
    reach = here.cluster(one_at)
    exploring = here.tasks.create_task(here.explorer.explore())
    await reach.searched.wait()
    list(here.learn(named_by(one)))
    await exploring
    one.nodes = at((1, one_at))
    list(here.learn(named_by(one)))
    received = len(one.received)
    watching = here.tasks.create_task(here.explorer.retry_nodes())
    await asyncio.sleep(0.2)  # ten rounds, in which nothing may come
    assert len(one.received) == received
    watching.cancel()


@pytest.mark.parametrize("wrong", [True, False])
async def test_no_more_is_said_than_a_connection_shows(
    here: Site, wrong: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the client has credentials. What accepts connections at the node's address may be another broker, as a
    client's session has shown: each new connection there says nothing new."""
    caplog.set_level(logging.INFO)
    one, one_at = here.broker(1)
    two, two_at = here.broker(1 if wrong else 2)
    with refused() as nobody:
        at_first = two_at if wrong else Address.parse(nobody)
        one.nodes = two.nodes = at((1, one_at), (2, at_first))
        one.deaf_to = two.deaf_to = login = {ApiKey.METADATA}
        reach = here.cluster(one_at)
        exploring = here.tasks.create_task(here.explorer.explore())
        await reach.searched.wait()
        reach.verifier._identified_at[one_at] = float("inf")  # it is no candidate for node 2
        list(here.learn(named_by(one)))
        await exploring
        if wrong:
            upstream = await reach.dial(key(2))
            login.clear()  # the client has logged in
            with pytest.raises(UpstreamError, match="it is broker 1 of this cluster"):
                await verify(upstream)
            login.add(ApiKey.METADATA)
        assert key(2) in reach.reachability.problems
        one.nodes = two.nodes = at((1, one_at), (2, two_at))
        watching = here.tasks.create_task(here.explorer.retry_nodes())
        list(here.learn(named_by(one)))
        async with asyncio.timeout(30):
            while reach.reachability.problems:  # noqa: ASYNC110  # the outcome has no event
                await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        watching.cancel()
    assert "can be reached again" not in caplog.text
    assert ("accepts connections again" in caplog.text) != wrong


async def test_a_bootstrap_server_that_led_elsewhere_is_tried_again(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port-forward that was mixed up is mended, and kproxy is not told."""
    one, one_at = here.broker(1)
    two, two_at = here.broker(2)
    with refused() as nobody:
        one.nodes = two.nodes = at((1, Address.parse(nobody)), (2, Address.parse(nobody)))
        reach = here.cluster(one_at, two_at)
        await here.explorer.explore()
        await reaches(reach, 2)
        right, two.refusal = two.refusal, one.refusal
        with pytest.raises(UpstreamError, match="it is broker 1 of this cluster, not broker 2"):
            await reaches(reach, 2)
        two.refusal = right
        asked = two.asked
        with pytest.raises(UpstreamError):  # not again and again
            await reaches(reach, 2)
        assert two.asked == asked
        now = nodeverifier.monotonic()
        monkeypatch.setattr(nodeverifier, "monotonic", lambda: now + 6)
        await reaches(reach, 2)


async def test_a_node_that_is_forgotten_meanwhile_is_out_of_reach(here: Site) -> None:
    _one, _one_at, reach = here.one_broker()
    await here.explorer.explore()
    here.topology.nodes.clear()
    with pytest.raises(UpstreamError, match="no longer in the metadata"):
        await reaches(reach, 1)


@pytest.mark.parametrize("times", [1, 30])
async def test_many_at_once_find_the_same(here: Site, times: int) -> None:
    _one, _one_at, reach = here.one_broker()
    await asyncio.gather(here.explorer.explore(), *(reaches(reach, None) for _ in range(times)))
    found = await asyncio.gather(*(reaches(reach, 1) for _ in range(times)))
    assert all(upstream.verify is None for upstream in found)


async def test_clients_begin_with_the_server_that_worked_last(here: Site) -> None:
    one, one_at = here.broker(1)
    one.nodes = at((1, one_at))
    with refused() as nobody:
        reach = here.cluster(Address.parse(nobody), one_at)
        reach.bootstrap_asked.set()
        for _ in range(2):
            await reaches(reach, None)
            assert here.dials("bootstrap", "refused") == 1


async def test_a_node_out_of_reach_at_the_start_is_tried_again(here: Site) -> None:
    """Once the search for routes is over, which may have found another one."""
    one, one_at = here.broker(1)
    one.nodes = at((1, one_at))
    with refused() as nobody:
        reach = here.cluster(one_at)
        here.learn(Endpoints((Endpoint(NodeKind.BROKER, 1, Address.parse(nobody)),), complete=True))
        reach.bootstrap_asked.set()
        dialling = here.tasks.create_task(reaches(reach, 1))
        await until(lambda: here.dials("1", "refused"), "it was tried")
        here.learn(Endpoints((Endpoint(NodeKind.BROKER, 1, one_at),), complete=True))
        reach.searched.set()
        assert (await dialling).key == key(1)


# Brokers of Kafka 4.4, which confirm their node


VERSIONS_REQUEST = encode_request(18, 3, 77, {"ClientSoftwareName": b"x", "ClientSoftwareVersion": b"1"})


def asking(frame: bytes = VERSIONS_REQUEST) -> VersionsRequest:
    request = read_versions_request(frame)
    assert request is not None
    return request


async def new_brokers(here: Site, count: int = 2) -> tuple[list[FakeBroker], list[Address], NodeDialer]:
    """Brokers of Kafka 4.4 behind port-forwards in another order, which kproxy knows."""
    brokers, addresses = zip(*[here.broker(node, tells=False) for node in range(1, count + 1)], strict=True)
    for node, broker in enumerate(brokers, 1):
        broker.be_new(node)
        broker.nodes = [(number, "nowhere.invalid", 9092) for number in range(1, count + 1)]
    reach = here.cluster(*reversed(addresses))
    await here.explorer.explore()
    for broker in brokers:
        broker.received.clear()
    return list(brokers), list(addresses), reach


async def test_the_request_of_a_client_verifies_its_connection(here: Site) -> None:
    """No request of kproxy's own goes in front of it, and none follows."""
    brokers, addresses, reach = await new_brokers(here)
    for node in (1, 2):
        assert reach.reachability.of_node(key(node)).proof is Proof.CONFIRMED
        upstream = await reach.dial(key(node), asking())
        upstream.sock.close()
        assert upstream.dial == addresses[node - 1]
        assert brokers[node - 1].received == [(18, 5)]
        assert upstream.answer == brokers[node - 1].checks("c", node)  # type: ignore[misc]


async def test_a_client_that_asks_for_something_else_first(here: Site) -> None:
    """Its request waits for one answer."""
    brokers, _, reach = await new_brokers(here)
    upstream = await reaches(reach, 1)
    assert (upstream.answer, brokers[0].received) == (b"", [(18, 5)])


async def test_of_a_bootstrap_server_its_last_node_is_asked(here: Site) -> None:
    brokers, addresses, reach = await new_brokers(here)
    upstream = await reach.dial(None, asking())
    upstream.sock.close()
    assert (upstream.dial, brokers[1].received) == (addresses[1], [(18, 5)])


async def test_a_bootstrap_server_that_is_a_load_balancer(here: Site) -> None:
    """The cluster is the right one, the node another each time: that is not guessed again and again."""
    brokers, _, reach = await new_brokers(here)
    brokers[1].checks = brokers[0].checks
    for _ in range(3):
        upstream = await reach.dial(None, asking())
        upstream.sock.close()
        assert upstream.answer == b""
    assert brokers[1].received.count((18, 5)) == 1


async def test_a_node_that_is_another_now_is_reached_along_the_next_route(here: Site) -> None:
    """Port-forwards that change places: the message says which node is there, and no right was needed."""
    brokers, addresses, reach = await new_brokers(here)
    assert reach.reachability.node_addresses[addresses[0]].key == key(1)
    brokers[0].checks, brokers[1].checks = brokers[1].checks, brokers[0].checks
    now = nodeverifier.monotonic() + 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodeverifier, "monotonic", lambda: now)
        upstream = await reach.dial(key(1), asking())
    upstream.sock.close()
    assert upstream.dial == addresses[1]
    assert reach.reachability.node_addresses[addresses[0]].key == key(2)


async def test_a_broker_that_refuses_and_says_no_more(here: Site) -> None:
    """A topic-only user: kproxy knows that it is not the node, and does not assume that it is."""
    brokers, addresses, _ = await new_brokers(here)
    reach = here.cluster(addresses[0], map=(Map.parse(f"node:1={addresses[0]}"),))
    await here.explorer.explore()
    assert (await reaches(reach, 1)).dial == addresses[0]
    brokers[0].be_new(9)
    with pytest.raises(UpstreamError, match="it refuses to be broker 1") as error:
        await reach.dial(key(1), asking())
    assert error.value.reason == "wrong-node"


async def test_another_cluster_that_is_there_now(here: Site) -> None:
    brokers, _, reach = await new_brokers(here)
    brokers[0].cluster_id = "other"
    with pytest.raises(UpstreamError, match=r"it is another cluster \(id other\)"):
        await reach.dial(key(1), asking())


@pytest.mark.parametrize(("cluster_id", "node_id"), [("c", 2), ("other", 1)])
async def test_a_client_that_expects_something_else_is_misrouted(here: Site, cluster_id: str, node_id: int) -> None:
    """No broker is asked."""
    brokers, _, reach = await new_brokers(here)
    request = asking(VersionsRequest.named(b"x").addressed_to(cluster_id, node_id))
    with pytest.raises(Misrouted, match=f"the client expects node {node_id} of cluster {cluster_id}"):
        await reach.dial(key(1), request)
    assert brokers[0].received == []
    assert reach.reachability.of_node(key(1)).problem is None


async def test_a_client_that_expects_the_right_node(here: Site) -> None:
    brokers, _, reach = await new_brokers(here)
    upstream = await reach.dial(key(1), asking(VersionsRequest.named(b"x").addressed_to("c", 1)))
    upstream.sock.close()
    assert upstream.answer == brokers[0].checks("c", 1)  # type: ignore[misc]


async def test_at_a_bootstrap_server_only_the_broker_judges_what_a_client_expects(here: Site) -> None:
    _, _, reach = await new_brokers(here)
    upstream = await reach.dial(None, asking(VersionsRequest.named(b"x").addressed_to("c", 1)))
    upstream.sock.close()
    assert upstream.answer == b""


# Brokers that offer it and answer otherwise


def spoil(broker: FakeBroker, fault: str) -> None:
    checks = broker.checks
    assert checks is not None

    def silence(cluster_id: str, node_id: int) -> bytes:
        threading.Event().wait(1.0)  # longer than kproxy waits here
        return checks(cluster_id, node_id)

    answers: dict[str, Callable[[str, int], bytes | None]] = {
        "closes": lambda cluster_id, node_id: None,
        "is silent": silence,
        "another id": checks,
        "too long": lambda cluster_id, node_id: bytes(5 * 1024 * 1024),
        "an error": lambda cluster_id, node_id: b"\0\x2a\1" + bytes(5),
        "version 0": lambda cluster_id, node_id: answers_of_brokers.versions(broker.serves),
        "older": lambda cluster_id, node_id: b"\0\x23" + answers_of_brokers.versions({18: (0, 4)})[2:],
        "cut": lambda cluster_id, node_id: (checks(cluster_id, node_id) or b"")[:-1],
        "any node": lambda cluster_id, node_id: checks("c", 1),
    }
    broker.checks, broker.skew = answers[fault], 7 if fault == "another id" else 0


@pytest.mark.parametrize(
    "fault",
    ["closes", "is silent", "another id", "too long", "an error", "version 0", "older", "cut", "any node"],
)
async def test_a_broker_that_answers_the_check_oddly_is_asked_otherwise(
    here: Site, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it did so from the start, or only later; and it is named once."""
    for late in (False, True):
        broker, address = here.broker(1)
        broker.be_new(1)
        broker.nodes = [*at((1, address)), (2, "nowhere.invalid", 9092)]
        if not late:
            spoil(broker, fault)
        reach = here.cluster(address, connect_timeout=0.5 if fault == "is silent" else 5.0)
        await here.explorer.explore()
        if late:
            spoil(broker, fault)
        for _ in range(3):
            with contextlib.suppress(UpstreamError):  # of a silent one, the first attempts
                (await reach.dial(key(1), asking())).sock.close()
        upstream = await reach.dial(key(1), asking())
        upstream.sock.close()
        if not late or fault != "any node":  # its software has refused before
            assert upstream.answer == b""
            assert reach.reachability.of_node(key(1)).proof is Proof.OWN_WORD
        named = [record for record in caplog.records if "does not believe" in record.getMessage()]
        assert len(named) == (fault != "older" and not (late and fault == "any node")), caplog.text
        caplog.clear()
