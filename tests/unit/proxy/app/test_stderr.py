"""A reader of kproxy's stderr that stops, is slow, or goes away holds up nothing but the log."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from kproxy.proxy.app import logs, stderr
from kproxy.proxy.app.stderr import ThreadedStderr, threaded_stderr
from tests.harness.process import PATIENCE_S, Kproxy, free_window, wait_until
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.unit.proxy.app.serving import broker


@contextmanager
def full_pipe() -> Iterator[tuple[int, int, int]]:
    """A pipe that takes nothing more: its two ends, and how many bytes are in it."""
    reading, writing = os.pipe()
    size = 0
    os.set_blocking(writing, False)
    try:
        for chunk in (4096, 1):
            try:
                while True:
                    size += os.write(writing, b"-" * chunk)
            except BlockingIOError:
                pass
        os.set_blocking(writing, True)
        yield reading, writing, size
    finally:
        os.close(reading)
        os.close(writing)


def read(descriptor: int, size: int) -> str:
    data = b""
    while len(data) < size:
        data += os.read(descriptor, size - len(data))
    return data.decode()


class _Process(Kproxy):
    """A kproxy whose stderr is this descriptor; None: closed."""

    log = "not read"

    def __init__(self, bootstrap: str, descriptor: int | None, *options: str) -> None:
        first = free_window(3)
        self.admin, self.bootstrap = f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"
        command = [sys.executable, "-m", "kproxy", "run", "-b", bootstrap, "--admin", self.admin]
        command += ["--listen", self.bootstrap, "--node-ports", f"{first + 2}-{first + 2}", *options]
        if descriptor is None:
            command = ["sh", "-c", f"exec {' '.join(command)} 2>&-"]
        self.process = subprocess.Popen(command, stderr=descriptor)


@contextmanager
def running(descriptor: int | None, *options: str) -> Iterator[subprocess.Popen[Any]]:
    """A kproxy that is ready."""
    behave = FakeBroker()
    with Peer(behave) as peer:
        broker(peer, behave)
        proxy = _Process(peer.address, descriptor, *options)
        try:
            proxy.wait_ready()
            yield proxy.process
        finally:
            proxy.process.kill()
            proxy.process.wait()


def test_a_stopped_reader_delays_neither_clients_nor_the_end() -> None:
    with full_pipe() as (_, writing, _), running(writing) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_a_second_signal_ends_it_though_the_reader_has_stopped() -> None:
    with full_pipe() as (_, writing, _), running(writing, "--drain-timeout", "1h") as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        # Which is the second one, if both are there before it looks, is not ours to say.
        assert process.wait(PATIENCE_S) in (0, 128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the files of another process in /proc")
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_after_the_drain_ends_it_too(second: signal.Signals) -> None:
    """It waits then for the reader of its log. Python's own handler of SIGINT would write to stderr, and wait too."""
    with full_pipe() as (_, writing, _), running(writing) as process:
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: not _sockets(process.pid), what="the end of the drain")
        process.send_signal(second)
        assert process.wait(PATIENCE_S) in (0, -second)


def _sockets(pid: int) -> int:
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            count += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
    return count


def test_what_was_logged_before_the_end_is_written() -> None:
    """Also of a reader that comes late."""
    with full_pipe() as (reading, writing, size):
        with running(writing, "--log-format", "json") as process:
            read(reading, size)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        os.set_blocking(reading, False)
        messages = [json.loads(line)["message"] for line in read_all(reading).splitlines()]
        assert messages[0].startswith("kproxy ")
        assert messages[-1] == "SIGTERM: stopping; 0 requests in flight"


def test_kproxy_runs_with_a_closed_stderr() -> None:
    with running(None) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def read_all(descriptor: int) -> str:
    data = b""
    try:
        while more := os.read(descriptor, 65536):
            data += more
    except BlockingIOError:
        pass
    return data.decode()


def test_lines_that_do_not_fit_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr, "MOST", 100)
    with full_pipe() as (reading, writing, size), os.fdopen(os.dup(writing), "w") as stream:
        out = ThreadedStderr(stream)
        out.dropped_text = lambda lines: f"dropped {lines}\n"
        written = [f"{number:3d} " + "x" * 36 + "\n" for number in range(20)]
        for line in written:
            out.write(line)
        assert out.dropped >= 16  # one may be on its way already
        kept = "".join(written[: 20 - out.dropped]) + f"dropped {out.dropped}\n"
        assert read(reading, size + len(kept))[size:] == kept
        out.write("after\n")
        assert read(reading, 6) == "after\n"
        out.finish()


def test_dropped_lines_are_reported_in_the_logs_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr, "MOST", 1)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    with full_pipe() as (reading, writing, size), os.fdopen(os.dup(writing), "w") as stream:
        out = ThreadedStderr(stream)
        log = logs.set_up("json", "info", out)
        try:
            for number in range(10):
                logging.getLogger("kproxy.test").info("line %d", number)
            dropped = log.dropped
            assert dropped >= 8
            os.set_blocking(reading, True)
            read(reading, size)
            out.finish()
        finally:
            root.handlers[:] = before
            root.setLevel(level)
        os.set_blocking(reading, False)
        messages = [json.loads(line)["message"] for line in read_all(reading).splitlines()]
        assert messages[:-1] == [f"line {number}" for number in range(10 - dropped)]
        assert messages[-1] == f"{dropped} lines of the log were dropped: what reads stderr had stopped"


def test_the_end_waits_for_a_reader_that_reads() -> None:
    with full_pipe() as (reading, writing, size), os.fdopen(os.dup(writing), "w") as stream:
        out = ThreadedStderr(stream)
        for number in range(1000):
            out.write(f"{number}\n")
        got: list[str] = []
        total = size + sum(len(f"{number}\n") for number in range(1000))
        reader = threading.Thread(target=lambda: got.append(read(reading, total)))
        reader.start()
        out.finish(PATIENCE_S)
        reader.join()
        assert got[0][size:].split() == [str(number) for number in range(1000)]
        assert out.dropped == 0


def test_a_reader_that_is_gone_costs_its_lines_only() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        out = ThreadedStderr(stream)
        os.close(reading)
        out.write("lost\n")
        wait_until(lambda: out.dropped == 1, "the line is lost")
        out.write("lost too\n")
        out.finish()
        assert out.dropped == 2


def test_a_pipe_that_does_not_block_loses_nothing() -> None:
    """Node.js gives its children such pipes."""
    with full_pipe() as (reading, writing, size), os.fdopen(os.dup(writing), "w") as stream:
        os.set_blocking(writing, False)
        out = ThreadedStderr(stream)
        out.write("a line\n")
        assert read(reading, size + 7)[size:] == "a line\n"
        out.finish()


def test_stderr_that_is_no_file_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    with threaded_stderr() as out:
        assert out is None
        assert sys.stderr is text
