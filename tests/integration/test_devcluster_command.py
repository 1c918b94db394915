"""`kproxy devcluster`: what it prints works as it stands, it outlives a broker, and leaves nothing."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.harness.process import Kproxy, wait_until

pytestmark = pytest.mark.integration

LAST = "Ctrl-C ends the cluster."


@contextmanager
def devcluster(directory: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """The command, with a temporary directory of its own, so that what it leaves is seen."""
    with subprocess.Popen(
        [sys.executable, "-m", "kproxy", "devcluster", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(directory), "PYTHONUNBUFFERED": "1", "KPROXY_LISTEN": "nonsense"},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Its lines up to the one with this text."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(f"it never said {text!r}:\n" + "\n".join(lines))


def children(process: subprocess.Popen[str], name: str) -> list[int]:
    """The processes of the cluster whose command line has this name."""
    found = []
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        for pid in map(int, (task / "children").read_text().split()):
            if name in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_each_line_works_as_it_stands_and_a_broker_may_die(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with devcluster(place, "--brokers", "2") as process:
        lines = until(process, LAST)
        commands = [shlex.split(line)[3:] for line in lines if line.startswith("  $ kproxy run ")]
        assert len(commands) == 3
        for number, (dash_b, bootstrap, *flags) in enumerate(commands):
            assert dash_b == "-b"
            with Kproxy(tmp_path / str(number), bootstrap, *flags, forbidden=["cluster.internal"]) as proxy:
                brokers = AdminClient({"bootstrap.servers": proxy.bootstrap}).list_topics(timeout=30).brokers
                assert {(one.host, one.port) for one in brokers.values()} == {
                    ("127.0.0.1", proxy.first_port + 1),
                    ("127.0.0.1", proxy.first_port + 2),
                }
        (broker,) = children(process, "node-2/kafka.properties")
        os.kill(broker, signal.SIGKILL)
        assert until(process, "broker 2 ended")[-1].strip(" ✗x").startswith("broker 2 ended with signal 9: ")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert "stopping the brokers" in said
    assert process.returncode == 0
    assert list(place.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_on_localhost_it_needs_no_kproxy_and_ends_with_brokers(tmp_path: Path) -> None:
    with devcluster(tmp_path, "--brokers", "1", "--localhost") as process:
        lines = until(process, LAST)
        (bootstrap,) = (line.split()[-1] for line in lines if ". PLAINTEXT: " in line)
        (ca,) = (line.split()[1] for line in lines if line.startswith("  CA: "))
        (tls,) = (line.split()[-1] for line in lines if ". SSL: " in line)
        for settings in (
            {"bootstrap.servers": bootstrap},
            {"bootstrap.servers": tls, "security.protocol": "ssl", "ssl.ca.location": ca},
        ):
            (broker,) = AdminClient(settings).list_topics(timeout=30).brokers.values()
            assert (broker.host, str(broker.port)) == ("localhost", settings["bootstrap.servers"].rpartition(":")[2])
        os.kill(children(process, "node-1/kafka.properties")[0], signal.SIGKILL)
        until(process, "no broker is left")
        process.communicate(timeout=60)
    assert process.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_kill_leaves_nothing(tmp_path: Path) -> None:
    with devcluster(tmp_path, "--brokers", "1") as process:
        until(process, "starting brokers")
        process.kill()
    # The watchdogs clean up; the directory goes last.
    wait_until(lambda: not list(tmp_path.iterdir()), "everything is gone")
