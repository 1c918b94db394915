"""The client of the admin endpoint: against the real one, and against others that answer anything."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import AdminError
from kproxy.proxy.admin import client as module
from kproxy.proxy.admin import routes
from kproxy.proxy.admin.client import AdminClient
from kproxy.proxy.admin.handlers import AdminSources
from kproxy.proxy.admin.requests import JSON, Reply, Request
from kproxy.proxy.admin.routes import AdminRoute, TokenRule
from tests.harness.tls import Authority, in_thread
from tests.unit.proxy.admin.endpoint import Running

TOKEN = "a-token-of-these-tests"
NO = b"HTTP/1.1 500 No\r\nKproxy-Admin: 1\r\n"
OK = b"HTTP/1.1 200 OK\r\nKproxy-Admin: 1\r\n"


async def echo(sources: AdminSources, request: Request) -> Reply:
    return Reply(HTTPStatus.OK, json.dumps([request.query, request.body]).encode(), JSON)


@pytest.fixture
def running(running: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    written = AdminRoute("/write", echo, method="POST", token=TokenRule.ALWAYS, most_body=100)
    monkeypatch.setattr(routes, "TABLE", (*routes.TABLE, AdminRoute("/read", echo), written))
    return running


@contextmanager
def answering(*pieces: bytes, more: Callable[[], bytes] = bytes) -> Iterator[Address]:
    """Somebody who answers the first request so, and goes on with `more` until that is empty or nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(65536)
                try:
                    for piece in pieces:
                        peer.sendall(piece)
                    while piece := more():
                        peer.sendall(piece)
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address(*listening.getsockname()[:2])
        thread.join()


def refusal(ask: Callable[[], object]) -> str:
    with pytest.raises(AdminError) as caught:
        ask()
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_json_there_and_back(running: Running) -> None:
    running.set(token=TOKEN)
    client = AdminClient(running.admin.address, TOKEN)
    assert client.get("/read") == [{}, None]
    assert client.get("/read", {"a": "b c&d"}) == [{"a": ["b c&d"]}, None]
    assert client.post("/write", {"ö": 1}) == [{}, {"ö": 1}]


def test_refusals_say_what_to_do(running: Running) -> None:
    here = f"kproxy at {running.admin.address} (--admin)"
    without, wrong = AdminClient(running.admin.address), AdminClient(running.admin.address, "x" * 20)
    no_token = "this request needs a token, and kproxy has none: start it with --admin-token-file FILE"
    assert refusal(lambda: without.post("/write", 1)) == f"{here} refuses: {no_token}"
    running.set(token=TOKEN)
    wants = "requires a token: give it with --admin-token-file FILE or KPROXY_ADMIN_TOKEN"
    assert refusal(lambda: without.post("/write", 1)) == f"{here} {wants}"
    other = "refuses this token (--admin-token-file, KPROXY_ADMIN_TOKEN): give the one it was started with"
    assert refusal(lambda: wrong.post("/write", 1)) == f"{here} {other}"
    right = AdminClient(running.admin.address, TOKEN)
    assert (
        refusal(lambda: right.post("/write", "x" * 99))
        == f"{here} refuses: the body is larger than 100 bytes; send less"
    )
    assert refusal(lambda: right.get("/nothing")).startswith(f"{here} has no such page; it may be an older kproxy")
    assert refusal(lambda: right.reload(5.0)) == (
        f"{here} does not accept reload requests: start it with --admin-reload, or send it SIGHUP"
    )
    assert "is not kproxy: its answer is not JSON" in refusal(lambda: right.get("/livez"))
    with pytest.raises(AdminError) as caught:
        right.get("/write")
    assert caught.value.status == 405


def test_over_tls(encrypted: Running, authority: Authority) -> None:
    encrypted.status["version"] = "1"
    address = encrypted.admin.address
    encrypted.set(token=TOKEN, require_token_for_reads=True)
    client = AdminClient(address, TOKEN, tls=authority.client_context())
    assert client.get("/status") == {"version": "1"}
    assert client.wait_ready(0, "all") == ["node 2 is missing"]
    without = AdminClient(address, tls=authority.client_context())
    assert "requires a token" in refusal(lambda: without.get("/status"))
    assert without.wait_ready(0, "all") == [
        "not ready; kproxy gives the reasons only to requests with its token (--admin-require-token-for-reads)"
    ]


def test_another_way_than_the_server_speaks(running: Running, encrypted: Running, authority: Authority) -> None:
    there = encrypted.admin.address
    text = (
        f"kproxy at {there} (--admin) speaks HTTPS only: give --admin https://{there}, and --admin-ca FILE if need be"
    )
    assert refusal(lambda: AdminClient(there).get("/status")) == text
    assert AdminClient(there).wait_ready(0, "all") == [text]
    client = AdminClient(running.admin.address, tls=authority.client_context())
    assert refusal(lambda: client.get("/read")).endswith("; it may speak plain HTTP only")


def test_a_certificate_that_is_not_trusted(encrypted: Running, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    client = AdminClient(encrypted.admin.address, tls=Authority(tmp_path / "other").client_context())
    said = refusal(lambda: client.get("/status"))
    assert said.startswith(f"no kproxy answers at {client.address} (--admin): TLS: its certificate is not good: ")
    assert said.endswith("; --admin-ca FILE says whom to trust")


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x03\x01\x00\x02"], ids=["nothing", "a record"])
def test_a_handshake_byte_by_byte_has_no_more_time(authority: Authority, first: bytes) -> None:
    ended = threading.Event()
    with answering(first, more=lambda: b"" if ended.wait(0.02) else b"\x16") as address:
        client = AdminClient(address, seconds=0.3, tls=authority.client_context())
        text = refusal(lambda: client.get("/status"))
        ended.set()
    assert text.startswith(f"no kproxy answers at {address} (--admin): ")
    assert first == b"" or text.endswith("no complete answer within 0.3 s")


def test_an_answer_byte_by_byte_over_tls_has_no_more_time(authority: Authority) -> None:
    ended = threading.Event()

    def serve(listening: socket.socket) -> None:
        peer, _ = listening.accept()
        with authority.server_context("127.0.0.1").wrap_socket(peer, server_side=True) as tls, suppress(OSError):
            tls.recv(65536)
            tls.sendall(OK + b"\r\n")
            while not ended.wait(0.02):
                tls.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = in_thread(lambda: serve(listening))
        address = Address(*listening.getsockname()[:2])
        text = refusal(lambda: AdminClient(address, seconds=0.5, tls=authority.client_context()).get("/status"))
        ended.set()
        thread.join()
    assert text == f"no kproxy answers at {address} (--admin): no complete answer within 0.5 s"


def test_a_name_that_kproxy_does_not_know(monkeypatch: pytest.MonkeyPatch, running: Running) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolving(socket.getaddrinfo))
    client = AdminClient(Address("kproxy.example", running.admin.address.port))
    assert refusal(lambda: client.get("/read")).endswith(
        "does not accept that host name: give its IP address, or start it with --admin-host kproxy.example"
    )
    running.set(hosts=("kproxy.example",))
    assert client.get("/read") == [{}, None]


def resolving(real: Callable[..., object]) -> Callable[..., object]:
    return lambda host, *more, **others: real("127.0.0.1" if host == "kproxy.example" else host, *more, **others)


def test_ready_or_why_not(running: Running) -> None:
    client = AdminClient(running.admin.address)
    assert client.wait_ready(0, "all") == ["node 2 is missing"]
    assert client.wait_ready(0, "two") == [
        f"kproxy at {running.admin.address} (--admin) refuses: requires: allowed: all"
    ]


UNMARKED = b"\r\nContent-Type: %s\r\nContent-Length: 3\r\n\r\n%s"
REQUESTS: dict[str, Callable[[AdminClient], object]] = {
    "get": lambda client: client.get("/status"),
    "post": lambda client: client.post("/switch", {}),
    "stream": lambda client: list(client.stream("/tap", {})),
    "reload": lambda client: client.reload(5.0),
    "wait": lambda client: raised(client.why_not_ready("all")),
}


def raised(lines: Sequence[str]) -> None:
    if lines:
        raise AdminError("\n".join(lines))


@pytest.mark.parametrize("status", [b"200 OK", b"401 Unauthorized", b"400 Bad Request", b"404 Not Found"])
@pytest.mark.parametrize("content", [(b"text/plain", b"ok\n"), (b"application/json", b"[ ]")], ids=["text", "JSON"])
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)
def test_a_server_that_answers_well_and_is_not_kproxy(
    request_of: Callable[[AdminClient], object], content: tuple[bytes, bytes], status: bytes
) -> None:
    with answering(b"HTTP/1.1 " + status + UNMARKED % content) as address:
        text = refusal(lambda: request_of(AdminClient(address)))
    assert text.startswith(f"the server at {address} (--admin) is not kproxy: its answer (HTTP {status[:3].decode()})")


def test_who_says_yes_to_everything_is_not_ready() -> None:
    with answering(OK + b"\r\nyes") as address:
        text = f"the server at {address} (--admin) is not kproxy: it does not say ok"
        assert AdminClient(address).wait_ready(0, "all") == [text]


def test_nobody_there() -> None:
    client = AdminClient(Address("127.0.0.1", 1))
    text = "no kproxy answers at 127.0.0.1:1 (--admin): Connection refused"
    assert refusal(lambda: client.get("/status")) == text
    assert client.wait_ready(0, "all") == [text]


STRANGE = {
    "no HTTP": ((b"SSH-2.0-OpenSSH_9.6\r\n",), "does not speak HTTP"),
    "nothing": ((), "Remote end closed connection without response"),
    "half a head": ((OK + b"Content-Le",), "is not kproxy: its answer is not JSON"),
    "half a body": (
        (OK + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n1",),
        "closed the connection early",
    ),
    "half a chunk": ((OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n1",), "closed the connection early"),
    "no JSON": ((OK + b"Content-Type: application/json\r\n\r\n{",), "not JSON"),
    "HTML": ((OK + b"Content-Type: text/html\r\n\r\n1",), "not JSON"),
    "depth": ((OK + b"Content-Type: application/json\r\n\r\n" + b"[" * 200_000,), "not JSON"),
    "escapes": ((NO + b"\r\n\x1b[31mred\xe2\x80\xae\r\nmore",), r"refuses: \x1b[31mred\u202e"),
    "another place": (
        (NO.replace(b"500", b"302") + b"Location: http://elsewhere/\r\n\r\n",),
        "refuses: HTTP 302",
    ),
    "a long line": ((NO + b"\r\n" + b"x" * 100_000,), "characters)"),
    "many headers": ((OK + b"A: b\r\n" * 1000,), "does not speak HTTP"),
}


@pytest.mark.parametrize(("pieces", "text"), STRANGE.values(), ids=STRANGE)
def test_strangers(pieces: tuple[bytes, ...], text: str) -> None:
    with answering(*pieces) as address:
        assert text in refusal(lambda: AdminClient(address).get("/status"))


def test_an_answer_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REPLY", 100_000)
    head = OK + b"Content-Type: application/json\r\n\r\n"
    with answering(head, more=lambda: b" " * 65536) as address:
        assert refusal(lambda: AdminClient(address).get("/status")).endswith("its answer is larger than 100000 bytes")


PAGE = OK + b"Content-Type: application/x-ndjson\r\n\r\n"


def test_a_page_of_lines_is_read_to_its_end() -> None:
    with answering(PAGE, b'{"observation":{}}\n{"client":{}}\n{"end":1}\n') as address:
        assert AdminClient(address).read_lines("/observation") == [{"observation": {}}, {"client": {}}]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (b'{"observation":{}}\n', "has ended the connection"),
        (b'{"observation":{}}\n{"end":1}\n', "other lines than those of a record"),
        (b"[]\n", "other lines than those of a record"),
        (b"[" * 100_000 + b"\n", "other lines than those of a record"),
        (b"no JSON\n", "other lines than those of a record"),
    ],
    ids=["early", "count", "list", "deep", "text"],
)
def test_a_page_that_is_no_record(lines: bytes, text: str) -> None:
    with answering(PAGE, lines) as address:
        assert text in refusal(lambda: AdminClient(address).read_lines("/observation"))


def test_a_page_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REPLY", 100_000)
    with answering(PAGE, more=lambda: b'{"client":{}}\n' * 1000) as address:
        assert "is larger than 100000 bytes" in refusal(lambda: AdminClient(address).read_lines("/observation"))


@pytest.mark.parametrize("head", [b"", OK, OK + b"\r\n", OK + b"A: "], ids=["nothing", "status", "body", "header"])
def test_who_sends_byte_by_byte_has_no_more_time(head: bytes) -> None:
    """Each of them is within the time limit of a read."""
    ended = threading.Event()
    with answering(head, more=lambda: b"" if ended.wait(0.02) else b"x") as address:
        text = refusal(lambda: AdminClient(address, seconds=0.3).get("/status"))
        ended.set()
    assert text == f"no kproxy answers at {address} (--admin): no complete answer within 0.3 s"


@pytest.mark.parametrize("token", ["", "a b", "a\r\nHost: b", "ä" * 20, "a\0b"])
def test_what_can_be_no_token_is_not_repeated(token: str) -> None:
    with pytest.raises(ValueError, match=r"^the token is empty, or has characters that no token has$"):
        AdminClient(Address("127.0.0.1", 1), token)


def test_it_loads_nothing_of_the_server() -> None:
    """A command that asks for a moment would wait longer for imports than for the answer."""
    heavy = ("h11", "prometheus_client", "asyncio", "kproxy.config", "kproxy.proxy.metrics")
    program = f"import sys, kproxy.proxy.admin.client; print([one for one in {heavy} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
    assert http.client.__name__ in sys.modules


def test_a_new_cluster_is_accepted_by_name(running: Running) -> None:
    client = AdminClient(running.admin.address)
    assert refusal(lambda: client.reload(5.0, "blue")).endswith(
        "restart it, and it serves the cluster that answers then; or start it with --admin-reload"
    )
    running.enable_reload()
    assert client.reload(5.0, "blue & white") == (True, ["a line", "another"])
    assert running.quits == ["reload, accept blue & white"]
