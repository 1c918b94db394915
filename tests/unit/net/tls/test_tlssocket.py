"""A TLS socket as the pump uses it, against OpenSSL's own sockets at the other end."""

from __future__ import annotations

import contextlib
import random
import select
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.net.tls.tlssocket import TlsSocket
from tests.harness.tls import Authority, connected, in_thread

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
MB = 1 << 20
SMALLEST_BUFFER = 32 * 1024


@pytest.fixture(params=VERSIONS, ids=lambda version: version.name)
def ends(request: pytest.FixtureRequest, authority: Authority) -> Iterator[tuple[TlsSocket, ssl.SSLSocket]]:
    """A client of ours, and OpenSSL's own socket at the other end (blocking)."""
    ours, theirs = pair(authority, request.param)
    with ours, theirs:
        yield ours, theirs


def pair(authority: Authority, version: ssl.TLSVersion) -> tuple[TlsSocket, ssl.SSLSocket]:
    one, other = connected()
    client, server = authority.client_context(), authority.server_context("kafka-1.internal")
    client.maximum_version = version
    accepted: list[ssl.SSLSocket] = []
    thread = in_thread(lambda: accepted.append(server.wrap_socket(other, server_side=True)))
    ours = TlsSocket(one, client, host="kafka-1.internal")
    finish_handshake(ours)
    thread.join(30)
    return ours, accepted[0]


def wait(sock: socket.socket, events: int = select.POLLIN) -> None:
    """What the selector does; a socket that hides bytes from it hangs here."""
    poller = select.poll()
    poller.register(sock, events)
    assert poller.poll(30_000), "no event within 30 s"


def finish_handshake(sock: TlsSocket) -> None:
    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            wait(sock)
        except ssl.SSLWantWriteError:
            wait(sock, select.POLLOUT)


def receive(sock: TlsSocket, count: int, buffer_size: int = 256 * 1024) -> bytes:
    """Read as the pump does: only when the selector says so."""
    data, buffer = bytearray(), memoryview(bytearray(buffer_size))
    while len(data) < count:
        wait(sock)
        try:
            got = sock.recv_into(buffer)
        except BlockingIOError:
            continue
        assert got, f"ended after {len(data)} of {count} bytes"
        data += buffer[:got]
    return bytes(data)


def nothing(sock: TlsSocket) -> None:
    """Take in what is only for OpenSSL."""
    wait(sock)
    with pytest.raises(BlockingIOError):
        sock.recv_into(bytearray(SMALLEST_BUFFER))


def send(sock: TlsSocket, data: bytes) -> None:
    """Write as the pump does: what was not taken is offered again."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[sock.send(rest) :]
        except BlockingIOError:
            wait(sock, select.POLLOUT)


def test_no_byte_is_hidden_from_the_selector(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    ours, theirs = ends
    noise = random.Random(1)
    data = noise.randbytes(3 * MB)
    sizes = [noise.choice([1, 100, 5000, 16383, 16384, 16385, 70_000]) for _ in range(2000)]

    def write() -> None:
        rest = memoryview(data)
        for size in sizes:
            theirs.sendall(rest[:size])
            rest = rest[size:]
        theirs.sendall(rest)

    thread = in_thread(write)
    assert receive(ours, len(data)) == data
    thread.join(30)


@given(seed=st.integers(0, 2**32), size=st.integers(SMALLEST_BUFFER, 3 * SMALLEST_BUFFER))
def test_any_records_fit_any_buffer(authority: Authority, seed: int, size: int) -> None:
    ours, theirs = pair(authority, ssl.TLSVersion.TLSv1_3)
    noise = random.Random(seed)
    data = noise.randbytes(400_000)

    def write() -> None:
        at = 0
        while at < len(data):
            count = noise.choice([1, 13, 1000, 16384, 40_000])
            theirs.sendall(data[at : at + count])
            at += count

    with ours, theirs:
        thread = in_thread(write)
        assert receive(ours, len(data), size) == data
        thread.join(30)


def test_a_slow_reader_gets_every_byte(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    ours, theirs = ends
    data = random.Random(2).randbytes(24 * MB)
    offered = memoryview(data)
    blocked = False
    while not blocked:
        try:
            offered = offered[ours.send(offered) :]
        except BlockingIOError:
            blocked = True
    assert offered, "24 MB went to a reader that reads nothing"
    got = bytearray()

    def read() -> None:
        while len(got) < len(data):
            got.extend(theirs.recv(random.randrange(1, 100_000)))

    thread = in_thread(read)
    send(ours, bytes(offered))
    thread.join(60)
    assert got == data


def test_both_ways_at_once(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    """An echo whose sender does not read before it has sent all: 100 MB each way."""
    ours, theirs = ends
    data = random.Random(3).randbytes(MB)
    rounds = 100

    def echo() -> None:
        for _ in range(rounds):
            rest = len(data)
            while rest:
                more = theirs.recv(min(rest, 65536))
                theirs.sendall(more)
                rest -= len(more)

    thread = in_thread(echo)
    writing, reading, got = memoryview(data), rounds, bytearray()
    buffer, sent = memoryview(bytearray(256 * 1024)), 0
    poller = select.poll()
    poller.register(ours, select.POLLIN | select.POLLOUT)
    while reading:
        poller.poll(30_000)
        if sent < rounds:
            with contextlib.suppress(BlockingIOError):
                writing = writing[ours.send(writing) :]
            if not writing:
                writing, sent = memoryview(data), sent + 1
            if sent == rounds:
                poller.modify(ours, select.POLLIN)
        try:
            got += buffer[: ours.recv_into(buffer)]
        except BlockingIOError:
            continue
        while len(got) >= len(data):
            assert got[: len(data)] == data
            del got[: len(data)]
            reading -= 1
    thread.join(30)


def test_half_close_while_the_other_side_goes_on_sending(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    ours, theirs = ends
    data = random.Random(4).randbytes(MB)
    theirs.sendall(data[:1000])  # on its way while the close_notify is sent
    wait(ours)
    ours.shutdown(socket.SHUT_WR)
    assert theirs.recv(1) == b""
    thread = in_thread(lambda: theirs.sendall(data[1000:]))
    assert receive(ours, len(data)) == data
    thread.join(30)


def test_an_end_without_close_notify_is_an_end(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"last")
    socket.socket.shutdown(theirs, socket.SHUT_WR)
    assert receive(ours, 4) == b"last"
    wait(ours)
    assert ours.recv_into(bytearray(SMALLEST_BUFFER)) == 0
    send(ours, b"still here")
    assert theirs.recv(100) == b"still here"


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_close_notify_after_data_is_seen_on_an_open_connection(authority: Authority, version: ssl.TLSVersion) -> None:
    """Both ends are ours: OpenSSL's own socket does not send a close_notify without waiting for another."""
    one, other = connected()
    client = authority.client_context()
    client.maximum_version = version
    ours = TlsSocket(one, client, host="kafka-1.internal")
    theirs = TlsSocket(other, authority.server_context("kafka-1.internal"), server_side=True)
    with ours, theirs:
        thread = in_thread(lambda: finish_handshake(theirs))
        finish_handshake(ours)
        thread.join(30)
        send(theirs, b"last")
        theirs._send_close_notify()  # no FIN
        assert receive(ours, 4) == b"last"
        wait(ours)
        assert ours.recv_into(bytearray(SMALLEST_BUFFER)) == 0


def test_close_says_goodbye(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    ours, theirs = ends
    theirs.suppress_ragged_eofs = False  # an end without close_notify would be an error now
    ours.close()
    assert theirs.recv(1) == b""
    ours.close()


def test_a_reset_is_an_error(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    ours, theirs = ends
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    with pytest.raises(ConnectionResetError):
        receive(ours, 1)


def test_bytes_that_are_no_records_are_an_error(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    ours, theirs = ends
    socket.socket.send(theirs, b"\x17\x03\x03\x00\x20" + b"not encrypted".ljust(32))
    with pytest.raises(ssl.SSLError, match=r"(?i)mac|record layer"):  # OpenSSL 3.6 says the second
        receive(ours, 1)


def test_a_conversation_reads_no_bytes_that_follow_it(ends: tuple[TlsSocket, ssl.SSLSocket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"answer")
    theirs.sendall(b"for the pump")
    wait(ours)
    got = b""
    while len(got) < 6:
        try:
            got += ours.recv(6 - len(got))
        except ssl.SSLWantReadError:  # the session tickets of TLS 1.3
            wait(ours)
    assert got == b"answer"
    assert receive(ours, 12) == b"for the pump"


def test_a_server_leaves_bytes_after_the_handshake_unread(authority: Authority) -> None:
    one, other = connected()

    def client() -> None:
        with authority.client_context().wrap_socket(one, server_hostname="kproxy.internal") as sock:
            sock.sendall(b"first request")
            sock.recv(1)

    thread = in_thread(client)
    with TlsSocket(other, authority.server_context("kproxy.internal"), server_side=True) as ours:
        finish_handshake(ours)
        assert receive(ours, 13) == b"first request"
    thread.join(30)


def test_key_updates(authority: Authority, tmp_path: Path) -> None:
    """OpenSSL's own server asks for new keys in the midst of it (RFC 8446 §4.6.3)."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    cert, key = authority.files("kafka-1.internal")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [openssl, "s_server", "-accept", f"127.0.0.1:{port}", "-cert", cert, "-key", key, "-naccept", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        while b"ACCEPT" not in server.stdout.readline():
            pass
        ours = TlsSocket(
            socket.create_connection(("127.0.0.1", port)), authority.client_context(), host="kafka-1.internal"
        )
        with ours:
            finish_handshake(ours)
            send(ours, b"before\n")
            while b"before" not in server.stdout.readline():
                pass
            nothing(ours)  # the session tickets, which were sent before
            for _ in range(3):
                server.stdin.write(b"K\n")  # an update of its keys, and a request for one of ours
                server.stdin.flush()
                nothing(ours)
                server.stdin.write(b"after\n")
                server.stdin.flush()
                assert receive(ours, 6) == b"after\n"
                send(ours, b"answer\n")
                while b"answer" not in server.stdout.readline():
                    pass
        server.stdin.close()
