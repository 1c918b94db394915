"""How many client connections all clusters together may have: what the limit of open files allows."""

from __future__ import annotations

import contextlib

# More file descriptors than this nobody needs, and some systems allow a billion.
_MOST_FILES = 1_048_576
# What else is open: connections to the admin endpoint (64 at most), listeners, names being resolved, the log.
_RESERVED_FILES = 128


class Places:
    """Client connections there are, and may be (None: no limit). `files` is the limit of open files behind that."""

    def __init__(self, files: int | None = None, files_per_connection: int = 2) -> None:
        self.files = files
        self.most = None if files is None else max(1, (files - _RESERVED_FILES) // files_per_connection)
        self.taken = 0

    @property
    def full(self) -> bool:
        return self.most is not None and self.taken >= self.most


def raise_file_limit() -> int | None:
    """Take as many file descriptors as the system allows without asking; return how many, None for no limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        wanted = min(hard, _MOST_FILES) if hard != resource.RLIM_INFINITY else _MOST_FILES
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
