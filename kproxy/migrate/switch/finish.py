"""The end of a migration: sets the final configurations, and deletes what only the migration needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import AdminError, ConfigError, KproxyError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import open_endpoints, open_target
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_inventory
from kproxy.migrate.format import LogWriter, describe_action
from kproxy.migrate.journal.switch_journal import SwitchEntry, read_last_switch
from kproxy.migrate.plan.changes import AlterTopic, CreateTopic
from kproxy.migrate.prepare.change_journal import ChangeJournal, read_changes
from kproxy.migrate.prepare.change_journal import JournaledChange as Change
from kproxy.migrate.prepare.target_admin import BATCH_SIZE, TargetAdmin
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.fleet import KproxyFleet, open_fleet
from kproxy.migrate.switch.inverse_offset_map import reverse_migration
from kproxy.migrate.switch.kproxy_replies import ClusterReply
from kproxy.migrate.switch.opening import require_switch_section
from kproxy.migrate.switch.reverse_copy import topic_exists
from kproxy.migrate.switch.source_use import (
    UNREACHED,
    check_missing,
    check_waiting,
    describe_safety,
    describe_uses,
    read_source_use,
    uses_of,
)
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.proxy.switching.participant import Phase
from kproxy.proxy.switching.parts import split_unit

_REPORT_FIRST = "kproxy migrate report FILE -o report.html writes what was done; finish deletes what it is made from"
Configs = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class FinishOptions:
    """The options of `kproxy migrate finish`."""

    dry_run: bool = False
    force: bool = False
    """True if the migration is finished although a kproxy or the source does not reply, or the source is written."""
    allow_unseen: tuple[str, ...] = ()
    """Names and globs of topics of the source to which others may write."""


def run_finish(
    migration: Migration,
    log: LogWriter,
    report: Callable[[Iterable[Diagnostic]], None],
    options: FinishOptions,
    usage: ObservedUsage | None = None,
) -> list[str]:
    """Finish the migration, and return what could not be done. Raises ConfigError if it cannot begin.

    `usage` is what clients were observed to use before the switch.
    """
    section = require_switch_section(migration)
    with ExitStack() as stack:
        target = stack.enter_context(open_target(migration))
        last = read_last_switch(target, migration.name)
        if last is None:
            raise ConfigError("clients were not switched: run kproxy migrate undo FILE to revert what was prepared")
        if not last.ended:
            raise ConfigError(
                f"{last.what} {last.switch} has not finished: run kproxy migrate switch FILE --resume or --abort first"
            )
        if last.parts_on_target:
            raise ConfigError(
                "only some clients were switched (--only, --wave): run kproxy migrate switch FILE to move all others"
                " first"
            )
        with open_fleet(section) as fleet:
            replies = _Replies.read(fleet)
        replies.show(last, usage, log, report)
        replies.check(last, log, options.force)
        source = None
        is_copied_back = last.reversible or bool(last.switched_waves)
        if last.is_moved or is_copied_back:
            source = _open_source(stack, migration, log, is_optional=options.force or not last.reversible)
        if last.is_moved:
            use = UNREACHED if source is None else read_source_use(migration, source, target, options.allow_unseen)
            report(use.findings)
            for line in describe_safety(last, use, len(replies.units), list(replies.problems), time.time()):
                log(line)
            if use.is_written and not options.force:
                return ["everything: records are written to the source; --allow-unseen TOPIC or --force finishes"]
        if options.dry_run:
            log(_REPORT_FIRST)
        return finish_migration(
            migration, source if is_copied_back else None, target, last, log, dry_run=options.dry_run
        )


def _open_source(stack: ExitStack, migration: Migration, log: LogWriter, *, is_optional: bool) -> str | None:
    try:
        return stack.enter_context(open_endpoints(migration)).source
    except KproxyError as error:
        if not is_optional:
            raise
        log(f"cannot connect to the source, which stays as it is: {error}")
        return None


@dataclass(frozen=True, slots=True)
class _Replies:
    """The replies of all kproxies: the cluster and its parts, or the problem."""

    units: Mapping[str, list[ClusterReply]]
    problems: Mapping[str, AdminError]

    @classmethod
    def read(cls, fleet: KproxyFleet) -> _Replies:
        units, problems = {}, {}
        for kproxy, answer in fleet.request_all(lambda unit: unit.read_units()):
            if isinstance(answer, AdminError):
                problems[kproxy.name] = answer
            else:
                units[kproxy.name] = answer
        return cls(units, problems)

    def show(
        self,
        last: SwitchEntry,
        usage: ObservedUsage | None,
        log: LogWriter,
        report: Callable[[Iterable[Diagnostic]], None],
    ) -> None:
        """Show who is connected, and clients that are missing or wait."""
        uses = [use for name, units in self.units.items() for use in uses_of(name, units)]
        for line in describe_uses(uses, (last.source_upstream, last.target_upstream)):
            log(line)
        waiting = (finding for name, units in self.units.items() for finding in check_waiting(name, units))
        report([*waiting, *check_missing(uses, usage)])

    def check(self, last: SwitchEntry, log: LogWriter, force: bool) -> None:
        """Raise ConfigError unless every kproxy routes clients to the right upstream."""
        active = last.target_upstream if last.is_moved else last.source_upstream
        for name, units in self.units.items():
            for unit in units:
                if unit.state.phase is not Phase.SERVING or unit.state.active != active:
                    whom = f"part {part} " if (part := split_unit(unit.name)[1]) else ""
                    raise ConfigError(
                        f"{name} routes {whom}to {unit.state.active} ({unit.state.phase}), and not to {active}:"
                        " correct that first, since finish deletes the record of the switch"
                    )
        for name, error in self.problems.items():
            text = f"{name} does not reply: {error}"
            if not force:
                raise ConfigError(f"{text}; --force finishes without it")
            log(text)


def finish_migration(
    migration: Migration, source: str | None, target: str, last: SwitchEntry, log: LogWriter, *, dry_run: bool
) -> list[str]:
    """Finish with open connections; `source` is None if it has nothing to change, or cannot be reached."""

    remaining: list[str] = []
    if source is not None:
        for each in (migration, *(migration.of_wave(wave, ()) for wave in last.switched_waves)):
            remaining += _finish_reverse_copy(each, source, log, dry_run)
    if not last.is_moved:
        log("clients are on the source: run kproxy migrate undo FILE to revert what was prepared on the target")
        return remaining
    with Admin(target) as admin, ChangeJournal(target, migration.name) as journal:
        remaining += _set_configs(admin, read_changes(journal.read()), final_configs, log, dry_run)
        if remaining:
            return [*remaining, f"topic {migration.state_topic} on the target: it contains the remaining changes"]
        log(describe_action(f"delete topic {migration.state_topic} on the target", dry_run=dry_run))
        if not dry_run:
            remaining += [text for text in TargetAdmin(admin).delete_topics([migration.state_topic]) if text]
    for line in cleanup_advice(migration, last):
        log(line)
    return remaining


def _finish_reverse_copy(migration: Migration, source: str, log: LogWriter, dry_run: bool) -> Iterator[str]:
    reverse = reverse_migration(migration, [])
    if not topic_exists(source, reverse.state_topic):
        return
    with Admin(source) as admin, ChangeJournal(source, reverse.name) as journal:
        remaining = _set_configs(admin, read_changes(journal.read()), former_configs, log, dry_run)
        if remaining:
            yield from [*remaining, f"topic {reverse.state_topic} on the source: it contains the remaining changes"]
            return
        log(describe_action(f"delete topic {reverse.state_topic} on the source", dry_run=dry_run))
        if not dry_run:
            yield from (text for text in TargetAdmin(admin).delete_topics([reverse.state_topic]) if text)


ConfigSelector = Callable[[list[Change]], tuple[dict[str, dict[str, str | None]], dict[str, dict[str, str | None]]]]


def final_configs(changes: list[Change]) -> tuple[dict[str, dict[str, str | None]], dict[str, dict[str, str | None]]]:
    """Return by topic what `prepare` has set, and the final values, of a finished migration (pure)."""
    held: dict[str, dict[str, str | None]] = {}
    final: dict[str, dict[str, str | None]] = {}
    for entry in changes:
        match entry.change:
            case CreateTopic(topic=topic):
                held[topic], final[topic] = dict(entry.change.configs), dict(entry.change.final_configs)
            case AlterTopic(topic=topic):
                held.setdefault(topic, {}).update(entry.change.after)
                final[topic] = dict(entry.change.final_configs)
    return held, final


def former_configs(changes: list[Change]) -> tuple[dict[str, dict[str, str | None]], dict[str, dict[str, str | None]]]:
    """Return by topic what was set for the reverse copy, and the values before the first change (pure)."""
    held: dict[str, dict[str, str | None]] = {}
    before: dict[str, dict[str, str | None]] = {}
    for entry in changes:
        if isinstance(entry.change, AlterTopic):
            held.setdefault(entry.change.topic, {}).update(entry.change.after)
            former = before.setdefault(entry.change.topic, {})
            for key in entry.change.after:
                former.setdefault(key, entry.change.before.get(key))
    return held, before


def _set_configs(
    admin: Admin, changes: list[Change], selector: ConfigSelector, log: LogWriter, dry_run: bool
) -> list[str]:
    """Set the configurations, and return what the brokers refuse."""
    held, values_by_topic = selector(changes)
    inventory: Inventory = read_inventory(admin, values_by_topic.__contains__)
    altered: dict[str, dict[str, str | None]] = {}
    for topic, values in sorted(values_by_topic.items()):
        if topic in inventory.topics:
            current: Mapping[str, Any] = inventory.topics[topic].configs
            altered[topic] = {
                key: value for key, value in values.items() if is_unchanged(current, held[topic], key, value)
            }
            for key in values.keys() - altered[topic].keys():
                if current.get(key) != values[key]:
                    log(f"stays: topic {topic}: {key} was changed since")
    altered = {topic: values for topic, values in altered.items() if values}
    refused = []
    target_admin = TargetAdmin(admin)
    topics = list(altered)
    for start in range(0, len(topics), BATCH_SIZE):
        batch = {topic: altered[topic] for topic in topics[start : start + BATCH_SIZE]}
        answers = [""] * len(batch) if dry_run else target_admin.alter_configs(batch)
        for (topic, values), answer in zip(batch.items(), answers, strict=True):
            shown = ", ".join(f"{key}={'default' if value is None else value}" for key, value in sorted(values.items()))
            if answer:
                refused.append(f"topic {topic}: {shown}: {answer}")
            else:
                log(describe_action(f"alter topic {topic}: {shown}", dry_run=dry_run))
    return refused


def is_unchanged(current: Mapping[str, Any], held: Configs, key: str, value: str | None) -> bool:
    """Return True if a configuration still has the value that `prepare` set."""
    return current.get(key) == held.get(key) and current.get(key) != value


def cleanup_advice(migration: Migration, last: SwitchEntry) -> Iterator[str]:
    """Yield what operators still have to do."""
    servers = migration.target.get("bootstrap-servers", [])
    addresses = ",".join([servers] if isinstance(servers, str) else [str(server) for server in servers])
    former, name = last.source_upstream, last.target_upstream
    yield (
        f"kproxy: in cluster {last.cluster} of its configuration, remove 'upstreams', 'active' and upstream {former};"
        f" put the options of {name} in their place, and reload it: clients keep their connections, and may use all"
        " API versions from their next connection on; kproxy removes the switch from its --state-dir itself"
    )
    yield (
        f"clients: they no longer need kproxy if they can connect to {addresses} and to the addresses that its"
        " brokers advertise: give each client bootstrap.servers, TLS and login of the target, one after the other,"
        " at any time; groups and transactional ids continue"
    )
    yield (
        "the transactional ids kproxy-migration-… on the target cannot be deleted; brokers forget them after"
        " transactional.id.expiration.ms (7 days by default)"
    )
