"""Clients that log in, before and after a switch: who brings the credentials for which cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kproxy.dev.devcluster import DevCluster
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.fleet import open_fleet
from tests.harness.clients.flow import create_topic
from tests.harness.clients.going import java
from tests.harness.clusters.steady import STEADY
from tests.harness.migration.switched import BLUE, GREEN, Switched
from tests.harness.process import wait_until
from tests.harness.topics import unique

pytestmark = pytest.mark.integration

USER, SECRET = "app", "a-password-of-the-tests"
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": SECRET,
}  # fmt: skip
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = {
    **STEADY, "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": f'{_MODULE} required user_{USER}="{SECRET}";',
}  # fmt: skip
Options = Mapping[str, object]
Start = Callable[..., Switched]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Mapping[str, DevCluster]]:
    """Both want a login of their clients."""
    with (
        DevCluster(1, client_protocol="SASL_PLAINTEXT", properties=SASL) as blue,
        DevCluster(1, client_protocol="SASL_PLAINTEXT", properties=SASL) as green,
    ):
        yield {BLUE: blue, GREEN: green}


@pytest.fixture
def start(clusters: Mapping[str, DevCluster], tmp_path: Path) -> Iterator[Start]:
    """A kproxy, with more options of each upstream."""
    (tmp_path / "password").write_text(SECRET)
    (tmp_path / "password").chmod(0o600)
    with ExitStack() as held:

        def make(**options: Options) -> Switched:
            more = {name: {"map": [f"node:1={one.dial[1]}"], **options.get(name, {})} for name, one in clusters.items()}
            blue, green = (str(clusters[name].dial[1]) for name in (BLUE, GREEN))
            return held.enter_context(Switched(tmp_path / "kproxy", blue, green, options=more))

        yield make


@pytest.fixture
def sasl(tmp_path: Path) -> Options:
    """kproxy logs in itself."""
    return {"sasl": "PLAIN", "sasl-username": USER, "sasl-password-file": str(tmp_path / "password")}


def id_of(cluster: DevCluster) -> str:
    return str(AdminClient({"bootstrap.servers": cluster.direct_bootstrap}).list_topics(timeout=30).cluster_id)


def found(kproxy: Switched, clusters: Mapping[str, DevCluster], tmp_path: Path) -> dict[str, list[str]]:
    """Of the preflight, by severity."""
    (tmp_path / "token").write_text("a-token-of-the-tests")
    (tmp_path / "token").chmod(0o600)
    section = SwitchSection(KproxySelection((kproxy.admin,)), GREEN, token_file=tmp_path / "token")
    direction = preflight.Direction(GREEN, id_of(clusters[BLUE]), id_of(clusters[GREEN]))
    said: dict[str, list[str]] = {}
    with open_fleet(section) as those:
        for one in preflight.check_kproxies(those, section, direction)[0]:
            said.setdefault(one.severity, []).append(one.text)
    return said


def written(producer: Producer, topic: str) -> None:
    """One record, acknowledged."""
    problems: list[object] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: problems.append(error))
    assert producer.flush(60) == 0
    assert problems == [None]


def test_clients_that_log_in_themselves_to_both(
    clusters: Mapping[str, DevCluster], start: Start, tmp_path: Path
) -> None:
    kproxy = start(blue={"cluster-id": id_of(clusters[BLUE])}, green={"cluster-id": id_of(clusters[GREEN])})
    topic = unique("logins")
    for one in clusters.values():
        create_topic(one.direct_bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": kproxy.bootstrap, "client.id": "writer", **LOGIN})
    written(producer, topic)
    (client,) = (one for one in kproxy.seen()["clients"] if one["client"] == "writer")
    assert client["login"] == "PLAIN"
    assert {name: one["login"] for name, one in kproxy.seen()["upstreams"].items()} == {
        BLUE: "clients", GREEN: "clients",
    }  # fmt: skip
    said = found(kproxy, clusters, tmp_path)
    assert "error" not in said
    assert "with PLAIN: green must know the same users and mechanisms" in said["warning"][0]
    kproxy.hold()
    kproxy.must("flip")
    kproxy.must("release")
    written(producer, topic)
    reader = AdminClient({"bootstrap.servers": clusters[GREEN].direct_bootstrap})
    assert wait_until(lambda: reader.list_topics(topic, timeout=30).topics[topic].partitions, "it is there")


def test_a_transaction_of_a_java_client_that_logs_in_itself(
    clusters: Mapping[str, DevCluster], start: Start, tmp_path: Path
) -> None:
    """It names its software after its login only. kproxy must know it, to answer with errors that it survives."""
    kproxy = start(blue={"cluster-id": id_of(clusters[BLUE])}, green={"cluster-id": id_of(clusters[GREEN])})
    topic = unique("logins")
    for one in clusters.values():
        create_topic(one.direct_bootstrap, topic, 1)
        # A broker makes the topic of transactions when a client asks for a coordinator.
        Producer({"bootstrap.servers": one.direct_bootstrap, "transactional.id": unique("first")}).init_transactions(60)
    properties = {
        "bootstrap.servers": kproxy.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_MODULE} required username="{USER}" password="{SECRET}";',
        "client.id": "writer", "transactional.id": unique("tx"),
    }  # fmt: skip
    with java(clusters[BLUE].programs, ("transact", topic, "1", "20", "20"), properties, tmp_path / "log") as client:
        client.wait(lambda: len(client.said("committed")) >= 2, "two transactions")
        client.wait_more("acked", 5)
        (seen,) = (one for one in kproxy.seen()["clients"] if one["client"] == "writer")
        assert "java" in seen["software"]
        kproxy.hold()
        kproxy.must("flip")
        kproxy.must("release")
        client.wait(lambda: client.said("aborted"), "the application sees the abort")
        client.wait_more("committed", 3)


def test_without_a_cluster_id_the_preflight_says_what_helps(
    clusters: Mapping[str, DevCluster], start: Start, tmp_path: Path
) -> None:
    said = found(start(), clusters, tmp_path)["error"]
    assert len(said) == 1
    assert "cannot route to green: upstream green has not sent its cluster id" in said[0]
    assert "set cluster-id for upstream green" in said[0]


def test_where_kproxy_logs_in_to_the_other_cluster_itself(
    clusters: Mapping[str, DevCluster], start: Start, sasl: Options, tmp_path: Path
) -> None:
    kproxy = start(blue={"cluster-id": id_of(clusters[BLUE])}, green=sasl)
    topic = unique("logins")
    create_topic(clusters[BLUE].direct_bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": kproxy.bootstrap, "client.id": "writer", **LOGIN})
    written(producer, topic)
    (said,) = found(kproxy, clusters, tmp_path)["error"]
    assert "its clients log in themselves (writer), and kproxy itself logs in to green (sasl)" in said


def test_where_kproxy_logs_in_to_the_former_cluster_only(
    clusters: Mapping[str, DevCluster], start: Start, sasl: Options, tmp_path: Path
) -> None:
    kproxy = start(blue=sasl, green={"cluster-id": id_of(clusters[GREEN])})
    (said,) = found(kproxy, clusters, tmp_path)["error"]
    assert "the brokers of green want a login: give upstream green credentials (sasl)" in said
