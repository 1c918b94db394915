"""Lines that show how far a client came: that a broker has answered it (pure).

After an answer, the client has reached a bootstrap server, speaks the protocol of its listener and is logged in. What fails
later is another address: the one that a broker advertises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kproxy.advice.explain.facts import client_of

# Metadata.java, ConsumerCoordinator.java; rdkafka_broker.c; client.go of Sarama; cluster.rb of ruby-kafka; kcat's -L.
LITERALS: dict[bytes, tuple[bytes, ...]] = {
    b"Cluster": (b"Cluster ID: ",),
    b"Discovered": (b"Discovered group coordinator ", b"Discovered cluster metadata", b"Discovered coordinator "),
    b"UP": (b"-> UP",),
    b"registered": (b"registered new broker #",),
    b"Metadata": (b"Metadata for ",),
}
_ANSWER = re.compile(
    r"\bCluster ID: [\w-]{1,64}|\bDiscovered (?:group coordinator |cluster metadata|coordinator )|state [A-Z_]{2,30} -> UP\b|"
    r"registered new broker #\d|Metadata for (?:all topics|\S{1,249}) \(from broker"
)


def answered_client(line: str) -> str | None:
    """Return the client to which a broker has answered, "" if the line does not name it; None if no broker has."""
    return client_of(line) if _ANSWER.search(line) else None


def has_later_answer(answers: Mapping[str, int], client: str, after: int) -> bool:
    """Check whether a broker has answered this client after a line, as `has_answer` does before one."""
    return max(answers.get(client, after), answers.get("", after)) > after


def has_answer(answers: Mapping[str, int], client: str, before: int) -> bool:
    """Check whether a broker has answered this client before a line. `answers`: clients, and the first line for each."""
    lines = answers.values() if not client else (answers.get(client, before), answers.get("", before))
    return any(line < before for line in lines)
