"""The benchmark of growth does what it says, at a small size."""

from __future__ import annotations

import pytest

from bench import growth


@pytest.mark.parametrize("name", growth.STEPS)
def test_each_step_can_be_repeated(name: str) -> None:
    step = growth.STEPS[name](60)
    step()
    step()


def test_what_grows_faster_than_n_log_n() -> None:
    linear, square = {1000: 1.0, 2000: 2.0, 4000: 4.0}, {1000: 1.0, 2000: 4.0, 4000: 16.0}
    assert growth.growth(linear) < 1
    assert growth.growth(square) > 3
