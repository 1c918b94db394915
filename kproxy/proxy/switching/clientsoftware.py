"""What is known of clients by the software that they name in ApiVersions, and by their client ids. Pure.

A wrong name harms only that client.
"""

from __future__ import annotations

import re

# The client ids that Kafka Streams gives: those of each thread with exactly_once_v2, or of each task before.
_STREAMS_PRODUCER = re.compile(r"-StreamThread-\d+(-\d+_\d+)?-producer$")
_STREAMS_STORES = re.compile(r"-(StreamThread|StateUpdater)-\d+-restore-consumer$|-global-consumer$")
# The topics of a worker of Kafka Connect.
_CONNECT_TOPICS = ("configs", "offsets", "statuses")


def is_franz_go(software: str) -> bool:
    """Return True if a client says in ApiVersions that it is franz-go."""
    return software.partition(" ")[0] == "kgo"


def is_librdkafka(software: str) -> bool:
    """Return True if a client says in ApiVersions that it is librdkafka, or a library on top of it."""
    return "rdkafka" in software


def is_kafka_python(software: str) -> bool:
    """Return True if a client says in ApiVersions that it is kafka-python."""
    return software.partition(" ")[0] == "kafka-python"


def is_streams_producer(client_id: str) -> bool:
    """Return True if this client id is that of a producer of Streams.

    Streams takes the loss of a producer id for the loss of its tasks, and starts them again.
    """
    return _STREAMS_PRODUCER.search(client_id) is not None


def rebuilds_store(software: str, client_id: str) -> bool:
    """Return True if this client rebuilds a state store when its position is out of range.

    The restore consumer has its position from a file beside the store, and never asks for it: without new records it
    would wait for ever. Out of range, Streams deletes the store and restores it from the beginning. The consumer of
    global stores ends the application with the message that it must be restarted.
    """
    return software.startswith("apache-kafka-java") and _STREAMS_STORES.search(client_id) is not None


def sibling_consumers(software: str, client_id: str) -> tuple[str, ...]:
    """Return the client ids of the other two consumers with which a worker of Kafka Connect reads its three topics.

    There are none if this client cannot be such a consumer. They are no members of a group, read from the beginning,
    and never ask for a committed offset. If their position is out of range, they begin again (`auto.offset.reset` is
    earliest, whatever the worker's configuration says). That changes nothing, because the topics have the newest state
    of each key. If they received no records instead, the worker could take over no change, and would not rejoin its
    group after a rebalance.
    """
    worker, _, topic = client_id.rpartition("-")
    if not worker or topic not in _CONNECT_TOPICS or not software.startswith("apache-kafka-java"):
        return ()
    return tuple(f"{worker}-{other}" for other in _CONNECT_TOPICS if other != topic)
