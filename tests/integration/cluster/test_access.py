"""What clients see of access rules: librdkafka, kafka-python and Kafka's own tools, on real brokers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.kafka_python import KafkaConsumer, KafkaProducer
from tests.harness.clients.kafka_python import TopicPartition as KafkaPythonPartition
from tests.harness.process import PATIENCE_S, Kproxy, wait_logged, wait_until
from tests.harness.topics import consumer, create_topic, leaders, produce, read, unique, values

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]


@pytest.fixture
def read_only(own_kproxy: Start, cluster: DevCluster) -> Kproxy:
    return own_kproxy(cluster.bootstrap, "--read-only", "--allow-groups", "dev-*")


def error_of(producer: Producer, topic: str, value: bytes = b"x") -> int | None:
    """The error code with which a record fails; None if it is written."""
    outcome: list[KafkaError | None] = []

    def report(error: KafkaError | None, _: Message) -> None:
        outcome.append(error)

    producer.produce(topic, value, on_delivery=report)
    assert producer.flush(PATIENCE_S) == 0
    (error,) = outcome
    return None if error is None else error.code()


def test_librdkafka_reads_and_cannot_change(kproxy: Kproxy, read_only: Kproxy) -> None:
    topic, absent = create_topic(kproxy.bootstrap), unique("absent")
    records = [b"%03d" % number for number in range(50)]
    produce(kproxy.bootstrap, topic, records, 0)
    with consumer(read_only.bootstrap, enable_auto_commit=False) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert values(read(reader, len(records))) == records
    assert (
        error_of(Producer({"bootstrap.servers": read_only.bootstrap}), topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    )
    idempotent = Producer({"bootstrap.servers": read_only.bootstrap, "enable.idempotence": True})
    idempotent.produce(topic, b"x")
    with pytest.raises(KafkaException, match="Cluster authorization failed"):  # librdkafka takes it for fatal
        wait_until(lambda: idempotent.poll(0.1) < 0, "it was told why it gets no producer id")
    idempotent.purge()

    admin = AdminClient({"bootstrap.servers": read_only.bootstrap, "allow.auto.create.topics": True})
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        admin.create_topics([NewTopic(absent, 1, 1)])[absent].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
    assert admin.list_topics(absent, timeout=PATIENCE_S).topics[absent].error is not None
    listed = AdminClient({"bootstrap.servers": kproxy.bootstrap}).list_topics(timeout=PATIENCE_S).topics
    assert topic in listed
    assert absent not in listed, "metadata created a topic"

    status = read_only.status()["access"]
    assert status["refused"] >= 4
    produced = next(refusal for refusal in status["latest"] if refusal["api"] == "Produce")
    assert (produced["name"], produced["reason"], produced["error"]) == (topic, "--read-only", 29)
    assert read_only.metric("kproxy_requests_refused_total", cluster="default", api="Produce") >= 1
    assert "read-only: refuses each request that changes something, but groups dev-* may be used" in read_only.log
    assert f"refused Produce of topic '{topic}'" in read_only.log


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_forbidden_joiner_does_not_disturb_the_members_of_a_group(
    kproxy: Kproxy, read_only: Kproxy, protocol: str
) -> None:
    """A member reads under load while another client asks to join, again and again, and commits."""
    topic, group = create_topic(kproxy.bootstrap), unique("payments")
    rebalances: list[int] = []
    got: list[bytes] = []
    settings = {"group_id": group, "group_protocol": protocol}
    with consumer(kproxy.bootstrap, **settings) as member:
        member.subscribe(
            [topic],
            on_assign=lambda _, partitions: rebalances.append(len(partitions)),
            on_revoke=lambda _, partitions: rebalances.append(-len(partitions)),
        )

        def poll() -> int:
            for message in member.consume(1000, timeout=0.05):
                assert message.error() is None, message.error()
                got.append(message.value() or b"")
            return len(got)

        wait_until(lambda: poll() == 0 and len(member.assignment()) == 3, "the member has all partitions")
        expected: list[bytes] = []
        for turn in range(5):
            records = [b"%d-%d" % (turn, number) for number in range(200)]
            produce(kproxy.bootstrap, topic, records)
            expected += records
            joiner = Consumer({"bootstrap.servers": read_only.bootstrap, **_dotted(settings)})
            joiner.subscribe([topic])
            errors: list[str] = []

            def refused(joiner: Consumer = joiner, errors: list[str] = errors) -> bool:
                message = joiner.poll(0.1)
                poll()
                error = None if message is None else message.error()
                if error is not None:
                    errors.append(error.str())
                return any("Group authorization failed" in text for text in errors)

            wait_until(refused, "the joiner was refused")
            # With the protocol of KIP-848, librdkafka takes the refusal for fatal, and commits nothing any more.
            with pytest.raises(KafkaException, match=r"GROUP_AUTHORIZATION_FAILED|_FATAL"):
                joiner.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            joiner.close()
        wait_until(lambda: poll() >= len(expected), "the member has read all records")
        assert sorted(got) == sorted(expected)
        assert rebalances == [3], "the group was rebalanced"
    mine = unique("dev")
    with consumer(read_only.bootstrap, group_id=mine, auto_offset_reset="earliest") as reader:
        reader.subscribe([topic])
        assert sorted(values(read(reader, len(expected)))) == sorted(expected)
        reader.commit(asynchronous=False)


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def test_kafkas_own_tools_report_kafkas_own_errors(cluster: DevCluster, kproxy: Kproxy, read_only: Kproxy) -> None:
    topic, group = create_topic(kproxy.bootstrap), unique("payments")
    produce(kproxy.bootstrap, topic, [b"a", b"b"], 0)

    def run(tool: str, *args: str, input: str | None = None) -> str:
        done = cluster.tool(tool, "--bootstrap-server", read_only.bootstrap, *args, input=input, timeout=120)
        return done.stdout + done.stderr

    said = run("kafka-console-producer", "--topic", topic, input="c\n")
    assert "TopicAuthorizationException" in said or "ClusterAuthorizationException" in said
    one = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "2", "--timeout-ms", "30000")
    assert run("kafka-console-consumer", *one).splitlines()[:2] == ["a", "b"]
    said = run("kafka-console-consumer", "--topic", topic, "--group", group, "--timeout-ms", "30000")
    assert f"GroupAuthorizationException: Not authorized to access group: {group}" in said
    said = run("kafka-consumer-groups", "--delete", "--group", group)
    assert "GroupAuthorizationException" in said
    said = run("kafka-topics", "--delete", "--topic", topic)
    assert "TopicAuthorizationException" in said
    assert "kproxy refuses this: --read-only" in said, "the text of the error says why"
    said = run(
        "kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "retention.ms=1"
    )
    assert "TopicAuthorizationException" in said
    quota = ("--entity-type", "clients", "--entity-name", "x", "--add-config", "producer_byte_rate=1024")
    said = run("kafka-configs", "--alter", *quota)
    assert "ClusterAuthorizationException" in said
    assert topic in run("kafka-topics", "--describe", "--topic", topic)


def test_kafka_python_reports_them_too(kproxy: Kproxy, read_only: Kproxy) -> None:
    topic = create_topic(kproxy.bootstrap)
    produce(kproxy.bootstrap, topic, [b"a"], 0)
    reader = KafkaConsumer(
        bootstrap_servers=read_only.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    reader.assign([KafkaPythonPartition(topic, 0)])
    assert next(reader).value == b"a"
    reader.close()
    producer = KafkaProducer(bootstrap_servers=read_only.bootstrap, enable_idempotence=False)
    with pytest.raises(Exception, match="TopicAuthorizationFailed"):
        producer.send(topic, b"x").get(timeout=PATIENCE_S)
    producer.close()


def _is_led(bootstrap: str, topic: str, admin: AdminClient) -> bool:
    return leaders(bootstrap, topic, admin) == {0: 1}


def test_of_a_producer_that_writes_to_several_topics_the_allowed_records_are_written(
    own_kproxy: Start, cluster: DevCluster, kproxy: Kproxy
) -> None:
    """kafka-python puts the records of both topics into one request, as all their leaders are one broker."""
    admin = AdminClient({"bootstrap.servers": kproxy.bootstrap})
    orders, audit = unique("orders"), unique("audit")
    for name in (orders, audit):
        topic = NewTopic(name, replica_assignment=[[1]], config={}, num_partitions=1)
        admin.create_topics([topic])[name].result(PATIENCE_S)
        wait_until(partial(_is_led, kproxy.bootstrap, name, admin), "broker 1 leads it")
    rules = own_kproxy(cluster.bootstrap, "--rules", "allow produce orders-*", "--rules", "deny produce *")
    producer = KafkaProducer(
        bootstrap_servers=rules.bootstrap, enable_idempotence=False, linger_ms=300, acks="all", retries=0
    )
    sent = [(name, producer.send(name, b"%03d" % number)) for number in range(200) for name in (orders, audit)]
    producer.flush(PATIENCE_S)
    for name, future in sent:
        if name == orders:
            future.get(timeout=PATIENCE_S)
        else:
            with pytest.raises(Exception, match="TopicAuthorizationFailed"):
                future.get(timeout=PATIENCE_S)
    producer.close()
    with consumer(kproxy.bootstrap, enable_auto_commit=False) as reader:
        reader.assign([TopicPartition(orders, 0, 0)])
        assert values(read(reader, 200)) == [b"%03d" % number for number in range(200)]
        assert reader.get_watermark_offsets(TopicPartition(audit, 0), timeout=PATIENCE_S) == (0, 0)
    idempotent = Producer({"bootstrap.servers": rules.bootstrap, "enable.idempotence": True})
    assert error_of(idempotent, orders) is None
    assert error_of(Producer({"bootstrap.servers": rules.bootstrap}), audit) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_transactions_and_producers_without_acks(own_kproxy: Start, cluster: DevCluster, kproxy: Kproxy) -> None:
    topic = create_topic(kproxy.bootstrap)
    rules = own_kproxy(cluster.bootstrap, "--rules", "allow transaction dev-*", "--rules", "deny transaction *")
    forbidden = Producer({"bootstrap.servers": rules.bootstrap, "transactional.id": unique("payments")})
    with pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        forbidden.init_transactions(PATIENCE_S)
    allowed = Producer({"bootstrap.servers": rules.bootstrap, "transactional.id": unique("dev")})
    allowed.init_transactions(PATIENCE_S)
    allowed.begin_transaction()
    allowed.produce(topic, b"in a transaction", partition=0)
    allowed.commit_transaction(PATIENCE_S)

    silent = own_kproxy(cluster.bootstrap, "--read-only")
    producer = Producer({"bootstrap.servers": silent.bootstrap, "acks": 0})
    producer.produce(topic, b"x", partition=0)
    producer.flush(PATIENCE_S)
    wait_logged(silent, f"the client sent a Produce request with acks=0 to topic {topic}, which gets no answer")
    with consumer(kproxy.bootstrap, enable_auto_commit=False) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert values(read(reader, 1)) == [b"in a transaction"]
