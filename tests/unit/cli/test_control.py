"""`kproxy wait`, as a person runs it, for a kproxy that is ready, that is not, and that is not there."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kproxy.cli import invoke
from tests.harness.tls import Authority

NOBODY = "127.0.0.1:1"


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
    assert (
        f"the server at {admin} (--admin) is not kproxy: its answer (HTTP 404) has no header Kproxy-Admin"
        in capsys.readouterr().err
    )


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


TOKEN = "a-token-of-these-tests"


def of(authority: Authority, name: str) -> list[str]:
    cert, key = authority.files(name)
    return ["--admin-tls-cert", str(cert), "--admin-tls-key", str(key), "--ready-requires", "none"]


def test_with_tls_as_a_health_check_does(authority: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    """On its own machine, whatever name the certificate has; with the CA, or with the certificate itself."""
    with running(*of(authority, "kproxy.team.svc")) as admin:
        for words in (
            ["--admin", f"https://{admin}", "--admin-ca", str(authority.pem)],
            ["--admin", admin, "--admin-ca", str(authority.directory / "kproxy.team.svc.pem")],
        ):
            assert invoke(["wait", "--ready-requires", "none", *words]) == 0
        assert capsys.readouterr() == ("", "")
        assert invoke(["wait", "--timeout", "0", "--admin", f"https://{admin}"]) == 1
        assert "TLS: its certificate is not good: " in capsys.readouterr().err
        assert invoke(["wait", "--timeout", "0", "--admin", admin]) == 1
        assert f"speaks HTTPS only: give --admin https://{admin}" in capsys.readouterr().err


def test_the_reasons_need_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    with running("--admin-token-file", str(file), "--admin-require-token-for-reads") as admin:
        ask = ["wait", "--admin", admin, "--timeout"]
        while "only to requests with its token" not in capsys.readouterr().err:
            assert invoke([*ask, "0"]) == 1
        assert invoke([*ask, "0", "--admin-token-file", str(file)]) == 1
        assert "cluster default: " in capsys.readouterr().err
        monkeypatch.setenv("KPROXY_ADMIN_TOKEN", TOKEN)
        assert invoke([*ask, "0"]) == 1
        assert "cluster default: " in capsys.readouterr().err
        assert invoke([*ask, "0", "--admin-token-file", str(file)]) == 2
        assert "--admin-token-file cannot be combined with KPROXY_ADMIN_TOKEN" in capsys.readouterr().err


def test_files_that_are_no_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    assert invoke(["wait", "--admin-token-file", str(file)]) == 2
    text = f"kproxy: --admin-token-file: {file} is open to other users (mode 0644): chmod 600 {file}\n"
    assert capsys.readouterr().err == text
    assert invoke(["wait", "--admin-ca", str(tmp_path / "gone.pem")]) == 2
    assert "--admin-ca: " in (said := capsys.readouterr().err)
    assert "cannot be read: No such file or directory" in said


def test_which_new_cluster_to_accept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running("--admin-reload") as admin:
        assert invoke(["wait", "--admin", admin, "--ready-requires", "none"]) == 0
        for words in ([], ["default"]):
            assert invoke(["reload", "--admin", admin, "--accept-cluster", *words]) == 2
            assert capsys.readouterr().err.startswith("kproxy: cluster default: no bootstrap server answers: ")
        assert invoke(["reload", "--admin", admin, "--accept-cluster", "other"]) == 2
        assert capsys.readouterr() == ("", "kproxy: there is no cluster other; allowed: default\n")
