"""The commands `switch` and `rollback`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from kproxy.base.errors import AdminError, ConfigError, KproxyError
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, MovedPart, SwitchEntry, read_last_switch
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.preparation import Preparation
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.client_selection import ClientSelection
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.fleet import Kproxy
from kproxy.migrate.switch.inverse_offset_map import swap_endpoints
from kproxy.migrate.switch.opening import (
    PrintResult,
    SwitchScreen,
    abort_on_signal,
    await_copy_back,
    open_context,
    require_switch_section,
)
from kproxy.migrate.switch.partial_rollback import PartialRollback
from kproxy.migrate.switch.report import (
    SwitchResult,
    describe_findings,
    describe_returned_clients,
    describe_unfinished,
)
from kproxy.migrate.switch.resumption import read_last, require_dead_driver, resume_or_abort
from kproxy.migrate.switch.reverse_copy import ReverseCopy, RollbackContinuation, read_reverse_migration
from kproxy.migrate.switch.switch_run import SwitchContext, SwitchRun
from kproxy.migrate.switch.synced_switch import SwitchSetup, SyncedSwitch
from kproxy.migrate.switch.unseen_check import UnseenCheck
from kproxy.migrate.switch.wave_rollback import WaveRollback
from kproxy.migrate.switch.wave_sides import narrow, require_moved_wave
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.proxy.switching.twophase import CoordinatorOutcome

# How long to wait for clients to reconnect before the report names the missing ones, in seconds.
_RECONNECT_TIMEOUT, _POLL_INTERVAL = 10.0, 0.5


def switch_clients(
    context: SwitchContext,
    print_result: PrintResult,
    *,
    dry_run: bool,
    reversible: bool,
    selection: ClientSelection | None = None,
    unseen: UnseenCheck | None = None,
    until: Callable[[ReverseCopy], None] = ReverseCopy.wait,
) -> SwitchResult:
    """Switch the clients.

    `print_result` is called before this continues to copy back. `until` waits for the end of the reverse copy.
    """
    last = read_last_switch(context.endpoints.target, context.migration.name)
    context = replace(context, migration=narrow(context.migration, selection, last))
    reverse_copy = ReverseCopy(context.spark, context.migration, context.endpoints, context.log)
    target = context.section.target_upstream
    if unseen is not None:
        owns_topics = selection is None or selection.wave
        unseen = replace(unseen, selects_topic=context.migration.selects_topic) if owns_topics else None
    setup = SwitchSetup(context.migration, context.endpoints, target, selection=selection, unseen=unseen)
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
    if outcome is CoordinatorOutcome.RELEASED:
        switch.check_still_written()
    if reverse_copy.is_prepared and outcome in (None, CoordinatorOutcome.UNDONE):
        reverse_copy.undo()
    elif reversible and outcome is CoordinatorOutcome.RELEASED:
        result.copies_back = True
        print_result(result)
        result.reported = True
        await_copy_back(reverse_copy, context.log, until)
    reverse_copy.close()
    return result


def run_switch(
    migration: Migration,
    master: str | None,
    screen: SwitchScreen,
    print_result: PrintResult,
    *,
    dry_run: bool,
    reversible: bool,
    selection: ClientSelection | None = None,
    unseen: UnseenCheck | None = None,
    usage: ObservedUsage | None = None,
) -> SwitchResult:
    """Switch the clients; or continue what was interrupted, and no more: a switch, a rollback, or the copy back."""
    require_switch_section(migration)
    entry = None if dry_run else read_last(migration)
    if entry is not None and not entry.ended:
        require_dead_driver(entry)
        screen.log(describe_unfinished(entry))
    wave = "" if selection is None else selection.wave
    if entry is not None and (not entry.ended or (reversible and _is_copied_back(entry, wave))):
        return resume_or_abort(migration, master, screen, print_result, abort=False, lost=(), wave=wave)
    with open_context(migration, master, screen, usage) as context:
        return switch_clients(
            context, print_result, dry_run=dry_run, reversible=reversible, selection=selection, unseen=unseen
        )


def _is_copied_back(entry: SwitchEntry, wave: str) -> bool:
    """Return True if the clients of the wave, or all, are on the target, and what they write there is copied back."""
    if wave:
        return wave in entry.waves_on_target and entry.waves_on_target[wave].reversible
    return entry.is_moved and entry.reversible


def run_rollback(
    migration: Migration,
    master: str | None,
    screen: SwitchScreen,
    print_result: PrintResult,
    *,
    dry_run: bool,
    lost: Iterable[str],
    selection: ClientSelection | None = None,
    usage: ObservedUsage | None = None,
) -> SwitchResult:
    """Move the clients back; abort a switch, or continue a rollback, that was interrupted."""
    entry = read_last(migration)
    if entry is not None and not entry.ended:
        aborts = entry.what == SWITCHING
        screen.log(describe_unfinished(entry))
        if dry_run:
            return SwitchResult(
                None, f"no: rollback would {'abort' if aborts else 'continue'} that first", blocked=True
            )
        if not aborts:
            require_dead_driver(entry)
        return resume_or_abort(migration, master, screen, print_result, abort=aborts, lost=lost)
    with open_context(migration, master, screen, usage) as context:
        return roll_back_clients(context, dry_run=dry_run, selection=selection)


def roll_back_clients(
    context: SwitchContext, *, dry_run: bool, selection: ClientSelection | None = None
) -> SwitchResult:
    """Move the clients back after a switch. `selection`: the clients, if not all were switched."""
    entry = read_last_switch(context.endpoints.target, context.migration.name)
    if selection is not None and selection.wave:
        moved_wave = require_moved_wave(entry, selection.wave)
        assert entry is not None
        context = replace(context, migration=context.migration.of_wave(moved_wave.wave, moved_wave.topics))
        if moved_wave.reversible:
            return _roll_back_copied(context, entry, moved_wave, dry_run=dry_run)
    if entry is not None and entry.parts_on_target:
        if not context.migration.wave:
            context = replace(context, migration=context.migration.without_moved(entry.moved_topics))
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
    return _roll_back_copied(context, entry, None, dry_run=dry_run)


def _roll_back_copied(
    context: SwitchContext, entry: SwitchEntry, moved_wave: MovedPart | None, *, dry_run: bool
) -> SwitchResult:
    """Move back the clients of a wave, or all, whose records are copied back."""
    migration, endpoints = context.migration, context.endpoints
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
    switch = SyncedSwitch(context, setup) if moved_wave is None else WaveRollback(context, setup, moved_wave)
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
