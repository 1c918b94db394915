"""`--only`: which clients are switched by themselves, and whether they can be (pure)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kproxy.base.errors import ConfigError
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, Finding
from kproxy.migrate.switch.answers import Client
from kproxy.migrate.switch.members import Members
from kproxy.proxy.switching.parts import NUMBER, Part, check
from kproxy.proxy.switching.positions import series

GROUP, CLIENT, TRANSACTION = "group", "client-id", "transactional-id"
_NAMED = 5
_ALLOWED = f"allowed: {GROUP}=GROUP, {CLIENT}=ID, {TRANSACTION}=ID, more of them with commas between"


@dataclass(frozen=True, slots=True)
class Only:
    """`groups`: all members of these. `clients`: those with these client ids, which may end with `*`. `transactions`:
    transactional ids of theirs, which may end so too: what is open of them while writes are held is ended.
    `readers_stay`: other clients may go on reading on the source while these write to the target."""

    groups: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    readers_stay: bool = False

    def ends(self, transactional_id: str) -> bool:
        """Whether this transactional id is one of theirs."""
        return any(
            transactional_id.startswith(one[:-1]) if one.endswith("*") else transactional_id == one
            for one in self.transactions
        )


@dataclass(frozen=True, slots=True)
class Chosen:
    """`groups`: all whose members belong to the part. `writes`: some of its clients have written."""

    part: Part
    groups: frozenset[str]
    writes: bool


def parsed(texts: Iterable[str], *, readers_stay: bool) -> Only | None:
    """None if nothing is named. Raises ConfigError."""
    found: dict[str, list[str]] = {GROUP: [], CLIENT: [], TRANSACTION: []}
    for text in texts:
        for one in text.split(","):
            kind, _, name = one.strip().partition("=")
            if kind not in found or not name:
                raise ConfigError(f"--only {one.strip() or text}: {_ALLOWED}")
            found[kind].append(name)
    if not any(found.values()):
        return None
    if not found[GROUP] and not found[CLIENT]:
        raise ConfigError(f"--only names no client; {_ALLOWED}")
    return Only(tuple(found[GROUP]), tuple(found[CLIENT]), tuple(found[TRANSACTION]), readers_stay)


def choose(only: Only, members: Members, connected: Collection[Client]) -> tuple[Chosen | None, list[Finding]]:
    """`members`: of all groups of the source. `connected`: the clients of all kproxies that are on the source."""
    missing = [name for name in only.groups if not members.get(name)]
    if missing:
        text = f"group {some(missing)} has no members whose client ids the source tells: name them with {CLIENT}="
        return None, [Finding(STOP, "only", text)]
    ids = {_named(one) for name in only.groups for one in members[name]} | set(only.clients)
    clients = tuple(sorted(ids))
    try:
        part = Part(f"only-{hashlib.sha256(json.dumps(clients).encode()).hexdigest()[:12]}", clients)
        check(part)
    except ValueError as error:
        return None, [Finding(STOP, "only", str(error))]
    groups = frozenset(name for name, ids in members.items() if any(part.has(one) for one in ids))
    writes = any(one.writes for one in connected if part.has(one.name))
    chosen = Chosen(part, groups, writes)
    return chosen, list(_looked_at(only, chosen, members, connected))


def _named(client_id: str) -> str:
    """A member may come back with another number: Java's are called consumer-GROUP-1 and so on."""
    name = series(client_id)
    return f"{name}-{NUMBER}" if name else client_id


def _looked_at(only: Only, chosen: Chosen, members: Members, connected: Collection[Client]) -> Iterator[Finding]:
    part = chosen.part
    yield Finding(NOTE, "only", f"clients {some(part.clients)}" + (
        f", members of group {some(sorted(chosen.groups))}" if chosen.groups else ""
    ))  # fmt: skip
    if chosen.groups:
        yield Finding(
            WARNING, "only", "members that read uncommitted records (the default of Java's clients) may get some twice"
            " on the target when an attempt of the copy is broken off: set isolation.level=read_committed there",
        )  # fmt: skip
    ours = [one for one in connected if part.has(one.name)]
    here = {one.name for one in ours}
    for group in sorted(chosen.groups):
        stay = sorted(one for one in members[group] if not part.has(one))
        if stay:
            yield Finding(
                STOP, f"group {group}", f"its members {some(stay)} would stay on the source: a group is on one side;"
                f" name it with {GROUP}=",
            )  # fmt: skip
        away = sorted(one for one in members[group] - here if part.has(one))
        if away:
            yield Finding(
                STOP, f"group {group}", f"its members {some(away)} are not connected through these kproxies: they"
                " would stay on the source",
            )  # fmt: skip
    if not ours:
        yield Finding(WARNING, "only", "none of these clients is connected now: whether they write is not known")
    if chosen.writes and not only.readers_stay:
        readers = sorted({one.name or "(no client id)" for one in connected if one.reads and not part.has(one.name)})
        if readers:
            yield Finding(
                STOP, "only", f"some of these clients write, and {some(readers)} read on the source: they would not"
                " see what is written to the target. Lead them there first, or together; or add --readers-stay, if they"
                " read nothing of it",
            )  # fmt: skip


def apart(ids: Sequence[str], only: Only) -> str:
    """Why these transactions, which are open, hinder a switch of these clients."""
    return (
        f"transaction {some(ids)} is open on the source and does not end: if it is one of these clients', name it with"
        f" --only {TRANSACTION}=" + ("" if only.transactions else "; if it is another's, try again")
    )


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
