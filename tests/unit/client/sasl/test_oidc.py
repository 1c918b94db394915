"""Client credentials, against servers of the standard library that answer as told."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kproxy.base.errors import UpstreamError
from kproxy.client.sasl import oidc
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.oidc import fetch_token
from tests.harness.servers.oidc import OidcServer
from tests.harness.servers.peers import make_certificate, refused

SECRET = "hunter2 &=%ä"


class Answering(HTTPServer):
    """Gives its answers in turn, the last one again and again; keeps what it was asked."""

    answers: list[tuple[int, str]]
    asked: list[tuple[str, str]]


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], body))
        code, text = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(code)
        if 300 <= code < 400:
            self.send_header("Location", text)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    monkeypatch.setattr(oidc, "_PAUSES", (0.0, 0.0))
    made = Answering(("127.0.0.1", 0), _Handler)
    made.answers, made.asked = [(200, json.dumps({"access_token": "abc.def", "expires_in": 1000}))], []
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def url(server: Answering) -> str:
    return f"http://127.0.0.1:{server.server_port}/token"


async def test_what_is_asked_and_answered(server: Answering) -> None:
    token, until = await fetch_token(BlockingCalls(), url(server), "me", SECRET, "a b", None)
    assert token == "abc.def"
    assert until == pytest.approx(time.monotonic() + 800, abs=60)
    login, body = server.asked[0]
    assert b64decode(login.removeprefix("Basic ")).decode() == f"me:{SECRET}"
    assert body == "grant_type=client_credentials&scope=a+b"


async def test_trouble_is_tried_again(server: Answering) -> None:
    server.answers = [(503, "later"), (500, "{}"), *server.answers]
    assert (await fetch_token(BlockingCalls(), url(server), "me", SECRET, None, None))[0] == "abc.def"
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("code", "answer", "asked", "text"),
    [
        (
            401,
            '{"error": "invalid_client", "error_description": "hunter2"}',
            1,
            r"answers 401 \(invalid_client\); check",
        ),
        (400, '{"error": "invalid scope hunter2"}', 1, "answers 400; check"),
        (302, "http://127.0.0.1:1/elsewhere", 1, "answers 302; check"),
        (503, "hunter2", 3, "answers 503$"),
        (200, "hunter2", 1, "returned no usable token"),
        (200, "[]", 1, "returned no usable token"),
        (200, "{}", 1, "returned no usable token"),
        (200, '{"access_token": 7}', 1, "returned no usable token"),
        (200, '{"access_token": "two words"}', 1, "returned no usable token"),
        (200, '{"access_token": "a\\u0001b=c"}', 1, "returned no usable token"),
    ],
)
async def test_no_token(server: Answering, code: int, answer: str, asked: int, text: str) -> None:
    server.answers = [(code, answer)]
    with pytest.raises(UpstreamError, match=text) as caught:
        await fetch_token(BlockingCalls(), url(server), "me", SECRET, None, None)
    assert "hunter2" not in str(caught.value)
    assert len(server.asked) == asked


async def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_PAUSES", (0.0, 0.0))
    with refused() as address, pytest.raises(UpstreamError, match="cannot be reached: Connection refused"):
        await fetch_token(BlockingCalls(), f"http://{address}/token", "me", SECRET, None, None)


async def test_a_certificate(tmp_path: Path) -> None:
    """Trusted only if --oauth-ca says so."""
    certificate = make_certificate(tmp_path, "IP:127.0.0.1")
    with OidcServer("me", "hunter2", certificate) as server:
        with pytest.raises(UpstreamError, match="is not trusted: self-signed certificate; set oauth-ca"):
            await fetch_token(BlockingCalls(), server.token_url, "me", "hunter2", None, None)
        token, _ = await fetch_token(BlockingCalls(), server.token_url, "me", "hunter2", None, certificate)
    assert token.count(".") == 2
    with pytest.raises(UpstreamError, match=r"oauth-ca .*none cannot be read: No such file"):
        await fetch_token(BlockingCalls(), server.token_url, "me", "hunter2", None, tmp_path / "none")
