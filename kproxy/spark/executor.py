"""Finds the executor of a Python task. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

from kproxy.base.process import parent_pid


def find_own_jvm() -> tuple[int, str]:
    """Return the process id of the JVM for which this Python process works, and its executor's id.

    The parent is the JVM or, usually, pyspark's daemon between the two. Raises OSError if there is no such JVM.
    """
    pid = os.getppid()
    while pid > 1:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        # So all of Spark's cluster managers name it.
        if "--executor-id" in words[:-1]:
            return pid, words[words.index("--executor-id") + 1]
        pid = parent_pid(pid)
    raise OSError("no process above this one is an executor of Spark's")
