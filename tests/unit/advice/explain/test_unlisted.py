"""Failures in words that no table has."""

from __future__ import annotations

import io

import pytest

from kproxy.advice.explain.explanation import Explanation, explain
from kproxy.advice.explain.output import render


def explained(text: str) -> Explanation:
    return explain(io.BytesIO(text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        "WARNING:kafka.client:Give up sending metadata request since no node is available",
        "my-kafka-lib: could not load metadata from any of the brokers",
        "kafka: connection to seed broker timed out after 3 tries",
        "KafkaEx: no broker reachable, giving up",
        "2026-01-01 ERROR kafka output: bootstrap server unreachable",
    ],
)
def test_a_sentence_about_a_broker_that_is_not_reached(text: str) -> None:
    explanation = explained(text)
    (cause,) = explanation.causes

    assert len(cause.faults) > 1
    assert "kproxy does not know this message" in " ".join(render(explanation).split())


@pytest.mark.parametrize(
    "text",
    [
        "kafka consumer: failed to parse record 7",
        "INFO kafka: connected to broker 1",
        "could not load metadata of the image",
        "kafka-sink: postgres: could not connect to server node",
        "npm ERR! network could not fetch kafka-node metadata",
        "ERROR failed to load metadata of ticket 77 in the seed catalogue",
        "\tat kafka.Broker.cannotConnect(Broker.java:1)",
        "kafka" * 4000 + "\ncould not connect to the broker",  # a file, and no pasted text
    ],
)
def test_other_sentences_are_not_known(text: str) -> None:
    assert explained(text).causes == ()


def test_a_sign_of_kafka_in_another_line_is_enough_in_a_short_text() -> None:
    reason = "OpenSSL.SSL.Error: [('SSL routines', 'tls_process_server_certificate', 'certificate verify failed')]"

    assert explained(reason).causes == ()
    (cause,) = explained(f"afkak: metadata of orders: retry\n{reason}").causes
    assert cause.matches[0].first == 2
    assert not explained(f"afkak: metadata of orders: retry\n{reason}").conditional
