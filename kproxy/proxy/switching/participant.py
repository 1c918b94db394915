"""One cluster of one kproxy during a switch: a state machine. Pure.

    SERVING --hold--> HOLDING --settled--> HELD --flip--> FLIPPED --commit--> COMMITTED --release--> SERVING
    HOLDING, HELD, FLIPPED --undo, or the deadline--> SERVING, on the upstream from before
    COMMITTED --undo with force--> likewise

Nobody's writes reach the new upstream before each kproxy has committed, and one that has committed does not go back by
itself. So a kproxy that has not committed may always go back: no deadline, clock or lost message can make two upstreams
take writes.

Each step returns the next state and what to do for it. The process must write the state down before it does it.
Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

MAX_HOLD_SECONDS = 25
"""Clients give a request up after 30 s (`request.timeout.ms`)."""


class Phase(StrEnum):
    """HOLDING: writes wait, but some from before have no answer yet. HELD: none. FLIPPED: sessions reach the other
    upstream, their writes wait. COMMITTED: the same, and only its driver can end that."""

    SERVING = "serving"
    HOLDING = "holding"
    HELD = "held"
    FLIPPED = "flipped"
    COMMITTED = "committed"


class CommandType(StrEnum):
    """CLAIM: from now on only this driver, or a later one, is obeyed for this switch."""

    HOLD = "hold"
    FLIP = "flip"
    COMMIT = "commit"
    RELEASE = "release"
    UNDO = "undo"
    CLAIM = "claim"


class SwitchOutcome(StrEnum):
    RELEASED = "released"
    UNDONE = "undone"


class Effect(StrEnum):
    """What the process does, in this order. FLIP: lead to the state's active upstream, and cut all connections in the
    same step."""

    HOLD = "hold"
    FLIP = "flip"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody asks for. `driver` orders those who drive one switch: the later one has the greater text.

    For HOLD: `to`, for how many `seconds` at most, and `after`, the state's count as the driver saw it: a hold that
    arrives late, when another one was undone or forbidden in between, is refused. None: whatever it is.
    `force`, for UNDO: also if committed.
    """

    do: CommandType
    switch: str
    driver: str = ""
    to: str = ""
    seconds: float = 0.0
    after: int | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class LastSwitch:
    """The last switch here that ended, why, at what time, and for how many seconds writes were held. `flipped`:
    sessions were led to the other upstream, perhaps for a while only."""

    switch: str
    to: str
    outcome: SwitchOutcome
    why: str
    at: float
    held: float
    flipped: bool = True


@dataclass(frozen=True, slots=True)
class ParticipantState:
    """Of one cluster. While it serves, only `active`, `count` and `last` say something.

    `former`: the upstream that undoing leads back to. `since`: when the hold began. `count`: how many holds were taken
    or forbidden; it only grows.
    """

    active: str
    phase: Phase = Phase.SERVING
    switch: str = ""
    driver: str = ""
    former: str = ""
    to: str = ""
    since: float = 0.0
    deadline: float | None = None
    count: int = 0
    last: LastSwitch | None = None

    @property
    def holds(self) -> bool:
        return self.phase is not Phase.SERVING


@dataclass(frozen=True, slots=True)
class SwitchConditions:
    """What the process knows as of now.

    `upstreams`: by name, why sessions cannot be led there, or "". `refuses`: why it takes no hold, or "".
    `unanswered`: writes that were sent on and have no answer. `doubts`: clients that may repeat a write that the broker
    has, a line each.
    """

    upstreams: Mapping[str, str] = field(default_factory=dict)
    refuses: str = ""
    unanswered: int = 0
    doubts: Sequence[str] = ()

    @property
    def unsettled(self) -> str:
        """Why it is not safe to flip, or ""."""
        if self.unanswered:
            return f"{self.unanswered} {'write has' if self.unanswered == 1 else 'writes have'} no answer yet"
        if self.doubts:
            more = f", and {len(self.doubts) - 1} more" if len(self.doubts) > 1 else ""
            return f"{self.doubts[0]}{more}"
        return ""


@dataclass(frozen=True, slots=True)
class Transition:
    """What comes of an event: the next state, what to do when it is written down, or the reason why nothing changes."""

    state: ParticipantState
    effects: tuple[Effect, ...] = ()
    problem: str = ""


def apply(state: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    """A command. What is already so is no problem: a driver repeats what it has had no answer to."""
    if not state.holds:
        return _while_serving(state, command, facts, now)
    if command.switch != state.switch:
        return _refused(state, f"switch {state.switch} is under way ({state.phase}); finish it or undo it first")
    if command.driver < state.driver:
        return _refused(state, f"another driver ({state.driver}) has taken over switch {state.switch}")
    state = replace(state, driver=command.driver)
    return _COMMANDS[command.do](state, command, facts, now)


def settle(state: ParticipantState, facts: SwitchConditions) -> Transition:
    """The process believes that no write is unanswered now."""
    if state.phase is not Phase.HOLDING or facts.unsettled:
        return Transition(state)
    return Transition(replace(state, phase=Phase.HELD))


def expire(state: ParticipantState, now: float) -> Transition:
    """The deadline, if there is one, is over."""
    if state.deadline is None:
        return Transition(state)
    return _back(state, f"its deadline passed while it was {state.phase}", now)


def restart(state: ParticipantState, now: float) -> Transition:
    """A process begins with this state, which another left. A clock that was put back must not make a hold long."""
    deadline = state.deadline
    if deadline is not None and deadline <= now:
        state = expire(state, now).state
    elif deadline is not None:
        state = replace(state, deadline=min(deadline, now + MAX_HOLD_SECONDS))
    return Transition(state, (Effect.HOLD,) if state.holds else ())


def _while_serving(state: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    last = state.last
    if last is not None and last.switch == command.switch:
        return _after_its_end(state, last, command)
    match command.do:
        case CommandType.HOLD:
            return _hold(state, command, facts, now)
        case CommandType.UNDO | CommandType.CLAIM:
            # Its hold may still be on the way: the count makes sure that it comes too late.
            return Transition(replace(state, count=state.count + 1))
        case _:
            return _refused(state, f"there is no switch {command.switch} under way here")


def _after_its_end(state: ParticipantState, last: LastSwitch, command: Command) -> Transition:
    match (command.do, last.outcome):
        case (CommandType.CLAIM, _) | (CommandType.UNDO, SwitchOutcome.UNDONE):
            return Transition(state)
        case (CommandType.FLIP | CommandType.COMMIT | CommandType.RELEASE, SwitchOutcome.RELEASED):
            return Transition(state)
        case (CommandType.UNDO, SwitchOutcome.RELEASED):
            return _refused(state, f"switch {last.switch} has been released: clients write to {last.to}")
        case _:
            return _refused(state, f"switch {last.switch} has ended here ({last.outcome}): {last.why}")


def _hold(state: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    problem = _why_no_hold(state, command, facts)
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


def _why_no_hold(state: ParticipantState, command: Command, facts: SwitchConditions) -> str:
    if facts.refuses:
        return facts.refuses
    if command.after is not None and command.after != state.count:
        return f"this hold is out of date (after {command.after}, now {state.count}): look at the state again"
    if command.to not in facts.upstreams:
        return f"there is no upstream {command.to}; there are {', '.join(facts.upstreams) or 'none'}"
    if command.to == state.active:
        return f"{command.to} is already the active upstream"
    if not 1 <= command.seconds <= MAX_HOLD_SECONDS:
        return f"a hold may last from 1 to {MAX_HOLD_SECONDS} seconds"
    return facts.upstreams[command.to]


def _again(state: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    """What this command asks for is so, or was and more has happened since."""
    return Transition(state)


def _flip(state: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    if state.phase in (Phase.FLIPPED, Phase.COMMITTED):
        return Transition(state)
    problem = facts.unsettled or facts.upstreams.get(state.to, f"there is no upstream {state.to} any more")
    if state.phase is Phase.HOLDING or problem:
        return _refused(state, problem or "it is not held yet")
    return Transition(replace(state, phase=Phase.FLIPPED, active=state.to), (Effect.FLIP,))


def _commit(state: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    if state.phase is Phase.COMMITTED:
        return Transition(state)
    if state.phase is not Phase.FLIPPED:
        return _refused(state, f"it has not flipped yet ({state.phase})")
    return Transition(replace(state, phase=Phase.COMMITTED, deadline=None))


def _release(state: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    if state.phase not in (Phase.FLIPPED, Phase.COMMITTED):
        return _refused(state, f"it has not flipped yet ({state.phase})")
    return Transition(_ended(state, state.active, SwitchOutcome.RELEASED, "as it was told", now), (Effect.RELEASE,))


def _undo(state: ParticipantState, command: Command, facts: SwitchConditions, now: float) -> Transition:
    if state.phase is Phase.COMMITTED and not command.force:
        text = "it has committed: another kproxy may have been released; --resume or --abort of its driver decides"
        return _refused(state, text)
    return _back(state, "as it was told", now)


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
