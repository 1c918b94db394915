"""The control of the process: signals, who may end it, what a second signal does, the drain."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kproxy.base.messages.runtime import CLOSED_BUSY, STOPPING, STOPPING_AT_ONCE
from kproxy.config import Config
from kproxy.proxy.app.logs import NOT_ON_TERMINAL, end_line
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.gateway import Gateway

if TYPE_CHECKING:
    from kproxy.proxy.app.exitconditions import ExitCondition

log = logging.getLogger(__name__)


class Control:
    """The end of this process. `stopping` is set from its beginning on."""

    def __init__(self, config: Config) -> None:
        """Prepare the conditions of `--exit-with`. Raises ConfigError if one cannot be watched."""
        self.config = config
        self.stopping = asyncio.Event()
        self._stop_reason = ""  # why it must stop; "" if its job is done
        self._signalled = False
        self._endings = _endings(config)

    def handle_signals(self, reload: Callable[[str], bool] = lambda reason: False) -> None:
        """Let SIGTERM and SIGINT end this process from now on, and SIGHUP reload it.

        SIGHUP ends the process if `reload` returns False, as there is nothing to reload, or if the terminal was closed.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop, number)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored by nohup: it stays so
            # Never at once: a terminal that is closed may send it twice, by itself and by the shell in it.
            loop.add_signal_handler(signal.SIGHUP, self._on_hang_up, Terminal(), reload)

    def _on_hang_up(self, terminal: Terminal, reload: Callable[[str], bool]) -> None:
        if terminal.was_closed or not reload(signal.SIGHUP.name):
            self.end(signal.SIGHUP.name)

    def watch(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Wait for the conditions of `--exit-with`, in these tasks."""
        return [tasks.create_task(self._end_with(ending)) for ending in self._endings]

    async def _end_with(self, ending: ExitCondition) -> None:
        self.end(await ending.wait())

    def end(self, reason: str) -> None:
        """Begin an orderly end, unless it has begun."""
        if not self.stopping.is_set():
            self._stop_reason = reason
            self.stopping.set()

    def stop(self, number: int) -> None:
        """Handle SIGTERM or SIGINT: the first begins an orderly end, the second ends the process at once."""
        if self._signalled or (self.stopping.is_set() and not self._stop_reason):
            log.warning(STOPPING_AT_ONCE())
            # Not sys.exit: nothing may hold this up.
            logging.shutdown()
            os._exit(128 + number)
        self._signalled = True
        if number == signal.SIGINT and self.config.log_format == "auto" and log.isEnabledFor(logging.INFO):
            end_line(sys.stderr)
        self.end(signal.Signals(number).name)

    async def drain(self, gateways: Sequence[Gateway], sessions: AllSessions) -> None:
        """Stop accepting, let what is in flight finish, close what is left."""
        for gateway in gateways:
            gateway.stop_accepting()
        if self._stop_reason:
            in_flight = sum(count for _, _, count in sessions.in_flight())
            # A person at a terminal who pressed Ctrl-C only needs to know what kproxy waits for.
            is_known = not in_flight and self._stop_reason == signal.SIGINT.name
            text = STOPPING(reason=self._stop_reason, in_flight=_count(in_flight, "request"))
            log.info(text, extra=NOT_ON_TERMINAL if is_known else None)
        busy = await sessions.drain(self.config.drain_timeout)
        if busy:
            log.warning(CLOSED_BUSY(sessions=_count(busy, "session"), seconds=self.config.drain_timeout))
        for gateway in gateways:
            await gateway.close()


def _endings(config: Config) -> list[ExitCondition]:
    if not config.exit_with:
        return []
    from kproxy.proxy.app.exitconditions import ExitCondition  # few need it

    return [ExitCondition(awaited) for awaited in config.exit_with]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def release_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Let either of SIGTERM and SIGINT end this process at once from now on: the loop will not turn again.

    Python's own handler of SIGINT raises KeyboardInterrupt, which click answers with an empty line on stderr: a reader
    of stderr that has stopped would keep kproxy alive.
    """
    handled = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)  # remove_signal_handler restores Python's handler
    try:
        for number in handled:
            if loop.remove_signal_handler(number):
                signal.signal(number, signal.SIG_DFL)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Terminal:
    """The controlling terminal, if there was one at start."""

    def __init__(self) -> None:
        self._had_one = _has_one()

    @property
    def was_closed(self) -> bool:
        """True if it was closed. The system takes it away before it sends SIGHUP."""
        return self._had_one and not _has_one()


def _has_one() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
