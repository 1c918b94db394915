"""Two million records of all kinds, copied between two clusters of three brokers by Spark, counted by other clients,
verified; then spoiled in every way. `MIXED_SEED=N` writes the same load again."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.harness.clients.spark import needs_spark
from tests.harness.migration.mixed import mixed
from tests.harness.migration.mixedload import FULL

pytestmark = [pytest.mark.soak, needs_spark, pytest.mark.timeout(7200)]


def test_all_kinds_at_full_size(tmp_path: Path, figures: list[str]) -> None:
    seed = int(os.environ.get("MIXED_SEED", random.randrange(1 << 32)))
    figures.append(f"mixed: MIXED_SEED={seed}")
    with mixed(tmp_path, FULL, seed, figures) as move:
        move.copy()
        move.compare()
        assert move.records >= 2_000_000
        assert move.bytes >= 1_000_000_000
        said = move.verify()
        assert said["differences"] == []
        assert sum(one["records"] for one in said["partitions"]) == move.records
        move.spoil()
        move.named(move.verify("--full", code=1))
        move.memory()
