"""How many client connections all clusters together may have: what the limit of open files allows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

# More file descriptors than this nobody needs, and some systems allow a billion.
_MOST_FILES = 1_048_576
# What else is open: connections to the admin endpoint (64 at most), names being resolved, the log.
_RESERVED_FILES = 128
# The client's connection and the upstream's.
_FILES_PER_CONNECTION = 2
# However few files there are, so many sockets may listen.
_LEAST_LISTENING = 16
# Bounds of what `pending_connection_limit` says.
_LEAST_UNDER_WAY, _MOST_UNDER_WAY = 16, 256


class ConnectionLimit:
    """Client connections there are, and may be (None: no limit). `files` is the limit of open files behind that, of
    which the sockets that are `listening` take their part.

    `silent` are the connections that have said nothing yet, or that wait for a node, the oldest first, and how to close
    each: they give way.
    """

    def __init__(self, files: int | None = None) -> None:
        self.files = files
        self.taken = 0
        self.listening = 0
        self._clusters: dict[object, int] = {}  # how many sockets listen for each
        self.silent: dict[object, Callable[[], None]] = {}

    @property
    def most(self) -> int | None:
        if self.files is None:
            return None
        return max(1, (self.files - _RESERVED_FILES - self.listening) // _FILES_PER_CONNECTION)

    def listen(self, cluster: object, sockets: int) -> None:
        """Count the sockets that listen for this cluster."""
        self.listening += sockets - self._clusters.get(cluster, 0)
        self._clusters[cluster] = sockets

    def leave(self, cluster: object) -> None:
        """The cluster listens no more."""
        self.listening -= self._clusters.pop(cluster, 0)

    def may_listen(self, cluster: object) -> bool:
        """Whether one more port may be listened on for this cluster: half of the files are for connections, and each
        cluster has an equal share of the others, which no other cluster takes."""
        if self.files is None:
            return True
        most = max(_LEAST_LISTENING, (self.files - _RESERVED_FILES) // 2)
        share = most // max(1, len(self._clusters))
        others = [sockets for one, sockets in self._clusters.items() if one is not cluster]
        kept = 0 if self._clusters.get(cluster, 0) < share else sum(max(0, share - sockets) for sockets in others)
        return most - self.listening > kept

    @property
    def full(self) -> bool:
        most = self.most
        return most is not None and self.taken >= most

    @property
    def scarce(self) -> bool:
        """Whether more than three quarters are taken."""
        most = self.most
        return most is not None and self.taken * 4 > most * 3

    def make_room(self) -> bool:
        """Close the oldest connection that is silent or waits; False if there is none."""
        for close in self.silent.values():
            close()
            return True
        return False


def open_file_limit() -> int | None:
    """How many file descriptors this process may have, None for no limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def pending_connection_limit(files: int | None) -> int:
    """How many clients of one cluster may be on their way to their nodes at the same time, with so many open files: an
    eighth of the files. They are as many as opened at once, not as there are."""
    return _MOST_UNDER_WAY if files is None else max(_LEAST_UNDER_WAY, min(files // 16, _MOST_UNDER_WAY))


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
    return open_file_limit()
