"""The command of `kproxy exec`: it reaches its clusters through its own kproxy, which runs as long as the command.

The command is a child in kproxy's own process group, with kproxy's stdin, stdout and stderr. So on a terminal Ctrl-C
and Ctrl-Z reach both without any help.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.base.messages.start import CANNOT_BE_REACHED, NOT_READY_FOR_COMMAND
from kproxy.config import Config
from kproxy.config.sources import BOOTSTRAP_VARIABLE, environment_of_commands
from kproxy.proxy.app import main
from kproxy.proxy.watch.events import EventLog

# Exit codes beside the command's own, as shells, env and timeout have them.
NOT_READY, NOT_EXECUTABLE, NOT_FOUND, BY_SIGNAL = 125, 126, 127, 128

_PLACEHOLDER = re.compile(r"\{bootstrap(?::([a-z0-9-]+))?\}")
# A terminal sends these to the whole process group in its foreground; the command is in it.
_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
_PASSED_ON = (*_OF_TERMINALS, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
# How often it is looked whether kproxy is ready, in seconds.
_LOOK_AGAIN = 0.02


def run(config: Config, arguments: Sequence[str], timeout: float) -> tuple[int, str]:
    """Run the command when kproxy is ready; return its exit code, and why it was not started ("" if it was).

    Waits at most `timeout` seconds. Raises ConfigError for an unknown placeholder, a port that cannot be bound, or an
    option that would end kproxy before the command.
    """
    if config.exit_with or config.admin_quit:
        raise ConfigError("kproxy exec stops when its command exits: remove exit-with and admin-quit")
    names = [cluster.name for cluster in config.served]
    for unknown in (match[1] for word in arguments for match in _PLACEHOLDER.finditer(word)):
        if unknown is not None and unknown not in names:
            raise ConfigError(f"{{bootstrap:{unknown}}}: no cluster has that name; the clusters are {', '.join(names)}")
    command = ChildCommand(arguments, timeout)
    code = main.run(config, command.run)
    return code, command.problem


class ChildCommand:
    """The command, from waiting for kproxy to its end. `problem` says why it was not started."""

    def __init__(self, arguments: Sequence[str], timeout: float) -> None:
        self.problem = ""
        self._arguments = arguments
        self._timeout = timeout
        self._process: asyncio.subprocess.Process | None = None
        self._stop_with: signal.Signals | None = None  # a signal to stop came before the command was started
        self._file_limit = _file_limit()
        # What is ignored (nohup, a background job of a script) stays so for the command; a handler would end that.
        self._ignored = [number for number in _PASSED_ON if signal.getsignal(number) is signal.SIG_IGN]

    async def run(self, proxy: main.App) -> int:
        """Run the command as the job of the App; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in _PASSED_ON:
            if number in self._ignored:
                signal.signal(number, signal.SIG_IGN)
            else:
                loop.add_signal_handler(number, self._signalled, number)
        with _listening() as events:
            if (code := await self._wait(proxy, events)) is not None:
                return code
        try:
            self._process = await self._start(proxy.bootstrap)
        except FileNotFoundError:
            self.problem = f"{self._arguments[0]}: command not found"
            return NOT_FOUND
        except OSError as error:
            self.problem = f"{self._arguments[0]}: cannot be executed: {error.strerror}"
            return NOT_EXECUTABLE
        if self._stop_with is not None:
            self._process.send_signal(self._stop_with)
        try:
            code = await self._process.wait()
        except asyncio.CancelledError:  # a defect ends kproxy: the command would hang without it
            self._process.terminate()
            raise
        finally:
            for number in {signal.SIGINT, signal.SIGTERM} - {*self._ignored}:
                loop.add_signal_handler(number, proxy.control.stop, number)
        return code if code >= 0 else BY_SIGNAL - code

    async def _wait(self, proxy: main.App, events: EventLog) -> int | None:
        """Wait until kproxy is ready; return an exit code if it will not become ready."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._timeout
        while reasons := proxy.not_ready():
            if self._stop_with is not None:
                return BY_SIGNAL + self._stop_with
            if useless := proxy.permanent_problems():
                self.problem = _why("the command is not run", useless, events)
                return NOT_READY
            if loop.time() >= until:
                self.problem = _why(NOT_READY_FOR_COMMAND(timeout=self._timeout), reasons, events)
                return NOT_READY
            await asyncio.sleep(_LOOK_AGAIN)
        return None

    async def _start(self, bootstrap: Mapping[str, Address]) -> asyncio.subprocess.Process:
        """Start the command. Raises OSError."""
        first = str(next(iter(bootstrap.values())))
        arguments = [
            _PLACEHOLDER.sub(lambda m: str(bootstrap[m[1]]) if m[1] else first, word) for word in self._arguments
        ]
        environment = environment_of_commands(os.environ)
        environment |= {"KAFKA_BOOTSTRAP_SERVERS": first, BOOTSTRAP_VARIABLE: first}
        for name, address in bootstrap.items():
            environment[f"{BOOTSTRAP_VARIABLE}_" + name.upper().replace("-", "_")] = str(address)
        # kproxy takes all the file descriptors that it can get; programs that go through theirs would become slow.
        with _limited_to(self._file_limit):
            return await asyncio.create_subprocess_exec(*arguments, env=environment)

    def _signalled(self, number: signal.Signals) -> None:
        if self._process is None:
            if number in _ENDING:
                self._stop_with = number
        elif self._process.returncode is None and not (number in _OF_TERMINALS and _in_foreground()):
            self._process.send_signal(number)


@contextlib.contextmanager
def _listening() -> Iterator[EventLog]:
    """Collect the lines that the log writes meanwhile."""
    events = EventLog()
    logging.getLogger().addHandler(events)
    try:
        yield events
    finally:
        logging.getLogger().removeHandler(events)


def _why(action: str, reasons: Sequence[str], events: EventLog) -> str:
    """Return what was not done, and why, without the reasons that the log has given already."""
    written = [event.text for event in events.last()]
    new_reasons = [reason for reason in reasons if not any(_cause(reason) in text for text in written)]
    hint = "" if len(new_reasons) == len(reasons) else "; the lines above say why"
    return f"{action}{hint}: {'; '.join(new_reasons)}" if new_reasons else f"{action}{hint}"


def _cause(reason: str) -> str:
    """Return the part of a reason that stands in the log in the same words: what follows the node."""
    return reason.rpartition(CANNOT_BE_REACHED(problem=""))[2]


def _in_foreground() -> bool:
    """Check whether a terminal sends its signals to this process, and so to the command too."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:  # there is none
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def _file_limit() -> tuple[int, int]:
    import resource  # not on Windows

    return resource.getrlimit(resource.RLIMIT_NOFILE)


@contextlib.contextmanager
def _limited_to(limit: tuple[int, int]) -> Iterator[None]:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
