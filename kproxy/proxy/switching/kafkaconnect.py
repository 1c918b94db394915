"""The consumers with which a worker of Kafka Connect reads its own three topics, known by their names. Pure.

They are no members of a group, read from the beginning, and never ask where to go on. Told that their position is out
of range they begin again (`auto.offset.reset` is earliest, whatever the worker's configuration says), which changes
nothing: the topics have the newest state of each key. With nothing new the worker could take over no change, and after
a rebalance it would join its group no more.
"""

from __future__ import annotations

_TOPICS = ("configs", "offsets", "statuses")


def sibling_consumers(software: str, client_id: str) -> tuple[str, ...]:
    """The names of the worker's two other such consumers, if a client that calls itself so may be one; else none."""
    worker, _, topic = client_id.rpartition("-")
    if not worker or topic not in _TOPICS or not software.startswith("apache-kafka-java"):
        return ()
    return tuple(f"{worker}-{other}" for other in _TOPICS if other != topic)
