"""What holds when no switch is under way: on which side clients are, whether a copy goes on, which command is next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.migrate.clusters.roads import Roads
from kproxy.migrate.journal.driver import driver_now
from kproxy.migrate.journal.switch import ROLLBACK, Entry
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.only import some
from kproxy.migrate.switch.report import BEFORE_ANOTHER
from kproxy.migrate.switch.reverse import back_of
from kproxy.proxy.switching.plan import Record

_BEGINS = "next: kproxy migrate switch FILE begins one"


def no_switch(last: Entry | None) -> Iterator[str]:
    """Why there is none to go on with, and where clients are."""
    if last is None:
        yield "there is no switch to go on with: none was begun, and clients are on the source"
        return
    undone = "" if last.decision is Record.RELEASED else " (undone)"
    where = f"{last.after}, the target" if last.moved else f"{last.before}, the source"
    yield f"there is no switch to go on with: {last.what} {last.switch} is over{undone}, and clients are on {where}"
    for one in last.there:
        yield f"but these are on {last.after}, the target: {some(one.clients)}"


def copies(last: Entry | None, migration: Migration, roads: Roads) -> Iterator[str]:
    """Whether the copy goes on that is due now, and what is next. It takes some seconds. Raises UpstreamError,
    WireError and ConfigError."""
    if last is None or not last.moved:
        yield from forth(driver_now(roads.target, migration.name), last)
    elif last.reversible:
        yield from back(driver_now(roads.source, back_of(migration.name)), last)
    else:
        yield (
            "nothing is copied back: the switch was not --reversible. next: kproxy migrate finish FILE, when all"
            " consumers have come back"
        )


def forth(driver: Mapping[str, Any] | None, last: Entry | None) -> Iterator[str]:
    """`driver`: who copies to the target now; None: nobody (pure)."""
    if driver is None:
        yield "the copy to the target has ended: kproxy migrate copy FILE --follow goes on with it"
    else:
        yield f"the copy to the target goes on: {_who(driver)}"
    if last is not None and last.what == ROLLBACK and not last.part:
        yield BEFORE_ANOTHER
    else:
        yield _BEGINS


def back(driver: Mapping[str, Any] | None, last: Entry) -> Iterator[str]:
    """The same of the copy to the source."""
    if driver is None:
        yield (
            f"what clients write to {last.after} is not copied back now: kproxy migrate copy FILE --back --follow goes"
            " on with it"
        )
    else:
        yield f"what clients write to {last.after} is copied back: {_who(driver)}"
    yield "next: kproxy migrate rollback FILE leads clients back; kproxy migrate finish FILE ends the way back"


def _who(driver: Mapping[str, Any]) -> str:
    return f"process {driver.get('pid')} on {driver.get('host')}"
