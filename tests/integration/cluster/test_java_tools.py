"""Kafka's own command line tools through kproxy. A JVM takes a second or two to start, so each test starts few."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import create_topic, leaders, local_addresses, read_topic, unique, values

pytestmark = pytest.mark.integration

Run = Callable[..., str]


@pytest.fixture
def run(cluster: DevCluster, kproxy: Kproxy) -> Run:
    """Runs a tool against kproxy; gives what it printed."""

    def run_tool(tool: str, *args: str, input: str | None = None, bootstrap: str | None = None) -> str:
        server = ("--bootstrap-server", bootstrap or kproxy.bootstrap)
        done = cluster.tool(tool, *server, *args, input=input, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run_tool


def test_topics(kproxy: Kproxy, run: Run) -> None:
    topic = unique("java")
    created = run("kafka-topics", "--create", "--topic", topic, "--partitions", "4", "--replication-factor", "3")
    assert f"Created topic {topic}." in created
    described = run("kafka-topics", "--describe", "--topic", topic)
    assert "PartitionCount: 4\tReplicationFactor: 3" in described
    found = dict(re.findall(r"Partition: (\d+)\tLeader: (\d+)", described))
    assert {int(number): int(leader) for number, leader in found.items()} == leaders(kproxy.bootstrap, topic)
    run("kafka-topics", "--delete", "--topic", topic)
    admin = AdminClient({"bootstrap.servers": kproxy.bootstrap})
    wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, "the topic is gone")


def test_console_producer_consumer_and_the_groups_offsets(kproxy: Kproxy, run: Run) -> None:
    topic, group = create_topic(kproxy.bootstrap), unique("group")
    lines = [f"key{number}:value{number}" for number in range(300)]
    with_keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run("kafka-console-producer", "--topic", topic, *with_keys, input="\n".join(lines) + "\n")
    read = run(
        "kafka-console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "300",
        "--timeout-ms", "60000", "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:",
    )  # fmt: skip
    assert sorted(read.splitlines()) == sorted(lines)

    described = run("kafka-consumer-groups", "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sorted(row[2] for row in rows) == ["0", "1", "2"]
    assert sum(int(row[3]) for row in rows) == 300
    assert [row[5] for row in rows] == ["0", "0", "0"]  # the lag
    to_start = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    reset = run("kafka-consumer-groups", *to_start)
    assert sorted(line.split()[2:4] for line in reset.splitlines() if line.startswith(group)) == [
        ["0", "0"],
        ["1", "0"],
        ["2", "0"],
    ]


def test_get_offsets_and_log_dirs(cluster: DevCluster, kproxy: Kproxy, run: Run) -> None:
    topic = create_topic(kproxy.bootstrap)
    assert run("kafka-get-offsets", "--topic", topic).splitlines() == [f"{topic}:{number}:0" for number in range(3)]
    # Asked at every broker, each through its own local port.
    told = json.loads(run("kafka-log-dirs", "--describe", "--topic-list", topic).splitlines()[-1])
    assert sorted(broker["broker"] for broker in told["brokers"]) == sorted(cluster.node_ids)
    partitions = [one["partition"] for broker in told["brokers"] for one in broker["logDirs"][0]["partitions"]]
    assert sorted(partitions) == sorted(f"{topic}-{number}" for number in range(3) for _ in range(3))


def test_topic_configuration(kproxy: Kproxy, run: Run) -> None:
    topic = create_topic(kproxy.bootstrap)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    run("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=1234567")
    assert "retention.ms=1234567 " in run("kafka-configs", "--describe", *entity)


def test_broker_configuration_is_shown_as_it_is(cluster: DevCluster, tmp_path: Path, run: Run) -> None:
    """A broker's configuration holds its advertised.listeners as text. That is for people to read, no client connects
    to it, and whoever asks wants to know what the broker really has: it passes, so nothing watches for it here."""
    with Kproxy(tmp_path, cluster.bootstrap) as unwatched:
        entity = ("--entity-type", "brokers", "--entity-name", "1001", "--all")
        shown = run("kafka-configs", "--describe", *entity, bootstrap=unwatched.bootstrap)
    assert f"CLIENT://{cluster.advertised[1001]}" in shown


def test_broker_api_versions(cluster: DevCluster, kproxy: Kproxy, run: Run) -> None:
    shown = run("kafka-broker-api-versions")
    found = {int(node): where for where, node in re.findall(r"^(\S+) \(id: (\d+) ", shown, re.MULTILINE)}
    assert found == local_addresses(kproxy)
    for api in ("Produce(0)", "Fetch(1)", "Metadata(3)", "DescribeCluster(60)", "ShareFetch(78)"):
        # What this Java client would use is what kproxy lets through: no version is lost between equals.
        assert len(re.findall(rf"{re.escape(api)}: \d+ to (\d+) \[usable: \1\]", shown)) == len(cluster.node_ids)


@pytest.mark.parametrize(
    ("controller", "refusal"),
    [
        (4711, "ControllerIdNotRegisteredException: Controller ID 4711 is not currently registered."),
        (3000, "InvalidRequestException: Controller cannot unregister itself while it is active."),
    ],
)
def test_unregister_controller(cluster: DevCluster, kproxy: Kproxy, controller: int, refusal: str) -> None:
    """Here the cluster's only controller answers, and refuses: what it says arrives as it does directly."""
    for bootstrap in (cluster.direct_bootstrap, kproxy.bootstrap):
        where = ("--bootstrap-server", bootstrap, "--id", str(controller))
        done = cluster.tool("kafka-cluster", "unregister-controller", *where)
        assert refusal in done.stderr, (bootstrap, done.stdout + done.stderr)


def test_streams_groups(cluster: DevCluster, kproxy: Kproxy) -> None:
    """With the topology, which needs StreamsGroupDescribe 1 even where there is no such group."""
    for bootstrap in (cluster.direct_bootstrap, kproxy.bootstrap):
        where = ("--bootstrap-server", bootstrap, "--group", "no-such-group")
        done = cluster.tool("kafka-streams-groups", "--describe", "--topology", *where)
        assert "GroupIdNotFoundException: Group no-such-group not found." in done.stdout, (bootstrap, done.stdout)


def test_metadata_quorum_of_brokers(cluster: DevCluster, run: Run) -> None:
    described = run("kafka-metadata-quorum", "describe", "--replication")
    nodes = {int(line.split()[0]): line.split()[-1] for line in described.splitlines()[1:] if line.strip()}
    assert nodes == {3000: "Leader", **dict.fromkeys(cluster.node_ids, "Observer")}


def test_metadata_quorum_of_controllers(cluster: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    """With kproxy in front of the controllers: they have local ports too (DescribeCluster with EndpointType 2)."""
    kproxy = own_kproxy(cluster.controller_bootstrap)
    server = ("--bootstrap-controller", kproxy.bootstrap)
    done = cluster.tool("kafka-metadata-quorum", *server, "describe", "--status")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^LeaderId: +3000$", done.stdout, re.MULTILINE)
    assert re.search(rf"^ClusterId: +{cluster.cluster_id}$", done.stdout, re.MULTILINE)
    (controller,) = kproxy.status()["nodes"]
    assert (controller["kind"], controller["id"]) == ("controller", 3000)
    assert controller["advertised"] == cluster.controller_bootstrap != controller["local"]
    assert kproxy.metric("kproxy_endpoints_rewritten_total", api="DescribeCluster") > 0
    # The tool went on to what it had been told, and that was the local port.
    assert kproxy.metric("kproxy_requests_total", node=controller["node"], api="DescribeQuorum") == 1


def test_transactions(cluster: DevCluster, kproxy: Kproxy, run: Run) -> None:
    topic, transaction = create_topic(kproxy.bootstrap), unique("tx")
    many = ("--num-records", "2000", "--record-size", "50", "--throughput", "-1")
    in_transactions = ("--transactional-id", transaction, "--transaction-duration-ms", "20")
    said = run("kafka-producer-perf-test", "--topic", topic, *many, *in_transactions)
    assert "2000 records sent" in said
    assert len(read_topic(kproxy.bootstrap, topic, isolation_level="read_committed")) == 2000
    rows = [line.split() for line in run("kafka-transactions", "list").splitlines()]
    (row,) = [row for row in rows if row[0] == transaction]
    assert int(row[1]) in cluster.node_ids
    assert row[3] == "CompleteCommit"


def test_reassign_partitions(cluster: DevCluster, kproxy: Kproxy, run: Run, tmp_path: Path) -> None:
    topic = create_topic(kproxy.bootstrap, 1, 1)
    (before,) = leaders(kproxy.bootstrap, topic).values()
    after = next(node for node in cluster.node_ids if node != before)
    plan = tmp_path / "plan.json"
    moves = [{"topic": topic, "partition": 0, "replicas": [after]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    said = run("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    assert f"Successfully started partition reassignment for {topic}-0" in said
    wait_until(lambda: leaders(kproxy.bootstrap, topic) == {0: after}, "the partition has moved")
    run("kafka-console-producer", "--topic", topic, input="to the new leader\n")
    assert values(read_topic(kproxy.bootstrap, topic, 1)) == [b"to the new leader"]
