"""A copy under way, by real Spark between two real clusters, while parts of it are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.clients.spark import needs_spark
from tests.harness.migration.harm import harmed

pytestmark = [pytest.mark.integration, pytest.mark.matrix, needs_spark, pytest.mark.timeout(900)]


def test_killed(tmp_path: Path, figures: list[str]) -> None:
    kills = ["executor", "zombie", "target broker"]
    problems, records = harmed(tmp_path, 20261122, kills, pause=0.2)
    figures.append(f"migration: {records:,} records copied once each; killed: {', '.join(kills)}")
    assert problems == []
