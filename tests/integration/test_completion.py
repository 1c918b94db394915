"""`kproxy completion` in real shells, as a person presses Tab there."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kproxy.migrate.usage.observed import ObservedUsage, write_usage
from kproxy.migrate.usage.replies import RecordedClient
from kproxy.users.document import User
from kproxy.users.editing import edit_users
from kproxy.users.verifier import ScramVerifier

pytestmark = pytest.mark.integration

SHELLS = ("bash", "zsh", "fish")
# Without the files of a user and of the system, and with a prompt that is easy to wait for.
_START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
_READY = "ready> "
_INSTALL = {
    "bash": f'PS1="{_READY}"; bind "set bell-style none"; eval "$(kproxy completion bash)"',
    "zsh": f'PS1="{_READY}"; autoload -U compinit; compinit -u; eval "$(kproxy completion zsh)"',
}
# What a person types, and what stands there after Tab.
CASES = [
    ("kproxy comple", "kproxy completion "),
    ("kproxy run @sta", "kproxy run @staging"),
    ("kproxy run --log-level=de", "kproxy run --log-level=debug"),
    ("kproxy run --log-level de", "kproxy run --log-level debug"),
    ("kproxy run --ready-req", "kproxy run --ready-requires"),
    ("kproxy run -c kproxy-of", "kproxy run -c kproxy-of-mine.yaml"),
    ("kproxy tap --api Prod", "kproxy tap --api Produce"),
    ("kproxy users remove users.yaml alice@ex", "kproxy users remove users.yaml alice@example.com"),
    ("kproxy config check my.yaml --as bo", "kproxy config check my.yaml --as bob"),
    ("kproxy migrate switch move.yaml --only group=or", "kproxy migrate switch move.yaml --only group=orders"),
    ("kproxy migrate switch move.yaml --only=client-id=bi", "kproxy migrate switch move.yaml --only=client-id=billing"),
]
# Where more must follow, no space is behind what was completed.
UNFINISHED = ("kproxy migrate switch move.yaml --only tran\torders", "--only transactional-id=orders")
_FILES = {
    "kproxy-of-mine.yaml": "",
    "my.yaml": "{bootstrap-servers: 'a:1', client-sasl: SCRAM-SHA-512, users-file: users.yaml}",
    "move.yaml": "{name: shop, source: {bootstrap-servers: 'a:1'}, target: {bootstrap-servers: 'b:1'}}",
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A command kproxy, a profile, and files in the working directory."""
    program = tmp_path / "bin" / "kproxy"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kproxy "$@"\n')
    program.chmod(0o755)
    profile = tmp_path / "config" / "kproxy" / "staging.yaml"
    profile.parent.mkdir(parents=True)
    profile.touch()
    work = tmp_path / "work"
    work.mkdir()
    for name, text in _FILES.items():
        (work / name).write_text(text)
    with edit_users(work / "users.yaml") as users:
        verifier = ScramVerifier.from_password("SCRAM-SHA-512", "secret", iterations=4096)
        users.update({name: User(name, {"SCRAM-SHA-512": verifier}, {}) for name in ("alice@example.com", "bob")})
    client = RecordedClient("", "", "10.0.0.1", "billing", "java", 1.0, 2.0, {("groups", "orders"): 1.0})
    write_usage(ObservedUsage(1.0, 2.0, (client,)), work / "kproxy-observed-shop.json")
    own = {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
    return {
        **own,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "HOME": str(tmp_path),
        "TERM": "dumb",
    }


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


class Terminal:
    """A shell in a terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._text = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until the terminal has shown this, and forget what it has shown up to there."""
        end = time.monotonic() + 200
        while text not in self._text:
            assert select.select([self._fd], [], [], max(0, end - time.monotonic()))[0], f"{text!r}: {self._text!r}"
            self._text += os.read(self._fd, 4096).decode(errors="replace")
        self._text = self._text.partition(text)[2]


@contextmanager
def running(shell: str, env: dict[str, str], directory: Path) -> Iterator[Terminal]:
    terminal, other_side = pty.openpty()
    process = subprocess.Popen(
        _START[shell], env=env, cwd=directory, stdin=other_side, stdout=other_side, stderr=other_side, close_fds=True,
        start_new_session=True,
    )  # fmt: skip
    os.close(other_side)
    try:
        yield Terminal(terminal)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.mark.parametrize(("typed", "completed"), [*CASES, UNFINISHED], ids=[typed for typed, _ in [*CASES, UNFINISHED]])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_tab_completes(shell: str, typed: str, completed: str, env: dict[str, str], tmp_path: Path) -> None:
    need(shell)
    with running(shell, env, tmp_path / "work") as terminal:
        terminal.type(_INSTALL[shell] + "\n")
        terminal.wait_for("\n" + _READY if shell == "bash" else _READY)
        terminal.type("echo installed $((6 * 7))\n")
        terminal.wait_for("installed 42")
        terminal.type(f"{typed}\t")
        terminal.wait_for(completed)


@pytest.mark.parametrize(("typed", "completed"), CASES, ids=[typed for typed, _ in CASES])
def test_fish_completes(typed: str, completed: str, env: dict[str, str], tmp_path: Path) -> None:
    need("fish")
    script = f"kproxy completion fish | source; complete -C {shlex.quote(typed)}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        env=env, cwd=tmp_path / "work", capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert completed.split()[-1] in [line.partition("\t")[0] for line in done.stdout.splitlines()]
