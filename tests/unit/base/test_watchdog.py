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


# As above, with a group: its leader ends at SIGTERM, and the leader's child does not.
_GROUP = """
import subprocess, sys
from kproxy.base.watchdog import Watchdog
child = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
leader = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)"
leader += "; p.stdout.readline(); print(p.pid, flush=True); p.wait()"
process = subprocess.Popen([sys.executable, "-c", leader], stdout=subprocess.PIPE, text=True, start_new_session=True)
watchdog = Watchdog()
watchdog.watch_group(process.pid)
print(process.pid, process.stdout.readline(), flush=True)
sys.stdin.read()
"""


def test_a_killed_parent_leaves_nothing_of_a_process_group() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _GROUP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [os.pidfd_open(int(word)) for word in parent.stdout.readline().split()]
        try:
            parent.send_signal(signal.SIGKILL)
            for pid in pids:
                assert select.select([pid], [], [], 60)[0], "a process outlived its parent"
        finally:
            for pid in pids:
                os.close(pid)
