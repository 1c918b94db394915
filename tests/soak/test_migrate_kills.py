"""Thirty kills of whatever takes part in a copy, at random. `KILLS_SEED=N` repeats them; `KILLS_ROUNDS=N`: how many."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.harness.clients.spark import needs_spark
from tests.harness.migration.harm import harmed

pytestmark = [pytest.mark.soak, needs_spark, pytest.mark.timeout(7200)]

_ACTS = ("task", "executor", "driver", "zombie", "kproxy", "source broker", "target broker", "leaders")


def test_killed_thirty_times(tmp_path: Path, figures: list[str]) -> None:
    seed = int(os.environ.get("KILLS_SEED", random.randrange(1 << 32)))
    rounds = int(os.environ.get("KILLS_ROUNDS", "30"))
    figures.append(f"migration: KILLS_SEED={seed}")
    chance = random.Random(seed)
    acts = [_ACTS[number % len(_ACTS)] for number in range(rounds)]  # each of them, in an order of its own
    chance.shuffle(acts)
    problems, records = harmed(tmp_path, seed, acts, pause=0.2)
    figures.append(f"migration: {records:,} records copied once each, with {rounds} kills")
    assert problems == [], f"seed {seed}: {acts}"
