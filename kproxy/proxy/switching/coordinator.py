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
    Wants,
    Whole,
    Work,
    Worked,
    Written,
)
from kproxy.proxy.switching.participant import Command, Do, Outcome, Phase, State


def begin(plan: Plan) -> Whole:
    many = len(plan.kproxies)
    if not many or len(set(plan.kproxies)) != many:
        raise ValueError("a switch needs kproxies, each of them once")
    return Whole(plan, known=(Known.UNKNOWN,) * many, counts=(0,) * many, tried=plan.takes_over)


# What is wanted


def wants(whole: Whole) -> Wants:
    """What the driver is to do now. It may do it again and again: all of it is idempotent. But it asks each kproxy one
    thing at a time, so that no answer is older than one that it has passed on."""
    if whole.stage is Stage.ENDED:
        return Wants(end=whole.end)
    record = _to_be_written(whole)
    if record is not None:
        return Wants(record)
    there = zip(whole.plan.kproxies, whole.known, whole.counts, strict=True)
    done = _done(whole)
    return Wants(
        requests={
            kproxy: _request(whole, known, count)
            for kproxy, known, count in there
            if known not in done and known is not Known.ODD
        },
        work=whole.plan.work[whole.done] if whole.stage is Stage.WORK else None,
    )


def _to_be_written(whole: Whole) -> Record | None:
    record = _WRITTEN_BEFORE.get(whole.stage)
    if record is Record.UNDONE and not whole.plan.takes_over:
        return None  # only a former driver can have written that it was released
    return None if record is whole.written else record


def _request(whole: Whole, known: Known, count: int) -> Command | None:
    plan, do = whole.plan, _DO.get(whole.stage)
    match whole.stage:
        case Stage.ASK if plan.takes_over:
            return Command(Do.CLAIM, plan.switch, plan.driver)
        case Stage.HOLD if known is not Known.HOLDING:  # a hold settles by itself
            return Command(Do.HOLD, plan.switch, plan.driver, plan.to, plan.seconds, count)
        case Stage.FLIP | Stage.COMMIT | Stage.RELEASE | Stage.UNDO if do is not None:
            return Command(do, plan.switch, plan.driver, force=do is Do.UNDO and whole.tried)
        case _:
            return None


# What has happened


def step(whole: Whole, event: Event) -> Whole:
    """The next state."""
    match event:
        case _ if whole.stage is Stage.ENDED:
            return whole
        case Answer():
            return _answered(whole, event)
        case Lost(kproxy, why):
            return _noted(whole, kproxy, Known.LOST, False, f"{kproxy} does not answer{why and ': '}{why}")
        case Written(record):
            return _advanced(replace(whole, written=record))
        case Worked(work, problem):
            return _worked(whole, work, problem)
        case Late(why):
            return _late(whole, why or f"{whole.stage} took too long")
        case Abort(why):
            return _aborted(whole, why or "somebody wants to go back")


def _answered(whole: Whole, answer: Answer) -> Whole:
    plan, state = whole.plan, answer.state
    if state.switch == plan.switch and state.driver > plan.driver:
        return _ended(whole, End.TAKEN_OVER, f"{answer.kproxy} obeys another driver of this switch ({state.driver})")
    if whole.stage is Stage.ASK and plan.takes_over and answer.did is not Do.CLAIM:
        return whole  # a former driver may still move it on
    known = _known(plan, state)
    if whole.stage is Stage.UNDO and known is Known.SERVING and answer.did is Do.UNDO:
        known = Known.UNDONE
    at = plan.kproxies.index(answer.kproxy)
    counts = (*whole.counts[:at], state.count, *whole.counts[at + 1 :])
    return _noted(replace(whole, counts=counts), answer.kproxy, known, bool(answer.problem), _wrong(answer, known))


def _known(plan: Plan, state: State) -> Known:
    if state.switch == plan.switch:
        return Known(state.phase.value)
    if state.last is not None and state.last.switch == plan.switch:
        return Known.RELEASED if state.last.outcome is Outcome.RELEASED else Known.UNDONE
    return Known.SERVING if state.phase is Phase.SERVING and state.active == plan.former else Known.ODD


def _wrong(answer: Answer, known: Known) -> str:
    """What to say if the switch cannot go on with what a kproxy has answered."""
    who, state = answer.kproxy, answer.state
    if answer.problem:
        return f"{who}: {answer.problem}"
    if known is Known.ODD and state.holds:
        return f"{who} is in another switch ({state.switch})"
    if known is Known.UNDONE and state.last is not None:
        return f"{who} has gone back: {state.last.why}"
    return f"{who} leads to {state.active} ({known})"


def _noted(whole: Whole, kproxy: str, known: Known, refused: bool, wrong: str) -> Whole:
    """A kproxy is there now, or refused to go on. `wrong`: what to say if that does not fit the stage."""
    if whole.stage is Stage.ASK and whole.plan.takes_over:
        fits, refused = True, False  # it is to decide by where they are, wherever that is
    else:
        fits = known in _FITS[whole.stage]
    if not fits and whole.stage in (Stage.RELEASE, Stage.UNDO):
        known = Known.ODD
    at = whole.plan.kproxies.index(kproxy)
    whole = replace(
        whole,
        known=(*whole.known[:at], known, *whole.known[at + 1 :]),
        tried=whole.tried or known is Known.COMMITTED,
        why=_with(whole.why, wrong) if refused or not fits else whole.why,
    )
    return _gone_back(whole) if whole.stage in _UNDECIDED and (refused or not fits) else _advanced(whole)


def _worked(whole: Whole, work: Work, problem: str) -> Whole:
    if whole.stage is not Stage.WORK or work is not whole.plan.work[whole.done]:
        return whole  # of a stage that is over
    if problem:
        return _gone_back(replace(whole, why=_with(whole.why, problem)))
    return _advanced(replace(whole, done=whole.done + 1))


def _late(whole: Whole, why: str) -> Whole:
    match whole.stage:
        case Stage.ASK if whole.plan.takes_over:
            lost = tuple(Known.LOST if known is Known.UNKNOWN else known for known in whole.known)
            whole = _advanced(replace(whole, known=lost))
            return whole if whole.stage is not Stage.ASK else _ended(whole, End.INCOMPLETE, why)
        case Stage.RELEASE | Stage.UNDO:
            return _ended(whole, End.INCOMPLETE, why)
        case _:
            return _gone_back(replace(whole, why=_with(whole.why, why)))


def _aborted(whole: Whole, why: str) -> Whole:
    match whole.stage:
        case Stage.ASK if whole.plan.takes_over:
            return replace(whole, plan=replace(whole.plan, abort=True))
        case Stage.RELEASE | Stage.UNDO:
            return whole  # it is decided, or perhaps so
        case _:
            return _gone_back(replace(whole, why=_with(whole.why, why)))


def _gone_back(whole: Whole) -> Whole:
    if whole.stage is Stage.ASK or (whole.stage is Stage.HOLD and whole.written is None):
        return replace(whole, stage=Stage.ENDED, end=End.UNDONE)  # no kproxy was asked for anything
    return _advanced(replace(whole, stage=Stage.UNDO))


def _advanced(whole: Whole) -> Whole:
    """The state that what is known now leads to."""
    while (following := _following(whole)) is not whole:
        whole = following
    return whole


def _following(whole: Whole) -> Whole:
    if whole.stage is Stage.ENDED or _to_be_written(whole) is not None:
        return whole
    if whole.stage is Stage.ASK and whole.plan.takes_over:
        return _decided(whole)
    if whole.stage is Stage.WORK:
        return replace(whole, stage=Stage.FLIP) if whole.done == len(whole.plan.work) else whole
    done = _done(whole)
    if whole.stage in (Stage.RELEASE, Stage.UNDO):
        if not all(known in done or known is Known.ODD for known in whole.known):
            return whole
        end = End.RELEASED if whole.stage is Stage.RELEASE else End.UNDONE
        return _ended(whole, End.INCOMPLETE if Known.ODD in whole.known else end)
    return replace(whole, stage=_NEXT[whole.stage]) if all(known in done for known in whole.known) else whole


def _decided(whole: Whole) -> Whole:
    """Forward or back, for a driver that takes over, if that can be known."""
    known, decided = set(whole.known), whole.plan.decided
    if Known.UNKNOWN in known:
        return whole
    if Known.RELEASED in known:
        return replace(whole, stage=Stage.RELEASE)
    if decided is Record.RELEASED:
        if known <= {Known.COMMITTED, Known.LOST}:
            return replace(whole, stage=Stage.RELEASE)
        text = "the journal says that it was released, but a kproxy has not committed: was its --state-dir lost?"
        return _ended(whole, End.INCOMPLETE, text)
    if decided is Record.UNDONE or known & _CANNOT_BE_RELEASED:
        return replace(whole, stage=Stage.UNDO)
    if known != {Known.COMMITTED}:
        return whole  # who does not answer may have been released
    return replace(whole, stage=Stage.UNDO if whole.plan.abort else Stage.RELEASE)


def _ended(whole: Whole, end: End, why: str = "") -> Whole:
    lines = _with(whole.why, why)
    if end is End.INCOMPLETE:
        for kproxy, known in zip(whole.plan.kproxies, whole.known, strict=True):
            lines = lines if known in _done(whole) else _with(lines, f"{kproxy}: {known}")
    return replace(whole, stage=Stage.ENDED, end=end, why=lines)


def _with(why: tuple[str, ...], line: str) -> tuple[str, ...]:
    return why if not line or line in why else (*why, line)


def _done(whole: Whole) -> frozenset[Known]:
    """What a kproxy need not be asked in this stage for: it is there."""
    if whole.stage is Stage.ASK and whole.plan.takes_over:
        return _ANSWERED
    return _DONE[whole.stage]


# Where what goes wrong is undone. RELEASE and UNDO are decided, whatever a kproxy says.
_UNDECIDED = frozenset({Stage.ASK, Stage.HOLD, Stage.WORK, Stage.FLIP, Stage.COMMIT})
_NEXT = {Stage.ASK: Stage.HOLD, Stage.HOLD: Stage.WORK, Stage.FLIP: Stage.COMMIT, Stage.COMMIT: Stage.RELEASE}
_DO = {Stage.FLIP: Do.FLIP, Stage.COMMIT: Do.COMMIT, Stage.RELEASE: Do.RELEASE, Stage.UNDO: Do.UNDO}
_WRITTEN_BEFORE = {Stage.HOLD: Record.BEGUN, Stage.RELEASE: Record.RELEASED, Stage.UNDO: Record.UNDONE}
_ANSWERED = frozenset(Known) - {Known.UNKNOWN, Known.LOST}
# A kproxy that obeys this driver, and has not committed.
_CANNOT_BE_RELEASED = frozenset({Known.SERVING, Known.HOLDING, Known.HELD, Known.FLIPPED, Known.UNDONE})
_DONE = {
    Stage.ASK: frozenset({Known.SERVING}),
    Stage.HOLD: frozenset({Known.HELD}),
    Stage.WORK: frozenset[Known](),  # it is looked after all the time
    Stage.FLIP: frozenset({Known.FLIPPED}),
    Stage.COMMIT: frozenset({Known.COMMITTED}),
    Stage.RELEASE: frozenset({Known.RELEASED}),
    Stage.UNDO: frozenset({Known.UNDONE}),
}
# Where a kproxy may be in a stage; elsewhere, the switch goes back, or cannot reach this kproxy any more.
_FITS = {
    Stage.ASK: frozenset({Known.SERVING}),
    Stage.HOLD: frozenset({Known.SERVING, Known.HOLDING, Known.HELD}),
    Stage.WORK: frozenset({Known.HELD}),
    Stage.FLIP: frozenset({Known.HELD, Known.FLIPPED}),
    Stage.COMMIT: frozenset({Known.FLIPPED, Known.COMMITTED}),
    Stage.RELEASE: frozenset({Known.COMMITTED, Known.RELEASED, Known.LOST}),
    Stage.UNDO: frozenset(Known) - {Known.RELEASED, Known.ODD},
}
