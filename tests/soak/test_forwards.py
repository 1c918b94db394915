"""Forwards change their target under load: no request reaches a wrong broker, and each record arrives once, in order.

FORWARDS_SEED=N is the same changes again, FORWARDS_SECONDS=N is the length of the long run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import SystemRandom

import pytest

from tests.soak.forwards import Settings, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the ports of a run are shared as on Linux")

_SECONDS = float(os.environ.get("FORWARDS_SECONDS", "900"))
_BESIDE = 600  # for the start, the recovery and the reckoning, in seconds: a bound


def seed() -> int:
    given = os.environ.get("FORWARDS_SEED")
    return int(given) if given else SystemRandom().getrandbits(32)


@pytest.mark.integration
@pytest.mark.timeout(_BESIDE)
def test_forwards_for_half_a_minute(tmp_path: Path, figures: list[str]) -> None:
    figures.append(run(Settings(30, brokers=[1, 2], twins=[1], java=False, seed=seed()), tmp_path))


@pytest.mark.soak
@pytest.mark.timeout(_SECONDS + _BESIDE)
def test_forwards(tmp_path: Path, figures: list[str]) -> None:
    figures.append(run(Settings(_SECONDS, brokers=[1, 2, 3], twins=[1, 2], java=True, seed=seed()), tmp_path))
