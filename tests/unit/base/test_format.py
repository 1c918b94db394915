"""Numbers and lists as text."""

from __future__ import annotations

import pytest

from kproxy.base.format import abbreviate, format_count, format_duration, format_size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (88e6, "88 MB"),
        (123_456, "123 kB"),
        (2.5e12, "2.5 TB"),
        (1e15, "1000 TB"),
    ],
)
def test_sizes(count: float, text: str) -> None:
    assert format_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "?"), (0.00004, "0 ms"), (0.0123, "12.3 ms"), (0.123, "123 ms"), (0.9996, "1 s"), (12.34, "12.3 s"),
        (119, "119 s"), (600, "10 min"), (7199, "2 h"), (9000, "2.5 h"), (864_000, "10 days"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


def test_counts_and_lists() -> None:
    assert [format_count(count, "record") for count in (1, 1200)] == ["1 record", "1,200 records"]
    assert [abbreviate(range(count)) for count in (0, 3, 5)] == ["", "0, 1, 2", "0, 1, 2 and 2 more"]
