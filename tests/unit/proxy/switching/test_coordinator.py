"""The driver's machine: what it says, and how it ends where kproxies do what they never should. What it does in every
order of events, `test_model` shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kproxy.proxy.switching.twophase import (
    Abort,
    Answer,
    End,
    Event,
    Known,
    Late,
    Lost,
    Plan,
    Record,
    Stage,
    Whole,
    Work,
    Worked,
    Written,
    later,
    number_of,
)
from kproxy.proxy.switching.participant import Command, Do, Ended, Outcome, Phase, State
from kproxy.proxy.switching.coordinator import begin, step, wants

PLAN = Plan("x", later(1, "a"), ("k1", "k2"), "blue", "green", work=(Work.COPY, Work.VERIFY))
SERVING = State("blue", count=4)
HOLDING = State("blue", Phase.HOLDING, "x", PLAN.driver, "blue", "green", 1.0, 20.0, 5)
HELD = replace(HOLDING, phase=Phase.HELD)
FLIPPED = replace(HELD, phase=Phase.FLIPPED, active="green")
COMMITTED = replace(FLIPPED, phase=Phase.COMMITTED, deadline=None)
RELEASED = State("green", count=5, last=Ended("x", "green", Outcome.RELEASED, "as it was told", 9.0, 8.0))
UNDONE = State("blue", count=5, last=Ended("x", "green", Outcome.UNDONE, "its deadline passed", 9.0, 8.0))
OTHER = replace(HELD, switch="y")
TAKEN = replace(HELD, driver=later(2, "b"))


def after(driver: Whole, *events: Event) -> Whole:
    for event in events:
        driver = step(driver, event)
    return driver


def both(state: State, did: Do | None = None) -> tuple[Answer, Answer]:
    return Answer("k1", state, did), Answer("k2", state, did)


def forward(stage: Stage) -> Whole:
    """A driver in this stage."""
    events: dict[Stage, list[Event]] = {
        Stage.HOLD: [*both(SERVING), Written(Record.BEGUN)],
        Stage.WORK: [*both(HELD)],
        Stage.FLIP: [Worked(Work.COPY), Worked(Work.VERIFY)],
        Stage.COMMIT: [*both(FLIPPED)],
        Stage.RELEASE: [*both(COMMITTED)],
    }
    driver = begin(PLAN)
    for one, happens in events.items():
        driver = after(driver, *happens)
        assert driver.stage in (one, Stage.FLIP if one is Stage.FLIP else one)
        if one is stage:
            break
    return driver


def test_all_of_it() -> None:
    driver = begin(PLAN)
    assert wants(driver).requests == {"k1": None, "k2": None}
    driver = after(driver, *both(SERVING))
    assert (wants(driver).journal, wants(driver).requests) == (Record.BEGUN, {})
    driver = after(driver, Written(Record.BEGUN), Answer("k1", HOLDING, Do.HOLD))
    hold = Command(Do.HOLD, "x", PLAN.driver, "green", 20.0, 4)
    assert wants(driver).requests == {"k1": None, "k2": hold}
    driver = after(driver, *both(HELD))
    assert (wants(driver).work, set(wants(driver).requests)) == (Work.COPY, {"k1", "k2"})
    driver = after(driver, Worked(Work.VERIFY), Worked(Work.COPY))
    assert wants(driver).work is Work.VERIFY
    driver = after(driver, Worked(Work.VERIFY))
    assert wants(driver).requests["k1"] == Command(Do.FLIP, "x", PLAN.driver)
    driver = after(driver, *both(FLIPPED))
    assert wants(driver).requests["k2"] == Command(Do.COMMIT, "x", PLAN.driver)
    driver = after(driver, *both(COMMITTED))
    assert (wants(driver).journal, wants(driver).requests) == (Record.RELEASED, {})
    driver = after(driver, Written(Record.RELEASED), Answer("k1", RELEASED, Do.RELEASE), Lost("k2", "no route"))
    assert wants(driver).requests == {"k2": Command(Do.RELEASE, "x", PLAN.driver)}
    driver = after(driver, Answer("k2", RELEASED, Do.RELEASE))
    assert (wants(driver).end, wants(driver).requests) == (End.RELEASED, {})
    assert driver.why == ()


@pytest.mark.parametrize("stage", [Stage.HOLD, Stage.WORK, Stage.FLIP, Stage.COMMIT])
@pytest.mark.parametrize(
    ("event", "says"),
    [
        (Lost("k2", "timed out"), "k2 does not answer: timed out"),
        (Answer("k2", HELD, Do.FLIP, "1 write has no answer yet"), "k2: 1 write has no answer yet"),
        (Answer("k2", UNDONE), "k2 has gone back: its deadline passed"),
        (Answer("k2", OTHER), "k2 is in another switch (y)"),
        (Late("3 s are over"), "3 s are over"),
        (Late(), "took too long"),
        (Abort("Ctrl-C"), "Ctrl-C"),
    ],
    ids=str,
)
def test_whatever_goes_wrong_before_all_have_committed_is_undone(stage: Stage, event: Event, says: str) -> None:
    driver = after(forward(stage), event)
    assert driver.stage is Stage.UNDO
    assert says in driver.why[-1]
    assert wants(driver).journal is None
    assert wants(driver).requests["k1"] == Command(Do.UNDO, "x", PLAN.driver)
    odd = isinstance(event, Answer) and event.state is OTHER
    driver = after(driver, Answer("k1", UNDONE, Do.UNDO), *([] if odd else [Answer("k2", SERVING, Do.UNDO)]))
    assert driver.end is (End.INCOMPLETE if odd else End.UNDONE)


def test_work_that_fails_is_undone() -> None:
    driver = after(forward(Stage.WORK), Worked(Work.COPY, "the source has gone"))
    assert (driver.stage, driver.why) == (Stage.UNDO, ("the source has gone",))


@pytest.mark.parametrize("event", [Answer("k2", OTHER), Answer("k2", RELEASED), Lost("k2"), Late(), Abort()], ids=str)
def test_what_has_not_begun_ends_at_once(event: Event) -> None:
    driver = after(begin(PLAN), Answer("k1", SERVING), event)
    assert (driver.end, wants(driver).requests) == (End.UNDONE, {})
    assert driver.why


def test_after_the_decision_it_only_goes_forward() -> None:
    driver = after(forward(Stage.RELEASE), Abort(), Written(Record.RELEASED), Abort(), Lost("k1"))
    assert driver.stage is Stage.RELEASE
    driver = after(driver, Answer("k1", UNDONE, Do.RELEASE, "it has ended here"), Answer("k2", RELEASED, Do.RELEASE))
    assert (driver.end, driver.known) == (End.INCOMPLETE, (Known.ODD, Known.RELEASED))
    assert after(forward(Stage.RELEASE), Late("the journal is not there")).end is End.INCOMPLETE
    lost = after(forward(Stage.RELEASE), Written(Record.RELEASED), Lost("k1"), Late("60 s are over"))
    assert lost.why == ("60 s are over", "k1: lost", "k2: committed")


@pytest.mark.parametrize("stage", [Stage.HOLD, Stage.WORK, Stage.COMMIT])
def test_a_later_driver_is_left_alone(stage: Stage) -> None:
    driver = after(forward(stage), Answer("k1", TAKEN, Do.FLIP, "another driver has taken over"))
    assert (driver.end, wants(driver).requests) == (End.TAKEN_OVER, {})


@pytest.mark.parametrize(
    ("states", "decided", "abort", "stage"),
    [
        ((COMMITTED, COMMITTED), Record.BEGUN, False, Stage.RELEASE),
        ((COMMITTED, COMMITTED), Record.BEGUN, True, Stage.UNDO),
        ((COMMITTED, COMMITTED), Record.RELEASED, True, Stage.RELEASE),
        ((COMMITTED, COMMITTED), Record.UNDONE, False, Stage.UNDO),
        ((COMMITTED, RELEASED), Record.BEGUN, True, Stage.RELEASE),
        ((COMMITTED, FLIPPED), Record.BEGUN, False, Stage.UNDO),
        ((COMMITTED, UNDONE), Record.BEGUN, False, Stage.UNDO),
        ((HELD, SERVING), Record.BEGUN, False, Stage.UNDO),
        ((COMMITTED, None), Record.BEGUN, True, Stage.ASK),
        ((COMMITTED, None), Record.RELEASED, False, Stage.RELEASE),
        ((COMMITTED, None), Record.UNDONE, False, Stage.UNDO),
        ((FLIPPED, None), Record.BEGUN, False, Stage.UNDO),
        ((COMMITTED, UNDONE), Record.RELEASED, False, Stage.ENDED),
    ],
)
def test_who_takes_over_decides(states: tuple[State, State | None], decided: Record, abort: bool, stage: Stage) -> None:
    plan = replace(PLAN, driver=later(2, "b"), takes_over=True, decided=decided, abort=abort)
    driver = begin(plan)
    assert wants(driver).requests == {name: Command(Do.CLAIM, "x", plan.driver) for name in plan.kproxies}
    assert after(driver, *both(COMMITTED)).stage is Stage.ASK, "an answer that claims nothing"
    for name, state in zip(plan.kproxies, states, strict=True):
        claimed = None if state is None else replace(state, driver=plan.driver) if state.holds else state
        driver = step(driver, Lost(name) if claimed is None else Answer(name, claimed, Do.CLAIM))
    assert driver.stage is stage
    if stage is Stage.ASK:
        assert step(driver, Late()).end is End.INCOMPLETE
    elif stage is Stage.ENDED:
        assert driver.end is End.INCOMPLETE
        assert "was its --state-dir lost" in driver.why[-1]
    else:
        assert wants(driver).journal is (Record.RELEASED if stage is Stage.RELEASE else Record.UNDONE)
        driver = step(driver, Written(wants(driver).journal or Record.BEGUN))
        assert all(
            command is not None and command.force is (stage is Stage.UNDO)
            for command in wants(driver).requests.values()
        )


def test_who_is_asked_must_be_somebody_and_once() -> None:
    for wrong in ((), ("k1", "k1")):
        with pytest.raises(ValueError, match="each of them once"):
            begin(replace(PLAN, kproxies=wrong))


def test_the_later_driver_has_the_greater_text() -> None:
    assert later(9, "ffff") < later(10, "0000") < later(999_999, "0")
    assert [number_of(one) for one in (later(12, "a-b"), "", "by hand", "٣-x")] == [12, 0, 0, 0]
