"""The tests hold wherever they are started: under nohup, or in a background job of a script, which ignores Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABOUT_SIGNALS = (
    "tests/unit/proxy/app/test_exec.py::test_signals_to_kproxy_alone_are_passed_on",
    "tests/unit/proxy/app/test_exec.py::test_stopped_before_the_command_was_started",
    "tests/unit/cli/test_commands.py::test_a_real_ctrl_c_shows_no_traceback",
)
# What a program that is started inherits, and whether the one that starts it survives what it ignored itself.
PROGRAM = """
import os, signal, subprocess, sys
from tests.harness.signals import not_ignored_by_children
NAMES = signal.SIGINT, signal.SIGTERM
show = "import signal as s; print(*[s.getsignal(n) is s.SIG_IGN for n in (s.SIGINT, s.SIGTERM, s.SIGHUP)], flush=True)"
with not_ignored_by_children(*NAMES):
    for number in NAMES:
        os.kill(os.getpid(), number)
    subprocess.run([sys.executable, "-c", show], check=True)
subprocess.run([sys.executable, "-c", show], check=True)
"""


def ignoring(*words: str) -> subprocess.CompletedProcess[str]:
    """A program that is started as by nohup, and by a script that ignores the rest."""
    return subprocess.run(
        ["sh", "-c", 'trap "" INT QUIT HUP TERM; exec "$@"', "sh", sys.executable, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_programs_that_tests_start_do_not_ignore_signals() -> None:
    done = ignoring("-c", PROGRAM)
    assert done.stdout.splitlines() == ["False False True", "True True True"], done.stderr


def test_tests_about_signals_hold_where_signals_are_ignored() -> None:
    done = ignoring("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--timeout", "30", *ABOUT_SIGNALS)
    assert (done.returncode, done.stdout.count("4 passed")) == (0, 1), done.stdout[-4000:]
