"""The switch as a whole, in every order of events: what must never be does not come about, from wherever it stops there
is a way out, and each way to break the machines is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kproxy.proxy.switching import coordinator, participant
from kproxy.proxy.switching.participant import (
    Command,
    CommandType,
    ParticipantState,
    Phase,
    SwitchConditions,
    Transition,
)
from kproxy.proxy.switching.twophase import (
    CoordinatorEvent,
    CoordinatorState,
    JournalDecision,
    KnownPhase,
    NextActions,
    ParticipantLost,
    ParticipantReply,
    Stage,
    last_decision,
)
from tests.unit.proxy.switching.world import BLUE, Bounds, Machines, Model, World, explore, way_out


class WaysOut:
    """Tries the ways out of each situation once: where the kproxies are, and what the journal says."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.may_have_committed: set[object] = set()

    def __call__(self, world: World) -> None:
        situation = (frozenset(world.kproxies), world.journal, world.copied, world.dirty, world.moved)
        if not world.journal or situation in self.may_have_committed:
            return  # nothing has begun that anybody could take over
        self.may_have_committed.add(situation)
        for abort in (False, True):
            way_out(self._model, world, abort=abort)


@pytest.mark.parametrize(
    ("bounds", "worlds"),
    [
        (Bounds(kproxies=3, drivers=1, doubts=False), 20_000),
        (Bounds(kproxies=2, drivers=1), 6_000),
        (Bounds(kproxies=1, drivers=3), 1_000),
        pytest.param(Bounds(kproxies=2, drivers=2), 20_000, marks=pytest.mark.matrix),
        pytest.param(Bounds(kproxies=3, drivers=2, doubts=False, kills=False), 200_000, marks=pytest.mark.matrix),
        pytest.param(Bounds(kproxies=2, drivers=3, doubts=False, kills=False), 100_000, marks=pytest.mark.matrix),
        pytest.param(
            Bounds(kproxies=2, drivers=2, zombies=True, doubts=False, kills=False),
            400_000,
            marks=[pytest.mark.matrix, pytest.mark.timeout(3600)],
        ),
    ],
    ids=str,
)
def test_what_must_not_be_does_not_come_about(bounds: Bounds, worlds: int) -> None:
    model = Model(bounds=bounds)
    ways = WaysOut(model)
    explored = explore(model, ways)
    assert explored.found == "", explored.path
    assert explored.worlds > worlds
    assert len(ways.may_have_committed) > 10


class Wanderer(RuleBasedStateMachine):
    """One world after another, far beyond what can be gone through: three drivers at a time, answers that take long."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(bounds=Bounds(kproxies=3, drivers=3, zombies=True, late_answers=True))
        self.world = self.model.first()

    def _options(self) -> Sequence[World]:
        return [world for _, world in self.model.after(self.world)]

    @rule(choice=st.integers(0, 10_000))
    def anything(self, choice: int) -> None:
        options = self._options()
        self.world = options[choice % len(options)]

    @rule(many=st.integers(1, 40), choice=st.integers(0, 10_000))
    def what_a_driver_wants(self, many: int, choice: int) -> None:
        """Answers, the journal, the work: without some luck no driver gets far."""
        for _ in range(many):
            steps = list(self.model.after(self.world))
            wanted = [world for what, world in steps if what.endswith((", answered", "copy")) or "journal" in what]
            moving = [world for world in wanted if world != self.world]
            if not moving:
                break
            self.world = moving[choice % len(moving)]

    @precondition(lambda self: bool(self.world.journal))
    @rule(abort=st.booleans())
    def there_is_a_way_out(self, abort: bool) -> None:
        # A former driver may live on; it is not heard any more.
        way_out(self.model, self.world._replace(drivers=(), answers=frozenset(), quiet=False), abort=abort)


TestWanderer = Wanderer.TestCase
TestWanderer.settings = settings(stateful_step_count=60)


# Machines that are broken on purpose


def no_commit(driver: CoordinatorState, event: CoordinatorEvent) -> CoordinatorState:
    driver = coordinator.handle(driver, event)
    return replace(driver, stage=Stage.RELEASE) if driver.stage is Stage.COMMIT else driver


def forgets(kept: ParticipantState, now: float) -> Transition:
    return Transition(ParticipantState(BLUE))


def expires_though_committed(kproxy: ParticipantState, now: float) -> Transition:
    if kproxy.phase is Phase.COMMITTED:
        kproxy = replace(kproxy, deadline=0.0)
    return participant.expire(kproxy, now)


def holds_again(kproxy: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    if command.type is CommandType.HOLD and kproxy.last is not None:
        kproxy = replace(kproxy, last=None, count=0)
    return participant.apply(kproxy, command, facts, now)


def forbids_no_late_hold(kproxy: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    step = participant.apply(kproxy, command, facts, now)
    return replace(step, state=kproxy) if command.type is CommandType.UNDO and not kproxy.holds else step


def settles_too_early(kproxy: ParticipantState, facts: SwitchConditions) -> Transition:
    return participant.settle(kproxy, replace(facts, unanswered=0, doubts=()))


def obeys_former_drivers(kproxy: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    return participant.apply(replace(kproxy, driver="") if kproxy.holds else kproxy, command, facts, now)


def believes_that_the_lost_went_back(driver: CoordinatorState, event: CoordinatorEvent) -> CoordinatorState:
    driver = coordinator.handle(driver, event)
    if isinstance(event, ParticipantLost) and driver.stage is Stage.ASK and driver.plan.takes_over:
        known = tuple(KnownPhase.UNDONE if one is KnownPhase.LOST else one for one in driver.phases)
        return replace(driver, phases=known, stage=Stage.UNDO) if KnownPhase.UNKNOWN not in known else driver
    return driver


def copies_nothing(driver: CoordinatorState, event: CoordinatorEvent) -> CoordinatorState:
    driver = coordinator.handle(driver, event)
    return replace(driver, stage=Stage.FLIP) if driver.stage is Stage.WORK else driver


def asks_without_claiming(driver: CoordinatorState) -> NextActions:
    wants = coordinator.next_actions(driver)
    if driver.stage is not Stage.ASK:
        return wants
    return replace(wants, requests=dict.fromkeys(wants.requests))


def takes_an_answer_for_a_claim(driver: CoordinatorState, event: CoordinatorEvent) -> CoordinatorState:
    if (
        isinstance(event, ParticipantReply)
        and event.command_type is None
        and driver.stage is Stage.ASK
        and driver.plan.takes_over
    ):
        event = replace(event, command_type=CommandType.CLAIM)
    return coordinator.handle(driver, event)


def undoes_without_force(driver: CoordinatorState) -> NextActions:
    wants = coordinator.next_actions(driver)
    requests = {
        name: replace(command, force=False) if command is not None else None for name, command in wants.requests.items()
    }
    return replace(wants, requests=requests)


BOTH = "both upstreams take writes"
HOLDS = "a kproxy holds writes for a switch that was undone"
NO_WAY_OUT = "there is no way out"
INCOMPLETE = "does not have all of the old one's"


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (Machines(step=no_commit), BOTH),
        (Machines(restarted=forgets), HOLDS),
        (Machines(expired=expires_though_committed), BOTH),
        (Machines(obey=holds_again), HOLDS),
        (Machines(obey=forbids_no_late_hold), HOLDS),
        (Machines(settled=settles_too_early), INCOMPLETE),
        pytest.param(Machines(obey=obeys_former_drivers), BOTH, marks=pytest.mark.matrix),
        (Machines(step=believes_that_the_lost_went_back), "a driver says that it has gone back"),
        (Machines(step=copies_nothing), INCOMPLETE),
        pytest.param(
            Machines(wants=asks_without_claiming, step=takes_an_answer_for_a_claim), BOTH, marks=pytest.mark.matrix
        ),
        (Machines(wants=undoes_without_force), NO_WAY_OUT),
        (Machines(writes_first=False), INCOMPLETE),
    ],
    ids=[
        "release without a commit of all",
        "no state file",
        "a deadline ends what is committed",
        "a hold is taken twice",
        "a late hold is taken",
        "held with unanswered writes",
        "a former driver is obeyed",
        "who is lost counts as undone",
        "no last copy",
        "no claim",
        "undo without force",
        "effects before the file",
    ],
)
def test_a_broken_machine_is_found(broken: Machines, found: str) -> None:
    model = Model(broken, Bounds(kproxies=2, drivers=2, doubts=False))
    ways = WaysOut(model) if found == NO_WAY_OUT else lambda world: None
    explored = explore(model, ways, most=60_000)
    assert found in explored.found


def test_the_decision_of_the_last_driver_counts() -> None:
    records = [
        ("000002-b", JournalDecision.UNDONE),
        ("000003-c", JournalDecision.BEGUN),
        ("000001-a", JournalDecision.RELEASED),
    ]
    assert last_decision(records) is JournalDecision.UNDONE
    assert last_decision([("000001-a", JournalDecision.BEGUN)]) is JournalDecision.BEGUN
