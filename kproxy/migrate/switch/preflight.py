"""The checks before writes are held: kproxies, clusters, clients. They change nothing that clients observe."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from kproxy import __version__
from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic
from kproxy.base.errors import KproxyError
from kproxy.base.format import format_count, format_duration
from kproxy.base.messages.migrations import HOLD_TOO_LONG, TOO_MUCH_LAG
from kproxy.migrate.clusters import producerids, topic_identities
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_access, read_inventory, read_logged_producer_ids
from kproxy.migrate.offsets.groupsync import NOT_COPIED_YET
from kproxy.migrate.prepare.change_journal import ChangeJournal
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.preparation import raise_producer_ids
from kproxy.migrate.prepare.takenids import read_taken_ids, without_taken_ids
from kproxy.migrate.schemas.needs import check_schemas_in_use
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import LONGEST_HOLD, SwitchSection
from kproxy.migrate.switch import client_effects
from kproxy.migrate.switch.client_selection import ClientSelection
from kproxy.migrate.switch.expected_users import ExpectedUser, expected_users
from kproxy.migrate.switch.final_sync import FinalSync, list_topics
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet
from kproxy.migrate.switch.hanging import check_hanging
from kproxy.migrate.switch.kproxy_replies import KproxyReply
from kproxy.migrate.switch.readiness import ExpectedState, TimedReply, check_readiness
from kproxy.migrate.switch.sync_timings import SyncTimings
from kproxy.migrate.switch.transactions import open_transactions, read_transactional_ids
from kproxy.migrate.usage.observed import ObservedUsage

# How long is waited for things before the hold, in seconds.
_TIMEOUT = 60.0
# Until it is quick enough, at most so often: Spark gets quicker, and what else the machine has to do may end.
_MAX_REHEARSALS = 4
# Of the hold, what may be used up by copying, comparing and translating, if all goes as in the rehearsal. The rest is
# for kproxies: settling, flipping, and one answer that is late.
WORK_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Direction:
    """The direction of a switch: the name of the target upstream, and the cluster ids of both sides."""

    target_upstream: str
    origin_id: str
    target_id: str


def check_kproxies(
    fleet: KproxyFleet, switch: SwitchSection, direction: Direction
) -> tuple[list[Diagnostic], dict[str, KproxyReply]]:
    """Return findings about all kproxies, and the replies of those that replied."""

    def ask(kproxy: Kproxy) -> TimedReply:
        sent = time.time()
        return TimedReply(kproxy.read_reply(), sent, time.time())

    timed_replies: dict[str, TimedReply] = {}
    for kproxy, reply in fleet.request_all(ask):
        timed_replies[kproxy.name] = reply if isinstance(reply, TimedReply) else TimedReply(reply, 0.0, 0.0)
    expected = ExpectedState(
        cluster=switch.cluster, command_version=__version__, hold_seconds=switch.hold_seconds, **asdict(direction)
    )
    answers = {name: reply.reply for name, reply in timed_replies.items() if isinstance(reply.reply, KproxyReply)}
    return check_readiness(timed_replies, expected), answers


def check_clusters(
    clusters: ClusterPair,
    *,
    first: bool,
    back: bool = False,
    dry_run: bool = False,
    groups: Collection[str] | None = None,
    selection: ClientSelection | None = None,
) -> Iterator[Diagnostic]:
    """Yield findings about topics, schemas, groups, transactions and producer ids.

    `first`: no client of these has written to the target so far. `back`: this is a rollback. `groups`: those that
    are moved; None for all. `selection`: the clients that are moved; None for all.
    """
    migration = clusters.migration
    source = read_inventory(clusters.source, migration.selects_topic)
    yield from check_topics(migration, clusters.endpoints)
    partitions = {name: len(topic.partitions) for name, topic in source.topics.items() if migration.selects_topic(name)}
    yield from check_schemas_in_use(migration, clusters.endpoints.source, partitions, back=back)
    topics = list_topics(clusters.source.bootstrap)
    yield from client_effects.check_topics_and_groups(migration, source, topics, groups)
    until = time.monotonic() + _TIMEOUT
    transactions = open_transactions(clusters.source, until)
    if migration.wave and transactions is not None:
        transactions = [each for each in transactions if any(map(migration.selects_topic, each.topics))]
    yield from client_effects.check_transactions(transactions)
    yield from check_hanging(clusters.source, migration.selects_topic, until)
    source_ids = read_transactional_ids(clusters.source, until)
    if source_ids is not None and selection is not None and selection.wave:
        source_ids = set(filter(selection.includes_transaction, source_ids))  # those of other waves stay where they are
    yield from client_effects.check_transactional_ids(
        source_ids,
        read_transactional_ids(clusters.target, until),
        client_effects.streams_applications(source, topics),
    )
    yield from _check_producer_ids(clusters, source, first=first, dry_run=dry_run)


def check_topics(migration: Migration, endpoints: ClusterEndpoints) -> Iterator[Diagnostic]:
    """Yield topics that were deleted or recreated on either side since they were copied. Raises ConfigError."""
    topics = {
        topic: migrated
        for topic, migrated in topic_identities.read_migrated_topics(endpoints.target, migration.name).items()
        if migration.selects_topic(topic)
    }
    for topic, why in topic_identities.find_topic_problems(endpoints.source, endpoints.target, topics).items():
        yield Diagnostic(ERROR, f"topic {topic}", why)


def _check_producer_ids(
    clusters: ClusterPair, source: Inventory, *, first: bool, dry_run: bool
) -> Iterator[Diagnostic]:
    """Yield conflicts of producer ids between both sides, and raise the ids that the target assigns if necessary.

    The side to which clients are moved must not assign an id of the side that they leave, and must have none in its
    log. Once clients have been there, their ids are in its log; before that, it has no others.
    """
    try:
        usage = producerids.read_usage(source, clusters.source.nodes())
        assigned = producerids.take_one_id_each(clusters.target.nodes())
    except KproxyError as error:
        yield Diagnostic(ERROR, "producer ids", f"cannot be compared: {error}")
        return
    for why in usage.unknown_reasons:
        yield Diagnostic(WARNING, "producer ids", f"of the source could not be read: {why}")
    lowest = min(assigned.values(), default=0)
    if lowest < usage.floor:
        done = "would be" if dry_run else "are"
        text = f"the target's, {lowest} and higher, {done} raised above the source's, which go up to {usage.floor - 1}"
        yield Diagnostic(NOTE, "producer ids", text)
        if not dry_run:
            with ChangeJournal(clusters.endpoints.target, clusters.migration.name) as journal:
                journal.read()
                raise_producer_ids(clusters.target.nodes(), usage, assigned, journal)
    if first:
        names = {clusters.migration.target_name(topic) for topic in source.topics}
        logged_ids, gaps = read_logged_producer_ids(clusters.target, lambda topic: topic in names)
        for gap in gaps:
            yield Diagnostic(WARNING, "producer ids", f"in the target's log could not be read: {gap.reason}")
        taken = read_taken_ids(clusters.endpoints.target, clusters.migration.name)
        clients_ids = without_taken_ids(logged_ids or {}, taken)
        if (finding := client_effects.check_producer_ids(clients_ids, usage.floor)) is not None:
            yield finding


def read_expected_users(
    migration: Migration, source: Admin, seen: Collection[str], usage: ObservedUsage | None, *, back: bool
) -> tuple[list[ExpectedUser], list[Diagnostic]]:
    """Return the users that must be able to log in where clients are moved, and what could not be read of them.

    `migration` is that of the file, and `source` is its source; `back`: clients are moved to it. `seen` are the users
    of connected clients, and `usage` is what was observed of clients before.
    """
    access = read_access(source, migration.selects_topic)
    findings = [
        Diagnostic(WARNING, "users", f"{gap.subject} of the source could not be read: {gap.reason}")
        for gap in access.gaps
        if gap.subject in ("the ACLs", "the quotas")
    ]
    return expected_users(migration, access, seen, usage, back=back), findings


def check_final_sync(sync: FinalSync, switch: SwitchSection, *, dry_run: bool) -> Iterator[Diagnostic]:
    """Yield whether the copy keeps up, all records are equal, positions are translated, and the hold is long enough.

    Raises KproxyError if the final sync cannot start at all.
    """
    if not sync.partitions:
        yield Diagnostic(NOTE, "copy", "each topic is on the target with its wave: nothing is left to copy")
        return
    lag = sync.catch_up(switch.max_lag, _TIMEOUT)
    if lag > switch.max_lag:
        yield Diagnostic(
            ERROR,
            "copy",
            TOO_MUCH_LAG(lag=lag, max_lag=switch.max_lag),
        )
        return
    problems = sync.rehearse(10 * _TIMEOUT, dry_run=dry_run)
    first = sync.timings.total
    for _ in range(_MAX_REHEARSALS):  # what everything costs when it is warm
        problems = sync.rehearse(_TIMEOUT, dry_run=dry_run)
        if sync.timings.total <= WORK_SHARE * switch.hold_seconds:
            break
    yield Diagnostic(NOTE, "verify", "all copied records are the same on both sides")
    yield from while_clients_move(problems)
    for group in sync.repeated():
        yield Diagnostic(WARNING, f"group {group.group}", group.text)
    yield _check_duration(sync.timings, first, switch)


def while_clients_move(problems: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the problems with positions before writes are held.

    Running clients are a moment ahead of the copy: their positions are one note together.
    """
    ahead: list[Diagnostic] = []
    for problem in problems:
        if problem.fault == NOT_COPIED_YET:
            ahead.append(problem)
        else:
            yield problem
    if ahead:
        more = f" (and {format_count(len(ahead) - 1, 'more position')})" if len(ahead) > 1 else ""
        yield replace(ahead[0], severity=NOTE, text=f"ahead of the copy, as clients run: {ahead[0].text}{more}")


def _check_duration(timings: SyncTimings, first: float, switch: SwitchSection) -> Diagnostic:
    parts = (
        f"{format_duration(timings.copy)} to copy, {format_duration(timings.verify)} to compare,"
        f" {format_duration(timings.translate)} for positions"
    )
    if timings.total > WORK_SHARE * switch.hold_seconds:
        hold_hint = (
            "" if switch.hold_seconds >= LONGEST_HOLD else f", or raise switch.hold-seconds (at most {LONGEST_HOLD})"
        )
        return Diagnostic(
            ERROR,
            "time",
            HOLD_TOO_LONG(parts=parts, hold_seconds=switch.hold_seconds, work_share=WORK_SHARE, hold_hint=hold_hint),
        )
    return Diagnostic(
        NOTE, "time", f"rehearsed in {format_duration(first)}, then in {format_duration(timings.total)}: {parts}"
    )
