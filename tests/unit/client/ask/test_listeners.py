"""The listeners of a broker, from its settings."""

from __future__ import annotations

from kproxy.client.ask.settings import ConfiguredListener, parse_listeners


def test_as_an_image_with_three_has_them() -> None:
    settings: dict[str, str | None] = {
        "listeners": "BOB://kafka0:29092,FRED://0.0.0.0:9092, CTL://:9093",
        "advertised.listeners": "BOB://kafka0:29092,FRED://localhost:9092",
        "listener.security.protocol.map": "BOB:PLAINTEXT,FRED:SASL_SSL,CTL:PLAINTEXT",
        "inter.broker.listener.name": "BOB",
        "controller.listener.names": "CTL",
    }
    assert parse_listeners(settings) == [
        ConfiguredListener("BOB", "PLAINTEXT", "kafka0:29092", "kafka0:29092", "brokers"),
        ConfiguredListener("FRED", "SASL_SSL", "0.0.0.0:9092", "localhost:9092", ""),
        ConfiguredListener("CTL", "PLAINTEXT", ":9093", "", "controller"),
    ]


def test_without_a_map_the_name_is_the_protocol() -> None:
    assert parse_listeners({"advertised.listeners": "SSL://a:1"}) == [ConfiguredListener("SSL", "SSL", "", "a:1", "")]


def test_nonsense_is_no_listener() -> None:
    assert parse_listeners({"listeners": ",:,x", "advertised.listeners": None}) == []


def test_names_in_small_letters() -> None:
    """Kafka reads them in capitals, whichever of the settings has them."""
    settings = {
        "listeners": "in://:1", "listener.security.protocol.map": "In:SSL", "inter.broker.listener.name": "IN",
    }  # fmt: skip
    assert parse_listeners(settings) == [ConfiguredListener("IN", "SSL", ":1", "", "brokers")]
