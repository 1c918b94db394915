from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.migrate.copier.offsetmap import OffsetMap

gaps = st.integers(0, 1 << 20)
runs = st.lists(st.tuples(gaps, gaps, st.integers(1, 1 << 20)), max_size=50)


def made(steps: list[tuple[int, int, int]]) -> tuple[OffsetMap, dict[int, int]]:
    """A map, and the first and last record of each of its runs, one by one."""
    found, pairs, source, target = OffsetMap(), {}, 0, 0
    for source_gap, target_gap, count in steps:
        source, target = source + source_gap, target + target_gap
        found.add(source, target, count)
        pairs[source], pairs[source + count - 1] = target, target + count - 1
        source, target = source + count, target + count
    return found, pairs


@given(runs)
def test_bytes_and_back(steps: list[tuple[int, int, int]]) -> None:
    found, _ = made(steps)
    assert OffsetMap.from_bytes(found.to_bytes()) == found


@given(runs)
def test_each_record_is_found(steps: list[tuple[int, int, int]]) -> None:
    found, pairs = made(steps)
    assert found.records == sum(count for _, _, count in steps)
    for source, target in pairs.items():
        assert found.to_target(source) == found.next_target(source) == target


@given(runs, st.integers(0, 1 << 26))
def test_a_position_in_a_gap_is_the_next_record(steps: list[tuple[int, int, int]], source: int) -> None:
    found, _ = made(steps)
    later = [
        target + max(0, source - first) for first, target, count in found if first + count > source
    ]  # the first run that ends after it
    assert found.next_target(source) == (later[0] if later else None)


def test_neighbours_are_one_run() -> None:
    assert list(OffsetMap([(10, 0, 5), (15, 5, 2), (17, 8, 1)])) == [(10, 0, 7), (17, 8, 1)]


@pytest.mark.parametrize("run", [(4, 9, 1), (9, 4, 1), (9, 9, 0), (9, 9, -1)])
def test_a_run_that_cannot_come_next(run: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="run"):
        OffsetMap([(0, 0, 5), run])


@given(st.binary(max_size=40))
def test_nonsense_is_refused_as_such(data: bytes) -> None:
    try:
        found = OffsetMap.from_bytes(data)
    except WireError:
        return
    assert OffsetMap.from_bytes(found.to_bytes()) == found


@pytest.mark.parametrize("data", [b"\x00", b"\x80", b"\x00\x00\x00", b"\xff" * 12, b"\xff" * 8 + b"\x7f\x00\x01"])
def test_a_broken_map(data: bytes) -> None:
    with pytest.raises(WireError, match="offset map"):
        OffsetMap.from_bytes(data)
