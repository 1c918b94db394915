"""The versions of clients and brokers that are too old for each other. Pure.

Kafka 4.0 removed the versions of requests that Kafka 2.1 had already replaced (KIP-896), in brokers and in the Java
client. The KIP names the releases of other clients with which it was checked; those, and later ones, work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kproxy.base.faults import Fault
from kproxy.client.ask.questions import Versions
from kproxy.protocol.wire.api import ApiKey

# The oldest release of each client that is known to work with Kafka 4.0 brokers (KIP-896).
OLDEST = {
    "java": (2, 1, 0),
    "librdkafka": (1, 8, 2),
    "kafkajs": (1, 15, 0),
    "sarama": (1, 30, 1),
    "kafka-python": (2, 0, 2),
}
_JAVA_NEEDS_2_1 = (4, 0, 0)


@dataclass(frozen=True, slots=True)
class ClientVersion:
    """The client in use: one of OLDEST, and its version."""

    name: str
    version: tuple[int, int, int]

    @classmethod
    def parse(cls, text: str) -> ClientVersion:
        """Read `java:3.9.0`.

        Raises ValueError with a message that says what is allowed.
        """
        name, _, version = text.strip().lower().partition(":")
        numbers = re.fullmatch(r"v?(\d{1,4})(?:\.(\d{1,4}))?(?:\.(\d{1,4}))?(?:[^\d.].*)?", version)
        if name not in OLDEST or numbers is None:
            raise ValueError(f"'{text}' is not a client; allowed: NAME:VERSION with one of {', '.join(OLDEST)}")
        return cls(name, (int(numbers[1]), int(numbers[2] or 0), int(numbers[3] or 0)))

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


def is_4_0(versions: Versions) -> bool:
    """Return True if the broker is Kafka 4.0 or newer: it has no Fetch before version 4."""
    fetch = versions.get(ApiKey.FETCH) or None  # a range without versions says nothing
    return fetch is not None and fetch[0] >= 4


def is_before_2_1(versions: Versions) -> bool:
    """Return True if the broker is older than Kafka 2.1, which has Fetch version 10."""
    fetch = versions.get(ApiKey.FETCH) or None  # a range without versions says nothing
    return fetch is not None and fetch[-1] < 10


def version_conflict(client: ClientVersion, versions: Versions) -> tuple[Fault, str] | None:
    """Return why this client cannot use this broker; None if it can, as far as the versions tell."""
    if is_4_0(versions) and client.version < OLDEST[client.name]:
        oldest = ".".join(map(str, OLDEST[client.name]))
        if client.name == "java":
            why = f"The brokers are Kafka 4.0 or newer, and refuse the Java client before {oldest} (KIP-896)"
        else:
            why = f"The brokers are Kafka 4.0 or newer, and {client.name} is known to work from {oldest} on (KIP-896)"
        return Fault.CLIENT_TOO_OLD, f"{why}. The client is {client}."
    if client.name == "java" and client.version >= _JAVA_NEEDS_2_1 and is_before_2_1(versions):
        why = "The brokers are older than Kafka 2.1, which the Java client 4.0 and newer needs (KIP-896)"
        return Fault.BROKER_TOO_OLD, f"{why}. The client is {client}."
    return None
