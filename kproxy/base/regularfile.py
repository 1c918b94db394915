"""Bounded reading of regular files that other programs may replace while kproxy runs.

A pipe would keep its reader waiting, and a device never ends. Standard library only.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path | str, *, directory: int | None = None, follow_links: bool = True) -> BinaryIO:
    """Open a regular file, also through links.

    `directory` is the descriptor of the directory that a relative path begins at. Raises OSError, and ValueError with a
    text for the user if the path is not a regular file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # opening a pipe would wait for a writer
    if not follow_links:
        flags |= os.O_NOFOLLOW
    descriptor = os.open(path, flags, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("is not a regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def reason_of(error: OSError) -> str:
    """Return why a file cannot be read, for a person."""
    reasons = {
        FileNotFoundError: "does not exist",
        IsADirectoryError: "is a directory",
        PermissionError: "must not be read by this user",
    }
    return reasons.get(type(error)) or (error.strerror or type(error).__name__).lower()


def read(path: Path | str, most: int, *, directory: int | None = None, follow_links: bool = True) -> bytes:
    """Read a whole regular file of at most `most` bytes.

    Raises OSError, and ValueError with a text for the user if the path is not a regular file, or if it is larger.
    """
    with open_regular(path, directory=directory, follow_links=follow_links) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"is larger than {most // 1024} KiB")
    return data
