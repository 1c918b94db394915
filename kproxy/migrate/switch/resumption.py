"""Continuing a switch or rollback whose driver has ended before it, forward or back."""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from kproxy.base.diagnostic import ERROR, Diagnostic
from kproxy.base.errors import ConfigError, KproxyError
from kproxy.base.process import start_time
from kproxy.migrate.clusters.endpoints import open_endpoints, open_target
from kproxy.migrate.copier.state import state_topic_name
from kproxy.migrate.format import LogWriter
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry, SwitchJournal, read_last_switch
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.migrate.switch.drive import Drive, DriveResult
from kproxy.migrate.switch.expected_users import named_users
from kproxy.migrate.switch.final_sync import list_topics
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, MissingKproxy, open_fleet, split_name
from kproxy.migrate.switch.inverse_offset_map import reverse_name
from kproxy.migrate.switch.kproxy_replies import ClusterReply
from kproxy.migrate.switch.opening import (
    PrintResult,
    SwitchScreen,
    await_copy_back,
    open_context,
    require_switch_section,
)
from kproxy.migrate.switch.report import (
    COPIES_BACK,
    NOT_COPIED_BACK,
    SwitchResult,
    describe_copies,
    describe_no_switch,
    describe_reverse_copy,
)
from kproxy.migrate.switch.reverse_copy import PREPARED_IN_VAIN, ReverseCopy
from kproxy.migrate.switch.source_use import UNREACHED, read_source_use
from kproxy.migrate.switch.user_logins import check_users
from kproxy.proxy.switching.participant import Phase
from kproxy.proxy.switching.twophase import CoordinatorOutcome, JournalDecision, SwitchPlan, driver_id


def read_last(migration: Migration) -> SwitchEntry | None:
    """Return the last switch or rollback. Raises ConfigError if nothing was prepared."""
    with open_target(migration) as target:
        return read_last_switch(target, migration.name)


def require_dead_driver(entry: SwitchEntry) -> None:
    """Raise ConfigError if the driver of this switch may still live: two commands must not drive by accident."""

    def is_alive(pid: int) -> bool:
        return pid != os.getpid() and start_time(pid) is not None

    now_ms = time.time_ns() // 1_000_000
    if entry.may_be_driven(now_ms, platform.node(), is_alive):
        raise ConfigError(
            f"{entry.what} {entry.switch} was started by process {entry.pid} on {entry.host}, which wrote to the"
            f" journal {max(0, now_ms - entry.at) / 1000:.0f} s ago and may still drive it: wait for its end, or run"
            " kproxy migrate switch FILE --resume, which takes it over"
        )


def resume_or_abort(
    migration: Migration,
    master: str | None,
    screen: SwitchScreen,
    print_result: PrintResult,
    *,
    abort: bool,
    lost: Iterable[str],
    wave: str = "",
) -> SwitchResult:
    """Resume or abort an interrupted switch or rollback, and start the copy back again if it is due and has stopped.

    `print_result` is called before this continues to copy back. `wave`: the wave whose copy back is started again, if
    nothing was interrupted; by default, the one that was switched last.
    """
    section = require_switch_section(migration)
    with open_target(migration) as target, open_fleet(section) as kproxies:
        driven = resume_drive(target, migration, kproxies, section, screen.log, abort=abort, lost=lost)
        last = read_last_switch(target, migration.name) if driven is None else driven.entry
    if driven is not None and driven.end not in (CoordinatorOutcome.RELEASED, CoordinatorOutcome.UNDONE):
        return SwitchResult(driven)
    if last is not None and (moved := last.waves_on_target.get(last.wave if driven is not None else wave or last.wave)):
        migration = migration.of_wave(moved.wave, moved.topics)
    _undo_reverse_copies(migration, _prepared_in_vain(migration, driven, last, abort=abort), screen.log)
    closing_lines = list(_describe_copies(migration, last))
    if driven is not None and last is not None and last.is_moved:
        screen.report(_check_source(migration))
    if last is not None and closing_lines[0] == NOT_COPIED_BACK:
        return _copy_back(migration, master, screen, print_result, driven, last, closing_lines)
    return _idle_result(driven, last, closing_lines)


def _prepared_in_vain(
    migration: Migration, driven: DriveResult | None, last: SwitchEntry | None, *, abort: bool
) -> Mapping[str, tuple[str, ...]]:
    """Return the waves whose drivers may have prepared the source for a copy back in vain, and their topics (pure).

    "" stands for all clients. A driver prepares the source before its switch is in the journal. So an abort without an
    interrupted switch returns all that no switch has moved.
    """
    if driven is not None:
        entry = driven.entry
        is_in_vain = driven.end is CoordinatorOutcome.UNDONE and entry.what == SWITCHING and entry.reversible
        return {entry.wave: entry.topics} if is_in_vain else {}
    if not abort or (last is not None and last.is_moved):
        return {}
    moved = () if last is None else last.switched_waves
    waves = {name: wave.topics for name, wave in migration.waves.items() if name not in moved}
    return waves if last is not None and (last.again or last.what == ROLLBACK) else {"": (), **waves}


def _undo_reverse_copies(migration: Migration, waves: Mapping[str, tuple[str, ...]], log: LogWriter) -> None:
    """Undo what was changed on the source to copy records back there, for these waves and their topics."""
    if not waves:
        return
    try:
        with open_endpoints(migration) as endpoints:
            topics = list_topics(endpoints.source)
            for wave, globs in waves.items():
                narrowed = migration.of_wave(wave, globs) if wave else migration
                if state_topic_name(reverse_name(narrowed)) in topics:
                    ReverseCopy(None, narrowed, endpoints, log).undo()
    except KproxyError as error:
        log(f"reverse copy: {PREPARED_IN_VAIN.format(error=error)}")


def _idle_result(driven: DriveResult | None, last: SwitchEntry | None, closing_lines: Sequence[str]) -> SwitchResult:
    if driven is None:
        return SwitchResult(None, "\n".join([*describe_no_switch(last), *closing_lines]))
    return SwitchResult(driven, closing_lines=closing_lines)


def _copy_back(
    migration: Migration,
    master: str | None,
    screen: SwitchScreen,
    print_result: PrintResult,
    driven: DriveResult | None,
    last: SwitchEntry,
    closing_lines: Sequence[str],
) -> SwitchResult:
    """Start the copy back again, print the result, and wait for the end of the copy.

    If it cannot start, the result says that no copy runs. Raises KproxyError if it ends by an error.
    """
    screen.log("the copy from the target back to the source has ended with its driver: starting it again")
    with ExitStack() as stack:
        try:
            context = stack.enter_context(open_context(migration, master, screen))
            reverse_copy = ReverseCopy(context.spark, migration, context.endpoints, context.log)
            reverse_copy.resume()
        except KproxyError as error:
            screen.log(f"the copy back could not be started again: {error}")
            return _idle_result(driven, last, closing_lines)
        _, next_line = describe_reverse_copy({"pid": os.getpid(), "host": platform.node()}, last, migration.wave)
        result = _idle_result(driven, last, [f"running: {COPIES_BACK}", next_line])
        print_result(result)
        result.reported = True
        await_copy_back(reverse_copy, context.log, ReverseCopy.wait)
        reverse_copy.close()
        return result


def _describe_copies(migration: Migration, last: SwitchEntry | None) -> Iterator[str]:
    try:
        with open_endpoints(migration) as endpoints:
            yield from describe_copies(last, migration, endpoints)
    except KproxyError as error:
        yield f"running: not known: {error}"


def _check_source(migration: Migration) -> Iterable[Diagnostic]:
    """Return who still uses the source after all clients were moved to the target."""
    try:
        with open_endpoints(migration) as endpoints:
            return read_source_use(migration, endpoints.source, endpoints.target).findings
    except KproxyError:
        return UNREACHED.findings


def resume_drive(
    target: str,
    migration: Migration,
    fleet: KproxyFleet,
    section: SwitchSection,
    log: LogWriter,
    *,
    abort: bool,
    lost: Iterable[str] = (),
) -> DriveResult | None:
    """Continue a switch whose driver has died, or abort it. Returns None if there is none.

    It goes back if all kproxies have committed, and a user cannot log in where clients would continue.
    """
    with SwitchJournal(target, migration.name) as journal:
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
            problems = [] if abort else _login_problems(fleet, participants, migration, entry, log)
            plan = SwitchPlan(
                switch=entry.switch,
                driver=driver_id(entry.driver_number + 1, secrets.token_hex(4)),
                kproxies=remaining,
                former=entry.origin,
                to=entry.to,
                seconds=section.hold_seconds,
                takes_over=True,
                decided=entry.decision,
                abort=abort or bool(problems),
            )
            entry = replace(entry, kproxies=remaining, ended=False)
            driven = Drive(plan, participants, journal, entry, {}, log).run()
            has_gone_back = driven.end is CoordinatorOutcome.UNDONE
            return replace(driven, reasons=(*problems, *driven.reasons)) if has_gone_back else driven


def _login_problems(
    fleet: KproxyFleet, participants: KproxyFleet, migration: Migration, entry: SwitchEntry, log: LogWriter
) -> list[str]:
    """Return why users cannot log in where an interrupted switch would move clients; none if that is decided already.

    Only if all kproxies have committed, the next driver can move clients on or back. Rights are left out: writes are
    held meanwhile, and the preflight has tried them.
    """
    states = [reply for _, reply in participants.request_all(Kproxy.read_state) if isinstance(reply, ClusterReply)]
    has_committed = [reply.state.switch == entry.switch and reply.state.phase is Phase.COMMITTED for reply in states]
    if entry.decision is JournalDecision.RELEASED or len(states) < len(participants.kproxies) or not all(has_committed):
        return []
    seen = {*entry.users, *(client.user for reply in states for client in reply.clients if client.user)}
    users = named_users(migration, seen, back=entry.what == ROLLBACK)
    names = {split_name(kproxy.name)[0] for kproxy in participants.kproxies}
    kproxies = fleet.subset([kproxy for kproxy in fleet.kproxies if kproxy.name in names])
    findings = list(check_users(kproxies, [user for user in users if user.is_seen or not entry.part], entry.to))
    for finding in findings:
        log(f"{finding.severity}: {finding.subject}: {finding.text}")
    return [f"{finding.subject}: {finding.text}" for finding in findings if finding.severity is ERROR]


def _fleet_of_switch(fleet: KproxyFleet, names: Iterable[str], cluster: str) -> KproxyFleet:
    """Return the participants of a switch by the names that they had in it, with those that are missing now."""
    kproxies_by_name = {kproxy.name: kproxy for kproxy in fleet.kproxies}
    kproxies = []
    for name in names:
        own, part = split_name(name)
        kproxy = replace(kproxies_by_name.get(own) or Kproxy(own, MissingKproxy(own), cluster), cluster=cluster)
        kproxies.append(kproxy.for_part(part) if part else kproxy)
    return KproxyFleet(kproxies)
