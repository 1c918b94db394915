"""Tables that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.listing.columns import cut, table

CELL = st.text("abc-.", max_size=40)


def test_a_table_as_wide_as_its_cells() -> None:
    rows = [["1", "kafka-1:9092", "x"], ["10", "k:1", ""]]
    assert list(table(["ID", "ADVERTISED", ""], rows, 80, frozenset({0}))) == [
        "ID  ADVERTISED",
        " 1  kafka-1:9092  x",
        "10  k:1",
    ]


def test_the_widest_columns_give_way() -> None:
    rows = [["a" * 50, "b" * 40, "short"]]
    (_, row) = table(["A", "B", "C"], rows, 30)
    assert row.endswith("short")
    assert len(row) in (29, 30)  # two columns share what is left
    assert row.count("…") == 2


@given(rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=5), width=st.integers(10, 100))
def test_every_line_fits(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = list(table(["A", "B", "C"], rows, width))
    assert len(lines) == len(rows) + 1
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("text", "shown"), [("abc", "abc"), ("abcd", "ab…"), ("", "")])
def test_what_is_cut_says_so(text: str, shown: str) -> None:
    assert cut(text, 3) == shown
