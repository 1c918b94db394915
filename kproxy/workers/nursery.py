"""Forks the workers.

A process with threads and an event loop must not fork, and the main process has both when a worker is to be replaced.
So it forks this one while it has neither, and this one, which never gets any, forks the workers. They share the
memory of what is loaded by then.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from kproxy.errors import KproxyError

log = logging.getLogger(__name__)

Work = Callable[[socket.socket, socket.socket], None]
"""What a worker does with its two sockets; see `kproxy.workers.messages`."""


class Nursery:
    """The main process's handle. To be made before there are threads, an event loop, or sockets."""

    def __init__(self, work: Work) -> None:
        self._socket, its_own = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gc.freeze()  # what the collector does not look at stays shared
        self._pid = os.fork()
        if not self._pid:
            self._socket.close()
            _end_with(partial(_nurse, its_own, work))
        its_own.close()

    def fork(self, calls: socket.socket, packets: socket.socket) -> None:
        """Start a worker with these sockets, which are closed here. Raises KproxyError."""
        with calls, packets:
            try:
                socket.send_fds(self._socket, [b"fork"], [calls.fileno(), packets.fileno()])
            except OSError:
                raise KproxyError("the process that starts workers was ended; start kproxy again") from None

    def close(self) -> None:
        """End it; workers that there are stay."""
        self._socket.close()
        os.waitpid(self._pid, 0)


def _nurse(requests: socket.socket, work: Work) -> None:
    # A terminal's Ctrl-C and a service manager's SIGTERM may go to all processes; what they mean is up to the main one.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: _reap())
    while True:
        data, fds, _, _ = socket.recv_fds(requests, 16, 2)
        if not data:  # the main process is gone
            return
        try:
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                requests.close()
                calls, packets = (socket.socket(fileno=fd) for fd in fds)
                _end_with(partial(work, calls, packets))
        except OSError as error:
            log.error("a worker cannot be started: %s", error.strerror)
        for fd in fds:
            os.close(fd)


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if os.WIFSIGNALED(status):
            log.error("process %d was ended by %s", pid, signal.Signals(os.WTERMSIG(status)).name)


def _end_with(what: Callable[[], None]) -> NoReturn:
    """Do this and nothing else in a process that was forked: the rest of the program is the parent's."""
    code = 1
    try:
        what()
        code = 0
    except BaseException:
        log.exception("defect in a worker, please report it")
    finally:
        sys.stderr.flush()
        os._exit(code)
