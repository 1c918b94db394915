"""`kproxy wait`, as a person runs it, for a kproxy that is ready, that is not, and that is not there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kproxy.cli import invoke

NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("KPROXY_")]:
        monkeypatch.delenv(variable)


@contextmanager
def running(*options: str, host: str = "127.0.0.1") -> Iterator[str]:
    """`kproxy run` for a cluster that is not there; its admin endpoint. Not waited for: that is what is tested."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["run", "-b", NOBODY, "--listen", "127.0.0.1:0", "--admin", f"{host}:{port}", "--log-level", "error"]
    with subprocess.Popen([sys.executable, "-m", "kproxy", *words, *options]) as process:
        try:
            yield f"{host}:{port}"
        finally:
            process.terminate()


def test_ready(capsys: pytest.CaptureFixture[str]) -> None:
    with running("--ready-requires", "none") as admin:
        assert invoke(["wait", "--admin", admin, "--ready-requires", "none"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_wildcard_is_asked_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with running("--ready-requires", "none", host="0.0.0.0") as admin:
        monkeypatch.setenv("KPROXY_ADMIN", admin)
        assert invoke(["wait", "--ready-requires", "none"]) == 0


def test_not_ready_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    with running() as admin:
        while invoke(["wait", "--admin", admin, "--timeout", "0"]) and "no kproxy answers" in capsys.readouterr().err:
            pass
        assert invoke(["wait", "--admin", admin, "--timeout", "300ms"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("kproxy: not ready after 0.3 s: cluster default: ")
    assert "connection refused" in err


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["wait", "--admin", NOBODY, "--timeout", "0"]) == 1
    text = f"not ready after 0 s: no kproxy answers at {NOBODY} (--admin): Connection refused"
    assert capsys.readouterr() == ("", f"kproxy: {text}\n")


class OtherServer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def test_another_server(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), OtherServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        admin = f"127.0.0.1:{server.server_port}"
        assert invoke(["wait", "--admin", admin, "--timeout", "0"]) == 1
        server.shutdown()
    assert f"the server at {admin} (--admin) is not kproxy: HTTP 404" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--admin", "off"], "--admin: 'off' has no port: write HOST:PORT"),
        (["--timeout", "soon"], "invalid value for '--timeout': 'soon' is not a duration"),
    ],
)
def test_wrong_usage(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["wait", *words]) == 2
    assert problem in capsys.readouterr().err
