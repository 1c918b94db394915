"""One process of a `--forward-command`: its start, its port, its output, and the end of its process group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections import deque
from collections.abc import Mapping, Sequence
from io import FileIO

from kproxy.base.messages.forwards import FORWARD_WORDS_LEFT_OUT
from kproxy.base.printable import one_line
from kproxy.base.watchdog import Watchdog
from kproxy.net.freeports import HOST

log = logging.getLogger(__name__)

LONGEST_LINE = 300
"""Characters of a line that are logged."""
# How often the port is tried, in seconds: from the first to the last, doubled each time.
_FIRST_TRY, _LAST_TRY = 0.05, 0.5
# How long a command may take to end after SIGTERM, in seconds.
_ENDS_WITHIN = 2.0
# Of the output: bytes that are read at once, and the pause after each read in seconds.
_CHUNK, _READ_PAUSE = 16 * 1024, 0.02
# The most lines that are logged within so many seconds.
_LINES, _LINES_WITHIN = 20, 30.0


class ForwardProcess:
    """A running command that is expected to listen on a local port; `close` ends it."""

    def __init__(
        self, process: Process, output: FileIO, log_of_output: _OutputLog, tasks: asyncio.TaskGroup, watchdog: Watchdog
    ) -> None:
        """Take over a process that `start` has started."""
        self._process, self._lines, self._tasks, self._watchdog = process, log_of_output, tasks, watchdog
        self._reading = tasks.create_task(self._log_output(output))
        self._reading.add_done_callback(lambda _: output.close())

    @classmethod
    async def start(
        cls,
        words: Sequence[str],
        environment: Mapping[str, str],
        name: str,
        tasks: asyncio.TaskGroup,
        watchdog: Watchdog,
    ) -> ForwardProcess:
        """Start the command with these words. Raises OSError, and ValueError for a null character.

        `name` is the node in messages. The watchdog ends the command if kproxy is killed.
        """
        # A pipe of our own: asyncio waits for the end of its pipes too, which a child of the command may hold.
        read_end, write_end = os.pipe()
        output = FileIO(read_end, "rb")
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=DEVNULL,
                stdout=write_end,
                stderr=STDOUT,
                env=dict(environment),
                start_new_session=True,  # a process group of its own, and no terminal that it could ask at
            )
        except BaseException:
            output.close()
            raise
        finally:
            os.close(write_end)
        watchdog.watch_group(process.pid)
        return cls(process, output, _OutputLog(name, os.path.basename(words[0])), tasks, watchdog)

    @property
    def last_line(self) -> str:
        """The last line of its output so far."""
        return self._lines.last

    async def wait(self) -> int:
        """Wait until it ends by itself, and return its exit code; negative if it ended by a signal."""
        return await self._process.wait()

    async def wait_until_listening(self, port: int, seconds: float | None) -> bool:
        """Wait until the local port accepts a connection, or the process ends, or so many seconds have passed.

        Return True if it listens.
        """
        loop, pause = asyncio.get_running_loop(), _FIRST_TRY
        until = None if seconds is None else loop.time() + seconds
        waiting = self._tasks.create_task(self._process.wait())
        try:
            while not waiting.done() and (until is None or loop.time() < until):
                if await accepts(port) and not waiting.done():
                    return True
                await asyncio.wait([waiting], timeout=pause)
                pause = min(pause * 2, _LAST_TRY)
            return False
        finally:
            waiting.cancel()

    async def close(self) -> None:
        """End what is left of the process group: SIGTERM first, then SIGKILL."""
        try:
            if self._signal(signal.SIGTERM):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_ENDS_WITHIN):
                        await self._process.wait()
        finally:
            self._signal(signal.SIGKILL)
            self._watchdog.forget(self._process.pid)
            if not self._reading.done():
                await asyncio.wait([self._reading], timeout=_READ_PAUSE * 5)  # its last words
                self._reading.cancel()

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal to the process group; return False if nothing is left of it."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _log_output(self, output: FileIO) -> None:
        """Log what the command prints, as far as that is little."""
        reader, lines = asyncio.StreamReader(limit=_CHUNK), self._lines
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), output)
        rest = b""
        try:
            while data := await reader.read(_CHUNK):
                *complete, rest = (rest + data).split(b"\n")
                for line in complete:
                    lines.write(line, loop.time())
                rest = rest[-_CHUNK:]
                await asyncio.sleep(_READ_PAUSE)
            lines.write(rest, loop.time())
        finally:
            transport.close()
            lines.end()


class _OutputLog:
    """The lines of one command in the log: at most `_LINES` in `_LINES_WITHIN` seconds."""

    def __init__(self, name: str, program: str) -> None:
        self._name, self._program = name, one_line(program, LONGEST_LINE)
        self._written = deque[float]()
        self._left_out = 0
        self.last = ""

    def write(self, line: bytes, now: float) -> None:
        """Log a line, or count it."""
        text = one_line(line[: 4 * LONGEST_LINE].decode(errors="replace").strip(), LONGEST_LINE)
        if not text:
            return
        self.last = text
        while self._written and now - self._written[0] > _LINES_WITHIN:
            self._written.popleft()
        if len(self._written) >= _LINES:
            self._left_out += 1
            return
        self.end()
        self._written.append(now)
        log.info("%s: %s: %s", self._name, self._program, text)

    def end(self) -> None:
        """Log how many lines were left out."""
        if self._left_out:
            log.warning(FORWARD_WORDS_LEFT_OUT(lines=self._left_out, node=self._name))
            self._left_out = 0


async def accepts(port: int) -> bool:
    """Return True if a local port accepts a connection."""
    with socket.socket() as sock:
        sock.setblocking(False)
        try:
            async with asyncio.timeout(_LAST_TRY):
                await asyncio.get_running_loop().sock_connect(sock, (HOST, port))
        except (OSError, TimeoutError):
            return False
    return True
