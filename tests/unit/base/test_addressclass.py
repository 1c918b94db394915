"""Which hosts are certainly this machine, and which look as if they were."""

from __future__ import annotations

import pytest

from kproxy.base.addressclass import is_loopback, is_this_machine


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine(host: str) -> None:
    assert is_this_machine(host)


@pytest.mark.parametrize(
    "host", ["", "a.localhost", "localhost.localdomain", "127.0.0.1.example", "127.1", "10.0.0.1", "0.0.0.0", "::", "b"]
)
def test_a_host_that_may_be_elsewhere(host: str) -> None:
    assert not is_this_machine(host)


def test_a_name_that_looks_like_this_machine_is_only_advice() -> None:
    assert is_loopback("localhost.localdomain")
    assert not is_this_machine("localhost.localdomain")
