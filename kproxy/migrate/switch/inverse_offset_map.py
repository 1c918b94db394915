"""The way back: a migration with the sides exchanged, which begins where the two sides were equal (pure).

While writes are held and everything is copied, the last offset of a partition on one side is the same place as the last
one on the other. From there a copy in the other direction begins: `seeds` writes its state, so that it copies what
comes, and nothing that came from where it leads. What lies before that place is known by the offset map of the copy
that brought it: `turned` has that map the other way round.

When clients have gone back, the first migration goes on in the same way: its map gets what was copied back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.state import SEAL_THRESHOLD, PartitionState, encode_map_piece, parse_key, state_key
from kproxy.migrate.copier.statetopic import CopiedPartition, parse_copied_partitions
from kproxy.migrate.spec.migration import CopyLimits, Migration, TopicSelection
from kproxy.migrate.verify.results import VerifiedRange, parse_verified_ranges, verified_key

TopicPartition = tuple[str, int]
EndOffsets = Mapping[TopicPartition, int]
StateRecords = Mapping[bytes, bytes]

_SUFFIX = "-back"
# Runs in one record of the state topic: less than 300 kB.
_RUNS_PER_RECORD = 10_000


def reverse_migration(migration: Migration, topics: Iterable[str]) -> Migration:
    """From the target to the source, of these topics. It has a state topic of its own, on the source. It changes
    neither rights nor quotas there."""
    return Migration(
        migration.target,
        migration.source,
        reverse_name(migration.name),
        TopicSelection(tuple(sorted(topics))),
        migration.groups,
        CopyLimits(None, migration.limits.slice_mb),
        acls=False,
        quotas=False,
        switch=migration.switch,
    )


def reverse_name(name: str) -> str:
    """What the way back of a migration is called."""
    return name + _SUFFIX


def swap_endpoints(endpoints: ClusterEndpoints) -> ClusterEndpoints:
    """The same, the other way."""
    return ClusterEndpoints(
        endpoints.target, endpoints.source, endpoints.target_cluster_id, endpoints.source_cluster_id
    )


# Offset maps


def invert(known: OffsetMap) -> OffsetMap:
    """From the target to the source."""
    return OffsetMap((target, source, count) for source, target, count in known)


def join(before: OffsetMap, after: OffsetMap) -> OffsetMap:
    """One after the other. Raises WireError if they do not follow one another."""
    try:
        return OffsetMap([*before, *after])
    except ValueError:
        raise WireError(
            "malformed", "the offset maps of both directions overlap: were there two copies at once?"
        ) from None


def truncate(known: OffsetMap, target: int) -> OffsetMap:
    """The part that lies before this offset on the target."""
    return OffsetMap((source, at, min(count, target - at)) for source, at, count in known if at < target)


def compose_maps(
    back: Mapping[TopicPartition, CopiedPartition], forth: Mapping[TopicPartition, CopiedPartition]
) -> dict[TopicPartition, CopiedPartition]:
    """What is known of positions on the target of the first migration (`forth`), to translate them for its source: what
    was copied back, and before it what came from there."""
    found = {}
    for where, one in back.items():
        first = forth.get(where)
        whole = one.map if first is None else join(invert(first.map), one.map)
        found[where] = replace(one, source_begin=0, records=whole.records, map=whole)
    return found


def invert_maps(
    known: Mapping[TopicPartition, CopiedPartition],
    ends: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
) -> dict[TopicPartition, CopiedPartition]:
    """What is known of positions on the target of the first migration (`known`), if all that is there is in its map.
    `ends`: of the target's logs, behind which there is no record but those that were copied meanwhile; `begins`: of the
    source's logs, for partitions of which nothing was copied."""
    found = {}
    for (topic, partition), end in ends.items():
        one = known.get((topic, partition))
        if one is None:
            nothing = OffsetMap([])
            found[topic, partition] = CopiedPartition(
                topic, partition, topic, 0, end, begins[topic, partition], 0, 0, nothing
            )
        else:
            # Behind its last record is the marker of its transaction, and members have a position behind that.
            found[topic, partition] = replace(
                one,
                source_begin=one.target_begin,
                source_next=max(one.target_next, end),
                target_next=one.source_next,
                target_begin=one.source_begin,
                map=invert(one.map),
            )
    return found


# States


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """The place where both sides are the same: where logs end, by partition of the copy's source and of its target,
    which have the same names."""

    source: EndOffsets
    target: EndOffsets


def seed_records(equal: SyncPoint, there: StateRecords) -> dict[bytes, bytes | None]:
    """What the state topic of a copy is to have that begins at this place, from the source of `equal` to its target.
    `there`: what it has now; None removes a record."""
    records: dict[bytes, bytes | None] = {}
    for name in there:
        match parse_key(name):
            case ["map" | "verified" | "partition", *_]:
                records[name] = None
    for (topic, partition), end in equal.source.items():
        at = equal.target[topic, partition]
        records[state_key("partition", topic, partition)] = PartitionState(
            topic, end, end, at, target_begin=at
        ).to_json()
    return records


def restore_records(
    there: StateRecords, back: Mapping[TopicPartition, CopiedPartition], at: int
) -> dict[bytes, bytes | None]:
    """What to change in the state topic of the first migration (`there`), so that it is as it was when clients went to
    the target. A rollback that was undone may have written there already what was copied back by then."""
    changes: dict[bytes, bytes | None] = {}
    kept = parse_verified_ranges(there)
    for where, one in parse_copied_partitions(there).items():
        whole = one.map if where not in back else truncate(one.map, back[where].source_begin)
        more = one.map.records - whole.records
        if not more:
            continue
        changes |= {name: None for name in there if parse_key(name)[:3] == ["map", *where]}
        name = state_key("partition", *where)
        state = PartitionState.from_json(there[name])
        records = state.records - more
        size = state.size * records // state.records  # nobody has kept how much of it that was
        changes[name] = replace(state, map=whole, records=records, size=size).to_json()
        if (had := kept.get(where)) is not None:
            had = replace(had, records=max(0, had.records - more))
            changes[verified_key(where)] = json.dumps(had.to_record(at)).encode()
    return changes


def continuation_records(
    first: Mapping[TopicPartition, PartitionState],
    back: Mapping[TopicPartition, CopiedPartition],
    equal: SyncPoint,
    at: int,
) -> dict[bytes, bytes | None]:
    """What the state topic of the first migration is to have when clients have gone back to its source: as if it had
    copied itself what was copied back, and as verified. `equal`: of the first migration. `at` is in milliseconds."""
    records: dict[bytes, bytes | None] = {}
    for where, end in equal.source.items():
        state, new = first.get(where), back.get(where)
        begun = state or PartitionState(where[0], end, end, equal.target[where], target_begin=equal.target[where])
        whole = begun.map if new is None else join(begun.map, invert(new.map))
        state = replace(
            begun,
            source_next=end,
            target_next=equal.target[where],
            at=at,
            map=whole,
            records=begun.records + (0 if new is None else new.records),
            size=begun.size + (0 if new is None else new.size),
        )
        if len(whole.to_bytes()) >= SEAL_THRESHOLD:
            state, whole = state.seal()
            for piece in _pieces(whole):
                records[state_key("map", *where, piece.sources[0])] = encode_map_piece(piece)
        records[state_key("partition", *where)] = state.to_json()
    return records


def merge_verified(
    first: Mapping[TopicPartition, VerifiedRange],
    back: Mapping[TopicPartition, VerifiedRange],
    equal: SyncPoint,
    at: int,
) -> dict[bytes, VerifiedRange]:
    """The same for what is verified."""
    found = {}
    for where, end in equal.source.items():
        had, new = first.get(where), back.get(where)
        records = (had.records if had else 0) + (new.records if new else 0)
        found[verified_key(where)] = VerifiedRange(
            had.since if had else end, end, records, had.deleted if had else 0, had.compacted if had else 0
        )
    return found


def _pieces(whole: OffsetMap) -> Iterator[OffsetMap]:
    runs = list(whole)
    for at in range(0, len(runs), _RUNS_PER_RECORD):
        yield OffsetMap(runs[at : at + _RUNS_PER_RECORD])
