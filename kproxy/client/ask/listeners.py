"""The listeners of a broker, parsed from its settings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


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
