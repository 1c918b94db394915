"""A broker's listener settings: reading them, and writing the lines that would be right. Pure.

The settings are those of Kafka's documentation, "Broker Configs" (KIP-103): `listeners`, `advertised.listeners`,
`listener.security.protocol.map`, `inter.broker.listener.name`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kproxy.address import Address
from kproxy.ask import listeners as settings
from kproxy.doctor.found import Listener

# What a listener may be called; a broker is trusted no further.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,249}")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def listeners_of(values: Mapping[str, str]) -> list[Listener]:
    """The listeners of a broker, those of its controllers left out."""
    found = [one for one in settings.listeners(values) if one.role != "controller"]
    # Without an advertised address of its own, a listener advertises where it is bound.
    return [
        Listener(one.name, one.protocol if one.protocol in _PROTOCOLS else "PLAINTEXT", one.bound or None,
                 _address(one.advertised or one.bound))
        for one in found
        if _NAME.fullmatch(one.name)
    ]  # fmt: skip


def listener_that_advertises(listeners: Sequence[Listener], address: Address) -> Listener | None:
    """The listener whose advertised address this is."""
    return next((one for one in listeners if one.advertised == address), None)


def lines(listeners: Sequence[Listener], inter_broker: str | None) -> list[str]:
    """The settings of these listeners as server.properties has them."""
    written = [
        "listeners=" + ",".join(f"{one.name}://{one.bind or ':9092'}" for one in listeners),
        "advertised.listeners=" + ",".join(f"{one.name}://{one.advertised}" for one in listeners),
        "listener.security.protocol.map=" + ",".join(f"{one.name}:{one.protocol}" for one in listeners),
    ]
    return [*written, f"inter.broker.listener.name={inter_broker}"] if inter_broker else written


def with_listener(listeners: Sequence[Listener], wrong: Listener, advertised: Address, port: int) -> list[Listener]:
    """These listeners and one more, for clients that find the broker at `advertised`, of the same protocol as `wrong`,
    whose address serves others and stays."""
    names = {one.name for one in listeners}
    name = next(one for one in ("EXTERNAL", "CLIENT", "KPROXY", *(f"CLIENT{n}" for n in range(99))) if one not in names)
    return [*listeners, Listener(name, wrong.protocol, f"0.0.0.0:{port}", advertised)]


def moved(listeners: Sequence[Listener], wrong: Listener, advertised: Address) -> list[Listener]:
    """These listeners, with `wrong` advertised at another address."""
    return [replace(one, advertised=advertised) if one is wrong else one for one in listeners]


def variable(line: str, prefix: str) -> str:
    """A line of server.properties as a variable of a container image: `KAFKA_` or `KAFKA_CFG_`, dots as underscores."""
    key, _, value = line.partition("=")
    return f"{prefix}{key.upper().replace('.', '_')}={value}"


def image(values: Mapping[str, str]) -> str | None:
    """Which container image or operator a broker's settings look like, by where it keeps its data and how its listeners
    are called: "strimzi", "bitnami", "kafka" (Confluent's and Apache's, whose variables are alike); None if nothing
    tells."""
    logs = values.get("log.dirs", "")
    names = [one.name for one in settings.listeners(values)]
    if any(re.fullmatch(r"(REPLICATION|PLAIN|TLS|EXTERNAL|CONTROLPLANE)-\d+", name) for name in names):
        return "strimzi"
    if logs.startswith("/bitnami/"):
        return "bitnami"
    if logs.startswith(
        ("/var/lib/kafka/data", "/tmp/kraft-combined-logs", "/tmp/kafka-logs", "/opt/kafka")
    ):  # read, not used
        return "kafka"
    return None


def _address(text: str) -> Address | None:
    try:
        return Address.parse(text)
    except ValueError:
        return None
