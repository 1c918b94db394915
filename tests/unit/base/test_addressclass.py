"""Which hosts are certainly this machine, and which look as if they were."""

from __future__ import annotations

import pytest

from kproxy.base.addressclass import is_loopback, is_private, is_this_machine


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


@pytest.mark.parametrize("host", ["desktop-1.localdomain", "localhost.example", "localdomain"])
def test_a_domain_alone_does_not_make_a_name_this_machine(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3",
        "172.31.0.1",
        "192.168.0.1",
        "169.254.1.1",
        "100.64.0.1",
        "fd00::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
    ],
)
def test_an_address_of_a_private_network(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize(
    "address", ["203.0.113.7", "192.0.2.1", "2001:db8::1", "127.0.0.1", "::1", "0.0.0.0", "8.8.8.8", "kafka"]
)
def test_an_address_of_no_private_network(address: str) -> None:
    assert not is_private(address)
