"""A host's proxy without Spark: who shares it, and when it comes and goes. Only processes, and no broker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.process import start_time
from kproxy.spark import host
from kproxy.spark.configuration import build_host_config
from kproxy.spark.host import HostConfig, Lease, join, leave, linger, query_proxy, runtime_path
from kproxy.spark.logtail import LogTail, read_position
from tests.harness.process import free_window, wait_until

pytestmark = pytest.mark.integration

# Longer than any test, in seconds: what needs it fails.
FOR_EVER = 3600.0
SECRET = "only-in-pipes-and-memory"
JOIN = [sys.executable, "-m", "kproxy.spark", "join"]
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
def told(listens: list[str]) -> HostConfig:
    """A configuration on ports of its own, ready without any broker."""
    listens.append(f"127.0.0.1:{free_window(202)}")
    login = {"sasl": "PLAIN", "sasl-username": "spark", "sasl-password": SECRET}
    more = {"listen": listens[-1], "ready-requires": "none", **login}
    return build_host_config({"bootstrap-servers": "127.0.0.1:1", **more})


@pytest.fixture
def user() -> Iterator[User]:
    """Makes processes that use the proxy; they are gone before the proxy must be."""
    with ExitStack() as made:

        def start() -> subprocess.Popen[bytes]:
            process = made.enter_context(subprocess.Popen(["sleep", "600"]))
            made.callback(process.kill)
            return process

        yield start


def test_many_at_once_share_one(told: HostConfig, user: User) -> None:
    users = [user() for _ in range(6)]

    def join_as(process: subprocess.Popen[bytes]) -> str:
        done = subprocess.run(
            [*JOIN, str(process.pid)], input=told.to_json(), capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        *warnings, answer = done.stdout.splitlines()
        assert all(warning.startswith("said ") for warning in warnings)
        return answer

    with ThreadPoolExecutor(len(users)) as threads:
        said = set(threads.map(join_as, users))
    answer = query_proxy(told.listen)
    assert answer is not None
    log = runtime_path(told.listen, "log")
    # Some came before the log was there; what others found there is not new to them.
    mark, size = read_position(log)
    for line in said:
        keeper, bootstrap, marked, at, where, path = line.split()
        assert (int(keeper), bootstrap, where, path) == (answer.keeper, told.listen, socket.gethostname(), str(log))
        assert (marked, at) == ("-", "0") or (marked == mark and int(at) <= size)
    assert {lease["pid"] for lease in answer.leases} == {process.pid for process in users}
    # Those that are killed count no more; the last one keeps it.
    *others, last = users
    for process in others:
        process.kill()
        process.wait()
    wait_until(
        lambda: (now := query_proxy(told.listen)) and [lease["pid"] for lease in now.leases] == [last.pid],
        "one is left",
    )
    leave(told, Lease.of(last.pid))
    assert answer.kproxy is not None
    wait_until(lambda: start_time(answer.keeper) is None and start_time(answer.kproxy or 0) is None, "both have ended")


def test_one_comes_while_the_last_goes(told: HostConfig, user: User) -> None:
    first = join(told, Lease.of(user().pid, "first"))
    leave(told, Lease(**first.leases[0]))
    wait_until(lambda: query_proxy(told.listen) is None, "it ends")
    second = join(told, Lease.of(user().pid))
    assert second.ready("none")
    assert second.keeper != first.keeper
    assert start_time(first.keeper) is None


def test_kproxy_is_killed(told: HostConfig, user: User) -> None:
    before = join(told, Lease.of(user().pid))
    assert before.kproxy is not None
    os.kill(before.kproxy, signal.SIGKILL)
    after = wait_until(
        lambda: (now := query_proxy(told.listen)) and now.ready("none") and now.kproxy != before.kproxy and now, "back"
    )
    assert (after.keeper, after.leases) == (before.keeper, before.leases)


def test_a_long_log_is_emptied(told: HostConfig, user: User) -> None:
    """Whoever reads it loses nothing that is said afterwards."""
    before = join(told, Lease.of(user().pid))
    log = runtime_path(told.listen, "log")
    tail, (marked, _) = LogTail(log, from_end=True), read_position(log)
    os.truncate(log, 5 << 20)
    wait_until(lambda: read_position(log)[0] != marked, "the log is emptied")
    assert before.kproxy is not None
    os.kill(before.kproxy, signal.SIGKILL)
    said = wait_until(tail.look, "its end is said")
    assert f"kproxy (process {before.kproxy}) was ended by a signal" in said[0][1]
    assert log.stat().st_size < 5 << 20


def test_its_keeper_is_killed(told: HostConfig, user: User) -> None:
    """kproxy ends with it, however that ended; the next one that comes starts both."""
    before = join(told, Lease.of(user().pid))
    os.kill(before.keeper, signal.SIGKILL)
    wait_until(lambda: start_time(before.kproxy or 0) is None, "kproxy has ended")
    after = join(told, Lease.of(user().pid))
    assert (after.ready("none"), after.keeper != before.keeper, len(after.leases)) == (True, True, 1)


def test_another_configuration_on_the_same_port(told: HostConfig, user: User) -> None:
    process = user()
    join(told, Lease.of(process.pid, "application_1"))
    words = f"kproxy with another configuration listens on {told.listen} for another application: "
    with pytest.raises(ConfigError, match=rf"{words}process {process.pid} \(application_1\); give this application"):
        join(other(told), Lease.of(user().pid))


def other(told: HostConfig) -> HostConfig:
    """Another configuration at the same address."""
    return HostConfig(told.listen, told.text.replace('"127.0.0.1:1"', '"127.0.0.1:2"'), told.requires)


def test_a_proxy_that_nobody_uses_makes_room_at_once(told: HostConfig, user: User) -> None:
    """The last application has ended, or only lingers; the next one wants another configuration."""
    one, two, three = (Lease.of(user().pid, name) for name in ("one", "two", "three"))
    first = join(told, one)
    leave(told, one)
    second = join(other(told), two)
    assert second.keeper != first.keeper
    assert start_time(first.keeper) is None
    linger(other(told), two)
    assert two.alive
    now = query_proxy(told.listen)
    assert now is not None
    assert (now.keeper, now.leases) == (second.keeper, []), "it lingers, and counts for nobody"
    third = join(told, three)
    assert third.keeper != second.keeper
    assert [lease["name"] for lease in third.leases] == ["three"]


def test_a_proxy_lingers_for_its_process(told: HostConfig, user: User) -> None:
    process = user()
    lease = Lease.of(process.pid)
    before = join(told, lease)
    linger(told, lease)
    # Longer than a keeper stays without a lease.
    wait_until(lambda: (now := query_proxy(told.listen)) and now.ready("none") and not now.leases, "it lingers")
    after = join(told, Lease.of(user().pid))
    assert (after.keeper, after.kproxy) == (before.keeper, before.kproxy)
    again = join(told, lease)
    assert len(again.leases) == 2
    linger(told, lease)
    leave(told, Lease(**after.leases[0]))
    process.kill()
    process.wait()
    wait_until(lambda: start_time(before.keeper) is None, "it ends with the process")


def test_a_failure_does_not_hide_the_next_one_s_cause(told: HostConfig, user: User) -> None:
    host_name, _, port = told.listen.rpartition(":")
    with socket.create_server((host_name, int(port))):
        with pytest.raises(ConfigError, match="the port is taken by another process"):
            join(told, Lease.of(user().pid))
        with pytest.raises(ConfigError, match="the port is taken by another process"):
            join(other(told), Lease.of(user().pid))
    assert join(told, Lease.of(user().pid)).ready("none")


def test_a_directory_of_somebody_else_is_passed_over(
    told: HostConfig, user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, file, own, spare = (tmp_path / name for name in ("taken", "file", "own", "spare"))
    taken.mkdir(mode=0o777)
    taken.chmod(0o777)
    file.touch()
    monkeypatch.setattr(host, "_directories", lambda: iter([taken, file, own, spare]))
    assert runtime_path(told.listen, "sock") == own / f"{told.listen}.sock"
    assert own.stat().st_mode & 0o777 == 0o700
    # Somebody makes room before it: the one that is in use stays in use.
    file.unlink()
    assert runtime_path(told.listen, "sock").parent == own
    if os.getuid() == 0:
        os.chown(own, 12345, 12345)
        assert runtime_path(told.listen, "sock").parent == file
    monkeypatch.setattr(host, "_directories", lambda: iter([taken]))
    with pytest.raises(ConfigError, match=r"not directories of this user alone: remove them$"):
        runtime_path(told.listen, "sock")


def test_another_program_on_the_port(told: HostConfig, user: User) -> None:
    host, _, port = told.listen.rpartition(":")
    with socket.create_server((host, int(port))):
        with pytest.raises(ConfigError, match=f"`listen: {told.listen}`: the port is taken by another process"):
            join(told, Lease.of(user().pid))
        answer = query_proxy(told.listen)
        assert answer is not None
        assert answer.leases == []


def test_not_ready_in_time(told: HostConfig, user: User) -> None:
    waiting = HostConfig(told.listen, told.text.replace('"ready-requires": "none"', '"connect-timeout": "1s"'))
    lease = Lease.of(user().pid)

    def why() -> str:
        with pytest.raises(UpstreamError, match=r"kproxy is not ready after 0\.2 s: ") as late:
            join(waiting, lease, timeout=0.2)
        return str(late.value)

    wait_until(
        lambda: "cluster default: no bootstrap server answers: 127.0.0.1:1: connection refused" in why(),
        "what is wrong is said",
    )
    answer = query_proxy(told.listen)
    assert answer is not None
    assert len(answer.leases) == 1  # it goes on trying


def test_what_hinders_a_join_is_said_while_it_waits(told: HostConfig) -> None:
    """Where a broker may come yet, and where waiting does not help, which ends it at once: two processes that ask have
    the same lines of one log."""
    text = told.text.replace('"ready-requires": "none"', '"connect-timeout": "1s"')
    may_come = HostConfig(told.listen, text)
    said = wait_for_said(may_come)
    assert said[1] == socket.gethostname()
    assert said[4].startswith("cluster default: no bootstrap server answers: 127.0.0.1:1: connection refused")
    assert said[2] == read_position(runtime_path(told.listen, "log"))[0]
    never = HostConfig(told.listen, text.replace('"127.0.0.1:1"', '"kafka-1.invalid:9092"'))
    done = subprocess.run(
        [*JOIN, str(os.getpid()), str(FOR_EVER)], input=never.to_json(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"{socket.gethostname()}: cluster default: no bootstrap server answers: kafka-1.invalid:9092:"
        " the name 'kafka-1.invalid' cannot be resolved here\n"
    )
    leave(never, Lease.of(os.getpid()))


def wait_for_said(told: HostConfig) -> list[str]:
    """The words of the first warning, while the join goes on; it is ended then."""
    with (
        subprocess.Popen(["sleep", "600"]) as user,
        subprocess.Popen(
            [*JOIN, str(user.pid), str(FOR_EVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as join,
    ):
        try:
            assert join.stdin is not None
            assert join.stdout is not None
            with join.stdin as stdin:
                stdin.write(told.to_json())
            return join.stdout.readline().removesuffix("\n").split(" ", 4)
        finally:
            join.kill()
            leave(told, Lease.of(user.pid))
            user.kill()


def test_a_join_is_given_up(told: HostConfig, user: User) -> None:
    """While kproxy cannot be ready, and while another keeper is in the way that neither answers nor ends."""
    waiting = HostConfig(told.listen, told.text.replace('"ready-requires": "none"', '"connect-timeout": "1s"'))
    unwanted = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        joined = thread.submit(join, waiting, Lease.of(user().pid), FOR_EVER, unwanted.is_set)
        wait_until(lambda: (now := query_proxy(told.listen)) and now.leases, "it waits")
        unwanted.set()
        with pytest.raises(UpstreamError, match="kproxy is not wanted any more"):
            joined.result()
    before = query_proxy(told.listen)
    assert before is not None
    os.kill(before.keeper, signal.SIGSTOP)
    try:
        runtime_path(told.listen, "sock").unlink()
        unwanted.clear()
        with ThreadPoolExecutor(1) as thread:
            joined = thread.submit(join, told, Lease.of(user().pid), FOR_EVER, unwanted.is_set)
            wait_until(lambda: children("kproxy.spark.keeper"), "a keeper waits")
            unwanted.set()
            with pytest.raises(UpstreamError, match="kproxy is not wanted any more"):
                joined.result()
        assert not children("kproxy.spark.keeper")
    finally:
        os.kill(before.keeper, signal.SIGKILL)
        os.kill(before.keeper, signal.SIGCONT)
    # A keeper that was killed leaves its files to the next one.
    lease = Lease.of(user().pid)
    join(told, lease)
    leave(told, lease)


def children(module: str) -> set[int]:
    """The processes that this one has started with `python -m MODULE`."""
    found = set()
    for child in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread or a child that has ended meanwhile
            for pid in child.read_text().split():
                words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
                found |= {int(pid)} if module in words else set()
    return found


def test_secrets_are_in_pipes_and_memory(told: HostConfig, user: User) -> None:
    answer = join(told, Lease.of(user().pid))
    places = [Path(f"/proc/{pid}/{what}") for pid in (answer.keeper, answer.kproxy) for what in ("cmdline", "environ")]
    kept = files(told.listen)
    assert {path.suffix for path in kept} == {".lock", ".log", ".sock"}
    for path in [*places, *(one for one in kept if one.is_file())]:
        assert SECRET not in path.read_text()
    assert all(path.stat().st_mode & 0o77 == 0 for path in [kept[0].parent, *kept])


def test_a_process_that_is_not_there(told: HostConfig) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(ConfigError, match=f"there is no process {process.pid} that could use kproxy"):
        Lease.of(process.pid)
    assert query_proxy(told.listen) is None
