"""What is looked at before writes are held: kproxies, clusters, clients. It changes nothing that anybody sees."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kproxy import __version__
from kproxy.base.errors import AdminError, KproxyError
from kproxy.migrate.clusters import producerids, topic_identities
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_inventory, read_logged_producer_ids
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, MigrationFinding, round_duration
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import LONGEST_HOLD, SwitchSection
from kproxy.migrate.switch import client_effects
from kproxy.migrate.switch.final_sync import FinalSync, SyncTimings, list_topics
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet
from kproxy.migrate.switch.kproxy_replies import ConnectedClient, KproxyReply
from kproxy.migrate.switch.readiness import ExpectedState, TimedReply, check_readiness
from kproxy.migrate.switch.transactions import open_transactions, read_transactional_ids

# How long is waited for things before the hold, in seconds.
_TIMEOUT = 60.0
# Until it is quick enough, at most so often: Spark gets quicker, and what else the machine has to do may end.
_MAX_REHEARSALS = 4
# Of the hold, what may be used up by copying, comparing and translating, if all goes as in the rehearsal. The rest is
# for kproxies: settling, flipping, and one answer that is late.
WORK_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Direction:
    """From where to where clients are to be led: names of upstreams, and cluster ids. `origin` is "" until the kproxies
    have said it."""

    target_upstream: str
    origin_id: str
    target_id: str


def check_kproxies(
    fleet: KproxyFleet, switch: SwitchSection, direction: Direction
) -> tuple[list[MigrationFinding], dict[str, KproxyReply]]:
    """Findings, and what those answered that did."""

    def ask(kproxy: Kproxy) -> TimedReply:
        sent = time.time()
        try:
            answer: KproxyReply | AdminError = kproxy.read_reply()
        except AdminError as error:
            answer = error
        return TimedReply(answer, sent, time.time())

    heard: dict[str, TimedReply] = {}
    for kproxy, one in fleet.request_all(ask):
        heard[kproxy.name] = one if isinstance(one, TimedReply) else TimedReply(one, 0.0, 0.0)
    wanted = ExpectedState(
        switch.cluster,
        direction.target_upstream,
        direction.origin_id,
        direction.target_id,
        __version__,
        switch.hold_seconds,
    )
    answers = {name: one.reply for name, one in heard.items() if isinstance(one.reply, KproxyReply)}
    return check_readiness(heard, wanted), answers


def check_clients(connected: Sequence[ConnectedClient], *, again: bool = False) -> Iterator[MigrationFinding]:
    """What clients will see, as far as their kproxies know them. `again`: they have been where they are led now."""
    yield from client_effects.check_clients(connected, again=again)
    told: dict[str, list[str]] = {}
    for client in connected:
        for text in client.warnings:
            told.setdefault(text, []).append(client.name or client.address)
    yield from client_effects.kproxy_warnings(told)


def check_clusters(sides: ClusterPair, *, first: bool) -> Iterator[MigrationFinding]:
    """Topics, groups, transactions, producer ids. `first`: no client of these has written to the target so far. Raises
    UpstreamError and WireError."""
    migration = sides.migration
    source = read_inventory(sides.source, migration.selects_topic)
    yield from check_topics(migration, sides.endpoints)
    yield from client_effects.check_topics_and_groups(migration, source, list_topics(sides.source.bootstrap))
    until = time.monotonic() + _TIMEOUT
    yield from client_effects.check_transactions(open_transactions(sides.source, until))
    yield from client_effects.check_transactional_ids(
        read_transactional_ids(sides.source, until), read_transactional_ids(sides.target, until)
    )
    yield from _check_producer_ids(sides, source, first=first)


def check_topics(migration: Migration, endpoints: ClusterEndpoints) -> Iterator[MigrationFinding]:
    """Topics that were deleted or created again since they were copied, on either side. Raises ConfigError,
    UpstreamError and WireError."""
    begun = {
        topic: one
        for topic, one in topic_identities.read_migrated_topics(endpoints.target, migration.name).items()
        if migration.selects_topic(topic)
    }
    for topic, why in topic_identities.find_topic_problems(endpoints.source, endpoints.target, begun).items():
        yield MigrationFinding(STOP, f"topic {topic}", why)


def _check_producer_ids(sides: ClusterPair, source: Inventory, *, first: bool) -> Iterator[MigrationFinding]:
    """No id of the side that clients leave may be handed out by the one to which they go, nor stand in its log. Once
    clients have been there, theirs do; and before they went, there were no others."""
    try:
        known = producerids.read_usage(source, sides.source.nodes())
        lowest = min(producerids.take_one_id_each(sides.target.nodes()).values(), default=0)
    except KproxyError as error:
        yield MigrationFinding(STOP, "producer ids", f"cannot be compared: {error}")
        return
    for why in known.unknown_reasons:
        yield MigrationFinding(WARNING, "producer ids", f"of the source could not be seen: {why}")
    if lowest < known.floor:
        yield MigrationFinding(
            STOP,
            "producer ids",
            f"the target hands out {lowest} and higher, and the source has ids up to"
            f" {known.floor - 1}: records of two producers would be taken for one's: kproxy migrate prepare",
        )
    if first:
        names = {sides.migration.target_name(topic) for topic in source.topics}
        there, unseen = read_logged_producer_ids(sides.target, lambda topic: topic in names)
        for one in unseen:
            yield MigrationFinding(WARNING, "producer ids", f"in the target's log could not be seen: {one.reason}")
        if (finding := client_effects.check_producer_ids(there or {}, known.floor)) is not None:
            yield finding


def check_final_sync(tail: FinalSync, switch: SwitchSection, *, dry_run: bool) -> Iterator[MigrationFinding]:
    """The copy follows, all is compared, positions are translated, and there is time for the rest of it. Raises
    KproxyError if the tail cannot be had at all."""
    lag = tail.catch_up(switch.max_lag, _TIMEOUT)
    if lag > switch.max_lag:
        yield MigrationFinding(
            STOP,
            "copy",
            f"{lag:,} offsets are still to be copied, and switch.max-lag allows {switch.max_lag:,}: run"
            " kproxy migrate copy --follow until it has caught up",
        )
        return
    problems = tail.rehearse(10 * _TIMEOUT, dry_run=dry_run)
    first = tail.timings.total
    for _ in range(_MAX_REHEARSALS):  # what everything costs when it is warm
        problems = tail.rehearse(_TIMEOUT, dry_run=dry_run)
        if tail.timings.total <= WORK_SHARE * switch.hold_seconds:
            break
    yield MigrationFinding(NOTE, "verify", "all that was copied is the same on both sides")
    for text in problems:
        # While clients go on, they are ahead of the copy by a moment.
        moving = "are not copied so far" in text
        yield MigrationFinding(NOTE if moving else STOP, "positions", text)
    for one in tail.repeated():
        yield MigrationFinding(WARNING, f"group {one.group}", one.text)
    yield _check_duration(tail.timings, first, switch)


def _check_duration(took: SyncTimings, first: float, switch: SwitchSection) -> MigrationFinding:
    said = (
        f"{round_duration(took.copy)} to copy, {round_duration(took.verify)} to compare,"
        f" {round_duration(took.translate)} for positions"
    )
    if took.total > WORK_SHARE * switch.hold_seconds:
        longer = (
            "" if switch.hold_seconds >= LONGEST_HOLD else f", or raise switch.hold-seconds (to {LONGEST_HOLD} at most)"
        )
        return MigrationFinding(
            STOP,
            "time",
            f"{said}: too much for a hold of {switch.hold_seconds:g} s, of which {WORK_SHARE:.0%} are for it:"
            f" lessen the load, or give Spark more cores{longer}",
        )
    return MigrationFinding(
        NOTE, "time", f"rehearsed in {round_duration(first)}, then in {round_duration(took.total)}: {said}"
    )
