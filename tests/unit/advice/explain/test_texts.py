"""Texts as people paste them: the first fault, and what the answer says."""

from __future__ import annotations

import io
import re

import pytest

from kproxy.advice.explain.explanation import Explanation, explain
from kproxy.advice.explain.output import render
from tests.unit.advice.explain.texts import TEXTS, PastedText

# What clients add to their messages is a guess, and often wrong.
GUESSES = (
    "might be caused by", "broker version is <", "is SASL missing", "may happen due to", "often means", "Is your cluster reachable",
    "check that your client", "PLAINTEXT broker listener?", "SSL listener?", "potential reasons",
)  # fmt: skip


def explained(text: str) -> Explanation:
    return explain(io.BytesIO(text.encode()))


def said(text: str) -> str:
    return " ".join(render(explained(text)).split())


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: f"{text.source}: {text.text[:50]}")
def test_the_first_fault_and_what_is_said(text: PastedText) -> None:
    explanation = explained(text.text)
    faults = [cause.faults[0].value if cause.faults else "" for cause in explanation.causes]

    assert faults[:1] == [text.fault] if text.fault else not faults
    assert re.search(text.says, said(text.text), re.IGNORECASE)
    assert all(len(line) <= 80 for line in render(explanation).splitlines() if " " in line.strip()[1:40].rstrip())
    assert not [guess for guess in GUESSES if guess in said(text.text)]


def test_there_are_enough_texts() -> None:
    assert len(TEXTS) >= 150
    assert len({text.text for text in TEXTS}) == len(TEXTS)


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("Connection to node 1 (b.x.example/10.0.0.1:9092) could not be established. Broker may not be available.", "1 is a broker's id"),
        ("Connection to node -1 (b.x.example/10.0.0.1:9092) could not be established. Node may not be available.", "it is a bootstrap server"),
        ("rdkafka#producer-1| b.x.example:9092/bootstrap: Failed to resolve 'b.x.example:9092': no", "it is a bootstrap server"),
        ("dial tcp: lookup b.x.example: no such host", "does not show whether a broker advertises this address"),
        ("dial tcp: lookup 591ebfb6bdec: no such host", "first 12 hexadecimal digits"),
        ("kafka: dial tcp: lookup kafka-1: no such host", "container or service"),
        ("kafka: dial tcp: lookup marys-macbook: no such host", "computer"),
        ("kafka: dial tcp: lookup warehouse: no such host", "or a typo"),
        ("kafka: dial tcp: lookup kafka-0.kafka-headless: no such host", "pod or service of Kubernetes"),
        ("kafka: dial tcp: lookup ip-10-0-3-17.ec2.internal: no such host", "cloud's network"),
        ("kafka: dial tcp: lookup nas.local: no such host", "local network"),
        ("kafka: dial tcp: lookup host.docker.internal: no such host", "Docker Desktop"),
        ("kafka: dial tcp [::1]:9092: connect: connection refused", "localhost over IPv6"),
        ("kafka: dial tcp 100.64.7.7:9092: i/o timeout", "100.64.0.0/10"),
        ("kafka: dial tcp 192.168.7.7:9092: i/o timeout", "private address"),
        ("kafka: client has run out of available brokers to talk to: read tcp 10.0.0.1:40000->b.x.example:8083: EOF", "Kafka Connect"),
        ("kafka: read tcp 10.0.0.1:40000->b.x.example:9093: connection reset by peer", "habit only"),
        ("kafka: dial b-1.x.kafka.eu-west-1.amazonaws.com:9096: EOF", "SCRAM-SHA-512"),
        ("kafka: dial b-1.x.kafka.eu-west-1.amazonaws.com:9198: EOF", "AWS_MSK_IAM"),
        ("kafka: dial pkc-1.eu.aws.confluent.cloud:9092: EOF", "API key"),
        ("kafka: dial x.servicebus.windows.net:9093: EOF", "$ConnectionString"),
        ("unable to open connection to broker addr: [http://b:9092]:9092, err: dial tcp: lookup http://b:9092: no such host", "`http://` stands before"),
    ],
)  # fmt: skip
def test_the_answer_names_the_sign_that_led_to_it(text: str, sign: str) -> None:
    assert sign in said(text)
    explanation = explained(text)
    assert sign in explanation.diagnostic(explanation.causes[0]).why


@pytest.mark.parametrize(
    ("host", "fault"),
    [
        ("591ebfb6bdec", "container-name-advertised"),
        ("kafka", "container-name-advertised"),
        ("my-kafka-broker-2", "container-name-advertised"),
        ("janes-laptop", "short-name-advertised"),
        ("kafka.example.com", "name-not-resolved"),
        ("kafka-0.kafka", "kubernetes-name-advertised"),
        ("kafka-0.example.com", "name-not-resolved"),
        ("my-cluster-kafka-0.my-cluster-kafka-brokers.ns.svc", "kubernetes-name-advertised"),
    ],
)
def test_the_kind_of_a_name(host: str, fault: str) -> None:
    assert [cause.faults[0].value for cause in explained(f"kafka: dial tcp: lookup {host}: no such host").causes] == [
        fault
    ]


def test_the_settings_that_a_client_logs_are_no_messages() -> None:
    dump = "INFO AdminClientConfig values: \n\tbootstrap.servers = [b:9092]\n\tsasl.oauthbearer.token.endpoint.url = null\n"

    assert explained(dump + "\tssl.provider = Connection refused\n").causes == ()


def test_what_is_not_about_reaching_kafka_is_one_note() -> None:
    explanation = explained("[kafka.server.LogDirFailureChannel] java.io.IOException: No space left on device")

    assert said("[kafka.server.LogDirFailureChannel] java.io.IOException: No space left on device") == (
        "note: It is not about reaching Kafka. A disk of the broker is full [not-about-reaching-kafka]"
    )
    assert "kproxy doctor" not in render(explanation)


def test_a_vague_message_takes_the_words_of_another_line() -> None:
    explanation = explained("[Errno 11001] getaddrinfo failed\nkafka.errors.NoBrokersAvailable: NoBrokersAvailable")

    assert [cause.faults[0].value for cause in explanation.causes] == ["name-not-resolved"]
    assert not explanation.conditional


@pytest.mark.parametrize("time", ["2026-01-02 10:22:25,139", "[21:53:23]", "2026-01-02T22:23:25Z"])
def test_the_time_of_a_line_is_no_port_of_another_system(time: str) -> None:
    explanation = explained(f"{time} dial tcp: lookup broker.example.com: no such host")

    assert explanation.conditional
    assert [cause.faults[0].value for cause in explanation.causes] == ["name-not-resolved"]
