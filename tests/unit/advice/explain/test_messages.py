"""Each message of the tables is explained by its own remedy; unrelated errors are not."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest

from kproxy.advice import remedies
from kproxy.advice.explain.explanation import CONDITION, Explanation, explain
from kproxy.advice.explain.output import render
from kproxy.advice.remedies.own import all_messages
from kproxy.advice.remedies.remedy import Program, ProgramMessage
from kproxy.base.faults import BY_ADDRESS, Fault
from kproxy.base.messages.message import Message
from tests.unit.advice.explain.unrelated import BARE, UNRELATED

# What stands around a message, where its words alone could be another program's.
AROUND = {
    Program.JAVA: "[2026-01-02 03:04:05,678] WARN [Producer clientId=producer-1] {} (org.apache.kafka.clients.NetworkClient)",
    Program.SPARK: "26/01/02 03:04:05 ERROR KafkaSource: {} org.apache.kafka.common",
    Program.LIBRDKAFKA: "%3|1700000000.000|FAIL|rdkafka#producer-1| [thrd:host.example:9092/1]: {}",
    Program.KAFKA_PYTHON: "2026-01-02 03:04:05,678 ERROR kafka.net.connection: {}",
    Program.AIOKAFKA: "ERROR aiokafka: {}",
    Program.KAFKAJS: '{{"level":"ERROR","logger":"kafkajs","message":"{}"}}',
    Program.FRANZ_GO: "[WARN] {}; broker: seed_0, franz-go",
    Program.SARAMA: "[sarama] 2026/01/02 03:04:05 {}",
    Program.KAFKA_GO: "level=error msg=kafka-go err={}",
    Program.KAFKA_NODE: "kafka-node: {}",
    Program.RUBY_KAFKA: "E, [2026-01-02T03:04:05.678901 #1] ERROR -- : Kafka::Error {}",
    Program.RSKAFKA: "WARN rskafka::connection: {}",
    Program.CONNECT: "[2026-01-02 03:04:05,678] ERROR {} (org.apache.kafka.connect.runtime.Worker)",
    Program.SCHEMA_REGISTRY: "[2026-01-02 03:04:05,678] ERROR {} (io.confluent.kafka.schemaregistry.storage.KafkaStore)",
    Program.BEATS: '{{"log.logger":"kafka","message":"{}"}}',
    Program.TOOLS: "Exception in thread main {} at org.apache.kafka.server.util.CommandLineUtils",
    Program.PROXY: "level=info msg={}",
    Program.ANY: "ERROR kafka: {}",
    Program.BROKER: "[2026-01-02 03:04:05,678] WARN {} (kafka.network.SocketServer)",
    Program.KPROXY: "2026-01-02 03:04:05 WARNING kproxy: {}",
}
# One test for each remedy: one for each of thousands of messages would take pytest longer than the explanations.
REMEDIES = [
    pytest.param(remedy.fault, remedy.messages, id=remedy.fault.value)
    for remedy in remedies.all_remedies()
    if remedy.fault not in BY_ADDRESS
]
OWN = [message for message in all_messages() if max(map(len, message.pattern.split("…"))) >= 14]


def explained(text: str) -> Explanation:
    return explain(io.BytesIO(text.encode()))


def faults(text: str) -> list[Fault]:
    return [fault for cause in explained(text).causes for fault in cause.faults]


@pytest.mark.parametrize(("fault", "messages"), REMEDIES)
def test_a_message_leads_to_its_remedy(fault: Fault, messages: Sequence[ProgramMessage]) -> None:
    texts = [AROUND[message.program].format(message.text.replace("…", "x.example")) for message in messages]

    assert [text for text in texts if fault not in faults(text)] == []


@pytest.mark.parametrize("message", OWN, ids=lambda message: message.pattern[:70])
def test_kproxy_s_own_message_leads_to_its_meaning(message: Message) -> None:
    explanation = explained(AROUND[Program.KPROXY].format(message.pattern.replace("…", "x")))

    assert explanation.causes
    assert message in [match.pattern.own_message for match in explanation.causes[0].matches if match.pattern]


@pytest.mark.parametrize(
    "text",
    [
        "the proxy refuses this user and password",
        "closed the connection without answering: its listener may expect TLS",
        "kproxy.example: the server at this address is an HTTP proxy or a web server",
    ],
)
def test_a_message_that_was_cut_is_known(text: str) -> None:
    assert explained(f"WARNING kproxy: {text}").causes


@pytest.mark.parametrize("text", UNRELATED)
def test_an_unrelated_error_is_not_known(text: str) -> None:
    assert explained(text).causes == ()


@pytest.mark.parametrize("text", BARE)
def test_a_text_without_a_sign_of_any_system_is_explained_under_a_condition(text: str) -> None:
    explanation = explained(text)

    assert explanation.conditional
    assert render(explanation).startswith("If this came from a Kafka client:\n")
    assert explanation.diagnostic(explanation.causes[0]).why.startswith(CONDITION)


def test_a_text_of_another_system_around_such_words_is_not_known() -> None:
    assert explained("connecting to postgres\nretrying\nconnection refused").causes == ()


def test_a_message_of_kafka_leaves_no_room_for_a_condition() -> None:
    explanation = explained("connection refused\n\nrdkafka#producer-1 Failed to resolve 'b.x.example:9092': no")

    assert not explanation.conditional
    assert [cause.faults for cause in explanation.causes] == [(Fault.NAME_NOT_RESOLVED,)]


def test_all_unrelated_errors_in_one_log_are_not_known() -> None:
    assert len(UNRELATED) >= 60
    assert explained("\n".join(UNRELATED)).causes == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Failed to resolve 'kafka-1.prod.internal:9092': Name or service not known", Fault.NAME_NOT_RESOLVED),
        ("java.net.UnknownHostException: kafka-1.prod.internal", Fault.NAME_NOT_RESOLVED),
        ("UnknownHostException: kafka-0.kafka.default.svc.cluster.local: java.net.UnknownHostException: kafka-0.x.svc", Fault.KUBERNETES_NAME_ADVERTISED),
        ("DNS lookup failed for broker:29092, gaierror(-2, 'Name or service not known')", Fault.CONTAINER_NAME_ADVERTISED),
        ("kafka.errors.NoBrokersAvailable: NoBrokersAvailable", Fault.PORT_CLOSED),
        ("Invalid receive (size = 369295616 larger than 104857600)", Fault.TLS_TO_PLAINTEXT),
        ("Error code: 41 from the kafka broker", Fault.WRONG_NODE),
        ("UNKNOWN_TOPIC_OR_PARTITION", Fault.TOPIC_UNKNOWN),
        ("[Error 5] LeaderNotAvailableError: orders", Fault.NO_LEADER),
        ("[WARN ][org.apache.kafka.clients.NetworkClient][main] Error connecting to node 7b9b3d1abf9d:9094 (id: 1 rack: null)", Fault.CONTAINER_NAME_ADVERTISED),
        ("kafka0   | [2026-01-02 03:04:05] WARN [Producer clientId=p] Connection to node -1 (localhost/127.0.0.1:29092) could not be established. Node may not be available.", Fault.PORT_CLOSED),
        ("Connection to node 0 (kafka/127.0.0.1:443) could not be established. Broker may not be available.", Fault.PORT_CLOSED),
        ("NetworkClient - Error while fetching metadata with correlation id 1 : {foo=LEADER_NOT_AVAILABLE}", Fault.NO_LEADER),
        ("kafkashaded.org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired before the position for partition a-3 could be determined", Fault.FILTERED),
        ("[STREAM_FAILED] Query [id = 5] terminated with exception: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: describeTopics", Fault.NAME_NOT_RESOLVED),
        ("omkafka: suspended due to kafka error -169: Local: Authentication failure", Fault.CREDENTIALS_REFUSED),
        ("rdkafka#consumer-1|FAIL| a.example:9092/1: Receive failed: Invalid message size 100663755 (0..100000000): increase receive.message.max.bytes", Fault.FRAME_SIZE),
        ('{"class":"kafka","error":"kafka: client has run out of available brokers to talk to (Is your cluster reachable?)"}', Fault.PORT_CLOSED),
        ("kafka: client has run out of available brokers to talk to: dial tcp 127.0.0.1:9092: connect: connection refused", Fault.PORT_CLOSED),
        ("org.apache.kafka.common.errors.TimeoutException: Expiring 1 record(s) for orders-0:120001 ms has passed since batch creation", Fault.NAME_NOT_RESOLVED),
        ("java.lang.IllegalArgumentException: requirement failed: inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options", Fault.LISTENER_CONFIGURATION),
    ],
)  # fmt: skip
def test_a_message_alone(text: str, fault: Fault) -> None:
    assert fault in faults(text)


def test_a_code_without_a_remedy_is_still_named() -> None:
    explanation = explained("org.apache.kafka.common.errors.FencedStateEpochException / FENCED_STATE_EPOCH")

    (cause,) = explanation.causes
    assert cause.faults == ()
    code = cause.matches[0].code
    assert code
    assert (code.number, code.name) == (124, "FENCED_STATE_EPOCH")
