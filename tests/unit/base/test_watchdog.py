"""What is left when a parent ends without a word; the processes are real."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from kproxy.base.watchdog import Watchdog

# Starts a child that would run for ever, has it watched, says its number, and waits to be killed.
_PARENT = """
import pathlib, subprocess, sys
from kproxy.base.watchdog import Watchdog
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
watchdog = Watchdog()
watchdog.watch(child.pid)
watchdog.remove(pathlib.Path(sys.argv[1]))
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_killed_parent_leaves_neither_process_nor_directory(tmp_path: Path) -> None:
    directory = tmp_path / "with space"
    directory.mkdir()
    (directory / "file").write_text("x")
    command = [sys.executable, "-c", _PARENT, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.send_signal(signal.SIGKILL)
            assert select.select([child], [], [], 60)[0], "the child outlived its parent"
        finally:
            os.close(child)
    while directory.exists():  # removed right after; the test's own limit ends it if not
        os.sched_yield()


def test_a_parent_that_cleaned_up_itself_is_left_alone(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        with Watchdog() as watchdog:
            watchdog.watch(child.pid)
            watchdog.remove(tmp_path)
        assert child.poll() is None
        assert tmp_path.exists()
    finally:
        child.kill()
        child.wait()


def test_closing_twice_is_fine() -> None:
    watchdog = Watchdog()
    watchdog.close()
    watchdog.close()
