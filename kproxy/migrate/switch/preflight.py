"""What is looked at before writes are held: kproxies, clusters, clients. It changes nothing that anybody sees."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kproxy import __version__
from kproxy.base.errors import AdminError, KproxyError
from kproxy.migrate.clusters import identities, producerids
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.roads import Roads
from kproxy.migrate.clusters.stocktaking import producer_ids, take
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, Finding, duration
from kproxy.migrate.prepare.examining import Sides
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.section import LONGEST_HOLD, Switch
from kproxy.migrate.switch import affected
from kproxy.migrate.switch.answers import Answer, Client
from kproxy.migrate.switch.fitness import Heard, Wanted, judged
from kproxy.migrate.switch.kproxies import Fleet, Kproxy
from kproxy.migrate.switch.tail import Seconds, Tail, topics_of
from kproxy.migrate.switch.transactions import known_ids, open_transactions

# How long is waited for things before the hold, in seconds.
_PATIENCE = 60.0
# Until it is quick enough, at most so often: Spark gets quicker, and what else the machine has to do may end.
_REHEARSALS = 4
# Of the hold, what may be used up by copying, comparing and translating, if all goes as in the rehearsal. The rest is
# for kproxies: settling, flipping, and one answer that is late.
SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Direction:
    """From where to where clients are to be led: names of upstreams, and cluster ids. `origin` is "" until the kproxies
    have said it."""

    to: str
    origin_id: str
    target_id: str


def of_kproxies(fleet: Fleet, switch: Switch, direction: Direction) -> tuple[list[Finding], dict[str, Answer]]:
    """Findings, and what those answered that did."""

    def ask(kproxy: Kproxy) -> Heard:
        sent = time.time()
        try:
            answer: Answer | AdminError = kproxy.look()
        except AdminError as error:
            answer = error
        return Heard(answer, sent, time.time())

    heard: dict[str, Heard] = {}
    for kproxy, one in fleet.each(ask):
        heard[kproxy.name] = one if isinstance(one, Heard) else Heard(one, 0.0, 0.0)
    wanted = Wanted(
        switch.cluster, direction.to, direction.origin_id, direction.target_id, __version__, switch.hold_seconds
    )
    answers = {name: one.answer for name, one in heard.items() if isinstance(one.answer, Answer)}
    return judged(heard, wanted), answers


def of_clients(connected: Sequence[Client], *, again: bool = False) -> Iterator[Finding]:
    """What clients will see, as far as their kproxies know them. `again`: they have been where they are led now."""
    yield from affected.clients(connected, again=again)
    told: dict[str, list[str]] = {}
    for client in connected:
        for text in client.sees:
            told.setdefault(text, []).append(client.name or client.address)
    yield from affected.told(told)


def of_clusters(sides: Sides, *, first: bool) -> Iterator[Finding]:
    """Topics, groups, transactions, producer ids. `first`: no client of these has written to the target so far. Raises
    UpstreamError and WireError."""
    migration = sides.migration
    source = take(sides.source, migration.wants)
    yield from of_topics(migration, sides.roads)
    yield from affected.topics_and_groups(migration, source, topics_of(sides.source.bootstrap))
    until = time.monotonic() + _PATIENCE
    yield from affected.transactions(open_transactions(sides.source, until))
    yield from affected.transactional_ids(known_ids(sides.source, until), known_ids(sides.target, until))
    yield from _producer_ids(sides, source, first=first)


def of_topics(migration: Migration, roads: Roads) -> Iterator[Finding]:
    """Topics that were deleted or created again since they were copied, on either side. Raises ConfigError,
    UpstreamError and WireError."""
    begun = {
        topic: one for topic, one in identities.read(roads.target, migration.name).items() if migration.wants(topic)
    }
    for topic, why in identities.problems(roads.source, roads.target, begun).items():
        yield Finding(STOP, f"topic {topic}", why)


def _producer_ids(sides: Sides, source: Inventory, *, first: bool) -> Iterator[Finding]:
    """No id of the side that clients leave may be handed out by the one to which they go, nor stand in its log. Once
    clients have been there, theirs do; and before they went, there were no others."""
    try:
        known = producerids.known(source, sides.source.nodes())
        lowest = min(producerids.now(sides.target.nodes()).values(), default=0)
    except KproxyError as error:
        yield Finding(STOP, "producer ids", f"cannot be compared: {error}")
        return
    for why in known.why:
        yield Finding(WARNING, "producer ids", f"of the source could not be seen: {why}")
    if lowest < known.floor:
        yield Finding(
            STOP, "producer ids", f"the target hands out {lowest} and higher, and the source has ids up to"
            f" {known.floor - 1}: records of two producers would be taken for one's: kproxy migrate prepare",
        )  # fmt: skip
    if first:
        names = {sides.migration.target_of(topic) for topic in source.topics}
        there, unseen = producer_ids(sides.target, lambda topic: topic in names)
        for one in unseen:
            yield Finding(WARNING, "producer ids", f"in the target's log could not be seen: {one.why}")
        if (finding := affected.producer_ids(there or {}, known.floor)) is not None:
            yield finding


def of_tail(tail: Tail, switch: Switch, *, dry_run: bool) -> Iterator[Finding]:
    """The copy follows, all is compared, positions are translated, and there is time for the rest of it. Raises
    KproxyError if the tail cannot be had at all."""
    lag = tail.catch_up(switch.max_lag, _PATIENCE)
    if lag > switch.max_lag:
        yield Finding(
            STOP, "copy", f"{lag:,} offsets are still to be copied, and switch.max-lag allows {switch.max_lag:,}: run"
            " kproxy migrate copy --follow until it has caught up",
        )  # fmt: skip
        return
    problems = tail.rehearse(10 * _PATIENCE, dry_run=dry_run)
    first = tail.took.total
    for _ in range(_REHEARSALS):  # what everything costs when it is warm
        problems = tail.rehearse(_PATIENCE, dry_run=dry_run)
        if tail.took.total <= SHARE * switch.hold_seconds:
            break
    yield Finding(NOTE, "verify", "all that was copied is the same on both sides")
    for text in problems:
        # While clients go on, they are ahead of the copy by a moment.
        moving = "are not copied so far" in text
        yield Finding(NOTE if moving else STOP, "positions", text)
    for one in tail.repeated():
        yield Finding(WARNING, f"group {one.group}", one.words)
    yield _time(tail.took, first, switch)


def _time(took: Seconds, first: float, switch: Switch) -> Finding:
    said = (
        f"{duration(took.copy)} to copy, {duration(took.verify)} to compare, {duration(took.translate)} for positions"
    )
    if took.total > SHARE * switch.hold_seconds:
        longer = (
            "" if switch.hold_seconds >= LONGEST_HOLD else f", or raise switch.hold-seconds (to {LONGEST_HOLD} at most)"
        )
        return Finding(
            STOP, "time", f"{said}: too much for a hold of {switch.hold_seconds:g} s, of which {SHARE:.0%} are for it:"
            f" lessen the load, or give Spark more cores{longer}",
        )  # fmt: skip
    return Finding(NOTE, "time", f"rehearsed in {duration(first)}, then in {duration(took.total)}: {said}")
