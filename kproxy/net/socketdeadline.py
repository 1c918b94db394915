"""A time limit for all operations of a blocking socket together."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer


class SocketDeadline:
    """A time limit for all operations of a socket.

    The socket's own timeout is for each read, and a peer that sends byte by byte gets any number of those.
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.has_passed = False
        self.sock: socket.socket | None = None
        """The current socket: TLS wraps it in another one."""

    @contextmanager
    def applied_to(self, sock: socket.socket) -> Iterator[None]:
        """Shut the socket down at the end of the time, while the context is open; then `has_passed` is True."""
        self.sock = sock

        def hang_up() -> None:
            self.has_passed = True
            assert self.sock is not None
            with suppress(OSError):  # it has just been closed
                # TLS's own shutdown would close the connection under a read.
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

        watch = Timer(max(0.0, self._until - time.monotonic()), hang_up)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()
