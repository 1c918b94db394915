from __future__ import annotations

import pytest

from kproxy.protocol.records.decoding import Record
from kproxy.protocol.records.header import filter_committed
from tests.unit.protocol.records.logs import NOW, marker, message, read, v2


def batch(offset: int, producer_id: int = -1, *, transactional: bool = True, count: int = 1) -> bytes:
    inside = [Record(offset + number, NOW, None, b"v", ()) for number in range(count)]
    flags = 0x10 if transactional and producer_id >= 0 else 0
    return v2(inside, flags=flags, producer=(producer_id, 0, 0))


A, C = 0, 1
# What the log has, the aborted transactions of the response (producer id, first offset), and which offsets count.
CASES = {
    "no transactions": ([batch(0), batch(1)], [], [0, 1]),
    "committed": ([batch(0, 7), marker(1, 7, C), batch(2)], [], [0, 2]),
    "aborted": ([batch(0, 7), batch(1, 7), marker(2, 7, A), batch(3)], [(7, 0)], [3]),
    "aborted, begun before what was fetched": ([batch(5, 7), marker(6, 7, A), batch(7, 7)], [(7, 2)], [7]),
    "aborted, then committed": (
        [batch(0, 7), marker(1, 7, A), batch(2, 7), marker(3, 7, C), batch(4, 7), marker(5, 7, A)],
        [(7, 0), (7, 4)],
        [2],
    ),
    "two producers at once": (
        [batch(0, 7), batch(1, 8), batch(2, 7), marker(3, 8, C), marker(4, 7, A)],
        [(7, 0)],
        [1],
    ),
    "in any order": ([batch(0, 7), marker(1, 7, A), batch(2, 8), marker(3, 8, A)], [(8, 2), (7, 0)], []),
    "the same producer without a transaction": ([batch(0, 7, transactional=False)], [(7, 0)], [0]),
    "an idempotent batch within an aborted transaction": (
        [batch(0, 7), batch(1, 9, transactional=False), marker(2, 7, A)],
        [(7, 0)],
        [1],
    ),
    "begins within a batch": ([batch(0, 7, count=5), marker(5, 7, A)], [(7, 3)], []),
    "magic 0 and 1": (
        [message(Record(0, -1, None, b"v", ()), 0), message(Record(1, NOW, None, b"v", ()), 1)],
        [(-1, 0)],
        [0, 1],
    ),
    "a marker that compaction emptied": (
        [batch(0, 7), v2([], base=1, flags=0x30, producer=(7, 0, -1)), batch(2, 7)],
        [(7, 0)],
        [],
    ),
    "another kind of control batch": ([batch(0), marker(1, 7, 2), batch(2)], [], [0, 2]),
}


@pytest.mark.parametrize(("log", "aborted", "offsets"), CASES.values(), ids=CASES)
def test_what_counts(log: list[bytes], aborted: list[tuple[int, int]], offsets: list[int]) -> None:
    assert [found.base_offset for found in filter_committed(read(b"".join(log)), aborted)] == offsets


def test_no_list_is_an_empty_one() -> None:
    assert len(list(filter_committed(read(batch(0, 7) + marker(1, 7, C)), None))) == 1
