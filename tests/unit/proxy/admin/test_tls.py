"""The admin endpoint with --admin-tls-cert: what it says over TLS, and what peers do to it that do not keep to TLS."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import ssl
import struct
import subprocess
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import pytest

from kproxy.base.repeats import RepeatFilter
from kproxy.config import ClusterConfig, Config
from kproxy.proxy.admin import connection, routes, server
from kproxy.proxy.admin.handlers import AdminSources
from kproxy.proxy.admin.requests import Reply, Request, text_reply
from kproxy.proxy.admin.routes import AdminRoute
from kproxy.proxy.admin.tlsstream import admin_tls
from tests.harness.tls import Authority
from tests.unit.proxy.admin import test_admin as plain
from tests.unit.proxy.admin.endpoint import Running, read_all

GET = b"GET /livez HTTP/1.1\r\nHost: a\r\n"
LAST = GET + b"Connection: close\r\n\r\n"
TOKEN = "a-token-of-these-tests"


@pytest.fixture
def running(encrypted: Running) -> Running:
    return encrypted


# What holds without TLS holds with it.
test_every_page = plain.test_every_page_answers_get_and_head_with_the_same_headers
test_metrics = plain.test_metrics_as_text_openmetrics_and_packed
test_many_requests = plain.test_one_connection_serves_many_requests
test_pipelined_requests = plain.test_pipelined_requests_are_answered_in_order
test_http_1_0 = plain.test_http_1_0_is_answered_and_closed
test_the_answer_reaches_a_peer = plain.test_the_answer_reaches_a_peer_that_goes_on_sending
test_a_head_that_never_ends = plain.test_a_head_that_never_ends_is_given_up
test_an_idle_connection = plain.test_an_idle_connection_is_closed
test_close_finishes_answers = plain.test_close_ends_idle_connections_and_finishes_answers


def hello(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """How a handshake begins."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


def works(running: Running) -> bool:
    response, body = running.ask("/livez")
    return (response.status, body) == (200, b"ok\n")


def warnings(running: Running, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Those of all connections, which have ended or are about to."""
    plain.wait_until_empty(running)
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3(running: Running, authority: Authority, version: ssl.TLSVersion) -> None:
    context = authority.client_context()
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    with running.secure(running.plain(), context) as peer:
        assert (peer.version(), peer.selected_alpn_protocol()) == (version.name.replace("_", ".", 1), "http/1.1")
        peer.sendall(LAST)
        assert read_all(peer).endswith(b"\r\n\r\nok\n")  # and a proper end, or it would raise


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_no_older_tls(running: Running, authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    context = authority.client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with running.plain() as peer, pytest.raises(ssl.SSLError, match=r"(?i)version"):
        running.secure(peer, context)
    assert warnings(running, caplog) == ["admin: 127.0.0.1 failed the TLS handshake: unsupported protocol"]
    assert works(running)


@pytest.mark.parametrize("data", [LAST, plain.KAFKA_API_VERSIONS, b"\x00", b"\x15\x03\x01\x00\x02\x02\x28"])
def test_without_tls_one_line_says_what_to_do(running: Running, caplog: pytest.LogCaptureFixture, data: bytes) -> None:
    with running.plain() as peer:
        peer.sendall(data)
        head, _, body = read_all(peer).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert body == b"this is kproxy's admin endpoint and speaks HTTPS only (--admin-tls-cert): ask https://\n"
    assert warnings(running, caplog) == ["admin: 127.0.0.1 does not speak TLS, which --admin-tls-cert demands"]
    assert works(running)


def test_the_log_is_not_filled(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(once := RepeatFilter())
    try:
        for _ in range(5):
            with running.plain() as peer:
                peer.sendall(LAST)
                read_all(peer)
        text = "admin: 127.0.0.1 does not speak TLS, which --admin-tls-cert demands"
        assert warnings(running, caplog) == [text]
        once.write_suppressed(at_the_end=True)
        assert warnings(running, caplog) == [text, f"{text} (3 times more since)"]
    finally:
        caplog.handler.removeFilter(once)


def test_who_only_connects_is_no_matter_for_the_log(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """As load balancers do, every few seconds."""
    for _ in range(3):
        with running.plain() as peer:
            peer.shutdown(socket.SHUT_WR)
            assert read_all(peer) == b""
    assert warnings(running, caplog) == []


RECORD = b"\x16\x03\x01\x40\x00" + bytes(16384)
BROKEN = {
    "noise": b"\x16" + bytes(range(256)) * 8,
    "a large record": b"\x16\x03\x01\xff\xff" + bytes(70_000),
    "a large message": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16380) + RECORD * 60,
    "half a hello, and the end": hello()[:100],
    "empty records": b"\x16\x03\x01\x00\x00" * 5000,
    "another message": b"\x16\x03\x03\x00\x04\x14\x00\x00\x00",
    "a hello, then noise": hello() + b"x" * 5000,
    "a hello, then plain HTTP": hello() + LAST,
    "alerts": hello() + b"\x15\x03\x03\x00\x02\x01\x5a" * 3000,
}  # fmt: skip


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_broken_handshakes_end(running: Running, caplog: pytest.LogCaptureFixture, data: bytes) -> None:
    with running.plain() as peer:
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            answer = read_all(peer)
        except (ConnectionResetError, BrokenPipeError):
            answer = b""
    assert b"HTTP" not in answer
    assert [text.partition(": ")[2][:9] for text in warnings(running, caplog)] == ["127.0.0.1"]
    assert "Traceback" not in caplog.text
    assert works(running)


def test_a_client_that_does_not_trust_the_certificate(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    with running.plain() as peer, pytest.raises(ssl.SSLCertVerificationError):
        running.secure(peer, ssl.create_default_context())
    assert works(running)
    assert all("failed the TLS handshake" in text for text in warnings(running, caplog))


@pytest.mark.parametrize("part", [1, 5, 100], ids=str)
def test_a_handshake_that_stops_is_given_up(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: int
) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.2)
    with running.plain() as peer:
        peer.sendall(hello()[:part])
        assert ends(peer)
    assert warnings(running, caplog) == ["admin: 127.0.0.1 did not finish the TLS handshake within 0.2 s"]


def test_who_says_nothing_after_the_hello_is_given_up(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.2)
    with running.plain() as peer:
        peer.sendall(hello())
        assert ends(peer)


def test_a_handshake_byte_by_byte_has_no_more_time(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends something all the time has the same limit."""
    monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.2)
    with running.plain() as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.settimeout(0.01)
        peer.sendall(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xf0")
        while not has_ended(peer):
            with suppress(ConnectionResetError, BrokenPipeError):
                peer.sendall(b"\x03")


def has_ended(peer: socket.socket) -> bool:
    """Whether there is nothing to come, as far as its time limit tells."""
    try:
        return peer.recv(100) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def ends(peer: socket.socket) -> bool:
    """Whether the other side ends it, in whatever way."""
    with suppress(ConnectionResetError, ssl.SSLError):
        read_all(peer)
    return True


def test_handshakes_give_way_to_a_probe(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 4)
    halves = [running.plain() for _ in range(4)]
    for peer in halves:
        peer.sendall(hello()[:50])
    for number in range(4):
        assert works(running), number
    more = [running.plain() for _ in range(20)]
    assert works(running)
    assert all(ends(peer) for peer in (*halves, *more[:16]))
    for peer in (*halves, *more):
        peer.close()


def test_a_slow_head_and_a_slow_body(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def echo(sources: AdminSources, request: Request) -> Reply:
        return text_reply(HTTPStatus.OK, json.dumps(request.body))

    monkeypatch.setattr(routes, "TABLE", (*routes.TABLE, AdminRoute("/echo", echo, method="POST", most_body=100)))
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.2)
    assert running.send_raw(GET).startswith(b"HTTP/1.1 408 ")
    body = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n[1"
    assert running.send_raw(body).startswith(b"HTTP/1.1 408 ")
    assert works(running)


def test_a_huge_head(running: Running) -> None:
    assert running.send_raw(GET + b"A: " + b"b" * 20_000).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("politely", [True, False], ids=["with TLS's own end", "without"])
def test_a_peer_that_has_only_this_to_say_gets_its_answer(running: Running, politely: bool) -> None:
    assert running.trust is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = running.trust.wrap_bio(incoming, outgoing, server_hostname=running.admin.address.host)
    with running.plain() as peer:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                peer.sendall(outgoing.read())
                incoming.write(peer.recv(65536))
        tls.write(GET + b"\r\n")
        if politely:
            with pytest.raises(ssl.SSLError):  # it waits for the end of the other side
                tls.unwrap()
        peer.sendall(outgoing.read())
        peer.shutdown(socket.SHUT_WR)
        records = read_all(peer)
    if not politely:
        incoming.write(records)
        assert tls.read(65536).endswith(b"\r\n\r\nok\n")
    assert len(records) > 200  # OpenSSL reads nothing more after its own end
    assert works(running)


def test_noise_within_a_connection_ends_it(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    with running.plain() as below:
        peer = running.secure(below.dup())
        below.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        assert ends(peer)
        peer.close()
    assert works(running)
    assert "Traceback" not in caplog.text


def test_resets_at_any_moment(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    now = struct.pack("ii", 1, 0)
    for part in (0, 1, 100, len(hello())):
        with running.plain() as peer:
            peer.sendall(hello()[:part])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
    for data in (b"", GET, LAST, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50):
        with running.connect() as peer:
            peer.sendall(data)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
    assert works(running)
    assert "Traceback" not in caplog.text


def test_who_takes_nothing_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WRITE_SECONDS", 0.2)
    running.status["much"] = "x" * 30_000_000
    with running.connect() as peer:
        peer.sendall(b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n")
        assert peer.recv(1) == b"H"
        plain.wait_until_empty(running)
    assert works(running)


def test_a_large_answer_arrives(running: Running) -> None:
    running.status["much"] = "x" * 5_000_000
    assert json.loads(running.ask("/status")[1]) == running.status


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_renegotiation_is_refused(running: Running, authority: Authority) -> None:
    words = ["openssl", "s_client", "-tls1_2", "-CAfile", authority.pem, "-connect", str(running.admin.address)]
    done = subprocess.run([*map(str, words)], input=b"R\n", capture_output=True, timeout=60, check=False)
    assert b"RENEGOTIATING" in done.stdout + done.stderr
    assert b"no renegotiation" in done.stderr
    assert works(running)


def test_certificates_are_followed(running: Running, authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    def serial() -> str:
        with running.connect() as peer:
            assert isinstance(peer, ssl.SSLSocket)
            return str((peer.getpeercert() or {})["serialNumber"])

    first = serial()
    assert serial() == first
    cert, _ = authority.files("127.0.0.1")
    second = serial()
    assert second != first
    assert "admin: certificate files have changed; new connections use them" in caplog.text
    cert.write_text("broken")
    assert serial() == second
    (error,) = warnings(running, caplog)
    assert error.startswith(f"admin: --admin-tls-cert {cert}: ")
    assert error.endswith("; new connections use the previous files")


def test_the_rules_of_the_table_hold(running: Running) -> None:
    running.enable_quit()
    running.set(token=TOKEN, require_token_for_reads=True)
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert running.ask("/status")[0].status == 401
    assert running.ask("/status", **right)[0].status == 200
    assert running.ask("/quit", "POST")[0].status == 401
    assert running.ask("/quit", "POST", Origin="https://127.0.0.1", **right)[0].status == 403
    assert running.ask("/quit", "POST", Host="evil.example", **right)[0].status == 421
    assert running.quits == []
    running.set(token=None, require_token_for_reads=False)
    assert running.ask("/quit", "POST")[0].status == 202  # it knows that this is its own machine


def test_as_configured(authority: Authority) -> None:
    cluster = ClusterConfig(bootstrap_servers=("kafka:9092",))
    assert admin_tls(Config(clusters=(cluster,))) is None
    cert, key = authority.files("127.0.0.1")
    assert admin_tls(Config(clusters=(cluster,), admin_tls_cert=cert, admin_tls_key=key)) is not None
    assert admin_tls(Config(clusters=(cluster,), admin=None, admin_tls_cert=Path("gone"))) is None
