"""Ends processes and removes directories when the process that made them has ended, for whatever reason.

A JVM does not notice that its parent was killed. This small process does: it reads from a pipe that only the parent
holds open, and when the pipe ends it kills the remaining processes. (Linux's parent-death signal would be shorter, but
it fires when the *thread* that started the child ends, and only Linux has it.)

This file is also the program on the other side of the pipe. It runs by its path and with the standard library alone, so
that it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path


class Watchdog:
    """The parent's side. Use it as a context manager, or call `close()`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C on the terminal is for the parent to answer
            cwd="/",
        )

    def watch(self, pid: int) -> None:
        """Kill this process if the parent ends before `forget(pid)`."""
        self._tell(f"watch {pid}")

    def watch_group(self, pid: int) -> None:
        """End this process, the leader of a process group, and its group if the parent ends before `forget(pid)`.

        The group gets SIGTERM, and SIGKILL two seconds later.
        """
        self._tell(f"group {pid}")

    def forget(self, pid: int) -> None:
        """Stop watching a process that the parent has waited for: its id may soon belong to another process."""
        self._tell(f"forget {pid}")

    def remove(self, directory: Path) -> None:
        """Remove this directory if the parent ends before `close()`."""
        self._tell(f"remove {directory}")

    def close(self) -> None:
        """End without any action: the parent has cleaned up by itself."""
        if self._process is None:
            return
        process, self._process = self._process, None
        with contextlib.suppress(BrokenPipeError):
            process.communicate(b"done\n")
        process.wait()

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("the watchdog is closed")
        with contextlib.suppress(BrokenPipeError):  # it was killed; the parent still cleans up by itself
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()


def _keep_watch(lines: Iterable[str]) -> None:
    """Read the parent's commands to their end; unless the last is `done`, clean up after it."""
    watched, groups = set[int](), set[int]()
    directories: list[str] = []
    for line in lines:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "watch":
            watched.add(int(rest))
        elif word == "group":
            groups.add(int(rest))
        elif word == "forget":
            watched.discard(int(rest))
            groups.discard(int(rest))
        elif word == "remove":
            directories.append(rest)
        elif word == "done":
            return
    for pid in watched:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    _end_groups(groups)
    for directory in directories:
        # A JVM that is just being killed may still write a file while the tree is being removed.
        for _ in range(50):
            shutil.rmtree(directory, ignore_errors=True)
            if not os.path.exists(directory):
                break


def _end_groups(groups: set[int]) -> None:
    """End process groups: SIGTERM, and SIGKILL for what is left after two seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in tuple(groups):
            try:
                os.killpg(pid, number)
            except (ProcessLookupError, PermissionError):
                groups.discard(pid)
        if groups and number == signal.SIGTERM:
            time.sleep(2)


if __name__ == "__main__":
    _keep_watch(sys.stdin)
