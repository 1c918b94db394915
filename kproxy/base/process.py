"""Processes of this host: telling them apart although ids are reused, and running one. Standard library only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def start_time(pid: int) -> str | None:
    """Return the start time of a process, which tells it from a later process with the same id.

    Return None if the process does not exist, or if it has ended and its parent has not yet asked for the exit code.
    Return "" where the system does not show start times (no /proc, or hidden).
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # another user's
        pass
    try:
        state, *fields = _stat(pid)
    except OSError:
        return ""
    return None if state in "ZX" else fields[18]


def parent_pid(pid: int) -> int:
    """Return the id of the parent process. Raises OSError where there is no /proc."""
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    """Return the fields of proc_pid_stat(5) from the state on; the name before it may have spaces and parentheses."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def run_program(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end with these options of `subprocess.run`; return its exit code and its output as text.

    Raises OSError and subprocess.TimeoutExpired.
    """
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, **options)
