"""Rates, percentiles and errors."""

from __future__ import annotations

import pytest

from kproxy.proxy.watch.rates import LastError, Rates


def test_per_second() -> None:
    rates = Rates()
    for _ in range(30):
        rates.add(100, 1000, 0.010)
    assert rates.tick(2.0, 100.0)
    shown = rates.as_json(str)
    assert (shown["requests"], shown["from_client"], shown["to_client"]) == (15.0, 1500, 15000)
    assert rates.tick(1.0, 101.0)  # what was answered lately is still shown
    assert rates.as_json(str)["requests"] == 0.0


@pytest.mark.parametrize("seconds", [0.0002, 0.0031, 0.05, 0.5, 31.0])
def test_percentiles_are_right_to_within_a_tenth(seconds: float) -> None:
    rates = Rates()
    for _ in range(99):
        rates.add(1, 1, seconds)
    rates.add(1, 1, seconds * 100)
    assert rates.percentile(0.5) == pytest.approx(seconds, rel=0.1)
    assert rates.percentile(0.99) == pytest.approx(seconds, rel=0.1)
    assert rates.percentile(1.0) == pytest.approx(min(seconds * 100, 200), rel=0.5)


def test_percentiles_forget_after_a_while() -> None:
    rates = Rates()
    rates.tick(1.0, 100.0)
    rates.add(1, 1, 5.0)
    for now in range(101, 131):
        rates.tick(1.0, float(now))
    assert rates.percentile(0.5) is None
    assert not rates.tick(1.0, 131.0)


def test_without_a_response_there_is_no_latency() -> None:
    rates = Rates()
    rates.add(10, 0, None)
    rates.tick(1.0, 1.0)
    shown = rates.as_json(str)
    assert (shown["requests"], shown["p50"], shown["p99"]) == (1.0, None, None)


def test_errors_of_the_last_minute_and_the_last_one() -> None:
    rates = Rates()
    for at in (100.0, 100.5, 130.0):
        rates.add_error(LastError("Produce", 6, at))
    rates.tick(1.0, 131.0)
    shown = rates.as_json(lambda code: f"name of {code}")
    assert shown["errors"] == 3
    assert shown["last_error"] == {"api": "Produce", "code": 6, "name": "name of 6", "time": 130.0}
    rates.tick(1.0, 170.0)
    assert rates.as_json(str)["errors"] == 1
    rates.tick(1.0, 200.0)
    assert rates.as_json(str)["errors"] == 0


def test_a_flood_of_errors_keeps_little() -> None:
    rates = Rates()
    for number in range(100_000):
        rates.add_error(LastError("Produce", 6, 100 + number / 1000))
    rates.tick(1.0, 199.0)
    assert len(rates._errors) <= 101
    assert 59_000 <= rates.as_json(str)["errors"] <= 61_000
