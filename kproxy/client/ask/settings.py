"""Questions about one broker: its settings (DescribeConfigs) with its listeners, features, SASL mechanisms.

Read-only. Brokers answer users who may DescribeConfigs on the cluster. Text in the answers is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kproxy.client.ask.channel import MAX_RESPONSE_SIZE
from kproxy.client.ask.question import Question, ask_for
from kproxy.client.ask.questions import Versions, settings_request
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import text, text_or_none

# DescribeConfigsResponse.ConfigSource, by its number: a dynamic setting of this broker, one of all brokers; a default.
_DYNAMIC, _DEFAULT = (2, 3), 5
# The settings of a broker's listeners, and its data directory, which identifies its image.
LISTENER_SETTINGS = (
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "controller.listener.names",
    "control.plane.listener.name",
    "log.dirs",
)
_MAX_MECHANISMS = 20
# A mechanism that no broker has: the response lists those that it has, and no login is made.
_UNUSED_MECHANISM = "KPROXY-ASKS"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of one broker by name, or the error code.

    A value is None if the broker does not return it. `defaults` are the settings that are set nowhere. `dynamic` are
    those that were set while brokers ran; they take precedence over the broker's file.
    """

    error: int
    values: Mapping[str, str | None]
    defaults: frozenset[str] = frozenset()
    dynamic: frozenset[str] = frozenset()


def settings_question(
    versions: Versions, node_id: int, names: Sequence[str] | None = None
) -> Question[BrokerSettings] | None:
    """Return the question to a broker for its settings with these names, or for all.

    Return None if the broker does not support it. `node_id` must be the broker's own.
    """
    if 1 not in versions.get(ApiKey.DESCRIBE_CONFIGS, ()):
        return None
    fields = settings_request(node_id, names)
    return ask_for(ApiKey.DESCRIBE_CONFIGS, 1, fields, lambda read: read_settings(read, names), MAX_RESPONSE_SIZE)


def read_settings(fields: dict[str, Any], names: Sequence[str] | None) -> BrokerSettings:
    """Return the settings of one resource in a DescribeConfigs response."""
    for result in fields["Results"]:
        configs = {text(config["Name"]): config for config in result["Configs"]}
        selected = {name: configs[name] for name in names or configs if name in configs}
        return BrokerSettings(
            result["ErrorCode"],
            {name: _shown_value(config) for name, config in selected.items()},
            frozenset(name for name, config in selected.items() if config["ConfigSource"] == _DEFAULT),
            frozenset(name for name, config in selected.items() if config["ConfigSource"] in _DYNAMIC),
        )
    return BrokerSettings(ErrorCode.NONE, {})


def _shown_value(config: dict[str, Any]) -> str | None:
    return None if config["IsSensitive"] else text_or_none(config["Value"])


@dataclass(frozen=True, slots=True)
class ConfiguredListener:
    """One listener of a broker.

    `bound` is the address that it listens on, `advertised` the one that clients receive; "" where the broker does not
    return it. `role` is its use, "" for clients alone.
    """

    name: str
    protocol: str
    bound: str
    advertised: str
    role: str


def parse_listeners(settings: Mapping[str, str | None]) -> list[ConfiguredListener]:
    """Return the listeners in `listeners` and `advertised.listeners`, in that order.

    Names are in capitals, as Kafka reads them.
    """
    bound, advertised = _addresses(settings.get("listeners")), _addresses(settings.get("advertised.listeners"))
    protocols = dict(_pairs(settings.get("listener.security.protocol.map"), ":"))
    inter_broker_name = (settings.get("inter.broker.listener.name") or "").upper()
    controllers = {name.strip().upper() for name in (settings.get("controller.listener.names") or "").split(",")}
    broker_listeners = []
    for name in dict.fromkeys([*bound, *advertised]):
        role = "brokers" if name == inter_broker_name else "controller" if name in controllers else ""
        # Without a map, a listener is called as its protocol.
        protocol = protocols.get(name, name)
        broker_listeners.append(ConfiguredListener(name, protocol, bound.get(name, ""), advertised.get(name, ""), role))
    return broker_listeners


def _addresses(value: str | None) -> dict[str, str]:
    return dict(_pairs(value, "://"))


def _pairs(value: str | None, separator: str) -> Iterator[tuple[str, str]]:
    for part in (value or "").split(","):
        name, matched, content = part.strip().partition(separator)
        if matched:
            yield name.upper(), content


def features_question(versions: Versions) -> Question[Mapping[str, int]] | None:
    """Return the question for the finalized features of the cluster, name to level (KIP-584).

    Return None before Kafka 2.4.
    """
    if 3 not in versions.get(ApiKey.API_VERSIONS, ()):
        return None
    software = {"ClientSoftwareName": "kproxy", "ClientSoftwareVersion": "doctor"}
    return ask_for(
        ApiKey.API_VERSIONS,
        3,
        software,
        lambda fields: {
            text(feature["Name"]): feature["MaxVersionLevel"] for feature in fields.get("FinalizedFeatures", ())
        },
    )


def mechanisms_question(versions: Versions) -> Question[tuple[str, ...] | None] | None:
    """Return the question for the SASL mechanisms that this listener has enabled, None if it has no SASL.

    This makes no login; the broker closes the connection afterwards.
    """
    if not versions.get(ApiKey.SASL_HANDSHAKE):
        return None
    version = min(1, versions[ApiKey.SASL_HANDSHAKE][-1])
    return ask_for(
        ApiKey.SASL_HANDSHAKE, version, {"Mechanism": _UNUSED_MECHANISM}, _read_mechanisms, MAX_RESPONSE_SIZE
    )


def _read_mechanisms(fields: dict[str, Any]) -> tuple[str, ...] | None:
    if fields["ErrorCode"] != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return None
    return tuple(map(text, fields["Mechanisms"][:_MAX_MECHANISMS]))
