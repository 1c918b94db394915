"""The commands `switch` and `rollback`, and resuming an interrupted one."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Protocol, TextIO

from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import AdminError, ConfigError, KproxyError
from kproxy.migrate.clusters.endpoints import open_endpoints, open_target
from kproxy.migrate.copy.sparksession import spark_session
from kproxy.migrate.format import LogWriter
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry, SwitchJournal, read_last_switch
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.preparation import Preparation
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch.client_selection import ClientSelection
from kproxy.migrate.switch.drive import Drive, DriveResult
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, MissingKproxy, open_fleet, split_name
from kproxy.migrate.switch.inverse_offset_map import swap_endpoints
from kproxy.migrate.switch.partial_rollback import PartialRollback
from kproxy.migrate.switch.report import (
    SwitchResult,
    describe_copies,
    describe_findings,
    describe_no_switch,
    describe_returned_clients,
)
from kproxy.migrate.switch.reverse_copy import ReverseCopy, RollbackContinuation, read_reverse_migration
from kproxy.migrate.switch.switch_run import SwitchContext, SwitchRun, SwitchSetup, SyncedSwitch
from kproxy.proxy.switching.twophase import CoordinatorOutcome, SwitchPlan, driver_id

# How long to wait for clients to reconnect before the report names the missing ones, in seconds.
_RECONNECT_TIMEOUT, _POLL_INTERVAL = 10.0, 0.5


def require_switch_section(migration: Migration) -> SwitchSection:
    """Return the section `switch` of the file. Raises ConfigError if the file has none."""
    if migration.switch is None:
        raise ConfigError(
            "the file has no section 'switch'; allowed: switch:"
            " {kproxies: [HOST:PORT, …], token-file: FILE, target-upstream: NAME}"
        )
    return migration.switch


class SwitchScreen(Protocol):
    """Where a switch reports: `kproxy.migrate.commands.screen.Screen`."""

    @property
    def log_file(self) -> TextIO: ...

    def log(self, text: str) -> None: ...

    def report(self, findings: Iterable[Diagnostic]) -> None: ...

    def show_hold(self, text: str) -> None: ...


@contextmanager
def open_context(migration: Migration, master: str | None, screen: SwitchScreen) -> Iterator[SwitchContext]:
    """Open all connections of a switch or rollback, and Spark, while the context is open."""
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
        yield SwitchContext(spark, migration, endpoints, fleet, section, screen.log, screen.report, screen.show_hold)


def switch_clients(
    context: SwitchContext,
    print_result: Callable[[SwitchResult], None],
    *,
    dry_run: bool,
    reversible: bool,
    selection: ClientSelection | None = None,
    until: Callable[[ReverseCopy], None] = ReverseCopy.wait,
) -> SwitchResult:
    """Switch the clients.

    `print_result` is called before this continues to copy back. `until` waits for the end of the reverse copy.
    """
    reverse_copy = ReverseCopy(context.spark, context.migration, context.endpoints, context.log)
    setup = SwitchSetup(context.migration, context.endpoints, context.section.target_upstream, selection=selection)
    if reversible:
        setup = replace(setup, before_hold=reverse_copy.prepare, during_hold=reverse_copy.begin_during_hold)
    switch = SyncedSwitch(context, setup)
    try:
        with abort_on_signal(switch.abort):
            result = _result_of(switch, switch.run(dry_run=dry_run, reversible=reversible), dry_run=dry_run)
    except KproxyError:
        if reverse_copy.is_prepared:
            reverse_copy.undo()
        raise
    outcome = None if result.drive_result is None else result.drive_result.end
    if reverse_copy.is_prepared and outcome in (None, CoordinatorOutcome.UNDONE):
        reverse_copy.undo()
    elif reversible and outcome is CoordinatorOutcome.RELEASED:
        result.copies_back = True
        print_result(result)
        result.reported = True
        context.log("copying records from the target back to the source, until Ctrl-C or kproxy migrate rollback")
        try:
            with abort_on_signal(lambda _: reverse_copy.close()):
                until(reverse_copy)
        except ConfigError as error:  # another one copies back, or clients have gone back
            context.log(str(error))
    reverse_copy.close()
    return result


def run_rollback(
    migration: Migration,
    master: str | None,
    screen: SwitchScreen,
    *,
    dry_run: bool,
    lost: Iterable[str],
    selection: ClientSelection | None = None,
) -> SwitchResult:
    """Move the clients back, or abort a switch that is not over."""
    with open_target(migration) as target:
        entry = read_last_switch(target, migration.name)
    if entry is not None and not entry.ended:
        if dry_run:
            return SwitchResult(None, f"{entry.what} {entry.switch} has not finished: rollback would abort it")
        return resume_or_abort(migration, screen.log, abort=True, lost=lost)
    with open_context(migration, master, screen) as context:
        return roll_back_clients(context, dry_run=dry_run, selection=selection)


def roll_back_clients(
    context: SwitchContext, *, dry_run: bool, selection: ClientSelection | None = None
) -> SwitchResult:
    """Move the clients back after a switch. `selection`: the clients, if not all were switched."""
    migration, endpoints = context.migration, context.endpoints
    entry = read_last_switch(endpoints.target, migration.name)
    if entry is not None and entry.parts_on_target:
        rollback = PartialRollback(context)
        with abort_on_signal(rollback.abort):
            return _result_of(rollback, rollback.run(selection, dry_run=dry_run), dry_run=dry_run, kind=ROLLBACK)
    if selection is not None:
        raise ConfigError(
            "--only: no clients were moved to the target by themselves; run rollback without --only to move all back"
        )
    if entry is None or not entry.is_moved:
        raise ConfigError("clients are on the source: there is nothing to roll back")
    if not entry.reversible:
        raise ConfigError(
            "the switch was not --reversible: records that clients have written to the target since then would be"
            " missing on the source"
        )
    reverse = read_reverse_migration(migration, endpoints)
    continuation = RollbackContinuation(migration, reverse, endpoints)
    setup = SwitchSetup(
        reverse,
        swap_endpoints(endpoints),
        entry.source_upstream,
        ROLLBACK,
        force=True,
        during_hold=continuation.during_hold,
        compose=continuation.compose,
    )
    if not dry_run:
        with ClusterPair(reverse, setup.endpoints) as sides:  # raises producer ids
            Preparation(sides, sides.examine(0.0), lambda text: context.log(f"reverse copy: {text}")).run()
    switch = SyncedSwitch(context, setup)
    with abort_on_signal(switch.abort):
        return _result_of(switch, switch.run(dry_run=dry_run, reversible=True), dry_run=dry_run, kind=ROLLBACK)


def _result_of(run: SwitchRun, driven: DriveResult | None, *, dry_run: bool, kind: str = SWITCHING) -> SwitchResult:
    if driven is not None:
        clients = _await_clients(run) if driven.end is CoordinatorOutcome.RELEASED else []
        return SwitchResult(
            driven, timings=run.timings, ended_transactions=run.ended_transactions, client_lines=clients
        )
    message = describe_findings(
        run.preflight.findings, dry_run=dry_run, has_replaced_copy=run.has_replaced_copy, kind=kind
    )
    return SwitchResult(None, message, blocked=run.preflight.is_blocked)


def _await_clients(run: SwitchRun) -> list[str]:
    """Wait until the clients have reconnected, or for some seconds, and return lines about them."""
    before = run.unit_replies()
    until = time.monotonic() + _RECONNECT_TIMEOUT
    while True:
        answers = [answer for _, answer in run.fleet.request_all(Kproxy.read_state)]
        all_returned, lines = describe_returned_clients(
            before, [answer for answer in answers if not isinstance(answer, AdminError)]
        )
        if all_returned or time.monotonic() > until:
            return lines
        time.sleep(_POLL_INTERVAL)


def resume_or_abort(migration: Migration, log: LogWriter, *, abort: bool, lost: Iterable[str]) -> SwitchResult:
    """Resume or abort an interrupted switch or rollback."""
    section = require_switch_section(migration)
    with open_target(migration) as target, open_fleet(section) as kproxies:
        driven = resume_drive(target, migration.name, kproxies, section, log, abort=abort, lost=lost)
        last = read_last_switch(target, migration.name) if driven is None else None
    if driven is None:
        return SwitchResult(None, "\n".join(describe_idle_state(migration, last)))
    is_over = driven.end in (CoordinatorOutcome.RELEASED, CoordinatorOutcome.UNDONE)
    return SwitchResult(driven, closing_lines=list(_describe_copies(migration, driven.entry)) if is_over else ())


def describe_idle_state(migration: Migration, last: SwitchEntry | None) -> Iterator[str]:
    """Yield where clients are, and the next command. Works without the source too."""
    yield from describe_no_switch(last)
    yield from _describe_copies(migration, last)


def _describe_copies(migration: Migration, last: SwitchEntry | None) -> Iterator[str]:
    try:
        with open_endpoints(migration) as endpoints:
            yield from describe_copies(last, migration, endpoints)
    except KproxyError as error:
        yield f"running: not known: {error}"


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


def resume_drive(
    target: str,
    name: str,
    fleet: KproxyFleet,
    section: SwitchSection,
    log: LogWriter,
    *,
    abort: bool,
    lost: Iterable[str] = (),
) -> DriveResult | None:
    """Continue a switch whose driver has died, or abort it. Returns None if there is none."""
    with SwitchJournal(target, name) as journal:
        last = journal.read()
        if last is None or (last.ended and not lost):
            return None
        entry = journal.take_over()
        assert entry is not None
        remaining = tuple(kproxy for kproxy in entry.kproxies if kproxy not in set(lost))
        if unknown := set(lost) - set(entry.kproxies):
            raise ConfigError(
                f"--lost {min(unknown)}: is not a participant of this switch; it has {', '.join(entry.kproxies)}"
            )
        with _fleet_of_switch(fleet, remaining, entry.cluster) as participants:
            if not participants.kproxies:
                raise ConfigError("--lost names every kproxy: start at least one, or start a new switch")
            plan = SwitchPlan(
                switch=entry.switch,
                driver=driver_id(entry.driver_number + 1, secrets.token_hex(4)),
                kproxies=remaining,
                former=entry.origin,
                to=entry.to,
                seconds=section.hold_seconds,
                takes_over=True,
                decided=entry.decision,
                abort=abort,
            )
            entry = replace(entry, kproxies=remaining, ended=False)
            return Drive(plan, participants, journal, entry, {}, log).run()


def _fleet_of_switch(fleet: KproxyFleet, names: Iterable[str], cluster: str) -> KproxyFleet:
    """Return the participants of a switch by the names that they had in it, with those that are missing now."""
    kproxies_by_name = {kproxy.name: kproxy for kproxy in fleet.kproxies}
    kproxies = []
    for name in names:
        own, part = split_name(name)
        kproxy = replace(kproxies_by_name.get(own) or Kproxy(own, MissingKproxy(own), cluster), cluster=cluster)
        kproxies.append(kproxy.for_part(part) if part else kproxy)
    return KproxyFleet(kproxies)
