"""Files of clients: client.properties, the worker of Kafka Connect, and Spark's spark-defaults.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kproxy.advice.lint.model import ClientConfig, ClientPlacement, Setup, parse_servers
from kproxy.advice.lint.source import SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
# A worker of Connect has one client of its own, and one for each kind of connector.
_WORKER = ("", "producer.", "consumer.", "admin.")
# spark.hadoop.kafka.…, spark.kafka.…, spark.sql.….kafka.…: what stands before `kafka.` is the job's own.
_SPARK = re.compile(r"(spark\.(?:.*\.)?)kafka\.(.+)")
_SPARK_LINE = re.compile(r"^[ \t]*([^\s#!=:][^\s=:]*)(?:[ \t]*[=:][ \t]*|[ \t]+)([^\r\n]*)", re.MULTILINE)


def add_clients(source: SourceFile, values: dict[str, ConfigValue], setup: Setup) -> None:
    """Add the clients that a file of properties has."""
    for prefix in _WORKER:
        own = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
        if not any(key in own for key in _SERVERS) and not (prefix == "" and values):
            continue
        _add(source, f"client {source.name}" if not prefix else f"client {source.name} ({prefix[:-1]})", own, setup)


def add_spark_clients(source: SourceFile, setup: Setup) -> None:
    """Add the clients of a spark-defaults.conf: one for each text that stands before `kafka.`."""
    clients: dict[str, dict[str, ConfigValue]] = {}
    for match in _SPARK_LINE.finditer(source.text):
        found = _SPARK.fullmatch(match[1])
        if found is not None:
            text, start = match[2].rstrip(), match.start(2)
            where = (start, start + len(text), ValueStyle.PROPERTY, LineLayout.PROPERTY)
            value = ConfigValue(text, source, *where, match[1], match.start(1), match.end(1))
            clients.setdefault(found[1], {})[found[2]] = value
    for prefix, own in clients.items():
        name = f"client {source.name}" if len(clients) == 1 else f"client {source.name} ({prefix}kafka)"
        _add(source, name, own, setup)


def _add(source: SourceFile, name: str, own: dict[str, ConfigValue], setup: Setup) -> None:
    key = next((key for key in _SERVERS if key in own), None)
    servers = parse_servers(own[key]) if key else []
    location = own[key].location if key else _first(source, own.values())
    settings = dict(own)
    if "sasl.mechanisms" in own:
        settings.setdefault("sasl.mechanism", replace(own["sasl.mechanisms"]))
    setup.clients.append(ClientConfig(name, location, ClientPlacement.ANYWHERE, tuple(servers), settings))


def _first(source: SourceFile, values: Iterable[ConfigValue]) -> SourceLocation:
    return min(
        (value.location for value in values), key=lambda location: location.index, default=SourceLocation(source, 0)
    )
