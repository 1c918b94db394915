"""`kproxy exec` as a real process, with a command that is one. No cluster: --ready-requires none starts at once."""

from __future__ import annotations

import json
import os
import pty
import resource
import select
import shlex
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.app.exec import NOT_EXECUTABLE, NOT_FOUND, NOT_READY

pytestmark = pytest.mark.usefixtures("hang_ups_reach_children")

AT_ONCE = ["-b", "127.0.0.1:1", "--ready-requires", "none", "--log-level", "error"]

# Says that it has started, then each signal that it gets; ends by SIGTERM with code 9.
SAYS_SIGNALS = """
import os, signal, sys
def got(number, _):
    os.write(1, f"{signal.Signals(number).name}\\n".encode())
    if number == signal.SIGTERM:
        os._exit(9)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), got)
os.write(1, b"started\\n")
while True:
    signal.pause()
"""
NAMES = ["SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTERM"]


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")} | more


def command(*words: str, options: Sequence[str] = AT_ONCE) -> list[str]:
    return [sys.executable, "-m", "kproxy", "exec", *options, "--", *words]


def python(program: str, *words: str) -> list[str]:
    return [sys.executable, "-c", program, *words]


def kproxy_exec(
    *words: str, options: Sequence[str] = AT_ONCE, env: dict[str, str] | None = None, input: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(
        command(*words, options=options),
        input=input, env=environment(**(env or {})), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def show(what: str) -> list[str]:
    """A command that prints a Python expression as JSON."""
    return python(f"import json, os, sys, signal, resource; print(json.dumps({what}))")


@contextmanager
def started(words: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """In a session of its own, all of which is gone at the end: a kproxy that is killed leaves its command behind."""
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True, **how
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def heard(process: subprocess.Popen[str]) -> str:
    """The next line of the command."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


# What the command is given


def test_the_bootstrap_server_is_in_environment_and_arguments() -> None:
    done = kproxy_exec(
        *show("[sys.argv[1:], dict(os.environ)]"), "-b", "{bootstrap}", "x={bootstrap:default}", "{other}"
    )
    assert (done.returncode, done.stderr) == (0, "")
    words, env = json.loads(done.stdout)
    bootstrap = env["KAFKA_BOOTSTRAP_SERVERS"]
    assert words == ["-b", bootstrap, f"x={bootstrap}", "{other}"]
    assert bootstrap.startswith("127.0.0.1:")
    assert env["KPROXY_BOOTSTRAP"] == env["KPROXY_BOOTSTRAP_DEFAULT"] == bootstrap


def test_what_configures_kproxy_is_not_passed_on() -> None:
    env = {"KPROXY_CONNECT_TIMEOUT": "1s", "KPROXY_MAP": "a=b", "OTHER": "x"}
    told = json.loads(kproxy_exec(*show("dict(os.environ)"), env=env).stdout)
    assert told["OTHER"] == "x"
    assert not told.keys() & {"KPROXY_CONNECT_TIMEOUT", "KPROXY_MAP"}


def test_the_proxy_listens_where_the_command_is_told() -> None:
    program = (
        "import os, socket; h, p = os.environ['KPROXY_BOOTSTRAP'].split(':'); socket.create_connection((h, int(p)))"
    )
    assert kproxy_exec(*python(program)).returncode == 0


def test_listen_can_be_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = kproxy_exec("echo", "{bootstrap}", options=[*AT_ONCE, "--listen", f"127.0.0.1:{port}"])
    assert done.stdout == f"127.0.0.1:{port}\n"


def test_several_clusters_have_their_names(tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text(
        "clusters:\n  - name: orders\n    bootstrap-servers: 127.0.0.1:1\n"
        "  - name: billing-eu\n    bootstrap-servers: 127.0.0.1:1\nready-requires: none\n"
    )
    done = kproxy_exec(
        *show("[sys.argv[1:], dict(os.environ)]"), "{bootstrap}", "{bootstrap:orders}", "{bootstrap:billing-eu}",
        options=["-c", str(file), "--log-level", "error"],
    )  # fmt: skip
    words, env = json.loads(done.stdout)
    assert words[0] == words[1] != words[2]
    assert [env["KPROXY_BOOTSTRAP_ORDERS"], env["KPROXY_BOOTSTRAP_BILLING_EU"]] == words[1:]
    assert env["KAFKA_BOOTSTRAP_SERVERS"] == env["KPROXY_BOOTSTRAP"] == words[0]


def test_an_unknown_cluster_is_a_mistake() -> None:
    done = kproxy_exec("echo", "{bootstrap:orders}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kproxy: {bootstrap:orders}: no cluster has that name; the clusters are default\n"


def test_nested_kproxy_exec_is_not_confused_by_its_variables() -> None:
    """Though everywhere else an unknown variable is a mistake."""
    check = [sys.executable, "-m", "kproxy", "config", "show", "-b", "a"]
    assert kproxy_exec(*check).returncode == 0
    alone = subprocess.run(check, env=environment(KPROXY_BOOTSTRAP_SERVER="a"), capture_output=True, check=False)
    assert alone.returncode == 2


def test_stdin_and_stdout_are_the_command_s() -> None:
    """Even with everything logged."""
    options = ["-b", "127.0.0.1:1", "--ready-requires", "none", "--log-level", "debug"]
    done = kproxy_exec("cat", options=options, input="through\n")
    assert (done.returncode, done.stdout) == (0, "through\n")
    assert "listening on" in done.stderr


def test_it_says_nothing_by_default() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = ["-b", "{}:{}".format(*silent.getsockname()), "--ready-requires", "none"]
        done = kproxy_exec("true", options=options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_command_has_the_limits_that_kproxy_had() -> None:
    """Of open files kproxy takes all that it can have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with_limit = ["sh", "-c", 'ulimit -S -n 300; exec "$@"', "sh"]
    words = command(*show("resource.getrlimit(resource.RLIMIT_NOFILE)"))
    done = subprocess.run([*with_limit, *words], env=environment(), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [300, hard]


def test_what_is_ignored_stays_so() -> None:
    """As under nohup."""
    with started(["nohup", *command(*python(SAYS_SIGNALS, "SIGTERM"))], stdin=subprocess.DEVNULL) as process:
        assert heard(process) == "started"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert heard(process) == "SIGTERM"
        assert process.wait(30) == 9
    done = subprocess.run(
        ["nohup", *command(*show("signal.getsignal(signal.SIGHUP) == signal.SIG_IGN"))],
        env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "true\n"


# How it ends


@pytest.mark.parametrize("code", [0, 77])
def test_the_exit_code_is_the_command_s(code: int) -> None:
    assert kproxy_exec("sh", "-c", f"exit {code}").returncode == code


def test_a_command_that_a_signal_ended() -> None:
    assert kproxy_exec("sh", "-c", "kill -9 $$").returncode == 128 + 9


def test_a_command_that_is_not_there() -> None:
    done = kproxy_exec("no-such-command")
    assert (done.returncode, done.stderr) == (NOT_FOUND, "kproxy: no-such-command: command not found\n")


def test_a_command_that_cannot_be_executed(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    done = kproxy_exec(str(tmp_path / "plain"))
    assert done.returncode == NOT_EXECUTABLE
    assert done.stderr == f"kproxy: {tmp_path}/plain: cannot be executed: Permission denied\n"


def test_a_cluster_that_is_not_reached_in_time(tmp_path: Path) -> None:
    options = ["-b", "no-such-host.invalid:9092", "--timeout", "300ms", "--log-level", "error"]
    done = kproxy_exec("touch", str(tmp_path / "ran"), options=options)
    assert (done.returncode, done.stdout) == (NOT_READY, "")
    assert done.stderr.startswith("kproxy: not ready after 0.3 s, so the command is not run: cluster default: ")
    assert done.stderr.endswith("no-such-host.invalid:9092: the name 'no-such-host.invalid' cannot be resolved here\n")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("level", "above"), [("warning", 1), ("error", 0)])
def test_why_a_cluster_is_not_reached_is_said_once(level: str, above: int, tmp_path: Path) -> None:
    """By the log, or else at the end; bootstrap servers and brokers alike."""
    options = ["-b", "127.0.0.1:1", "--timeout", "1s", "--log-level", level]
    done = kproxy_exec("touch", str(tmp_path / "ran"), options=options)
    assert done.returncode == NOT_READY
    assert done.stderr.count("127.0.0.1:1: connection refused") == 1
    assert done.stderr.count("the lines above say why") == above
    assert done.stderr.splitlines()[-1].startswith("kproxy: not ready after 1 s, so the command is not run")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = "{}:{}".format(*taken.getsockname())
        done = kproxy_exec("touch", str(tmp_path / "ran"), options=[*AT_ONCE, "--listen", listen])
    assert done.returncode == 2
    assert "the port is taken by another process" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_before_the_command_was_started(number: signal.Signals, tmp_path: Path) -> None:
    options = ["-b", "127.0.0.1:1", "--log-level", "info"]
    words = command("touch", str(tmp_path / "ran"), options=options)
    with started(words, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while "no bootstrap server answers" not in process.stderr.readline():
            pass
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert not (tmp_path / "ran").exists()


# Signals


def test_signals_to_kproxy_alone_are_passed_on() -> None:
    with started(command(*python(SAYS_SIGNALS, *NAMES))) as process:
        assert heard(process) == "started"
        for name in NAMES:
            process.send_signal(getattr(signal, name))
            assert heard(process) == name
        assert process.wait(30) == 9


class Terminal:
    """What a session leader has: its screen and its keyboard, without echo."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._screen = ""
        settings = termios.tcgetattr(fd)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(fd, termios.TCSANOW, settings)

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def read_to(self, text: str) -> str:
        """What is shown up to this text."""
        while text not in self._screen:
            assert select.select([self._fd], [], [], 30)[0], self._screen
            self._screen += os.read(self._fd, 4096).decode()
        before, _, self._screen = self._screen.partition(text)
        return before


@contextmanager
def on_a_terminal(words: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    """A session leader with a terminal of its own."""
    fd, other_side = pty.openpty()
    terminal = Terminal(fd)
    with subprocess.Popen(
        ["setsid", "--ctty", *words], env=environment(), stdin=other_side, stdout=other_side, stderr=other_side
    ) as process:
        os.close(other_side)
        try:
            yield process, terminal
        finally:
            os.close(fd)  # hangs up


@pytest.mark.parametrize(("key", "name"), [("\x03", "SIGINT"), ("\x1c", "SIGQUIT")])
def test_keys_of_a_terminal_reach_the_command_once(key: str, name: str) -> None:
    with on_a_terminal(command(*python(SAYS_SIGNALS, *NAMES))) as (process, terminal):
        terminal.read_to("started")
        terminal.type(key)
        terminal.read_to(name)
        process.send_signal(signal.SIGUSR1)  # had the key's signal come twice, its name would be before this one's
        assert terminal.read_to("SIGUSR1").strip() == ""
        process.terminate()
        terminal.read_to("SIGTERM")
        assert process.wait(30) == 9


def test_ctrl_z_and_fg() -> None:
    """A shell with job control stops both and brings both back."""
    with on_a_terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"]) as (_, terminal):
        terminal.type(shlex.join(command("sh", "-c", "echo started $$; read line; echo read $line")) + "\n")
        terminal.read_to("started ")
        pid = int(terminal.read_to("\r\n"))
        terminal.type("\x1a")
        terminal.read_to("Stopped")  # says the shell of kproxy; its child may still take a line that is typed
        while Path(f"/proc/{pid}/stat").exists() and " T " not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.01)
        terminal.read_to("bash-")  # its prompt: until about then it throws away what is typed, so empty lines go first
        terminal.type("\n\nfg\n")
        terminal.read_to("kproxy exec")  # the shell says what it brings back
        terminal.type("this\n")
        terminal.read_to("read this")
