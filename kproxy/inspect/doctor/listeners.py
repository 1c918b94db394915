"""A broker's listener settings: reads them, and writes corrected ones. Pure.

The settings are those of Kafka's documentation, "Broker Configs" (KIP-103): `listeners`, `advertised.listeners`,
`listener.security.protocol.map`, `inter.broker.listener.name`; and `controller.listener.names` (KIP-595). Corrected
settings keep every present listener, the controllers' too: without one of them a broker does not start, or does not
find the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, count

from kproxy.base.address import Address
from kproxy.client.ask import settings
from kproxy.inspect.doctor.evidence import BrokerListener

LISTENERS, ADVERTISED, PROTOCOLS = "listeners", "advertised.listeners", "listener.security.protocol.map"
# What a listener may be called; a broker is trusted no further.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,249}")
_ENTRY = re.compile(rf"{_NAME.pattern}://(\[[0-9A-Fa-f:.%]*\]|[A-Za-z0-9._-]*):\d{{1,5}}")
_PROTOCOL = re.compile(rf"{_NAME.pattern}:(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)")
# Values of other settings that can be copied into a file or a shell.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@,+-]{1,400}")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Kafka's own map, where none is set.
DEFAULT_MAP = ",".join(f"{name}:{name}" for name in _PROTOCOLS)
# More listeners than that no broker has.
_MOST = 100
_NEW_NAMES = ("EXTERNAL", "CLIENT", "KPROXY")


def listeners_of(values: Mapping[str, str]) -> list[BrokerListener]:
    """Return the listeners of a broker, without those of its controllers."""
    client_listeners = [listener for listener in settings.parse_listeners(values) if listener.role != "controller"]
    # Without an advertised address of its own, a listener advertises where it is bound.
    return [
        BrokerListener(
            listener.name,
            listener.protocol if listener.protocol in _PROTOCOLS else "PLAINTEXT",
            listener.bound or None,
            _address(listener.advertised or listener.bound),
        )
        for listener in client_listeners
        if _NAME.fullmatch(listener.name)
    ]


def listener_that_advertises(listeners: Sequence[BrokerListener], address: Address) -> BrokerListener | None:
    """Return the listener with this advertised address.

    A listener that is bound to no host, and has no advertised address, has the name of its machine.
    """
    advertising = next((listener for listener in listeners if listener.advertised == address), None)
    return advertising or next(
        (listener for listener in listeners if listener.advertised is None and listener.bind == f":{address.port}"),
        None,
    )


def are_readable(values: Mapping[str, str]) -> bool:
    """Return True if the settings have the form of Kafka's documentation, so that kproxy can rewrite them."""
    texts = [(_ENTRY, values.get(LISTENERS, "")), (_PROTOCOL, values.get(PROTOCOLS, DEFAULT_MAP))]
    if values.get(ADVERTISED):
        texts.append((_ENTRY, values[ADVERTISED]))
    every = [(form, _entries(text)) for form, text in texts]
    return bool(values.get(LISTENERS)) and all(
        len(entries) <= _MOST and all(map(form.fullmatch, entries)) for form, entries in every
    )


def inter_broker_listener(values: Mapping[str, str]) -> str:
    """Return the name, in capitals, of the listener that brokers use among themselves."""
    name = values.get("inter.broker.listener.name") or values.get("security.inter.broker.protocol") or "PLAINTEXT"
    return name.upper()


def ports(values: Mapping[str, str]) -> set[int]:
    """Return every port that listeners are bound to, or advertised with."""
    texts = [entry for key in (LISTENERS, ADVERTISED) for entry in _entries(values.get(key, ""))]
    return {int(port) for port in (text.rpartition(":")[2] for text in texts) if port.isdecimal()}


def port_of(listener: BrokerListener) -> int | None:
    """Return the port that a listener is bound to."""
    port = (listener.bind or "").rpartition(":")[2]
    return int(port) if port.isdecimal() else None


def new_name(every: Sequence[Mapping[str, str]]) -> str:
    """Return a name for a listener that none of these brokers has."""
    taken = {
        entry.partition(":")[0].upper()
        for values in every
        for key in (LISTENERS, ADVERTISED, PROTOCOLS)
        for entry in _entries(values.get(key, ""))
    }
    return next(name for name in chain(_NEW_NAMES, (f"CLIENT{number}" for number in count(2))) if name not in taken)


def with_listener(
    values: Mapping[str, str], like: BrokerListener, new: BrokerListener, advertised: Address
) -> dict[str, str]:
    """Return the settings that change when a broker gets one more listener, with the settings of `like`.

    The broker advertises `like` as `advertised`, and `like` stays.
    """
    protocols = _entries(values.get(PROTOCOLS) or DEFAULT_MAP)
    mapped = {entry.partition(":")[0].upper() for entry in protocols}
    # Where no map is set, Kafka gives the controllers' listeners PLAINTEXT; a map that is set must name them.
    controllers = [item.strip() for item in values.get("controller.listener.names", "").split(",") if item.strip()]
    protocols += [f"{name}:PLAINTEXT" for name in controllers if name.upper() not in mapped]
    changed = {
        LISTENERS: ",".join([*_entries(values[LISTENERS]), f"{new.name}://{new.bind}"]),
        ADVERTISED: ",".join([*_advertised(values, advertised), f"{new.name}://{new.advertised}"]),
        PROTOCOLS: ",".join([*protocols, f"{new.name}:{new.protocol}"]),
    }
    own, its = f"listener.name.{like.name.lower()}.", f"listener.name.{new.name.lower()}."
    copied = {its + key.removeprefix(own): value for key, value in values.items() if key.startswith(own)}
    return changed | {key: value for key, value in copied.items() if is_name(key) and is_plain(value)}


def with_address(
    values: Mapping[str, str], wrong: BrokerListener, advertised: Address, advertised_before: Address
) -> dict[str, str]:
    """Return the setting that changes when a listener is advertised at another address."""
    entries = [
        f"{wrong.name}://{advertised}" if entry.partition(":")[0].upper() == wrong.name.upper() else entry
        for entry in _advertised(values, advertised_before)
    ]
    return {ADVERTISED: ",".join(entries)}


def is_name(key: str) -> bool:
    """Return True if this can be the name of a setting."""
    return _NAME.fullmatch(key) is not None


def is_plain(value: str) -> bool:
    """Return True if a value can be copied into a file or a shell as it is."""
    return _PLAIN.fullmatch(value) is not None


def variable(line: str, prefix: str) -> str:
    """Return a line of server.properties as a variable of a container image: `KAFKA_` or `KAFKA_CFG_`."""
    key, _, value = line.partition("=")
    return f"{prefix}{key.replace('_', '__').replace('-', '___').replace('.', '_').upper()}={value}"


def recognise_image(values: Mapping[str, str]) -> str | None:
    """Return the container image or operator that a broker's settings look like: "strimzi", "bitnami", "confluent".

    It shows in the data directory and in the names of the listeners; None if nothing shows it. Apache's image has the
    same data directory as Kafka itself.
    """
    logs = values.get("log.dirs", "")
    names = [listener.name for listener in settings.parse_listeners(values)]
    if any(re.fullmatch(r"(REPLICATION|PLAIN|TLS|EXTERNAL|CONTROLPLANE)-\d+", name) for name in names):
        return "strimzi"
    if logs.startswith("/bitnami/"):
        return "bitnami"
    return "confluent" if logs.startswith("/var/lib/kafka/data") else None


def _advertised(values: Mapping[str, str], advertised: Address) -> list[str]:
    """Return the entries of `advertised.listeners`.

    If it is not set, brokers advertise their bound addresses; without a host, the name of the machine, which is that of
    `advertised`.
    """
    if values.get(ADVERTISED):
        return _entries(values[ADVERTISED])
    controllers = {item.strip().upper() for item in values.get("controller.listener.names", "").split(",")}
    entries = []
    for entry in _entries(values[LISTENERS]):
        name, _, bound = entry.partition("://")
        if name.upper() not in controllers:
            host, _, port = bound.rpartition(":")
            entries.append(f"{name}://{bound if host else Address(advertised.host, int(port))}")
    return entries


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _address(text: str) -> Address | None:
    try:
        return Address.parse(text)
    except ValueError:
        return None
