"""That a seed means the same run again."""

from __future__ import annotations

import pytest

from tests.soak.timetable import Rhythm, timetable

ACTORS = {"brokers": Rhythm(("kill", "pause", "move"), 2, 5), "roads": Rhythm(("swap", "reset"), 0.5, 1)}


def test_a_seed_says_all() -> None:
    events = timetable(7, 100, ACTORS)
    assert events == timetable(7, 100, ACTORS)
    assert events != timetable(8, 100, ACTORS)
    assert events == sorted(events, key=lambda event: event.at)
    assert events[0].at >= 0
    assert events[-1].at < 100
    assert len({event.seed for event in events}) == len(events)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short = timetable(7, 30, ACTORS)
    assert timetable(7, 300, ACTORS)[: len(short)] == short


def test_what_is_left_out_leaves_the_others_where_they_were() -> None:
    events = timetable(7, 100, ACTORS)
    assert {event.kind for event in events} == {"kill", "pause", "move", "swap", "reset"}
    rest = timetable(7, 100, ACTORS, without={"swap", "kill"})
    assert rest == [event for event in events if event.kind not in ("swap", "kill")]


def test_each_kind_comes_as_often_as_another() -> None:
    kinds = [event.kind for event in timetable(7, 100, ACTORS) if event.actor == "brokers"]
    for at in range(0, len(kinds) - 2, 3):
        assert set(kinds[at : at + 3]) == {"kill", "pause", "move"}


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="there is no swop to leave out; there are kill, move, pause, reset, swap"):
        timetable(7, 100, ACTORS, without={"swop"})
