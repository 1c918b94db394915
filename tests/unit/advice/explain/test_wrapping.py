"""Lines that a window has broken within a message."""

from __future__ import annotations

import io

import pytest

from kproxy.advice.explain.explanation import explain
from kproxy.advice.explain.matches import spans_of
from kproxy.advice.explain.wrapping import rejoined

LINE = "%3|1|FAIL|rdkafka#producer-1| [thrd:b7.x.example:9092/7]: b7.x.example:9092/7: Failed to resolve 'b7.x.example:9092': Name or service not known"
BEGIN = LINE.index("Failed")


def lines(*texts: str) -> list[str]:
    blocks = rejoined([[text.encode() for text in texts]], spans_of)
    return [line.decode() for block in blocks for line in block]


@pytest.mark.parametrize("place", [place for place in range(BEGIN + 1, len(LINE), 5) if LINE[place] != " "])
def test_a_message_that_is_broken_anywhere_gives_the_same_cause(place: int) -> None:
    (cause,) = explain(io.BytesIO(f"{LINE[:place]}\n{LINE[place:]}\n".encode())).causes

    assert [fault.value for fault in cause.faults] == ["name-not-resolved"]
    assert cause.first == 1
    assert cause.addresses() == ["b7.x.example:9092"]


def test_a_message_may_be_broken_twice_and_numbers_of_lines_stay() -> None:
    first, second, third = LINE[: BEGIN + 4], LINE[BEGIN + 4 : BEGIN + 50], LINE[BEGIN + 50 :]

    assert lines("before", first, second, third, "after") == ["before", LINE, "", "", "after"]


@pytest.mark.parametrize(
    "second",
    [
        "2026-01-02 03:04:05 solve 'x:9092': Name or service not known",
        "[2026-01-02] ERROR resolve 'x:9092': Name or service not known",
        "    at resolve 'x:9092': Name or service not known",
        "Caused by: resolve 'x:9092': Name or service not known",
        "kafka-1  | resolve 'x:9092': Name or service not known",
        "",
    ],
)
def test_a_line_that_begins_a_record_is_not_joined(second: str) -> None:
    first = "x" * 60 + " Failed to re"

    assert lines(first, second) == [first, second]


def test_lines_without_a_message_across_the_break_stay() -> None:
    assert lines("a" * 70, "b" * 70, "c") == ["a" * 70, "b" * 70, "c"]
    assert lines("short: Failed to", "resolve 'x:9092': Name") == ["short: Failed to", "resolve 'x:9092': Name"]
    assert lines() == []


def test_a_long_text_passes_unchanged() -> None:
    block = [LINE[: BEGIN + 6].encode(), LINE[BEGIN + 6 :].encode()] * 500

    assert [line for part in rejoined([block], spans_of) for line in part] == block
