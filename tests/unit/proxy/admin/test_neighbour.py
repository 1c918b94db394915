"""Whose port an address is, as another kproxy says, which may say anything."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from kproxy.base.address import Address
from kproxy.proxy.admin import neighbour
from kproxy.proxy.admin.client import AdminClient
from tests.harness.servers.peers import Peer
from tests.unit.proxy.status.clusters import cluster


@pytest.mark.parametrize(
    ("address", "is_its"),
    [
        ("localhost:19092", True),
        ("LOCALHOST:19093", True),
        ("127.0.0.1:19093", True),
        ("[::1]:19092", True),
        ("localhost:19095", False),
        ("kafka.example:19092", False),
        ("10.0.0.1:19092", False),
    ],
)
def test_the_ports_of_a_kproxy(address: str, is_its: bool) -> None:
    served = cluster("good", "lost")
    assert (neighbour.cluster_at(Address.parse(address), [served]) == served) is is_its


@pytest.mark.parametrize(
    "said", ["", "127.0.0.1", ":", "127.0.0.1:99999999", "\0:19092", "elsewhere:19092", "x" * 9999]
)
def test_addresses_of_nonsense_are_nobodys(said: str) -> None:
    served = cluster("good")
    odd = replace(served, bootstrap=said, nodes=tuple(replace(node, local=said) for node in served.nodes))
    assert neighbour.cluster_at(Address.parse("localhost:19092"), [odd]) is None
    assert neighbour.cluster_at(Address.parse("localhost:19092"), [replace(odd, bootstrap=None)]) is None


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nKproxy-Admin: 1\r\nContent-Length: 2\r\n\r\n{}", b"\0" * 9000],
)
def test_what_is_no_kproxy_serves_nothing(answer: bytes) -> None:
    def reply(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(answer)

    with Peer(reply) as peer:
        assert neighbour.served_clusters_if_running(AdminClient(Address.parse(peer.address), seconds=2)) == []
    assert neighbour.served_clusters_if_running(AdminClient(Address("127.0.0.1", 1), seconds=2)) == []
    assert neighbour.served_clusters_if_running(None) == []
