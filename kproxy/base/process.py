"""Processes of this host: which one is meant by an id, as ids are used again. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def start_time(pid: int) -> str | None:
    """What tells a process from a later one with the same id; None if there is none, or only what is left of it until
    its parent asks. "" where the system does not say (no /proc, or hidden)."""
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
    """The id of its parent. Raises OSError where there is no /proc."""
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    """What proc_pid_stat(5) has from the state on. The name before may have spaces and parentheses."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
