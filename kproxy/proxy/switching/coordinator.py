"""The switch over all kproxies: the state machine of its driver, the coordinator of a two-phase commit. Pure.

    ASK      ask each kproxy for its state
    HOLD     hold writes at all kproxies, until all are held
    WORK     the work for which no client may write: the last records, their check, the last positions
    FLIP     flip all kproxies
    COMMIT   commit at all kproxies; if anything fails before all have committed, undo at all
    RELEASE  release all kproxies: from here on the switch cannot be undone
    UNDO     undo at all kproxies

`next_actions` returns what the driver must do in a state. The driver does it, repeats requests without a reply, and
passes the result to `handle`. A decision that another driver must not reverse (RELEASED, UNDONE) is first returned as
`journal`; only when it is written does `next_actions` return the requests that follow from it.

A driver that died leaves kproxies in any state. The next one, with a greater `driver`, claims the switch at each of
them: after that, delayed requests of the former driver have no effect there. Then it decides by their replies and by
the journal, in which the record of the greatest driver counts:

    released, or one kproxy was            release the others
    undone, or one has not committed       undo the others: the former driver cannot have released any
    all have committed                     release, or undo, as the operator chooses
    all that reply have committed          wait for the others
"""

from __future__ import annotations

from dataclasses import replace

from kproxy.proxy.switching.participant import Command, CommandType, ParticipantState, Phase, SwitchOutcome
from kproxy.proxy.switching.twophase import (
    AbortRequested,
    CoordinatorEvent,
    CoordinatorOutcome,
    CoordinatorState,
    JournalDecision,
    KnownPhase,
    NextActions,
    ParticipantLost,
    ParticipantReply,
    RecordWritten,
    Stage,
    StageTimedOut,
    SwitchPlan,
    Work,
    WorkFinished,
)


def begin(plan: SwitchPlan) -> CoordinatorState:
    """Return the first state of a coordinator.

    Raises ValueError if the plan names no kproxy, or one kproxy twice.
    """
    count = len(plan.kproxies)
    if not count or len(set(plan.kproxies)) != count:
        raise ValueError("a switch needs kproxies, each of them once")
    phases = (KnownPhase.UNKNOWN,) * count
    return CoordinatorState(plan, phases=phases, counts=(0,) * count, may_have_committed=plan.takes_over)


# Actions


def next_actions(state: CoordinatorState) -> NextActions:
    """Return what the driver must do now.

    The driver may repeat all of it, because every action is idempotent. It sends each kproxy one request at a time, so
    that no reply is older than one that it has already handled.
    """
    if state.stage is Stage.ENDED:
        return NextActions(end=state.end)
    journal_record = _record_to_write(state)
    if journal_record is not None:
        return NextActions(journal_record)
    participants = zip(state.plan.kproxies, state.phases, state.counts, strict=True)
    done_phases = _done_phases(state)
    return NextActions(
        requests={
            kproxy: _command_for(state, phase, count)
            for kproxy, phase, count in participants
            if phase not in done_phases and phase is not KnownPhase.ODD
        },
        work=state.plan.work[state.finished_work] if state.stage is Stage.WORK else None,
    )


def _record_to_write(state: CoordinatorState) -> JournalDecision | None:
    record = _RECORD_BEFORE.get(state.stage)
    if record is JournalDecision.UNDONE and not state.plan.takes_over:
        return None  # only a former driver can have written RELEASED
    return None if record is state.last_record else record


def _command_for(state: CoordinatorState, phase: KnownPhase, count: int) -> Command | None:
    plan, command_type = state.plan, _COMMAND.get(state.stage)
    match state.stage:
        case Stage.ASK if plan.takes_over:
            return Command(CommandType.CLAIM, plan.switch, plan.driver)
        case Stage.HOLD if phase is not KnownPhase.HOLDING:  # a hold settles by itself
            return Command(CommandType.HOLD, plan.switch, plan.driver, plan.to, plan.seconds, count)
        case Stage.FLIP | Stage.COMMIT | Stage.RELEASE | Stage.UNDO if command_type is not None:
            return Command(
                command_type,
                plan.switch,
                plan.driver,
                force=command_type is CommandType.UNDO and state.may_have_committed,
            )
        case _:
            return None


# Events


def handle(state: CoordinatorState, event: CoordinatorEvent) -> CoordinatorState:
    """Return the state after this event."""
    match event:
        case _ if state.stage is Stage.ENDED:
            return state
        case ParticipantReply():
            return _handle_reply(state, event)
        case ParticipantLost(kproxy, why):
            return _set_phase(state, kproxy, KnownPhase.LOST, False, f"{kproxy} does not answer{why and ': '}{why}")
        case RecordWritten(record):
            return _advance(replace(state, last_record=record))
        case WorkFinished(work, problem):
            return _handle_work(state, work, problem)
        case StageTimedOut(why):
            return _handle_timeout(state, why or f"{state.stage} took too long")
        case AbortRequested(why):
            return _handle_abort(state, why or "the operator aborted the switch")


def _handle_reply(state: CoordinatorState, reply: ParticipantReply) -> CoordinatorState:
    """Return the state after the reply of a kproxy."""
    plan, participant = state.plan, reply.state
    if participant.switch == plan.switch and participant.driver > plan.driver:
        return _end(
            state,
            CoordinatorOutcome.TAKEN_OVER,
            f"{reply.kproxy} follows another driver of this switch ({participant.driver})",
        )
    if state.stage is Stage.ASK and plan.takes_over and reply.command_type is not CommandType.CLAIM:
        return state  # a former driver may still change its phase
    phase = _known_phase(plan, participant)
    if state.stage is Stage.UNDO and phase is KnownPhase.SERVING and reply.command_type is CommandType.UNDO:
        phase = KnownPhase.UNDONE
    index = plan.kproxies.index(reply.kproxy)
    counts = (*state.counts[:index], participant.count, *state.counts[index + 1 :])
    return _set_phase(
        replace(state, counts=counts), reply.kproxy, phase, bool(reply.problem), _problem_of(reply, phase)
    )


def _known_phase(plan: SwitchPlan, participant: ParticipantState) -> KnownPhase:
    """Return the phase of a participant as this coordinator sees it."""
    if participant.switch == plan.switch:
        return KnownPhase(participant.phase.value)
    if participant.last is not None and participant.last.switch == plan.switch:
        return KnownPhase.RELEASED if participant.last.outcome is SwitchOutcome.RELEASED else KnownPhase.UNDONE
    return (
        KnownPhase.SERVING
        if participant.phase is Phase.SERVING and participant.active == plan.former
        else KnownPhase.ODD
    )


def _problem_of(reply: ParticipantReply, phase: KnownPhase) -> str:
    """Return the problem to report if the switch cannot continue after this reply."""
    kproxy, participant = reply.kproxy, reply.state
    if reply.problem:
        return f"{kproxy}: {reply.problem}"
    if phase is KnownPhase.ODD and participant.holds:
        return f"{kproxy} is in another switch ({participant.switch})"
    if phase is KnownPhase.UNDONE and participant.last is not None:
        return f"{kproxy} has undone the switch: {participant.last.why}"
    return f"{kproxy} routes clients to {participant.active} ({phase})"


def _set_phase(
    state: CoordinatorState, kproxy: str, phase: KnownPhase, refused: bool, problem: str
) -> CoordinatorState:
    """Return the state after a kproxy was found in this phase, or refused a command.

    `problem` is reported if the phase is not allowed in this stage.
    """
    if state.stage is Stage.ASK and state.plan.takes_over:
        is_allowed, refused = True, False  # a driver that takes over decides by the phases, whatever they are
    else:
        is_allowed = phase in _ALLOWED[state.stage]
    if not is_allowed and state.stage in (Stage.RELEASE, Stage.UNDO):
        phase = KnownPhase.ODD
    index = state.plan.kproxies.index(kproxy)
    state = replace(
        state,
        phases=(*state.phases[:index], phase, *state.phases[index + 1 :]),
        may_have_committed=state.may_have_committed or phase is KnownPhase.COMMITTED,
        why=_add_line(state.why, problem) if refused or not is_allowed else state.why,
    )
    return _undo(state) if state.stage in _UNDECIDED and (refused or not is_allowed) else _advance(state)


def _handle_work(state: CoordinatorState, work: Work, problem: str) -> CoordinatorState:
    if state.stage is not Stage.WORK or work is not state.plan.work[state.finished_work]:
        return state  # of a stage that is over
    if problem:
        return _undo(replace(state, why=_add_line(state.why, problem)))
    return _advance(replace(state, finished_work=state.finished_work + 1))


def _handle_timeout(state: CoordinatorState, why: str) -> CoordinatorState:
    match state.stage:
        case Stage.ASK if state.plan.takes_over:
            phases = tuple(KnownPhase.LOST if phase is KnownPhase.UNKNOWN else phase for phase in state.phases)
            state = _advance(replace(state, phases=phases))
            return state if state.stage is not Stage.ASK else _end(state, CoordinatorOutcome.INCOMPLETE, why)
        case Stage.RELEASE | Stage.UNDO:
            return _end(state, CoordinatorOutcome.INCOMPLETE, why)
        case _:
            return _undo(replace(state, why=_add_line(state.why, why)))


def _handle_abort(state: CoordinatorState, why: str) -> CoordinatorState:
    match state.stage:
        case Stage.ASK if state.plan.takes_over:
            return replace(state, plan=replace(state.plan, abort=True))
        case Stage.RELEASE | Stage.UNDO:
            return state  # it is decided, or perhaps so
        case _:
            return _undo(replace(state, why=_add_line(state.why, why)))


def _undo(state: CoordinatorState) -> CoordinatorState:
    if state.stage is Stage.ASK or (state.stage is Stage.HOLD and state.last_record is None):
        return replace(state, stage=Stage.ENDED, end=CoordinatorOutcome.UNDONE)  # no kproxy was asked for anything
    return _advance(replace(state, stage=Stage.UNDO))


def _advance(state: CoordinatorState) -> CoordinatorState:
    """Return the state after all stages that are finished now."""
    while (following := _next_state(state)) is not state:
        state = following
    return state


def _next_state(state: CoordinatorState) -> CoordinatorState:
    if state.stage is Stage.ENDED or _record_to_write(state) is not None:
        return state
    if state.stage is Stage.ASK and state.plan.takes_over:
        return _decide(state)
    if state.stage is Stage.WORK:
        return replace(state, stage=Stage.FLIP) if state.finished_work == len(state.plan.work) else state
    done_phases = _done_phases(state)
    if state.stage in (Stage.RELEASE, Stage.UNDO):
        if not all(phase in done_phases or phase is KnownPhase.ODD for phase in state.phases):
            return state
        outcome = CoordinatorOutcome.RELEASED if state.stage is Stage.RELEASE else CoordinatorOutcome.UNDONE
        return _end(state, CoordinatorOutcome.INCOMPLETE if KnownPhase.ODD in state.phases else outcome)
    return replace(state, stage=_NEXT[state.stage]) if all(phase in done_phases for phase in state.phases) else state


def _decide(state: CoordinatorState) -> CoordinatorState:
    """Return the stage of a driver that takes over: release, undo, or the same state if it cannot know yet."""
    phases, decision = set(state.phases), state.plan.decided
    if KnownPhase.UNKNOWN in phases:
        return state
    if KnownPhase.RELEASED in phases:
        return replace(state, stage=Stage.RELEASE)
    if decision is JournalDecision.RELEASED:
        if phases <= {KnownPhase.COMMITTED, KnownPhase.LOST}:
            return replace(state, stage=Stage.RELEASE)
        text = "the journal says that it was released, but a kproxy has not committed: was its --state-dir lost?"
        return _end(state, CoordinatorOutcome.INCOMPLETE, text)
    if decision is JournalDecision.UNDONE or phases & _CANNOT_BE_RELEASED:
        return replace(state, stage=Stage.UNDO)
    if phases != {KnownPhase.COMMITTED}:
        return state  # who does not answer may have been released
    return replace(state, stage=Stage.UNDO if state.plan.abort else Stage.RELEASE)


def _end(state: CoordinatorState, outcome: CoordinatorOutcome, why: str = "") -> CoordinatorState:
    lines = _add_line(state.why, why)
    if outcome is CoordinatorOutcome.INCOMPLETE:
        for kproxy, phase in zip(state.plan.kproxies, state.phases, strict=True):
            lines = lines if phase in _done_phases(state) else _add_line(lines, f"{kproxy}: {phase}")
    return replace(state, stage=Stage.ENDED, end=outcome, why=lines)


def _add_line(why: tuple[str, ...], line: str) -> tuple[str, ...]:
    return why if not line or line in why else (*why, line)


def _done_phases(state: CoordinatorState) -> frozenset[KnownPhase]:
    """Return the phases in which a kproxy needs no further command in this stage."""
    if state.stage is Stage.ASK and state.plan.takes_over:
        return _ANSWERED
    return _DONE[state.stage]


# The stages in which a failure undoes the switch. RELEASE and UNDO are decided, whatever a kproxy replies.
_UNDECIDED = frozenset({Stage.ASK, Stage.HOLD, Stage.WORK, Stage.FLIP, Stage.COMMIT})
_NEXT = {Stage.ASK: Stage.HOLD, Stage.HOLD: Stage.WORK, Stage.FLIP: Stage.COMMIT, Stage.COMMIT: Stage.RELEASE}
_COMMAND = {
    Stage.FLIP: CommandType.FLIP,
    Stage.COMMIT: CommandType.COMMIT,
    Stage.RELEASE: CommandType.RELEASE,
    Stage.UNDO: CommandType.UNDO,
}
_RECORD_BEFORE = {
    Stage.HOLD: JournalDecision.BEGUN,
    Stage.RELEASE: JournalDecision.RELEASED,
    Stage.UNDO: JournalDecision.UNDONE,
}
_ANSWERED = frozenset(KnownPhase) - {KnownPhase.UNKNOWN, KnownPhase.LOST}
# A kproxy that obeys this driver, and has not committed.
_CANNOT_BE_RELEASED = frozenset(
    {KnownPhase.SERVING, KnownPhase.HOLDING, KnownPhase.HELD, KnownPhase.FLIPPED, KnownPhase.UNDONE}
)
_DONE = {
    Stage.ASK: frozenset({KnownPhase.SERVING}),
    Stage.HOLD: frozenset({KnownPhase.HELD}),
    Stage.WORK: frozenset[KnownPhase](),  # its kproxies are asked for their state all the time
    Stage.FLIP: frozenset({KnownPhase.FLIPPED}),
    Stage.COMMIT: frozenset({KnownPhase.COMMITTED}),
    Stage.RELEASE: frozenset({KnownPhase.RELEASED}),
    Stage.UNDO: frozenset({KnownPhase.UNDONE}),
}
# The allowed phases of a kproxy in a stage; in another phase, the switch is undone, or the kproxy is ODD.
_ALLOWED = {
    Stage.ASK: frozenset({KnownPhase.SERVING}),
    Stage.HOLD: frozenset({KnownPhase.SERVING, KnownPhase.HOLDING, KnownPhase.HELD}),
    Stage.WORK: frozenset({KnownPhase.HELD}),
    Stage.FLIP: frozenset({KnownPhase.HELD, KnownPhase.FLIPPED}),
    Stage.COMMIT: frozenset({KnownPhase.FLIPPED, KnownPhase.COMMITTED}),
    Stage.RELEASE: frozenset({KnownPhase.COMMITTED, KnownPhase.RELEASED, KnownPhase.LOST}),
    Stage.UNDO: frozenset(KnownPhase) - {KnownPhase.RELEASED, KnownPhase.ODD},
}
