"""The options `--only` and `--wave`: the clients that are switched by themselves, and whether they can be (pure)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.base.format import abbreviate
from kproxy.migrate.clusters.groups import GroupMembers
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.usage.replies import GROUPS, TRANSACTIONS, RecordedClient
from kproxy.proxy.switching.parts import NUMBER_SUFFIX, Part, check_part, covers
from kproxy.proxy.switching.positions import client_series

KINDS = GROUP, CLIENT, TRANSACTION = "group", "client-id", "transactional-id"
_SYNTAX = f"allowed: {GROUP}=GROUP, {CLIENT}=ID, {TRANSACTION}=ID, more of them with commas between"


@dataclass(frozen=True, slots=True)
class ClientSelection:
    """The clients that `--only` names, or those of a wave."""

    groups: tuple[str, ...] = ()
    """Groups; all their members are selected."""
    clients: tuple[str, ...] = ()
    """Client ids, which may end with `*`."""
    transactions: tuple[str, ...] = ()
    """Transactional ids of these clients, which may end with `*`: the hold ends their open transactions."""
    allow_split_readers: bool = False
    """True if other clients may continue to read on the source while these write to the target."""
    wave: str = ""
    """The wave of the file that they are; "" with `--only`."""

    @property
    def subject(self) -> str:
        """The subject of findings about them."""
        return f"wave {self.wave}" if self.wave else "only"

    @property
    def hint(self) -> str:
        """The advice how to add a group to them."""
        return f"name it in groups of wave {self.wave}" if self.wave else f"name it with {GROUP}="

    def includes_transaction(self, transactional_id: str) -> bool:
        """Return True if this transactional id is selected."""
        return any(
            transactional_id.startswith(pattern[:-1]) if pattern.endswith("*") else transactional_id == pattern
            for pattern in self.transactions
        )


@dataclass(frozen=True, slots=True)
class SelectedPart:
    """The part of a cluster that the selected clients form."""

    part: Part
    groups: frozenset[str]
    """Groups whose members all belong to the part."""
    writes: bool
    """True if some of its clients have written."""


def parse_selection(texts: Iterable[str], *, allow_split_readers: bool) -> ClientSelection | None:
    """Return the selection; None if no client is named. Raises ConfigError."""
    names: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for text in texts:
        for item in text.split(","):
            kind, _, name = item.strip().partition("=")
            if kind not in names or not name:
                raise ConfigError(f"--only {item.strip() or text}: {_SYNTAX}")
            names[kind].append(name)
    if not any(names.values()):
        return None
    if not names[GROUP] and not names[CLIENT]:
        raise ConfigError(f"--only names no client; {_SYNTAX}")
    return ClientSelection(tuple(names[GROUP]), tuple(names[CLIENT]), tuple(names[TRANSACTION]), allow_split_readers)


def selectable_names(clients: Iterable[RecordedClient]) -> frozenset[tuple[str, str]]:
    """Return what `--only` can name of clients that were observed, as (kind, name)."""
    names = set()
    for client in clients:
        names |= {(GROUP, name) for name in client.names(GROUPS)}
        names |= {(TRANSACTION, name) for name in client.names(TRANSACTIONS)}
        if client.client_id:
            names.add((CLIENT, client.client_id))
    return frozenset(names)


def select_wave(migration: Migration, wave: str, *, allow_split_readers: bool) -> ClientSelection:
    """Return the clients and groups of a wave of the file; groups are globs. Raises ConfigError (pure)."""
    section = migration.waves.get(wave)
    if section is None:
        names = ", ".join(migration.waves) or "none: add the section 'waves'"
        raise ConfigError(f"--wave {wave}: the file has no such wave; it has {names}")
    if not section.topics or not (section.clients or section.groups):
        raise ConfigError(f"--wave {wave}: it needs topics, and clients or groups, to be moved by itself")
    for client in section.clients:
        if re.search(r"[?\[\]]|\*.|#$", client):
            raise ConfigError(
                f"--wave {wave}: kproxies cannot route client ids by {client}; allowed: a client id, or its beginning"
                " with * at the end"
            )
    return ClientSelection(section.groups, section.clients, (), allow_split_readers, wave)


def select_part(
    selection: ClientSelection,
    members: GroupMembers,
    connected: Collection[ConnectedClient],
    former: Collection[str] = (),
) -> tuple[SelectedPart | None, list[Diagnostic]]:
    """Return the part that the selected clients form, and findings about it.

    `members` are of all groups of the source. `connected` are the clients of all kproxies that are on the source.
    `former` are the client ids of a wave that was switched before: they move again, with those that the wave has got
    since.
    """
    named = [name for name in members if any(fnmatchcase(name, glob) for glob in selection.groups)]
    if not selection.wave:
        named = list(selection.groups)
        if missing := [name for name in named if not members.get(name)]:
            text = (
                f"the source returns no client ids of members of group {abbreviate(missing)}: name them with {CLIENT}="
            )
            return None, [Diagnostic(ERROR, selection.subject, text)]
    ids = {_client_id_pattern(client_id) for name in named for client_id in members[name]}
    clients = tuple(sorted({*ids, *selection.clients}))
    added = [client for client in clients if not covers(former, client)]
    clients = tuple(sorted([*added, *(client for client in former if not covers(added, client))]))
    name = wave_part(selection.wave) if selection.wave else _part_name(clients)
    try:
        part = Part(name, clients)
        check_part(part)
    except ValueError as error:
        return None, [Diagnostic(ERROR, selection.subject, str(error))]
    groups = frozenset(name for name, ids in members.items() if any(part.has(client_id) for client_id in ids))
    groups |= set(named)
    writes = any(client.writes for client in connected if part.has(client.name))
    chosen = SelectedPart(part, groups, writes)
    return chosen, list(_check_part(selection, chosen, members, connected))


def wave_part(wave: str) -> str:
    """Return the name of the part of a wave at kproxies."""
    return f"wave-{wave}"


def _part_name(clients: tuple[str, ...]) -> str:
    return f"only-{hashlib.sha256(json.dumps(clients).encode()).hexdigest()[:12]}"


def _client_id_pattern(client_id: str) -> str:
    """Return a pattern for a member that may come back with another number, as Java's consumer-GROUP-1."""
    name = client_series(client_id)
    return f"{name}-{NUMBER_SUFFIX}" if name else client_id


def _check_part(
    selection: ClientSelection, chosen: SelectedPart, members: GroupMembers, connected: Collection[ConnectedClient]
) -> Iterator[Diagnostic]:
    part = chosen.part
    yield Diagnostic(
        NOTE,
        selection.subject,
        f"clients {abbreviate(part.clients)}"
        + (f", members of group {abbreviate(sorted(chosen.groups))}" if chosen.groups else ""),
    )
    if chosen.groups and not selection.wave:
        yield Diagnostic(
            WARNING,
            selection.subject,
            "members that read uncommitted records (the default of Java's clients) may get some twice on the target"
            " if an attempt of the copy is interrupted: set isolation.level=read_committed there",
        )
    part_clients = [client for client in connected if part.has(client.name)]
    connected_ids = {client.name for client in part_clients}
    for group in sorted(chosen.groups):
        staying = sorted(client_id for client_id in members[group] if not part.has(client_id))
        if staying:
            yield Diagnostic(
                ERROR,
                f"group {group}",
                f"its members {abbreviate(staying)} would stay on the source: a group must be on one side;"
                f" {selection.hint}",
            )
        away = sorted(client_id for client_id in members[group] - connected_ids if part.has(client_id))
        if away:
            yield Diagnostic(
                ERROR,
                f"group {group}",
                f"its members {abbreviate(away)} are not connected through these kproxies: they"
                " would stay on the source",
            )
    if not part_clients:
        text = "none of these clients is connected now: whether they write is not known"
        yield Diagnostic(WARNING, selection.subject, text)
    if chosen.writes and not selection.allow_split_readers and not selection.wave:
        readers = sorted(
            {client.name or "(no client id)" for client in connected if client.reads and not part.has(client.name)}
        )
        if readers:
            yield Diagnostic(
                ERROR,
                selection.subject,
                f"some of these clients write, and {abbreviate(readers)} read on the source: they would not see"
                " records that are written to the target. Move them first, or together with these; or add"
                " --allow-split-readers, if they do not read these records",
            )


def describe_open_transactions(ids: Sequence[str], selection: ClientSelection) -> str:
    """Return a message that these open transactions block the switch of the selected clients."""
    return (
        f"transaction {abbreviate(ids)} is open on the source and does not end: if it is one of these clients', name it"
        f" with --only {TRANSACTION}=" + ("" if selection.transactions else "; if it is another's, try again")
    )
