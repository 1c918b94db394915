"""`kproxy up`, `down` and `list` from a clean home directory, with a kproxy that really runs."""

from __future__ import annotations

import contextlib
import json
import os
import plistlib
import pty
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.base.process import start_time
from kproxy.cli import invoke
from kproxy.cli.profiles import background, paths, ports, units
from tests.harness.process import free_window, wait_until
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.harness.tls import Authority

NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is there, and what is begun ends with the test."""
    for variable in [name for name in os.environ if name.startswith(("KPROXY_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ports, "_SIZE", 10)
    monkeypatch.setattr(ports, "_FIRST", free_window(50))
    yield tmp_path
    for record in tmp_path.rglob("running.json"):
        one = background.running(record.parent.name)
        if one is not None:
            os.kill(one.pid, signal.SIGKILL)
            reap(one.pid)


def reap(pid: int) -> None:
    """Its parent is this process, other than in real life."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


@pytest.fixture
def broker() -> Iterator[str]:
    said = FakeBroker()
    with Peer(said) as peer:
        host, _, port = peer.address.rpartition(":")
        said.nodes = [(1, host, int(port))]
        yield peer.address


def write(name: str, text: str) -> None:
    paths.profiles_directory().mkdir(parents=True, exist_ok=True)
    (paths.profiles_directory() / f"{name}.yaml").write_text(text)


def pid_of(name: str) -> int:
    one = background.running(name)
    assert one is not None
    return one.pid


def admin_of(name: str) -> str:
    one = background.running(name)
    assert one is not None
    return one.admin


def test_up_list_down(broker: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("staging", f"bootstrap-servers: {broker}\n")
    assert invoke(["up", "@staging"]) == 0
    out, err = capsys.readouterr()
    first = ports._FIRST
    log = home / ".local/state/kproxy/staging/log"
    assert out.splitlines() == [
        f"cluster default: bootstrap.servers=127.0.0.1:{first + 1}",
        f"status page: http://127.0.0.1:{first}/",
        f"log: {log}",
        "kproxy down @staging ends it",
    ]
    assert err == ""
    assert "ready" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700
    assert invoke(["list"]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith(f"@staging  ready, process id {pid_of('staging')}, since 20")
    assert f"  cluster default: bootstrap.servers=127.0.0.1:{first + 1}" in out.splitlines()
    pid = pid_of("staging")
    assert invoke(["up", "@staging"]) == 0
    assert f"@staging runs already, with process id {pid}" in capsys.readouterr().out
    assert invoke(["down", "@staging"]) == 0
    assert capsys.readouterr().out == "@staging has ended\n"
    assert start_time(pid) is None
    assert "SIGTERM: stopping" in log.read_text(), "in good order"
    reap(pid)
    assert invoke(["down", "@staging"]) == 0
    assert capsys.readouterr().out == "@staging does not run in the background\n"
    assert invoke(["list"]) == 0
    assert capsys.readouterr().out == "@staging  does not run\n"


def test_several_at_once_have_ports_of_their_own_and_keep_them(broker: str) -> None:
    names = ["a", "b", "c"]
    for name in names:
        write(name, f"bootstrap-servers: {broker}\n")
    codes = dict.fromkeys(names, -1)

    def begin(name: str) -> None:
        codes[name] = invoke(["up", f"@{name}"])

    threads = [threading.Thread(target=begin, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes.values()) == {0}
    firsts = [admin_of(name) for name in names]
    assert len(set(firsts)) == 3
    for name in names:
        pid = pid_of(name)
        assert invoke(["down", f"@{name}"]) == 0
        reap(pid)
    for name in reversed(names):
        assert invoke(["up", f"@{name}"]) == 0
    assert [admin_of(name) for name in names] == firsts


def test_ports_that_the_profile_has_are_its_own(broker: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = free_window(202)
    write("own", f"bootstrap-servers: {broker}\nlisten: 127.0.0.1:{first + 1}\nadmin: 127.0.0.1:{first}\n")
    assert invoke(["up", "@own"]) == 0
    assert f"bootstrap.servers=127.0.0.1:{first + 1}" in capsys.readouterr().out
    assert not list(paths.state_directory().rglob("ports.json"))


@pytest.mark.parametrize("where", ["profile", "flags"])
def test_an_admin_endpoint_with_tls_and_a_token(
    broker: str, home: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    cert, key = Authority(home).files("kproxy.example")
    (home / "token").write_text("a-token-that-nobody-guesses")
    (home / "token").chmod(0o600)
    own = {"admin-token-file": home / "token", "admin-tls-cert": cert, "admin-tls-key": key}
    flags = [word for name, value in own.items() for word in (f"--{name}", str(value))] if where == "flags" else []
    written = "".join(f"{name}: {value}\n" for name, value in own.items()) if where == "profile" else ""
    write("safe", f"bootstrap-servers: {broker}\n{written}")
    assert invoke(["up", "@safe", *flags]) == 0
    first = ports._FIRST
    wanted = f"cluster default: bootstrap.servers=127.0.0.1:{first + 1}"
    if where == "profile":
        assert wanted in capsys.readouterr().out.splitlines()
    assert invoke(["list"]) == 0
    out = capsys.readouterr().out
    assert "@safe  ready" in out
    assert f"status page: https://127.0.0.1:{first}/" in out


def test_flags_beside_the_profile(broker: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("a", f"bootstrap-servers: {NOBODY}\n")
    assert invoke(["up", "@a", "-b", broker, "--cluster-id", "fake"]) == 0
    assert invoke(["up", "@a", "-c", "other.yaml"]) == 2
    assert "-c cannot be combined with a profile" in capsys.readouterr().err


def test_somebody_listens_at_its_ports(broker: str) -> None:
    """Another program has taken them since: it gets others."""
    write("a", f"bootstrap-servers: {broker}\n")
    with socket.create_server(("127.0.0.1", ports._FIRST + 1)):
        assert invoke(["up", "@a"]) == 0
    assert admin_of("a") == f"127.0.0.1:{ports._FIRST + 10}"


def test_not_ready_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """It goes on, since the cluster may come back."""
    write("a", f"bootstrap-servers: {NOBODY}\n")
    assert invoke(["up", "@a", "--timeout", "500ms"]) == 1
    out, err = capsys.readouterr()
    assert "@a runs, but is not ready after 0.5 s: " in err
    assert "kproxy down @a ends it" in out
    assert invoke(["list"]) == 0
    assert "@a  not ready, process id " in capsys.readouterr().out


def test_it_ends_at_once(capsys: pytest.CaptureFixture[str], broker: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        write("a", f"bootstrap-servers: {broker}\nlisten: {listen}\n")
        assert invoke(["up", "@a"]) == 1
    err = capsys.readouterr().err
    assert f"--listen {listen}: the port is taken" in err
    assert "@a has ended with exit code 2 (log: " in err
    assert background.running("a") is None


def test_it_ends_at_once_where_nobody_is_told_of_children(broker: str) -> None:
    """A script may ignore SIGCHLD, and its children do then: the system keeps no exit code."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        write("a", f"bootstrap-servers: {broker}\nlisten: 127.0.0.1:{taken.getsockname()[1]}\n")
        code = (
            "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
            f"from kproxy.cli.profiles import ports; ports._FIRST = {ports._FIRST}\n"
            "from kproxy.cli import invoke; sys.exit(invoke(['up', '@a']))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "the port is taken" in done.stderr
    assert "@a has ended (log: " in done.stderr
    assert background.running("a") is None


def test_mistakes_are_said_before_anything_begins(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    write("a", "bootstrap-servers: a:b\n")
    assert invoke(["up", "@a"]) == 2
    assert "a.yaml:1: bootstrap-servers" in capsys.readouterr().err
    write("a", f"bootstrap-servers: {NOBODY}\nadmin: off\n")
    assert invoke(["up", "@a"]) == 2
    assert "a.yaml:2: is off, and kproxy up asks it" in capsys.readouterr().err
    assert not list(home.rglob("log"))


@pytest.mark.parametrize("command", ["up", "down", "run"])
@pytest.mark.parametrize("word", ["@", "@../a", "@a/b", "@A", "@-a", "@" + "a" * 64, "@a\n", "@nobody"])
def test_no_profile(command: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    if command == "down" and word == "@nobody":
        assert invoke([command, word]) == 0
        return
    assert invoke([command, word]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "names no profile; allowed: @ and 1 to 63" in line or "there is no profile @nobody; write " in line


def test_a_profile_in_this_terminal_and_for_other_commands(broker: str) -> None:
    write("staging", f"bootstrap-servers: {broker}\n")
    for words, code in ((["--", "sh", "-c", 'test -n "$KPROXY_BOOTSTRAP"'], 0), (["--timeout", "20s", "false"], 1)):
        command = [sys.executable, "-m", "kproxy", "exec", "@staging", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr


def test_what_is_kept_is_nonsense(broker: str) -> None:
    """It counts as nothing, and is written anew."""
    write("a", f"bootstrap-servers: {broker}\n")
    folder = paths.profile_directory("a")
    me = {"pid": os.getpid(), "born": "1", "admin": NOBODY, "since": 0.0}
    for text in ("", "[]", "{", "[" * 100_000, '{"pid": "x"}', json.dumps(me), json.dumps({**me, "pid": 1e99}),
                 json.dumps({**me, "pid": 0, "born": ""}), json.dumps({**me, "admin": "x"})):  # fmt: skip
        (folder / "running.json").write_text(text)
        (folder / "ports.json").write_text(text)
        assert background.running("a") is None
        assert invoke(["down", "@a"]) == 0, "and nobody is killed"
    for first in ("x", -300, 1, ports._FIRST + 7, ports._FIRST + 300_000, None, True):
        (folder / "ports.json").write_text(json.dumps({"first": first}))
        assert ports.window("a").first == ports._FIRST
    assert invoke(["up", "@a"]) == 0


def test_all_windows_are_taken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ports, "_WINDOWS", 0)
    write("a", f"bootstrap-servers: {NOBODY}\n")
    assert invoke(["up", "@a"]) == 2
    assert "no window of ports is free" in capsys.readouterr().err


def test_a_long_log_begins_anew(broker: str) -> None:
    write("a", f"bootstrap-servers: {broker}\n")
    log = paths.profile_directory("a") / "log"
    with log.open("wb") as file:
        file.truncate(background._LONG_LOG + 1)
    assert invoke(["up", "@a"]) == 0
    assert log.stat().st_size < 100_000
    assert (log.parent / "log.1").stat().st_size == background._LONG_LOG + 1


def test_the_terminal_is_closed(broker: str, home: Path) -> None:
    """Whoever began it in a terminal is gone, and so is the terminal."""
    write("a", f"bootstrap-servers: {broker}\nadmin: 127.0.0.1:{ports._FIRST}\nlisten: 127.0.0.1:{ports._FIRST + 1}\n")
    terminal, other_side = pty.openpty()
    command = ["setsid", "--ctty", "--wait", sys.executable, "-m", "kproxy", "up", "@a"]
    done = subprocess.run(command, stdin=other_side, stdout=other_side, stderr=other_side, timeout=60, check=False)
    os.close(other_side)
    os.close(terminal)
    assert done.returncode == 0
    one = background.running("a")
    assert one is not None
    time.sleep(0.3)  # a SIGHUP would have ended it by now
    assert one.lives
    assert not background.AdminAccess().client(one, 5.0).wait_ready(5, "one")
    assert invoke(["down", "@a"]) == 0
    assert not one.lives


def test_down_waits_no_longer_than_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    write("a", f"bootstrap-servers: {NOBODY}\n")
    invoke(["up", "@a", "--timeout", "5s", "--ready-requires", "none"])
    pid = pid_of("a")
    os.kill(pid, signal.SIGSTOP)
    assert invoke(["down", "@a", "--timeout", "200ms"]) == 1
    assert f"@a (process id {pid}) has not ended within 0.2 s" in capsys.readouterr().err
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: start_time(pid) is None, "it ends")


def test_no_profile_at_all(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert invoke(["list"]) == 0
    assert capsys.readouterr().out.startswith(f"no profile in {home}/.config/kproxy: write NAME.yaml there")


def test_other_places(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "conf"))
    monkeypatch.setenv("XDG_STATE_HOME", "relative/does/not/count")
    assert paths.profiles_directory() == home / "conf/kproxy"
    assert paths.state_directory() == home / ".local/state/kproxy"


def test_a_unit_of_systemd(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("staging", f"bootstrap-servers: {NOBODY}\n")
    assert invoke(["up", "@staging", "--write-unit", "systemd", "--cluster-id", 'a "$b" 100%']) == 0
    unit = home / ".config/systemd/user/kproxy-staging.service"
    assert f"wrote {unit}; to use it: systemctl --user daemon-reload && " in capsys.readouterr().out
    text = unit.read_text()
    assert '"--cluster-id" "a \\"$$b\\" 100%%"' in text
    assert f'"--listen" "127.0.0.1:{ports._FIRST + 1}"' in text
    assert background.running("staging") is None, "nothing was begun"
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        done = subprocess.run([analyze, "verify", "--user", str(unit)], capture_output=True, text=True, check=False)
        assert "kproxy-staging" not in done.stderr, done.stderr


def test_a_file_of_launchd(home: Path) -> None:
    write("staging", f"bootstrap-servers: {NOBODY}\n")
    assert invoke(["up", "@staging", "--write-unit", "launchd"]) == 0
    content = plistlib.loads((home / "Library/LaunchAgents/kproxy.staging.plist").read_bytes())
    assert content["Label"] == "kproxy.staging"
    assert content["ProgramArguments"][1:6] == ["-m", "kproxy", "run", "-c", str(paths.profile("@staging"))]


def test_the_words_of_systemd() -> None:
    assert units._quoted('a\\b"c$d%e') == '"a\\\\b\\"c$$d%%e"'
