"""What the commands do: switch, go on with one that was broken off, and roll back."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from kproxy.base.errors import AdminError, ConfigError, KproxyError
from kproxy.migrate.clusters.roads import Roads, open_roads, open_target
from kproxy.migrate.copy.sparksession import spark_session
from kproxy.migrate.journal.switch import ROLLBACK, Entry, SwitchJournal, last_switch
from kproxy.migrate.prepare.examining import Sides
from kproxy.migrate.prepare.prepare import Preparation
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.section import Switch
from kproxy.migrate.switch.afterwards import copies, no_switch
from kproxy.migrate.switch.beginning import Running, Way
from kproxy.migrate.switch.drive import LIMITS, Drive, Driven, Limits, Say
from kproxy.migrate.switch.kproxies import Fleet, Kproxy, Missing, fleet, split_name
from kproxy.migrate.switch.leading import Leading, Show
from kproxy.migrate.switch.only import Only
from kproxy.migrate.switch.report import returned
from kproxy.migrate.switch.returning import Returning
from kproxy.migrate.switch.reverse import swapped
from kproxy.migrate.switch.tail import Seconds
from kproxy.migrate.switch.transactions import Open
from kproxy.migrate.switch.wayback import KeptOpen, LedBack, the_way_back
from kproxy.proxy.switching.plan import End, Plan, later

# How long clients may take to connect again until it is said that they have not, in seconds.
_RETURNED, _AGAIN = 10.0, 0.5


@dataclass(slots=True)
class Came:
    """`driven` is None if no write was held; `said` says then what to say, and `stopped` whether something stops it.
    `told`: it has been shown already."""

    driven: Driven | None
    said: str = ""
    stopped: bool = False
    took: Seconds | None = None
    ended: Sequence[Open] = ()
    told: bool = False
    clients: Sequence[str] = ()


def section_of(migration: Migration) -> Switch:
    """Raises ConfigError if the file has none."""
    if migration.switch is None:
        raise ConfigError(
            "the file has no section 'switch'; allowed: switch: {kproxies: [HOST:PORT, …], token-file: FILE, to: NAME}"
        )
    return migration.switch


@contextmanager
def _opened(migration: Migration, master: str | None) -> Iterator[tuple[Any, Roads, Fleet, Switch]]:
    section = section_of(migration)
    with (
        fleet(section) as those,
        # The last check is of few records, while writes are held.
        spark_session(f"kproxy migrate {migration.name}: switch", master, reads_kafka=True, short_jobs=True) as spark,
        open_roads(migration, spark) as roads,
    ):
        yield spark, roads, those, section


def switching(
    migration: Migration, master: str | None, say: Say, show: Show, tell: Callable[[Came], None], *, dry_run: bool,
    reversible: bool, only: Only | None = None,
) -> Came:  # fmt: skip
    """Raises KproxyError. `tell` is told what came of it before this goes on to copy back."""
    with _opened(migration, master) as (spark, roads, those, section):
        return switched(
            spark, migration, roads, those, section, say, show, tell, dry_run=dry_run, reversible=reversible,
            only=only,
        )  # fmt: skip


def switched(
    spark: Any, migration: Migration, roads: Roads, those: Fleet, section: Switch, say: Say, show: Show,
    tell: Callable[[Came], None], *, dry_run: bool, reversible: bool, only: Only | None = None, limits: Limits = LIMITS,
    until: Callable[[KeptOpen], None] = KeptOpen.wait,
) -> Came:  # fmt: skip
    """The same with everything open. `until` waits for the end of the copy back."""
    kept = KeptOpen(spark, migration, roads, say)
    way = Way(migration, roads, section.to, journal_at=roads.target, name=migration.name, only=only)
    if reversible:
        way = replace(way, before=kept.before, meanwhile=kept.meanwhile)
    running = Running(spark, way, those, section, say, show, limits)
    try:
        with aborting(running.abort):
            came = _came(running, running.run(dry_run=dry_run, reversible=reversible))
    except KproxyError:
        if kept.ready:
            kept.take_back()
        raise
    if not reversible or came.driven is None:
        if kept.ready:
            kept.take_back()
        return came
    if came.driven.end is End.UNDONE:
        kept.take_back()
    elif came.driven.end is End.RELEASED:
        tell(came)
        came.told = True
        say("copies back what is written to the target, until it is ended (Ctrl-C) or kproxy migrate rollback is given")
        try:
            with aborting(lambda _: kept.close()):
                until(kept)
        except ConfigError as error:  # another one copies back, or clients have gone back
            say(str(error))
    kept.close()
    return came


def rolling_back(
    migration: Migration, master: str | None, say: Say, show: Show, *, dry_run: bool, gone: Iterable[str],
    only: Only | None = None,
) -> Came:  # fmt: skip
    """Raises KproxyError."""
    with open_target(migration) as target:
        entry = last_switch(target, migration.name)
    if entry is not None and not entry.ended:
        if dry_run:
            return Came(None, f"{entry.what} {entry.switch} is not over: rollback would abort it")
        return going_on(migration, say, abort=True, gone=gone)
    with _opened(migration, master) as (spark, roads, those, section):
        return rolled_back(spark, migration, roads, those, section, say, show, dry_run=dry_run, only=only)


def rolled_back(
    spark: Any, migration: Migration, roads: Roads, those: Fleet, section: Switch, say: Say, show: Show, *,
    dry_run: bool, only: Only | None = None, limits: Limits = LIMITS,
) -> Came:  # fmt: skip
    """After a switch, with everything open. `only`: which clients, if not all were switched. Raises KproxyError."""
    entry = last_switch(roads.target, migration.name)
    if entry is not None and entry.there:
        returning = Returning(spark, migration, roads, those, section, say, show, limits)
        with aborting(returning.abort):
            return _came(returning, returning.run(only, dry_run=dry_run))
    if only is not None:
        raise ConfigError("--only: no clients are on the target by themselves; rollback without it leads all back")
    if entry is None or not entry.moved:
        raise ConfigError("clients are on the source: there is nothing to roll back")
    if not entry.reversible:
        raise ConfigError(
            "the switch was not --reversible: what clients have written to the target since then is only there, and"
            " would be missing on the source"
        )
    back = the_way_back(migration, roads)
    led = LedBack(migration, back, roads)
    way = Way(
        back, swapped(roads), entry.before, ROLLBACK, roads.target, migration.name, force=True,
        meanwhile=led.meanwhile, compose=led.compose,
    )  # fmt: skip
    if not dry_run:
        with Sides(back, way.roads) as sides:  # looks after producer ids
            Preparation(sides, sides.examine(0.0), lambda text: say(f"the way back: {text}")).run()
    running = Running(spark, way, those, section, say, show, limits)
    with aborting(running.abort):
        return _came(running, running.run(dry_run=dry_run, reversible=True))


def _came(running: Leading, driven: Driven | None) -> Came:
    if driven is not None:
        clients = _returned(running) if driven.end is End.RELEASED else []
        return Came(driven, took=running.took, ended=running.ended, clients=clients)
    stopped = running.preflight.stopped
    said = "nothing was held: the lines with 'stop' say what has to be done first" if stopped else "it can be done"
    return Came(None, said, stopped)


def _returned(running: Leading) -> list[str]:
    """What is known of the clients that were there before, when they are back, or after a while."""
    before = running.units()
    until = time.monotonic() + _RETURNED
    while True:
        answers = [answer for _, answer in running.fleet.each(lambda one: one.state())]
        all_are, said = returned(before, [one for one in answers if not isinstance(one, AdminError)])
        if all_are or time.monotonic() > until:
            return said
        time.sleep(_AGAIN)


def going_on(migration: Migration, say: Say, *, abort: bool, gone: Iterable[str]) -> Came:
    """Raises KproxyError."""
    section = section_of(migration)
    with open_target(migration) as target, fleet(section) as those:
        driven = resumed(target, migration.name, those, section, say, abort=abort, gone=gone)
        last = last_switch(target, migration.name) if driven is None else None
    if driven is None:
        return Came(None, "\n".join(nothing_to_go_on_with(migration, last)))
    if driven.end is End.RELEASED and driven.entry.reversible and driven.entry.moved:
        say("start the copy back: kproxy migrate copy FILE --back --follow")
    return Came(driven)


def nothing_to_go_on_with(migration: Migration, last: Entry | None) -> Iterator[str]:
    """Where clients are, and what is next. It is said too if the source cannot be reached."""
    yield from no_switch(last)
    try:
        with open_roads(migration) as roads:
            yield from copies(last, migration, roads)
    except KproxyError as error:
        yield f"whether a copy goes on is not known: {error}"


@contextmanager
def aborting(abort: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM go back, as long as that can be done; what has begun is always ended in order. Elsewhere than
    in the main thread nobody gets signals."""

    def handle(number: int, _: FrameType | None) -> None:
        abort(f"{signal.Signals(number).name} was given")

    try:
        before = {each: signal.signal(each, handle) for each in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def resumed(
    target: str, name: str, fleet: Fleet, section: Switch, say: Say, *, abort: bool, gone: Iterable[str] = (),
    limits: Limits = LIMITS, started: Callable[[Drive], None] = lambda _: None,
) -> Driven | None:  # fmt: skip
    """Go on with a switch whose driver is not there any more, or take it back. None if there is none. Raises
    KproxyError."""
    with SwitchJournal(target, name) as journal:
        last = journal.read()
        if last is None or (last.ended and not gone):
            return None
        entry = journal.take()
        assert entry is not None
        left = tuple(one for one in entry.kproxies if one not in set(gone))
        if unknown := set(gone) - set(entry.kproxies):
            raise ConfigError(f"--gone {min(unknown)}: is not part of it; there are {', '.join(entry.kproxies)}")
        with _those(fleet, left, entry.cluster) as those:
            if not those.all:
                raise ConfigError("--gone names every kproxy: start at least one, or begin a new switch")
            plan = Plan(
                entry.switch, later(entry.number + 1, secrets.token_hex(4)), left, entry.origin, entry.to,
                section.hold_seconds, takes_over=True, decided=entry.decision, abort=abort,
            )  # fmt: skip
            drive = Drive(plan, those, journal, replace(entry, kproxies=left, ended=False), {}, say, limits)
            started(drive)
            return drive.run()


def _those(fleet: Fleet, names: Iterable[str], cluster: str) -> Fleet:
    """The kproxies of a switch of this cluster, or part, by the names that they had in it: also those that nobody finds
    now."""
    found = {one.name: one for one in fleet.all}
    those = []
    for name in names:
        own, part = split_name(name)
        one = replace(found.get(own) or Kproxy(own, Missing(own), cluster), cluster=cluster)
        those.append(one.of(part) if part else one)
    return Fleet(those)
