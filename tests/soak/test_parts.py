"""`kproxy migrate switch --only`, with everything real, under load and harm: consumers are led to the target by
themselves and back again, then all of them, then the producers one at a time, then whoever is left.

    PARTS_ROUNDS=N           how often consumers are led to and fro, before the way of no return
    PARTS_SEED=N             repeats what chance decides
    SWITCHES_PARTITIONS=1, SWITCHES_LIBRARIES=A,B    as in `test_switches`

What must hold is read from both clusters and from what the clients were told: `switchjudged` says it. A share group
cannot be led by itself; it stays, with the producer that it reads, until the end. Consumers read committed records, as
docs/migration-switch.md asks for.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tests.harness.clients.spark import needs_spark
from tests.harness.migration.flipseen import note
from tests.harness.migration.switchdriver import SAYS, STOPPED
from tests.harness.migration.switched import BLUE, GREEN
from tests.soak.switchclients import Kind
from tests.soak.switchharm import Harm
from tests.soak.switchsite import Site

pytestmark = [pytest.mark.soak, needs_spark, pytest.mark.timeout(3 * 3600)]

_SETS = 3
_JOINED = 300
# A round that is harmed may be undone or stopped.
_TRIES = 6
_HARMS = ("nothing", "pause", "leaders", "answers", "driver", "driver", "kproxy", "kproxy")


def test_consumers_first_then_producers_one_at_a_time(tmp_path: Path, figures: list[str]) -> None:
    seed = int(os.environ.get("PARTS_SEED", Random().randrange(1 << 32)))
    rounds = int(os.environ.get("PARTS_ROUNDS", "12"))
    figures.append(f"parts: PARTS_SEED={seed} PARTS_ROUNDS={rounds}")
    with ExitStack() as held:
        site = Site(tmp_path, Random(seed), held, apps={}, committed=True)
        site.command("prepare")
        site.wait_flowing()
        parts = Parts(site)
        try:
            for _ in range(rounds):
                parts.readers_to_or_fro()
            parts.readers_to()
            parts.producers_to()
            parts.all_to()
            problems = site.judge()
        finally:
            figures.append(f"parts: {dict(sorted(site.counts.items()))}")
    moves = site.counts["released"]
    for kind, one in site.clients.all.items():
        note(kind.name, f"soak of --only, {moves} switches", one.seen())
    assert problems == [], f"seed {seed}: {problems[:30]}"


class Parts:
    """Which clients are led by themselves, and where they are."""

    def __init__(self, site: Site) -> None:
        self.site = site
        alone = [kind for kind in site.clients.consumers if not kind.shares]
        site.chance.shuffle(alone)
        self._sets = [alone[at::_SETS] for at in range(min(_SETS, len(alone)))]
        shared = {kind.reads for kind in site.clients.consumers if kind.shares}
        self._producers = [kind for kind in site.clients.producers if kind.name not in shared]
        site.chance.shuffle(self._producers)

    def readers_to_or_fro(self) -> None:
        """Some consumers, wherever they are."""
        self._move(self.site.chance.choice(self._sets), self.site.chance.choice(_HARMS))

    def readers_to(self) -> None:
        """All consumers to the target."""
        for one in self._sets:
            self._move_at_last(one)

    def producers_to(self) -> None:
        for one in self._producers:
            self._move_at_last([one])

    def all_to(self) -> None:
        """Whoever is left."""
        site = self.site
        for _ in range(_TRIES):
            if site.switch(lambda _: None, reversible=False) == "released":
                break
        assert site.led() == {GREEN}
        site.counts["released"] += 1
        site.absolve()

    def _move_at_last(self, kinds: Sequence[Kind]) -> None:
        for number in range(_TRIES):
            if self._where(kinds) == GREEN:
                return
            self._move(kinds, self.site.chance.choice(_HARMS) if number < _TRIES - 2 else "nothing")
        assert self._where(kinds) == GREEN

    def _where(self, kinds: Sequence[Kind]) -> str:
        """To which cluster these are led, at all kproxies. Before they are a part they go where all go."""
        where = self.site.led(kinds[0].id) or self.site.led()
        assert len(where) == 1, where
        return where.pop()

    def _move(self, kinds: Sequence[Kind], what: str) -> None:
        """Lead them to the other cluster; `what` is done meanwhile."""
        site, former = self.site, self._where(kinds)
        where = site.chance.choice(tuple(SAYS))
        names = ", ".join(kind.name for kind in kinds)
        site.say(f"{names} from {former}: {what} at {where}")
        act = Harm(site).acts.get(what)
        threads: list[threading.Thread] = []

        def harm(begins: str) -> None:
            if begins == where and act is not None and not threads:
                threads.append(threading.Thread(target=act))
                threads[0].start()

        marks = site.clients.marks()
        code = site.lead([*_words(kinds, former)], harm, kill_at=where if what == "driver" else "")
        for one in threads:
            one.join(_JOINED)
            assert not one.is_alive(), what
        to = self._where(kinds)
        if to != former:
            for kind in kinds:
                if kind in site.epochs:
                    site.note_epoch(kind, former, to, marks[kind])
        came = "released" if to != former else "stopped" if code == STOPPED else "undone"
        site.counts[came] += 1
        # What is written to the source comes to those who have left it.
        site.follow()
        site.absolve()
        site.say(f"{names}: {came}, on {to}")
        time.sleep(site.chance.uniform(0, 2))


def _words(kinds: Sequence[Kind], former: str) -> list[str]:
    words = ["switch" if former == BLUE else "rollback"]
    for kind in kinds:
        words += ["--only", f"group={kind.id}" if kind.reads else f"client-id={kind.id}"]
        if transaction := kind.properties.get("transactional.id"):
            words += ["--only", f"transactional-id={transaction}"]
    return words
