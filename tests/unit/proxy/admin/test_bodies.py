"""Bodies of requests to the admin endpoint, most of them hostile: each ends in one line and blocks nobody."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import socket
import threading
from http import HTTPStatus
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproxy.proxy.admin import connection, routes, server
from kproxy.proxy.admin.handlers import AdminSources, Readiness
from kproxy.proxy.admin.requests import Reply, Request, text_reply
from kproxy.proxy.admin.routes import MOST_BODY, AdminRoute
from kproxy.proxy.metrics import Metrics
from tests.harness.process import wait_until
from tests.unit.proxy.admin.endpoint import Running, read_all

MOST = 1000
SAID = b'{"a": [1, "\xc3\xb6"]}'
HEAD = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
LAST = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


async def echo(sources: AdminSources, request: Request) -> Reply:
    return text_reply(HTTPStatus.OK, json.dumps(request.body))


@pytest.fixture
def running(running: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    table = (*routes.TABLE, AdminRoute("/echo", echo, method="POST", most_body=MOST))
    monkeypatch.setattr(routes, "TABLE", (*table, AdminRoute("/large", echo, method="POST", most_body=MOST_BODY)))
    return running


def sources() -> AdminSources:
    return AdminSources(Metrics(), dict, lambda _: Readiness())


def sized(body: bytes, more: bytes = b"") -> bytes:
    return HEAD + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunks(body: bytes, size: int) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return HEAD + CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d{3}) ", received, re.MULTILINE)]


def test_json_arrives_however_it_is_cut(running: Running) -> None:
    echoed = json.dumps(json.loads(SAID)).encode() + b"\n"
    for data in (sized(SAID), *(chunks(SAID, size) for size in (1, 2, 7, 100))):
        received = running.send_raw(data + LAST)
        assert statuses(received) == [200, 200]
        assert echoed in received


@pytest.mark.parametrize("data", [sized(SAID) + LAST, chunks(SAID, 3) + LAST], ids=["sized", "chunked"])
def test_one_byte_at_a_time(running: Running, data: bytes) -> None:
    with running.connect() as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(len(data)):
            peer.sendall(data[place : place + 1])
        assert statuses(read_all(peer)) == [200, 200]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 400), max_size=4), size=st.integers(1, 30))
def test_any_cut_gives_the_same(running: Running, cuts: list[int], size: int) -> None:
    data = sized(SAID) + chunks(SAID, size) + LAST
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    with running.connect() as peer:
        for begin, end in pairwise(places):
            peer.sendall(data[begin:end])
        assert statuses(read_all(peer)) == [200, 200, 200]


def test_pipelined_requests_with_bodies_are_answered_in_order(running: Running) -> None:
    data = b"".join(sized(b"%d" % number) + chunks(b'"%d"' % number, 1) for number in range(100))
    received = running.send_raw(data + LAST)
    assert statuses(received) == [200] * 201
    bodies = [part.rpartition(b"\r\n\r\n")[2].strip() for part in received.split(b"HTTP/1.1 ")[1:-1]]
    assert bodies == [body for number in range(100) for body in (b"%d" % number, b'"%d"' % number)]


def typed(kind: bytes, more: bytes = b"") -> bytes:
    return sized(SAID).replace(b"application/json\r\n", kind + b"\r\n" + more)


# What is sent, until the end of file: the status, and a word of the line that says why.
HOSTILE = {
    "no type": (sized(SAID).replace(b"Content-Type: application/json\r\n", b""), 415, b"application/json"),
    "a form": (typed(b"application/x-www-form-urlencoded"), 415, b"application/json"),
    "text": (typed(b"text/plain"), 415, b"application/json"),
    "two types": (typed(b"application/json", b"Content-Type: text/plain\r\n"), 415, b"application/json"),
    "packed": (typed(b"application/json", b"Content-Encoding: gzip\r\n"), 415, b"packed"),
    "no JSON": (sized(b"secret"), 400, b"not JSON"),
    "half": (sized(SAID[:-1]), 400, b"not JSON"),
    "more than one": (sized(b"1 2"), 400, b"not JSON"),
    "not UTF-8": (sized(b'"\xff"'), 400, b"not JSON"),
    "UTF-16": (sized("[1]".encode("utf-16")), 400, b"not JSON"),
    "half a character": (sized(b'"\\ud800"'), 400, b"not JSON"),
    "NaN": (sized(b"[NaN]"), 400, b"not JSON"),
    "endless depth": (sized(b"[" * MOST), 400, b"not JSON"),
    "endless number": (sized(b"9" * MOST).replace(b"/echo", b"/large").replace(b"999", b"9" * 3), 200, b"999"),
    "nothing": (HEAD + b"\r\n", 400, b"empty"),
    "nothing in chunks": (chunks(b"", 1), 400, b"empty"),
    "shorter than it says": (sized(SAID).replace(b"Length: ", b"Length: 9"), 400, b"ends early"),
    "longer than it says": (sized(b"1") + b"2" * 50 + b"\r\n\r\n", 200, b"1\n"),
    "chunks cut off": (chunks(SAID, 5)[:-5], 400, b"ends early"),
    "a chunk of words": (HEAD + CHUNKED + b"zz\r\n", 400, b"not valid HTTP/1.1"),
    "a chunk without end of line": (HEAD + CHUNKED + b"1\r\n11\r\n", 400, b"not valid HTTP/1.1"),
    "an endless size of a chunk": (HEAD + CHUNKED + b"0" * 40_000, 400, b"not valid HTTP/1.1"),
    "endless trailers": (chunks(SAID, 5)[:-2] + b"A: b\r\n" * 20_000, 400, b"not valid HTTP/1.1"),
    "one byte too many in chunks": (chunks(b'"%b"' % (b"x" * (MOST - 1)), 99), 413, b"larger than 1000 bytes"),
    "as many as there may be": (chunks(b'"%b"' % (b"x" * (MOST - 2)), 99), 200, b"xxx"),
    "endless extensions": (HEAD + CHUNKED + (b"1;" + b"x" * 4000 + b"\r\n1\r\n") * 50, 413, b"larger than 1000 bytes"),
    "a huge chunk": (HEAD + CHUNKED + b"ffffffffff\r\n" + b"1" * 200_000, 413, b"larger than 1000 bytes"),
    "chunks without end": (HEAD + CHUNKED + b"1\r\n1\r\n" * 100_000, 413, b"larger than 1000 bytes"),
    "a huge length": (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n1", 413, b"larger than 1000 bytes"),
    "an endless length": (HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n1", 400, b"speaks HTTP/1.1"),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n1", 400, b"speaks HTTP/1.1"),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n11", 400, b"speaks HTTP/1.1"),
    "a length and chunks": (HEAD + b"Content-Length: 1\r\n" + CHUNKED + b"0\r\n\r\n", 400, b"is ambiguous"),
    "chunks in HTTP/1.0": (chunks(SAID, 5).replace(b"HTTP/1.1", b"HTTP/1.0"), 400, b"is ambiguous"),
    "expects, and then too much": (sized(b"1" * 5000, b"Expect: 100-continue\r\n"), 413, b"larger than 1000 bytes"),
}


@pytest.mark.parametrize(("data", "status", "word"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_bodies(
    running: Running, caplog: pytest.LogCaptureFixture, data: bytes, status: int, word: bytes
) -> None:
    with running.connect() as peer:
        sender = threading.Thread(target=send_all, args=(peer, data))
        sender.start()
        received = read_all(peer)
        sender.join()
    first, _, body = received.partition(b"\r\n\r\n")
    assert statuses(received)[0] == status
    assert word in body
    if status >= 400:
        assert b"\r\nconnection: close" in first.lower() or status == 400
        assert statuses(received) == [status]
        assert body.count(b"\n") == 1
        assert b"secret" not in received
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert running.ask("/livez")[0].status == 200


def send_all(peer: socket.socket, data: bytes) -> None:
    """As far as the other side takes it, and the end of file."""
    try:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.mark.parametrize("data", [sized(SAID), chunks(SAID, 5)], ids=["sized", "chunked"])
def test_a_reset_at_every_byte(running: Running, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    for place in range(len(data) + 1):
        peer = running.connect()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        peer.sendall(data[:place])
        peer.close()
    assert running.ask("/livez")[0].status == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("data", [sized(SAID)[:-1], chunks(SAID, 5)[:-1], HEAD + b"Content-Length: 9\r\n\r\n"])
def test_silence_before_the_end_is_given_up(running: Running, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.05)
    received = running.send_raw(data)
    assert statuses(received) == [408]
    assert received.endswith(b"no complete body within 0.05 s\n")


def test_who_expects_is_told_to_go_on_only_if_all_else_is_right(running: Running) -> None:
    head = HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(SAID)
    with running.connect() as peer:
        peer.sendall(head)
        assert peer.recv(100) == b"HTTP/1.1 100 \r\n\r\n"
        peer.sendall(SAID + LAST)
        assert statuses(read_all(peer)) == [200, 200]
    for wrong, status in (
        (head.replace(b"application/json", b"text/plain"), 415),
        (head.replace(b"Length: ", b"Length: 99"), 413),
        (head.replace(b"Host: a", b"Host: evil.example"), 421),
        (head.replace(b"/echo", b"/quit"), 413),
        (head.replace(b"POST", b"PUT"), 413),
    ):
        assert statuses(running.send_raw(wrong)) == [status]
    # It may have sent the body already, and then is told nothing in between.
    assert statuses(running.send_raw(head + SAID + LAST)) in ([200, 200], [100, 200, 200])


@pytest.mark.parametrize("data", [sized(SAID)[:-1], chunks(SAID, 5)[:-1]], ids=["sized", "chunked"])
def test_half_bodies_give_way_to_a_probe(running: Running, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    slow = [running.connect() for _ in range(6)]
    for peer in slow:
        peer.sendall(data)
    for _ in range(5):
        assert running.ask("/livez")[0].status == 200
    for peer in slow:
        peer.close()


def test_half_bodies_do_not_hold_up_the_end(running: Running) -> None:
    with running.connect() as peer:
        peer.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n")
        assert peer.recv(100).startswith(b"HTTP/1.1 100 ")
        running.do(running.admin.close(60))
        assert read_all(peer) == b""


async def test_many_small_chunks_let_others_run_in_between() -> None:
    """All of them have arrived: reading them would wait for nobody."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    here, there = socket.socketpair()
    with there:
        _, writer = await asyncio.open_connection(sock=here)
        reader = asyncio.StreamReader()
        reader.feed_data(chunks(b"1" * 3000, 1))
        one = connection.AdminConnection(reader, writer, sources(), lambda: False)
        assert await one._request() is not None
        async with asyncio.TaskGroup() as group:
            counting = group.create_task(count_turns())
            assert len(await one._body(3000)) == 3000
            counting.cancel()
        writer.close()
        await writer.wait_closed()
    assert turns >= 3000 // connection.EVENTS_AT_A_TIME


def test_nothing_is_kept(running: Running) -> None:
    """A body is gone when its request is answered, though the connection goes on."""
    client = running.client()
    marker = "x" * 777
    for _ in range(3):
        client.request("POST", "/echo", json.dumps([marker]), {"Content-Type": "application/json"})
        assert client.getresponse().read() == json.dumps([marker]).encode() + b"\n"
    (one,) = running.admin._connections
    wait_until(lambda: one.idle, "the other side has gone on too")
    client.close()
    gc.collect()
    held = [thing for thing in gc.get_objects() if isinstance(thing, list) and thing == [marker]]
    assert held == []
    assert one._http.trailing_data[0] == b""
