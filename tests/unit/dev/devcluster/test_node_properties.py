"""The configuration files, and the arguments that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.properties import (
    ListenerSpec,
    NodeListener,
    broker_properties,
    controller_properties,
    meta_properties,
    new_uuid,
    render,
    session_seconds,
)

CONTROLLER = NodeListener("CONTROLLER", Address("127.0.0.1", 20001), Address("127.0.0.1", 20001))
INTERNAL = NodeListener("INTERNAL", Address("127.0.0.1", 20002), Address("127.0.0.1", 20002))
CLIENT = NodeListener("CLIENT", Address("127.0.0.1", 20003), Address("kafka-7.cluster.internal", 9092), "SSL")


def _broker(brokers: int = 3, extra: dict[str, str] | None = None) -> dict[str, str]:
    return broker_properties(
        7, Path("/d"), [INTERNAL, CLIENT], (3000, CONTROLLER), brokers, {} if extra is None else extra
    )


def test_a_broker_binds_to_loopback_and_advertises_its_name() -> None:
    said = _broker()
    assert said["node.id"] == "7"
    assert said["listeners"] == "INTERNAL://127.0.0.1:20002,CLIENT://127.0.0.1:20003"
    assert said["advertised.listeners"] == "INTERNAL://127.0.0.1:20002,CLIENT://kafka-7.cluster.internal:9092"
    assert said["listener.security.protocol.map"] == "INTERNAL:PLAINTEXT,CLIENT:SSL,CONTROLLER:PLAINTEXT"
    assert said["inter.broker.listener.name"] == "INTERNAL"
    assert said["controller.quorum.voters"] == "3000@127.0.0.1:20001"


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_internal_topics_fit_the_number_of_brokers(brokers: int, replicas: str, in_sync: str) -> None:
    said = _broker(brokers)
    assert said["offsets.topic.replication.factor"] == replicas
    assert said["transaction.state.log.replication.factor"] == replicas
    assert said["share.coordinator.state.topic.replication.factor"] == replicas
    assert said["transaction.state.log.min.isr"] == in_sync
    assert said["min.insync.replicas"] == in_sync


def test_the_users_properties_win() -> None:
    assert _broker(extra={"num.io.threads": "9"})["num.io.threads"] == "9"


def test_controller_decisions_come_from_the_brokers_properties() -> None:
    users = {"num.partitions": "12", "num.io.threads": "9"}
    said = controller_properties(3000, Path("/d"), CONTROLLER, 3, users, {"x": "y"})
    assert (said["num.partitions"], said["x"]) == ("12", "y")
    assert "num.io.threads" not in said
    assert said["process.roles"] == "controller"
    assert said["default.replication.factor"] == "3"


def test_a_formatted_directory_says_whose_it_is() -> None:
    said = meta_properties("abc", 49176)
    assert (said["version"], said["cluster.id"], said["node.id"]) == ("1", "abc", "49176")
    assert len(said["directory.id"]) == 22


def test_uuids_differ_and_never_look_like_options() -> None:
    made = {new_uuid() for _ in range(500)}
    assert len(made) == 500
    assert not any(one.startswith("-") for one in made)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain=value: #!", "plain=value: #!"),
        (r"C:\kafka", r"C:\\kafka"),
        ("two\nlines", r"two\nlines"),
        (" leading", r"\ leading"),
        ("ü€😀", "\\u00fc\\u20ac\\ud83d\\ude00"),
        ("", ""),
    ],
)
def test_values_are_written_as_java_reads_them(value: str, written: str) -> None:
    assert render({"a.b-c_d": value}) == f"a.b-c_d={written}\n"


@pytest.mark.parametrize("key", ["", "with space", "a=b", "new\nline"])
def test_a_key_that_cannot_be_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a Kafka property"):
        render({key: "x"})


def test_an_advertised_template_knows_the_node_and_its_port() -> None:
    spec = ListenerSpec("X", "b{id}.example:{port}")
    assert spec.advertise(49176, 23000) == Address("b49176.example", 23000)


def test_a_listener_can_be_bound_to_an_address_of_the_node_s_own() -> None:
    assert ListenerSpec("X", bound="10.0.0.1{id}:9092").bind(3, 23000) == Address("10.0.0.13", 9092)
    assert ListenerSpec("X").bind(3, 23000) == Address("127.0.0.1", 23000)


@pytest.mark.parametrize("template", ["no-port", "{nobody}:9092", "h:{id", "h:99999", "h:{0}"])
def test_a_template_that_makes_no_address_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match="is not a template for HOST:PORT"):
        DevCluster(advertised=template)
    with pytest.raises(ConfigError, match="is not a template for HOST:PORT"):
        DevCluster(client_bound=template)


@pytest.mark.parametrize(
    ("brokers", "problem"),
    [
        (0, "at least one broker"),
        ([], "at least one broker"),
        ([1, 2, 1], "node id 1 is given more than once"),
        ([-1], "node id -1 is not allowed"),
        ([2**31], "node id 2147483648 is not allowed"),
        ([1, 3000], "node id 3000 is the controller's"),
    ],
)
def test_node_ids_that_cannot_be_are_refused(brokers: int | list[int], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        DevCluster(brokers)


def test_listeners_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="'CLIENT' is taken"):
        DevCluster(extra_listeners=[ListenerSpec("CLIENT")])
    with pytest.raises(ConfigError, match="'A' is taken"):
        DevCluster(extra_listeners=[ListenerSpec("A"), ListenerSpec("A")])
    with pytest.raises(ConfigError, match="'TLS' is not one of PLAINTEXT"):
        DevCluster(client_protocol="TLS")


def test_a_stopped_cluster_reports_it_and_can_be_stopped() -> None:
    cluster = DevCluster()
    assert not cluster.started
    cluster.stop()
    with pytest.raises(RuntimeError, match="not started"):
        _ = cluster.bootstrap


def test_how_long_a_silent_broker_counts_as_alive() -> None:
    assert session_seconds({}, {}) == 4
    assert session_seconds({"broker.session.timeout.ms": "120000"}, {}) == 120
    assert session_seconds({"broker.session.timeout.ms": "120000"}, {"broker.session.timeout.ms": "9000"}) == 9
    said = controller_properties(3000, Path("/d"), CONTROLLER, 1, {"broker.session.timeout.ms": "20000"}, {})
    assert session_seconds({"broker.session.timeout.ms": "20000"}, {}) * 1000 == int(said["broker.session.timeout.ms"])
