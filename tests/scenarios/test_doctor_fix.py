"""The lines that `kproxy doctor` prints, pasted into the files of real brokers: these start, and the client works.

    laptop ──────────────────────────▶ farm: brokers at 10.8.0.11, 10.8.0.12, 10.8.0.13
    10.8.0.50, or localhost:1909N      they advertise kafka-N.farm.example, which only the farm knows

The doctor runs on the laptop. What it prints goes into each broker's file as a person pastes it, and kproxy's own lint
looks at the files. Then the brokers start again, and a client on the laptop uses them without kproxy. The brokers use
the listener that the laptop cannot among themselves, so that replication and transactions show whether it still works.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kproxy.base.faults import Fault
from kproxy.dev.devcluster.properties import render
from tests.harness.clusters.fromfiles import FromFiles, FromVariables, variable
from tests.harness.clusters.pasted import bootstrap, by_broker, pasted
from tests.harness.network import KPROXY, PYTHON, Host, Network
from tests.harness.process import PATIENCE_S, wait_until
from tests.harness.tls import Authority
from tests.harness.topics import create_topic, read_topic, unique, values
from tests.scenarios.roundtrip import RECORDS
from tests.scenarios.sites import fails, roundtrip

pytestmark = pytest.mark.integration

_LEADS = re.compile(r"# and let (\S+) lead to port (\d+) of broker (\d+), in the place of port 9092")
_RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_BROKER = "kafka-1.farm.example:9092"
# All may do all with the cluster, but from the laptop its settings cannot be seen.
_RULES = (
    ("--cluster", "--allow-principal", "User:ANONYMOUS", "--operation", "All"),
    ("--cluster", "--deny-principal", "User:ANONYMOUS", "--deny-host", "10.8.0.50", "--operation", "DescribeConfigs"),
)


@pytest.fixture
def laptop(network: Network) -> Iterator[Host]:
    with network.host("laptop", "10.8.0.50/24") as made:
        yield made


def doctor(host: Host, servers: str, *options: str) -> dict[str, Any]:
    """Its report."""
    done = host.run(*KPROXY, "doctor", "--connect-timeout", "2s", "--json", servers, *options)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fix(report: Mapping[str, Any], fault: Fault = Fault.NAME_NOT_RESOLVED) -> list[str]:
    """The lines for the one thing that is wrong."""
    (problem,) = [one for one in report["findings"] if one["severity"] == "error"]
    assert problem["fault"] == fault.value
    return list(problem["fix"])


def paste(farm: FromFiles, lines: list[str], directory: Path) -> None:
    """Paste them, lint the files, and start the brokers again, one after the other."""
    told = by_broker(lines)
    assert list(told) == [f"broker {node}" for node in farm.brokers]
    files = {node: pasted(farm.files[node], told[f"broker {node}"]) for node in farm.brokers}
    others = {node: file for node, file in farm.files.items() if node not in files}
    paths = []
    for node, file in {**others, **files}.items():
        paths.append(directory / f"node-{node}.properties")
        paths[-1].write_text(render(file))
    linted = farm.host.run(*KPROXY, "lint", *map(str, paths))
    assert linted.returncode == 0, linted.stdout
    for node, file in files.items():
        farm.restart(node, file)


def works(farm: FromFiles, laptop: Host, servers: str, clients: Sequence[str] = ("librdkafka", "kafka-python")) -> None:
    """A client on the laptop writes and reads on each broker, without kproxy; and brokers reach one another."""
    replicas = len(farm.brokers)
    topic = laptop.call(create_topic, servers, 6, replicas)
    for client in clients:
        word = unique("word")
        done = laptop.run(*roundtrip(client, servers, topic, word))
        assert done.returncode == 0, done.stdout + done.stderr
        found = values(laptop.call(read_topic, servers, topic, 6))
        assert {f"{word}-{number}".encode() for number in range(RECORDS)} <= set(found)
    laptop.call(_commit, servers, topic)
    wait_until(lambda: laptop.call(_in_sync, servers, topic) == {replicas}, "all replicas follow")
    assert doctor(laptop, servers)["verdict"] == "healthy"


def _commit(servers: str, topic: str) -> None:
    """A transaction: its end is what the coordinator tells the leaders along the brokers' own listener."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": unique("transaction")})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition in range(6):
        producer.produce(topic, b"committed", partition=partition)
    producer.commit_transaction(PATIENCE_S)
    # The coordinator answers before the leaders have the markers, and lets no other transaction begin before.
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=0)
    producer.commit_transaction(PATIENCE_S)


def _in_sync(servers: str, topic: str) -> set[int]:
    found = AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=PATIENCE_S)
    return {len(one.isrs) for one in found.topics[topic].partitions.values()}


@contextlib.contextmanager
def forwards(laptop: Host, ports: Mapping[str, str]) -> Iterator[None]:
    pairs = [f"{here}={there}" for here, there in ports.items()]
    with laptop.running(PYTHON, "-m", "tests.harness.servers.forward", *pairs, until="forwarding"):
        yield


@pytest.mark.parametrize(
    "combined", [True, pytest.param(False, marks=pytest.mark.matrix)], ids=["combined", "separate"]
)
def test_one_broker(network: Network, laptop: Host, tmp_path: Path, combined: bool) -> None:
    with FromFiles(network, tmp_path, 1, combined=combined) as farm:
        fails(laptop, "librdkafka", "10.8.0.11:9092", unique("topic"))
        lines = fix(doctor(laptop, "10.8.0.11:9092"))
        paste(farm, lines, tmp_path)
        servers = bootstrap(lines, "10.8.0.11:9092")
        assert servers == "10.8.0.11:9094"
        works(farm, laptop, servers)
        if combined:
            a_listener_that_says_localhost(farm, laptop, servers, tmp_path)


def a_listener_that_says_localhost(farm: FromFiles, laptop: Host, servers: str, directory: Path) -> None:
    """No broker uses it: then only its address changes."""
    file, key = farm.files[1], "advertised.listeners"
    farm.restart(1, {**file, key: file[key].replace(servers, "localhost:9094")})
    lines = fix(doctor(laptop, servers), Fault.LOOPBACK_ADVERTISED)
    assert by_broker(lines) == {"broker 1": {key: file[key]}}
    paste(farm, lines, directory)
    works(farm, laptop, bootstrap(lines, servers), ("librdkafka",))


def test_the_variables_of_a_container(network: Network, laptop: Host, tmp_path: Path) -> None:
    """Kafka's own class makes the broker's file of them."""
    with FromVariables(network, tmp_path) as farm:
        lines = fix(doctor(laptop, "10.8.0.11:9092"))
        told = by_broker(lines)["broker 1"]
        assert all(name.startswith("KAFKA_") for name in told)
        farm.restart(1, {**farm.files[1], **told})
        works(farm, laptop, bootstrap(lines, "10.8.0.11:9092"), ("librdkafka",))


def test_the_variables_of_a_container_with_default_data(network: Network, laptop: Host, tmp_path: Path) -> None:
    """The lines are those of a file. One more names what Apache's image then lacks, and no other listener is set."""
    with FromVariables(network, tmp_path, default_data=True) as farm:
        lines = fix(doctor(laptop, "10.8.0.11:9092"))
        needs = next(line for line in lines if line.startswith("# Apache's image has no defaults"))
        variables = dict(word.split("=", 1) for word in needs.split() if word.startswith("KAFKA_"))
        told = {variable(key): value for key, value in by_broker(lines)["broker 1"].items()}
        assert all("…" not in value for value in told.values())
        memory = variable("log.cleaner.dedupe.buffer.size")  # its default is more than the heap of the tests
        farm.restart(1, {**variables, **told, memory: farm.files[1][memory]})
        works(farm, laptop, bootstrap(lines, "10.8.0.11:9092"), ("librdkafka",))


@pytest.mark.parametrize(
    "combined", [False, pytest.param(True, marks=pytest.mark.matrix)], ids=["separate", "combined"]
)
def test_three_brokers_behind_three_forwards(network: Network, laptop: Host, tmp_path: Path, combined: bool) -> None:
    """The laptop knows one of its ports as the bootstrap server; those of the others are found."""
    here = {node: f"localhost:1909{node}" for node in (1, 2, 3)}
    with FromFiles(network, tmp_path, 3, combined=combined) as farm:
        with forwards(laptop, {here[node]: str(address) for node, address in farm.addresses.items()}):
            fails(laptop, "librdkafka", here[1], unique("topic"))
            lines = fix(doctor(laptop, here[1]))
            shown = laptop.run(*KPROXY, "doctor", here[1]).stdout.splitlines()
        assert {f"     {line}" for line in lines if not line.startswith("# ")} <= set(shown)
        advertised = {name: one["advertised.listeners"] for name, one in by_broker(lines).items()}
        assert advertised == {
            f"broker {node}": f"PLAINTEXT://kafka-{node}.farm.example:9092,EXTERNAL://{here[node]}" for node in here
        }
        paste(farm, lines, tmp_path)
        led = {match[1]: f"10.8.0.1{match[3]}:{match[2]}" for match in map(_LEADS.fullmatch, lines) if match}
        assert set(led) == set(here.values())
        with forwards(laptop, led):
            works(farm, laptop, bootstrap(lines, here[1]))


def test_settings_that_the_user_may_not_see(network: Network, laptop: Host, tmp_path: Path) -> None:
    """The printed entries are added to the lines that stand in the file, or to Kafka's defaults."""
    with FromFiles(network, tmp_path, 1, combined=True, more=_RIGHTS) as farm:
        for rule in _RULES:
            done = farm.host.run(*farm.programs.command("kafka-acls", "--bootstrap-server", _BROKER, "--add", *rule))
            assert done.returncode == 0, done.stdout + done.stderr
        lines = fix(doctor(laptop, "10.8.0.11:9092"))
        assert by_broker(lines)["broker 1"]["listeners"] == "…,EXTERNAL://:9094"
        assert any("DescribeConfigs on the cluster" in line for line in lines)
        paste(farm, lines, tmp_path)
        works(farm, laptop, bootstrap(lines, ""))


@pytest.mark.matrix
def test_a_listener_with_a_key_store_of_its_own(network: Network, laptop: Host, tmp_path: Path) -> None:
    """The new listener has it too; only the password is not shown, and copied by hand."""
    authority, password = Authority(tmp_path), unique("password")
    own = {"ssl.keystore.location": str(authority.pkcs12(password, "10.8.0.11")), "ssl.keystore.type": "PKCS12",
           "ssl.keystore.password": password}  # fmt: skip
    file = {f"listener.name.out.{key}": value for key, value in own.items()} | {
        "listeners": "PLAINTEXT://10.8.0.11:19092,OUT://10.8.0.11:9092,CONTROLLER://10.8.0.11:9093",
        "advertised.listeners": "PLAINTEXT://kafka-1.farm.example:19092,OUT://kafka-1.farm.example:9092",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SSL,CONTROLLER:PLAINTEXT",
    }
    with FromFiles(network, tmp_path, 1, combined=True, more=file, asked=19092) as farm:
        report = doctor(laptop, "10.8.0.11:9092", "--tls", "--tls-ca", str(authority.pem))
        lines = fix(report)
        assert not any(password in line for line in lines)
        assert any("with the values of listener.name.out.ssl.keystore.password" in line for line in lines)
        farm.files[1]["listener.name.external.ssl.keystore.password"] = password
        paste(farm, lines, tmp_path)
        laptop.call(_over_tls, bootstrap(lines, ""), str(authority.pem))


def _over_tls(servers: str, ca: str) -> None:
    tls = {"bootstrap.servers": servers, "security.protocol": "SSL", "ssl.ca.location": ca}
    producer = Producer(tls)
    topic = unique("topic")
    producer.produce(topic, b"over TLS")
    assert producer.flush(PATIENCE_S) == 0
    assert topic in AdminClient(tls).list_topics(timeout=PATIENCE_S).topics
