"""What a switch came to, for people and for programs (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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
    "before another switch: kproxy migrate prepare FILE, as the source hands out producer ids above the target's now;"
    " and kproxy migrate copy FILE --follow"
)


def describe_returned_clients(before: Iterable[ClusterReply], now: Sequence[ClusterReply]) -> tuple[bool, list[str]]:
    """Of the clients that were connected before: whether all of them are again and none waits, and that in words."""
    were = {(one.name, one.address) for cluster in before for one in cluster.clients}
    are = {(one.name, one.address) for cluster in now for one in cluster.clients}
    waiting = sorted({one for cluster in now for one in cluster.waiting_consumers})
    missing = sorted(f"{name or '(no client id)'} at {address}" for name, address in were - are)
    found = [f"clients: {len(were & are)} of {len(were)} that were connected before are connected again"]
    if missing:
        found.append(f"not connected again so far: {_abbreviate(missing)}")
    if waiting:
        found.append(f"wait until they have asked for their positions again: {_abbreviate(waiting)}")
    return not missing and not waiting, found


def _abbreviate(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def result_to_json(
    driven: DriveResult,
    took: SyncTimings | None = None,
    ended: Sequence[OpenTransaction] = (),
    clients: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that is known."""
    entry = driven.entry
    return {
        "switch": entry.switch,
        "what": entry.what,
        "cluster": entry.cluster,
        "from": entry.origin,
        "to": entry.to,
        "outcome": driven.end.value,
        "why": list(driven.reasons),
        "held_seconds": None if driven.held_seconds is None else round(driven.held_seconds, 3),
        "stages": {name: round(at, 3) for name, at in driven.stage_starts.items()},
        "work_seconds": None
        if took is None
        else {name: round(getattr(took, name), 3) for name in ("drain", "copy", "verify", "translate")},
        "transactions_aborted": [one.id for one in ended],
        "clients": list(clients),
        "kproxies": [
            {
                "name": name,
                "state": driven.participant_states.get(name, "unknown"),
                "held_seconds": _held_by_kproxy(driven, name),
            }
            for name in entry.kproxies
        ],
    }


def _held_by_kproxy(driven: DriveResult, name: str) -> float | None:
    """By the kproxy's own clock."""
    answer = driven.replies.get(name)
    last = None if answer is None else answer.state.last
    if last is None or last.switch != driven.entry.switch:
        return None
    return round(last.held, 3)


def result_lines(
    driven: DriveResult,
    took: SyncTimings | None = None,
    ended: Sequence[OpenTransaction] = (),
    clients: Sequence[str] = (),
) -> Iterator[str]:
    """For a terminal."""
    entry = driven.entry
    who = f"the clients of part {entry.part}" if entry.part else "all clients"
    said = _OUTCOMES[driven.end].format(who=who, to=entry.to, origin=entry.origin)
    yield f"{entry.what} {entry.switch}: {said}"
    if driven.held_seconds is not None:
        yield f"writes were held for {driven.held_seconds:.1f} s, from the first hold to the last answer"
    elif driven.end is not CoordinatorOutcome.INCOMPLETE and not entry.decisions:
        yield "no write was held"
    if took is not None and took.total:
        yield (
            f"of these: transactions {took.drain:.1f} s, copy {took.copy:.1f} s, compare {took.verify:.1f} s, positions"
            f" {took.translate:.1f} s"
        )
    for name in entry.kproxies[:_MAX_ROWS]:
        held = _held_by_kproxy(driven, name)
        rest = "" if held is None else f", held writes for {held:.1f} s"
        yield f"  {name}: {driven.participant_states.get(name, 'unknown')}{rest}"
    if len(entry.kproxies) > _MAX_ROWS:
        yield f"  and {len(entry.kproxies) - _MAX_ROWS} more: --json has all of them"
    for one in ended:
        yield f"transaction {one.id} was aborted: its application sees that, and begins it again"
    yield from clients
    yield from _next_steps(driven)


def _next_steps(driven: DriveResult) -> Iterator[str]:
    """What is to be done now."""
    entry = driven.entry
    if driven.end is CoordinatorOutcome.RELEASED and entry.part and entry.what == ROLLBACK:
        yield "next: nothing; what is on the source goes on being copied to the target"
    elif driven.end is CoordinatorOutcome.RELEASED and entry.part:
        yield (
            "next: the copy goes on, for those who are on the source still: kproxy migrate copy FILE --follow; then the"
            " next clients with --only, or all that are left without it"
        )
    elif driven.end is CoordinatorOutcome.RELEASED:
        if entry.what == ROLLBACK:
            yield BEFORE_ANOTHER
        yield (
            f"next: set 'active: {entry.to}' in the configuration of every kproxy, before one is begun on another"
            " machine"
        )
    elif driven.end is CoordinatorOutcome.UNDONE and entry.decisions and entry.what == SWITCHING:
        yield "next: start the copy again, whose place this command has taken: kproxy migrate copy FILE --follow"


_OUTCOMES = {
    CoordinatorOutcome.RELEASED: "done: {who} are led to {to}",
    CoordinatorOutcome.UNDONE: "undone: {who} are led to {origin}, as before",
    CoordinatorOutcome.INCOMPLETE: "not finished: kproxy migrate switch --resume or --abort goes on",
    CoordinatorOutcome.TAKEN_OVER: "another driver has taken over: this one has done nothing since",
}
