"""A host's proxy without Spark: who shares it, and when it comes and goes. Only processes, and no broker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.errors import ConfigError, UpstreamError
from kproxy.process import birth
from kproxy.spark.configuration import shipped
from kproxy.spark.host import Lease, Shipped, join, leave, look
from tests.harness.process import free_window, wait_until

pytestmark = pytest.mark.integration

SECRET = "only-in-pipes-and-memory"
User = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def listens() -> Iterator[list[str]]:
    """Where the tests' proxies listened. At the end nothing is left; that all wait for it at once saves a minute."""
    used: list[str] = []
    yield used
    wait_until(lambda: not [file for listen in used for file in files(listen)], "nothing is left")


def files(listen: str) -> list[Path]:
    return list(Path(f"/tmp/kproxy-spark-{os.getuid()}").glob(f"{listen}.*"))


@pytest.fixture
def told(listens: list[str]) -> Shipped:
    """A configuration on ports of its own, ready without any broker."""
    listens.append(f"127.0.0.1:{free_window(202)}")
    login = {"sasl": "PLAIN", "sasl-username": "spark", "sasl-password": SECRET}
    more = {"listen": listens[-1], "ready-requires": "none", **login}
    return shipped({"bootstrap-servers": "127.0.0.1:1", **more})


@pytest.fixture
def user() -> Iterator[User]:
    """Makes processes that use the proxy; they are gone before the proxy must be."""
    with ExitStack() as made:

        def start() -> subprocess.Popen[bytes]:
            process = made.enter_context(subprocess.Popen(["sleep", "600"]))
            made.callback(process.kill)
            return process

        yield start


def test_many_at_once_share_one(told: Shipped, user: User) -> None:
    users = [user() for _ in range(6)]
    command = [sys.executable, "-m", "kproxy.spark", "join"]

    def join_as(process: subprocess.Popen[bytes]) -> str:
        done = subprocess.run(
            [*command, str(process.pid)], input=told.to_json(), capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    with ThreadPoolExecutor(len(users)) as threads:
        said = set(threads.map(join_as, users))
    answer = look(told.listen)
    assert answer is not None
    assert said == {f"{answer.keeper} {told.listen}\n"}
    assert {lease["pid"] for lease in answer.leases} == {process.pid for process in users}
    # Those that are killed count no more; the last one keeps it.
    *others, last = users
    for process in others:
        process.kill()
        process.wait()
    wait_until(
        lambda: (now := look(told.listen)) and [lease["pid"] for lease in now.leases] == [last.pid], "one is left"
    )
    leave(told, Lease.of(last.pid))
    assert answer.kproxy is not None
    wait_until(lambda: birth(answer.keeper) is None and birth(answer.kproxy or 0) is None, "both have ended")


def test_one_comes_while_the_last_goes(told: Shipped, user: User) -> None:
    first = join(told, Lease.of(user().pid, "first"))
    leave(told, Lease(**first.leases[0]))
    wait_until(lambda: look(told.listen) is None, "it ends")
    second = join(told, Lease.of(user().pid))
    assert second.ready
    assert second.keeper != first.keeper
    assert birth(first.keeper) is None


def test_kproxy_is_killed(told: Shipped, user: User) -> None:
    before = join(told, Lease.of(user().pid))
    assert before.kproxy is not None
    os.kill(before.kproxy, signal.SIGKILL)
    after = wait_until(lambda: (now := look(told.listen)) and now.ready and now.kproxy != before.kproxy and now, "back")
    assert (after.keeper, after.leases) == (before.keeper, before.leases)


def test_its_keeper_is_killed(told: Shipped, user: User) -> None:
    """kproxy ends with it, however that ended; the next one that comes starts both."""
    before = join(told, Lease.of(user().pid))
    os.kill(before.keeper, signal.SIGKILL)
    wait_until(lambda: birth(before.kproxy or 0) is None, "kproxy has ended")
    after = join(told, Lease.of(user().pid))
    assert (after.ready, after.keeper != before.keeper, len(after.leases)) == (True, True, 1)


def test_another_configuration_on_the_same_port(told: Shipped, user: User) -> None:
    join(told, Lease.of(user().pid))
    other = Shipped(told.listen, told.text.replace("127.0.0.1:1", "127.0.0.1:2"))
    with pytest.raises(ConfigError, match=f"kproxy with another configuration listens on {told.listen} for another"):
        join(other, Lease.of(user().pid))


def test_another_program_on_the_port(told: Shipped, user: User) -> None:
    host, _, port = told.listen.rpartition(":")
    with socket.create_server((host, int(port))):
        with pytest.raises(ConfigError, match=f"--listen {told.listen}: the port is taken by another process"):
            join(told, Lease.of(user().pid))
        answer = look(told.listen)
        assert answer is not None
        assert answer.leases == []


def test_not_ready_in_time(told: Shipped, user: User) -> None:
    waiting = Shipped(told.listen, told.text.replace('"ready-requires": "none"', '"connect-timeout": "1s"'))
    lease = Lease.of(user().pid)

    def why() -> str:
        with pytest.raises(UpstreamError, match=r"kproxy is not ready after 0\.2 s: ") as late:
            join(waiting, lease, timeout=0.2)
        return str(late.value)

    wait_until(
        lambda: "cluster default: no bootstrap server answers: 127.0.0.1:1: connection refused" in why(),
        "what is wrong is said",
    )
    answer = look(told.listen)
    assert answer is not None
    assert len(answer.leases) == 1  # it goes on trying


def test_secrets_are_in_pipes_and_memory(told: Shipped, user: User) -> None:
    answer = join(told, Lease.of(user().pid))
    places = [Path(f"/proc/{pid}/{what}") for pid in (answer.keeper, answer.kproxy) for what in ("cmdline", "environ")]
    kept = files(told.listen)
    assert {path.suffix for path in kept} == {".lock", ".log", ".sock"}
    for place in [*places, *(path for path in kept if path.is_file())]:
        assert SECRET not in place.read_text()
    assert all(path.stat().st_mode & 0o77 == 0 for path in [kept[0].parent, *kept])


def test_a_process_that_is_not_there(told: Shipped) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(ConfigError, match=f"there is no process {process.pid} that could use kproxy"):
        Lease.of(process.pid)
    assert look(told.listen) is None
