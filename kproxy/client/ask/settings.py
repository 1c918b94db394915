"""The question to a broker for its own settings (DescribeConfigs): the values, and where each comes from.

Read-only. Brokers answer users who may DescribeConfigs on the cluster. Text in the answers is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import pack

from kproxy.client.ask.questions import NONE, Question, Versions
from kproxy.protocol.wire import api
from kproxy.protocol.wire.primitives import INT32, string
from kproxy.protocol.wire.reader import ResponseReader

_BROKER_RESOURCE = 4  # ConfigResource.Type.BROKER
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
    if 1 not in versions.get(api.DESCRIBE_CONFIGS, ()):
        return None
    # v1: resources[type, name, keys], include_synonyms
    keys = INT32.pack(-1) if names is None else INT32.pack(len(names)) + b"".join(_string(name) for name in names)
    body = INT32.pack(1) + pack(">b", _BROKER_RESOURCE) + _string(str(node_id)) + keys + b"\0"
    return Question(api.DESCRIBE_CONFIGS, 1, body, lambda answer: _read_settings(answer, names))


def _read_settings(body: bytes, names: Sequence[str] | None) -> BrokerSettings:
    """Decode a DescribeConfigs response.

    Layout of v1: throttle time, results[error, message, type, name, configs[name, value, read-only, source, sensitive,
    synonyms[name, value, source]]].
    """
    reader = ResponseReader(body)
    reader.int32()

    def synonym() -> None:
        reader.raw(), reader.raw(), reader.boolean()

    def config() -> tuple[str, str | None, int]:
        name, value = reader.text(), reader.text_or_none()
        reader.boolean()
        source, sensitive = reader.int8(), reader.boolean()
        reader.array(synonym)
        return name, None if sensitive else value, source

    def result() -> BrokerSettings:
        error = reader.int16()
        reader.raw(), reader.boolean(), reader.raw()
        values_by_name = {name: (value, source) for name, value, source in reader.array(config)}
        selected = {name: values_by_name[name] for name in names or values_by_name if name in values_by_name}
        return BrokerSettings(
            error,
            {name: value for name, (value, _) in selected.items()},
            frozenset(name for name, (_, source) in selected.items() if source == _DEFAULT),
            frozenset(name for name, (_, source) in selected.items() if source in _DYNAMIC),
        )

    results = reader.array(result)
    return results[0] if results else BrokerSettings(NONE, {})


def _string(text: str) -> bytes:
    return string(text.encode(), compact=False)
