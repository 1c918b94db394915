"""Bounded reading of regular files that other programs may replace while kproxy runs, and whether they are private.

A pipe would keep its reader waiting, and a device never ends. Standard library only.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

# The mode bits that a private file of this user must not have, and those that one of another user must not have. Group
# read is the only way to a Secret of Kubernetes, which is root's: 0440, and the group of fsGroup.
_OWN, _FOREIGN = 0o077, 0o027


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


def exposed_mode(status: os.stat_result) -> int | None:
    """Return the mode of a file that users other than its reader may use; None if it is private.

    The other end of a pipe is in a process, not in a directory, so a pipe is private.
    """
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode) and mode & (_OWN if _is_own(status) else _FOREIGN):
        return mode
    return None


def _is_own(status: os.stat_result) -> bool:
    """Return True if the file belongs to this user, so that no group needs a right.

    In a container that runs as root, a Secret of Kubernetes is root's too; its group is then that of fsGroup, one of
    this process.
    """
    if status.st_uid != os.geteuid():
        return False
    return status.st_uid != 0 or status.st_gid == 0 or status.st_gid not in os.getgroups()


def state_of(path: Path) -> tuple[int, ...] | None:
    """Return values that change with the file, also if it is a link (as in Kubernetes); None: no regular file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    # Its ctime too: a mode that was wrong may be right now.
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size
