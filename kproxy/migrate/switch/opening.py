"""Opening the kproxies, Spark and both clusters for a command of a switch, and closing them after a signal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, TextIO

from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.endpoints import open_endpoints
from kproxy.migrate.copy.sparksession import spark_session
from kproxy.migrate.format import LogWriter
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch.fleet import open_fleet
from kproxy.migrate.switch.report import SwitchResult
from kproxy.migrate.switch.reverse_copy import ReverseCopy
from kproxy.migrate.switch.switch_run import SwitchContext
from kproxy.migrate.usage.observed import ObservedUsage

PrintResult = Callable[[SwitchResult], None]


def require_switch_section(migration: Migration) -> SwitchSection:
    """Return the section `switch` of the file. Raises ConfigError if the file has none."""
    if migration.switch is None:
        raise ConfigError(
            "the file has no section 'switch'; allowed: switch:"
            " {kproxies: [HOST:PORT, …], token-file: FILE, target-upstream: NAME}"
        )
    return migration.switch


class SwitchScreen(Protocol):
    """The receiver of the reports of a switch: `kproxy.migrate.commands.screen.Screen`."""

    @property
    def log_file(self) -> TextIO: ...

    def log(self, text: str) -> None: ...

    def report(self, findings: Iterable[Diagnostic]) -> None: ...

    def show_hold(self, text: str) -> None: ...


@contextmanager
def open_context(
    migration: Migration, master: str | None, screen: SwitchScreen, usage: ObservedUsage | None = None
) -> Iterator[SwitchContext]:
    """Open all connections of a switch or rollback, and Spark, while the context is open.

    `usage` is what clients were observed to use before.
    """
    section = require_switch_section(migration)
    screen.log("starting Spark, and connecting to both clusters")
    with (
        open_fleet(section) as fleet,
        # The last check is of few records, while writes are held.
        spark_session(
            f"kproxy migrate {migration.name}: switch",
            master,
            reads_kafka=True,
            short_jobs=True,
            output=screen.log_file,
        ) as spark,
        open_endpoints(migration, spark) as endpoints,
    ):
        yield SwitchContext(
            spark, migration, endpoints, fleet, section, screen.log, screen.report, screen.show_hold, usage
        )


@contextmanager
def abort_on_signal(abort: Callable[[str], None]) -> Iterator[None]:
    """Call `abort` on Ctrl-C and SIGTERM while the context is open; what has begun is still ended in order.

    Does nothing outside of the main thread, which alone gets signals.
    """

    def handle(number: int, _: FrameType | None) -> None:
        abort(f"{signal.Signals(number).name} was received")

    try:
        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def await_copy_back(reverse_copy: ReverseCopy, log: LogWriter, until: Callable[[ReverseCopy], None]) -> None:
    """Wait with `until` for the end of the copy back, or end it by a signal."""
    log("copying records from the target back to the source, until Ctrl-C or kproxy migrate rollback")
    try:
        with abort_on_signal(lambda _: reverse_copy.close()):
            until(reverse_copy)
    except ConfigError as error:  # another one copies back, or clients have gone back
        log(str(error))
