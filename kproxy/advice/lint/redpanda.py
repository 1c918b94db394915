"""Brokers of Redpanda: a redpanda.yaml, and the flags of `rpk redpanda start` in a container's command.

Source: https://docs.redpanda.com/current/manage/security/listener-configuration/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kproxy.advice.lint.commandline import split_words
from kproxy.advice.lint.container import Container
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.source import SourceLocation
from kproxy.advice.lint.tree import YamlNode
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle

_KEYS = {"kafka_api": "listeners", "advertised_kafka_api": "advertised.listeners"}
_FLAGS = {"--kafka-addr": "listeners", "--advertise-kafka-addr": "advertised.listeners"}
# Redpanda allows listeners without a name.
_UNNAMED = "kafka"


def add_broker(root: YamlNode, setup: Setup) -> None:
    """Add the broker of a redpanda.yaml to the setup."""
    section = root["redpanda"]
    settings = {}
    for key, name in _KEYS.items():
        node = section[key]
        items = node.items or ([node] if node.mapping else [])
        entries = [_entry(item) for item in items]
        if entries:
            settings[name] = replace(
                node.value(), text=",".join(entries), style=ValueStyle.FIXED, layout=LineLayout.NONE
            )
    if settings:
        _add(root.source.name, section.location, settings, None, setup)
    else:
        setup.add_unchecked(f"{root.source.name}: it has no kafka_api")


def _entry(item: YamlNode) -> str:
    host = item["address"].text
    return f"{item['name'].text or _UNNAMED}://{f'[{host}]' if ':' in host else host}:{item['port'].text}"


def add_broker_of_command(container: Container, words: Sequence[ConfigValue], setup: Setup) -> bool:
    """Add the broker that a command starts; return False if it starts none."""
    settings: dict[str, ConfigValue] = {}
    previous = ""
    for word in split_words(words):
        flag, sign, rest = word.text.partition("=")
        if sign and flag in _FLAGS:
            start = word.start + len(flag) + 1 if word.raw == word.text else word.start
            settings[_FLAGS[flag]] = _named(replace(word, text=rest, start=start))
        elif previous in _FLAGS:
            settings[_FLAGS[previous]] = _named(word)
        previous = word.text
    if settings:
        _add(container.name, container.location, settings, container, setup)
    return bool(settings)


def _named(value: ConfigValue) -> ConfigValue:
    """Give a name to each address without one."""
    if all("://" in entry for entry in value.entries):
        return value
    entries = [entry if "://" in entry else f"{_UNNAMED}://{entry}" for entry in value.entries]
    return replace(value, text=",".join(entries), style=ValueStyle.FIXED)


def _add(
    name: str,
    location: SourceLocation,
    settings: dict[str, ConfigValue],
    container: Container | None,
    setup: Setup,
) -> None:
    broker = BrokerConfig(name, ImageFamily.REDPANDA, location, settings, container=container, complete=False)
    names = [endpoint.name for endpoint in broker.listeners]
    # Redpanda has TLS and SASL elsewhere. Without an advertised address, `rpk redpanda start` chooses one.
    broker.defaults = {
        "listener.security.protocol.map": ",".join(f"{listener}:?" for listener in names),
        "inter.broker.listener.name": next(iter(names), ""),
        "advertised.listeners": "",
    }
    del broker.listeners
    setup.brokers.append(broker)
