"""The way back: positions and offset maps after clients went to the other side, and back, any number of times.

Two logs are simulated. Whoever is active gets records of clients; a copy brings each to the other side, where markers
of transactions leave gaps. What kproxy knows must say of every record where it is on the other side.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.state import PartitionState, state_key
from kproxy.migrate.copier.statetopic import CopiedPartition, parse_copied_partitions
from kproxy.migrate.offsets.positions import translate
from kproxy.migrate.spec.migration import GroupSelection, Migration, TopicSelection
from kproxy.migrate.spec.schemas_section import RegistrySection, SchemasSection
from kproxy.migrate.switch import inverse_offset_map
from kproxy.migrate.switch.inverse_offset_map import (
    SyncPoint,
    compose_maps,
    continuation_records,
    invert,
    join,
    merge_verified,
    restore_records,
    reverse_migration,
    seed_records,
    swap_endpoints,
)
from kproxy.migrate.verify.results import VerifiedRange, parse_verified_ranges

WHERE = ("t", 0)


@dataclass
class Log:
    """Offsets of records, by record; the next offset."""

    places: dict[int, int] = field(default_factory=dict)
    end: int = 0

    def add(self, record: int, gap: int) -> int:
        self.end += gap
        self.places[record] = self.end
        self.end += 1
        return self.places[record]


def values(records: dict[bytes, bytes | None], before: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """A state topic after these records."""
    made = dict(before)
    for name, value in records.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = value
    return made


def copying(source: Log, target: Log, there: dict[bytes, bytes], new: list[tuple[int, int, int]]) -> dict[bytes, bytes]:
    """Clients write to the source, and the copier brings it to the target: its state topic after that."""
    name = state_key("partition", *WHERE)
    state = PartitionState.from_json(there[name]) if name in there else PartitionState("t", 0, 0, 0)
    whole = OffsetMap(state.map)
    for record, gap, other in new:
        at = source.add(record, gap)
        whole.add(at, target.add(record, other), 1)
    state = PartitionState(
        "t", state.source_begin, source.end, target.end, state.records + len(new), map=whole,
        target_begin=state.target_begin,
    )  # fmt: skip
    return {**there, name: state.to_json()}


_GAPS = st.integers(0, 3)
_TURNS = st.lists(st.lists(st.tuples(_GAPS, _GAPS), max_size=6), min_size=1, max_size=6)


@pytest.mark.parametrize("sealed", [1 << 20, 1])
@given(turns=_TURNS, undone=st.integers(0, 6))
def test_every_record_is_found_on_the_other_side(sealed: int, turns: list[list[tuple[int, int]]], undone: int) -> None:
    """Turns are those of blue, of green, of blue, … Maps of more bytes than `sealed` are written in pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inverse_offset_map, "SEAL_THRESHOLD", sealed)
        patch.setattr(inverse_offset_map, "_RUNS_PER_RECORD", 2)
        _every_record_is_found(turns, undone)


def _every_record_is_found(turns: list[list[tuple[int, int]]], undone: int) -> None:
    blue, green = Log(), Log()
    forth: dict[bytes, bytes] = {}
    back: dict[bytes, bytes] = {}
    number = 0
    for turn, gaps in enumerate(turns):
        new = [(number + at, *pair) for at, pair in enumerate(gaps)]
        number += len(new)
        if turn % 2 == 0:  # clients are on blue, and go to green
            forth = copying(blue, green, forth, new)
            known = parse_copied_partitions(forth)
            back = values(seed_records(SyncPoint({WHERE: green.end}, {WHERE: blue.end}), back), back)
            _found(known, blue, green)
        else:  # they are on green, and go to blue
            for part in (new[:undone], new[undone:]):  # after the first part they go back, which is undone
                back = copying(green, blue, back, part)
                before = values(restore_records(forth, parse_copied_partitions(back), 5), forth)
                known = compose_maps(parse_copied_partitions(back), parse_copied_partitions(before))
                _found(known, green, blue)
                equal = SyncPoint({WHERE: blue.end}, {WHERE: green.end})
                states = {WHERE: PartitionState.from_json(before[state_key("partition", *WHERE)])}
                forth = values(continuation_records(states, parse_copied_partitions(back), equal, 5), before)
    assert parse_copied_partitions(forth)[WHERE].records == number if len(turns) % 2 else True


def _found(known: dict[tuple[str, int], CopiedPartition], source: Log, target: Log) -> None:
    for record, at in source.places.items():
        assert translate(known, *WHERE, at).target == target.places[record]
    end = translate(known, *WHERE, source.end).target
    assert end is not None
    assert all(place < end for place in target.places.values())


def test_large_maps_are_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverse_offset_map, "_RUNS_PER_RECORD", 1000)
    back = OffsetMap((n * 3, n * 2, 1) for n in range(6000))
    found = {WHERE: CopiedPartition("t", 0, "t", 0, 18000, 12000, 6000, 1, back)}
    made = continuation_records({}, found, SyncPoint({WHERE: 20000}, {WHERE: 30000}), 5)
    assert sum(name.startswith(b'["map"') for name in made) == 6
    one = parse_copied_partitions(values(made, {}))[WHERE]
    assert one.map == invert(back)
    assert (one.source_next, one.target_next, one.records, one.size) == (20000, 30000, 6000, 1)


def test_what_is_verified_is_counted_once() -> None:
    """A rollback that was undone has counted what was copied back by then."""
    name, first = state_key("verified", "t", 0), {WHERE: VerifiedRange(0, 7, 5)}
    equal = SyncPoint({WHERE: 20}, {WHERE: 30})
    forth = {state_key("partition", *WHERE): PartitionState("t", 0, 7, 9, 5, 50, map=OffsetMap([(0, 0, 5)])).to_json()}
    back = {WHERE: CopiedPartition("t", 0, "t", 10, 30, 20, 4, 40, OffsetMap([(10, 8, 4)]))}
    for _ in range(3):
        changes = restore_records(forth, back, 5)
        forth = values(changes, forth)
        assert parse_copied_partitions(forth)[WHERE].records == 5
        states = {WHERE: PartitionState.from_json(forth[state_key("partition", *WHERE)])}
        forth = values(continuation_records(states, back, equal, 5), forth)
        kept = merge_verified(parse_verified_ranges(forth) or first, {WHERE: VerifiedRange(10, 30, 4)}, equal, 5)
        assert kept[name].records == 9
        forth[name] = json.dumps(kept[name].to_record(5)).encode()
        assert parse_copied_partitions(forth)[WHERE].records == 9


def test_a_new_copy_back_forgets_the_one_before() -> None:
    before = {state_key("map", "t", 0, 5): b"x", state_key("verified", "t", 0): b"x", state_key("journal", 1): b"x"}
    made = values(seed_records(SyncPoint({WHERE: 7}, {WHERE: 9}), before), before)
    assert set(made) == {state_key("journal", 1), state_key("partition", *WHERE)}
    state = PartitionState.from_json(made[state_key("partition", *WHERE)])
    assert (state.source_begin, state.source_next, state.target_next, state.target_begin) == (7, 7, 9, 9)


def test_maps_that_overlap() -> None:
    with pytest.raises(WireError, match="two copies at once"):
        join(OffsetMap([(0, 0, 5)]), OffsetMap([(4, 9, 1)]))


def test_what_is_verified_stays_so() -> None:
    made = merge_verified({}, {}, SyncPoint({WHERE: 7}, {WHERE: 9}), 5)
    assert {name: (one.since, one.upto) for name, one in made.items()} == {state_key("verified", *WHERE): (7, 7)}


OLD, NEW = RegistrySection("http://old"), RegistrySection("http://new")


def test_the_other_way() -> None:
    migration = Migration(
        {"bootstrap-servers": "a"}, {"bootstrap-servers": "b"}, "eu", TopicSelection(("*",), configs={"x": "1"}),
        GroupSelection(("g*",), ("gx",), ("lost",)), schemas=SchemasSection(OLD, NEW, ("orders-*",)),
    )  # fmt: skip
    back = reverse_migration(migration, {"t2", "t1"})
    assert (back.source, back.target, back.name) == (migration.target, migration.source, "eu-back")
    assert (back.topics, back.groups) == (TopicSelection(("t1", "t2")), GroupSelection(("g*",), ("gx",), ("lost",)))
    assert (back.acls, back.quotas) == (False, False)
    assert back.schemas == SchemasSection(NEW, OLD, ("orders-*",))
    in_context = replace(migration, schemas=SchemasSection(OLD, NEW, context="blue"))
    assert reverse_migration(in_context, {"t1"}).schemas is None
    assert swap_endpoints(ClusterEndpoints("a", "b", "A", "B")) == ClusterEndpoints("b", "a", "B", "A")
