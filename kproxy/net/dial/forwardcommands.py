"""The commands of `--forward-command`: one process for each node, which listens on a local port and forwards it.

A command runs without a shell, without a terminal, in a process group of its own. It starts when kproxy first dials its
node, and again after it has ended, after a pause that grows. That its port accepts connections does not mean that the
node is behind it: kproxy verifies the node there, as at each other address.

What a command may do, and what follows:

 * It ends: kproxy logs how, with its last words, and starts it again after a pause. If it never listened, the next one
   gets another port, as something else may have the former one.
 * It does not listen: those who dial wait for at most `_LISTENS_WITHIN` seconds. The command runs on; it may be slow.
 * It floods its output: kproxy reads it slowly, so that the pipe holds the command up, and logs a few lines of it.
 * It ignores SIGTERM: SIGKILL follows. All of its process group ends with it. If kproxy is killed, the watchdog ends
   it.
 * There are too many: at most `_MOST` run for one cluster, those of absent nodes end first, and few start at the same
   time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from time import time
from typing import Protocol

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.base.messages.forwards import (
    FORWARD_ENDED,
    FORWARD_NOT_RUN,
    FORWARD_REFUSED_ADDRESS,
    FORWARD_SILENT,
    TOO_MANY_FORWARDS,
)
from kproxy.base.printable import one_line
from kproxy.base.repeats import about
from kproxy.base.watchdog import Watchdog
from kproxy.net.dial.forwardprocess import LONGEST_LINE, ForwardProcess
from kproxy.net.freeports import HOST, free_ports, is_free

log = logging.getLogger(__name__)

# Processes of one cluster, and how many of them start at the same time.
_MOST, _AT_ONCE = 100, 8
# How long those who dial wait until a command listens, in seconds: some log in first.
_LISTENS_WITHIN = 20.0
# Between the end of a command and its next start, in seconds: the first, if it has run for long enough; else doubled.
_FIRST_PAUSE, _SECOND_PAUSE, _LONGEST_PAUSE = 0.5, 1.0, 60.0
_LONG_ENOUGH = 10.0


class CommandTemplate(Protocol):
    """One `--forward-command`, as `kproxy.config` has it."""

    def fits(self, label: str) -> bool: ...
    def arguments(self, label: str, advertised: Address, port: int) -> tuple[str, ...]: ...


class CommandState(Enum):
    """The state of a command. The values are those of `/status`."""

    STARTING = "starting"
    LISTENING = "listening"
    ENDED = "ended"


@dataclass(eq=False, slots=True)
class RunningCommand:
    """The command for one node, or, with the label "", for one bootstrap server."""

    label: str
    advertised: Address
    template: CommandTemplate
    port: int
    words: tuple[str, ...] = ()
    """The command line of the last start; () before the first."""
    state: CommandState = CommandState.ENDED
    since: float = 0.0
    """The Unix time since when it is in this state."""
    starts: int = 0
    problem: UpstreamError | None = None
    """Why it does not run."""
    process: ForwardProcess | None = None
    """The process of the last start, which may have ended."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it listens, or has ended."""
    task: asyncio.Task[None] | None = None
    pause: float = 0.0

    @property
    def name(self) -> str:
        """The node in messages."""
        if not self.label:
            return f"bootstrap server {self.advertised}"
        kind, _, number = self.label.rpartition("-")
        return f"{kind or 'broker'} {number}"

    @property
    def last_line(self) -> str:
        """The last line of its output."""
        return "" if self.process is None else self.process.last_line

    @property
    def command(self) -> str:
        """The command line for people."""
        return one_line(shlex.join(self.words), LONGEST_LINE)

    def set_state(self, state: CommandState) -> None:
        self.state, self.since = state, time()
        self.settled.clear() if state is CommandState.STARTING else self.settled.set()


class ForwardCommands:
    """The commands of one upstream.

    `is_present` returns whether the node with a label is still in the metadata. `on_end` is called when the command for
    a label has ended by itself. `environment` is that of the commands.
    """

    def __init__(
        self,
        templates: Sequence[CommandTemplate],
        tasks: asyncio.TaskGroup,
        environment: Mapping[str, str],
        title: str = "default",
        is_present: Callable[[str], bool] = lambda label: True,
        on_end: Callable[[str], None] = lambda label: None,
    ) -> None:
        self._templates = templates
        self._tasks = tasks
        self._environment = environment
        self._title = title
        self._is_present = is_present
        self._on_end = on_end
        self._commands: dict[tuple[str, Address | None], RunningCommand] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._watchdog: Watchdog | None = None
        self._closed = False

    def __iter__(self) -> Iterator[RunningCommand]:
        """Iterate over the commands that were started, in the order of their first dial."""
        return iter([command for command in self._commands.values() if command.starts or command.problem])

    def dial_address(self, label: str, advertised: Address) -> Address | None:
        """Return the local address that forwards to a node, or, for "", to a bootstrap server; None if none does.

        Nothing is started yet.
        """
        if not self._templates:  # asked for each dial
            return None
        template = next((template for template in self._templates if template.fits(label)), None)
        if template is None:
            return None
        key = (label, None if label else advertised)
        command = self._commands.get(key)
        if command is None:
            command = self._commands[key] = RunningCommand(label, advertised, template, self._free_port())
        command.advertised = advertised
        return Address(HOST, command.port)

    def _free_port(self) -> int:
        """Return a port for a command; 0 if none is free."""
        try:
            return free_ports(1, {command.port for command in self._commands.values()})[0]
        except OSError:
            return 0

    def _renew_port(self, command: RunningCommand) -> int:
        command.port = self._free_port()
        return command.port

    async def prepare(self, address: Address) -> None:
        """Wait until the command behind a dial address listens, started if necessary; return at once for any other.

        Raises UpstreamError if it does not.
        """
        if not self._commands:
            return
        command = next((c for c in self._commands.values() if c.port == address.port), None)
        if command is None or address.host != HOST or self._closed:
            return
        if not command.port and not self._renew_port(command):
            raise UpstreamError("limit", "no local port is free for a forward command")
        try:
            words = command.template.arguments(command.label, command.advertised, command.port)
        except ValueError as error:
            command.problem = UpstreamError(*FORWARD_REFUSED_ADDRESS.with_reason(problem=error))
            raise command.problem from None
        former = None
        if command.task is not None and words != command.words:  # the node has moved
            former = self._end(command)
        if command.task is None:
            self._make_room()
            command.words, command.pause = words, 0.0
            command.set_state(CommandState.STARTING)
            command.task = self._tasks.create_task(self._keep_running(command, former))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LISTENS_WITHIN):
                await command.settled.wait()
        if command.state is CommandState.STARTING:
            raise UpstreamError(
                *FORWARD_SILENT.with_reason(command=command.command, port=command.port, seconds=_LISTENS_WITHIN)
            )
        if command.state is CommandState.ENDED:
            raise command.problem or UpstreamError("forward-command", f"the forward command '{command.command}' ended")

    def _make_room(self) -> None:
        """End the command of an absent node, if as many run as may. Raises UpstreamError if there is none."""
        running = [command for command in self._commands.values() if command.task is not None]
        if len(running) + len(self._ending) < _MOST:
            return
        absent = next((command for command in running if command.label and not self._is_present(command.label)), None)
        if absent is None or len(self._ending) >= _MOST:
            raise UpstreamError(*TOO_MANY_FORWARDS.with_reason(most=_MOST))
        self.release(absent.label)

    def release(self, label: str) -> None:
        """End the command for a node that clients no longer ask for; it starts again if kproxy dials the node."""
        command = self._commands.pop((label, None), None)
        if command is not None:
            self._end(command)

    def _end(self, command: RunningCommand) -> asyncio.Task[None] | None:
        """Begin to end the command; return the task that does so."""
        task, command.task = command.task, None
        if task is not None and not task.done():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        return task

    async def close(self) -> None:
        """End all commands."""
        self._closed = True
        for command in self._commands.values():
            self._end(command)
        if self._ending:
            await asyncio.wait(self._ending)
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    async def _keep_running(self, command: RunningCommand, former: asyncio.Task[None] | None) -> None:
        """Run the command again and again, for as long as its node is there, once the former one has ended."""
        try:
            if former is not None:
                await asyncio.wait([former])
            while True:
                if not is_free(HOST, command.port):  # else a program that cannot listen there would seem to
                    self._renew_port(command)
                    command.words = command.template.arguments(command.label, command.advertised, command.port)
                listened = await self._run(command)
                log.warning("%s: %s", command.name, command.problem, extra=about(self._title, command.name))
                if not listened:
                    self._renew_port(command)
                command.words = command.template.arguments(command.label, command.advertised, command.port)
                self._on_end(command.label)
                await asyncio.sleep(command.pause)
                if command.label and not self._is_present(command.label):
                    return
                command.set_state(CommandState.STARTING)
        except (UpstreamError, ValueError) as error:
            command.problem = UpstreamError("forward-command", str(error))
        finally:
            if command.task is asyncio.current_task():
                command.task = None
                command.set_state(CommandState.ENDED)

    async def _run(self, command: RunningCommand) -> bool:
        """Run the command until it ends; return True if it has listened. `problem` says why it has ended."""
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as end:
            async with self._at_once:
                command.starts += 1
                began, command.process = loop.time(), None
                try:
                    process = await ForwardProcess.start(
                        command.words, self._environment, command.name, self._tasks, self._open_watchdog()
                    )
                except (OSError, ValueError) as error:  # ValueError: a null character
                    problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
                    _set_pause(command, long_enough=False)
                    command.problem = UpstreamError(
                        *FORWARD_NOT_RUN.with_reason(command=command.command, problem=problem, pause=command.pause)
                    )
                    command.set_state(CommandState.ENDED)
                    return False
                command.process = process
                end.push_async_callback(process.close)
                listens = await process.wait_until_listening(command.port, _LISTENS_WITHIN)
            if listens or await process.wait_until_listening(command.port, None):
                listens, command.problem = True, None
                command.set_state(CommandState.LISTENING)
                log.info("%s: '%s' listens", command.name, command.command, extra=about(self._title, command.name))
            code = await process.wait()
        _set_pause(command, long_enough=listens and loop.time() - began >= _LONG_ENOUGH)
        how = f"with exit code {code}" if code >= 0 else f"by signal {signal.Signals(-code).name}"
        words = f" ({command.last_line})" if command.last_line else ""
        command.problem = UpstreamError(
            *FORWARD_ENDED.with_reason(command=command.command, how=how, words=words, pause=command.pause)
        )
        command.set_state(CommandState.ENDED)
        return listens

    def _open_watchdog(self) -> Watchdog:
        if self._watchdog is None:
            self._watchdog = Watchdog()
        return self._watchdog


def _set_pause(command: RunningCommand, *, long_enough: bool) -> None:
    """Set the pause before the next start."""
    following = max(_SECOND_PAUSE, command.pause * 2) if command.pause else _FIRST_PAUSE
    command.pause = _FIRST_PAUSE if long_enough else min(following, _LONGEST_PAUSE)
