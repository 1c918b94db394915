"""Switches there and back, with everything real, under load and harm.

    SWITCHES_ROUNDS=N        how many, each a switch or a rollback that is tried
    SWITCHES_SECONDS=N       after which no further round begins
    SWITCHES_SEED=N          repeats what chance decides
    SWITCHES_HARMS=A,B       what is done, of `_HARMS`, such as "nothing,driver flip"
    SWITCHES_PARTITIONS=1    of each topic, and
    SWITCHES_LIBRARIES=A,B   of java, confluent, kafka_python, franz, streams, connect, spark: less of both is for a
                             machine so busy that the work does not fit into a hold (rounds are "stopped")

What must hold is read from both clusters and from what the clients were told: `switchjudged` says it.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tests.harness.clients.spark import needs_spark
from tests.harness.migration.flipseen import note
from tests.harness.migration.switchdriver import SAYS
from tests.soak.switchharm import Harm
from tests.soak.switchsite import Site

pytestmark = [pytest.mark.soak, needs_spark, pytest.mark.timeout(6 * 3600)]

_HARMS = (
    "nothing",
    "pause",
    "leaders",
    "answers",
    *(f"driver {stage}" for stage in SAYS),
    *(f"kproxy {stage}" for stage in SAYS if stage != "preflight"),
)


def test_nothing_is_lost_by_switches_there_and_back(tmp_path: Path, figures: list[str]) -> None:
    seed = int(os.environ.get("SWITCHES_SEED", Random().randrange(1 << 32)))
    rounds = int(os.environ.get("SWITCHES_ROUNDS", "50"))
    until = time.monotonic() + float(os.environ.get("SWITCHES_SECONDS", "inf"))
    harms = os.environ.get("SWITCHES_HARMS", "")
    figures.append(f"switches: SWITCHES_SEED={seed} SWITCHES_ROUNDS={rounds}")
    with ExitStack() as held:
        site = Site(tmp_path, Random(seed), held)
        site.command("prepare")
        site.wait_flowing()
        soak = Soak(site, harms.split(",") if harms else _HARMS)
        try:
            for number in range(rounds):
                if time.monotonic() < until:
                    soak.round(number)
            problems = site.judge()
        finally:
            figures += soak.told()
    for kind, one in site.clients.all.items():
        note(kind.name, f"soak, {soak.switched} switches", one.seen())
    for app in site.apps:
        note(app.name, f"soak, {soak.switched} switches", app.seen())
    assert problems == [], f"seed {seed}: {problems[:30]}"


_JOINED = 300


class Soak:
    """The rounds."""

    def __init__(self, site: Site, harms: tuple[str, ...] | list[str]) -> None:
        self.site, self._harms, self._left = site, harms, list[str]()

    def round(self, number: int) -> None:
        site, chance = self.site, self.site.chance
        if not self._left:
            self._left = list(self._harms)
            chance.shuffle(self._left)
        what, _, stage = self._left.pop().partition(" ")
        time.sleep(chance.uniform(0, 2))
        where = stage or chance.choice(tuple(SAYS))
        site.say(f"round {number} from {site.active}: {what} at {where}")
        acts = Harm(site).acts
        threads: list[threading.Thread] = []

        def harm(begins: str) -> None:
            if begins == where and what in acts and not threads:
                threads.append(threading.Thread(target=acts[what]))
                threads[0].start()

        came = site.switch(harm, kill_at=where if what == "driver" else "")
        for one in threads:
            one.join(_JOINED)
            assert not one.is_alive(), what
        site.counts[came] += 1
        site.absolve()
        site.say(f"round {number}: {came}, on {site.active}")

    @property
    def switched(self) -> int:
        return self.site.counts["released"]

    def told(self) -> list[str]:
        """Figures for the reader."""
        site = self.site
        lines = [f"switches: {dict(sorted(site.counts.items()))}"]
        if site.seconds:
            held = f"{statistics.median(site.seconds):.1f} s (median), {max(site.seconds):.1f} s at most"
            lines.append(f"switches: writes held {held}")
        seen = {kind.name: one.seen() for kind, one in site.clients.all.items()}
        for name, what in {**seen, **{app.name: app.seen() for app in site.apps}}.items():
            said = ", ".join(f"{one} × {count}" for one, count in sorted(what.items()))
            lines.append(f"switches: {name}: {said or 'nothing'}")
        return lines
