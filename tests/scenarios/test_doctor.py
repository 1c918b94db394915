"""`kproxy doctor` on a laptop, and a cluster with a listener for each thing that people get wrong about addresses.

    laptop ───────────────────▶ farm: broker 1 at 10.9.0.11, broker 2 at 10.9.0.12
    10.9.0.50                   another cluster at 10.9.0.21, a load balancer at 10.9.0.30

The laptop reaches every bind address, and what the listeners advertise leads elsewhere. For each, the verdict is
compared with what is really wrong, a real client is seen to fail, and works through the line that the doctor prints.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kproxy.base.faults import Fault
from kproxy.dev.devcluster import DevCluster, ListenerSpec, Programs
from tests.harness.clients import flow
from tests.harness.network import KPROXY, PYTHON, Host, Network
from tests.harness.tls import Authority
from tests.harness.topics import unique
from tests.scenarios.roundtrip import RECORDS
from tests.scenarios.sites import Site, fails, roundtrip, works

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Case:
    """A listener's name, what it advertises (with {id}), and the fault from the laptop. `says` is in the reason.
    `fails`: a client always does; one that asks again and again may be lucky with a load balancer."""

    name: str
    port: int
    advertised: str
    fault: Fault
    says: str
    fails: bool = True


CASES = (
    Case("NAME", 9100, "kafka-{id}.farm.example:9100", Fault.NAME_NOT_RESOLVED, "cannot resolve the name"),
    Case("ID", 9101, "3f9a1c2b4d5{id}:9101", Fault.CONTAINER_NAME_ADVERTISED, "a container's name"),
    Case("SHORT", 9102, "kafka{id}:9102", Fault.CONTAINER_NAME_ADVERTISED, "has no domain"),
    Case("KUBE", 9103, "kafka-{id}.kafka.svc.cluster.local:9103", Fault.KUBERNETES_NAME_ADVERTISED, "only pods"),
    Case("LOCAL", 9104, "localhost:1910{id}", Fault.LOOPBACK_ADVERTISED, "the client's own machine"),
    Case("SHUT", 9105, "10.9.0.1{id}:1", Fault.PORT_CLOSED, "nothing listens on that port"),
    Case("INNER", 9106, "10.77.0.1{id}:9106", Fault.PRIVATE_ADDRESS_ADVERTISED, "a private address"),
    Case("WALL", 9107, "100.200.0.1{id}:9107", Fault.FILTERED, "drops the packets"),
    Case("SIX", 9108, "[2001:db8::{id}]:9108", Fault.IPV6_ONLY, "no route for IPv6"),
    Case("SWAP", 9109, "swap-{id}.farm.example:9109", Fault.WRONG_NODE, "answers there, not"),
    Case("ALIEN", 9110, "alien-{id}.farm.example:9110", Fault.WRONG_CLUSTER, "another Kafka cluster answers there"),
    Case("MIX", 9111, "mix-{id}.farm.example:9111", Fault.MIXING_LOAD_BALANCER, "different brokers", fails=False),
    Case("HERE", 9112, "here-{id}.farm.example:9112", Fault.NAME_RESOLVES_WRONGLY, "this machine itself"),
    Case("VPC", 9113, "vpc-{id}.farm.example:9113", Fault.PRIVATE_ADDRESS_ADVERTISED, "resolves to 10.77.0.9"),
)
# Where the broker of the other cluster listens that advertises localhost:19092, as a well-known quickstart does.
QUICK = "10.9.0.21:9120"
# The last version whose clients name no cluster to the broker that they connect to.
BEFORE_KIP_1242 = "4.3.1"
TO_TWIN = ("--bootstrap-server", "10.9.0.21:9118")
# What /etc/hosts of the laptop has: DNS that leads elsewhere.
NAMES = {
    "swap-1.farm.example": "10.9.0.12",
    "swap-2.farm.example": "10.9.0.11",
    **{f"alien-{node}.farm.example": "10.9.0.21" for node in (1, 2)},
    **{f"mix-{node}.farm.example": "10.9.0.30" for node in (1, 2)},
    **{f"here-{node}.farm.example": "127.0.0.1" for node in (1, 2)},
    **{f"vpc-{node}.farm.example": "10.77.0.9" for node in (1, 2)},
}


def shared(host: str) -> list[ListenerSpec]:
    """Listeners whose addresses two clusters have: at the first, a load balancer leads to either; at the second, all
    connections lead to the twin."""
    return [
        ListenerSpec("EITHER", "10.9.0.31:9117", bound=f"{host}:9117"),
        ListenerSpec("TWIN", "10.9.0.31:9118", bound=f"{host}:9118"),
    ]


USER, PASSWORD = "alice", f"secret-{uuid4().hex}"
LOGIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.vault.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    ),
}


def certificate(authority: Authority, node: int) -> dict[str, str]:
    """Of one broker, for its own name alone."""
    leaf = authority.leaf(f"kafka-{node}.safe.example")
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    store = authority.directory / f"broker-{node}.pem"
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    store.write_bytes(own + b"".join(one.bytes() for one in leaf.cert_chain_pems))
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    return LOGIN | {
        f"listener.name.{name}.{key}": value for name in ("safe", "vault") for key, value in settings.items()
    }


@pytest.fixture(scope="module")
def sites(network: Network, authority: Authority) -> Iterator[dict[str, Site]]:
    listeners = [ListenerSpec(one.name, one.advertised, bound=f"10.9.0.1{{id}}:{one.port}") for one in CASES]
    listeners.append(ListenerSpec("SAFE", "kafka-{id}.safe.example:9093", "SSL", bound="10.9.0.1{id}:9093"))
    listeners.append(ListenerSpec("VAULT", "kafka-{id}.safe.example:9094", "SASL_SSL", bound="10.9.0.1{id}:9094"))
    cluster = DevCluster(
        1,
        client_bound="10.9.0.1{id}:9092",
        extra_listeners=listeners,
        properties=certificate(authority, 1),
        heap="128m",
    )
    quick = ListenerSpec("QUICK", "localhost:19092", bound=QUICK)
    alien = DevCluster(1, client_bound="10.9.0.21:9110", extra_listeners=[quick, *shared("10.9.0.21")], heap="128m")
    twin = DevCluster(1, client_bound="10.9.0.22:9110", extra_listeners=shared("10.9.0.22"), heap="128m")
    with network.host("farm", "10.9.0.11/24", "10.9.0.12/24", "10.9.0.21/24", "10.9.0.22/24") as here:
        try:
            for starting in [here.submit(one.start) for one in (cluster, alien, twin)]:
                starting.result()
            here.submit(cluster.add, 2, properties=certificate(authority, 2)).result()
            yield {"farm": Site(here, cluster), "alien": Site(here, alien), "twin": Site(here, twin)}
        finally:
            for one in (cluster, alien, twin):
                one.stop(timeout=0)


@pytest.fixture(scope="module")
def farm(sites: dict[str, Site]) -> Site:
    return sites["farm"]


@pytest.fixture(scope="module")
def alien(sites: dict[str, Site]) -> Site:
    return sites["alien"]


@pytest.fixture(scope="module")
def twin(sites: dict[str, Site]) -> Site:
    return sites["twin"]


@pytest.fixture(scope="module")
def balancer(network: Network) -> Iterator[Host]:
    """Leads each new connection to the next broker."""
    with network.host("balancer", "10.9.0.30/24") as made:
        turns = "10.9.0.30:9111=10.9.0.11:9111,10.9.0.12:9111"
        with made.running(PYTHON, "-m", "tests.harness.servers.forward", turns, until="forwarding"):
            yield made


@pytest.fixture(scope="module")
def laptop(network: Network, farm: Site, balancer: Host) -> Iterator[Host]:
    with (
        network.host("firewall", "10.9.0.1/24"),
        network.host("laptop", "10.9.0.50/24", names=NAMES, gateway="10.9.0.1") as made,
    ):
        yield made


def doctor(host: Host, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Its exit code, and its report."""
    done = host.run(*KPROXY, "doctor", "--connect-timeout", "1s", "--json", *arguments)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


# Another case, or another test on real brokers, has their fault too.
LATER = ("SHORT", "VPC", "SHUT", "LOCAL")


@pytest.mark.parametrize(
    "case",
    [pytest.param(one, id=one.name, marks=pytest.mark.matrix if one.name in LATER else ()) for one in CASES],
)
def test_what_a_listener_advertises(case: Case, farm: Site, laptop: Host) -> None:
    servers = f"10.9.0.11:{case.port},10.9.0.12:{case.port}"
    code, report = doctor(laptop, servers)
    assert code == 1
    assert report["verdict"] == "problems"
    finding = next(one for one in report["findings"] if one["fault"] == case.fault.value)
    assert case.says in finding["text"]
    assert finding["severity"] == "error"
    # One cause is said once, and nothing else is a problem.
    assert [one["fault"] for one in report["findings"] if one["severity"] == "error"] == [case.fault.value]
    assert len(finding["subjects"]) == 2

    if case.fails:
        fails(laptop, "librdkafka", servers, unique("topic"))
    line = report["works_now"]
    assert line["works"]
    assert (line["reached"], line["nodes"]) == (2, 2)
    assert line["command"][:2] == ["kproxy", "run"]
    works(laptop, "librdkafka", farm, through=" ".join(line["command"][2:]))


def test_a_file_by_which_clients_must_speak_tls(farm: Site, laptop: Host, tmp_path: Path) -> None:
    """The trial has no certificate, and needs none: it is about the way to the brokers."""
    cert, key = Authority(tmp_path).files("*.kafka.example")
    file = tmp_path / "kproxy.yaml"
    file.write_text(
        "bootstrap-servers: [10.9.0.11:9100, 10.9.0.12:9100]\nlisten: 127.0.0.1:0\nsni: b{node}.kafka.example\n"
        f"client-tls-cert: {cert}\nclient-tls-key: {key}\n"
    )
    _, report = doctor(laptop, "--config", str(file))
    assert report["works_now"]["works"]
    assert report["works_now"]["reached"] == 2


def test_brokers_that_advertise_one_address(farm: Site, laptop: Host) -> None:
    """A client takes whichever answers for both."""
    code, report = doctor(laptop, "10.9.0.11:9092", "--map", "*=10.9.0.11:9092")
    assert code == 1
    assert [one["fault"] for one in report["findings"] if one["severity"] == "error"] == [Fault.WRONG_NODE.value]
    assert report["findings"][0]["subjects"] == ["broker 2 at kafka-2.cluster.internal:9092"]


def test_one_bootstrap_server_and_ports_that_say_the_rest(farm: Site, host: Callable[..., Host]) -> None:
    """Forwarded ports in the order of the brokers' ids, as people forward them: the doctor finds the maps."""
    gateway = host("gateway", "10.9.0.60/24")
    pairs = ["10.9.0.60:19092=10.9.0.11:9092", "10.9.0.60:19093=10.9.0.12:9092"]
    visitor = host("visitor", "10.9.0.61/24")
    with gateway.running(PYTHON, "-m", "tests.harness.servers.forward", *pairs, until="forwarding"):
        code, report = doctor(visitor, "10.9.0.60:19092")
        assert code == 1
        line = report["works_now"]
        assert line["works"], line
        assert "node:2=10.9.0.60:19093" in line["command"]
        works(visitor, "librdkafka", farm, through=" ".join(line["command"][2:]))


def test_a_client_has_no_maps(farm: Site, laptop: Host) -> None:
    """With them kproxy reaches all, which is no verdict about a client on this machine."""
    maps = ("--map", "node:1=10.9.0.11:9100", "--map", "node:2=10.9.0.12:9100")
    code, report = doctor(laptop, "10.9.0.11:9100", *maps)
    assert (code, [one["fault"] for one in report["findings"] if one["severity"] == "error"]) == (1, ["kproxy-needed"])
    assert "kafka-1.farm.example:9100: this machine cannot resolve the name" in report["findings"][0]["text"]
    line = report["works_now"]
    assert (line["works"], line["reached"]) == (True, 2)
    works(laptop, "librdkafka", farm, through=" ".join(line["command"][2:]))


def test_where_the_addresses_work_nothing_is_wrong(farm: Site, host: Callable[..., Host]) -> None:
    names = {f"kafka-{node}.farm.example": f"10.9.0.1{node}" for node in (1, 2)}
    inside = host("inside", "10.9.0.70/24", names=names)
    code, report = doctor(inside, "kafka-1.farm.example:9100")
    assert (code, report["verdict"], report["works_now"]) == (0, "healthy", None)
    assert [node["proof"] for node in report["nodes"]] == ["the broker confirms its cluster and node"] * 2
    works(inside, "librdkafka", farm, bootstrap="kafka-1.farm.example:9100")


def test_a_client_that_asked_the_wrong_listener(farm: Site, host: Callable[..., Host]) -> None:
    """The name of one listener is known here, and the client uses the port of another."""
    names = {f"kafka-{node}.farm.example": f"10.9.0.1{node}" for node in (1, 2)}
    inside = host("inside", "10.9.0.71/24", names=names)
    code, report = doctor(inside, "10.9.0.11:9102")
    assert code == 1
    finding = report["findings"][0]
    assert (finding["fault"], finding["symptom"]) == ("wrong-listener", "container-name-advertised")
    assert "leads to the listener SHORT" in finding["text"]
    assert finding["fix"] == ["bootstrap.servers=kafka-1.farm.example:9100"]
    works(inside, "librdkafka", farm, bootstrap=finding["fix"][0].removeprefix("bootstrap.servers="))


def test_a_quickstart_at_the_port_that_kproxy_usually_has(alien: Site, host: Callable[..., Host]) -> None:
    """Nothing of kproxy's is there, so it is no loop. Nor do doctor and ls listen anywhere."""
    desk, server = host("desk", "10.9.0.72/24"), "localhost:19092"
    with desk.running(PYTHON, "-m", "tests.harness.servers.forward", f"127.0.0.1:19092={QUICK}", until="forwarding"):
        code, report = doctor(desk, server)
        assert (code, report["verdict"], report["kproxy"]) == (0, "healthy", None)
        done = desk.run(*KPROXY, "ls", server)
        assert (done.returncode, done.stderr) == (0, "")
        with desk.running(*KPROXY, "run", "-b", server, until="bootstrap.servers=127.0.0.1:19292"):
            works(desk, "librdkafka", alien, bootstrap="127.0.0.1:19292")
            code, report = doctor(desk, "localhost:19292")
            assert (code, report["verdict"]) == (0, "healthy")
            assert report["kproxy"]["bootstrap_servers"] == [server]
            said = desk.run(*KPROXY, "doctor", "localhost:19292").stdout
            assert "through the kproxy that runs here already" in " ".join(said.split())
            assert "needs no kproxy" not in " ".join(said.split())


def test_another_kproxy_at_the_usual_port(farm: Site, host: Callable[..., Host]) -> None:
    """It is asked; and what is no kproxy's is not called one."""
    desk = host("desk", "10.9.0.73/24")
    second = [*KPROXY, "run", "-b", "localhost:19092", "--admin", "127.0.0.1:18000"]
    with desk.running(*KPROXY, "run", "-b", "10.9.0.11:9100,10.9.0.12:9100", until="bootstrap.servers="):
        with desk.running(*second, until="localhost:19092 is a port of the kproxy with the admin endpoint"):
            pass
        code, report = doctor(desk, "localhost:19092")
        assert (code, report["kproxy"]["bootstrap_servers"]) == (0, ["10.9.0.11:9100", "10.9.0.12:9100"])
    with (
        desk.running(PYTHON, "-m", "tests.harness.servers.forward", f"127.0.0.1:19092={QUICK}", until="forwarding"),
        desk.running(*second, until="bootstrap.servers=") as said,
    ):
        assert "is a port of the kproxy" not in said()


def test_tls_port_forwards(farm: Site, authority: Authority, host: Callable[..., Host]) -> None:
    """No certificate has the name by which the forwards are reached, and each has its broker's name alone.

    So each forward is paired with its broker, also the one that the user does not name; and kproxy accepts no other.
    """
    desk = host("desk", "10.9.0.74/24")
    pairs = [f"127.0.0.1:2900{node}=10.9.0.1{node}:9093" for node in (1, 2)]
    tls = ("--tls", "--tls-ca", str(authority.pem))
    safe = {f"kafka-{node}.safe.example:9093": f"localhost:2900{node}" for node in (1, 2)}
    for servers in ("localhost:29001,localhost:29002", "localhost:29002"):
        with desk.running(PYTHON, "-m", "tests.harness.servers.forward", *pairs, until="forwarding"):
            code, report = doctor(desk, servers, *tls)
            assert code == 1
            problems = [one["fault"] for one in report["findings"] if one["severity"] == "error"]
            assert problems == [Fault.CERTIFICATE_NAME.value, Fault.NAME_NOT_RESOLVED.value]
            assert report["findings"][0]["subjects"] == servers.split(",")
            paired(report["works_now"], safe)
            works(desk, "librdkafka", farm, through=" ".join(report["works_now"]["command"][2:]))
        with desk.running(PYTHON, "-m", "tests.harness.servers.forward", *crossed(pairs), until="forwarding"):
            done = desk.run(*KPROXY, "ls", *report["works_now"]["command"][2:])
            assert "not for kafka-2.safe.example" in done.stderr


def test_tls_port_forwards_with_a_login(farm: Site, authority: Authority, host: Callable[..., Host]) -> None:
    """A forward that the user does not name gets the credentials only behind the certificate of its broker."""
    desk = host("desk", "10.9.0.76/24")
    pairs = [f"127.0.0.1:2900{node}=10.9.0.1{node}:9094" for node in (1, 2)]
    login = ("--tls", "--tls-ca", str(authority.pem), "--sasl", "PLAIN", "--sasl-username", USER)
    env = {**os.environ, "KPROXY_SASL_PASSWORD": PASSWORD}
    with desk.running(PYTHON, "-m", "tests.harness.servers.forward", *pairs, until="forwarding"):
        done = desk.run(*KPROXY, "doctor", "--connect-timeout", "1s", "--json", "localhost:29001", *login, env=env)
        line = json.loads(done.stdout)["works_now"]
        paired(line, {f"kafka-{node}.safe.example:9094": f"localhost:2900{node}" for node in (1, 2)})
        works(desk, "librdkafka", farm, through=" ".join(line["command"][2:]), env=env)
        assert PASSWORD not in done.stdout + done.stderr


def paired(line: dict[str, Any], addresses: dict[str, str]) -> None:
    """Each broker's own name is expected of its certificate, and none for all."""
    words = line["command"]
    assert (line["works"], line["reached"], line["nodes"]) == (True, 2, 2), line
    assert "--tls-server-name" not in words
    given = list(pairwise(words))
    assert {word for flag, word in given if flag == "-b"} == set(addresses)
    assert dict(word.split("=") for flag, word in given if flag == "--map") == addresses


def crossed(pairs: list[str]) -> list[str]:
    """Each forward leads to the other broker."""
    here, there = zip(*[pair.split("=") for pair in pairs], strict=True)
    return [f"{one}={other}" for one, other in zip(here, reversed(there), strict=True)]


def test_two_clusters_at_one_address(alien: Site, twin: Site, host: Callable[..., Host]) -> None:
    """What clients really do, and what the doctor says that they do."""
    balancer, desk = host("balancer", "10.9.0.31/24"), host("desk", "10.9.0.75/24")
    ways = ["10.9.0.31:9117=10.9.0.21:9117,10.9.0.22:9117", "10.9.0.31:9118=10.9.0.22:9118"]
    with balancer.running(PYTHON, "-m", "tests.harness.servers.forward", *ways, until="forwarding"):
        code, report = doctor(desk, "10.9.0.31:9117")
        assert (code, report["works_now"]) == (1, None)
        (finding,) = (one for one in report["findings"] if one["severity"] == "error")
        assert finding["fault"] == Fault.MIXED_CLUSTERS.value
        for site in (alien, twin):
            assert site.cluster.cluster_id in finding["text"]
        harmless(finding)

        code, report = doctor(desk, "10.9.0.21:9118")  # the other cluster, whose broker advertises the twin's address
        assert code == 1
        (finding,) = (one for one in report["findings"] if one["severity"] == "error")
        assert finding["fault"] == Fault.WRONG_CLUSTER.value
        harmless(finding)

        for client in ("librdkafka", "kafka-python"):
            topic = in_both(alien, twin)
            done = desk.run(*roundtrip(client, "10.9.0.21:9118", topic, "word"))
            assert done.returncode == 0, done.stdout + done.stderr
            assert (alien.records(topic, 1), len(twin.records(topic, 1))) == ([], RECORDS)
        topic = in_both(alien, twin)
        producer = Programs.of(BEFORE_KIP_1242).command("kafka-console-producer", *TO_TWIN, "--topic", topic)
        done = desk.run(*producer, input="a\n")
        assert (done.returncode, "ERROR" in done.stdout + done.stderr) == (0, False), done.stderr
        assert (alien.records(topic, 1), twin.records(topic, 1)) == ([], [b"a"])
        # Client and broker compare the clusters' ids: nothing is written.
        topic, hurry = (
            in_both(alien, twin),
            ("max.block.ms=4000", "delivery.timeout.ms=4000", "request.timeout.ms=2000"),
        )
        limits = [word for limit in hurry for word in ("--command-property", limit)]
        producer = alien.java("kafka-console-producer", TO_TWIN[1], "--topic", topic, *limits)
        done = desk.run(*producer, input="a\n")
        assert "ERROR" in done.stdout + done.stderr
        assert (alien.records(topic, 1), twin.records(topic, 1)) == ([], [])


def in_both(*sites: Site) -> str:
    topic = unique("topic")
    for site in sites:
        site.host.call(flow.create_topic, site.cluster.direct_bootstrap, topic, 1)
    return topic


def harmless(finding: dict[str, Any]) -> None:
    """No client is said to complain, and nothing is to be deleted."""
    assert finding["messages"] == []
    assert "Most clients raise no error: they write to whichever cluster answers." in finding["unsaid"]
    advice = " ".join((finding["advice"], *finding["fix"])).lower()
    assert not any(word in advice for word in ("empty", "remove", "rm ")), advice
