"""What the one who drives a switch over all kproxies plans, knows, is told and wants. Pure.

`whole` is the machine that works with these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from kproxy.proxy.switching.participant import Command, CommandType, ParticipantState


class Stage(StrEnum):
    ASK = "ask"
    HOLD = "hold"
    WORK = "work"
    FLIP = "flip"
    COMMIT = "commit"
    RELEASE = "release"
    UNDO = "undo"
    ENDED = "ended"


class KnownPhase(StrEnum):
    """What the driver knows of one kproxy. SERVING: it leads to the former upstream, this switch is not under way
    there. LOST: it does not answer now. ODD: it does what it must not, and only a person can say why."""

    UNKNOWN = "unknown"
    SERVING = "serving"
    HOLDING = "holding"
    HELD = "held"
    FLIPPED = "flipped"
    COMMITTED = "committed"
    RELEASED = "released"
    UNDONE = "undone"
    LOST = "lost"
    ODD = "odd"


class Work(StrEnum):
    """DRAIN: end what is open on the former upstream (its transactions). COPY: the last records. VERIFY: compare them.
    TRANSLATE: the last positions of the groups."""

    DRAIN = "drain"
    COPY = "copy"
    VERIFY = "verify"
    TRANSLATE = "translate"


class JournalDecision(StrEnum):
    """What the journal says of a switch. BEGUN: before the first hold. The others are decisions."""

    BEGUN = "begun"
    RELEASED = "released"
    UNDONE = "undone"


class CoordinatorOutcome(StrEnum):
    """How a driver ends. INCOMPLETE: not everywhere yet, or it could not decide; --resume or --abort goes on.
    TAKEN_OVER: another driver does."""

    RELEASED = "released"
    UNDONE = "undone"
    INCOMPLETE = "incomplete"
    TAKEN_OVER = "taken over"


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """One driver's. `driver`: greater than that of each former driver of this switch; see `later`. `kproxies`: their
    names. `takes_over`: a former driver has begun this switch. `decided`: what the journal says then. `abort`: do not
    go forward if there is a choice."""

    switch: str
    driver: str
    kproxies: tuple[str, ...]
    former: str
    to: str
    seconds: float = 20.0
    work: tuple[Work, ...] = tuple(Work)
    takes_over: bool = False
    decided: JournalDecision = JournalDecision.BEGUN
    abort: bool = False


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """`known` and `counts` (`State.count`, as a kproxy told it) in the order of the plan. `done`: how much of its work.
    `written`: what this driver has written in the journal last. `tried`: a kproxy may have committed. `why`: what went
    wrong, a line each."""

    plan: SwitchPlan
    stage: Stage = Stage.ASK
    known: tuple[KnownPhase, ...] = ()
    counts: tuple[int, ...] = ()
    done: int = 0
    written: JournalDecision | None = None
    tried: bool = False
    why: tuple[str, ...] = ()
    end: CoordinatorOutcome | None = None


# What a driver is told


@dataclass(frozen=True, slots=True)
class ParticipantReply:
    """A kproxy has answered `did` (None: a question only) with its state; `problem`: that it refused it."""

    kproxy: str
    state: ParticipantState
    did: CommandType | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ParticipantLost:
    """A kproxy has not answered for as long as the driver has patience, or not as a kproxy does."""

    kproxy: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class RecordWritten:
    """The journal has this record now."""

    record: JournalDecision


@dataclass(frozen=True, slots=True)
class WorkFinished:
    """A piece of work is done, or has failed for a reason."""

    work: Work
    problem: str = ""


@dataclass(frozen=True, slots=True)
class StageTimedOut:
    """The time that the driver gives this stage is over."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class AbortRequested:
    """Somebody wants to go back (Ctrl-C)."""

    why: str = ""


CoordinatorEvent: TypeAlias = (
    ParticipantReply | ParticipantLost | RecordWritten | WorkFinished | StageTimedOut | AbortRequested
)


@dataclass(frozen=True, slots=True)
class NextActions:
    """`journal`: write this, and nothing else until it is written. `requests`: by kproxy, None: ask for its state;
    while there is work, now and then. `work`: do this. `end`: nothing more to do."""

    journal: JournalDecision | None = None
    requests: Mapping[str, Command | None] = field(default_factory=dict)
    work: Work | None = None
    end: CoordinatorOutcome | None = None


def driver_id(number: int, token: str) -> str:
    """A `driver`: of two, that with the greater number is the later one; `token` is random, so no two are the same.
    The number is one more than the greatest in the journal and in the answers of the kproxies; see `number_of`."""
    return f"{number:06d}-{token}"


def driver_number(driver: str) -> int:
    """The number in a `driver`, 0 if there is none."""
    digits = driver.partition("-")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def last_decision(records: Sequence[tuple[str, JournalDecision]]) -> JournalDecision:
    """What the journal says, by all its records of a switch: (driver, record). The last driver's decision counts: a
    former one may have written late, when nobody obeyed it any more."""
    decided = [one for one in records if one[1] is not JournalDecision.BEGUN]
    return max(decided, key=lambda one: one[0])[1] if decided else JournalDecision.BEGUN
