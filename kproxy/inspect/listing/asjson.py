"""A snapshot as JSON. Pure."""

from __future__ import annotations

from kproxy.client.ask.contents import Topic, error_text
from kproxy.inspect.listing.comparison import SnapshotPair
from kproxy.inspect.listing.snapshot import ListingOptions, ServingKproxy, Snapshot


def snapshot(snapshot: Snapshot, running: ServingKproxy | None, options: ListingOptions) -> dict[str, object]:
    """Return a snapshot as JSON values. `groups` is null if they were not asked for."""
    return {
        "cluster": {
            "id": snapshot.cluster_id,
            "asked": snapshot.server,
            "controller": snapshot.controller,
            "mode": "kraft" if snapshot.kraft else "zookeeper",
        },
        "kproxy": None if running is None else {"admin": running.admin, "bootstrap": running.bootstrap},
        "brokers": [_broker(snapshot, running, at) for at in range(len(snapshot.brokers))],
        "topics": [_topic(topic) for topic in snapshot.topics],
        "hidden_topics": snapshot.hidden,
        "groups": _groups(snapshot) if options.groups else None,
    }


def comparison(pair: SnapshotPair) -> dict[str, object]:
    """Return two snapshots, and the differences that must not be."""
    return {
        "direct": snapshot(pair.direct, None, ListingOptions()),
        "through": snapshot(pair.through, None, ListingOptions()),
        "differences": [
            {"what": row.what, "direct": row.direct or None, "through": row.through or None}
            for row in pair.rows
            if row.differs
        ],
    }


def _broker(snapshot: Snapshot, running: ServingKproxy | None, index: int) -> dict[str, object]:
    broker = snapshot.brokers[index]
    details = snapshot.details.get(broker.id)
    return {
        "id": broker.id,
        "advertised": str(broker.advertised),
        "rack": broker.rack,
        "local": None if running is None else running.local.get(broker.id),
        "listeners": dict(details.settings) if details is not None and details.settings else None,
        "problem": None if details is None else details.problem or details.settings_problem or details.groups_problem,
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


def _groups(snapshot: Snapshot) -> list[dict[str, object]]:
    return [
        {
            "group": group.id,
            "coordinator": node_id,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "kind": group.kind,
        }
        for node_id, details in sorted(snapshot.details.items())
        for group in details.groups
    ]
