"""The result of a switch as text and as JSON; without a switch in progress, where clients are and the next command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kproxy.base.diagnostic import ERROR, Diagnostic, grouped
from kproxy.base.format import abbreviate, format_count
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.journal.driver import find_active_driver
from kproxy.migrate.journal.switch_journal import ROLLBACK, SwitchEntry
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.inverse_offset_map import reverse_name
from kproxy.migrate.switch.kproxy_replies import ClusterReply
from kproxy.migrate.switch.sync_timings import SyncTimings
from kproxy.migrate.switch.transactions import OpenTransaction
from kproxy.proxy.switching.twophase import CoordinatorOutcome, JournalDecision, KnownPhase

# Of many kproxies, so many have a line of their own.
_MAX_ROWS = 50
NO_COPY = "no copy"
COPIES_BACK = "this command, which copies back what clients write to the target, until Ctrl-C"
NOT_COPIED_BACK = f"running: {NO_COPY}: what clients write to the target is not copied back now"
# Kproxies that hold no writes for this switch any more.
_SETTLED = frozenset({KnownPhase.RELEASED, KnownPhase.UNDONE, KnownPhase.SERVING})
BEFORE_ANOTHER = "before another switch: run kproxy migrate copy FILE --follow"


@dataclass(slots=True)
class SwitchResult:
    """The result of a switch, rollback, resume or abort."""

    drive_result: DriveResult | None
    """None if no write was held."""
    message: str = ""
    """The text to print if no write was held."""
    blocked: bool = False
    """True if a finding stopped it before writes were held."""
    timings: SyncTimings | None = None
    ended_transactions: Sequence[OpenTransaction] = ()
    reported: bool = False
    """True if the result was printed already."""
    client_lines: Sequence[str] = ()
    """Lines about the clients that reconnected."""
    copies_back: bool = False
    """True if the command copies records from the target back to the source from now on."""
    closing_lines: Sequence[str] = ()
    """Lines about running copies and the next step, if the command has asked the clusters; else the result has them."""


def describe_returned_clients(before: Iterable[ClusterReply], now: Sequence[ClusterReply]) -> tuple[bool, list[str]]:
    """Return whether all clients from before are connected again and none waits, and lines about it."""
    clients_before = {(client.name, client.address) for cluster in before for client in cluster.clients}
    clients_now = {(client.name, client.address) for cluster in now for client in cluster.clients}
    waiting_consumers = sorted({consumer for cluster in now for consumer in cluster.waiting_consumers})
    missing = sorted(f"{name or '(no client id)'} at {address}" for name, address in clients_before - clients_now)
    lines = [
        f"{len(clients_before & clients_now)} of {len(clients_before)} clients that were connected before have"
        " reconnected"
    ]
    if missing:
        lines.append(f"not reconnected yet: {abbreviate(missing, 20)}")
    if waiting_consumers:
        lines.append(f"get no records until they fetch their positions again: {abbreviate(waiting_consumers, 20)}")
    return not missing and not waiting_consumers, lines


def result_to_json(result: SwitchResult) -> dict[str, Any]:
    """Return the result as JSON values.

    If no write was held, `outcome` is "blocked" where a finding stopped the command, else "not begun".
    """
    drive_result, timings = result.drive_result, result.timings
    if drive_result is None:
        outcome = "blocked" if result.blocked else "not begun"
        return {"switch": None, "outcome": outcome, "why": result.message.splitlines()}
    entry = drive_result.entry
    return {
        "switch": entry.switch,
        "what": entry.what,
        "cluster": entry.cluster,
        "wave": entry.wave,
        "from": entry.origin,
        "to": entry.to,
        "outcome": drive_result.end.value,
        "why": list(drive_result.reasons),
        "held_seconds": None if drive_result.held_seconds is None else round(drive_result.held_seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in drive_result.stage_starts.items()},
        "work_seconds": None if timings is None else {key: round(took, 3) for key, took in asdict(timings).items()},
        "transactions_aborted": [transaction.id for transaction in result.ended_transactions],
        "clients": list(result.client_lines),
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


def result_lines(result: SwitchResult) -> Iterator[str]:
    """Yield the lines for a terminal, if writes were held."""
    drive_result, timings = result.drive_result, result.timings
    assert drive_result is not None
    entry = drive_result.entry
    clients_text = f"the clients of {entry.part_text}" if entry.part else "all clients"
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
    for transaction in result.ended_transactions:
        yield f"transaction {transaction.id} was aborted: its application observes the abort, and starts it again"
    yield from result.client_lines
    yield f"clients: {_where_clients_are(drive_result)}"
    yield from result.closing_lines or _closing_lines(drive_result, copies_back=result.copies_back)


def _where_clients_are(drive_result: DriveResult) -> str:
    entry, end = drive_result.entry, drive_result.end
    clients = f"those of {entry.part_text}" if entry.part else "all"
    if end is CoordinatorOutcome.RELEASED:
        return f"{clients} are on {entry.to}"
    if end is CoordinatorOutcome.UNDONE:
        return f"{clients} are on {entry.origin}, as before"
    if end is CoordinatorOutcome.TAKEN_OVER:
        return "the driver that has taken over decides where they are"
    waiting = [name for name in entry.kproxies if drive_result.participant_states.get(name) not in _SETTLED]
    return f"writes may still be held at {abbreviate(waiting or entry.kproxies)}"


def _closing_lines(drive_result: DriveResult, *, copies_back: bool) -> Iterator[str]:
    """Yield what runs, and the next command."""
    entry, end = drive_result.entry, drive_result.end
    if end is CoordinatorOutcome.TAKEN_OVER:
        yield "running: the other driver"
        yield "next: read what the other driver prints; this one has done nothing since"
    elif end is CoordinatorOutcome.INCOMPLETE:
        yield f"running: {NO_COPY}"
        yield "next: kproxy migrate switch FILE --resume continues it, and --abort undoes it if that is still possible"
    elif end is CoordinatorOutcome.UNDONE:
        yield f"running: {NO_COPY}"
        yield f"next: {_copy_command(entry)} restarts the copy, which this command has replaced; then try again"
    elif entry.wave:
        yield from _lines_of_wave(entry, copies_back=copies_back)
    elif entry.part and entry.what == ROLLBACK:
        yield "running: the copy to the target, if it ran before: this command did not change it"
        yield "next: nothing; let the copy run for the clients that are on the target"
    elif entry.part:
        yield f"running: {NO_COPY}"
        yield (
            "next: kproxy migrate copy FILE --follow, for the clients that are still on the source; then switch the"
            " next clients with --only, or all others without it"
        )
    elif entry.what == ROLLBACK:
        yield f"running: {NO_COPY}"
        yield f"next: {_set_active(entry)}; {BEFORE_ANOTHER}"
    else:
        yield f"running: {COPIES_BACK if copies_back else NO_COPY}"
        yield f"next: {_set_active(entry)}"


def _lines_of_wave(entry: SwitchEntry, *, copies_back: bool) -> Iterator[str]:
    """Yield what runs after a wave has moved, and the next command."""
    if entry.what == ROLLBACK:
        yield f"running: the copy to the target, if it ran before, without the topics of wave {entry.wave}"
        yield "next: kproxy migrate copy FILE --follow --take-over, which copies them again; then another switch"
        return
    yield f"running: {COPIES_BACK if copies_back else NO_COPY}"
    yield (
        "next: kproxy migrate copy FILE --follow, for what is still on the source; then the next wave with"
        " --wave, and at the end all other clients without it"
    )


def _copy_command(entry: SwitchEntry) -> str:
    """Return the command of the copy that a switch or rollback replaces."""
    reverse = ""
    if entry.what == ROLLBACK and entry.wave and entry.reversible:
        reverse = f" --reverse --wave {entry.wave}"
    elif entry.what == ROLLBACK and not entry.part:
        reverse = " --reverse"
    return f"kproxy migrate copy FILE{reverse} --follow"


def _set_active(entry: SwitchEntry) -> str:
    return f"set 'active: {entry.to}' in the configuration of every kproxy, before you start one on another machine"


def describe_findings(findings: Sequence[Diagnostic], *, dry_run: bool, has_replaced_copy: bool, kind: str) -> str:
    """Return the answer of a preflight: yes or no with the one reason, and what that leaves behind; in lines.

    `kind` is SWITCHING or ROLLBACK.
    """
    errors = grouped(finding for finding in findings if finding.severity == ERROR)
    if not errors:
        return f"yes: the {kind} can be done. No writes were held"
    more = f" (and {format_count(len(errors) - 1, 'more error')})" if len(errors) > 1 else ""
    lines = [f"no: {errors[0]}{more}. No writes were held"]
    if has_replaced_copy:
        reverse = " --reverse" if kind == ROLLBACK else ""
        lines.append(f"running: {NO_COPY}: this command has replaced it")
        lines.append(f"next: resolve that; kproxy migrate copy FILE{reverse} --follow restarts the copy")
    elif not dry_run:
        lines.append("next: resolve that, and try again")
    return "\n".join(lines)


_OUTCOMES = {
    CoordinatorOutcome.RELEASED: "done: {clients} are routed to {to}",
    CoordinatorOutcome.UNDONE: "undone: {clients} are routed to {origin}, as before",
    CoordinatorOutcome.INCOMPLETE: "not finished",
    CoordinatorOutcome.TAKEN_OVER: "another driver has taken over: this one has done nothing since",
}


# An interrupted switch


def describe_unfinished(entry: SwitchEntry) -> str:
    """Return what had happened when the driver of this switch or rollback ended."""
    progress = {
        JournalDecision.RELEASED: f"it was decided to move clients to {entry.to}; not every kproxy had confirmed",
        JournalDecision.UNDONE: f"it was decided to go back to {entry.origin}; not every kproxy had confirmed",
    }.get(entry.decision, f"nothing was decided, and clients may write only to {entry.origin}")
    whom = f", of {entry.part_text}," if entry.part else ""
    return f"{entry.what} {entry.switch} of process {entry.pid} on {entry.host}{whom} has not finished: {progress}"


# No switch in progress


def describe_no_switch(last: SwitchEntry | None) -> Iterator[str]:
    """Yield why no switch can be resumed, and where clients are."""
    if last is None:
        yield "no switch to resume: none was started"
        yield "clients: all are on the source"
        return
    undone = "" if last.decision is JournalDecision.RELEASED else " (undone)"
    upstream = f"{last.target_upstream}, the target" if last.is_moved else f"{last.source_upstream}, the source"
    yield f"no switch to resume: {last.what} {last.switch} has finished{undone}"
    clients = [client for part in last.parts_on_target for client in part.clients]
    others = (
        f", except these, which are on {last.target_upstream}, the target: {abbreviate(clients)}" if clients else ""
    )
    yield f"clients: all are on {upstream}{others}"


def describe_copies(last: SwitchEntry | None, migration: Migration, endpoints: ClusterEndpoints) -> Iterator[str]:
    """Yield whether the copy that is due now runs, and the next command. Takes some seconds.

    Raises UpstreamError, WireError and ConfigError.
    """
    if last is not None and migration.wave and last.waves_on_target[migration.wave].reversible:
        driver = find_active_driver(endpoints.source, reverse_name(migration))
        yield from describe_reverse_copy(driver, last, migration.wave)
    elif last is None or not last.is_moved:
        yield from describe_copy(find_active_driver(endpoints.target, migration.name), last)
    elif last.reversible:
        yield from describe_reverse_copy(find_active_driver(endpoints.source, reverse_name(migration)), last)
    else:
        yield f"running: {NO_COPY}: the switch was not --reversible"
        yield "next: kproxy migrate finish FILE, when all consumers have reconnected"


def describe_copy(driver: Mapping[str, Any] | None, last: SwitchEntry | None) -> Iterator[str]:
    """Yield the state of the copy to the target; `driver` is the record of the driver, None if no copy runs (pure)."""
    if driver is None:
        yield f"running: {NO_COPY} to the target"
        resume = "kproxy migrate copy FILE --follow resumes the copy; then "
    else:
        yield f"running: the copy to the target: {_driver_name(driver)}"
        resume = ""
    is_rollback = (
        last is not None
        and last.what == ROLLBACK
        and (not last.part or (bool(last.wave) and last.decision is JournalDecision.RELEASED))
    )
    yield f"next: {BEFORE_ANOTHER if is_rollback else resume + _next_switch(last)}"


def _next_switch(last: SwitchEntry | None) -> str:
    """Return what starts the next switch. Without its option, the command would move all other clients too."""
    if last is None or not last.part:
        return "kproxy migrate switch FILE starts a switch"
    option = f"--wave {last.wave}" if last.wave else "with the same --only"
    if last.decision is JournalDecision.RELEASED:
        return "kproxy migrate switch FILE with --wave or --only moves the next clients, and without them all others"
    return f"kproxy migrate {last.what} FILE {option} starts it again"


def describe_reverse_copy(driver: Mapping[str, Any] | None, last: SwitchEntry, wave: str = "") -> Iterator[str]:
    """Yield the state of the copy to the source; `driver` is the record of the driver, None if no copy runs (pure).

    `wave`: the copy of a wave, while others are on the source.
    """
    option = f" --wave {wave}" if wave else ""
    if driver is None:
        yield NOT_COPIED_BACK
        resume = f"kproxy migrate copy FILE --reverse{option} --follow resumes it; "
    else:
        yield f"running: records that clients write to {last.target_upstream} are copied back: {_driver_name(driver)}"
        resume = ""
    if wave:
        yield f"next: {resume}kproxy migrate rollback FILE{option} moves clients back; or the next wave, as before"
        return
    yield (
        f"next: {resume}kproxy migrate rollback FILE moves clients back; or kproxy migrate finish FILE ends the"
        " migration, without a rollback after it"
    )


def _driver_name(driver: Mapping[str, Any]) -> str:
    return f"process {driver.get('pid')} on {driver.get('host')}"
