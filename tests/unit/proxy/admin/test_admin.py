"""The admin endpoint over real sockets, asked by the standard library's HTTP client."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import logging
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.proxy.admin import connection, handlers, routes, server
from kproxy.proxy.admin.handlers import AdminSources
from kproxy.proxy.admin.requests import Reply, Request, is_accepted, text_reply
from kproxy.proxy.admin.routes import AdminRoute
from kproxy.proxy.admin.server import start_admin
from kproxy.proxy.metrics import Metrics
from tests.unit.proxy.admin.endpoint import PATHS, Running, no_body, read_all

TLS_HELLO = bytes.fromhex("16030100a5010000a10303") + bytes(160)
KAFKA_API_VERSIONS = bytes.fromhex("0000001a00120003000000010006636c69656e74000763 6c69656e740231 00")


def test_every_page_answers_get_and_head_with_the_same_headers(running: Running) -> None:
    running.status["version"] = "1"
    running.enable_tap()
    for path in PATHS:
        if path in ("/metrics", "/tap", "/live", "/tap/frames", "/observation"):
            continue  # the length of one changes from one scrape to the next, the others have none
        got, body = running.ask(path)
        head, nothing = running.ask(path, "HEAD")
        assert (got.status, head.status) == (200, 200)
        assert int(got.headers["Content-Length"]) == len(body) > 0
        assert nothing == b""
        for name in ("Content-Type", "Content-Length", "Cache-Control"):
            assert got.headers[name] == head.headers[name] is not None
    assert running.ask("/metrics", "HEAD")[0].status == 200


def test_the_page_links_to_others(running: Running) -> None:
    response, body = running.ask("/")
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    for path in ("metrics", "readyz", "status"):  # relative: the page may stand behind a prefix
        assert f'href="{path}"'.encode() in body


def test_whoever_asks_says_what_ready_requires(running: Running) -> None:
    response, body = running.ask("/readyz?requires=all")
    assert (response.status, body) == (503, b"node 2 is missing\n")
    for query in ("requires=two", "requires=%00", "requires=one&requires=x", "requires=" + "x" * 1000):
        response, body = running.ask(f"/readyz?{query}")
        assert (response.status, body) == (400, b"requires: allowed: all\n")
    response, body = running.ask("/readyz?" + "a=b&" * 1000)
    assert (response.status, body) == (400, b"the query of the request has too many fields\n")
    assert running.ask("/readyz?other=1")[0].status == 200


def test_ready_or_the_reasons_a_line_each(running: Running) -> None:
    assert running.ask("/readyz")[1] == b"ok\nnode 2 is missing\n"
    running.not_ready[:] = ["no bootstrap server has answered", "default: 1 listener is not bound"]
    response, body = running.ask("/readyz")
    assert response.status == 503
    assert body.decode().splitlines() == running.not_ready
    assert running.ask("/livez")[0].status == 200


def test_status_is_json(running: Running) -> None:
    running.status.update(clusters=[{"name": "größe", "listen": "[::1]:19092"}], n=3)
    response, body = running.ask("/status")
    assert response.headers["Content-Type"] == "application/json"
    assert json.loads(body) == {"clusters": [{"name": "größe", "listen": "[::1]:19092"}], "n": 3}


def test_metrics_as_text_openmetrics_and_packed(running: Running) -> None:
    running.metrics.node("default", "1").sessions_open = 5

    def sessions(families: Any) -> list[float]:
        return [s.value for f in families for s in f.samples if s.name == "kproxy_sessions_open"]

    response, body = running.ask("/metrics?x=y")
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert sessions(parse_text(body.decode())) == [5]

    response, body = running.ask("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert sessions(parse_openmetrics(body.decode())) == [5]

    response, body = running.ask("/metrics", Accept_Encoding="deflate, gzip;q=0.5")
    assert response.headers["Content-Encoding"] == "gzip"
    assert sessions(parse_text(gzip.decompress(body).decode())) == [5]


def large() -> Metrics:
    metrics = Metrics()
    for node in range(50):
        for api in range(30):
            metrics.node("default", str(node)).call(api << 16, f"Api{api}", 0).add(0.01)
    return metrics


async def test_a_large_scrape_lets_others_run_in_between() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    sources = AdminSources(large(), dict, tuple)
    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count_turns())
        reply = await routes.handle(sources, Request("GET", "/metrics"), no_body)
        counting.cancel()
    assert reply.status == 200
    assert turns >= 50 * 30 // handlers.PIECES_AT_A_TIME


@pytest.mark.parametrize("path", ["/nothing", "/metrics/", "//", "/metrics%00", "*", "/..%2f"])
def test_no_such_page(running: Running, path: str) -> None:
    response, body = running.ask(path)
    assert response.status == 404
    assert body.count(b"\n") == 1


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "PATCH", "FOO"])
def test_a_method_that_the_page_does_not_have(running: Running, method: str) -> None:
    response, body = running.ask("/metrics", method)
    assert response.status == 405
    assert response.headers["Allow"] == "GET, HEAD"
    assert body.count(b"\n") == 1


def test_quit_is_no_page_unless_enabled(running: Running) -> None:
    response, body = running.ask("/quit", "POST")

    assert response.status == 404
    assert (response.status, body) == (running.ask("/nothing")[0].status, running.ask("/nothing")[1])


def test_quit_is_asked_for_by_post_alone(running: Running) -> None:
    running.enable_quit()

    for method in ("GET", "HEAD", "PUT", "OPTIONS"):
        response, _ = running.ask("/quit", method)
        assert (response.status, response.headers["Allow"]) == (405, "POST")
    assert running.ask("/quit", "POST", b"now")[0].status == 413
    assert running.quits == []
    response, body = running.ask("/quit", "POST")
    assert (response.status, body) == (202, b"stopping\n")
    assert running.quits == ["asked"]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://hostile.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "none"}]
)
def test_quit_is_not_for_browsers(running: Running, headers: dict[str, str]) -> None:
    running.enable_quit()

    response, _ = running.ask("/quit", "POST", **headers)

    assert response.status == 403
    assert "Access-Control-Allow-Origin" not in response.headers
    assert running.quits == []


@pytest.mark.parametrize(
    ("host", "known"),
    [
        *((host, True) for host in ("", "localhost", "LOCALHOST:19091", "127.0.0.1", "127.0.0.1:19091", "10.1.2.3")),
        *((host, True) for host in ("[::1]", "[::1]:19091", "::1", "[fe80::1%eth0]:1", "kproxy", "kproxy:19091", "a:")),
        *((host, True) for host in ("admin.example", "Admin.Example:80", "more.example", "[2001:db8::1]")),
        *((host, False) for host in ("evil.example", "evil.example:19091", "127.0.0.1.evil.example", "evil.", "a.b:")),
        *((host, False) for host in ("localhost.evil.example", "127.1", "0x7f.1", "x.admin.example", "1.2.3.4.5")),
        *((host, False) for host in ("127.0.0.1, evil.example", "evil.example#localhost", "a.b:c", "[evil.example]")),
        *((host, False) for host in ("user@evil.example", "127.0.0.1@evil.example:80", "[::1].evil.example", "a:b:c")),
    ],
)
def test_by_which_names_it_may_be_asked(host: str, known: bool) -> None:
    assert is_accepted(host, ("admin.example", "more.example")) == known
    assert is_accepted(host, ("*",))


def test_a_page_that_rebinds_its_name_reads_nothing(running: Running) -> None:
    running.status["secret"] = "kafka-1.prod.internal"
    running.not_ready[:] = ["kafka-1.prod.internal cannot be reached"]
    running.enable_quit()
    for path, method in (*((path, "GET") for path in PATHS), ("/quit", "POST"), ("/nothing", "GET")):
        response, body = running.ask(path, method, Host="evil.example:19091")
        assert response.status == {"/livez": 200, "/readyz": 503}.get(path, 421)
        assert b"kafka-1" not in body
        assert body.count(b"\n") == 1
    assert running.quits == []
    assert b"--admin-host" in running.ask("/status", Host="evil.example")[1]
    assert b"kafka-1" in running.ask("/status", Host="127.0.0.1:1")[1]
    running.set(hosts=("evil.example",))
    assert b"kafka-1" in running.ask("/readyz", Host="evil.example")[1]
    assert b"kafka-1" in running.ask("/status", Host="evil.example")[1]


def test_without_a_host_it_may_be_asked(running: Running) -> None:
    for request in (b"GET /status HTTP/1.0\r\n\r\n", b"GET /status HTTP/1.0\r\nHost:\r\n\r\n"):
        assert running.send_raw(request).startswith(b"HTTP/1.1 200 ")
    assert running.send_raw(b"GET /status HTTP/1.0\r\nHost: evil.example\r\n\r\n").startswith(b"HTTP/1.1 421 ")
    two = b"GET /status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert running.send_raw(two).startswith(b"HTTP/1.1 4")


def test_one_connection_serves_many_requests(running: Running) -> None:
    client = running.client()
    client.request("GET", "/livez")
    assert client.getresponse().read() == b"ok\n"
    used = client.sock
    for path in ("/nothing", "/readyz", "/"):
        client.request("GET", path)
        client.getresponse().read()
        assert client.sock is used
    client.close()


def test_pipelined_requests_are_answered_in_order(running: Running) -> None:
    one = b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n"
    last = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    received = running.send_raw((one % b"/livez" + one % b"/nothing") * 300 + last)
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404"] * 300 + [b"200"]


def test_http_1_0_is_answered_and_closed(running: Running) -> None:
    received = running.send_raw(b"GET /livez HTTP/1.0\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.endswith(b"\r\n\r\nok\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(TLS_HELLO, 400, id="tls"),
        pytest.param(KAFKA_API_VERSIONS + b"\r\n\r\n", 400, id="kafka"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, id="http2"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", 400, id="ssh"),
        pytest.param(b"GET /livez HTTP/1.1\r\n\r\n", 400, id="no host"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, id="negative length"),
        pytest.param(b"GET /l\x00 HTTP/1.1\r\nHost: a\r\n\r\n", 400, id="nul"),
        pytest.param(b"GET /" + b"a" * 100_000, 431, id="endless target"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000, 431, id="endless headers"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 413, id="body"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 300_000, 413, id="long body"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", 413, id="expect"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n\r\n", 413, id="bad chunk"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, id="unknown transfer encoding"
        ),
    ],
)
def test_wrong_bytes_get_one_line_and_are_closed(running: Running, data: bytes, status: int) -> None:
    with running.connect() as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)  # some of these are unfinished heads
        head, _, body = read_all(peer).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close" in head.lower()
    assert body.count(b"\n") == 1
    assert body.endswith(b"\n")
    assert running.ask("/livez")[0].status == 200


@pytest.mark.parametrize(
    ("size", "status"),
    [(connection.MAX_HEAD, b"200"), (connection.MAX_HEAD + 1, b"431"), (17_000, b"431"), (32_000, b"431")],
)
@pytest.mark.parametrize("before", [b"", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_head_has_a_size_however_it_comes(
    running: Running, size: int, status: bytes, before: bytes, pieces: int
) -> None:
    """Also in one segment, with its end, and behind another request."""
    head = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\nA: "
    said = before + head + b"b" * (size - len(head) - 4) + b"\r\n\r\n"
    with running.connect() as peer:
        for piece in (said[: len(said) // pieces], said[len(said) // pieces :]):
            peer.sendall(piece)
        answers = read_all(peer).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200"] * bool(before) + [status]
    assert running.ask("/livez")[0].status == 200


def test_the_answer_reaches_a_peer_that_goes_on_sending(running: Running) -> None:
    with running.connect() as peer:
        peer.sendall(TLS_HELLO * 100)
        assert read_all(peer).startswith(b"HTTP/1.1 400 ")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(
        st.binary(max_size=300),
        st.lists(
            st.sampled_from(
                (
                    *(b"GET ", b"HEAD ", b"/livez", b"/", b" HTTP/1.1", b"\r\n", b"\n", b"Host: a", b"\r\n\r\n"),
                    *(b"Content-Length: 2", b"Transfer-Encoding: chunked", b"Connection: close"),
                    *(b": ", b"\x00", b"\xff"),
                )
            ),
            max_size=30,
        ).map(b"".join),
    )
)
def test_any_bytes_leave_it_working(running: Running, caplog: pytest.LogCaptureFixture, data: bytes) -> None:
    with running.connect() as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        received = read_all(peer)
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    assert running.ask("/livez")[0].status == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_peers_that_reset_at_any_moment_leave_it_working(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    for data in (b"", b"GET", b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50, TLS_HELLO):
        peer = running.connect()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        peer.sendall(data)
        peer.close()  # with a reset
    assert running.ask("/livez")[0].status == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_fault_in_a_page_is_logged_and_answered(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.metrics.in_flight = lambda: [("default", "1", 1 // 0)]
    response, body = running.ask("/metrics")
    assert response.status == 500
    assert b"ZeroDivision" not in body
    assert any(record.exc_info for record in caplog.records)
    assert running.ask("/livez")[0].status == 200


def busy(running: Running) -> http.client.HTTPConnection:
    """Has been answered, and keeps its connection."""
    client = running.client()
    client.request("GET", "/livez")
    assert client.getresponse().read() == b"ok\n"
    return client


def test_idle_connections_yield_to_a_probe_longest_idle_first(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    held = [busy(running) for _ in range(3)]
    held[0].request("GET", "/livez")  # used again: not the longest idle one any more
    assert held[0].getresponse().read() == b"ok\n"
    for _ in range(5):
        assert running.ask("/livez")[0].status == 200
    assert held[1].sock is not None
    assert ended(held[1].sock)
    for client in held:
        client.close()


def ended(peer: socket.socket) -> bool:
    """Wait for the end; False if something else comes."""
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("start", [b"", b"GET /li", b"GET /livez HTTP/1.1\r\nHost: "])
def test_slow_requests_give_way_to_a_probe(running: Running, monkeypatch: pytest.MonkeyPatch, start: bytes) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    slow = [running.connect() for _ in range(6)]
    for peer in slow:
        peer.sendall(start)
    for _ in range(5):
        assert running.ask("/livez")[0].status == 200
    assert all(ended(peer) for peer in slow[:3])
    for peer in slow:
        peer.close()


def test_those_who_take_no_answer_give_way_to_a_probe(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    running.status["much"] = "x" * 10_000_000  # more than the kernel keeps for both sides
    slow = [running.connect() for _ in range(3)]
    for peer in slow:
        peer.sendall(b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n")
        assert peer.recv(1) == b"H"
    for _ in range(5):
        assert running.ask("/livez")[0].status == 200
    for peer in slow:
        peer.close()
    wait_until_empty(running)


def test_answers_that_take_long_give_way_to_a_probe(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    asked, let_go = slow_page(monkeypatch, running)
    client = running.client()
    client.request("GET", "/slow")
    assert asked.wait(60)
    assert running.ask("/livez")[0].status == 200
    assert client.sock is not None
    assert ended(client.sock)
    let_go()
    client.close()


def wait_until_empty(running: Running) -> None:
    async def finished() -> None:
        tasks = [task for task in running.admin._connections.values() if task is not None]
        await asyncio.gather(*tasks)

    running.do(finished())


def test_a_head_that_never_ends_is_given_up(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)
    assert running.send_raw(b"GET /livez HTTP/1.1\r\nHost: ").startswith(b"HTTP/1.1 408 ")
    assert running.send_raw(b"") == b""


def test_an_idle_connection_is_closed(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.05)
    received = running.send_raw(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.endswith(b"ok\n")


def test_a_peer_that_takes_nothing_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WRITE_SECONDS", 0.05)
    running.status["much"] = "x" * 30_000_000  # more than the kernel keeps for both sides
    with running.connect() as peer:
        peer.sendall(b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n")
        assert peer.recv(1) == b"H"
        wait_until_empty(running)


def slow_page(monkeypatch: pytest.MonkeyPatch, running: Running) -> tuple[threading.Event, Callable[[], None]]:
    """A page `/slow`: the event says that it was asked, the callable lets it answer."""
    asked, go = threading.Event(), asyncio.Event()

    async def slow(sources: AdminSources, request: Request) -> Reply:
        asked.set()
        await go.wait()
        return text_reply(HTTPStatus.OK, "done")

    monkeypatch.setattr(routes, "TABLE", (*routes.TABLE, AdminRoute("/slow", slow)))
    return asked, lambda: running.loop.call_soon_threadsafe(go.set) and None


def test_close_ends_idle_connections_and_finishes_answers(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, let_go = slow_page(monkeypatch, running)
    idle, busy, half = running.client(), running.client(), running.connect()
    idle.request("GET", "/livez")
    idle.getresponse().read()
    half.sendall(b"GET /li")
    busy.request("GET", "/slow")
    assert asked.wait(60)
    closing = asyncio.run_coroutine_threadsafe(running.admin.close(60), running.loop)
    assert idle.sock is not None
    assert idle.sock.recv(1) == b""
    assert read_all(half) == b""
    let_go()
    response = busy.getresponse()
    assert (response.read(), response.headers["Connection"]) == (b"done\n", "close")
    closing.result(60)
    for client in (idle, busy, half):
        client.close()


def test_after_close_the_port_is_free(running: Running) -> None:
    address = running.admin.address
    running.do(running.admin.close())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.host, address.port), timeout=60)


async def test_a_taken_port_says_which_flag_to_change() -> None:
    sources = AdminSources(Metrics(), dict, tuple)
    first = await start_admin(Address("127.0.0.1", 0), sources)
    with pytest.raises(ConfigError) as caught:
        await start_admin(first.address, sources)
    (problem,) = caught.value.problems
    assert f"{first.address} is taken" in problem
    assert "--admin HOST:PORT" in problem
    assert "--no-admin" in problem
    assert "\n" not in problem
    await first.close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
async def test_an_address_that_is_not_ours_is_a_config_error(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^admin: .* cannot be bound: .*--no-admin$"):
        await start_admin(Address(host, 0), AdminSources(Metrics(), dict, tuple))


def skip_without_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 on this machine")


async def asked_at(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /livez HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_ipv6() -> None:
    skip_without_ipv6()
    admin = await start_admin(Address("::1", 0), AdminSources(Metrics(), dict, tuple))
    assert str(admin.address).startswith("[::1]:")
    assert (await asked_at("::1", admin.address.port)).endswith(b"ok\n")
    await admin.close()


async def test_every_address_is_ipv4_s_too() -> None:
    """One configuration for pods of every cluster: probes come to the pod's address, whichever family it is of."""
    skip_without_ipv6()
    admin = await start_admin(Address("::", 0), AdminSources(Metrics(), dict, tuple))
    for host in ("::1", "127.0.0.1"):
        assert (await asked_at(host, admin.address.port)).endswith(b"ok\n")
    await admin.close()


async def test_every_address_that_is_taken_is_a_config_error() -> None:
    skip_without_ipv6()
    first = await start_admin(Address("::", 0), AdminSources(Metrics(), dict, tuple))
    with pytest.raises(ConfigError, match="is taken"):
        await start_admin(first.address, AdminSources(Metrics(), dict, tuple))
    await first.close()


@pytest.mark.parametrize(("outcome", "status"), [("done", 200), ("refused", 400), ("busy", 409)])
def test_reload_says_what_came_of_it_line_by_line(
    running: Running, outcome: Literal["done", "refused", "busy"], status: int
) -> None:
    assert running.ask("/reload", "POST")[0].status == 404
    running.enable_reload(outcome)
    response, body = running.ask("/reload", "POST")
    assert (response.status, body) == (status, b"a line\nanother\n")


@pytest.mark.parametrize(
    ("query", "asked", "text"),
    [
        ("accept-cluster=blue", ["reload, accept blue"], b"a line"),
        ("accept=blue", [], b"accept: unknown; allowed: accept-cluster"),
        ("%1b=1", [], rb"\x1b: unknown; allowed: accept-cluster"),
        ("accept-cluster=a&accept-cluster=b", [], b"accept-cluster: is there twice; allowed: one cluster"),
    ],
)
def test_reload_does_nothing_that_was_not_asked(running: Running, query: str, asked: list[str], text: bytes) -> None:
    running.enable_reload()
    response, body = running.ask(f"/reload?{query}", "POST")
    assert (response.status, body.splitlines()[0]) == (200 if asked else 400, text)
    assert running.quits == asked
