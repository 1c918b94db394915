"""`--exit-with` and `POST /quit` on a kproxy that is a process of its own. No cluster: --ready-requires none."""

from __future__ import annotations

import http.client
import json
import os
import re
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.config.values import ExitWith
from kproxy.proxy.app import exitconditions
from kproxy.proxy.app.exitconditions import ExitCondition
from tests.harness.process import Kproxy

Start = Callable[..., Kproxy]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Makes kproxy processes, and ends them."""
    made: list[Kproxy] = []

    def make(*options: str, ready: bool = True) -> Kproxy:
        directory = tmp_path / f"kproxy-{len(made)}"
        made.append(Kproxy(directory, "127.0.0.1:1", "--ready-requires", "none", *options, ready=ready))
        return made[-1]

    yield make
    for proxy in made:
        proxy.stop()


@contextmanager
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler], port: int = 0) -> Iterator[int]:
    """Something that answers; its port."""
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:  # type: ignore[arg-type]  # any will do
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


class NotFound(BaseHTTPRequestHandler):
    """HTTP that knows no page, as a driver's UI does while it starts."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


class HangsUp(socketserver.BaseRequestHandler):
    """What is left of a port-forward: it accepts, and closes."""

    def handle(self) -> None:
        self.request.recv(1)


def ended(proxy: Kproxy, why: str) -> None:
    """It ends by itself, in good order, and says why in one line."""
    assert proxy.process.wait(30) == 0, proxy.log
    assert re.search(rf"{re.escape(why)}.*: stopping; 0 requests in flight$", proxy.log, re.M), proxy.log
    assert proxy.log.count("stopping") == 1


def test_it_ends_when_the_file_is_there(start: Start, tmp_path: Path) -> None:
    proxy = start("--exit-with", str(tmp_path / "ended"))

    (tmp_path / "ended").touch()

    ended(proxy, f"--exit-with {tmp_path}/ended: the file exists")


def test_it_ends_at_once_when_the_file_is_there_already(start: Start, tmp_path: Path) -> None:
    (tmp_path / "ended").mkdir()  # whatever it is

    proxy = start("--exit-with", str(tmp_path / "ended"), ready=False)

    ended(proxy, "the file exists")


def test_it_ends_with_a_process(start: Start) -> None:
    with process() as child:
        proxy = start("--exit-with", str(child.pid))
        child.kill()
        # Nobody has waited for it yet, as in a pod where process 1 does not: what is left of it does not count.
        ended(proxy, f"--exit-with {child.pid}: the process has ended")


def test_the_first_of_several_counts(start: Start, tmp_path: Path) -> None:
    with process() as child:
        proxy = start("--exit-with", str(child.pid), "--exit-with", str(tmp_path / "ended"))
        (tmp_path / "ended").touch()
        ended(proxy, "the file exists")
        assert child.poll() is None


def test_a_process_that_is_not_there_is_a_mistake(start: Start) -> None:
    with process() as child:
        child.kill()

    proxy = start("--exit-with", str(child.pid), ready=False)

    assert proxy.process.wait(30) == 2
    assert proxy.log.startswith(f"kproxy: --exit-with: there is no process {child.pid}; allowed: ")
    assert proxy.log.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="where there is no /proc, nothing tells one from the other")
def test_another_process_with_the_same_id_is_another() -> None:
    ending = ExitCondition(ExitWith("process", str(os.getpid())))
    assert ending._reason() == ""

    ending._birth = "1"

    assert ending._reason() == "the process has ended"
    with pytest.raises(ConfigError):
        ExitCondition(ExitWith("process", str(2**31 - 1)))


def test_it_ends_with_a_url_that_has_answered(start: Start) -> None:
    """Before it has answered once, it may be away for any time; an error is an answer too."""
    asked = threading.Event()

    class Noting(NotFound):
        def do_GET(self) -> None:
            super().do_GET()
            asked.set()

    with serving(HangsUp) as port:
        proxy = start("--exit-with", f"http://127.0.0.1:{port}/jobs")
    with serving(Noting, port):
        assert asked.wait(30)
        assert proxy.process.poll() is None
    ended(proxy, f"--exit-with http://127.0.0.1:{port}/jobs: the URL no longer answers: ")


async def test_a_url_counts_as_gone_after_several_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a row, and after it has answered; never for less."""
    monkeypatch.setattr(exitconditions, "_ASK_AGAIN", 0.0)
    answers = [False] * 5 + [True, False, False, True, False, False, False]
    ask = exitconditions._ask

    async def ask_or_not(url: str) -> None:
        if not answers.pop(0):
            await ask(url)

    monkeypatch.setattr(exitconditions, "_ask", ask_or_not)
    with serving(HangsUp) as port:
        why = await ExitCondition(ExitWith("url", f"http://127.0.0.1:{port}")).wait()
    assert answers == []
    assert why == f"--exit-with http://127.0.0.1:{port}: the URL no longer answers: the answer is not HTTP"


def test_quit(start: Start) -> None:
    proxy = start("--admin-quit")

    assert post(proxy, Origin="http://hostile.example") == 403
    assert post(proxy) == 202

    ended(proxy, "POST /quit")


def test_quit_needs_the_token_if_there_is_one(start: Start, tmp_path: Path) -> None:
    token = "a-token-of-this-test"
    (tmp_path / "token").write_text(f"{token}\n")
    (tmp_path / "token").chmod(0o600)
    proxy = start("--admin-quit", "--admin-token-file", str(tmp_path / "token"), "--log-level", "debug")

    assert [post(proxy), post(proxy, Authorization="Bearer 0123456789abcdef")] == [401, 401]
    assert post(proxy, Authorization=f"Bearer {token}", Origin="http://hostile.example") == 403
    assert json.loads(proxy.get("/status")[1])["draining"] is False
    assert post(proxy, Authorization=f"Bearer {token}") == 202

    ended(proxy, "POST /quit")
    assert token not in proxy.log


def test_there_is_no_quit_unless_it_is_enabled(start: Start) -> None:
    proxy = start()

    assert post(proxy) == 404

    assert json.loads(proxy.get("/status")[1])["draining"] is False


def post(proxy: Kproxy, **headers: str) -> int:
    connection = http.client.HTTPConnection(proxy.admin, timeout=30)
    connection.request("POST", "/quit", headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_exec_ends_with_its_command() -> None:
    command = [sys.executable, "-m", "kproxy", "exec", "-b", "a", "--exit-with", "ended", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "kproxy: kproxy exec stops when its command exits: remove exit-with and admin-quit\n"
