"""A copy under way, by real Spark between two real clusters, while parts of it are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.harm import harmed
from tests.harness.spark import needs_spark

pytestmark = [pytest.mark.integration, needs_spark, pytest.mark.timeout(900)]


def test_killed_three_times(tmp_path: Path, figures: list[str]) -> None:
    problems, records = harmed(tmp_path, 20261122, ["executor", "zombie", "target broker"])
    figures.append(f"migration: {records:,} records copied once each, with three kills")
    assert problems == []
