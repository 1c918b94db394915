"""The number of client connections that all clusters together may have, as the limit of open files allows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

# The most file descriptors that kproxy takes: some systems allow a billion.
_MOST_FILES = 1_048_576
# Other open files: connections to the admin endpoint (64 at most), names being resolved, the log.
_RESERVED_FILES = 128
# The client's connection and the upstream's.
_FILES_PER_CONNECTION = 2
# At least this many sockets may listen, however few files there are.
_LEAST_LISTENING = 16
# The bounds of `pending_connection_limit`.
_LEAST_PENDING, _MOST_PENDING = 16, 256


class ConnectionLimit:
    """The client connections of the process, and how many it may have."""

    def __init__(self, files: int | None = None) -> None:
        """Derive the limit from this many open files; None: no limit. Sockets that listen take their part.

        `in_use` counts client connections. `evictable` are the connections that are silent or wait for a node, the
        oldest first, with what closes each.
        """
        self.files = files
        self.in_use = 0
        self.listening = 0
        self._clusters: dict[object, int] = {}  # listening sockets by cluster
        self.evictable: dict[object, Callable[[], None]] = {}

    @property
    def maximum(self) -> int | None:
        """The most client connections; None: no limit."""
        if self.files is None:
            return None
        return max(1, (self.files - _RESERVED_FILES - self.listening) // _FILES_PER_CONNECTION)

    def set_listening(self, cluster: object, sockets: int) -> None:
        """Set the number of sockets that listen for this cluster."""
        self.listening += sockets - self._clusters.get(cluster, 0)
        self._clusters[cluster] = sockets

    def remove_cluster(self, cluster: object) -> None:
        """Forget a cluster, which no longer listens."""
        self.listening -= self._clusters.pop(cluster, 0)

    def may_listen(self, cluster: object) -> bool:
        """Check whether one more port may be listened on for this cluster.

        Half of the files are for connections. Of the others, each cluster has an equal share, which no other cluster
        takes.
        """
        if self.files is None:
            return True
        maximum = max(_LEAST_LISTENING, (self.files - _RESERVED_FILES) // 2)
        share = maximum // max(1, len(self._clusters))
        other_counts = [sockets for cluster_key, sockets in self._clusters.items() if cluster_key is not cluster]
        reserved = (
            0 if self._clusters.get(cluster, 0) < share else sum(max(0, share - sockets) for sockets in other_counts)
        )
        return maximum - self.listening > reserved

    @property
    def is_full(self) -> bool:
        """True if no further connection fits."""
        maximum = self.maximum
        return maximum is not None and self.in_use >= maximum

    @property
    def is_scarce(self) -> bool:
        """True if more than three quarters are in use."""
        maximum = self.maximum
        return maximum is not None and self.in_use * 4 > maximum * 3

    def evict_oldest(self) -> bool:
        """Close the oldest connection that is silent or waits; return False if there is none."""
        for close in self.evictable.values():
            close()
            return True
        return False


def open_file_limit() -> int | None:
    """Return how many file descriptors this process may have, None for no limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def pending_connection_limit(files: int | None) -> int:
    """Return how many clients of one cluster may wait for their nodes at the same time, given the limit of open files.

    This is a sixteenth of the files. It bounds connections that are opened at once, not open ones.
    """
    return _MOST_PENDING if files is None else max(_LEAST_PENDING, min(files // 16, _MOST_PENDING))


def raise_file_limit() -> int | None:
    """Raise the limit of open files as far as the system allows; return the new limit, None for no limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        wanted = min(hard, _MOST_FILES) if hard != resource.RLIM_INFINITY else _MOST_FILES
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return open_file_limit()
