"""The pauses after failed logins, and the bounds of what is remembered."""

from __future__ import annotations

from kproxy.proxy.login.failures import MOST_WAITING, LoginFailures


def test_pauses_grow_up_to_a_limit_and_are_forgotten() -> None:
    failures = LoginFailures()
    pauses = []
    for second in range(20):
        pauses.append(failures.begin("10.0.0.1", float(second)))
        failures.end("10.0.0.1")
    assert pauses[:5] == [0.1] * 5
    assert pauses[-1] == 5.0
    assert pauses == sorted(pauses)
    assert failures.begin("10.0.0.2", 20.0) == 0.1
    assert failures.begin("10.0.0.1", 1000.0) == 0.1


def test_only_waiting_attempts_keep_others_out() -> None:
    failures = LoginFailures()
    for _ in range(MOST_WAITING):
        assert not failures.must_wait("10.0.0.1")
        failures.begin("10.0.0.1", 0.0)
    assert failures.must_wait("10.0.0.1")
    assert not failures.must_wait("10.0.0.2")
    failures.end("10.0.0.1")
    assert not failures.must_wait("10.0.0.1")


def test_a_host_has_one_ipv6_network() -> None:
    failures = LoginFailures()
    for number in range(MOST_WAITING):
        failures.begin(f"2001:db8:1:2::{number:x}", 0.0)
    assert failures.must_wait("2001:db8:1:2:ffff::1")
    assert not failures.must_wait("2001:db8:1:3::1")
    assert not failures.must_wait("::ffff:10.0.0.1")


def test_a_million_addresses_cost_bounded_memory() -> None:
    failures = LoginFailures()
    for number in range(1_000_000 // 20):
        host = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        failures.begin(host, float(number))
        failures.end(host)
    assert len(failures._failures) == 10_000
    failures.end("10.0.0.0")  # forgotten meanwhile
