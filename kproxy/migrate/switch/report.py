"""The result of a switch as text and as JSON (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kproxy.base.format import abbreviate
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.final_sync import SyncTimings
from kproxy.migrate.switch.kproxy_replies import ClusterReply
from kproxy.migrate.switch.transactions import OpenTransaction
from kproxy.proxy.switching.twophase import CoordinatorOutcome

# Of many kproxies, so many have a line of their own.
_MAX_ROWS = 50
# And of many clients, so many are named.
_MAX_NAMES = 20


BEFORE_ANOTHER = (
    "before another switch: run kproxy migrate prepare FILE, as the source assigns producer ids above the target's"
    " now; and kproxy migrate copy FILE --follow"
)


def describe_returned_clients(before: Iterable[ClusterReply], now: Sequence[ClusterReply]) -> tuple[bool, list[str]]:
    """Return whether all clients from before are connected again and none waits, and lines about it."""
    clients_before = {(client.name, client.address) for cluster in before for client in cluster.clients}
    clients_now = {(client.name, client.address) for cluster in now for client in cluster.clients}
    waiting_consumers = sorted({consumer for cluster in now for consumer in cluster.waiting_consumers})
    missing = sorted(f"{name or '(no client id)'} at {address}" for name, address in clients_before - clients_now)
    lines = [
        f"clients: {len(clients_before & clients_now)} of {len(clients_before)} that were connected before have"
        " reconnected"
    ]
    if missing:
        lines.append(f"not reconnected yet: {abbreviate(missing, _MAX_NAMES)}")
    if waiting_consumers:
        names = abbreviate(waiting_consumers, _MAX_NAMES)
        lines.append(f"get no records until they fetch their positions again: {names}")
    return not missing and not waiting_consumers, lines


def result_to_json(
    drive_result: DriveResult,
    timings: SyncTimings | None = None,
    ended: Sequence[OpenTransaction] = (),
    clients: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the result as JSON values."""
    entry = drive_result.entry
    return {
        "switch": entry.switch,
        "what": entry.what,
        "cluster": entry.cluster,
        "from": entry.origin,
        "to": entry.to,
        "outcome": drive_result.end.value,
        "why": list(drive_result.reasons),
        "held_seconds": None if drive_result.held_seconds is None else round(drive_result.held_seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in drive_result.stage_starts.items()},
        "work_seconds": None
        if timings is None
        else {name: round(getattr(timings, name), 3) for name in ("drain", "copy", "verify", "translate")},
        "transactions_aborted": [transaction.id for transaction in ended],
        "clients": list(clients),
        "kproxies": [
            {
                "name": name,
                "state": drive_result.participant_states.get(name, "unknown"),
                "held_seconds": _held_by_kproxy(drive_result, name),
            }
            for name in entry.kproxies
        ],
    }


def _held_by_kproxy(drive_result: DriveResult, name: str) -> float | None:
    """Return how long this kproxy held writes, by its own clock."""
    reply = drive_result.replies.get(name)
    last = None if reply is None else reply.state.last
    if last is None or last.switch != drive_result.entry.switch:
        return None
    return round(last.held, 3)


def result_lines(
    drive_result: DriveResult,
    timings: SyncTimings | None = None,
    ended: Sequence[OpenTransaction] = (),
    clients: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines for a terminal."""
    entry = drive_result.entry
    clients_text = f"the clients of part {entry.part}" if entry.part else "all clients"
    outcome = _OUTCOMES[drive_result.end].format(clients=clients_text, to=entry.to, origin=entry.origin)
    yield f"{entry.what} {entry.switch}: {outcome}"
    if drive_result.held_seconds is not None:
        yield f"writes were held for {drive_result.held_seconds:.1f} s, from the first hold to the last reply"
    elif drive_result.end is not CoordinatorOutcome.INCOMPLETE and not entry.decisions:
        yield "no writes were held"
    if timings is not None and timings.total:
        yield (
            f"of which: transactions {timings.drain:.1f} s, copy {timings.copy:.1f} s, compare {timings.verify:.1f}"
            f" s, positions {timings.translate:.1f} s"
        )
    for name in entry.kproxies[:_MAX_ROWS]:
        held = _held_by_kproxy(drive_result, name)
        held_text = "" if held is None else f", held writes for {held:.1f} s"
        yield f"  {name}: {drive_result.participant_states.get(name, 'unknown')}{held_text}"
    if len(entry.kproxies) > _MAX_ROWS:
        yield f"  and {len(entry.kproxies) - _MAX_ROWS} more: --json has all of them"
    for transaction in ended:
        yield f"transaction {transaction.id} was aborted: its application observes the abort, and starts it again"
    yield from clients
    yield from _next_steps(drive_result)


def _next_steps(drive_result: DriveResult) -> Iterator[str]:
    """Yield the next commands."""
    entry = drive_result.entry
    if drive_result.end is CoordinatorOutcome.RELEASED and entry.part and entry.what == ROLLBACK:
        yield "next: nothing; the copy from the source to the target continues"
    elif drive_result.end is CoordinatorOutcome.RELEASED and entry.part:
        yield (
            "next: keep the copy running for the clients that are still on the source: kproxy migrate copy FILE"
            " --follow; then switch the next clients with --only, or all others without it"
        )
    elif drive_result.end is CoordinatorOutcome.RELEASED:
        if entry.what == ROLLBACK:
            yield BEFORE_ANOTHER
        yield (
            f"next: set 'active: {entry.to}' in the configuration of every kproxy, before you start one on another"
            " machine"
        )
    elif drive_result.end is CoordinatorOutcome.UNDONE and entry.decisions and entry.what == SWITCHING:
        yield "next: restart the copy, which this command has replaced: kproxy migrate copy FILE --follow"


_OUTCOMES = {
    CoordinatorOutcome.RELEASED: "done: {clients} are routed to {to}",
    CoordinatorOutcome.UNDONE: "undone: {clients} are routed to {origin}, as before",
    CoordinatorOutcome.INCOMPLETE: "not finished: run kproxy migrate switch FILE --resume or --abort",
    CoordinatorOutcome.TAKEN_OVER: "another driver has taken over: this one has done nothing since",
}
