"""The switch over all kproxies: a state machine for the one who drives it. Pure.

    ASK      ask every kproxy where it is
    HOLD     hold everywhere, until all are held
    WORK     what must be done while nobody writes: the last records, their check, the last positions
    FLIP     flip everywhere
    COMMIT   commit everywhere: what goes wrong before this is done everywhere is undone everywhere
    RELEASE  release everywhere: from here on only forward
    UNDO     undo everywhere

`wants` says what is wanted in a state; the driver does it, repeats what has no answer, and tells `step` what came of
it. A decision that another driver must not turn round (RELEASED, UNDONE) is wanted as `journal` first; only when it is
written does `wants` name the requests that follow from it.

A driver that died left kproxies in any state. The next one, with a greater `driver`, claims the switch at each of them:
from then on nothing that the former one sent, and that is still on its way, has an effect there. Then it decides by
what they answer and by the journal, in which the record of the greatest driver counts:

    released, or one kproxy was          release the others
    undone, or one has not committed     undo the others: the former driver cannot have released any
    all have committed                   release, or undo, as one likes
    all that answer have committed       wait for those that do not
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
    many = len(plan.kproxies)
    if not many or len(set(plan.kproxies)) != many:
        raise ValueError("a switch needs kproxies, each of them once")
    return CoordinatorState(plan, known=(KnownPhase.UNKNOWN,) * many, counts=(0,) * many, tried=plan.takes_over)


# What is wanted


def next_actions(whole: CoordinatorState) -> NextActions:
    """What the driver is to do now. It may do it again and again: all of it is idempotent. But it asks each kproxy one
    thing at a time, so that no answer is older than one that it has passed on."""
    if whole.stage is Stage.ENDED:
        return NextActions(end=whole.end)
    record = _record_to_write(whole)
    if record is not None:
        return NextActions(record)
    there = zip(whole.plan.kproxies, whole.known, whole.counts, strict=True)
    done = _done_phases(whole)
    return NextActions(
        requests={
            kproxy: _command_for(whole, known, count)
            for kproxy, known, count in there
            if known not in done and known is not KnownPhase.ODD
        },
        work=whole.plan.work[whole.done] if whole.stage is Stage.WORK else None,
    )


def _record_to_write(whole: CoordinatorState) -> JournalDecision | None:
    record = _RECORD_BEFORE.get(whole.stage)
    if record is JournalDecision.UNDONE and not whole.plan.takes_over:
        return None  # only a former driver can have written that it was released
    return None if record is whole.written else record


def _command_for(whole: CoordinatorState, known: KnownPhase, count: int) -> Command | None:
    plan, do = whole.plan, _COMMAND.get(whole.stage)
    match whole.stage:
        case Stage.ASK if plan.takes_over:
            return Command(CommandType.CLAIM, plan.switch, plan.driver)
        case Stage.HOLD if known is not KnownPhase.HOLDING:  # a hold settles by itself
            return Command(CommandType.HOLD, plan.switch, plan.driver, plan.to, plan.seconds, count)
        case Stage.FLIP | Stage.COMMIT | Stage.RELEASE | Stage.UNDO if do is not None:
            return Command(do, plan.switch, plan.driver, force=do is CommandType.UNDO and whole.tried)
        case _:
            return None


# What has happened


def handle(whole: CoordinatorState, event: CoordinatorEvent) -> CoordinatorState:
    """The next state."""
    match event:
        case _ if whole.stage is Stage.ENDED:
            return whole
        case ParticipantReply():
            return _handle_reply(whole, event)
        case ParticipantLost(kproxy, why):
            return _set_phase(whole, kproxy, KnownPhase.LOST, False, f"{kproxy} does not answer{why and ': '}{why}")
        case RecordWritten(record):
            return _advance(replace(whole, written=record))
        case WorkFinished(work, problem):
            return _handle_work(whole, work, problem)
        case StageTimedOut(why):
            return _handle_timeout(whole, why or f"{whole.stage} took too long")
        case AbortRequested(why):
            return _handle_abort(whole, why or "somebody wants to go back")


def _handle_reply(whole: CoordinatorState, answer: ParticipantReply) -> CoordinatorState:
    plan, state = whole.plan, answer.state
    if state.switch == plan.switch and state.driver > plan.driver:
        return _end(
            whole,
            CoordinatorOutcome.TAKEN_OVER,
            f"{answer.kproxy} obeys another driver of this switch ({state.driver})",
        )
    if whole.stage is Stage.ASK and plan.takes_over and answer.did is not CommandType.CLAIM:
        return whole  # a former driver may still move it on
    known = _known_phase(plan, state)
    if whole.stage is Stage.UNDO and known is KnownPhase.SERVING and answer.did is CommandType.UNDO:
        known = KnownPhase.UNDONE
    at = plan.kproxies.index(answer.kproxy)
    counts = (*whole.counts[:at], state.count, *whole.counts[at + 1 :])
    return _set_phase(
        replace(whole, counts=counts), answer.kproxy, known, bool(answer.problem), _problem_of(answer, known)
    )


def _known_phase(plan: SwitchPlan, state: ParticipantState) -> KnownPhase:
    if state.switch == plan.switch:
        return KnownPhase(state.phase.value)
    if state.last is not None and state.last.switch == plan.switch:
        return KnownPhase.RELEASED if state.last.outcome is SwitchOutcome.RELEASED else KnownPhase.UNDONE
    return KnownPhase.SERVING if state.phase is Phase.SERVING and state.active == plan.former else KnownPhase.ODD


def _problem_of(answer: ParticipantReply, known: KnownPhase) -> str:
    """What to say if the switch cannot go on with what a kproxy has answered."""
    who, state = answer.kproxy, answer.state
    if answer.problem:
        return f"{who}: {answer.problem}"
    if known is KnownPhase.ODD and state.holds:
        return f"{who} is in another switch ({state.switch})"
    if known is KnownPhase.UNDONE and state.last is not None:
        return f"{who} has gone back: {state.last.why}"
    return f"{who} leads to {state.active} ({known})"


def _set_phase(whole: CoordinatorState, kproxy: str, known: KnownPhase, refused: bool, wrong: str) -> CoordinatorState:
    """A kproxy is there now, or refused to go on. `wrong`: what to say if that does not fit the stage."""
    if whole.stage is Stage.ASK and whole.plan.takes_over:
        fits, refused = True, False  # it is to decide by where they are, wherever that is
    else:
        fits = known in _ALLOWED[whole.stage]
    if not fits and whole.stage in (Stage.RELEASE, Stage.UNDO):
        known = KnownPhase.ODD
    at = whole.plan.kproxies.index(kproxy)
    whole = replace(
        whole,
        known=(*whole.known[:at], known, *whole.known[at + 1 :]),
        tried=whole.tried or known is KnownPhase.COMMITTED,
        why=_add_line(whole.why, wrong) if refused or not fits else whole.why,
    )
    return _undo(whole) if whole.stage in _UNDECIDED and (refused or not fits) else _advance(whole)


def _handle_work(whole: CoordinatorState, work: Work, problem: str) -> CoordinatorState:
    if whole.stage is not Stage.WORK or work is not whole.plan.work[whole.done]:
        return whole  # of a stage that is over
    if problem:
        return _undo(replace(whole, why=_add_line(whole.why, problem)))
    return _advance(replace(whole, done=whole.done + 1))


def _handle_timeout(whole: CoordinatorState, why: str) -> CoordinatorState:
    match whole.stage:
        case Stage.ASK if whole.plan.takes_over:
            lost = tuple(KnownPhase.LOST if known is KnownPhase.UNKNOWN else known for known in whole.known)
            whole = _advance(replace(whole, known=lost))
            return whole if whole.stage is not Stage.ASK else _end(whole, CoordinatorOutcome.INCOMPLETE, why)
        case Stage.RELEASE | Stage.UNDO:
            return _end(whole, CoordinatorOutcome.INCOMPLETE, why)
        case _:
            return _undo(replace(whole, why=_add_line(whole.why, why)))


def _handle_abort(whole: CoordinatorState, why: str) -> CoordinatorState:
    match whole.stage:
        case Stage.ASK if whole.plan.takes_over:
            return replace(whole, plan=replace(whole.plan, abort=True))
        case Stage.RELEASE | Stage.UNDO:
            return whole  # it is decided, or perhaps so
        case _:
            return _undo(replace(whole, why=_add_line(whole.why, why)))


def _undo(whole: CoordinatorState) -> CoordinatorState:
    if whole.stage is Stage.ASK or (whole.stage is Stage.HOLD and whole.written is None):
        return replace(whole, stage=Stage.ENDED, end=CoordinatorOutcome.UNDONE)  # no kproxy was asked for anything
    return _advance(replace(whole, stage=Stage.UNDO))


def _advance(whole: CoordinatorState) -> CoordinatorState:
    """The state that what is known now leads to."""
    while (following := _next_state(whole)) is not whole:
        whole = following
    return whole


def _next_state(whole: CoordinatorState) -> CoordinatorState:
    if whole.stage is Stage.ENDED or _record_to_write(whole) is not None:
        return whole
    if whole.stage is Stage.ASK and whole.plan.takes_over:
        return _decide(whole)
    if whole.stage is Stage.WORK:
        return replace(whole, stage=Stage.FLIP) if whole.done == len(whole.plan.work) else whole
    done = _done_phases(whole)
    if whole.stage in (Stage.RELEASE, Stage.UNDO):
        if not all(known in done or known is KnownPhase.ODD for known in whole.known):
            return whole
        end = CoordinatorOutcome.RELEASED if whole.stage is Stage.RELEASE else CoordinatorOutcome.UNDONE
        return _end(whole, CoordinatorOutcome.INCOMPLETE if KnownPhase.ODD in whole.known else end)
    return replace(whole, stage=_NEXT[whole.stage]) if all(known in done for known in whole.known) else whole


def _decide(whole: CoordinatorState) -> CoordinatorState:
    """Forward or back, for a driver that takes over, if that can be known."""
    known, decided = set(whole.known), whole.plan.decided
    if KnownPhase.UNKNOWN in known:
        return whole
    if KnownPhase.RELEASED in known:
        return replace(whole, stage=Stage.RELEASE)
    if decided is JournalDecision.RELEASED:
        if known <= {KnownPhase.COMMITTED, KnownPhase.LOST}:
            return replace(whole, stage=Stage.RELEASE)
        text = "the journal says that it was released, but a kproxy has not committed: was its --state-dir lost?"
        return _end(whole, CoordinatorOutcome.INCOMPLETE, text)
    if decided is JournalDecision.UNDONE or known & _CANNOT_BE_RELEASED:
        return replace(whole, stage=Stage.UNDO)
    if known != {KnownPhase.COMMITTED}:
        return whole  # who does not answer may have been released
    return replace(whole, stage=Stage.UNDO if whole.plan.abort else Stage.RELEASE)


def _end(whole: CoordinatorState, end: CoordinatorOutcome, why: str = "") -> CoordinatorState:
    lines = _add_line(whole.why, why)
    if end is CoordinatorOutcome.INCOMPLETE:
        for kproxy, known in zip(whole.plan.kproxies, whole.known, strict=True):
            lines = lines if known in _done_phases(whole) else _add_line(lines, f"{kproxy}: {known}")
    return replace(whole, stage=Stage.ENDED, end=end, why=lines)


def _add_line(why: tuple[str, ...], line: str) -> tuple[str, ...]:
    return why if not line or line in why else (*why, line)


def _done_phases(whole: CoordinatorState) -> frozenset[KnownPhase]:
    """What a kproxy need not be asked in this stage for: it is there."""
    if whole.stage is Stage.ASK and whole.plan.takes_over:
        return _ANSWERED
    return _DONE[whole.stage]


# Where what goes wrong is undone. RELEASE and UNDO are decided, whatever a kproxy says.
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
    Stage.WORK: frozenset[KnownPhase](),  # it is looked after all the time
    Stage.FLIP: frozenset({KnownPhase.FLIPPED}),
    Stage.COMMIT: frozenset({KnownPhase.COMMITTED}),
    Stage.RELEASE: frozenset({KnownPhase.RELEASED}),
    Stage.UNDO: frozenset({KnownPhase.UNDONE}),
}
# Where a kproxy may be in a stage; elsewhere, the switch goes back, or cannot reach this kproxy any more.
_ALLOWED = {
    Stage.ASK: frozenset({KnownPhase.SERVING}),
    Stage.HOLD: frozenset({KnownPhase.SERVING, KnownPhase.HOLDING, KnownPhase.HELD}),
    Stage.WORK: frozenset({KnownPhase.HELD}),
    Stage.FLIP: frozenset({KnownPhase.HELD, KnownPhase.FLIPPED}),
    Stage.COMMIT: frozenset({KnownPhase.FLIPPED, KnownPhase.COMMITTED}),
    Stage.RELEASE: frozenset({KnownPhase.COMMITTED, KnownPhase.RELEASED, KnownPhase.LOST}),
    Stage.UNDO: frozenset(KnownPhase) - {KnownPhase.RELEASED, KnownPhase.ODD},
}
