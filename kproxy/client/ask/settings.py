"""The question to a broker for its own settings (DescribeConfigs), and the listeners in these settings.

Read-only. Brokers answer users who may DescribeConfigs on the cluster. Text in the answers is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kproxy.client.ask.questions import Question, Versions, ask_for, settings_request
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
    return ask_for(
        ApiKey.DESCRIBE_CONFIGS, 1, settings_request(node_id, names), lambda fields: _read_settings(fields, names)
    )


def _read_settings(fields: dict[str, Any], names: Sequence[str] | None) -> BrokerSettings:
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
