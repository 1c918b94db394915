"""The state machine of one cluster of one kproxy during a switch: a participant of a two-phase commit. Pure.

    SERVING --hold--> HOLDING --settled--> HELD --flip--> FLIPPED --commit--> COMMITTED --release--> SERVING
    HOLDING, HELD, FLIPPED --undo, or the deadline--> SERVING, on the former upstream
    COMMITTED --undo with force--> the same

No write reaches the new upstream before each kproxy has committed, and a kproxy that has committed does not go back by
itself. So a kproxy that has not committed may always go back: no deadline, clock or lost message can make two upstreams
take writes.

Each function returns a transition: the next state and its effects. The process must write the state to disk before it
executes the effects. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kproxy.base.messages.switches import (
    DRIVER_REPLACED,
    HOLD_OUT_OF_DATE,
    NO_ANSWER_YET,
    NO_SWITCH_UNDER_WAY,
    SWITCH_COMMITTED,
    SWITCH_HAS_ENDED,
    SWITCH_RELEASED,
    SWITCH_UNDER_WAY,
)

MAX_HOLD_SECONDS = 25
"""Clients give up a request after 30 s (`request.timeout.ms`)."""


_BY_COMMAND = "by command of the driver"


class Phase(StrEnum):
    """The phases of a participant."""

    SERVING = "serving"
    HOLDING = "holding"
    """New writes wait; some earlier writes have no response yet."""
    HELD = "held"
    """New writes wait; no write is without a response."""
    FLIPPED = "flipped"
    """Sessions use the other upstream; their writes wait."""
    COMMITTED = "committed"
    """Sessions use the other upstream, their writes wait, and only the driver can end this."""


class CommandType(StrEnum):
    """The commands of a driver."""

    HOLD = "hold"
    FLIP = "flip"
    COMMIT = "commit"
    RELEASE = "release"
    UNDO = "undo"
    CLAIM = "claim"
    """From now on, accept commands of this switch only from this driver, or from a later one."""


class SwitchOutcome(StrEnum):
    """The outcome of a switch in one kproxy."""

    RELEASED = "released"
    UNDONE = "undone"


class Effect(StrEnum):
    """The effects of a transition, which the process executes in this order."""

    HOLD = "hold"
    FLIP = "flip"
    """Route clients to the state's active upstream, and cut all connections in the same step."""
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a driver."""

    type: CommandType
    switch: str
    driver: str = ""
    """The id of the driver: of two drivers of one switch, the later one has the greater text."""
    to: str = ""
    """For HOLD: the upstream to switch to."""
    seconds: float = 0.0
    """For HOLD: how long writes may wait at most."""
    after: int | None = None
    """For HOLD: the state's count as the driver saw it, so that a hold is refused that arrives late, after another hold
    was undone or forbidden. None: any count."""
    force: bool = False
    """For UNDO: undo even if committed."""


@dataclass(frozen=True, slots=True)
class LastSwitch:
    """The last switch that has ended in this kproxy."""

    switch: str
    to: str
    outcome: SwitchOutcome
    why: str = ""
    at: float = 0.0
    """When it ended."""
    held: float = 0.0
    """For how many seconds writes were held."""
    flipped: bool = True
    """Sessions were routed to the other upstream, perhaps for a while only."""


@dataclass(frozen=True, slots=True)
class ParticipantState:
    """The state of one cluster. In phase SERVING, only `active`, `count` and `last` have a meaning."""

    active: str
    phase: Phase = Phase.SERVING
    switch: str = ""
    driver: str = ""
    former: str = ""
    """The upstream to which an undo routes clients."""
    to: str = ""
    since: float = 0.0
    """When the hold began."""
    deadline: float | None = None
    count: int = 0
    """The number of holds that were taken or forbidden; it only grows."""
    last: LastSwitch | None = None

    @property
    def holds(self) -> bool:
        """True while the cluster is in a switch, and holds writes."""
        return self.phase is not Phase.SERVING


@dataclass(frozen=True, slots=True)
class SwitchConditions:
    """The conditions for a hold and a flip, as the process knows them now."""

    upstreams: Mapping[str, str] = field(default_factory=dict)
    """By name: why sessions cannot be routed to this upstream, or ""."""
    hold_refusal: str = ""
    """Why the process accepts no hold, or ""."""
    unanswered: int = 0
    """Writes that were sent upstream and have no response."""
    doubts: Sequence[str] = ()
    """Clients that may repeat a write that the broker has, a line each."""

    @property
    def flip_refusal(self) -> str:
        """Why it is not safe to flip, or ""."""
        if self.unanswered:
            return NO_ANSWER_YET(writes="1 write has" if self.unanswered == 1 else f"{self.unanswered} writes have")
        if self.doubts:
            more = f", and {len(self.doubts) - 1} more" if len(self.doubts) > 1 else ""
            return f"{self.doubts[0]}{more}"
        return ""


@dataclass(frozen=True, slots=True)
class Transition:
    """The result of an event: the next state, its effects, or the problem that keeps the state as it is."""

    state: ParticipantState
    effects: tuple[Effect, ...] = ()
    problem: str = ""


def apply(state: ParticipantState, command: Command, conditions: SwitchConditions, now: float) -> Transition:
    """Return the transition for a command.

    A command that is already executed is no problem: a driver repeats requests that have no reply.
    """
    if not state.holds:
        return _while_serving(state, command, conditions, now)
    if command.switch != state.switch:
        return _refused(state, SWITCH_UNDER_WAY(switch=state.switch, phase=state.phase))
    if command.driver < state.driver:
        return _refused(state, DRIVER_REPLACED(driver=state.driver, switch=state.switch))
    state = replace(state, driver=command.driver)
    return _COMMANDS[command.type](state, command, conditions, now)


def settle(state: ParticipantState, conditions: SwitchConditions) -> Transition:
    """Return the transition when the process believes that no write is without a response."""
    if state.phase is not Phase.HOLDING or conditions.flip_refusal:
        return Transition(state)
    return Transition(replace(state, phase=Phase.HELD))


def expire(state: ParticipantState, now: float) -> Transition:
    """Return the transition when the deadline, if the state has one, has passed."""
    if state.deadline is None:
        return Transition(state)
    return _back(state, f"its deadline passed while it was {state.phase}", now)


def restart(state: ParticipantState, now: float) -> Transition:
    """Return the transition when a process starts with the state that another one left.

    A clock that was put back must not make a hold long.
    """
    deadline = state.deadline
    if deadline is not None and deadline <= now:
        state = expire(state, now).state
    elif deadline is not None:
        state = replace(state, deadline=min(deadline, now + MAX_HOLD_SECONDS))
    return Transition(state, (Effect.HOLD,) if state.holds else ())


def _while_serving(state: ParticipantState, command: Command, conditions: SwitchConditions, now: float) -> Transition:
    last = state.last
    if last is not None and last.switch == command.switch:
        return _after_its_end(state, last, command)
    match command.type:
        case CommandType.HOLD:
            return _hold(state, command, conditions, now)
        case CommandType.UNDO | CommandType.CLAIM:
            # A hold of this switch may still be in flight: the count makes sure that it is refused.
            return Transition(replace(state, count=state.count + 1))
        case _:
            return _refused(state, NO_SWITCH_UNDER_WAY(switch=command.switch))


def _after_its_end(state: ParticipantState, last: LastSwitch, command: Command) -> Transition:
    match (command.type, last.outcome):
        case (CommandType.CLAIM, _) | (CommandType.UNDO, SwitchOutcome.UNDONE):
            return Transition(state)
        case (CommandType.FLIP | CommandType.COMMIT | CommandType.RELEASE, SwitchOutcome.RELEASED):
            return Transition(state)
        case (CommandType.UNDO, SwitchOutcome.RELEASED):
            return _refused(state, SWITCH_RELEASED(switch=last.switch, to=last.to))
        case _:
            return _refused(state, SWITCH_HAS_ENDED(switch=last.switch, outcome=last.outcome, why=last.why))


def _hold(state: ParticipantState, command: Command, conditions: SwitchConditions, now: float) -> Transition:
    problem = _why_no_hold(state, command, conditions)
    if problem:
        return _refused(state, problem)
    return Transition(
        replace(
            state,
            phase=Phase.HOLDING,
            switch=command.switch,
            driver=command.driver,
            former=state.active,
            to=command.to,
            since=now,
            deadline=now + command.seconds,
            count=state.count + 1,
        ),
        (Effect.HOLD,),
    )


def _why_no_hold(state: ParticipantState, command: Command, conditions: SwitchConditions) -> str:
    if conditions.hold_refusal:
        return conditions.hold_refusal
    if command.after is not None and command.after != state.count:
        return HOLD_OUT_OF_DATE(after=command.after, count=state.count)
    if command.to not in conditions.upstreams:
        return f"there is no upstream {command.to}; there are {', '.join(conditions.upstreams) or 'none'}"
    if command.to == state.active:
        return f"{command.to} is already the active upstream"
    if not 1 <= command.seconds <= MAX_HOLD_SECONDS:
        return f"a hold may last from 1 to {MAX_HOLD_SECONDS} seconds"
    return conditions.upstreams[command.to]


def _again(state: ParticipantState, command: Command, conditions: SwitchConditions, now: float) -> Transition:
    """Return the state as it is: the command was executed already."""
    return Transition(state)


def _flip(state: ParticipantState, command: Command, conditions: SwitchConditions, now: float) -> Transition:
    if state.phase in (Phase.FLIPPED, Phase.COMMITTED):
        return Transition(state)
    problem = conditions.flip_refusal or conditions.upstreams.get(state.to, f"upstream {state.to} no longer exists")
    if state.phase is Phase.HOLDING or problem:
        return _refused(state, problem or "it is not held yet")
    return Transition(replace(state, phase=Phase.FLIPPED, active=state.to), (Effect.FLIP,))


def _commit(state: ParticipantState, command: Command, conditions: SwitchConditions, now: float) -> Transition:
    if state.phase is Phase.COMMITTED:
        return Transition(state)
    if state.phase is not Phase.FLIPPED:
        return _refused(state, f"it has not flipped yet ({state.phase})")
    return Transition(replace(state, phase=Phase.COMMITTED, deadline=None))


def _release(state: ParticipantState, command: Command, conditions: SwitchConditions, now: float) -> Transition:
    if state.phase not in (Phase.FLIPPED, Phase.COMMITTED):
        return _refused(state, f"it has not flipped yet ({state.phase})")
    after = _ended(state, state.active, SwitchOutcome.RELEASED, _BY_COMMAND, now)
    return Transition(after, (Effect.RELEASE,))


def _undo(state: ParticipantState, command: Command, conditions: SwitchConditions, now: float) -> Transition:
    if state.phase is Phase.COMMITTED and not command.force:
        text = SWITCH_COMMITTED()
        return _refused(state, text)
    return _back(state, _BY_COMMAND, now)


def _back(state: ParticipantState, why: str, now: float) -> Transition:
    flipped = state.active != state.former
    after = _ended(state, state.former, SwitchOutcome.UNDONE, why, now)
    return Transition(after, (Effect.FLIP, Effect.RELEASE) if flipped else (Effect.RELEASE,))


def _ended(state: ParticipantState, active: str, outcome: SwitchOutcome, why: str, now: float) -> ParticipantState:
    flipped = state.active != state.former
    last = LastSwitch(state.switch, state.to, outcome, why, now, max(0.0, now - state.since), flipped)
    return ParticipantState(active, count=state.count, last=last)


def _refused(state: ParticipantState, problem: str) -> Transition:
    return Transition(state, (), problem)


_COMMANDS = {
    CommandType.HOLD: _again,
    CommandType.CLAIM: _again,
    CommandType.FLIP: _flip,
    CommandType.COMMIT: _commit,
    CommandType.RELEASE: _release,
    CommandType.UNDO: _undo,
}
