"""The forker: the process that forks the workers (`kproxy.proxy.workers.forking`), as the main process has it.

The main process has threads and an event loop and must not fork. It may start a fresh interpreter at any time, so a
forker that was killed or is stuck is replaced as often as need be. What a worker is to know, it asks the main process
itself; the forker is told nothing that could grow old.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from itertools import count

from kproxy.proxy.workers import messages
from kproxy.proxy.workers.forking import LARGEST_PACKET, NOT_FOR_IT
from kproxy.proxy.workers.pulse import TURN, Pauses, Pulse

log = logging.getLogger(__name__)

# For how many turns it may be silent, at its start and later. Nothing is lost with it but the time of another start.
_STARTS_WITHIN, _ANSWERS_WITHIN = 60, 5
# The same path for modules as here, and nothing from the current directory.
_PATH = "import sys; sys.path[:] = sys.argv[2].split(':')"
_PROGRAM = _PATH + "; from kproxy.proxy.workers import forking; forking.main(sys.argv[1])"


class Forker:
    """Has one such process, whatever happens to it. `there` is set while workers can be asked for."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self._running: _Running | None = None

    async def keep(self) -> None:
        """Have one until this is cancelled; workers that there are stay."""
        pauses = Pauses()
        while True:
            pauses.begin()
            try:
                self._running = await _Running.start(self.there)
            except OSError as error:
                log.error("the process that starts workers cannot be started: %s", error.strerror or error)
            else:
                pid = self._running.pid
                try:
                    how = await self._running.ended()
                finally:
                    await self._running.close()
                    self._running = None
                log.error(
                    "the process that starts workers (process %d) was ended by %s: kproxy starts another", pid, how
                )
            await pauses.wait()

    @property
    def pid(self) -> int:
        """The process; 0 if there is none."""
        return 0 if self._running is None else self._running.pid

    def fork(self, calls: socket.socket, packets: socket.socket, on_pid: Callable[[int], None]) -> None:
        """Ask for a worker with these sockets; `on_pid` is told which process it is. Where it cannot be had, nobody
        has them open but the caller."""
        if self._running is not None:
            self._running.fork(calls, packets, on_pid)

    def turn(self, in_time: bool) -> None:
        """One more turn: does it still answer?"""
        if self._running is not None:
            self._running.turn(in_time)


class _Running:
    """One process."""

    def __init__(self, process: Process, requests: socket.socket, there: asyncio.Event) -> None:
        self._process = process
        self.pid = process.pid
        self._socket = requests
        self._there = there
        self._pids: dict[int, Callable[[int], None]] = {}
        self._numbers = count()
        self._pulse = Pulse(lambda: self._send(messages.Ping()))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(requests.fileno(), self._hear)

    @classmethod
    async def start(cls, there: asyncio.Event) -> _Running:
        """Raises OSError."""
        ours, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, NOT_FOR_IT)  # until it ignores them
        try:
            with its_end:
                program = (sys.executable, "-P", "-c", _PROGRAM, str(its_end.fileno()), ":".join(sys.path))
                process = await asyncio.create_subprocess_exec(*program, stdin=DEVNULL, pass_fds=[its_end.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return cls(process, ours, there)

    async def ended(self) -> str:
        """Wait until it has; return by what."""
        code = await self._process.wait()
        return _name(-code) if code < 0 else f"itself (code {code})"

    def fork(self, calls: socket.socket, packets: socket.socket, on_pid: Callable[[int], None]) -> None:
        number = next(self._numbers)
        self._pids[number] = on_pid
        self._send(messages.Fork(number), calls.fileno(), packets.fileno())

    def turn(self, in_time: bool) -> None:
        patience = _ANSWERS_WITHIN if self._there.is_set() else _STARTS_WITHIN
        if self._pulse.turn(in_time) and self._pulse.silent == patience:
            log.error(
                "the process that starts workers (process %d) has not answered for %g s: kproxy kills it",
                self.pid, patience * TURN,
            )  # fmt: skip
            self._there.clear()
            self._kill()

    def _send(self, message: object, *fds: int) -> None:
        with contextlib.suppress(OSError):  # it has ended, or is stuck: both are noticed
            socket.send_fds(self._socket, [pickle.dumps(message, pickle.HIGHEST_PROTOCOL)], fds)

    def _hear(self) -> None:
        try:
            data = self._socket.recv(LARGEST_PACKET)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._there.clear()
            self._loop.remove_reader(self._socket.fileno())
            return
        self._pulse.heard()
        match pickle.loads(data):
            case messages.Pong():
                self._there.set()
            case messages.Forked(number, pid):
                self._pids.pop(number)(pid)
            case messages.NotForked(number, why):
                del self._pids[number]
                log.error("a worker cannot be started: %s", why)
            case messages.Signalled(pid, number):
                log.error("process %d was ended by %s", pid, _name(number))

    async def close(self) -> None:
        """End it; it has nothing to finish."""
        self._there.clear()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._kill()
        await self._process.wait()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
