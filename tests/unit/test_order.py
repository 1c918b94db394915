"""The files that are said to take longest are there: the order of the tests would change in silence."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import LONG


def test_they_are_there() -> None:
    root = Path(__file__).parents[2]
    assert [path for path in LONG if not (root / path).exists()] == []
