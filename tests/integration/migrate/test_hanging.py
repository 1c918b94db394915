"""Hanging transactions, made on a real broker: kproxy names them, and the command that it prints ends them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from kproxy.base.diagnostic import ERROR, WARNING, Diagnostic
from kproxy.dev.devcluster import DevCluster
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.requests import LATEST
from kproxy.migrate.switch.hanging import check_hanging
from tests.harness.clients import kafka_python  # noqa: F401  # its warnings are not ours
from tests.harness.clients.spark import PASSWORD
from tests.harness.clusters.steady import STEADY
from tests.harness.clusters.twologins import AUTHORIZER, allow
from tests.harness.process import PATIENCE_S, Kproxy, wait_until
from tests.harness.topics import create_topic, unique

pytestmark = pytest.mark.integration

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A cluster whose broker takes a transaction's records without asking its coordinator, as before KIP-890."""
    properties = {
        **AUTHORIZER,
        **STEADY,
        "transaction.partition.verification.enable": "false",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f'{PLAIN} user_mover="{PASSWORD}";',
    }
    with DevCluster(
        1, client_protocol="SASL_PLAINTEXT", properties=properties, controller_properties=AUTHORIZER
    ) as made:
        yield made


def hang(cluster: DevCluster, topic: str, partition: int) -> None:
    """Write a record of a transaction without telling the coordinator of the partition."""
    with ClusterClient(cluster.direct_bootstrap) as client:
        producer = TransactionalProducer(client, unique("hangs"))
        retry(client, partial(producer.init_transactions, time.monotonic() + PATIENCE_S), PATIENCE_S)
        client.leader(topic, partition)
        producer.send_records(topic, partition, [(b"key", b"value")], 0)
        producer.flush()


def checked(bootstrap: str, *topics: str) -> list[Diagnostic]:
    with Admin(bootstrap) as admin:
        return list(check_hanging(admin, topics.__contains__, time.monotonic() + PATIENCE_S))


def planned(cluster: DevCluster, topic: str, file: Path) -> list[tuple[str, str, str]]:
    """Return what `kproxy migrate plan` finds in a migration of this topic to another cluster."""
    with DevCluster(1, properties=STEADY) as target:
        made = {"source": cluster, "target": target}
        sides = {side: {"bootstrap-servers": one.direct_bootstrap} for side, one in made.items()}
        file.write_text(json.dumps({"name": "move", "topics": {"include": [topic]}, **sides}))
        plan = [sys.executable, "-m", "kproxy", "migrate", "plan", str(file), "--sample", "0s", "--json"]
        done = subprocess.run(plan, capture_output=True, check=False)
    findings = json.loads(done.stdout)["findings"]
    return [(finding["severity"], finding["subject"], finding["text"]) for finding in findings]


def ends(cluster: DevCluster, topic: str, *, committed: bool) -> dict[tuple[str, int], int]:
    with ClusterClient(cluster.direct_bootstrap) as client:
        return dict(client.list_offsets([(topic, 0), (topic, 1)], LATEST, committed=committed))


def test_the_printed_command_ends_it(cluster: DevCluster, tmp_path: Path) -> None:
    topic, other = (create_topic(cluster.direct_bootstrap, 2, 1) for _ in range(2))
    live = Producer({"bootstrap.servers": cluster.direct_bootstrap, "transactional.id": unique("live")})
    live.init_transactions(PATIENCE_S)
    live.begin_transaction()
    for partition in range(2):
        live.produce(topic, b"live", partition=partition)
    live.flush(PATIENCE_S)
    assert checked(cluster.direct_bootstrap, topic) == []  # it is open, and its coordinator knows it
    hang(cluster, topic, 1)
    hang(cluster, other, 0)

    (found,) = checked(cluster.direct_bootstrap, topic)
    assert (found.severity, found.subject) == (ERROR, f"partition {topic}-1")
    assert "is open from offset 1 on, and no coordinator knows it" in found.text
    assert len(checked(cluster.direct_bootstrap, topic, other)) == 2

    assert (WARNING, found.subject, found.text) in planned(cluster, topic, tmp_path / "move.yaml")

    command = shlex.split(found.text[found.text.index("kafka-transactions.sh") :])
    tool = [word.replace("HOST:PORT", cluster.direct_bootstrap) for word in command[1:]]
    done = cluster.tool("kafka-transactions", *tool)
    assert done.returncode == 0, done.stdout + done.stderr
    assert checked(cluster.direct_bootstrap, topic) == []
    live.commit_transaction(PATIENCE_S)
    wait_until(lambda: ends(cluster, topic, committed=True) == ends(cluster, topic, committed=False), "all is readable")


def test_a_login_that_may_not_see_all_transactions_claims_nothing(cluster: DevCluster, tmp_path: Path) -> None:
    topic = create_topic(cluster.direct_bootstrap, 1, 1)
    hang(cluster, topic, 0)
    allow(cluster, "mover", topic, ResourceType.TOPIC, AclOperation.ALL)
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    login = ["--sasl", "PLAIN", "--sasl-username", "mover", "--sasl-password-file", str(password)]
    maps = [word for node, address in cluster.dial.items() for word in ("--map", f"node:{node}={address}")]
    with Kproxy(tmp_path, cluster.bootstrap, *login, *maps) as kproxy:
        (found,) = checked(kproxy.bootstrap, topic)
        assert found.severity == WARNING
        assert f"transactions are open in {topic}-0, and no coordinator shows them" in found.text
        assert "kafka-transactions.sh" not in found.text
        for right, name in ((ResourceType.TRANSACTIONAL_ID, "*"), (ResourceType.TOPIC, "__transaction_state")):
            allow(cluster, "mover", name, right, AclOperation.DESCRIBE)
        wait_until(lambda: [one.severity for one in checked(kproxy.bootstrap, topic)] == [ERROR], "it sees all")
