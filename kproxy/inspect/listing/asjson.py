"""A snapshot as JSON has it. Pure."""

from __future__ import annotations

from kproxy.client.ask.contents import Topic, error_text
from kproxy.inspect.listing.comparison import SnapshotPair
from kproxy.inspect.listing.local_kproxy import ServingKproxy
from kproxy.inspect.listing.snapshot import ListingOptions, Snapshot


def snapshot(seen: Snapshot, running: ServingKproxy | None, options: ListingOptions) -> dict[str, object]:
    """All of it. `groups` is null where they were not asked for."""
    return {
        "cluster": {
            "id": seen.cluster_id,
            "asked": seen.asked,
            "controller": seen.controller,
            "mode": "kraft" if seen.kraft else "zookeeper",
        },
        "kproxy": None if running is None else {"admin": running.admin, "bootstrap": running.bootstrap},
        "brokers": [_broker(seen, running, at) for at in range(len(seen.brokers))],
        "topics": [_topic(topic) for topic in seen.topics],
        "hidden_topics": seen.hidden,
        "groups": _groups(seen) if options.groups else None,
    }


def comparison(pair: SnapshotPair) -> dict[str, object]:
    """Two snapshots, and what differs as it must not."""
    return {
        "direct": snapshot(pair.direct, None, ListingOptions()),
        "through": snapshot(pair.through, None, ListingOptions()),
        "differences": [
            {"what": row.what, "direct": row.direct or None, "through": row.through or None}
            for row in pair.rows
            if row.differs
        ],
    }


def _broker(seen: Snapshot, running: ServingKproxy | None, at: int) -> dict[str, object]:
    broker = seen.brokers[at]
    told = seen.seen.get(broker.id)
    return {
        "id": broker.id,
        "advertised": str(broker.advertised),
        "rack": broker.rack,
        "local": None if running is None else running.local.get(broker.id),
        "listeners": dict(told.settings) if told is not None and told.settings else None,
        "problem": None if told is None else told.problem or told.settings_problem or told.groups_problem,
    }


def _topic(topic: Topic) -> dict[str, object]:
    return {
        "name": topic.name,
        "internal": topic.internal,
        "error": error_text(topic.error) if topic.error else None,
        "partitions": [
            {
                "partition": partition.index,
                "leader": None if partition.is_leaderless else partition.leader,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "offline": list(partition.offline),
                "under_replicated": partition.is_under_replicated,
            }
            for partition in topic.partitions
        ],
    }


def _groups(seen: Snapshot) -> list[dict[str, object]]:
    return [
        {
            "group": group.id,
            "coordinator": node_id,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "kind": group.kind,
        }
        for node_id, told in sorted(seen.seen.items())
        for group in told.groups
    ]
