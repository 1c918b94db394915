"""One kproxy in a switch: which command does what in which phase."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy.switching.participant import (
    MAX_HOLD_SECONDS,
    Command,
    CommandType,
    Effect,
    ParticipantState,
    Phase,
    SwitchConditions,
    SwitchOutcome,
    apply,
    expire,
    restart,
    settle,
)

FACTS = SwitchConditions({"blue": "", "green": ""})
SERVING = ParticipantState("blue")
HOLDING = ParticipantState("blue", Phase.HOLDING, "x", "1", "blue", "green", 100.0, 120.0, 1)
HELD = replace(HOLDING, phase=Phase.HELD)
FLIPPED = replace(HELD, phase=Phase.FLIPPED, active="green")
COMMITTED = replace(FLIPPED, phase=Phase.COMMITTED, deadline=None)
RELEASED = apply(COMMITTED, Command(CommandType.RELEASE, "x", "1"), FACTS, 110.0).state
UNDONE = apply(HELD, Command(CommandType.UNDO, "x", "1"), FACTS, 110.0).state
HOLD = Command(CommandType.HOLD, "x", "1", "green", 20.0)


@pytest.mark.parametrize(
    ("before", "do", "after", "effects"),
    [
        (HOLDING, CommandType.HOLD, HOLDING, ()),
        (HELD, CommandType.HOLD, HELD, ()),
        (HELD, CommandType.FLIP, FLIPPED, (Effect.FLIP,)),
        (FLIPPED, CommandType.FLIP, FLIPPED, ()),
        (COMMITTED, CommandType.FLIP, COMMITTED, ()),
        (FLIPPED, CommandType.COMMIT, COMMITTED, ()),
        (COMMITTED, CommandType.COMMIT, COMMITTED, ()),
        (FLIPPED, CommandType.RELEASE, RELEASED, (Effect.RELEASE,)),
        (COMMITTED, CommandType.RELEASE, RELEASED, (Effect.RELEASE,)),
        (RELEASED, CommandType.RELEASE, RELEASED, ()),
        (RELEASED, CommandType.COMMIT, RELEASED, ()),
        (RELEASED, CommandType.FLIP, RELEASED, ()),
        (HELD, CommandType.UNDO, UNDONE, (Effect.RELEASE,)),
        (UNDONE, CommandType.UNDO, UNDONE, ()),
        (HELD, CommandType.CLAIM, HELD, ()),
        (RELEASED, CommandType.CLAIM, RELEASED, ()),
    ],
)
def test_a_command_is_obeyed(
    before: ParticipantState, do: CommandType, after: ParticipantState, effects: tuple[Effect, ...]
) -> None:
    step = apply(before, Command(do, "x", "1"), FACTS, 110.0)
    assert (step.state, step.effects, step.problem) == (after, effects, "")


def test_an_undo_after_a_flip_routes_back_before_the_release() -> None:
    step = apply(FLIPPED, Command(CommandType.UNDO, "x", "1"), FACTS, 110.0)
    assert step.effects == (Effect.FLIP, Effect.RELEASE)
    assert step.state.active == "blue"
    assert step.state.last is not None
    assert (step.state.last.outcome, step.state.last.held, step.state.last.flipped) == (
        SwitchOutcome.UNDONE,
        10.0,
        True,
    )
    forced = apply(COMMITTED, Command(CommandType.UNDO, "x", "1", force=True), FACTS, 110.0)
    assert (forced.state, forced.effects) == (step.state, step.effects)


@pytest.mark.parametrize(
    ("before", "command", "says"),
    [
        (SERVING, replace(HOLD, to="red"), "there is no upstream red"),
        (SERVING, replace(HOLD, to="blue"), "already the active"),
        (SERVING, replace(HOLD, seconds=0.5), "from 1 to 25"),
        (SERVING, replace(HOLD, seconds=25.5), "from 1 to 25"),
        (SERVING, replace(HOLD, after=1), "out of date"),
        (SERVING, Command(CommandType.FLIP, "x"), "no switch x"),
        (HOLDING, Command(CommandType.FLIP, "x", "1"), "not held yet"),
        (HOLDING, Command(CommandType.COMMIT, "x", "1"), "not flipped yet"),
        (HELD, Command(CommandType.RELEASE, "x", "1"), "not flipped yet"),
        (HELD, Command(CommandType.FLIP, "y", "1"), "switch x is under way"),
        (HELD, Command(CommandType.UNDO, "y", "1", force=True), "switch x is under way"),
        (HELD, Command(CommandType.FLIP, "x", "0"), "another driver (1) has taken over"),
        (COMMITTED, Command(CommandType.UNDO, "x", "1"), "has committed"),
        (RELEASED, Command(CommandType.UNDO, "x", "1", force=True), "has been released"),
        (RELEASED, HOLD, "has ended here (released)"),
        (UNDONE, HOLD, "has ended here (undone)"),
        (UNDONE, Command(CommandType.FLIP, "x", "1"), "has ended here (undone)"),
        (UNDONE, Command(CommandType.COMMIT, "x", "1"), "has ended here (undone)"),
        (UNDONE, Command(CommandType.RELEASE, "x", "1"), "has ended here (undone)"),
    ],
)
def test_a_command_is_refused(before: ParticipantState, command: Command, says: str) -> None:
    step = apply(before, command, FACTS, 110.0)
    assert (step.state, step.effects) == (before, ())
    assert says in step.problem
    assert "\n" not in step.problem


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (SwitchConditions(FACTS.upstreams, hold_refusal="kproxy is stopping"), "kproxy is stopping"),
        (SwitchConditions({"blue": "", "green": "green does not answer"}), "green does not answer"),
    ],
)
def test_a_hold_needs_more(facts: SwitchConditions, says: str) -> None:
    assert apply(SERVING, HOLD, facts, 100.0).problem == says


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (replace(FACTS, unanswered=1), "1 write has no answer yet"),
        (replace(FACTS, unanswered=2), "2 writes have no answer yet"),
        (replace(FACTS, doubts=("one",)), "one"),
        (replace(FACTS, doubts=("one", "two", "three")), "one, and 2 more"),
    ],
)
def test_nothing_flips_with_a_write_that_may_be_repeated(facts: SwitchConditions, says: str) -> None:
    assert settle(HOLDING, facts).state == HOLDING
    step = apply(HELD, Command(CommandType.FLIP, "x", "1"), facts, 110.0)
    assert (step.state, step.problem) == (HELD, says)


def test_an_upstream_that_is_gone_since_is_not_flipped_to() -> None:
    assert (
        apply(HELD, Command(CommandType.FLIP, "x", "1"), SwitchConditions({"blue": "", "green": "gone"}), 110.0).problem
        == "gone"
    )
    assert (
        apply(HELD, Command(CommandType.FLIP, "x", "1"), SwitchConditions({"blue": ""}), 110.0).problem
        == "upstream green no longer exists"
    )


def test_a_later_driver_is_obeyed_from_then_on() -> None:
    claimed = apply(HELD, Command(CommandType.CLAIM, "x", "2"), FACTS, 110.0).state
    assert claimed == replace(HELD, driver="2")
    assert "another driver (2)" in apply(claimed, Command(CommandType.FLIP, "x", "1"), FACTS, 110.0).problem


def test_a_hold_that_comes_after_its_undo_is_too_late() -> None:
    for do in (CommandType.UNDO, CommandType.CLAIM):
        forbidden = apply(SERVING, Command(do, "x", "1"), FACTS, 100.0)
        assert (forbidden.problem, forbidden.effects) == ("", ())
        assert "out of date" in apply(forbidden.state, replace(HOLD, after=0), FACTS, 100.0).problem


@pytest.mark.parametrize("before", [HOLDING, HELD, FLIPPED])
def test_the_deadline_undoes(before: ParticipantState) -> None:
    step = expire(before, 120.0)
    assert step.state.active == "blue"
    assert step.state.last is not None
    assert step.state.last.outcome is SwitchOutcome.UNDONE
    assert step == replace(restart(before, 120.0), effects=step.effects)
    assert restart(before, 119.0).state == before
    assert restart(before, 119.0).effects == (Effect.HOLD,)


def test_no_deadline_acts_on_what_has_committed_or_serves() -> None:
    for state in (COMMITTED, SERVING, RELEASED):
        assert expire(state, 1e9).state == restart(state, 1e9).state == state
    assert restart(COMMITTED, 1e9).effects == (Effect.HOLD,)
    assert restart(SERVING, 1e9).effects == ()


@given(now=st.floats(0, 200))
def test_a_clock_that_was_put_back_makes_no_hold_longer(now: float) -> None:
    deadline = restart(HELD, now).state.deadline
    assert deadline is None or deadline <= now + MAX_HOLD_SECONDS
