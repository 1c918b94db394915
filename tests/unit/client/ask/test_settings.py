"""What kproxy asks a broker about itself."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kproxy.client.ask import questions, settings
from kproxy.client.ask.channel import Channel
from kproxy.client.ask.question import Question
from kproxy.protocol.wire.api import APIS, ApiKey
from tests.harness.clients.kafka_python import ApiVersionsResponse
from tests.harness.servers.answers import array, text
from tests.unit.client.ask.broker import Broker

SERVED = {key: range(20) for key in APIS}


def _features() -> bytes:
    key = ApiVersionsResponse.FinalizedFeatureKey
    finalized = [key(name="metadata.version", max_version_level=30, min_version_level=1)]
    response = ApiVersionsResponse(
        version=3, error_code=0, api_keys=[], throttle_time_ms=0, finalized_features=finalized
    )
    return bytes(response.encode())


def _mechanisms(*names: str, error: int = 33) -> bytes:
    return struct.pack(">h", error) + array([text(name) for name in names])


def _put(question: Question[Any] | None) -> Callable[[Channel], Awaitable[Any]]:
    assert question is not None
    return question.ask


ASKED: dict[str, tuple[int, bytes, Callable[[Channel], Awaitable[Any]]]] = {
    "features": (ApiKey.API_VERSIONS, _features(), _put(settings.features_question(SERVED))),
    "coordinator": (
        ApiKey.FIND_COORDINATOR, struct.pack(">hihi", 15, 4, 0, 0), _put(questions.coordinator_question(SERVED, "g"))
    ),
    "mechanisms": (ApiKey.SASL_HANDSHAKE, _mechanisms("PLAIN"), _put(settings.mechanisms_question(SERVED))),
}  # fmt: skip
"""What can go wrong with these is in `test_questions`."""


async def answer(question: str, body: bytes | None = None) -> Any:
    key, whole, asking = ASKED[question]
    return await asking(Broker({key: whole if body is None else body}))


async def test_the_features_and_the_coordinator() -> None:
    assert await answer("features") == {"metadata.version": 30}
    assert await answer("coordinator") == (15, 4)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (_mechanisms("PLAIN", "SCRAM-SHA-512"), ("PLAIN", "SCRAM-SHA-512")),
        (_mechanisms("PLAIN", error=34), None),  # the listener has no SASL
        (_mechanisms("PLAIN", error=0), None),  # no broker has that mechanism
    ],
)
async def test_the_mechanisms_of_a_listener(body: bytes, names: tuple[str, ...] | None) -> None:
    assert await answer("mechanisms", body) == names


async def test_a_list_of_mechanisms_without_end() -> None:
    assert len(await answer("mechanisms", _mechanisms(*["X"] * 50_000))) == 20


def test_an_old_broker_is_not_asked() -> None:
    assert settings.features_question({ApiKey.API_VERSIONS: range(3)}) is None
    assert questions.coordinator_question({}, "g") is None
    assert settings.mechanisms_question({}) is None


def test_as_an_image_with_three_has_them() -> None:
    values: dict[str, str | None] = {
        "listeners": "BOB://kafka0:29092,FRED://0.0.0.0:9092, CTL://:9093",
        "advertised.listeners": "BOB://kafka0:29092,FRED://localhost:9092",
        "listener.security.protocol.map": "BOB:PLAINTEXT,FRED:SASL_SSL,CTL:PLAINTEXT",
        "inter.broker.listener.name": "BOB",
        "controller.listener.names": "CTL",
    }
    assert settings.parse_listeners(values) == [
        settings.ConfiguredListener("BOB", "PLAINTEXT", "kafka0:29092", "kafka0:29092", "brokers"),
        settings.ConfiguredListener("FRED", "SASL_SSL", "0.0.0.0:9092", "localhost:9092", ""),
        settings.ConfiguredListener("CTL", "PLAINTEXT", ":9093", "", "controller"),
    ]


def test_without_a_map_the_name_is_the_protocol() -> None:
    assert settings.parse_listeners({"advertised.listeners": "SSL://a:1"}) == [
        settings.ConfiguredListener("SSL", "SSL", "", "a:1", "")
    ]


def test_nonsense_is_no_listener() -> None:
    assert settings.parse_listeners({"listeners": ",:,x", "advertised.listeners": None}) == []


def test_names_in_small_letters() -> None:
    """Kafka reads them in capitals, whichever of the settings has them."""
    values = {
        "listeners": "in://:1", "listener.security.protocol.map": "In:SSL", "inter.broker.listener.name": "IN",
    }  # fmt: skip
    assert settings.parse_listeners(values) == [settings.ConfiguredListener("IN", "SSL", ":1", "", "brokers")]
