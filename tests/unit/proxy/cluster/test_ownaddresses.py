"""Which addresses lead to a listener of this process, in whichever way they are written."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from kproxy.base.address import Address
from kproxy.net.dial.resolver import Resolver
from kproxy.proxy.cluster.ownaddresses import OwnAddresses

LOOPBACK = ("127.0.0.1", "127.1", "0", "0.0.0.0", "2130706433", "0x7f.1", "0177.0.0.1", "::ffff:127.0.0.1")
OTHERS = ("127.0.0.9", "::1", "::", "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1")


def leads_here(own: OwnAddresses, host: str, port: int) -> bool:
    """As a dial asks: after resolution."""
    found = Resolver().parse_ip(Address(host, port))
    assert found
    return any(own.is_own(Address(str(info[4][0]), port)) for info in found)


@pytest.mark.parametrize(
    ("bound", "own_ones"),
    [
        ("127.0.0.1", LOOPBACK),
        ("::1", ("::1", "0:0:0:0:0:0:0:1", "::")),
        ("0.0.0.0", (*LOOPBACK, "127.0.0.9")),
        ("::", (*LOOPBACK, "127.0.0.9", "::1", "::")),
        ("::ffff:127.0.0.1", LOOPBACK),
    ],
)
def test_the_address_that_is_dialled_counts(bound: str, own_ones: tuple[str, ...]) -> None:
    with ExitStack() as held:
        sock = held.enter_context(socket.socket(socket.AF_INET6 if ":" in bound else socket.AF_INET))
        sock.bind((bound, 0))
        port, own = sock.getsockname()[1], OwnAddresses()
        own.add([sock])
        assert [host for host in own_ones if not leads_here(own, host, port)] == []
        assert [host for host in {*LOOPBACK, *OTHERS} - {*own_ones} if leads_here(own, host, port)] == []
        assert not leads_here(own, "127.0.0.1", port - 1)
        own.remove([sock])
        assert not any(leads_here(own, host, port) for host in own_ones)


def test_a_name_and_an_address_with_an_interface_are_harmless() -> None:
    with socket.create_server(("0.0.0.0", 0)) as sock:
        own = OwnAddresses()
        own.add([sock])
        for host in ("kafka", "", "fe80::1%1", "fe80::1%999999", "fe80::1%eth0"):
            assert not own.is_own(Address(host, sock.getsockname()[1]))
