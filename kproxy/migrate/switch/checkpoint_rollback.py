"""Offset maps that translate a Spark checkpoint from the target to the source, after a rollback.

A rollback translates the positions of groups. Only the query has the positions of its checkpoint: they are translated
when the query has ended. By then the first migration's map contains what was copied in both directions.
"""

from __future__ import annotations

import time
from collections.abc import Set

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import CopiedPartition, read_copied_partitions
from kproxy.migrate.journal.switch_journal import read_last_switch
from kproxy.migrate.offsets.log_ranges import count_beyond
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.inverse_offset_map import invert_maps

_TIMEOUT = 30.0


def read_inverse_maps(
    migration: Migration, endpoints: ClusterEndpoints, places: Set[TopicPartition]
) -> dict[TopicPartition, CopiedPartition]:
    """Return the offset maps from the target to the source, of these partitions.

    Raises ConfigError if clients were not moved back, or have written records that are not on the source.
    """
    last = read_last_switch(endpoints.target, migration.name)
    if last is None:
        raise ConfigError("clients were not switched: their positions are those of the source; omit --reverse")
    if last.is_moved:
        raise ConfigError("clients are on the target: run kproxy migrate rollback FILE first")
    with ClusterClient(endpoints.target) as target, ClusterClient(endpoints.source) as source:
        # The logs' ends first: records that are copied later must not count as unknown records.
        ends = _read_offsets(target, places, requests.LATEST)
        begins = _read_offsets(target, places, requests.EARLIEST)
        maps = read_copied_partitions(endpoints.target, migration.name)
        for place, end in ends.items():
            count = count_beyond(target, maps[place], end) if place in maps else end - begins[place]
            if count:
                topic, partition = place
                raise ConfigError(
                    f"partition {partition} of {topic} on the target has at least {count} records that were not"
                    " copied back: a query that has read them cannot continue on the source"
                )
        empty_begins = _read_offsets(source, places - maps.keys(), requests.EARLIEST)
        return invert_maps(maps, ends, empty_begins)


def _read_offsets(cluster: ClusterClient, places: Set[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """Read offsets of all partitions. Raises UpstreamError if a partition has no leader that replies."""
    offsets = cluster.list_offsets_until(places, timestamp, time.monotonic() + _TIMEOUT, committed=False)
    if missing := places - offsets.keys():
        topic, partition = min(missing)
        raise UpstreamError("other", f"no broker returned offsets for {topic}-{partition}")
    return offsets
