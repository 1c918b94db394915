"""Whatever happens to brokers, kproxy and clients: every record arrives once, nothing leaks, all is well afterwards.

CHAOS_SEED=N is the same faults again, CHAOS_WITHOUT=swap,hold leaves out these and nothing else, CHAOS_SECONDS=N is the
length of the long run. (Not KPROXY_…: kproxy refuses to start with a variable of that kind that it does not know.)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.soak.chaos import Settings, from_environment, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="--reuse-port needs Linux")

_SECONDS = float(os.environ.get("CHAOS_SECONDS", "1800"))
_BESIDE = 600  # for the start, the recovery and the reckoning, in seconds: a bound


@pytest.mark.matrix
@pytest.mark.timeout(_BESIDE)
def test_chaos_for_half_a_minute(tmp_path: Path, figures: list[str]) -> None:
    seed, without = from_environment()
    settings = Settings(30, 2, brokers=[1, 2], twins=[2], partitions=2, java=False, seed=seed, without=without)
    figures.append(run(settings, tmp_path))


@pytest.mark.soak
@pytest.mark.timeout(_SECONDS + _BESIDE)
def test_chaos(tmp_path: Path, figures: list[str]) -> None:
    seed, without = from_environment()
    settings = Settings(
        _SECONDS, 10, brokers=[1, 2, 3], twins=[1, 2, 3], partitions=3, java=True, seed=seed, without=without
    )
    figures.append(run(settings, tmp_path))
