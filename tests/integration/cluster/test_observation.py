"""What kproxy records of real clients: librdkafka, also with transactions, kafka-python, and Kafka's Java tools."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.kafka_python import KafkaProducer
from tests.harness.clients.spark import PASSWORD
from tests.harness.process import PATIENCE_S, Kproxy
from tests.harness.topics import consumer, create_topic, read, unique

pytestmark = pytest.mark.integration


def command(kproxy: Kproxy, seconds: float) -> dict[str, Any]:
    body = json.dumps({"observer": "test", "seconds": seconds}).encode()
    asked = urllib.request.Request(
        f"http://{kproxy.admin}/observation", body, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        return dict(json.loads(answer.read()))


def record(kproxy: Kproxy) -> list[dict[str, Any]]:
    status, text = kproxy.get("/observation")
    assert status == 200
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[-1] == {"end": len(lines) - 2}
    assert lines[0]["observation"]["left_out"] == {}
    return lines


def uses(lines: list[dict[str, Any]], client_id: str, names: dict[str, str]) -> set[tuple[str, ...]]:
    """What this client used: the kind and the name, of a transaction also its id. `names` has those of topic ids."""
    return {
        (use["use"], *([use["transaction"]] if "transaction" in use else []),
         use.get("name") or use.get("topic") or names[use["topic_id"]])
        for line in lines if line.get("client", {}).get("client_id") == client_id
        for use in line["client"]["uses"]
    }  # fmt: skip


def test_what_real_clients_use(own_kproxy: Callable[..., Kproxy], cluster: DevCluster) -> None:
    kproxy = own_kproxy(cluster.bootstrap)
    source, sink, group, transaction = (
        create_topic(kproxy.bootstrap), create_topic(kproxy.bootstrap), unique("group"), unique("tx"),
    )  # fmt: skip
    settings = {"bootstrap.servers": kproxy.bootstrap}
    before = Producer({**settings, "client.id": "before"})  # its sessions are older than the observation
    before.produce(source, b"x")
    assert before.flush(PATIENCE_S) == 0
    assert command(kproxy, 600)["clients"] == 0
    for number in range(100):
        before.produce(source, b"x", partition=number % 3)
    assert before.flush(PATIENCE_S) == 0

    with consumer(kproxy.bootstrap, **{"client.id": "mover", "group.id": group, "enable.auto.commit": False}) as reader:
        reader.subscribe([source])
        read(reader, 50)
        writer = Producer({**settings, "client.id": "mover-out", "transactional.id": transaction})
        writer.init_transactions(PATIENCE_S)
        writer.begin_transaction()
        writer.produce(sink, b"y")
        writer.send_offsets_to_transaction(
            reader.position(reader.assignment()), reader.consumer_group_metadata(), PATIENCE_S
        )
        writer.commit_transaction(PATIENCE_S)
    pure = KafkaProducer(bootstrap_servers=kproxy.bootstrap, client_id="pure", enable_idempotence=False)
    pure.send(sink, b"z", partition=1).get(PATIENCE_S)
    pure.close()

    tool = cluster.tool(
        "kafka-console-consumer", "--bootstrap-server", kproxy.bootstrap, "--topic", source, "--group", f"{group}-java",
        "--from-beginning", "--max-messages", "10", "--timeout-ms", "60000", "--consumer-property", "client.id=java",
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert tool.returncode == 0, tool.stdout + tool.stderr

    lines = record(kproxy)
    names = ids_of(kproxy.bootstrap, source, sink)
    assert uses(lines, "before", names) == {("writes", source)}
    assert uses(lines, "mover", names) == {("reads", source), ("groups", group)}
    assert uses(lines, "mover-out", names) == {
        ("writes", sink), ("transactions", transaction), ("writes", transaction, sink), ("groups", group),
        ("groups", transaction, group),
    }  # fmt: skip
    assert uses(lines, "pure", names) == {("writes", sink)}
    assert uses(lines, "java", names) == {("reads", source), ("groups", f"{group}-java")}
    software = {line["client"]["client_id"]: line["client"]["software"] for line in lines if "client" in line}
    assert software["java"].startswith("apache-kafka-java")
    assert software["mover"].startswith("confluent-kafka-python") or software["mover"].startswith("librdkafka")

    offsets: dict[str, int] = {}
    for line in lines:
        if (partition := line.get("partition")) is not None:
            topic = partition.get("topic") or names[partition["topic_id"]]
            offsets[topic] = offsets.get(topic, 0) + partition["offsets"]
    assert offsets == {source: 100, sink: 2}
    command(kproxy, 0)
    assert json.loads(kproxy.get("/observation")[1].splitlines()[0])["observation"]["since"] is None


def ids_of(bootstrap: str, *topics: str) -> dict[str, str]:
    """The topics by their ids, as Kafka writes these: librdkafka has the other alphabet of base64."""
    alphabet = str.maketrans("+/", "-_")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(TopicCollection(list(topics)))
    return {str(done.result(PATIENCE_S).topic_id).translate(alphabet): topic for topic, done in described.items()}


def test_the_users_of_logins_that_pass_to_the_broker(login_kproxy: Kproxy, cluster: DevCluster) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    set_password = cluster.tool(
        "kafka-configs", "--bootstrap-server", cluster.direct_bootstrap, "--alter", "--entity-type", "users",
        "--entity-name", "observed", "--add-config", f"SCRAM-SHA-512=[password={PASSWORD}]",
    )  # fmt: skip
    assert set_password.returncode == 0, set_password.stderr
    users = {"PLAIN": "spark", "SCRAM-SHA-512": "observed"}
    login = {"bootstrap.servers": login_kproxy.bootstrap, "security.protocol": "SASL_PLAINTEXT"}
    writers = {
        mechanism: Producer(
            {**login, "client.id": mechanism, "sasl.mechanism": mechanism, "sasl.username": user,
             "sasl.password": PASSWORD},
        )
        for mechanism, user in users.items()
    }  # fmt: skip
    for writer in writers.values():  # their logins are older than the observation
        writer.produce(topic, b"x")
        assert writer.flush(PATIENCE_S) == 0
    command(login_kproxy, 600)
    for writer in writers.values():
        writer.produce(topic, b"x")
        assert writer.flush(PATIENCE_S) == 0
    clients = [line["client"] for line in record(login_kproxy) if "client" in line]
    assert {client["client_id"]: client["broker_user"] for client in clients if client["uses"]} == users
    assert {client["user"] for client in clients} == {""}
    sessions = json.loads(login_kproxy.get("/sessions")[1])
    assert {(session["login"], session["broker_user"]) for session in sessions} == set(users.items())
    assert PASSWORD not in json.dumps([clients, sessions])
