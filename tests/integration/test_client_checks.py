"""Clients since Kafka 4.4 check which node they have reached (KIP-1242): through kproxy as directly.

Between the clients and each address that they learn stands a forwarder, which keeps their bytes and may lead elsewhere:
to another node of the cluster, or to another cluster. The same happens without kproxy, and must end the same.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kproxy.dev.devcluster import INTERNAL, DevCluster, ListenerSpec
from kproxy.protocol.wire.errorcodes import ErrorCode
from tests.harness.clients.going import Going, java, python
from tests.harness.clients.rawclient import API_VERSIONS, METADATA, RawClient
from tests.harness.process import PATIENCE_S, Kproxy, wait_until
from tests.harness.servers.trace import NodeCheck, Trace
from tests.matrix.languages import Go

pytestmark = pytest.mark.integration

TOPIC = "orders"
NODES = (1, 2)
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
# Where clients look for brokers: the forwarders are there. Brokers and kproxy are at 127.0.0.1, at the same ports.
HERE = "127.0.0.2"
PASSWORD = f"secret-{uuid4().hex}"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PLAIN_AT_LOGIN = {
    "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} user_alice="{PASSWORD}";',
}
CONFIRMED = "the broker confirms its cluster and node"
# What ends a consumer of Java 4.4.0 that reads the answer of one node right behind the refusal of another.
DIED = "IllegalStateException: There are no in-flight requests for node"

Addresses = Mapping[int | None, str]
"""Node id → HOST:PORT; None → a bootstrap server."""
Start = Callable[[DevCluster, dict[str, str], Path, ExitStack], dict[str, Going]]
"""Starts clients of a library, with these properties; returns them by their names, which are their client ids."""


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[DevCluster, DevCluster]]:
    """Two clusters with the same node ids and the same topic, into which something is always written."""
    with ExitStack() as held:
        made = []
        for _ in range(2):
            seen = ListenerSpec("SEEN", advertised=f"{HERE}:{{port}}")
            login = ListenerSpec("LOGIN", advertised=f"{HERE}:{{port}}", protocol="SASL_PLAINTEXT")
            cluster = held.enter_context(
                DevCluster(brokers=NODES, extra_listeners=[seen, login], properties=PLAIN_AT_LOGIN)
            )
            admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
            admin.create_topics([NewTopic(TOPIC, 2, 2)])[TOPIC].result(60)
            made.append(cluster)
        yield made[0], made[1]


@pytest.fixture(scope="module")
def written(clusters: tuple[DevCluster, DevCluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    logs = tmp_path_factory.mktemp("written")
    with ExitStack() as held:
        for number, cluster in enumerate(clusters):
            at = {"bootstrap.servers": cluster.direct_bootstrap}
            held.enter_context(python("confluent", ("produce", TOPIC, "2", "50"), at, logs / str(number)))
        yield


def through(proxy: Kproxy) -> Addresses:
    nodes: dict[int | None, str] = {
        node: "127.0.0.1:{}".format(proxy.node(node)["local"].rpartition(":")[2]) for node in NODES
    }
    return {None: proxy.bootstrap, **nodes}


def directly(cluster: DevCluster, listener: str) -> Addresses:
    nodes: dict[int | None, str] = {node: str(address) for node, address in cluster.listener(listener).items()}
    return {None: nodes[1], **nodes}


@pytest.fixture(params=["direct", "kproxy"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ways(
    way: str, clusters: tuple[DevCluster, DevCluster], own_kproxy: Callable[..., Kproxy]
) -> tuple[Addresses, Addresses]:
    """The addresses of the one cluster, which clients look for at HERE, and of the other."""
    one, other = clusters
    if way == "direct":
        return directly(one, "SEEN"), directly(other, INTERNAL)
    return through(own_kproxy(one.bootstrap, "--advertise", HERE)), through(own_kproxy(other.bootstrap))


class HoldingTrace(Trace):
    """A forwarder that keeps answers back while `may_answer` is not set; `held` counts those that it keeps."""

    def __init__(self, target: Callable[[], str], host: str, port: int) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.held = 0
        super().__init__(target, host, port)

    def send(self, to: socket.socket, data: bytes, *, from_client: bool) -> None:
        if from_client or self.may_answer.is_set():
            super().send(to, data, from_client=from_client)
            return
        self.held += 1
        try:
            self.may_answer.wait(PATIENCE_S)
            super().send(to, data, from_client=from_client)
        finally:  # the client may have left
            self.held -= 1


class Roads:
    """The forwarders. `bootstrap` is where clients begin."""

    def __init__(self, held: ExitStack, addresses: Addresses) -> None:
        self._addresses = addresses
        # That of the bootstrap server has a port of its own: directly, it is one of the nodes.
        self.traces = {
            at: held.enter_context(
                HoldingTrace(lambda to=to: to, HERE, 0 if at is None else int(to.rpartition(":")[2]))  # type: ignore[misc]
            )
            for at, to in addresses.items()
        }
        self.bootstrap = self.traces[None].address

    def lead(self, addresses: Addresses) -> None:
        for at, trace in self.traces.items():
            trace.lead(lambda to=addresses[at]: to)  # type: ignore[misc]

    def lead_back(self) -> None:
        self.lead(self._addresses)

    def swap_nodes(self) -> None:
        self.lead({None: self._addresses[None], 1: self._addresses[2], 2: self._addresses[1]})

    def checks(self, client_id: str) -> dict[int | None, list[NodeCheck]]:
        return {
            at: [check for check in trace.node_checks() if check.client_id == client_id]
            for at, trace in self.traces.items()
        }

    def refusals(self, client_id: str) -> int:
        """Count the answers REBOOTSTRAP_REQUIRED at the addresses of nodes."""
        checks = self.checks(client_id)
        return sum(check.error == ErrorCode.REBOOTSTRAP_REQUIRED for node in NODES for check in checks[node])


def java_clients(cluster: DevCluster, properties: dict[str, str], logs: Path, held: ExitStack) -> dict[str, Going]:
    group = {"auto.offset.reset": "earliest"}
    kinds: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        "java-writes": (("produce", TOPIC, "2", "50"), {}),
        "java-classic": (("consume", TOPIC), {**group, "group.protocol": "classic"}),
        "java-kip-848": (("consume", TOPIC), {**group, "group.protocol": "consumer"}),
    }
    started = {}
    for name, (words, more) in kinds.items():
        named = {**properties, **more, "client.id": name}
        if words[0] == "consume":
            named["group.id"] = f"{name}-{logs.name}"
        started[name] = held.enter_context(java(cluster.programs, words, named, logs / name))
    return started


def franz_clients(cluster: DevCluster, properties: dict[str, str], logs: Path, held: ExitStack) -> dict[str, Going]:
    command = Go("franz-go", "", program="going_franz").command()
    started = {}
    for name, words in {"franz-writes": ("produce", TOPIC, "2", "50"), "franz-reads": ("consume", TOPIC)}.items():
        named = {**properties, "client.id": name, "group.id": f"{name}-{logs.name}"}
        pairs = [f"{key}={value}" for key, value in named.items()]
        started[name] = held.enter_context(Going([*command, *words, *pairs], logs / name))
    return started


def works(going: Going, name: str, way: str = "kproxy", allowed: str | None = None) -> None:
    """Wait until a client has done more. Directly, one of Java may end instead; with the error `allowed`, each may."""
    already = len(going.said(_done(name)))
    wait_until(lambda: going.said("died") or len(going.said(_done(name))) >= already + 20, f"{name} works or ends")
    for words in going.said("died"):
        said = " ".join(words)
        assert (way == "direct" and DIED in said) or (allowed is not None and allowed in said), going.lines[-5:]


def _done(name: str) -> str:
    return "acked" if name.endswith("writes") else "got"


@pytest.mark.parametrize(
    "start", [java_clients, pytest.param(franz_clients, marks=pytest.mark.matrix)], ids=["java", "franz-go"]
)
@pytest.mark.usefixtures("written")
def test_a_client_checks_the_node_that_it_reaches(
    clusters: tuple[DevCluster, DevCluster], way: str, ways: tuple[Addresses, Addresses], start: Start, tmp_path: Path
) -> None:
    one, _ = clusters
    with ExitStack() as held:
        roads = Roads(held, ways[0])
        started = start(one, {"bootstrap.servers": roads.bootstrap}, tmp_path, held)
        for name, going in started.items():
            works(going, name)
            assert_confirmed(roads.checks(name), one.cluster_id)

        roads.swap_nodes()
        for name, going in started.items():
            wait_until(lambda name=name, going=going: roads.refusals(name) or going.said("died"), f"{name} is refused")  # type: ignore[misc]
        roads.lead_back()
        for name, going in started.items():
            works(going, name, way)
            assert not going.said("failed")
        started = {name: going for name, going in started.items() if not going.said("died")}

        before = {name: roads.refusals(name) for name in started}
        bootstraps = {name: len(roads.checks(name)[None]) for name in started}
        roads.lead(ways[1])
        for name in started:
            wait_until(lambda name=name: roads.refusals(name) > before[name], f"{name} is refused")  # type: ignore[misc]
        for name, going in started.items():
            wait_until(
                lambda name=name, going=going: going.said("died") or len(roads.checks(name)[None]) > bootstraps[name],  # type: ignore[misc]
                f"{name} bootstraps anew",
            )
            if start is java_clients:  # franz-go's producer keeps the id of the former topic, also without kproxy
                # A group of KIP-848 is unknown there, which ends its consumers.
                works(going, name, way, "GroupIdNotFound" if name == "java-kip-848" else None)


@pytest.mark.usefixtures("written")
def test_two_nodes_that_refuse_a_java_consumer_at_once(
    clusters: tuple[DevCluster, DevCluster], way: str, ways: tuple[Addresses, Addresses], tmp_path: Path
) -> None:
    """It dies if it reads both refusals at once, as of Java 4.4.0: seen directly in most runs.

    kproxy sends one refusal, and the next one when the client has left, so it lives.
    """
    one, _ = clusters
    name = "java-classic"
    with ExitStack() as held:
        roads = Roads(held, ways[0])
        properties = {"bootstrap.servers": roads.bootstrap, "client.id": name, "group.id": f"at-once-{tmp_path.name}"}
        going = held.enter_context(java(one.programs, ("consume", TOPIC), properties, tmp_path / "log"))
        works(going, name)
        nodes = [roads.traces[node] for node in NODES]
        refusals, bootstraps = roads.refusals(name), len(roads.checks(name)[None])

        for node in nodes:
            node.may_answer.clear()
        asked = {node: len(roads.checks(name)[node]) for node in NODES}
        roads.swap_nodes()
        wait_until(lambda: all(len(roads.checks(name)[node]) > asked[node] for node in NODES), "both nodes are asked")
        wait_until(lambda: roads.refusals(name) - refusals == (2 if way == "direct" else 1), "the refusals are held")
        going.process.send_signal(signal.SIGSTOP)
        for node in nodes:
            node.may_answer.set()
        wait_until(lambda: not any(node.held for node in nodes), "what was held is sent")
        going.process.send_signal(signal.SIGCONT)
        wait_until(lambda: going.said("died") or len(roads.checks(name)[None]) > bootstraps, "it bootstraps again")
        roads.lead_back()
        works(going, name, way)


@pytest.mark.usefixtures("written")
def test_a_java_client_that_must_not_rebootstrap_checks_nothing(
    clusters: tuple[DevCluster, DevCluster], ways: tuple[Addresses, Addresses], tmp_path: Path
) -> None:
    """It names no node, so no broker refuses it, and neither does kproxy."""
    one, _ = clusters
    with ExitStack() as held:
        roads = Roads(held, ways[0])
        properties = {"bootstrap.servers": roads.bootstrap, "metadata.recovery.strategy": "none"}
        for name, going in java_clients(one, properties, tmp_path, held).items():
            works(going, name)
            checks = [check for of_address in roads.checks(name).values() for check in of_address]
            assert {(check.cluster_id, check.node_id) for check in checks} == {(None, -1)}


def assert_confirmed(checks: Mapping[int | None, list[NodeCheck]], cluster_id: str) -> None:
    """The client has asked each node that it has reached whether it is that node of that cluster, and it was."""
    assert {(check.cluster_id, check.node_id) for check in checks[None]} <= {(None, -1)}
    named = [(node, check) for node in NODES for check in checks[node] if check.cluster_id is not None]
    assert named
    for node, check in named:
        assert (check.cluster_id, check.node_id, check.error) in ((cluster_id, node, 0), (cluster_id, node, None))


def test_a_new_connection_costs_no_more_round_trips_than_a_direct_one(
    clusters: tuple[DevCluster, DevCluster], own_kproxy: Callable[..., Kproxy]
) -> None:
    """The broker gets the same requests, only that the first of them asks which node it is."""
    one, _ = clusters
    with Trace(lambda: str(one.dial[1])) as road:
        proxy = own_kproxy(road.address, "--map", f"node:1={road.address}", "--map", f"node:2={one.dial[2]}")
        for address, newest in ((str(one.dial[1]), None), (proxy.bootstrap, 5), (proxy.node(1)["local"], 5)):
            for version in (0, 2):
                before = len(road.calls())
                with RawClient(address) as client:
                    client.ask(API_VERSIONS, version)
                    client.ask(METADATA, 1, b"\0\0\0\0")
                    if newest is not None:
                        assert road.calls()[before:] == [[(API_VERSIONS, newest), (METADATA, 1)]]


def test_an_answer_in_each_version_is_the_brokers_own(
    clusters: tuple[DevCluster, DevCluster], own_kproxy: Callable[..., Kproxy]
) -> None:
    """kproxy asks in version 5, and the client gets what it would have got directly."""
    one, _ = clusters
    proxy = own_kproxy(one.bootstrap)
    for version in range(6):
        body = b"" if version < 3 else b"\0\x07client\x041.0" + (b"\0\xff\xff\xff\xff" if version == 5 else b"") + b"\0"
        answers = []
        for address in (str(one.dial[1]), proxy.node(1)["local"]):
            with RawClient(address) as client:
                answers.append(client.ask(API_VERSIONS, version, body))
        assert answers[0] == answers[1], version


@pytest.mark.parametrize(
    ("library", "costs"), [("java", ()), ("librdkafka", ((API_VERSIONS, 5),))], ids=["java", "librdkafka"]
)
@pytest.mark.usefixtures("written")
def test_what_a_connection_with_a_login_costs(
    clusters: tuple[DevCluster, DevCluster],
    own_kproxy: Callable[..., Kproxy],
    tmp_path: Path,
    library: str,
    costs: tuple[tuple[int, int], ...],
) -> None:
    """Nothing for Java's clients: they ask for ApiVersions again behind the login, and kproxy asks with that request.

    librdkafka does not, so kproxy asks by itself. What each connection to a broker begins with is compared.
    """
    one, _ = clusters
    at = {node: str(address) for node, address in one.listener("LOGIN").items()}
    begins = {}
    for way in ("direct", "kproxy"):
        with ExitStack() as held:
            traces = [
                held.enter_context(Trace(lambda address=address: address, HERE, int(address.rpartition(":")[2])))  # type: ignore[misc]
                for address in at.values()
            ]
            bootstrap = traces[0].address
            if way == "kproxy":
                proxy = own_kproxy(bootstrap)
                bootstrap = proxy.bootstrap
                # kproxy learns what the brokers answer behind a login; a broker that is busy may answer too late once.
                for number in range(5):
                    with consumer_that_logs_in(library, one, bootstrap, tmp_path / f"before-{number}") as going:
                        going.wait_more("got", 20)
                    if {proxy.node(node)["proof"] for node in NODES} == {CONFIRMED}:
                        break
                assert {proxy.node(node)["proof"] for node in NODES} == {CONFIRMED}
            before = [len(trace.calls()) for trace in traces]
            going = held.enter_context(consumer_that_logs_in(library, one, bootstrap, tmp_path / way))
            going.wait_more("got", 20)
            connections = [
                calls for trace, known in zip(traces, before, strict=True) for calls in trace.calls()[known:]
            ]
            begins[way] = {login for calls in connections if (login := login_of(calls))}
    assert begins["direct"]
    assert begins["kproxy"] == {login + costs for login in begins["direct"]}


def consumer_that_logs_in(library: str, cluster: DevCluster, bootstrap: str, log: Path) -> Going:
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{library}-{log.name}",
        "auto.offset.reset": "earliest",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
    }
    if library == "java":
        properties["sasl.jaas.config"] = f'{PLAIN} username="alice" password="{PASSWORD}";'
        return java(cluster.programs, ("consume", TOPIC), properties, log)
    properties |= {"sasl.username": "alice", "sasl.password": PASSWORD}
    return python("confluent", ("consume", TOPIC), properties, log)


def login_of(calls: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the requests of a connection before the first that is not of the login, if both have come."""
    keys = {API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE}
    length = next((count for count, (key, _) in enumerate(calls) if key not in keys), 0)
    return tuple(calls[:length]) if SASL_HANDSHAKE in dict(calls[:length]) else ()
