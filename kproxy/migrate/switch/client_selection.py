"""`--only`: which clients are switched by themselves, and whether they can be (pure)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kproxy.base.errors import ConfigError
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, MigrationFinding
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.members import GroupMembers
from kproxy.proxy.switching.parts import NUMBER_SUFFIX, Part, check_part
from kproxy.proxy.switching.positions import client_series

GROUP, CLIENT, TRANSACTION = "group", "client-id", "transactional-id"
_MAX_NAMES = 5
_SYNTAX = f"allowed: {GROUP}=GROUP, {CLIENT}=ID, {TRANSACTION}=ID, more of them with commas between"


@dataclass(frozen=True, slots=True)
class ClientSelection:
    """`groups`: all members of these. `clients`: those with these client ids, which may end with `*`. `transactions`:
    transactional ids of theirs, which may end so too: what is open of them while writes are held is ended.
    `readers_stay`: other clients may go on reading on the source while these write to the target."""

    groups: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    allow_split_readers: bool = False

    def includes_transaction(self, transactional_id: str) -> bool:
        """Whether this transactional id is one of theirs."""
        return any(
            transactional_id.startswith(one[:-1]) if one.endswith("*") else transactional_id == one
            for one in self.transactions
        )


@dataclass(frozen=True, slots=True)
class SelectedPart:
    """`groups`: all whose members belong to the part. `writes`: some of its clients have written."""

    part: Part
    groups: frozenset[str]
    writes: bool


def parse_selection(texts: Iterable[str], *, readers_stay: bool) -> ClientSelection | None:
    """None if nothing is named. Raises ConfigError."""
    found: dict[str, list[str]] = {GROUP: [], CLIENT: [], TRANSACTION: []}
    for text in texts:
        for one in text.split(","):
            kind, _, name = one.strip().partition("=")
            if kind not in found or not name:
                raise ConfigError(f"--only {one.strip() or text}: {_SYNTAX}")
            found[kind].append(name)
    if not any(found.values()):
        return None
    if not found[GROUP] and not found[CLIENT]:
        raise ConfigError(f"--only names no client; {_SYNTAX}")
    return ClientSelection(tuple(found[GROUP]), tuple(found[CLIENT]), tuple(found[TRANSACTION]), readers_stay)


def select_part(
    only: ClientSelection, members: GroupMembers, connected: Collection[ConnectedClient]
) -> tuple[SelectedPart | None, list[MigrationFinding]]:
    """`members`: of all groups of the source. `connected`: the clients of all kproxies that are on the source."""
    missing = [name for name in only.groups if not members.get(name)]
    if missing:
        text = f"group {abbreviate(missing)} has no members whose client ids the source tells: name them with {CLIENT}="
        return None, [MigrationFinding(STOP, "only", text)]
    ids = {_client_id_pattern(one) for name in only.groups for one in members[name]} | set(only.clients)
    clients = tuple(sorted(ids))
    try:
        part = Part(f"only-{hashlib.sha256(json.dumps(clients).encode()).hexdigest()[:12]}", clients)
        check_part(part)
    except ValueError as error:
        return None, [MigrationFinding(STOP, "only", str(error))]
    groups = frozenset(name for name, ids in members.items() if any(part.has(one) for one in ids))
    writes = any(one.writes for one in connected if part.has(one.name))
    chosen = SelectedPart(part, groups, writes)
    return chosen, list(_check_part(only, chosen, members, connected))


def _client_id_pattern(client_id: str) -> str:
    """A member may come back with another number: Java's are called consumer-GROUP-1 and so on."""
    name = client_series(client_id)
    return f"{name}-{NUMBER_SUFFIX}" if name else client_id


def _check_part(
    only: ClientSelection, chosen: SelectedPart, members: GroupMembers, connected: Collection[ConnectedClient]
) -> Iterator[MigrationFinding]:
    part = chosen.part
    yield MigrationFinding(
        NOTE,
        "only",
        f"clients {abbreviate(part.clients)}"
        + (f", members of group {abbreviate(sorted(chosen.groups))}" if chosen.groups else ""),
    )
    if chosen.groups:
        yield MigrationFinding(
            WARNING,
            "only",
            "members that read uncommitted records (the default of Java's clients) may get some twice"
            " on the target when an attempt of the copy is broken off: set isolation.level=read_committed there",
        )
    ours = [one for one in connected if part.has(one.name)]
    here = {one.name for one in ours}
    for group in sorted(chosen.groups):
        stay = sorted(one for one in members[group] if not part.has(one))
        if stay:
            yield MigrationFinding(
                STOP,
                f"group {group}",
                f"its members {abbreviate(stay)} would stay on the source: a group is on one side;"
                f" name it with {GROUP}=",
            )
        away = sorted(one for one in members[group] - here if part.has(one))
        if away:
            yield MigrationFinding(
                STOP,
                f"group {group}",
                f"its members {abbreviate(away)} are not connected through these kproxies: they"
                " would stay on the source",
            )
    if not ours:
        yield MigrationFinding(
            WARNING, "only", "none of these clients is connected now: whether they write is not known"
        )
    if chosen.writes and not only.allow_split_readers:
        readers = sorted({one.name or "(no client id)" for one in connected if one.reads and not part.has(one.name)})
        if readers:
            yield MigrationFinding(
                STOP,
                "only",
                f"some of these clients write, and {abbreviate(readers)} read on the source: they would not"
                " see what is written to the target. Lead them there first, or together; or add --readers-stay, if they"
                " read nothing of it",
            )


def describe_open_transactions(ids: Sequence[str], only: ClientSelection) -> str:
    """Why these transactions, which are open, hinder a switch of these clients."""
    return (
        f"transaction {abbreviate(ids)} is open on the source and does not end: if it is one of these clients', name it"
        f" with --only {TRANSACTION}=" + ("" if only.transactions else "; if it is another's, try again")
    )


def abbreviate(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
