"""The limit of open files, also where the system refuses more than a little."""

from __future__ import annotations

import resource

import pytest

from kproxy.proxy.cluster.connectionslots import raise_file_limit


@pytest.mark.parametrize(("most", "reached"), [(1 << 30, 1_048_576), (122_880, 10_240), (100, 256)])
def test_a_system_without_a_hard_limit(most: int, reached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS: no hard limit, a soft one of 256, and an error above what the kernel has."""
    soft = 256

    def setrlimit(_: int, limits: tuple[int, int]) -> None:
        nonlocal soft
        if limits[0] > most:
            raise ValueError("current limit exceeds maximum limit")
        soft = limits[0]

    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    assert raise_file_limit() == reached
