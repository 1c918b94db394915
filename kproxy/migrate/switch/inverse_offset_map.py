"""States and offset maps for a copy in the other direction, which begins where both sides were equal (pure).

While writes are held and everything is copied, the end of a partition on one side corresponds to its end on the other.
There a copy in the other direction begins: `seed_records` writes its state, so that it copies what follows, and nothing
that it would copy back. The offset map of the first copy describes the records before that place: `invert` turns it
round.

When clients have gone back, the first migration continues in the same way: its map is extended by what was copied back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import SEAL_THRESHOLD, PartitionState, encode_map_piece, parse_key, state_key
from kproxy.migrate.copier.statetopic import CopiedPartition, parse_copied_partitions, parse_states
from kproxy.migrate.spec.migration import CopyLimits, Migration, TopicSelection
from kproxy.migrate.verify.results import VerifiedRange, parse_verified_ranges, verified_key

EndOffsets = Mapping[TopicPartition, int]
StateRecords = Mapping[bytes, bytes]

_SUFFIX = "-back"
# Runs in one record of the state topic: less than 300 kB.
_RUNS_PER_RECORD = 10_000


def reverse_migration(migration: Migration, topics: Iterable[str]) -> Migration:
    """Return the migration from the target to the source, of these topics.

    It has its own state topic, on the source. It changes neither ACLs nor quotas there. It has no schemas if they are
    in a context of the target, whose ids mean nothing at the source.
    """
    schemas = migration.schemas
    return Migration(
        source=migration.target,
        target=migration.source,
        name=reverse_name(migration),
        topics=TopicSelection(tuple(sorted(topics))),
        groups=migration.groups,
        limits=CopyLimits(None, migration.limits.slice_mb),
        acls=False,
        quotas=False,
        switch=migration.switch,
        schemas=None if schemas is None or schemas.context else schemas.reversed(),
        wave=migration.wave,
    )


def reverse_name(migration: Migration) -> str:
    """Return the name of the reverse migration; that of a wave has a name of its own."""
    return f"{migration.name}.{migration.wave}{_SUFFIX}" if migration.wave else f"{migration.name}{_SUFFIX}"


def swap_endpoints(endpoints: ClusterEndpoints) -> ClusterEndpoints:
    """Return the endpoints with source and target exchanged."""
    return ClusterEndpoints(
        endpoints.target, endpoints.source, endpoints.target_cluster_id, endpoints.source_cluster_id
    )


# Offset maps


def invert(offset_map: OffsetMap) -> OffsetMap:
    """Return the offset map from the target to the source."""
    return OffsetMap((target, source, count) for source, target, count in offset_map)


def join(before: OffsetMap, after: OffsetMap) -> OffsetMap:
    """Return both maps as one. Raises WireError if the second does not follow the first."""
    try:
        return OffsetMap([*before, *after])
    except ValueError:
        raise WireError(
            "malformed", "the offset maps of both directions overlap: were there two copies at once?"
        ) from None


def truncate(offset_map: OffsetMap, target: int) -> OffsetMap:
    """Return the part of the map before this offset on the target."""
    return OffsetMap((source, at, min(count, target - at)) for source, at, count in offset_map if at < target)


def compose_maps(
    reverse: Mapping[TopicPartition, CopiedPartition], forward: Mapping[TopicPartition, CopiedPartition]
) -> dict[TopicPartition, CopiedPartition]:
    """Return maps that translate positions on the target of the first migration (`forward`) to its source.

    They contain what was copied back (`reverse`), and before it what came from the source.
    """
    composed = {}
    for partition, copied_back in reverse.items():
        first = forward.get(partition)
        offset_map = copied_back.map if first is None else join(invert(first.map), copied_back.map)
        composed[partition] = replace(copied_back, source_begin=0, records=offset_map.records, map=offset_map)
    return composed


def invert_maps(
    copied_partitions: Mapping[TopicPartition, CopiedPartition],
    ends: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
) -> dict[TopicPartition, CopiedPartition]:
    """Return maps from the target of the first migration to its source, if nothing was copied back.

    `ends` are the ends of the target's logs; all records before them are in `copied_partitions`, except those
    copied meanwhile. `begins` are the begins of the source's logs, for partitions of which nothing was copied.
    """
    inverted = {}
    for (topic, partition), end in ends.items():
        copied_partition = copied_partitions.get((topic, partition))
        if copied_partition is None:
            inverted[topic, partition] = CopiedPartition.without_records(
                topic, partition, topic, end=end, target_end=begins[topic, partition]
            )
        else:
            # Behind its last record is the marker of its transaction, and members have a position behind that.
            inverted[topic, partition] = replace(
                copied_partition,
                source_begin=copied_partition.target_begin,
                source_next=max(copied_partition.target_next, end),
                target_next=copied_partition.source_next,
                target_begin=copied_partition.source_begin,
                map=invert(copied_partition.map),
            )
    return inverted


# States


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """The place where both sides are equal: ends of logs by partition of the copy's source and target.

    Partitions have the same names on both sides.
    """

    source: EndOffsets
    target: EndOffsets


def seed_records(sync_point: SyncPoint, state: StateRecords) -> dict[bytes, bytes | None]:
    """Return the changes to the state topic of a copy from source to target that begins at `sync_point`.

    `state` are its records now; None removes a record.
    """
    records: dict[bytes, bytes | None] = {}
    for name in state:
        match parse_key(name):
            case ["map" | "verified" | "partition", *_]:
                records[name] = None
    former = parse_states(state)
    for (topic, partition), end in sync_point.source.items():
        target_end = sync_point.target[topic, partition]
        begin = PartitionState(topic, end, end, target_end, target_begin=target_end)
        if (previous := former.get((topic, partition))) is not None:
            # The transactional id that may write stays, so that the next copier fences the former one.
            begin = replace(begin, has_own_id=previous.has_own_id, had_own_id=previous.had_own_id)
        records[state_key("partition", topic, partition)] = begin.to_json()
    return records


def restore_records(
    state_records: StateRecords, reverse: Mapping[TopicPartition, CopiedPartition], at: int
) -> dict[bytes, bytes | None]:
    """Return the changes that restore the first migration's state of the moment when clients went to the target.

    A rollback that was undone may have added there what was copied back by then.
    """
    changes: dict[bytes, bytes | None] = {}
    verified = parse_verified_ranges(state_records)
    for partition, copied_partition in parse_copied_partitions(state_records).items():
        offset_map = (
            copied_partition.map
            if partition not in reverse
            else truncate(copied_partition.map, reverse[partition].source_begin)
        )
        surplus = copied_partition.map.records - offset_map.records
        if not surplus:
            continue
        changes |= {name: None for name in state_records if parse_key(name)[:3] == ["map", *partition]}
        name = state_key("partition", *partition)
        state = PartitionState.from_json(state_records[name])
        records = state.records - surplus
        size = state.size * records // state.records  # an estimate: the exact size was not recorded
        changes[name] = replace(state, map=offset_map, records=records, size=size).to_json()
        if (verified_partition := verified.get(partition)) is not None:
            verified_partition = replace(
                verified_partition, records=max(0, verified_partition.records - surplus), digest=None
            )
            changes[verified_key(partition)] = json.dumps(verified_partition.to_record(at)).encode()
    return changes


def continuation_records(
    forward: Mapping[TopicPartition, PartitionState],
    reverse: Mapping[TopicPartition, CopiedPartition],
    sync_point: SyncPoint,
    at: int,
) -> dict[bytes, bytes | None]:
    """Return the state records with which the first migration continues after a rollback.

    They say that it has copied itself what was copied back. `sync_point` is of the first migration. `at` is in
    milliseconds.
    """
    records: dict[bytes, bytes | None] = {}
    for partition, end in sync_point.source.items():
        state, copied_back = forward.get(partition), reverse.get(partition)
        initial = state or PartitionState(
            partition[0], end, end, sync_point.target[partition], target_begin=sync_point.target[partition]
        )
        offset_map = initial.map if copied_back is None else join(initial.map, invert(copied_back.map))
        state = replace(
            initial,
            source_next=end,
            target_next=sync_point.target[partition],
            at=at,
            map=offset_map,
            records=initial.records + (0 if copied_back is None else copied_back.records),
            size=initial.size + (0 if copied_back is None else copied_back.size),
        )
        if len(offset_map.to_bytes()) >= SEAL_THRESHOLD:
            state, offset_map = state.seal()
            runs = list(offset_map)
            for start in range(0, len(runs), _RUNS_PER_RECORD):
                piece = OffsetMap(runs[start : start + _RUNS_PER_RECORD])
                records[state_key("map", *partition, piece.sources[0])] = encode_map_piece(piece)
        records[state_key("partition", *partition)] = state.to_json()
    return records


def merge_verified(
    forward: Mapping[TopicPartition, VerifiedRange],
    reverse: Mapping[TopicPartition, VerifiedRange],
    sync_point: SyncPoint,
    at: int,
) -> dict[bytes, VerifiedRange]:
    """Return what is verified of the first migration after a rollback."""
    merged = {}
    for partition, end in sync_point.source.items():
        forward_verified, reverse_verified = forward.get(partition), reverse.get(partition)
        records = (forward_verified.records if forward_verified else 0) + (
            reverse_verified.records if reverse_verified else 0
        )
        merged[verified_key(partition)] = VerifiedRange(
            forward_verified.since if forward_verified else end,
            end,
            records,
            forward_verified.deleted if forward_verified else 0,
            forward_verified.compacted if forward_verified else 0,
        )
    return merged
