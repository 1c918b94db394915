"""One kproxy in a switch: which command does what in which phase."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy.switching.participant import (
    MOST_SECONDS,
    Command,
    Do,
    Effect,
    Facts,
    Outcome,
    Phase,
    State,
    expired,
    obey,
    restarted,
    settled,
)

FACTS = Facts({"blue": "", "green": ""})
SERVING = State("blue")
HOLDING = State("blue", Phase.HOLDING, "x", "1", "blue", "green", 100.0, 120.0, 1)
HELD = replace(HOLDING, phase=Phase.HELD)
FLIPPED = replace(HELD, phase=Phase.FLIPPED, active="green")
COMMITTED = replace(FLIPPED, phase=Phase.COMMITTED, deadline=None)
RELEASED = obey(COMMITTED, Command(Do.RELEASE, "x", "1"), FACTS, 110.0).state
UNDONE = obey(HELD, Command(Do.UNDO, "x", "1"), FACTS, 110.0).state
HOLD = Command(Do.HOLD, "x", "1", "green", 20.0)


@pytest.mark.parametrize(
    ("before", "do", "after", "effects"),
    [
        (HOLDING, Do.HOLD, HOLDING, ()),
        (HELD, Do.HOLD, HELD, ()),
        (HELD, Do.FLIP, FLIPPED, (Effect.FLIP,)),
        (FLIPPED, Do.FLIP, FLIPPED, ()),
        (COMMITTED, Do.FLIP, COMMITTED, ()),
        (FLIPPED, Do.COMMIT, COMMITTED, ()),
        (COMMITTED, Do.COMMIT, COMMITTED, ()),
        (FLIPPED, Do.RELEASE, RELEASED, (Effect.RELEASE,)),
        (COMMITTED, Do.RELEASE, RELEASED, (Effect.RELEASE,)),
        (RELEASED, Do.RELEASE, RELEASED, ()),
        (RELEASED, Do.COMMIT, RELEASED, ()),
        (RELEASED, Do.FLIP, RELEASED, ()),
        (HELD, Do.UNDO, UNDONE, (Effect.RELEASE,)),
        (UNDONE, Do.UNDO, UNDONE, ()),
        (HELD, Do.CLAIM, HELD, ()),
        (RELEASED, Do.CLAIM, RELEASED, ()),
    ],
)
def test_a_command_is_obeyed(before: State, do: Do, after: State, effects: tuple[Effect, ...]) -> None:
    step = obey(before, Command(do, "x", "1"), FACTS, 110.0)
    assert (step.state, step.effects, step.problem) == (after, effects, "")


def test_what_is_undone_after_a_flip_is_led_back_before_it_is_released() -> None:
    step = obey(FLIPPED, Command(Do.UNDO, "x", "1"), FACTS, 110.0)
    assert step.effects == (Effect.FLIP, Effect.RELEASE)
    assert step.state.active == "blue"
    assert step.state.last is not None
    assert (step.state.last.outcome, step.state.last.held, step.state.last.flipped) == (Outcome.UNDONE, 10.0, True)
    forced = obey(COMMITTED, Command(Do.UNDO, "x", "1", force=True), FACTS, 110.0)
    assert (forced.state, forced.effects) == (step.state, step.effects)


@pytest.mark.parametrize(
    ("before", "command", "says"),
    [
        (SERVING, replace(HOLD, to="red"), "there is no upstream red"),
        (SERVING, replace(HOLD, to="blue"), "already the active"),
        (SERVING, replace(HOLD, seconds=0.5), "from 1 to 25"),
        (SERVING, replace(HOLD, seconds=25.5), "from 1 to 25"),
        (SERVING, replace(HOLD, after=1), "out of date"),
        (SERVING, Command(Do.FLIP, "x"), "no switch x"),
        (HOLDING, Command(Do.FLIP, "x", "1"), "not held yet"),
        (HOLDING, Command(Do.COMMIT, "x", "1"), "not flipped yet"),
        (HELD, Command(Do.RELEASE, "x", "1"), "not flipped yet"),
        (HELD, Command(Do.FLIP, "y", "1"), "switch x is under way"),
        (HELD, Command(Do.UNDO, "y", "1", force=True), "switch x is under way"),
        (HELD, Command(Do.FLIP, "x", "0"), "another driver (1) has taken over"),
        (COMMITTED, Command(Do.UNDO, "x", "1"), "has committed"),
        (RELEASED, Command(Do.UNDO, "x", "1", force=True), "has been released"),
        (RELEASED, HOLD, "has ended here (released)"),
        (UNDONE, HOLD, "has ended here (undone)"),
        (UNDONE, Command(Do.FLIP, "x", "1"), "has ended here (undone)"),
        (UNDONE, Command(Do.COMMIT, "x", "1"), "has ended here (undone)"),
        (UNDONE, Command(Do.RELEASE, "x", "1"), "has ended here (undone)"),
    ],
)
def test_a_command_is_refused(before: State, command: Command, says: str) -> None:
    step = obey(before, command, FACTS, 110.0)
    assert (step.state, step.effects) == (before, ())
    assert says in step.problem
    assert "\n" not in step.problem


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (Facts(FACTS.upstreams, refuses="kproxy is stopping"), "kproxy is stopping"),
        (Facts({"blue": "", "green": "green does not answer"}), "green does not answer"),
    ],
)
def test_a_hold_needs_more(facts: Facts, says: str) -> None:
    assert obey(SERVING, HOLD, facts, 100.0).problem == says


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (replace(FACTS, unanswered=1), "1 write has no answer yet"),
        (replace(FACTS, unanswered=2), "2 writes have no answer yet"),
        (replace(FACTS, doubts=("one",)), "one"),
        (replace(FACTS, doubts=("one", "two", "three")), "one, and 2 more"),
    ],
)
def test_nothing_flips_with_a_write_that_may_be_repeated(facts: Facts, says: str) -> None:
    assert settled(HOLDING, facts).state == HOLDING
    step = obey(HELD, Command(Do.FLIP, "x", "1"), facts, 110.0)
    assert (step.state, step.problem) == (HELD, says)


def test_an_upstream_that_is_gone_since_is_not_flipped_to() -> None:
    assert obey(HELD, Command(Do.FLIP, "x", "1"), Facts({"blue": "", "green": "gone"}), 110.0).problem == "gone"
    assert (
        obey(HELD, Command(Do.FLIP, "x", "1"), Facts({"blue": ""}), 110.0).problem
        == "there is no upstream green any more"
    )


def test_a_later_driver_is_obeyed_from_then_on() -> None:
    claimed = obey(HELD, Command(Do.CLAIM, "x", "2"), FACTS, 110.0).state
    assert claimed == replace(HELD, driver="2")
    assert "another driver (2)" in obey(claimed, Command(Do.FLIP, "x", "1"), FACTS, 110.0).problem


def test_a_hold_that_comes_after_its_undo_is_too_late() -> None:
    for do in (Do.UNDO, Do.CLAIM):
        forbidden = obey(SERVING, Command(do, "x", "1"), FACTS, 100.0)
        assert (forbidden.problem, forbidden.effects) == ("", ())
        assert "out of date" in obey(forbidden.state, replace(HOLD, after=0), FACTS, 100.0).problem


@pytest.mark.parametrize("before", [HOLDING, HELD, FLIPPED])
def test_the_deadline_undoes(before: State) -> None:
    step = expired(before, 120.0)
    assert step.state.active == "blue"
    assert step.state.last is not None
    assert step.state.last.outcome is Outcome.UNDONE
    assert step == replace(restarted(before, 120.0), effects=step.effects)
    assert restarted(before, 119.0).state == before
    assert restarted(before, 119.0).effects == (Effect.HOLD,)


def test_no_deadline_acts_on_what_has_committed_or_serves() -> None:
    for state in (COMMITTED, SERVING, RELEASED):
        assert expired(state, 1e9).state == restarted(state, 1e9).state == state
    assert restarted(COMMITTED, 1e9).effects == (Effect.HOLD,)
    assert restarted(SERVING, 1e9).effects == ()


@given(now=st.floats(0, 200))
def test_a_clock_that_was_put_back_makes_no_hold_longer(now: float) -> None:
    deadline = restarted(HELD, now).state.deadline
    assert deadline is None or deadline <= now + MOST_SECONDS
