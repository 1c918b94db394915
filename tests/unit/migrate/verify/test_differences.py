"""The first difference, exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kproxy.migrate.verify.differences import (
    BytesDigest,
    Difference,
    RecordComparison,
    RecordDigest,
    differing_fields,
    match_moved,
)


def data(text: str) -> BytesDigest:
    return BytesDigest(len(text), f"{hash(text) & 0xFFFF:04x}")


def record(offset: int, name: str = "") -> RecordDigest:
    return RecordDigest(offset, offset * 1000, data("k"), data(name or f"v{offset}"), (("h", data("x")), ("n", None)))


def at(offset: int, seen: RecordDigest) -> RecordDigest:
    return replace(seen, offset=offset)


SOURCE = [record(n) for n in range(10)]
ALL = [(0, 0, 10)]


def first(
    target: list[RecordDigest], runs: list[tuple[int, int, int]] = ALL, source: list[RecordDigest] = SOURCE
) -> Difference | None:
    return RecordComparison(("t", 3, "u"), runs, source, target).first()


def test_none() -> None:
    assert first(list(SOURCE)) is None
    assert first([], [], []) is None
    assert first([at(n + (n > 4), one) for n, one in enumerate(SOURCE)], [(0, 0, 5), (5, 6, 5)]) is None


LATER = [at(n, one) for n, one in enumerate([*SOURCE[:4], *SOURCE[5:8], SOURCE[4], *SOURCE[8:]])]


@pytest.mark.parametrize(
    ("target", "field", "source", "there", "position"),
    [
        (SOURCE[:4] + SOURCE[5:], "missing", 4, 4, 4),
        ([at(n, one) for n, one in enumerate(SOURCE[:4] + SOURCE[5:])], "missing", 4, 4, 4),
        (SOURCE[:7], "missing", 7, 7, 7),
        ([], "missing", 0, 0, 0),
        ([at(n, one) for n, one in enumerate([*SOURCE[:5], *SOURCE[4:]])], "doubled", 5, 5, 5),
        ([at(n, one) for n, one in enumerate([*SOURCE[:5], record(99), *SOURCE[5:]])], "extra", 5, 5, 5),
        ([*SOURCE, record(10)], "extra", None, 10, 10),
        ([*SOURCE, at(10, SOURCE[9])], "doubled", None, 10, 10),
        (LATER, "order", 4, 4, 4),
        ([at(9 - n, one) for n, one in enumerate(SOURCE)], "order", 0, 0, 0),
        ([*SOURCE[:9], replace(SOURCE[9], key=None)], "key", 9, 9, 9),
        ([*SOURCE[:9], replace(SOURCE[9], value=data(""))], "value", 9, 9, 9),
        ([replace(SOURCE[0], timestamp=1), *SOURCE[1:]], "timestamp", 0, 0, 0),
        ([replace(SOURCE[0], headers=SOURCE[0].headers[::-1]), *SOURCE[1:]], "header 0 (order)", 0, 0, 0),
        ([replace(SOURCE[0], headers=SOURCE[0].headers[:1]), *SOURCE[1:]], "header 1", 0, 0, 0),
        ([replace(SOURCE[0], headers=()), *SOURCE[1:]], "header 0", 0, 0, 0),
    ],
)
def test_what_it_is(target: list[RecordDigest], field: str, source: int | None, there: int, position: int) -> None:
    found = first(target)
    assert found is not None
    assert (found.field, found.source_offset, found.target_offset, found.position) == (field, source, there, position)
    assert str(found).startswith("t/3: source offset ")
    assert " of u: " in str(found)


def test_what_the_map_says_and_no_side_has() -> None:
    found = first(SOURCE[:4] + SOURCE[5:], source=SOURCE[:4] + SOURCE[5:])
    assert found is not None
    assert (found.field, found.position) == ("missing on both sides", 4)
    found = first(list(SOURCE), source=SOURCE[:4] + SOURCE[5:])
    assert found is not None
    assert (found.field, found.source_offset, found.target_offset) == ("extra", 4, 4)


def test_what_the_map_does_not_have() -> None:
    runs = [(0, 0, 5), (6, 5, 4)]
    there = [at(n, one) for n, one in enumerate(SOURCE[:5] + SOURCE[6:])]
    found = first(there, runs)
    assert found is not None
    assert (found.field, found.source_offset, found.target_offset, found.target) == ("not copied", 5, None, "")
    # The first in the order of the target: an extra record before one that was not copied.
    found = first([record(0, "x"), *(at(n + 1, one) for n, one in enumerate(there))], [(0, 1, 5), (6, 6, 4)])
    assert found is not None
    assert (found.field, found.position, found.target_offset) == ("extra", 0, 0)


def test_null_differs_from_empty_and_bytes_are_shown_if_allowed() -> None:
    one = record(0)
    [(name, left, right)] = differing_fields(replace(one, value=None), replace(one, value=BytesDigest(0, "e3b0")))
    assert (name, left, right) == ("value", "null", "0 bytes")
    [(_, left, right)] = differing_fields(
        replace(one, key=BytesDigest(9, "abcd")), replace(one, key=BytesDigest(3, "ffff", b"\x1b[2"))
    )
    assert (left, right) == ("9 bytes, sha256 abcd…", "3 bytes, b'\\x1b[2'")


def test_a_header_from_elsewhere_cannot_move_the_cursor() -> None:
    one = replace(record(0), headers=(("\x1b[2J\u202e", None),))
    [(_, left, _)] = differing_fields(one, replace(one, headers=()))
    assert left.isprintable()


def test_a_record_that_another_partition_has_too_many() -> None:
    lost = first(SOURCE[:4] + SOURCE[5:])
    other = first([*SOURCE, at(10, SOURCE[4])])
    assert lost is not None
    assert other is not None
    other = replace(other, partition=7, field="extra")
    both = match_moved([lost, other])
    assert [one.field for one in both] == ["partition", "extra"]
    assert both[0].source.endswith("; on the target it is in partition 7 at 10")
    assert match_moved([lost, replace(other, content=())]) == [lost, replace(other, content=())]
