"""Positions on the target of who keeps them himself, for the source: when clients have been led back there.

A rollback translates the positions of groups. Those of a checkpoint of Spark nobody has but its query: they are
translated when the query has ended. By then the first migration's map has what was copied in both directions.
"""

from __future__ import annotations

from collections.abc import Set

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.migrate.clusters.roads import Roads
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import Cluster
from kproxy.migrate.copier.retries import insist
from kproxy.migrate.copier.statetopic import Copied, copied
from kproxy.migrate.journal.switch import last_switch
from kproxy.migrate.offsets.groupsync import read_topic
from kproxy.migrate.offsets.unknown_records import beyond
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.reverse import Where, map_back

_PATIENCE = 30.0


def known_back(migration: Migration, roads: Roads, places: Set[Where]) -> dict[Where, Copied]:
    """What is known of positions on the target in these partitions.

    Raises ConfigError if clients were not led back, or have written what is not on the source; UpstreamError and
    WireError."""
    last = last_switch(roads.target, migration.name)
    if last is None:
        raise ConfigError("clients were not switched: their positions are those of the source; leave out --back")
    if last.moved:
        raise ConfigError("clients are on the target: first, kproxy migrate rollback leads them back")
    target, source = Cluster(roads.target), Cluster(roads.source)
    try:
        # The logs' ends first: what is copied later is not taken for what somebody else has written.
        ends = _offsets(target, places, requests.LATEST)
        begins = _offsets(target, places, requests.EARLIEST)
        known = copied(read_topic(roads.target, migration).values)
        for where, end in ends.items():
            count = beyond(target, known[where], end) if where in known else end - begins[where]
            if count:
                topic, partition = where
                raise ConfigError(
                    f"partition {partition} of {topic} on the target has {count} records or more that were not copied"
                    " back: a query that has read them cannot go on at the source"
                )
        nothing = _offsets(source, places - known.keys(), requests.EARLIEST)
        return map_back(known, ends, nothing)
    finally:
        source.close()
        target.close()


def _offsets(cluster: Cluster, places: Set[Where], which: int) -> dict[Where, int]:
    """Raises ConfigError if a partition has no leader that tells; UpstreamError and WireError."""
    found: dict[Where, int] = {}

    def ask() -> None:
        found.update(cluster.offsets(places - found.keys(), which, committed=False))
        if missing := places - found.keys():
            topic, partition = min(missing)
            raise UpstreamError("other", f"nobody tells where partition {partition} of {topic} begins or ends")

    if places:
        insist(cluster, ask, _PATIENCE)
    return found
