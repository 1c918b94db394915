"""What keeps the way back open after a switch, and what leads clients back on it.

Before the hold the source is made ready to be copied to. While writes are held, the copy back gets the place where it
begins, and starts. It runs in the driver's process, until it is ended; `kproxy migrate copy --back --follow` starts it
again anywhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.clusters.roads import Roads
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import Cluster
from kproxy.migrate.copier.errorcodes import Refused
from kproxy.migrate.copier.retries import insist
from kproxy.migrate.copier.slices import Job
from kproxy.migrate.copier.state import State, parts_of
from kproxy.migrate.copier.statetopic import Copied, copied, read_all
from kproxy.migrate.copy.copyrun import Copy, What
from kproxy.migrate.copy.scope import what_to_copy
from kproxy.migrate.journal.driver import Records, tell
from kproxy.migrate.journal.switch import ROLLBACK, last_switch
from kproxy.migrate.offsets.groupsync import Offsets
from kproxy.migrate.plan.finding import NOTE, STOP, Finding
from kproxy.migrate.prepare.examining import Sides
from kproxy.migrate.prepare.prepare import Preparation
from kproxy.migrate.prepare.undo import Undoing
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.reverse import (
    Equal,
    as_clients_left,
    composed,
    reversed_of,
    seeds,
    swapped,
    verified,
    went_on,
)
from kproxy.migrate.switch.tail import Tail, TailError, topics_of
from kproxy.migrate.verify.results import kept_in

Say = Callable[[str], None]

_PATIENCE = 10.0
_AGAIN = 5.0


def the_way_back(migration: Migration, roads: Roads) -> Migration:
    """Of all topics of the migration, also those that have no records so far. Raises UpstreamError and WireError."""
    return reversed_of(migration, (topic for topic in topics_of(roads.source) if migration.wants(topic)))


def _values(bootstrap: str, name: str) -> tuple[int, dict[bytes, bytes]]:
    """How many partitions the state topic has, and all that is in it."""
    cluster = Cluster(bootstrap)
    try:
        topic = read_all(cluster, name)
        return len(topic.logs), topic.values
    finally:
        cluster.close()


def states(values: Mapping[bytes, bytes]) -> dict[tuple[str, int], State]:
    """How far each partition was copied."""
    found = {}
    for name, value in values.items():
        match parts_of(name):
            case ["partition", str(topic), int(partition)]:
                found[topic, partition] = State.from_json(value)
    return found


class KeptOpen:
    """The way back, for `switch --reversible`."""

    def __init__(self, spark: Any, migration: Migration, roads: Roads, say: Say) -> None:
        self._spark, self._migration, self._roads, self._say = spark, migration, roads, say
        self._ended = threading.Event()
        self._copy: Copy | None = None
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.ready = False

    def before(self) -> list[Finding]:
        """Make the source ready. Raises UpstreamError and WireError."""
        self.back = the_way_back(self._migration, self._roads)
        self._there = swapped(self._roads)
        self.ready = True
        with Sides(self.back, self._there) as sides:
            prepared = Preparation(sides, sides.examine(0.0), lambda text: self._say(f"the way back: {text}")).run()
        if prepared.failed:
            return [Finding(STOP, "the way back", text) for text in prepared.failed]
        self._partitions, self._values = _values(self._there.target, self.back.name)
        what = what_to_copy(self.back, self._there.source, self._there.target, True, None, True, {})
        self._what = replace(what, grace=0.0)  # writes are held then
        return [Finding(NOTE, "the way back", "the source is ready to be copied to")]

    def meanwhile(self, tail: Tail, until: float) -> None:
        """While writes are held, and all is copied. Raises TailError, UpstreamError and WireError."""
        tail.stop_copying(until)
        equal = Equal(ends_of(self._there.source, tail.ends, until), tail.ends)
        job = Job(self.back.name, self.back.state_topic, self._partitions)
        tell(self._there.target, job, seeds(equal, self._values), "seed")
        self.start(self._what)

    def start(self, what: What) -> None:
        """Copy back, in a thread, whatever fails meanwhile."""

        def run() -> None:
            while not self._ended.is_set():
                # Whether it may go on when another one copies back, the state topic says, and not this.
                self._copy = Copy(self._spark, self._there.source, self._there.target, what, allowed=self._not_led_back)
                try:
                    self._copy.run()
                    return
                except ConfigError as error:  # another one has taken over, or may not go on
                    self.failure = error
                    self._ended.set()
                except KproxyError as error:
                    self._say(f"the way back: {error}; tries again")
                    self._ended.wait(_AGAIN)
                except Exception as error:  # noqa: BLE001  # it is raised where somebody waits
                    self.failure = error
                    self._ended.set()

        self._thread = threading.Thread(target=run, name="kproxy migrate switch: the way back", daemon=True)
        self._thread.start()

    def _not_led_back(self) -> None:
        """Raises ConfigError when clients have gone back."""
        last = last_switch(self._roads.target, self._migration.name)
        if last is not None and last.what == ROLLBACK and not last.moved:
            raise ConfigError("clients are on the source again: nothing is copied back to it")

    def close(self) -> None:
        """From any thread."""
        self._ended.set()
        if self._copy is not None:
            self._copy.end()

    def wait(self) -> None:
        """Until it is ended. Raises what has ended it, if that was not `close`."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.5)
        if self.failure is not None:
            raise self.failure

    def take_back(self) -> None:
        """The switch was undone: what `before` has changed on the source is as it was."""
        self.close()
        with Sides(self.back, self._there) as sides:
            undone = Undoing(sides, lambda text: self._say(f"the way back: {text}"), force=False, dry_run=False).run()
        for text in [*undone.kept, *undone.failed]:
            self._say(f"the way back: stays: {text}")


def ends_of(bootstrap: str, like: Mapping[tuple[str, int], int], until: float) -> dict[tuple[str, int], int]:
    """Where these partitions end. The markers of a transaction are written after its end is acknowledged: what is read
    before would be too early, and would be copied back. Raises TailError, UpstreamError and WireError."""
    cluster = Cluster(bootstrap)
    try:
        while True:
            high = cluster.offsets(like, requests.LATEST, committed=False)
            stable = cluster.offsets(like, requests.LATEST)
            open_ones = [where for where in like if where not in high or high[where] != stable.get(where)]
            if not open_ones:
                return stable
            if time.monotonic() > until:
                topic, partition = open_ones[0]
                raise TailError(
                    f"partition {partition} of {topic} where clients are to go has a transaction that is not ended, or"
                    " nobody leads it"
                )
            time.sleep(0.05)
            cluster.forget()
    finally:
        cluster.close()


class LedBack:
    """The way back, for `rollback`: `forth` is the first migration, whose roads these are, and `back` the other one."""

    def __init__(self, forth: Migration, back: Migration, roads: Roads) -> None:
        self._forth, self._back, self._roads = forth, back, roads

    def compose(self, offsets: Offsets) -> None:
        """Positions from before the switch are known by the first migration's map."""
        offsets.known = composed(dict(offsets.known), self._forth_copied())

    def _forth_copied(self) -> dict[tuple[str, int], Copied]:
        if not hasattr(self, "_known"):  # it does not change: clients write to the target
            self._partitions, values = _values(self._roads.target, self._forth.name)
            _, back = _values(self._roads.source, self._back.name)
            self._changes = as_clients_left(values, copied(back), time.time_ns() // 1_000_000)
            self._values = {name: value for name, value in {**values, **self._changes}.items() if value is not None}
            self._known = copied(self._values)
        return self._known

    def meanwhile(self, tail: Tail, until: float) -> None:
        """The first migration goes on from here. Raises TailError, UpstreamError and WireError."""
        tail.stop_copying(until)
        self._forth_copied()
        equal = Equal(ends_of(self._roads.source, tail.ends, until), tail.ends)
        _, values = _values(self._roads.source, self._back.name)
        at = time.time_ns() // 1_000_000
        records: dict[bytes, Any] = {**self._changes, **went_on(states(self._values), copied(values), equal, at)}
        kept = verified(kept_in(self._values), kept_in(values), equal, at)
        records |= {name: one.to_record(at) for name, one in kept.items()}
        told: Records = records
        tell(self._roads.target, Job(self._forth.name, self._forth.state_topic, self._partitions), told, "seed")


def may_copy_back(target: str, name: str) -> None:
    """Raises ConfigError unless clients are on the target of this migration, and there is a way back; UpstreamError and
    WireError."""
    last = last_switch(target, name)
    if last is None or not last.moved:
        raise ConfigError("clients are on the source: nothing is copied back to it")
    if not last.reversible:
        raise ConfigError("the switch was not --reversible: nobody knows from where to copy back")


def is_there(bootstrap: str, topic: str) -> bool:
    """Raises UpstreamError and WireError."""
    cluster = Cluster(bootstrap)
    try:
        insist(cluster, lambda: cluster.partitions(topic), _PATIENCE / 3)
    except Refused:
        return False
    finally:
        cluster.close()
    return True
