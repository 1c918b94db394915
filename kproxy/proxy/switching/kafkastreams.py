"""Clients of Kafka Streams, known by the names that Streams gives them. Pure.

Streams deals with a switch itself, if it is told the truth. A lie about a name harms only the client that says it.
"""

from __future__ import annotations

import re

# Each thread's, with exactly_once_v2, or each task's before.
_PRODUCER = re.compile(r"-StreamThread-\d+(-\d+_\d+)?-producer$")
_REBUILDS = re.compile(r"-(StreamThread|StateUpdater)-\d+-restore-consumer$|-global-consumer$")


def is_streams_producer(client_id: str) -> bool:
    """Whether it is a producer of Streams, which takes the loss of its producer id for the loss of its tasks, and
    begins them again."""
    return _PRODUCER.search(client_id) is not None


def rebuilds_store(software: str, client_id: str) -> bool:
    """Whether a client, as it calls itself, makes a store anew if its position is out of range.

    The one that restores a store has its position from a file beside the store, and never asks for it: with nothing
    new it would wait for ever. Out of range, Streams deletes the store and restores it from the beginning. The one of
    global stores ends the application, which says that it is to be started again.
    """
    return software.startswith("apache-kafka-java") and _REBUILDS.search(client_id) is not None
