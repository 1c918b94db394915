"""A session over TLS that simply ends: nobody is blamed for it, whoever leaves first and however."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer, reset
from tests.harness.tls import Authority
from tests.unit.proxy.cluster.doorway import API_VERSIONS, Doorway, in_loop, until

End = Callable[[socket.socket], None]


def says_goodbye(sock: socket.socket) -> None:
    """A close_notify where there is TLS, and a FIN."""
    if isinstance(sock, ssl.SSLSocket):
        sock.settimeout(0.2)
        with contextlib.suppress(OSError):  # the other side need not answer it
            sock.unwrap()
    sock.close()


def hangs_up(sock: socket.socket) -> None:
    """A FIN, without a word."""
    sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def spoils(sock: socket.socket) -> None:
    """Send a record that no key of this connection decrypts."""
    with socket.socket(fileno=os.dup(sock.fileno())) as raw:
        raw.sendall(b"\x17\x03\x03\0\x20" + bytes(32))


class Broker(FakeBroker):
    """Over TLS if it has a context. With an `end` it leaves by it, once it has answered a client."""

    def __init__(self, context: ssl.SSLContext | None, end: End | None) -> None:
        super().__init__([(1, "127.0.0.1", 1)])
        self._context = context
        self._end = end

    def __call__(self, connection: socket.socket) -> None:
        sock = connection if self._context is None else self._context.wrap_socket(connection, server_side=True)
        with sock:
            while size := sock.recv(4):
                frame = sock.recv(struct.unpack(">i", size)[0])
                self.answer(sock, frame)
                if self._end is not None and b"raw" in frame:
                    self._end(sock)
                    return


def connect(door: Doorway, authority: Authority | None) -> socket.socket:
    client = door.connect()
    if authority is None:
        return client
    context = authority.client_context()
    return context.wrap_socket(client, server_hostname="localhost", do_handshake_on_connect=False)


def tried(step: Callable[[], object]) -> Callable[[], bool]:
    """Whether a step on a socket that does not block is done, or was in vain."""

    def done() -> bool:
        try:
            step()
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        except OSError:
            return True
        return True

    return done


async def asks(client: socket.socket) -> None:
    """A whole request and its answer, which a reset may swallow."""
    if isinstance(client, ssl.SSLSocket):
        await until(tried(client.do_handshake), "the handshake is done")
    client.send(API_VERSIONS)
    await until(tried(lambda: client.recv(65536)), "it is answered")


@pytest.mark.parametrize("end", [says_goodbye, hangs_up, reset])
@pytest.mark.parametrize("first", ["client", "broker"])
@pytest.mark.parametrize("where", ["to the broker", "to the client", "to both"])
def test_an_end_is_nobody_s_fault(
    where: str, first: str, end: End, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.files("localhost")
    options: dict[str, Any] = {}
    if where != "to the client":
        options |= {"tls": True, "tls_ca": authority.pem, "tls_server_name": "localhost"}
    if where != "to the broker":
        options |= {"client_tls_cert": cert, "client_tls_key": key}
    context = authority.server_context("localhost") if where != "to the client" else None

    async def scenario(selector: RelaySelector) -> None:
        with Peer(Broker(context, end if first == "broker" else None)) as peer:
            door = Doorway(selector, peer.address, **{**options, "connect_timeout": 10.0})
            client = connect(door, authority if where != "to the broker" else None)
            try:
                await asks(client)
                if first == "client":
                    await asyncio.to_thread(end, client)
                else:
                    await until(tried(lambda: client.recv(65536)), "the client hears of it")
                    client.close()
                await until(lambda: not door.connection_limit.in_use, "the session has ended")
                assert sum(door.metrics.refusals.values()) == 0, door.metrics.refusals
            finally:
                client.close()
                await door.close()

    in_loop(scenario)()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(("side", "reason"), [("client", "client-tls"), ("upstream", "tls")])
def test_a_record_that_cannot_be_decrypted_is_its_sender_s_fault(
    side: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.files("localhost")
    options: dict[str, Any] = {"client_tls_cert": cert, "client_tls_key": key}
    if side == "upstream":
        options = {"tls": True, "tls_ca": authority.pem, "tls_server_name": "localhost"}

    async def scenario(selector: RelaySelector) -> None:
        broker = Broker(authority.server_context("localhost"), spoils) if side == "upstream" else Broker(None, None)
        with Peer(broker) as peer:
            door = Doorway(selector, peer.address, **{**options, "connect_timeout": 10.0})
            client = connect(door, authority if side == "client" else None)
            try:
                await asks(client)
                if side == "client":
                    spoils(client)
                await until(lambda: not door.connection_limit.in_use, "the session has ended")
                assert door.metrics.refusals == {("default", side, reason): 1}
            finally:
                client.close()
                await door.close()

    in_loop(scenario)()
    (message,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert message.startswith("closed a connection to the bootstrap server: TLS: ")
