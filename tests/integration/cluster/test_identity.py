"""kproxy knows whom it has reached: real brokers, addresses that lead elsewhere, users with few rights.

The brokers of `guarded` have three listeners for clients. CLIENT wants a login, and its names resolve nowhere. LIES is
advertised at 127.0.0.1, on ports where the tests put what they like: a broker's node id is that port.
SHARED is advertised at one and the same address by all of them.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
)

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster, ListenerSpec
from tests.harness import acls
from tests.harness.clients.rawclient import API_VERSIONS, RawClient
from tests.harness.process import Kproxy, free_window, wait_logged, wait_until
from tests.harness.servers import peers
from tests.harness.servers.peers import Peer, Road
from tests.harness.topics import consumer, create_topic, produce, read_topic, unique, values

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]

CREATE_TOPICS, DESCRIBE_CONFIGS = 19, 32
ADMIN, TOPIC_USER, GROUP_USER, NOBODY = "admin", "topic-user", "group-user", "nobody"
_COMING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR
)  # fmt: skip
CONFIRMED = "the broker confirms its cluster and node"
PASSWORD = f"secret-{uuid4().hex}"
RECORDS = [b"record-%d" % number for number in range(5)]


@pytest.fixture(scope="module")
def shared_port() -> int:
    return free_window(1)


@pytest.fixture(scope="module")
def guarded(shared_port: int) -> Iterator[DevCluster]:
    """Three brokers that know rights. Whoever comes without a login, as the brokers do, may do everything."""
    with ExitStack() as held:
        yield start_guarded(held, shared_port, DEFAULT_VERSION)


@pytest.fixture(scope="module")
def older(shared_port: int) -> Iterator[DevCluster]:
    """The same before Kafka 4.4: brokers that do not say whether they are a certain node."""
    with ExitStack() as held:
        yield start_guarded(held, shared_port, "4.3.1")


def start_guarded(held: ExitStack, shared_port: int, version: str) -> DevCluster:
    first = free_window(3, avoid=range(shared_port, shared_port + 1))
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in (ADMIN, TOPIC_USER, GROUP_USER, NOBODY))
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    }
    made = DevCluster(
        brokers=[first, first + 1, first + 2],
        version=version,
        client_protocol="SASL_PLAINTEXT",
        extra_listeners=[
            ListenerSpec("LIES", advertised="127.0.0.1:{id}"),
            ListenerSpec("SHARED", advertised=f"127.0.0.1:{shared_port}"),
        ],
        properties={
            **rights,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
        },
        controller_properties=rights,
    )
    held.enter_context(made)
    topic = create_topic(made.direct_bootstrap, 6)
    with consumer(made.direct_bootstrap, group_id="a-group") as member:
        for partition in range(6):
            wait_until(partial(commits, member, TopicPartition(topic, partition, 0)), "the coordinator is ready")
    may = [
        (ResourceType.TOPIC, topic, TOPIC_USER, AclOperation.ALL),
        (ResourceType.GROUP, "*", GROUP_USER, AclOperation.DESCRIBE),
    ]
    acls.allow(made.direct_bootstrap, [acls.right(user, kind, name, what) for kind, name, user, what in may])
    made.topic = topic  # type: ignore[attr-defined]
    return made


def commits(member: Consumer, position: TopicPartition) -> bool:
    """False while the brokers of a young cluster still load the positions of groups."""
    try:
        member.commit(offsets=[position], asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in _COMING:
            raise
        return False
    return True


def lies(guarded: DevCluster) -> dict[int, str]:
    """Node id → where its listener really is that advertises 127.0.0.1."""
    return {node: str(address) for node, address in guarded.listener("LIES").items()}


def own_id(address: str) -> int | None:
    """Which broker answers there, in its own word; None if the connection is closed instead."""
    nobody = b"2147483647"
    body = struct.pack(">ibh", 1, 4, len(nobody)) + nobody + struct.pack(">ib", 0, 0)
    try:
        with RawClient(address) as client:
            answer = client.ask(DESCRIBE_CONFIGS, 1, body)
    except (EOFError, ConnectionError):
        return None
    (length,) = struct.unpack_from(">h", answer, 10)
    return int(answer[12 : 12 + length].split(b", expected ")[1].split()[0])


def records_of(cluster: DevCluster, topic: str, partitions: int = 3) -> list[bytes]:
    return sorted(values(read_topic(cluster.direct_bootstrap, topic, partitions)))


# Addresses that lead elsewhere


@pytest.fixture
def roads(guarded: DevCluster) -> Iterator[dict[int, Road]]:
    """What stands at each advertised address of LIES: at first the broker itself."""
    with ExitStack() as held:
        yield {
            node: held.enter_context(Road(lambda address=address: address, port=node))  # type: ignore[misc]
            for node, address in lies(guarded).items()
        }


def test_the_peer_at_an_advertised_address_may_be_another_node(
    guarded: DevCluster, cluster: DevCluster, own_kproxy: Start
) -> None:
    """On this machine there are another Kafka, a web server and another broker, where the brokers say that they are."""
    another, web, wrong = guarded.node_ids
    addresses = lies(guarded)
    topic = create_topic(guarded.direct_bootstrap)
    in_the_other = create_topic(cluster.direct_bootstrap)
    with (
        Road(lambda: str(cluster.dial[1]), port=another),
        Peer(peers.saying(b"HTTP/1.1 400 Bad Request\r\n\r\n", first=False), port=web),
        Road(lambda: addresses[another], port=wrong),
    ):
        proxy = own_kproxy(",".join(reversed(addresses.values())))
        for node in guarded.node_ids:
            assert (proxy.node(node)["dial"], proxy.node(node)["route"]) == (addresses[node], "learned")
            assert proxy.node(node)["proof"] == CONFIRMED
            assert own_id(proxy.node(node)["local"]) == node
        for node, words in (
            (
                another,
                f"answers, but it is another cluster (id {cluster.cluster_id}): kproxy serves the cluster with the id",
            ),
            (wrong, f"answers, but it is broker {another} of this cluster, not broker {wrong}"),
        ):
            wait_logged(proxy, f"127.0.0.1:{node} {words}")
        wait_logged(proxy, guarded.cluster_id)
        produce(proxy.bootstrap, topic, RECORDS)
    assert records_of(guarded, topic) == sorted(RECORDS)
    assert records_of(cluster, in_the_other) == []


def test_a_node_behind_a_wrong_address_is_out_of_reach(
    guarded: DevCluster, cluster: DevCluster, own_kproxy: Start, tmp_path: Path
) -> None:
    """With one bootstrap server there is no other way; /readyz, the log and `kproxy wait` name all that are missing."""
    here, web, wrong = guarded.node_ids
    addresses = lies(guarded)
    with (
        Peer(peers.saying(b"HTTP/1.1 400 Bad Request\r\n\r\n", first=False), port=web),
        Road(lambda: str(cluster.dial[1]), port=wrong),
        Road(lambda: addresses[here], port=here),
    ):
        proxy = own_kproxy(addresses[here])
        missing = [
            f"cluster default: broker {web} (127.0.0.1:{web}) cannot be reached: 127.0.0.1:{web}: the broker's side"
            " spoke HTTP",
            f"cluster default: broker {wrong} (127.0.0.1:{wrong}) cannot be reached: 127.0.0.1:{wrong} answers, but it"
            f" is another cluster (id {cluster.cluster_id})",
            f"Say where each of them is: --map 'node:{web}=HOST:PORT' --map 'node:{wrong}=HOST:PORT'",
        ]
        code, said = proxy.get("/readyz")
        assert (code, said.splitlines()[0]) == (200, "ok")
        assert all(text in said for text in missing), said
        wait_until(lambda: "ready with 1 of 3 nodes (--ready-requires one)" in proxy.log, "the log says how ready")
        code, said = proxy.get("/readyz?requires=all")
        assert code == 503
        assert all(text in said for text in missing), said
        done = subprocess.run(
            [sys.executable, "-m", "kproxy", "wait", "--admin", proxy.admin, "--timeout", "0s"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1
        assert all(text in done.stderr for text in missing), done.stderr
        for node in (web, wrong):
            assert own_id(proxy.node(node)["local"]) is None
        assert own_id(proxy.node(here)["local"]) == here
    # Whoever mends it need not restart kproxy.
    with Road(lambda: addresses[web], port=web), Road(lambda: addresses[wrong], port=wrong):
        wait_until(lambda: proxy.get("/readyz?requires=all")[0] == 200, "all nodes are reachable")
        wait_logged(proxy, "can be reached again")
        assert own_id(proxy.node(web)["local"]) == web


def test_a_broker_that_is_replaced_by_one_of_another_cluster(
    guarded: DevCluster, cluster: DevCluster, own_kproxy: Start, roads: dict[int, Road]
) -> None:
    """A producer that goes on meanwhile: not one record goes to the other cluster, all arrive when the broker is back.
    Clients that come while nobody is connected are asked to wait just as well."""
    addresses, first = lies(guarded), guarded.node_ids[0]
    topic = create_topic(guarded.direct_bootstrap, 1)
    create_named(cluster, topic)  # so that a record would find a place there
    for at in cluster.node_ids:
        admin = AdminClient({"bootstrap.servers": str(cluster.listener("INTERNAL")[at])})
        wait_until(lambda admin=admin: topic in admin.list_topics(timeout=30).topics, f"broker {at} knows the topic")  # type: ignore[misc]
    proxy = own_kproxy(addresses[first])
    sent: list[bytes] = []
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "enable.idempotence": True})

    def send(*, now: bool) -> None:
        sent.append(b"record-%d" % len(sent))
        producer.produce(topic, sent[-1], on_delivery=lambda error, _: failed.append(str(error)) if error else None)
        if now:
            assert producer.flush(60) == 0

    send(now=True)
    for road in roads.values():
        road.lead(lambda: str(cluster.dial[1]))
    send(now=False)
    wait_until(lambda: f"it is another cluster (id {cluster.cluster_id})" in proxy.log, "kproxy has noticed")
    for node in guarded.node_ids:  # whoever comes now, alone
        assert own_id(proxy.node(node)["local"]) is None or proxy.node(node)["dial"] == addresses[first]
    for node, road in roads.items():
        road.lead(lambda node=node: addresses[node])  # type: ignore[misc]
    send(now=True)
    assert not failed
    assert [message.value() for message in read_topic(guarded.direct_bootstrap, topic, 1)] == sent
    assert records_of(cluster, topic, 1) == []


def create_named(cluster: DevCluster, topic: str) -> None:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def test_nobody_is_connected_while_it_is_replaced(
    guarded: DevCluster, cluster: DevCluster, own_kproxy: Start, roads: dict[int, Road]
) -> None:
    """What was known a moment ago does not vouch for who is there now."""
    node = guarded.node_ids[1]
    proxy = own_kproxy(lies(guarded)[guarded.node_ids[0]])
    assert own_id(proxy.node(node)["local"]) == node
    roads[node].lead(lambda: str(cluster.dial[1]))
    assert own_id(proxy.node(node)["local"]) is None
    roads[node].lead(lambda: lies(guarded)[guarded.node_ids[2]])
    assert own_id(proxy.node(node)["local"]) is None
    wait_logged(proxy, f"it is broker {guarded.node_ids[2]} of this cluster, not broker {node}")


def test_an_address_that_turns_into_a_listener_with_a_login(
    guarded: DevCluster, own_kproxy: Start, roads: dict[int, Road]
) -> None:
    """Before the login, such a listener confirms any cluster and node. It executes nothing, and is found out."""
    first, node, other = guarded.node_ids
    proxy = own_kproxy(lies(guarded)[first])
    local, topics = proxy.node(node)["local"], [unique("hole"), unique("hole"), unique("executed")]
    with RawClient(local) as client:
        assert client.works()
    roads[node].lead(lambda: str(guarded.dial[other]))
    with RawClient(local) as client:
        assert client.works()  # the listener confirms what it does not know
        client.send(*create_request(topics[0]))
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()
    with RawClient(local) as client:  # kproxy asks for more than a confirmation
        client.send(API_VERSIONS, 0)
        client.send(*create_request(topics[1]))
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()
    roads[node].lead(lambda: lies(guarded)[node])
    wait_until(lambda: own_id(local) == node, "the node is reached again")
    with RawClient(local) as client:
        assert client.works()
        client.ask(*create_request(topics[2]))
    admin = AdminClient({"bootstrap.servers": guarded.direct_bootstrap})
    wait_until(lambda: topics[2] in admin.list_topics(timeout=30).topics, "a request that passes is executed")
    assert not {*topics[:2]} & admin.list_topics(timeout=30).topics.keys()


def create_request(topic: str) -> tuple[int, int, bytes]:
    """CreateTopics v2: one partition, one replica."""
    body = struct.pack(">ih", 1, len(topic)) + topic.encode() + struct.pack(">ihii", 1, 1, 0, 0)
    return CREATE_TOPICS, 2, body + struct.pack(">ib", 30_000, 0)


def test_brokers_that_all_advertise_one_address(guarded: DevCluster, own_kproxy: Start, shared_port: int) -> None:
    """Behind it a load balancer: whoever connects to a node's port meets that node or nobody."""
    brokers = itertools.cycle([str(address) for address in guarded.listener("SHARED").values()])
    with Road(lambda: next(brokers), port=shared_port) as balancer:
        proxy = own_kproxy(balancer.address, "--ready-requires", "none")
        wait_until(lambda: len(proxy.status()["nodes"]) == 3, "the nodes are known")
        for node in guarded.node_ids:
            local = proxy.node(node)["local"]
            met = {own_id(local) for _ in range(12)}
            assert met <= {node, None}
            assert node in met
            with ExitStack() as held:  # and several at once: one does not vouch for the next
                clients = [held.enter_context(RawClient(local)) for _ in range(6)]
                for client in clients:
                    client.works()
                met = {own_id(local) for _ in range(6)}
            assert met <= {node, None}


def test_bootstrap_servers_of_different_clusters(
    guarded: DevCluster, cluster: DevCluster, own_kproxy: Start, roads: dict[int, Road]
) -> None:
    one, other = lies(guarded)[guarded.node_ids[0]], str(cluster.dial[2])
    proxy = own_kproxy(f"{one},{other}", ready=False)
    words = (
        f"the bootstrap servers belong to different clusters: {one} (cluster id {guarded.cluster_id}), {other} "
        f"(cluster id {cluster.cluster_id}); list those of one cluster only"
    )
    wait_until(lambda: words in proxy.get("/readyz")[1], "/readyz says so")
    assert proxy.get("/readyz")[0] == 503
    wait_logged(proxy, words)
    with RawClient(proxy.bootstrap) as client:
        assert not client.works()
    assert proxy.process.poll() is None


# Users with few rights


@pytest.fixture
def logging_in(own_kproxy: Start, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kproxy]:
    monkeypatch.setenv("KPROXY_SASL_PASSWORD", PASSWORD)

    def start(cluster: DevCluster, user: str, *args: str, ready: bool = True) -> Kproxy:
        servers = ",".join(reversed(cluster.bootstrap.split(",")))
        return own_kproxy(servers, "--sasl", "PLAIN", "--sasl-username", user, *args, ready=ready)

    return start


@pytest.mark.parametrize(
    ("user", "proof"),
    [
        (ADMIN, "the broker says so"),
        (TOPIC_USER, "it leads partitions of that node"),
        (GROUP_USER, "it coordinates groups of that node"),
    ],
)
def test_which_broker_is_which_is_found_out_with_few_rights(
    older: DevCluster, logging_in: Callable[..., Kproxy], user: str, proof: str
) -> None:
    proxy = logging_in(older, user)
    found = {node["id"]: (node["dial"], node["proof"]) for node in proxy.status()["nodes"]}
    if user == GROUP_USER:  # one group has one coordinator; the other two stay unknown
        assert sum(found == (str(older.dial[node]), proof) for node, found in found.items()) == 1
    else:
        assert found == {node: (str(dial), proof) for node, dial in older.dial.items()}
        assert proxy.get("/readyz?requires=all")[0] == 200


@pytest.mark.parametrize("user", [ADMIN, NOBODY])
def test_since_kafka_4_4_a_user_needs_no_right_for_it(
    guarded: DevCluster, logging_in: Callable[..., Kproxy], user: str
) -> None:
    proxy = logging_in(guarded, user)
    found = {node["id"]: (node["dial"], node["proof"]) for node in proxy.status()["nodes"]}
    assert found == {node: (str(dial), CONFIRMED) for node, dial in guarded.dial.items()}
    assert proxy.get("/readyz?requires=all")[0] == 200


def test_where_nothing_tells_the_message_says_which_right_would(
    older: DevCluster, logging_in: Callable[..., Kproxy]
) -> None:
    proxy = logging_in(older, NOBODY, ready=False)
    words = (
        "answers, but kproxy cannot tell which broker it is: give the user DescribeConfigs on the cluster, or Describe"
    )
    wait_until(lambda: words in proxy.get("/readyz")[1], "/readyz says so")
    wait_logged(proxy, "or set --map node:")
    proxy.stop()
    maps = [word for node, dial in older.dial.items() for word in ("--map", f"node:{node}={dial}")]
    proxy = logging_in(older, NOBODY, *maps)
    assert {node["proof"] for node in proxy.status()["nodes"]} == {"assumed"}
    wait_logged(proxy, "kproxy assumes that")
    wait_logged(proxy, "To let kproxy check, give the user DescribeConfigs on the cluster")


def test_a_map_that_leads_to_another_broker_is_found_out(
    guarded: DevCluster, logging_in: Callable[..., Kproxy]
) -> None:
    one, other, _ = guarded.node_ids
    proxy = logging_in(guarded, TOPIC_USER, "--map", f"node:{one}={guarded.dial[other]}")
    problem = f"{guarded.dial[other]} answers, but it is broker {other} of this cluster, not broker {one}"
    assert problem in proxy.node(one)["problem"]


# Logins that pass through


def with_login(bootstrap: str, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


@pytest.mark.parametrize(("version", "user"), [("older", ADMIN), ("older", TOPIC_USER), ("guarded", TOPIC_USER)])
def test_port_forwards_in_any_order_without_credentials(
    request: pytest.FixtureRequest, own_kproxy: Start, version: str, user: str
) -> None:
    """Names that resolve nowhere, one reachable address of each broker in the wrong order, no map, no --sasl."""
    guarded: DevCluster = request.getfixturevalue(version)
    topic: str = guarded.topic  # type: ignore[attr-defined]
    proxy = own_kproxy(",".join(reversed(guarded.bootstrap.split(","))))
    before = len(records_of(guarded, topic, 6))
    producer = Producer({**with_login(proxy.bootstrap, user), "enable.idempotence": False})
    failed: list[str] = []
    for partition in range(6):
        producer.produce(
            topic, b"through", partition=partition,
            on_delivery=lambda error, _: failed.append(str(error)) if error else None,
        )  # fmt: skip
    assert producer.flush(60) == 0
    assert not failed
    assert len(records_of(guarded, topic, 6)) == before + 6
    for node, dial in guarded.dial.items():
        shown = proxy.node(node)
        assert (shown["dial"], shown["route"], shown["checked"]) == (str(dial), "learned", True), shown
        assert version == "older" or shown["proof"] == CONFIRMED
    assert PASSWORD not in proxy.log


def test_a_login_that_passes_through_ends_at_another_cluster(
    guarded: DevCluster, cluster: DevCluster, own_kproxy: Start
) -> None:
    """The broker is replaced after the first client; the second one's requests go nowhere."""
    first = guarded.node_ids[0]
    with Road(lambda: str(guarded.dial[first])) as road:
        proxy = own_kproxy(road.address, "--map", f"node:{first}={road.address}")
        admin = AdminClient(with_login(proxy.bootstrap, ADMIN))
        assert set(admin.list_topics(timeout=30).brokers) == set(guarded.node_ids)
        assert json.loads(proxy.get("/status")[1])["clusters"][0]["cluster_id"] == guarded.cluster_id
        del admin
        road.lead(lambda: str(cluster.dial[1]))
        for address in (proxy.bootstrap, proxy.node(first)["local"]):
            with RawClient(address) as client:
                assert client.works()  # ApiVersions tells nobody anything
                client.send(3, 1, struct.pack(">i", 0))
                with pytest.raises((EOFError, ConnectionError)):
                    client.receive()
        wait_until(lambda: f"it is another cluster (id {cluster.cluster_id})" in proxy.log, "the log says so")


def test_a_client_that_stops_in_the_middle_of_it(guarded: DevCluster, own_kproxy: Start) -> None:
    """It leaves before its login, after it, and with a request that is held; others go on."""
    proxy = own_kproxy(guarded.bootstrap)
    token = f"\0{ADMIN}\0{PASSWORD}".encode()
    for steps in range(4):
        with RawClient(proxy.bootstrap) as client:
            assert client.works()
            if steps > 0:
                client.ask(17, 1, b"\0\x05PLAIN")
            if steps > 1:
                client.ask(36, 0, struct.pack(">i", len(token)) + token)
            if steps > 2:
                client.send(3, 1, struct.pack(">i", 0))
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: proxy.status()["sessions"] == 0, "no session is left")
    assert set(AdminClient(with_login(proxy.bootstrap, ADMIN)).list_topics(timeout=30).brokers) == set(guarded.node_ids)
