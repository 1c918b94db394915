"""The options of connections, whoever opened them."""

from __future__ import annotations

import socket

import pytest

from kproxy.net.dial import sockets
from kproxy.net.dial.sockets import ListeningSocket, non_blocking_socket, tune, tune_accepted, tune_listening

KEEPALIVE = (socket.SOL_SOCKET, socket.SO_KEEPALIVE)
NO_DELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY)


def congestion(sock: socket.socket) -> bytes:
    if not hasattr(socket, "TCP_CONGESTION"):
        pytest.skip("this system has no TCP_CONGESTION")
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_a_peer_elsewhere_is_noticed_when_it_vanishes() -> None:
    with socket.socket() as sock:
        tune(sock, "192.0.2.1")
        assert sock.getsockopt(*KEEPALIVE)
        assert sock.getsockopt(*NO_DELAY)
        for name, value in sockets._KEEPALIVE:
            if hasattr(socket, name):
                assert sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value


@pytest.mark.parametrize("peer", ["127.0.0.1", "::ffff:127.0.0.1", "::1"])
def test_nothing_paces_loopback(peer: str) -> None:
    with socket.socket() as sock:
        tune(sock, peer)
        assert sock.getsockopt(*NO_DELAY)
        assert congestion(sock) == b"reno"


@pytest.mark.parametrize("inherited", [True, False])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_who_comes_has_what_who_is_gone_to_has(host: str, inherited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_INHERITED", inherited and sockets._INHERITED)
    with socket.socket() as listening:
        tune_listening(listening, host)
        listening.bind((host, 0))
        listening.listen()
        with socket.create_connection(("127.0.0.1", listening.getsockname()[1])):
            came, peer = listening.accept()
            with came:
                tune_accepted(came, peer[0], host)
                assert not came.getblocking()
                assert came.getsockopt(*NO_DELAY)
                assert congestion(came) == b"reno"
                if host == "0.0.0.0" and sockets._INHERITED:
                    assert came.getsockopt(*KEEPALIVE)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_listening_socket_accepts_usual_sockets(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ListeningSocket(family) as listening:
        assert not listening.getblocking()
        try:
            listening.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        listening.listen()
        with pytest.raises(BlockingIOError):
            listening.accept()
        with non_blocking_socket(family) as client:
            assert not client.getblocking()
            client.connect_ex((host, listening.getsockname()[1]))
            accepted, peer = listening.accept()
            with accepted:
                assert (accepted.family, accepted.type) == (family, socket.SOCK_STREAM)
                assert type(accepted) is socket.socket
                assert peer[:2] == client.getsockname()[:2]
