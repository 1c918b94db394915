"""Share groups (KIP-932): Kafka's own share consumers through kproxy, while leadership moves."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.kafka_python import KafkaAdminClient, TopicPartition
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import create_topic, leaders, produce, unique

pytestmark = pytest.mark.integration

RECORDS = 100


class ShareConsumer:
    """Kafka's VerifiableShareConsumer, which writes an event for everything that happens, as JSON."""

    def __init__(self, cluster: DevCluster, bootstrap: str, topic: str, group: str) -> None:
        command = cluster.programs.command(
            "org.apache.kafka.tools.VerifiableShareConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"),
            *("--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"),
        )
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> ShareConsumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def values(self) -> list[bytes]:
        """The records received."""
        return [event["value"].encode() for event in self._named("record_data")]

    @property
    def acknowledged(self) -> int:
        """How many of them the brokers have confirmed to be done with."""
        return sum(event["count"] for event in self._named("offsets_acknowledged"))

    def _named(self, name: str) -> list[dict[str, Any]]:
        assert self._process.poll() is None, "the share consumer ended"
        return [event for event in list(self._events) if event["name"] == name]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.append(json.loads(line))


def test_a_share_group_gets_each_record_once_while_leaders_move(cluster: DevCluster, kproxy: Kproxy) -> None:
    topic, group = create_topic(cluster.direct_bootstrap), unique("share")
    before = {api: rewritten(kproxy, api) for api in ("ShareFetch", "ShareAcknowledge")}
    with (
        ShareConsumer(cluster, kproxy.bootstrap, topic, group) as one,
        ShareConsumer(cluster, kproxy.bootstrap, topic, group) as other,
    ):
        sent = [b"before-%d" % i for i in range(RECORDS)]
        produce(kproxy.bootstrap, topic, sent)
        wait_acknowledged([one, other], len(sent))
        move_leaders(cluster, topic)
        after = [b"after-%d" % i for i in range(RECORDS)]
        produce(kproxy.bootstrap, topic, after)
        wait_acknowledged([one, other], len(sent + after))
        assert sorted(one.values + other.values) == sorted(sent + after)
    for api in ("ShareFetch", "ShareAcknowledge"):
        assert kproxy.metric("kproxy_requests_total", api=api, version="2") > 0
    # The old leaders named the new ones, with addresses, in one answer or another.
    assert sum(rewritten(kproxy, api) - before[api] for api in before) > 0


def rewritten(kproxy: Kproxy, api: str) -> float:
    return kproxy.metric("kproxy_endpoints_rewritten_total", api=api)


def wait_acknowledged(consumers: Sequence[ShareConsumer], count: int) -> None:
    wait_until(
        lambda: sum(consumer.acknowledged for consumer in consumers) >= count,
        f"{count} records are acknowledged",
        120,
    )


def move_leaders(cluster: DevCluster, topic: str) -> None:
    """Give every partition another leader."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.direct_bootstrap)
    try:
        nodes = cluster.node_ids
        wanted = {
            partition: nodes[(nodes.index(leader) + 1) % len(nodes)]
            for partition, leader in leaders(cluster.direct_bootstrap, topic).items()
        }
        changed = admin.alter_partition_reassignments(
            {
                TopicPartition(topic, partition): [leader, *(node for node in nodes if node != leader)]
                for partition, leader in wanted.items()
            }
        )
        assert set(changed.values()) == {None}, changed
        admin.elect_leaders(0, {topic: sorted(wanted)}, raise_errors=False)  # complains where it leads already
        wait_until(lambda: leaders(cluster.direct_bootstrap, topic) == wanted, f"{topic} has its new leaders")
    finally:
        admin.close()
