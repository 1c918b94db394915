"""The forker's own process: it forks the workers, and does nothing else.

It has no threads and no event loop, ever, so it may fork. It loads what a worker needs first, and the workers share
that memory. It holds nothing that is missed when it ends: a worker lives on, and `Forker` starts another of these.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import signal
import socket
import sys
from typing import NoReturn

from kproxy.proxy.workers import messages
from kproxy.proxy.workers.worker import work

log = logging.getLogger(__name__)

# A terminal's Ctrl-C and a service manager's SIGTERM may go to all processes; what they mean is up to the main one.
NOT_FOR_IT = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
LARGEST_PACKET = 4096


def main(descriptor: str) -> None:
    """Fork workers as the main process asks at the other end of this socket, until that is closed."""
    requests = socket.socket(fileno=int(descriptor))
    for each in NOT_FOR_IT:
        signal.signal(each, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NOT_FOR_IT)  # blocked since before it was started
    signal.signal(signal.SIGCHLD, lambda *_: _reap(requests))
    gc.freeze()  # what the collector does not look at stays shared
    with contextlib.suppress(ConnectionError):
        _tell(requests, messages.Pong())
        while True:
            data, fds, _, _ = socket.recv_fds(requests, LARGEST_PACKET, 2)
            if not data:  # the main process is gone
                return
            match pickle.loads(data):
                case messages.Fork(number):
                    _tell(requests, _forked(number, requests, fds))
                case messages.Ping():
                    _tell(requests, messages.Pong())


def _forked(number: int, requests: socket.socket, fds: list[int]) -> messages.Forked | messages.NotForked:
    try:
        if len(fds) < 2:
            return messages.NotForked(number, "too many open files")
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            _be_a_worker(*(socket.socket(fileno=fd) for fd in fds))
        return messages.Forked(number, pid)
    except OSError as error:
        return messages.NotForked(number, error.strerror or str(error))
    finally:
        for fd in fds:
            os.close(fd)


def _tell(requests: socket.socket, message: object) -> None:
    requests.send(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def _reap(requests: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if os.WIFSIGNALED(status):
                with contextlib.suppress(OSError):  # a main process that does not listen is not waited for
                    requests.send(pickle.dumps(messages.Signalled(pid, os.WTERMSIG(status))), socket.MSG_DONTWAIT)


def _be_a_worker(calls: socket.socket, packets: socket.socket) -> NoReturn:
    code = 1
    try:
        work(calls, packets)
        code = 0
    except BaseException:
        log.exception("defect in a worker, please report it")
    finally:
        sys.stderr.flush()
        os._exit(code)
