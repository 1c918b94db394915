"""The clients in the settings of a file, whatever its format (pure).

Properties, YAML, JSON and variables all become keys with dots. A client has the keys with one prefix, such as
`bootstrap.servers` and `security.protocol` in a client.properties, `spring.kafka.bootstrap-servers` and
`spring.kafka.properties.security.protocol` in Spring's files, `KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS` for kafka-ui.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kproxy.advice.lint.client import ClientConfig, ClientLibrary, parse_servers
from kproxy.advice.lint.container import Container
from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.model import Setup
from kproxy.advice.lint.source import SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue, ValueStyle

Settings = dict[str, ConfigValue]

# Clients are compared with all settings, so their number is bounded.
_MOST_CLIENTS = 100
SERVERS = "bootstrap.servers"
# The names of bootstrap servers in files, without their prefix.
_IN_FILES = r"bootstrap[.-]?servers?|metadata\.broker\.list|brokers"
# Other programs call them so in variables.
_IN_VARIABLES = r"bootstrap\.?servers?|bootstrap|brokers?|broker\.?list|broker\.?connect|broker\.?urls?|kafka\.hosts?"
_LOGIN = r"security\.protocol|sasl\.mechanisms?|sasl\.jaas\.config"
_FILE_HEAD = re.compile(rf"(?P<prefix>(?:.*\.)?)(?:(?P<servers>{_IN_FILES})|{_LOGIN})", re.IGNORECASE)
_VARIABLE_HEAD = re.compile(rf"(?P<prefix>(?:.*\.)?)(?P<servers>{_IN_VARIABLES})", re.IGNORECASE)
# Between a client's prefix and Kafka's own names.
_INNER = re.compile(r"(?:properties|configuration)\.")
_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:\[[^\]]*\]|[^\[\]:/\s,]+):\d{1,5}(?:,.*)?", re.DOTALL)
# The parts of a Connect worker, and of Debezium's history, have the servers of the whole.
_PART = re.compile(r"(?P<whole>(?:.*\.)?)(?:producer|consumer|admin)\.(?:override\.)?")
# The variables of programs that have no other settings than these.
_PROGRAMS = re.compile(
    r"(?:connect|ksql|schema\.registry\.kafkastore|kafka\.rest|spring\.kafka|kafka\.clusters\.\d+)\."
)
# Each binder of Spring Cloud Stream adds its environment to that of the application.
_BINDER = re.compile(r"spring\.cloud\.stream\.binders\.[^.]+\.environment\.")
_SPARK_KEY = re.compile(r"spark\.(?:.*\.)?kafka\..+")


@dataclass(frozen=True, slots=True)
class ClientSource:
    """The file or container whose settings are read."""

    source: SourceFile
    name: str
    kind: FileKind | None = None
    """The kind of the file; None for variables of a container."""
    container: Container | None = None


def add_clients(origin: ClientSource, values: Mapping[str, ConfigValue], setup: Setup) -> None:
    """Add the clients of a file to the setup."""
    if origin.kind is FileKind.SPARK:
        values = {key: value for key, value in values.items() if _SPARK_KEY.fullmatch(key)}
    heads = [(key, match) for key in values if (match := _FILE_HEAD.fullmatch(key)) is not None]
    prefixes = list(dict.fromkeys(_outer(match["prefix"]) for _, match in heads))
    _add(origin, values, prefixes, setup)
    has_plain = origin.kind in (FileKind.CLIENT, FileKind.LIBRDKAFKA) and "" not in prefixes
    if has_plain and any(re.match(r"(sasl|ssl)\.", key) for key in values):
        _add(origin, values, [""], setup)


def add_clients_of_variables(origin: ClientSource, variables: Mapping[str, ConfigValue], setup: Setup) -> None:
    """Add a client for each variable that names bootstrap servers."""
    values = {word.lower().replace("_", "."): value for word, value in variables.items()}
    # Debezium's image for Connect has its own variable for the servers alone.
    if SERVERS in values and "connect.security.protocol" in values:
        values.setdefault(f"connect.{SERVERS}", values.pop(SERVERS))
    heads = [match for key in values if (match := _VARIABLE_HEAD.fullmatch(key)) is not None]
    servers = [
        match
        for match in heads
        if _ADDRESS.fullmatch(values[match[0]].text.strip())
        or (_PROGRAMS.fullmatch(match["prefix"]) and match["servers"] == SERVERS)
    ]
    _add(origin, values, list(dict.fromkeys(_outer(match["prefix"]) for match in servers)), setup)


def _outer(prefix: str) -> str:
    return re.sub(r"(?<![^.])(?:properties|configuration)\.$", "", prefix)


def _add(origin: ClientSource, values: Mapping[str, ConfigValue], prefixes: list[str], setup: Setup) -> None:
    if len(prefixes) > _MOST_CLIENTS:
        setup.add_unchecked(f"{origin.name}: all but the first {_MOST_CLIENTS} clients")
        del prefixes[_MOST_CLIENTS:]
    groups = {prefix: _settings(values, prefix) for prefix in prefixes}
    wholes = {prefix for prefix in prefixes if prefix.endswith("kafka.") and _parts(prefix, prefixes)}
    named = [prefix for prefix in prefixes if prefix not in wholes]
    for prefix in named:
        settings = _inherited(origin, prefix, groups) | groups[prefix]
        label = f" ({prefix.rstrip('.')})" if len(named) > 1 and prefix and origin.kind is not None else ""
        _add_client(origin, f"{origin.name}{label}", prefix, settings, setup)


def _parts(whole: str, prefixes: list[str]) -> list[str]:
    """Return the clients that Debezium configures by `schema.history.internal.kafka.`."""
    base = whole.removesuffix("kafka.")
    return [prefix for prefix in prefixes if base and prefix in (f"{base}producer.", f"{base}consumer.")]


def _settings(values: Mapping[str, ConfigValue], prefix: str) -> Settings:
    settings: Settings = {}
    for key, value in values.items():
        if not key.startswith(prefix):
            continue
        rest = key[len(prefix) :]
        inner = _INNER.match(rest)
        name = rest[inner.end() :] if inner else rest
        if re.fullmatch(rf"{_IN_FILES}|{_IN_VARIABLES}", name, re.IGNORECASE):
            strict = re.fullmatch(r"bootstrap[.-]?servers?|metadata\.broker\.list", name, re.IGNORECASE)
            name = SERVERS if strict else "brokers"
        settings.setdefault(name, value)
    return settings


def _inherited(origin: ClientSource, prefix: str, groups: Mapping[str, Settings]) -> Settings:
    """Return the settings that this client has from others."""
    if origin.kind is FileKind.APPLICATION:
        bases = [other for other in groups if other and other != prefix and prefix.startswith(other)]
        if (binder := _BINDER.match(prefix)) is not None:
            bases += [other for other in groups if other == prefix[binder.end() :]]
        bases += [other for other in groups if prefix.startswith("mp.messaging.") and other == "kafka."]
        bases += [other for other in groups if other and prefix.startswith("%") and prefix.endswith(f".{other}")]
        return {name: value for base in sorted(bases, key=len) for name, value in groups[base].items()}
    part = _PART.fullmatch(prefix)
    if part is None:
        return {}
    whole = groups.get(part["whole"]) or groups.get(f"{part['whole']}kafka.") or {}
    return {name: value for name, value in whole.items() if name == SERVERS}


def _add_client(origin: ClientSource, name: str, prefix: str, settings: Settings, setup: Setup) -> None:
    servers = settings.get(SERVERS) or settings.get("brokers")
    if "sasl.mechanisms" in settings:
        settings.setdefault("sasl.mechanism", replace(settings["sasl.mechanisms"]))
    if "security.protocol" not in settings:
        settings |= _console_protocol(settings)
    # A part of a file for another one, such as a login alone.
    is_fragment = servers is None and "security.protocol" not in settings
    library = _LIBRARIES.get(origin.kind, ClientLibrary.UNKNOWN) if origin.kind else ClientLibrary.UNKNOWN
    if origin.kind is FileKind.CONNECTOR and "connector.class" not in settings and not prefix:
        library = ClientLibrary.UNKNOWN  # any program's JSON
    first = min(settings.values(), key=lambda value: value.location.index, default=None)
    location = servers.location if servers else first.location if first else SourceLocation(origin.source, 0)
    setup.clients.append(
        ClientConfig(
            name,
            location,
            tuple(parse_servers(servers)) if servers else (),
            settings,
            container=origin.container,
            library=library,
            complete=not is_fragment and (origin.kind not in _PARTIAL or bool(_PROGRAMS.fullmatch(prefix))),
            is_worker=(origin.kind is FileKind.CONNECT and not prefix and "connector.class" not in settings)
            or prefix == "connect.",
            servers_misspelt=servers is not None and _is_misspelt(origin.kind, prefix, servers.key),
        )
    )


# Variables, other files or the program itself may add to these.
_PARTIAL = (None, FileKind.ENV, FileKind.APPSETTINGS)


def _is_misspelt(kind: FileKind | None, prefix: str, key: str) -> bool:
    """Check for the name of one server, where Kafka's own client reads the file: it has `servers`."""
    return kind in _OF_LIBRARIES and not prefix and bool(re.fullmatch(r"bootstrap[.-]server", key))


_OF_LIBRARIES = (FileKind.CLIENT, FileKind.LIBRDKAFKA, FileKind.CONNECT)
_LIBRARIES = {
    FileKind.LIBRDKAFKA: ClientLibrary.LIBRDKAFKA,
    FileKind.APPSETTINGS: ClientLibrary.LIBRDKAFKA,
    FileKind.CONNECT: ClientLibrary.JAVA,
    FileKind.CONNECTOR: ClientLibrary.JAVA,
    FileKind.SPARK: ClientLibrary.JAVA,
    FileKind.APPLICATION: ClientLibrary.JAVA,
}


def _console_protocol(settings: Settings) -> Settings:
    """Return the protocol that Redpanda Console has by two switches, `tls.enabled` and `sasl.enabled`."""
    switches = [settings[key] for key in ("tls.enabled", "sasl.enabled") if key in settings]
    if "brokers" not in settings or not switches:
        return {}
    on = {key: settings[key].text.lower() == "true" for key in ("tls.enabled", "sasl.enabled") if key in settings}
    protocol = ("SASL_" if on.get("sasl.enabled") else "") + ("SSL" if on.get("tls.enabled") else "PLAINTEXT")
    return {"security.protocol": replace(switches[0], text=protocol, style=ValueStyle.FIXED)}
