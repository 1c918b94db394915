"""Records of all kinds, copied between two clusters by Spark, and counted by other clients; then spoiled in every way.
tests/soak has the same with two million records and three brokers on each side."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.clients.spark import needs_spark
from tests.harness.migration.mixed import mixed
from tests.harness.migration.mixedload import SMALL

pytestmark = [pytest.mark.integration, needs_spark, pytest.mark.timeout(600)]


@pytest.mark.matrix
def test_all_kinds(tmp_path: Path, figures: list[str]) -> None:
    with mixed(tmp_path, SMALL, 20261123, figures) as move:
        move.copy()
        move.compare()
        assert move.records > 20_000
        move.spoil()
        move.named(move.verify(code=1))
