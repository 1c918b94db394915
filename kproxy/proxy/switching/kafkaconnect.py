"""The consumers with which a worker of Kafka Connect reads its three topics, recognised by their client ids. Pure.

They are no members of a group, read from the beginning, and never ask for a committed offset. If their position is out
of range, they begin again (`auto.offset.reset` is earliest, whatever the worker's configuration says). That changes
nothing, because the topics have the newest state of each key. If they received no records instead, the worker could
take over no change, and would not rejoin its group after a rebalance.
"""

from __future__ import annotations

_TOPICS = ("configs", "offsets", "statuses")


def sibling_consumers(software: str, client_id: str) -> tuple[str, ...]:
    """Return the client ids of the worker's two other such consumers; none if this client cannot be one."""
    worker, _, topic = client_id.rpartition("-")
    if not worker or topic not in _TOPICS or not software.startswith("apache-kafka-java"):
        return ()
    return tuple(f"{worker}-{other}" for other in _TOPICS if other != topic)
