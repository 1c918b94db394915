"""The driver's machine: what it says, and how it ends where kproxies do what they never should. What it does in every
order of events, `test_model` shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kproxy.proxy.switching.coordinator import begin, handle, next_actions
from kproxy.proxy.switching.participant import Command, CommandType, LastSwitch, ParticipantState, Phase, SwitchOutcome
from kproxy.proxy.switching.twophase import (
    AbortRequested,
    CoordinatorEvent,
    CoordinatorOutcome,
    CoordinatorState,
    JournalDecision,
    KnownPhase,
    ParticipantLost,
    ParticipantReply,
    RecordWritten,
    Stage,
    StageTimedOut,
    SwitchPlan,
    Work,
    WorkFinished,
    driver_id,
    driver_number,
)

PLAN = SwitchPlan("x", driver_id(1, "a"), ("k1", "k2"), "blue", "green", work=(Work.COPY, Work.VERIFY))
SERVING = ParticipantState("blue", count=4)
HOLDING = ParticipantState("blue", Phase.HOLDING, "x", PLAN.driver, "blue", "green", 1.0, 20.0, 5)
HELD = replace(HOLDING, phase=Phase.HELD)
FLIPPED = replace(HELD, phase=Phase.FLIPPED, active="green")
COMMITTED = replace(FLIPPED, phase=Phase.COMMITTED, deadline=None)
RELEASED = ParticipantState(
    "green", count=5, last=LastSwitch("x", "green", SwitchOutcome.RELEASED, "as it was told", 9.0, 8.0)
)
UNDONE = ParticipantState(
    "blue", count=5, last=LastSwitch("x", "green", SwitchOutcome.UNDONE, "its deadline passed", 9.0, 8.0)
)
OTHER = replace(HELD, switch="y")
TAKEN = replace(HELD, driver=driver_id(2, "b"))


def after(driver: CoordinatorState, *events: CoordinatorEvent) -> CoordinatorState:
    for event in events:
        driver = handle(driver, event)
    return driver


def both(state: ParticipantState, did: CommandType | None = None) -> tuple[ParticipantReply, ParticipantReply]:
    return ParticipantReply("k1", state, did), ParticipantReply("k2", state, did)


def forward(stage: Stage) -> CoordinatorState:
    """A driver in this stage."""
    events: dict[Stage, list[CoordinatorEvent]] = {
        Stage.HOLD: [*both(SERVING), RecordWritten(JournalDecision.BEGUN)],
        Stage.WORK: [*both(HELD)],
        Stage.FLIP: [WorkFinished(Work.COPY), WorkFinished(Work.VERIFY)],
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
    assert next_actions(driver).requests == {"k1": None, "k2": None}
    driver = after(driver, *both(SERVING))
    assert (next_actions(driver).journal, next_actions(driver).requests) == (JournalDecision.BEGUN, {})
    driver = after(driver, RecordWritten(JournalDecision.BEGUN), ParticipantReply("k1", HOLDING, CommandType.HOLD))
    hold = Command(CommandType.HOLD, "x", PLAN.driver, "green", 20.0, 4)
    assert next_actions(driver).requests == {"k1": None, "k2": hold}
    driver = after(driver, *both(HELD))
    assert (next_actions(driver).work, set(next_actions(driver).requests)) == (Work.COPY, {"k1", "k2"})
    driver = after(driver, WorkFinished(Work.VERIFY), WorkFinished(Work.COPY))
    assert next_actions(driver).work is Work.VERIFY
    driver = after(driver, WorkFinished(Work.VERIFY))
    assert next_actions(driver).requests["k1"] == Command(CommandType.FLIP, "x", PLAN.driver)
    driver = after(driver, *both(FLIPPED))
    assert next_actions(driver).requests["k2"] == Command(CommandType.COMMIT, "x", PLAN.driver)
    driver = after(driver, *both(COMMITTED))
    assert (next_actions(driver).journal, next_actions(driver).requests) == (JournalDecision.RELEASED, {})
    driver = after(
        driver,
        RecordWritten(JournalDecision.RELEASED),
        ParticipantReply("k1", RELEASED, CommandType.RELEASE),
        ParticipantLost("k2", "no route"),
    )
    assert next_actions(driver).requests == {"k2": Command(CommandType.RELEASE, "x", PLAN.driver)}
    driver = after(driver, ParticipantReply("k2", RELEASED, CommandType.RELEASE))
    assert (next_actions(driver).end, next_actions(driver).requests) == (CoordinatorOutcome.RELEASED, {})
    assert driver.why == ()


@pytest.mark.parametrize("stage", [Stage.HOLD, Stage.WORK, Stage.FLIP, Stage.COMMIT])
@pytest.mark.parametrize(
    ("event", "says"),
    [
        (ParticipantLost("k2", "timed out"), "k2 does not answer: timed out"),
        (ParticipantReply("k2", HELD, CommandType.FLIP, "1 write has no answer yet"), "k2: 1 write has no answer yet"),
        (ParticipantReply("k2", UNDONE), "k2 has undone the switch: its deadline passed"),
        (ParticipantReply("k2", OTHER), "k2 is in another switch (y)"),
        (StageTimedOut("3 s are over"), "3 s are over"),
        (StageTimedOut(), "took too long"),
        (AbortRequested("Ctrl-C"), "Ctrl-C"),
    ],
    ids=str,
)
def test_whatever_goes_wrong_before_all_have_committed_is_undone(
    stage: Stage, event: CoordinatorEvent, says: str
) -> None:
    driver = after(forward(stage), event)
    assert driver.stage is Stage.UNDO
    assert says in driver.why[-1]
    assert next_actions(driver).journal is None
    assert next_actions(driver).requests["k1"] == Command(CommandType.UNDO, "x", PLAN.driver)
    odd = isinstance(event, ParticipantReply) and event.state is OTHER
    driver = after(
        driver,
        ParticipantReply("k1", UNDONE, CommandType.UNDO),
        *([] if odd else [ParticipantReply("k2", SERVING, CommandType.UNDO)]),
    )
    assert driver.end is (CoordinatorOutcome.INCOMPLETE if odd else CoordinatorOutcome.UNDONE)


def test_work_that_fails_is_undone() -> None:
    driver = after(forward(Stage.WORK), WorkFinished(Work.COPY, "the source has gone"))
    assert (driver.stage, driver.why) == (Stage.UNDO, ("the source has gone",))


@pytest.mark.parametrize(
    "event",
    [
        ParticipantReply("k2", OTHER),
        ParticipantReply("k2", RELEASED),
        ParticipantLost("k2"),
        StageTimedOut(),
        AbortRequested(),
    ],
    ids=str,
)
def test_what_has_not_begun_ends_at_once(event: CoordinatorEvent) -> None:
    driver = after(begin(PLAN), ParticipantReply("k1", SERVING), event)
    assert (driver.end, next_actions(driver).requests) == (CoordinatorOutcome.UNDONE, {})
    assert driver.why


def test_after_the_decision_it_only_goes_forward() -> None:
    driver = after(
        forward(Stage.RELEASE),
        AbortRequested(),
        RecordWritten(JournalDecision.RELEASED),
        AbortRequested(),
        ParticipantLost("k1"),
    )
    assert driver.stage is Stage.RELEASE
    driver = after(
        driver,
        ParticipantReply("k1", UNDONE, CommandType.RELEASE, "it has ended here"),
        ParticipantReply("k2", RELEASED, CommandType.RELEASE),
    )
    assert (driver.end, driver.phases) == (CoordinatorOutcome.INCOMPLETE, (KnownPhase.ODD, KnownPhase.RELEASED))
    assert after(forward(Stage.RELEASE), StageTimedOut("the journal is not there")).end is CoordinatorOutcome.INCOMPLETE
    lost = after(
        forward(Stage.RELEASE),
        RecordWritten(JournalDecision.RELEASED),
        ParticipantLost("k1"),
        StageTimedOut("60 s are over"),
    )
    assert lost.why == ("60 s are over", "k1: lost", "k2: committed")


@pytest.mark.parametrize("stage", [Stage.HOLD, Stage.WORK, Stage.COMMIT])
def test_a_later_driver_is_left_alone(stage: Stage) -> None:
    driver = after(forward(stage), ParticipantReply("k1", TAKEN, CommandType.FLIP, "another driver has taken over"))
    assert (driver.end, next_actions(driver).requests) == (CoordinatorOutcome.TAKEN_OVER, {})


@pytest.mark.parametrize(
    ("states", "decided", "abort", "stage"),
    [
        ((COMMITTED, COMMITTED), JournalDecision.BEGUN, False, Stage.RELEASE),
        ((COMMITTED, COMMITTED), JournalDecision.BEGUN, True, Stage.UNDO),
        ((COMMITTED, COMMITTED), JournalDecision.RELEASED, True, Stage.RELEASE),
        ((COMMITTED, COMMITTED), JournalDecision.UNDONE, False, Stage.UNDO),
        ((COMMITTED, RELEASED), JournalDecision.BEGUN, True, Stage.RELEASE),
        ((COMMITTED, FLIPPED), JournalDecision.BEGUN, False, Stage.UNDO),
        ((COMMITTED, UNDONE), JournalDecision.BEGUN, False, Stage.UNDO),
        ((HELD, SERVING), JournalDecision.BEGUN, False, Stage.UNDO),
        ((COMMITTED, None), JournalDecision.BEGUN, True, Stage.ASK),
        ((COMMITTED, None), JournalDecision.RELEASED, False, Stage.RELEASE),
        ((COMMITTED, None), JournalDecision.UNDONE, False, Stage.UNDO),
        ((FLIPPED, None), JournalDecision.BEGUN, False, Stage.UNDO),
        ((COMMITTED, UNDONE), JournalDecision.RELEASED, False, Stage.ENDED),
    ],
)
def test_who_takes_over_decides(
    states: tuple[ParticipantState, ParticipantState | None], decided: JournalDecision, abort: bool, stage: Stage
) -> None:
    plan = replace(PLAN, driver=driver_id(2, "b"), takes_over=True, decided=decided, abort=abort)
    driver = begin(plan)
    assert next_actions(driver).requests == {
        name: Command(CommandType.CLAIM, "x", plan.driver) for name in plan.kproxies
    }
    assert after(driver, *both(COMMITTED)).stage is Stage.ASK, "an answer that claims nothing"
    for name, state in zip(plan.kproxies, states, strict=True):
        claimed = None if state is None else replace(state, driver=plan.driver) if state.holds else state
        driver = handle(
            driver, ParticipantLost(name) if claimed is None else ParticipantReply(name, claimed, CommandType.CLAIM)
        )
    assert driver.stage is stage
    if stage is Stage.ASK:
        assert handle(driver, StageTimedOut()).end is CoordinatorOutcome.INCOMPLETE
    elif stage is Stage.ENDED:
        assert driver.end is CoordinatorOutcome.INCOMPLETE
        assert "was its --state-dir lost" in driver.why[-1]
    else:
        assert next_actions(driver).journal is (
            JournalDecision.RELEASED if stage is Stage.RELEASE else JournalDecision.UNDONE
        )
        driver = handle(driver, RecordWritten(next_actions(driver).journal or JournalDecision.BEGUN))
        assert all(
            command is not None and command.force is (stage is Stage.UNDO)
            for command in next_actions(driver).requests.values()
        )


def test_who_is_asked_must_be_somebody_and_once() -> None:
    for wrong in ((), ("k1", "k1")):
        with pytest.raises(ValueError, match="each of them once"):
            begin(replace(PLAN, kproxies=wrong))


def test_the_later_driver_has_the_greater_text() -> None:
    assert driver_id(9, "ffff") < driver_id(10, "0000") < driver_id(999_999, "0")
    assert [driver_number(one) for one in (driver_id(12, "a-b"), "", "by hand", "٣-x")] == [12, 0, 0, 0]
