"""Files of clients: client.properties, the worker of Kafka Connect, and Spark's spark-defaults.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kproxy.advice.lint.model import ClientConfig, Setup, parse_servers
from kproxy.advice.lint.source import SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
# A worker of Connect has one client of its own, and one for each kind of connector.
_WORKER_PREFIXES = ("", "producer.", "consumer.", "admin.")
# spark.hadoop.kafka.…, spark.kafka.…, spark.sql.….kafka.…: the job chooses the prefix before `kafka.`.
_SPARK = re.compile(r"(spark\.(?:.*\.)?)kafka\.(.+)")
_SPARK_LINE = re.compile(r"^[ \t]*([^\s#!=:][^\s=:]*)(?:[ \t]*[=:][ \t]*|[ \t]+)([^\r\n]*)", re.MULTILINE)


def add_clients(source: SourceFile, values: dict[str, ConfigValue], setup: Setup) -> None:
    """Add the clients that a properties file configures to the setup."""
    for prefix in _WORKER_PREFIXES:
        settings = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
        if not any(key in settings for key in _SERVERS) and not (prefix == "" and values):
            continue
        _add_client(
            source, f"client {source.name}" if not prefix else f"client {source.name} ({prefix[:-1]})", settings, setup
        )


def add_spark_clients(source: SourceFile, setup: Setup) -> None:
    """Add the clients of a spark-defaults.conf: one for each prefix before `kafka.`."""
    clients: dict[str, dict[str, ConfigValue]] = {}
    for match in _SPARK_LINE.finditer(source.text):
        setting_match = _SPARK.fullmatch(match[1])
        if setting_match is not None:
            text, start = match[2].rstrip(), match.start(2)
            where = (start, start + len(text), ValueStyle.PROPERTY, LineLayout.PROPERTY)
            value = ConfigValue(text, source, *where, match[1], match.start(1), match.end(1))
            clients.setdefault(setting_match[1], {})[setting_match[2]] = value
    for prefix, settings in clients.items():
        name = f"client {source.name}" if len(clients) == 1 else f"client {source.name} ({prefix}kafka)"
        _add_client(source, name, settings, setup)


def _add_client(source: SourceFile, name: str, own: dict[str, ConfigValue], setup: Setup) -> None:
    key = next((key for key in _SERVERS if key in own), None)
    servers = parse_servers(own[key]) if key else []
    location = own[key].location if key else _first_location(source, own.values())
    settings = dict(own)
    if "sasl.mechanisms" in own:
        settings.setdefault("sasl.mechanism", replace(own["sasl.mechanisms"]))
    setup.clients.append(ClientConfig(name, location, tuple(servers), settings))


def _first_location(source: SourceFile, values: Iterable[ConfigValue]) -> SourceLocation:
    return min(
        (value.location for value in values), key=lambda location: location.index, default=SourceLocation(source, 0)
    )
