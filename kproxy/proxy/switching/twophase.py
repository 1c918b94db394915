"""The values of the coordinator of a switch: its plan, its state, its events and its next actions. Pure.

`coordinator` is the state machine that works with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from kproxy.proxy.switching.participant import Command, CommandType, ParticipantState


class Stage(StrEnum):
    """The stages of a switch over all kproxies."""

    ASK = "ask"
    HOLD = "hold"
    WORK = "work"
    FLIP = "flip"
    COMMIT = "commit"
    RELEASE = "release"
    UNDO = "undo"
    ENDED = "ended"


class KnownPhase(StrEnum):
    """The phase of a participant, as the coordinator knows it."""

    UNKNOWN = "unknown"
    SERVING = "serving"
    """The kproxy routes clients to the former upstream, and is not in this switch."""
    HOLDING = "holding"
    HELD = "held"
    FLIPPED = "flipped"
    COMMITTED = "committed"
    RELEASED = "released"
    UNDONE = "undone"
    LOST = "lost"
    """The kproxy does not reply now."""
    ODD = "odd"
    """The kproxy is in a phase that it must not be in; only a person can find out why."""


class Work(StrEnum):
    """The work of the driver while all kproxies hold writes."""

    DRAIN = "drain"
    """End the open transactions of the former upstream."""
    COPY = "copy"
    """Copy the last records."""
    VERIFY = "verify"
    """Compare the last records."""
    TRANSLATE = "translate"
    """Translate the last positions of the groups."""


class JournalDecision(StrEnum):
    """The record of a switch in the journal."""

    BEGUN = "begun"
    """Written before the first hold; the others are decisions."""
    RELEASED = "released"
    UNDONE = "undone"


class CoordinatorOutcome(StrEnum):
    """The outcome of one driver."""

    RELEASED = "released"
    UNDONE = "undone"
    INCOMPLETE = "incomplete"
    """Not all kproxies are released or undone, or the driver could not decide; --resume or --abort continues."""
    TAKEN_OVER = "taken over"
    """Another driver continues the switch."""


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """The plan of one driver."""

    switch: str
    driver: str
    """Greater than that of each former driver of this switch; see `driver_id`."""
    kproxies: tuple[str, ...]
    """The names of all kproxies."""
    former: str
    to: str
    seconds: float = 20.0
    work: tuple[Work, ...] = tuple(Work)
    takes_over: bool = False
    """A former driver has begun this switch."""
    decided: JournalDecision = JournalDecision.BEGUN
    """The decision in the journal, for a driver that takes over."""
    abort: bool = False
    """Undo the switch if the driver may choose."""


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """The state of the coordinator; tuples are in the order of the plan's kproxies."""

    plan: SwitchPlan
    stage: Stage = Stage.ASK
    phases: tuple[KnownPhase, ...] = ()
    counts: tuple[int, ...] = ()
    """`ParticipantState.count` of each kproxy."""
    finished_work: int = 0
    """The number of finished items of the plan's work."""
    last_record: JournalDecision | None = None
    """The last record that this driver has written to the journal."""
    may_have_committed: bool = False
    """A kproxy may have committed."""
    why: tuple[str, ...] = ()
    """The problems so far, a line each."""
    end: CoordinatorOutcome | None = None


# Events


@dataclass(frozen=True, slots=True)
class ParticipantReply:
    """The reply of a kproxy with its state."""

    kproxy: str
    state: ParticipantState
    command_type: CommandType | None = None
    """The command that was sent; None if only the state was asked for."""
    problem: str = ""
    """Why the kproxy refused the command."""


@dataclass(frozen=True, slots=True)
class ParticipantLost:
    """A kproxy has not replied in time, or not as a kproxy does."""

    kproxy: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class RecordWritten:
    """The journal has this record now."""

    record: JournalDecision


@dataclass(frozen=True, slots=True)
class WorkFinished:
    """An item of work is done, or has failed with this problem."""

    work: Work
    problem: str = ""


@dataclass(frozen=True, slots=True)
class StageTimedOut:
    """The stage has taken longer than the driver allows."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class AbortRequested:
    """The operator wants to undo the switch (Ctrl-C)."""

    why: str = ""


CoordinatorEvent: TypeAlias = (
    ParticipantReply | ParticipantLost | RecordWritten | WorkFinished | StageTimedOut | AbortRequested
)


@dataclass(frozen=True, slots=True)
class NextActions:
    """The next actions of the driver."""

    journal: JournalDecision | None = None
    """Write this record, and do nothing else until it is written."""
    requests: Mapping[str, Command | None] = field(default_factory=dict)
    """The command to send to each kproxy; None: ask for its state. During work, now and then."""
    work: Work | None = None
    end: CoordinatorOutcome | None = None
    """Nothing more to do."""


def driver_id(number: int, token: str) -> str:
    """Return the id of a driver; of two ids, the greater text is the later driver.

    `number` is one more than the greatest in the journal and in the replies of the kproxies; see `driver_number`.
    `token` is random, so that no two ids are equal.
    """
    return f"{number:06d}-{token}"


def driver_number(driver: str) -> int:
    """Return the number in the id of a driver, 0 if it has none."""
    digits = driver.partition("-")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def last_decision(records: Sequence[tuple[str, JournalDecision]]) -> JournalDecision:
    """Return the decision in the journal, given all its records of a switch: (driver, record).

    The last driver's decision counts: a former driver may have written late, when all kproxies already refused it.
    """
    decisions = [record for record in records if record[1] is not JournalDecision.BEGUN]
    return max(decisions, key=lambda record: record[0])[1] if decisions else JournalDecision.BEGUN
