"""The record of a migration as JSON. Pure."""

from __future__ import annotations

import json
from typing import Any

from kproxy.base.diagnostic import to_json
from kproxy.migrate.report.doubts import find_doubts
from kproxy.migrate.report.record import MigrationRecord, outcome_of, where_clients_are
from kproxy.migrate.report.status import MigrationStatus


def record_to_json(record: MigrationRecord) -> dict[str, Any]:
    """Return the record, and what it does not prove, as JSON values."""
    return {
        "at": record.at,
        "clients": where_clients_are(record),
        "not_proven": [to_json(doubt) for doubt in find_doubts(record)],
        "switches": [
            {
                **entry.to_record(),
                "outcome": outcome_of(entry),
            }
            for entry in record.switches
        ],
        "copy": json.loads(record.status.to_json()),
        "verified": _verified_to_json(record.status),
        "reverse_copies": [
            {**copy.to_json(), "verified": [] if copy.status is None else _verified_to_json(copy.status)}
            for copy in record.reverse_copies
        ],
        "positions": [
            {"group": group, "target_topic": topic, "partition": partition, "offset": offset}
            for group, offsets in record.positions.items()
            for (topic, partition), offset in offsets.items()
        ],
        "changes": [
            {"number": change.number, "at": change.at, "kind": change.change.kind, "text": str(change.change)}
            for change in record.changes
        ],
    }


def _verified_to_json(status: MigrationStatus) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": partition, **verified.to_record(verified.at)}
        for (topic, partition), verified in sorted(status.verified.items())
    ]
