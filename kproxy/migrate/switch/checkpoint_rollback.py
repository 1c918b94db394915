"""Positions on the target of who keeps them himself, for the source: when clients have been led back there.

A rollback translates the positions of groups. Those of a checkpoint of Spark nobody has but its query: they are
translated when the query has ended. By then the first migration's map has what was copied in both directions.
"""

from __future__ import annotations

from collections.abc import Set

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.statetopic import CopiedPartition, parse_copied_partitions
from kproxy.migrate.journal.switch_journal import read_last_switch
from kproxy.migrate.offsets.groupsync import load_state_topic
from kproxy.migrate.offsets.unknown_records import count_beyond
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.inverse_offset_map import TopicPartition, invert_maps

_TIMEOUT = 30.0


def read_inverse_maps(
    migration: Migration, endpoints: ClusterEndpoints, places: Set[TopicPartition]
) -> dict[TopicPartition, CopiedPartition]:
    """What is known of positions on the target in these partitions.

    Raises ConfigError if clients were not led back, or have written what is not on the source; UpstreamError and
    WireError."""
    last = read_last_switch(endpoints.target, migration.name)
    if last is None:
        raise ConfigError("clients were not switched: their positions are those of the source; leave out --back")
    if last.is_moved:
        raise ConfigError("clients are on the target: first, kproxy migrate rollback leads them back")
    target, source = ClusterClient(endpoints.target), ClusterClient(endpoints.source)
    try:
        # The logs' ends first: what is copied later is not taken for what somebody else has written.
        ends = _read_offsets(target, places, requests.LATEST)
        begins = _read_offsets(target, places, requests.EARLIEST)
        known = parse_copied_partitions(load_state_topic(endpoints.target, migration).values)
        for where, end in ends.items():
            count = count_beyond(target, known[where], end) if where in known else end - begins[where]
            if count:
                topic, partition = where
                raise ConfigError(
                    f"partition {partition} of {topic} on the target has {count} records or more that were not copied"
                    " back: a query that has read them cannot go on at the source"
                )
        nothing = _read_offsets(source, places - known.keys(), requests.EARLIEST)
        return invert_maps(known, ends, nothing)
    finally:
        source.close()
        target.close()


def _read_offsets(cluster: ClusterClient, places: Set[TopicPartition], which: int) -> dict[TopicPartition, int]:
    """Raises ConfigError if a partition has no leader that tells; UpstreamError and WireError."""
    found: dict[TopicPartition, int] = {}

    def ask() -> None:
        found.update(cluster.list_offsets(places - found.keys(), which, committed=False))
        if missing := places - found.keys():
            topic, partition = min(missing)
            raise UpstreamError("other", f"nobody tells where partition {partition} of {topic} begins or ends")

    if places:
        retry(cluster, ask, _TIMEOUT)
    return found
