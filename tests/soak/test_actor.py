"""What an actor does at the end, when something fails, and when it is late."""

from __future__ import annotations

import threading
from random import Random

from tests.harness.process import wait_until
from tests.soak.actor import Actor
from tests.soak.journal import Journal
from tests.soak.timetable import Event


class Puppet(Actor):
    name = "tester"
    gaps = (1.0, 2.0)

    def __init__(self) -> None:
        super().__init__(Journal())
        self.acts = {"note": self._note, "wait": self._wait, "fail": self._fail}
        self.drawn: list[float] = []
        self.began = threading.Event()
        self.undone = False

    def _note(self, chance: Random) -> str:
        self.drawn.append(chance.random())
        return "noted"

    def _wait(self, chance: Random) -> str:
        self.began.set()
        try:
            self.last(3600)
        finally:
            self.undone = True
        return "waited"

    def _fail(self, chance: Random) -> str:
        raise OSError("no way")


def test_events_follow_one_another_each_with_its_own_chance() -> None:
    tester = Puppet()
    with tester.playing([Event(0, "tester", "note", 5), Event(0.01, "tester", "note", 6)]):
        wait_until(lambda: tester.done == 2, "both are over")
    assert tester.drawn == [Random(5).random(), Random(6).random()]
    assert [line.split(None, 2)[2] for line in tester.journal.lines] == ["note begins", "note is over: noted"] * 2


def test_the_end_undoes_what_was_done_and_starts_nothing_else() -> None:
    tester = Puppet()
    with tester.playing([Event(0, "tester", "wait", 1), Event(0, "tester", "note", 2)]):
        assert tester.began.wait(30)
        assert not tester.undone
    assert tester.undone
    assert tester.drawn == []
    assert tester.problems == []


def test_what_fails_is_a_problem_and_the_last_thing() -> None:
    tester = Puppet()
    with tester.playing([Event(0, "tester", "fail", 1), Event(0, "tester", "note", 2)]):
        wait_until(lambda: tester.problems, "it has failed")
    assert tester.problems == ["tester, fail: OSError('no way')"]
    assert tester.drawn == []
