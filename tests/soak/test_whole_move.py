"""A whole move by waves, with everything real: see `wholemove`.

    WHOLE_MOVE_ROUNDS=N      how many rounds; each moves each wave to the other side, or tries to
    WHOLE_MOVE_SECONDS=N     after which no further round begins
    WHOLE_MOVE_SEED=N        repeats what chance decides
    WHOLE_MOVE_HARMS=A,B     what is done, of `_HARMS`, such as "nothing,driver flip"

In `make test` both waves go there, and the driver or a kproxy is killed in one of the two moves. It runs alone there.
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
from tests.harness.migration.switchdriver import SAYS
from tests.harness.migration.switched import BLUE, GREEN
from tests.soak.switchharm import Harm
from tests.soak.wholemove import CLICKS, ORDERS, WAVES, WholeMove

pytestmark = [
    needs_spark,
    pytest.mark.timeout(6 * 3600),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

_JOINED = 300
# A move that was harmed may be undone. On a busy machine, the work may not fit into a hold.
_TRIES = 5
_DRIVER = tuple(f"driver {stage}" for stage in SAYS if stage != "drain")  # there may be no open transaction
_KPROXY = tuple(f"kproxy {stage}" for stage in SAYS if stage not in ("preflight", "drain"))
_BROKER = tuple(f"broker {stage}" for stage in SAYS if stage != "drain")
_HARMS = ("nothing", "nothing", "answers", *_DRIVER, *_KPROXY, *_BROKER)


@pytest.mark.alone
def test_both_waves_go_there(tmp_path: Path, figures: list[str]) -> None:
    seed = int(os.environ.get("WHOLE_MOVE_SEED", Random().randrange(1 << 32)))
    with ExitStack() as held:
        move = Move(tmp_path, seed, held)
        site, moves = move.site, (ORDERS, CLICKS)
        harmed, harm = site.chance.randrange(len(moves)), site.chance.choice(_DRIVER + _KPROXY)
        figures.append(f"whole move: WHOLE_MOVE_SEED={seed}: {harm} in move {harmed + 1}")
        try:
            move.days_before()
            site.check_named("error", "switch", "--wave", CLICKS)
            for number, wave in enumerate(moves):
                move.to_the_other_side(wave, harm if number == harmed else "nothing")
            assert [site.active_of(wave) for wave in moves] == [GREEN, GREEN]
            move.evolve(GREEN)
            problems = site.judge()
        finally:
            figures += move.told()
    assert problems == [], f"seed {seed}: {problems[:30]}"


@pytest.mark.soak
def test_nothing_is_lost_by_waves_there_and_back(tmp_path: Path, figures: list[str]) -> None:
    seed = int(os.environ.get("WHOLE_MOVE_SEED", Random().randrange(1 << 32)))
    rounds = int(os.environ.get("WHOLE_MOVE_ROUNDS", "30"))
    until = time.monotonic() + float(os.environ.get("WHOLE_MOVE_SECONDS", "inf"))
    figures.append(f"whole move: WHOLE_MOVE_SEED={seed} WHOLE_MOVE_ROUNDS={rounds}")
    with ExitStack() as held:
        move = Move(tmp_path, seed, held)
        try:
            move.days_before()
            move.copy()
            for number in range(rounds):
                if time.monotonic() < until:
                    move.round(number)
            problems = move.site.judge()
        finally:
            figures += move.told()
    assert problems == [], f"seed {seed}: {problems[:30]}"


class Move:
    """The steps of a team, and what is done to them. `site` has all that is moved."""

    def __init__(self, directory: Path, seed: int, held: ExitStack) -> None:
        self.site = WholeMove(directory, Random(seed), held)
        self._harms = os.environ.get("WHOLE_MOVE_HARMS", ",".join(_HARMS)).split(",")
        self._left: list[str] = []
        self._rounds = 0

    def days_before(self) -> None:
        """Do what docs/migration.md asks for."""
        site = self.site
        site.wait_flowing()
        site.observe()
        site.check_named("warning", "plan", "--sample", "0s")
        site.command("prepare")
        site.command("schemas")

    def copy(self) -> None:
        """A switch would do that too, and takes longer then."""
        self.site.command("copy")
        self.site.command("verify")

    def evolve(self, side: str) -> None:
        """Clients register another schema, and it comes to the other side."""
        self.site.avro.evolve()
        self.site.command("schemas", *(["--reverse"] if side == GREEN else []))

    def round(self, number: int) -> None:
        """Each wave once, in any order."""
        site, waves = self.site, list(WAVES)
        site.chance.shuffle(waves)
        if site.active_of(CLICKS) == BLUE:
            site.observe()
            site.check_named("warning", "plan", "--sample", "0s")
        self.evolve(site.active_of(ORDERS))
        for wave in waves:
            if not self._left:
                self._left = list(self._harms)
                site.chance.shuffle(self._left)
            self.move(wave, self._left.pop(), f"round {number}")
        self._rounds += 1

    def to_the_other_side(self, wave: str, harm: str) -> None:
        """Until it is there; only the first attempt is harmed."""
        for number in range(_TRIES):
            if self.move(wave, "nothing" if number else harm, f"attempt {number + 1}") == "released":
                return
        raise AssertionError(f"wave {wave} is still on {self.site.active_of(wave)}")

    def move(self, wave: str, harm: str, name: str) -> str:
        """Try to lead a wave to the other side, and what came of it."""
        site = self.site
        what, _, stage = harm.partition(" ")
        where = stage or site.chance.choice(tuple(SAYS))
        site.say(f"{name}: wave {wave} from {site.active_of(wave)}: {what} at {where}")
        act = Harm(site).acts.get(what)
        threads: list[threading.Thread] = []

        def begin(begins: str) -> None:
            if begins == where and act is not None and not threads:
                threads.append(threading.Thread(target=act))
                threads[0].start()

        options = site.allowed if wave == CLICKS else ()
        came = site.switch(begin, where if what == "driver" else "", wave=wave, options=options)
        for thread in threads:
            thread.join(_JOINED)
            assert not thread.is_alive(), what
        site.counts[came] += 1
        site.absolve()
        site.say(f"{name}: wave {wave}: {came}, on {site.active_of(wave)}")
        return came

    def told(self) -> list[str]:
        """Figures for the reader."""
        site = self.site
        lines = [f"whole move: {self._rounds} rounds, {dict(sorted(site.counts.items()))}"]
        if site.seconds:
            held = f"{statistics.median(site.seconds):.1f} s (median), {max(site.seconds):.1f} s at most"
            lines.append(f"whole move: writes held {held}")
        if site.records:
            lines.append(f"whole move: {site.records} records judged")
        return lines
