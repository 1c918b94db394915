"""A copy under way, by real Spark between two real clusters, while parts of it are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.harm import harmed
from tests.harness.spark import needs_spark

pytestmark = [pytest.mark.integration, needs_spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "kills", [["zombie"], pytest.param(["executor", "zombie", "target broker"], marks=pytest.mark.matrix)], ids=len
)
def test_killed(kills: list[str], tmp_path: Path, figures: list[str]) -> None:
    problems, records = harmed(tmp_path, 20261122, kills, pause=0.2)
    figures.append(f"migration: {records:,} records copied once each; killed: {', '.join(kills)}")
    assert problems == []
