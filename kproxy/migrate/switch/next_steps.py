"""The state when no switch is in progress: where clients are, whether a copy runs, and the next command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.base.format import abbreviate
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.journal.driver import find_active_driver
from kproxy.migrate.journal.switch_journal import ROLLBACK, SwitchEntry
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.inverse_offset_map import reverse_name
from kproxy.migrate.switch.report import BEFORE_ANOTHER
from kproxy.proxy.switching.twophase import JournalDecision

_START_SWITCH = "next: kproxy migrate switch FILE starts a switch"


def describe_no_switch(last: SwitchEntry | None) -> Iterator[str]:
    """Yield why no switch can be resumed, and where clients are."""
    if last is None:
        yield "no switch to resume: none was started, and clients are on the source"
        return
    undone = "" if last.decision is JournalDecision.RELEASED else " (undone)"
    upstream = f"{last.target_upstream}, the target" if last.is_moved else f"{last.source_upstream}, the source"
    yield f"no switch to resume: {last.what} {last.switch} has finished{undone}, and clients are on {upstream}"
    for part in last.parts_on_target:
        yield f"except these clients, which are on {last.target_upstream}, the target: {abbreviate(part.clients)}"


def describe_copies(last: SwitchEntry | None, migration: Migration, endpoints: ClusterEndpoints) -> Iterator[str]:
    """Yield whether the copy that is due now runs, and the next command. Takes some seconds.

    Raises UpstreamError, WireError and ConfigError.
    """
    if last is None or not last.is_moved:
        yield from describe_copy(find_active_driver(endpoints.target, migration.name), last)
    elif last.reversible:
        yield from describe_reverse_copy(find_active_driver(endpoints.source, reverse_name(migration.name)), last)
    else:
        yield (
            "nothing is copied back: the switch was not --reversible. next: kproxy migrate finish FILE, when all"
            " consumers have reconnected"
        )


def describe_copy(driver: Mapping[str, Any] | None, last: SwitchEntry | None) -> Iterator[str]:
    """Yield the state of the copy to the target; `driver` is the record of the driver, None if no copy runs (pure)."""
    if driver is None:
        yield "the copy to the target has stopped: run kproxy migrate copy FILE --follow to resume it"
    else:
        yield f"the copy to the target is running: {_driver_name(driver)}"
    if last is not None and last.what == ROLLBACK and not last.part:
        yield BEFORE_ANOTHER
    else:
        yield _START_SWITCH


def describe_reverse_copy(driver: Mapping[str, Any] | None, last: SwitchEntry) -> Iterator[str]:
    """Yield the state of the copy to the source; `driver` is the record of the driver, None if no copy runs (pure)."""
    if driver is None:
        yield (
            f"records that clients write to {last.target_upstream} are not copied back now: run kproxy migrate copy"
            " FILE --reverse --follow to resume that"
        )
    else:
        yield f"records that clients write to {last.target_upstream} are copied back: {_driver_name(driver)}"
    yield (
        "next: kproxy migrate rollback FILE moves clients back; or kproxy migrate finish FILE ends the migration,"
        " without a rollback after it"
    )


def _driver_name(driver: Mapping[str, Any]) -> str:
    return f"process {driver.get('pid')} on {driver.get('host')}"
