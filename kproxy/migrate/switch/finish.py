"""The end of a migration: configurations as they are to be, nothing left that only the migration needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from kproxy.base.errors import AdminError, ConfigError, KproxyError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import open_endpoints, open_target
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_inventory
from kproxy.migrate.journal.switch_journal import SwitchEntry, read_last_switch
from kproxy.migrate.plan.changes import AlterTopic, CreateTopic
from kproxy.migrate.prepare.change_journal import ChangeJournal, read_changes
from kproxy.migrate.prepare.change_journal import JournaledChange as Change
from kproxy.migrate.prepare.target_admin import BATCH_SIZE, TargetAdmin
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.fleet import KproxyFleet, open_fleet
from kproxy.migrate.switch.inverse_offset_map import reverse_migration
from kproxy.migrate.switch.operations import require_switch_section
from kproxy.migrate.switch.reverse_copy import topic_exists
from kproxy.proxy.switching.participant import Phase
from kproxy.proxy.switching.parts import split_unit

Say = Callable[[str], None]
Configs = Mapping[str, str | None]


def run_finish(migration: Migration, say: Say, *, dry_run: bool, force: bool) -> list[str]:
    """Returns what stays, in words. Raises ConfigError if it cannot begin, and KproxyError."""
    section = require_switch_section(migration)
    with ExitStack() as stack:
        target = stack.enter_context(open_target(migration))
        last = read_last_switch(target, migration.name)
        if last is None:
            raise ConfigError("clients were not switched: kproxy migrate undo takes back what was prepared")
        if not last.ended:
            raise ConfigError(f"{last.what} {last.switch} is not over: kproxy migrate switch --resume, or --abort")
        if last.parts_on_target:
            raise ConfigError("only some clients were switched (--only): kproxy migrate switch leads all others there")
        with open_fleet(section) as those:
            _check_kproxies(those, section.cluster, last, say, force)
        source = _open_source(stack, migration, say, force) if last.reversible else None
        return finish_migration(migration, source, target, last, say, dry_run=dry_run)


def _open_source(stack: ExitStack, migration: Migration, say: Say, force: bool) -> str | None:
    try:
        return stack.enter_context(open_endpoints(migration)).source
    except KproxyError as error:
        if not force:
            raise
        say(f"the source cannot be reached, and stays as it is: {error}")
        return None


def _check_kproxies(those: KproxyFleet, cluster: str, last: SwitchEntry, say: Say, force: bool) -> None:
    """Raises ConfigError unless every kproxy leads clients to where they are to be."""
    problems = []
    active = last.target_upstream if last.is_moved else last.source_upstream
    for kproxy, answer in those.request_all(lambda one: one.read_units()):
        if isinstance(answer, AdminError):
            problems.append(f"{kproxy.name} does not answer: {answer}")
            continue
        for one in answer:
            if one.state.phase is not Phase.SERVING or one.state.active != active:
                whom = f"part {part} " if (part := split_unit(one.name)[1]) else ""
                raise ConfigError(
                    f"{kproxy.name} leads {whom}to {one.state.active} ({one.state.phase}), and not to {active}: finish"
                    " ends what is known of the switch"
                )
    for text in problems:
        if not force:
            raise ConfigError(f"{text}; --force goes on without it")
        say(text)


def finish_migration(
    migration: Migration, source: str | None, target: str, last: SwitchEntry, say: Say, *, dry_run: bool
) -> list[str]:
    """With everything open. `source` is None if there is nothing to be done there, or nobody reaches it."""
    did = "would" if dry_run else "did"
    stays: list[str] = []
    if source is not None:
        stays += _finish_reverse_copy(migration, source, say, did, dry_run)
    if not last.is_moved:
        say("clients are on the source: kproxy migrate undo takes back what was prepared on the target")
        return stays
    with Admin(target) as admin, ChangeJournal(target, migration.name, migration.state_topic) as journal:
        stays += _set_configs(admin, read_changes(journal.read()), final_configs, say, did, dry_run)
        if stays:
            return [*stays, f"topic {migration.state_topic} on the target: it has what is to be done still"]
        say(f"{did}: delete topic {migration.state_topic} on the target")
        if not dry_run:
            stays += [text for text in TargetAdmin(admin).delete_topics([migration.state_topic]) if text]
    for line in cleanup_advice(migration, last):
        say(line)
    return stays


def _finish_reverse_copy(migration: Migration, source: str, say: Say, did: str, dry_run: bool) -> Iterator[str]:
    back = reverse_migration(migration, [])
    if not topic_exists(source, back.state_topic):
        return
    with Admin(source) as admin, ChangeJournal(source, back.name, back.state_topic) as journal:
        stays = _set_configs(admin, read_changes(journal.read()), former_configs, say, did, dry_run)
        if stays:
            yield from [*stays, f"topic {back.state_topic} on the source: it has what is to be done still"]
            return
        say(f"{did}: delete topic {back.state_topic} on the source")
        if not dry_run:
            yield from (text for text in TargetAdmin(admin).delete_topics([back.state_topic]) if text)


ConfigSelector = Callable[[list[Change]], tuple[dict[str, dict[str, str | None]], dict[str, dict[str, str | None]]]]


def final_configs(found: list[Change]) -> tuple[dict[str, dict[str, str | None]], dict[str, dict[str, str | None]]]:
    """Of a migration that is done (pure): by topic what `prepare` has set, and what it is to be."""
    held: dict[str, dict[str, str | None]] = {}
    wanted: dict[str, dict[str, str | None]] = {}
    for entry in found:
        match entry.change:
            case CreateTopic(topic=topic):
                held[topic], wanted[topic] = dict(entry.change.configs), dict(entry.change.final_configs)
            case AlterTopic(topic=topic):
                held.setdefault(topic, {}).update(entry.change.after)
                wanted[topic] = dict(entry.change.final_configs)
    return held, wanted


def former_configs(found: list[Change]) -> tuple[dict[str, dict[str, str | None]], dict[str, dict[str, str | None]]]:
    """Of the way back (pure): what was changed for it is to be as it was before the first change."""
    held: dict[str, dict[str, str | None]] = {}
    before: dict[str, dict[str, str | None]] = {}
    for entry in found:
        if isinstance(entry.change, AlterTopic):
            held.setdefault(entry.change.topic, {}).update(entry.change.after)
            was = before.setdefault(entry.change.topic, {})
            for key in entry.change.after:
                was.setdefault(key, entry.change.before.get(key))
    return held, before


def _set_configs(
    admin: Admin, found: list[Change], which: ConfigSelector, say: Say, did: str, dry_run: bool
) -> list[str]:
    """Configurations are given their values. Returns what the brokers refuse."""
    held, wanted = which(found)
    there: Inventory = read_inventory(admin, wanted.__contains__)
    todo: dict[str, dict[str, str | None]] = {}
    for topic, values in sorted(wanted.items()):
        if topic in there.topics:
            have: Mapping[str, Any] = there.topics[topic].configs
            todo[topic] = {key: value for key, value in values.items() if is_unchanged(have, held[topic], key, value)}
            for key in values.keys() - todo[topic].keys():
                if have.get(key) != values[key]:
                    say(f"stays: topic {topic}: somebody has changed {key}")
    todo = {topic: values for topic, values in todo.items() if values}
    refused = []
    doing = TargetAdmin(admin)
    topics = list(todo)
    for at in range(0, len(topics), BATCH_SIZE):
        some = {topic: todo[topic] for topic in topics[at : at + BATCH_SIZE]}
        answers = [""] * len(some) if dry_run else doing.alter_configs(some)
        for (topic, values), answer in zip(some.items(), answers, strict=True):
            shown = ", ".join(f"{key}={'default' if value is None else value}" for key, value in sorted(values.items()))
            if answer:
                refused.append(f"topic {topic}: {shown}: {answer}")
            else:
                say(f"{did}: alter topic {topic}: {shown}")
    return refused


def is_unchanged(have: Mapping[str, Any], held: Configs, key: str, value: str | None) -> bool:
    """Whether a configuration has the value that `prepare` gave it."""
    return have.get(key) == held.get(key) and have.get(key) != value


def cleanup_advice(migration: Migration, last: SwitchEntry) -> Iterator[str]:
    """What is left for people."""
    servers = migration.target.get("bootstrap-servers", [])
    where = ",".join([servers] if isinstance(servers, str) else [str(one) for one in servers])
    former, name = last.source_upstream, last.target_upstream
    yield (
        f"kproxy: in cluster {last.cluster} of its configuration, remove 'upstreams', 'active' and upstream {former};"
        f" put the options of {name} in their place, and reload it: clients stay where they are, and from their next"
        " connection on may use all versions of requests; it forgets the switch in its --state-dir by itself"
    )
    yield (
        f"clients: they need kproxy no more if they reach {where} and the addresses that its brokers advertise: give"
        " each of them bootstrap.servers, TLS and login of the target, one after the other, at any time; groups and"
        " transactional ids go on"
    )
    yield (
        "the transactional ids kproxy-migration-… on the target cannot be deleted; brokers forget them after"
        " transactional.id.expiration.ms (7 days by default)"
    )
