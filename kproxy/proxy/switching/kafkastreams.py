"""Clients of Kafka Streams, recognised by the client ids that Streams gives them. Pure.

Streams handles a switch itself, if it gets true responses. A wrong client id harms only that client.
"""

from __future__ import annotations

import re

# Each thread's, with exactly_once_v2, or each task's before.
_PRODUCER = re.compile(r"-StreamThread-\d+(-\d+_\d+)?-producer$")
_REBUILDS = re.compile(r"-(StreamThread|StateUpdater)-\d+-restore-consumer$|-global-consumer$")


def is_streams_producer(client_id: str) -> bool:
    """Return True if this client id is that of a producer of Streams.

    Streams takes the loss of a producer id for the loss of its tasks, and starts them again.
    """
    return _PRODUCER.search(client_id) is not None


def rebuilds_store(software: str, client_id: str) -> bool:
    """Return True if this client rebuilds a state store when its position is out of range.

    The restore consumer has its position from a file beside the store, and never asks for it: without new records it
    would wait for ever. Out of range, Streams deletes the store and restores it from the beginning. The consumer of
    global stores ends the application with the message that it must be restarted.
    """
    return software.startswith("apache-kafka-java") and _REBUILDS.search(client_id) is not None
