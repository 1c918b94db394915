"""Every command on a terminal of 80 columns, with colours and without, and in a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.everycommand import every_command

ROOT = Path(__file__).parents[3]
# What a command prints that has what it needs on no machine, or nothing to do.
WITH_ARGUMENTS = {
    "wait": ["--admin", "127.0.0.1:1", "--timeout", "0.01"],
    "reload": ["--admin", "127.0.0.1:1"],
    "tap": ["--admin", "127.0.0.1:1"],
    "ls": ["127.0.0.1:1"],
    "doctor": ["127.0.0.1:1", "--connect-timeout", "1"],
    "list": [],
    "discover": ["--in", "files", "--in", "tools"],
    "lint": ["server.properties"],
    "explain": ["Failed to resolve 'kafka-1.prod.internal:9092': Name or service not known"],
    "config check": ["kproxy.yaml"],
    "migrate plan": ["kproxy.yaml"],
}
# One process that is loaded once, and a child for each command.
WALK = """
import json, os, sys
from kproxy.cli import invoke
for words in json.loads(sys.argv[1]):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            code = invoke(words)
        except SystemExit as error:
            code = error.code
        sys.stdout.flush()
        os._exit(code or 0)
    print("\\n=== ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    listeners = "listeners=A://0.0.0.0:9092\nadvertised.listeners=A://localhost:9092\n"
    (tmp_path / "server.properties").write_text(f"{listeners}listener.security.protocol.map=A:PLAINTEXT\n")
    (tmp_path / "client.properties").write_text(
        "bootstrap.servers=kafka-1.prod.internal:9092,kafka-2.prod.internal:9092\n"
    )
    (tmp_path / "kproxy.yaml").write_text("listn: 127.0.0.1:9092\n")
    return tmp_path


def printed(commands: list[list[str]], directory: Path, terminal: bool, **env: str) -> list[tuple[str, int]]:
    """Return what each command prints on both streams, and its exit code."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KPROXY_", "NO_COLOR", "FORCE_"))}
    env = {**own, "PYTHONPATH": str(ROOT), "HOME": str(directory), "TERM": "xterm-256color", "COLUMNS": "80", **env}
    reading, writing = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", WALK, json.dumps(commands)],
        cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing,
    )  # fmt: skip
    os.close(writing)
    text = b""
    while True:
        try:
            data = os.read(reading, 65536)
        except OSError:  # the other side of the terminal is closed
            break
        if not data:
            break
        text += data
    os.close(reading)
    assert process.wait() == 0, text
    *outputs, rest = re.split(r"\n=== ended (-?\d+)\n", text.decode().replace("\r\n", "\n"))
    assert rest == ""
    return [(outputs[i], int(outputs[i + 1])) for i in range(0, len(outputs), 2)]


@pytest.mark.parametrize("where", ["terminal", "terminal without colours", "pipe"])
def test_every_command_fits_80_columns(where: str, directory: Path) -> None:
    """Commands that can be copied stay whole, and so does the line of an error or finding, for programs."""
    names = list(every_command())
    commands = [[*words, "--help"] for words in names]
    commands += [[*words, *WITH_ARGUMENTS[" ".join(words)]] for words in names if " ".join(words) in WITH_ARGUMENTS]
    env = {"NO_COLOR": "1"} if where == "terminal without colours" else {}
    coloured = 0
    for words, (text, code) in zip(commands, printed(commands, directory, where != "pipe", **env), strict=True):
        assert code in (0, 1, 2), words
        assert "Traceback" not in text, words
        assert text.strip(), words
        colours = re.findall(r"\x1b\[[0-9;]*m", text)
        coloured += bool(colours)
        if where == "pipe":
            assert "\x1b" not in text, words
        elif env:
            assert not [colour for colour in colours if re.search(r"3[0-7]|38|9[0-7]", colour)], words
        lines = ESCAPE.sub("", text).splitlines()
        excepted = re.compile(r" +(\$ )?kproxy |(\S+: )?(error|warning|note|kproxy|Error): |no profile in ")
        assert [line for line in lines if len(line) > 80 and not excepted.match(line)] == [], words
    assert coloured or where != "terminal"
