"""The producer ids of the source that kproxy has used up itself, so that no client of the source has one of them.

A reversible switch raises the ids of the source above those of the target. If the switch is undone, the copier's ids in
the target's logs are below those of the source from then on, and would be taken for ids of the source's clients.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from kproxy.migrate.clusters.producerids import IdRange
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import state_key
from kproxy.migrate.copier.statetopic import read_state
from kproxy.migrate.journal.driver import write_once
from kproxy.protocol.wire.primitives import malformed

_KIND = "taken-ids"
# Many ranges come of clients that got ids in between; what is left out is taken for ids of clients.
_MAX_RANGES = 1000


def record_taken_ids(target: str, name: str, ranges: Sequence[IdRange]) -> None:
    """Add ranges of ids to the state of a migration; a record has those of one raise. Raises KproxyError."""
    largest = sorted(ranges, key=lambda each: each[0] - each[1])[:_MAX_RANGES]
    if largest:
        write_once(target, name, {state_key(_KIND, min(largest)[0]): {"v": 1, "ranges": largest}}, "taken-ids")


def read_taken_ids(target: str, name: str) -> list[IdRange]:
    """Return the recorded ranges. Raises KproxyError, also for a record that kproxy did not write."""
    prefix = state_key(_KIND)[:-1]
    values = read_state(target, name, lambda key: key.startswith(prefix))
    try:
        return [(int(first), int(last)) for value in values.values() for first, last in json.loads(value)["ranges"]]
    except (KeyError, TypeError, ValueError):
        raise malformed("the state topic has a record of producer ids that kproxy did not write") from None


def without_taken_ids(
    ids: Mapping[TopicPartition, Collection[int]], ranges: Sequence[IdRange]
) -> dict[TopicPartition, list[int]]:
    """Return the ids of each partition that are in none of the ranges, without partitions that have none then."""
    left = {
        place: [number for number in numbers if not any(first <= number <= last for first, last in ranges)]
        for place, numbers in ids.items()
    }
    return {place: numbers for place, numbers in left.items() if numbers}
