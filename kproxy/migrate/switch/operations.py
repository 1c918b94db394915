"""What the commands do: switch, go on with one that was broken off, and roll back."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from kproxy.base.errors import AdminError, ConfigError, KproxyError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints, open_endpoints, open_target
from kproxy.migrate.copy.sparksession import spark_session
from kproxy.migrate.journal.switch_journal import ROLLBACK, SwitchEntry, SwitchJournal, read_last_switch
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.preparation import Preparation
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch.client_selection import ClientSelection
from kproxy.migrate.switch.drive import TIMEOUTS, Drive, DriveResult, DriveTimeouts, Say
from kproxy.migrate.switch.final_sync import SyncTimings
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, MissingKproxy, open_fleet, split_name
from kproxy.migrate.switch.inverse_offset_map import swap_endpoints
from kproxy.migrate.switch.next_steps import describe_copies, describe_no_switch
from kproxy.migrate.switch.partial_rollback import PartialRollback
from kproxy.migrate.switch.report import describe_returned_clients
from kproxy.migrate.switch.reverse_copy import ReverseCopy, RollbackContinuation, read_reverse_migration
from kproxy.migrate.switch.switch_run import ReportFindings, SwitchRun
from kproxy.migrate.switch.synced_switch import SwitchSetup, SyncedSwitch
from kproxy.migrate.switch.transactions import OpenTransaction
from kproxy.proxy.switching.twophase import CoordinatorOutcome, SwitchPlan, driver_id

# How long clients may take to connect again until it is said that they have not, in seconds.
_RECONNECT_TIMEOUT, _POLL_INTERVAL = 10.0, 0.5


@dataclass(slots=True)
class SwitchResult:
    """`driven` is None if no write was held; `said` says then what to say, and `stopped` whether something stops it.
    `told`: it has been shown already."""

    drive_result: DriveResult | None
    message: str = ""
    blocked: bool = False
    timings: SyncTimings | None = None
    ended_transactions: Sequence[OpenTransaction] = ()
    reported: bool = False
    client_lines: Sequence[str] = ()


def require_switch_section(migration: Migration) -> SwitchSection:
    """Raises ConfigError if the file has none."""
    if migration.switch is None:
        raise ConfigError(
            "the file has no section 'switch'; allowed: switch: {kproxies: [HOST:PORT, …], token-file: FILE, to: NAME}"
        )
    return migration.switch


@contextmanager
def _open_all(
    migration: Migration, master: str | None
) -> Iterator[tuple[Any, ClusterEndpoints, KproxyFleet, SwitchSection]]:
    section = require_switch_section(migration)
    with (
        open_fleet(section) as those,
        # The last check is of few records, while writes are held.
        spark_session(f"kproxy migrate {migration.name}: switch", master, reads_kafka=True, short_jobs=True) as spark,
        open_endpoints(migration, spark) as endpoints,
    ):
        yield spark, endpoints, those, section


def run_switch(
    migration: Migration,
    master: str | None,
    say: Say,
    show: ReportFindings,
    tell: Callable[[SwitchResult], None],
    *,
    dry_run: bool,
    reversible: bool,
    only: ClientSelection | None = None,
) -> SwitchResult:
    """Raises KproxyError. `tell` is told what came of it before this goes on to copy back."""
    with _open_all(migration, master) as (spark, endpoints, those, section):
        return switch_clients(
            spark,
            migration,
            endpoints,
            those,
            section,
            say,
            show,
            tell,
            dry_run=dry_run,
            reversible=reversible,
            only=only,
        )


def switch_clients(
    spark: Any,
    migration: Migration,
    endpoints: ClusterEndpoints,
    those: KproxyFleet,
    section: SwitchSection,
    say: Say,
    show: ReportFindings,
    tell: Callable[[SwitchResult], None],
    *,
    dry_run: bool,
    reversible: bool,
    only: ClientSelection | None = None,
    limits: DriveTimeouts = TIMEOUTS,
    until: Callable[[ReverseCopy], None] = ReverseCopy.wait,
) -> SwitchResult:
    """The same with everything open. `until` waits for the end of the copy back."""
    kept = ReverseCopy(spark, migration, endpoints, say)
    way = SwitchSetup(
        migration,
        endpoints,
        section.target_upstream,
        journal_cluster=endpoints.target,
        journal_name=migration.name,
        selection=only,
    )
    if reversible:
        way = replace(way, before_hold=kept.prepare, during_hold=kept.begin_during_hold)
    running = SyncedSwitch(spark, way, those, section, say, show, limits)
    try:
        with abort_on_signal(running.abort):
            came = _result_of(running, running.run(dry_run=dry_run, reversible=reversible))
    except KproxyError:
        if kept.is_prepared:
            kept.undo()
        raise
    if not reversible or came.drive_result is None:
        if kept.is_prepared:
            kept.undo()
        return came
    if came.drive_result.end is CoordinatorOutcome.UNDONE:
        kept.undo()
    elif came.drive_result.end is CoordinatorOutcome.RELEASED:
        tell(came)
        came.reported = True
        say("copies back what is written to the target, until it is ended (Ctrl-C) or kproxy migrate rollback is given")
        try:
            with abort_on_signal(lambda _: kept.close()):
                until(kept)
        except ConfigError as error:  # another one copies back, or clients have gone back
            say(str(error))
    kept.close()
    return came


def run_rollback(
    migration: Migration,
    master: str | None,
    say: Say,
    show: ReportFindings,
    *,
    dry_run: bool,
    gone: Iterable[str],
    only: ClientSelection | None = None,
) -> SwitchResult:
    """Raises KproxyError."""
    with open_target(migration) as target:
        entry = read_last_switch(target, migration.name)
    if entry is not None and not entry.ended:
        if dry_run:
            return SwitchResult(None, f"{entry.what} {entry.switch} is not over: rollback would abort it")
        return resume_or_abort(migration, say, abort=True, gone=gone)
    with _open_all(migration, master) as (spark, endpoints, those, section):
        return roll_back_clients(spark, migration, endpoints, those, section, say, show, dry_run=dry_run, only=only)


def roll_back_clients(
    spark: Any,
    migration: Migration,
    endpoints: ClusterEndpoints,
    those: KproxyFleet,
    section: SwitchSection,
    say: Say,
    show: ReportFindings,
    *,
    dry_run: bool,
    only: ClientSelection | None = None,
    limits: DriveTimeouts = TIMEOUTS,
) -> SwitchResult:
    """After a switch, with everything open. `only`: which clients, if not all were switched. Raises KproxyError."""
    entry = read_last_switch(endpoints.target, migration.name)
    if entry is not None and entry.parts_on_target:
        returning = PartialRollback(spark, migration, endpoints, those, section, say, show, limits)
        with abort_on_signal(returning.abort):
            return _result_of(returning, returning.run(only, dry_run=dry_run))
    if only is not None:
        raise ConfigError("--only: no clients are on the target by themselves; rollback without it leads all back")
    if entry is None or not entry.is_moved:
        raise ConfigError("clients are on the source: there is nothing to roll back")
    if not entry.reversible:
        raise ConfigError(
            "the switch was not --reversible: what clients have written to the target since then is only there, and"
            " would be missing on the source"
        )
    back = read_reverse_migration(migration, endpoints)
    led = RollbackContinuation(migration, back, endpoints)
    way = SwitchSetup(
        back,
        swap_endpoints(endpoints),
        entry.source_upstream,
        ROLLBACK,
        endpoints.target,
        migration.name,
        force=True,
        during_hold=led.during_hold,
        compose=led.compose,
    )
    if not dry_run:
        with ClusterPair(back, way.endpoints) as sides:  # looks after producer ids
            Preparation(sides, sides.examine(0.0), lambda text: say(f"the way back: {text}")).run()
    running = SyncedSwitch(spark, way, those, section, say, show, limits)
    with abort_on_signal(running.abort):
        return _result_of(running, running.run(dry_run=dry_run, reversible=True))


def _result_of(running: SwitchRun, driven: DriveResult | None) -> SwitchResult:
    if driven is not None:
        clients = _await_clients(running) if driven.end is CoordinatorOutcome.RELEASED else []
        return SwitchResult(
            driven, timings=running.timings, ended_transactions=running.ended_transactions, client_lines=clients
        )
    stopped = running.preflight.is_blocked
    said = "nothing was held: the lines with 'stop' say what has to be done first" if stopped else "it can be done"
    return SwitchResult(None, said, stopped)


def _await_clients(running: SwitchRun) -> list[str]:
    """What is known of the clients that were there before, when they are back, or after a while."""
    before = running.unit_replies()
    until = time.monotonic() + _RECONNECT_TIMEOUT
    while True:
        answers = [answer for _, answer in running.fleet.request_all(lambda one: one.read_state())]
        all_are, said = describe_returned_clients(before, [one for one in answers if not isinstance(one, AdminError)])
        if all_are or time.monotonic() > until:
            return said
        time.sleep(_POLL_INTERVAL)


def resume_or_abort(migration: Migration, say: Say, *, abort: bool, gone: Iterable[str]) -> SwitchResult:
    """Raises KproxyError."""
    section = require_switch_section(migration)
    with open_target(migration) as target, open_fleet(section) as those:
        driven = resume_drive(target, migration.name, those, section, say, abort=abort, gone=gone)
        last = read_last_switch(target, migration.name) if driven is None else None
    if driven is None:
        return SwitchResult(None, "\n".join(describe_idle_state(migration, last)))
    if driven.end is CoordinatorOutcome.RELEASED and driven.entry.reversible and driven.entry.is_moved:
        say("start the copy back: kproxy migrate copy FILE --back --follow")
    return SwitchResult(driven)


def describe_idle_state(migration: Migration, last: SwitchEntry | None) -> Iterator[str]:
    """Where clients are, and what is next. It is said too if the source cannot be reached."""
    yield from describe_no_switch(last)
    try:
        with open_endpoints(migration) as endpoints:
            yield from describe_copies(last, migration, endpoints)
    except KproxyError as error:
        yield f"whether a copy goes on is not known: {error}"


@contextmanager
def abort_on_signal(abort: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM go back, as long as that can be done; what has begun is always ended in order. Elsewhere than
    in the main thread nobody gets signals."""

    def handle(number: int, _: FrameType | None) -> None:
        abort(f"{signal.Signals(number).name} was given")

    try:
        before = {each: signal.signal(each, handle) for each in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def resume_drive(
    target: str,
    name: str,
    fleet: KproxyFleet,
    section: SwitchSection,
    say: Say,
    *,
    abort: bool,
    gone: Iterable[str] = (),
    limits: DriveTimeouts = TIMEOUTS,
    started: Callable[[Drive], None] = lambda _: None,
) -> DriveResult | None:
    """Go on with a switch whose driver is not there any more, or take it back. None if there is none. Raises
    KproxyError."""
    with SwitchJournal(target, name) as journal:
        last = journal.read()
        if last is None or (last.ended and not gone):
            return None
        entry = journal.take_over()
        assert entry is not None
        left = tuple(one for one in entry.kproxies if one not in set(gone))
        if unknown := set(gone) - set(entry.kproxies):
            raise ConfigError(f"--gone {min(unknown)}: is not part of it; there are {', '.join(entry.kproxies)}")
        with _fleet_of_switch(fleet, left, entry.cluster) as those:
            if not those.kproxies:
                raise ConfigError("--gone names every kproxy: start at least one, or begin a new switch")
            plan = SwitchPlan(
                entry.switch,
                driver_id(entry.driver_number + 1, secrets.token_hex(4)),
                left,
                entry.origin,
                entry.to,
                section.hold_seconds,
                takes_over=True,
                decided=entry.decision,
                abort=abort,
            )
            drive = Drive(plan, those, journal, replace(entry, kproxies=left, ended=False), {}, say, limits)
            started(drive)
            return drive.run()


def _fleet_of_switch(fleet: KproxyFleet, names: Iterable[str], cluster: str) -> KproxyFleet:
    """The kproxies of a switch of this cluster, or part, by the names that they had in it: also those that nobody finds
    now."""
    found = {one.name: one for one in fleet.kproxies}
    those = []
    for name in names:
        own, part = split_name(name)
        one = replace(found.get(own) or Kproxy(own, MissingKproxy(own), cluster), cluster=cluster)
        those.append(one.for_part(part) if part else one)
    return KproxyFleet(those)
