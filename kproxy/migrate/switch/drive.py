"""The drive of a switch: the pure coordinator of `kproxy.proxy.switching` with real kproxies, journal and tasks.

One thread decides. Threads of a pool send requests to the kproxies, one at a time to each; another thread does the work
of the hold. All results arrive in one queue. Every request and every stage has a deadline: whatever does not reply, the
drive continues or goes back.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kproxy.base.errors import AdminError, ConfigError, KproxyError
from kproxy.base.format import abbreviate
from kproxy.migrate.format import LogWriter
from kproxy.migrate.journal.switch_journal import SwitchEntry, SwitchJournal
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet
from kproxy.migrate.switch.kproxy_replies import ClusterReply, CommandRefused
from kproxy.proxy.switching.coordinator import begin, handle, next_actions
from kproxy.proxy.switching.participant import Command, CommandType
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
)

_logger = logging.getLogger(__name__)

HoldTask = Callable[[float], None]
"""A task of the hold. Its argument is its deadline, of time.monotonic. Raises KproxyError."""


@dataclass(frozen=True, slots=True)
class DriveTimeouts:
    """Time limits of a drive, in seconds."""

    first_reply: float = 15.0
    """For all kproxies to reply with their state at the start."""
    silence: float = 4.0
    """Maximum time without a valid reply of a kproxy, in seconds."""
    reserve: float = 3.0
    """The share of the hold that is reserved for the flip and the commit after the work."""
    final_replies: float = 60.0
    """Maximum time for which the final command is repeated to kproxies that do not reply, in seconds."""
    poll: float = 0.2
    """At most, between two requests to a kproxy that has not reached the state yet."""
    work_poll: float = 1.0
    """Between two requests to a kproxy while the work of the hold is done."""

    def interval(self, stage: Stage, in_stage: float, kproxies: int) -> float:
        """Return the time between two requests to each of so many kproxies, in seconds.

        `in_stage`: how long the stage has lasted. At first it is short, as most stages take some milliseconds.
        """
        if stage is Stage.WORK:
            return self.work_poll
        return min(self.poll, max(_FIRST_POLL, in_stage / 4, kproxies * _SECONDS_PER_KPROXY))


TIMEOUTS = DriveTimeouts()

# To flip and to commit one kproxy of many, in seconds; measured with 1,000 on two busy cores.
_SECONDS_PER_KPROXY = 0.005
# Between the first two requests to a kproxy in a stage, if there are few.
_FIRST_POLL = 0.02
# What may be answered late without harm: it is decided already.
_DECIDED = frozenset({Stage.RELEASE, Stage.UNDO})
_HOLDING = frozenset({Stage.HOLD, Stage.WORK, Stage.FLIP, Stage.COMMIT})
_STAGE_TEXTS: Mapping[Stage, str] = {
    Stage.ASK: "reading the state of all kproxies",
    Stage.HOLD: "holding writes",
    Stage.WORK: "all writes are held",
    Stage.FLIP: "moving sessions to {to}",
    Stage.COMMIT: "committing",
    Stage.RELEASE: "releasing writes: clients continue on {to}",
    Stage.UNDO: "going back to {former}",
}
# The phase that each kproxy has at the end of a stage.
_STAGE_PHASES: Mapping[Stage, KnownPhase] = {
    Stage.HOLD: KnownPhase.HELD,
    Stage.FLIP: KnownPhase.FLIPPED,
    Stage.COMMIT: KnownPhase.COMMITTED,
    Stage.RELEASE: KnownPhase.RELEASED,
    Stage.UNDO: KnownPhase.UNDONE,
}
_WORK_TEXTS: Mapping[Work, str] = {
    Work.DRAIN: "ending open transactions",
    Work.COPY: "copying the last records",
    Work.VERIFY: "comparing them",
    Work.TRANSLATE: "translating the last positions",
}


@dataclass
class DriveResult:
    """The result of a drive."""

    end: CoordinatorOutcome
    reasons: tuple[str, ...]
    """Why it went back or is incomplete."""
    entry: SwitchEntry
    replies: Mapping[str, ClusterReply]
    """The last reply of each kproxy."""
    held_seconds: float | None = None
    """Time from the first hold to the last reply to a release or undo, by this machine's clock; None without a hold."""
    stage_starts: Mapping[str, float] = field(default_factory=dict)
    """When each stage began, in seconds since the first hold."""
    participant_states: Mapping[str, str] = field(default_factory=dict)
    """By kproxy, its state as the coordinator knows it."""


class Drive:
    """One driver's run."""

    def __init__(
        self,
        plan: SwitchPlan,
        fleet: KproxyFleet,
        journal: SwitchJournal,
        entry: SwitchEntry,
        works: Mapping[Work, HoldTask],
        log: LogWriter = lambda _: None,
        limits: DriveTimeouts = TIMEOUTS,
        show_hold: LogWriter = lambda _: None,
    ) -> None:
        self._plan, self._journal, self._entry = plan, journal, entry
        self._fleet, self._kproxies = fleet, {kproxy.name: kproxy for kproxy in fleet.kproxies}
        self._tasks, self._log, self._timeouts, self._show_hold = works, log, limits, show_hold
        # Of which kproxy, or "". A signal handler may put something here whatever its thread is just doing.
        self._events: queue.SimpleQueue[tuple[str, CoordinatorEvent | None]] = queue.SimpleQueue()
        self._in_flight: set[str] = set()
        self._due_times: dict[str, float] = {}
        self._silent_since: dict[str, float] = {}  # since when
        self._replies: dict[str, ClusterReply] = {}
        self._started_work: set[Work] = set()
        self._hold_began: float | None = None  # the hold
        self._hold_ended: float | None = None
        self._stage_began = time.monotonic()
        self._stage_starts: dict[str, float] = {}
        self.coordinator: CoordinatorState = begin(plan)

    def abort(self, why: str) -> None:
        """Go back, unless that is no longer possible. Can be called from any thread and from a signal handler."""
        self._events.put(("", AbortRequested(why)))

    def run(self) -> DriveResult:
        """Drive the switch to its end, and return the result."""
        self._enter(None)
        while True:
            actions = next_actions(self.coordinator)
            if actions.end is not None:
                return self._result(actions.end)
            if actions.journal is not None:
                if not self._write(actions.journal):
                    return self._result(CoordinatorOutcome.TAKEN_OVER)
                continue
            for name, command in actions.requests.items():
                self._request(name, command)
            if actions.work is not None and actions.work not in self._started_work:
                self._start_work(actions.work)
            self._wait_for_event(actions.requests)
            if held_text := self._held_text():
                self._show_hold(f"{held_text}{self._waiting_text()}")

    def _held_text(self) -> str:
        """Return for how long writes have been held, of the limit; "" if none are held."""
        if self._hold_began is None or self._hold_ended is not None:
            return ""
        return f"writes held for {time.monotonic() - self._hold_began:.1f} of {self._plan.seconds:g} s"

    def _waiting_text(self) -> str:
        """Return what the stage waits for: its work, or the kproxies that have not replied as the stage wants."""
        if self.coordinator.stage is Stage.WORK:
            texts = [_WORK_TEXTS[work] for work in Work if work in self._started_work]
            return f": {texts[-1]}" if texts else ""
        wanted = _STAGE_PHASES.get(self.coordinator.stage)
        waiting = [
            name
            for name, phase in zip(self._plan.kproxies, self.coordinator.phases, strict=True)
            if wanted is not None and phase is not wanted
        ]
        return f": {self.coordinator.stage}, waiting for {abbreviate(waiting)}" if waiting else ""

    def _log_step(self, text: str) -> None:
        """Log a step, with the time for which writes have been held."""
        held_text = self._held_text()
        self._log(f"{text} ({held_text})" if held_text else text)

    def _result(self, end: CoordinatorOutcome) -> DriveResult:
        held_seconds = None if self._hold_began is None else (self._hold_ended or time.monotonic()) - self._hold_began
        states = {
            name: participant.value
            for name, participant in zip(self._plan.kproxies, self.coordinator.phases, strict=True)
        }
        entry = self._entry if held_seconds is None else replace(self._entry, held_seconds=held_seconds)
        if end in (CoordinatorOutcome.RELEASED, CoordinatorOutcome.UNDONE) and entry.decisions:
            entry = self._write_end(entry)
        return DriveResult(
            end=end,
            reasons=self.coordinator.why,
            entry=entry,
            replies=self._replies,
            held_seconds=held_seconds,
            stage_starts=self._stage_starts,
            participant_states=states,
        )

    def _write_end(self, entry: SwitchEntry) -> SwitchEntry:
        try:
            return self._journal.write(replace(entry, ended=True))
        except KproxyError as error:
            self._log(
                f"the end could not be recorded in the journal ({error}): run kproxy migrate switch FILE --resume to"
                " record it"
            )
            return entry

    # Events

    def _wait_for_event(self, requests: Mapping[str, Command | None]) -> None:
        """Wait for the next event or the next due request."""
        now = time.monotonic()
        until = self._deadline()
        free = [self._due_times.get(name, 0.0) for name in requests if name not in self._in_flight]
        due = min([until, now + 1.0, *free])
        try:
            name, event = self._events.get(timeout=max(0.001, due - now))
        except queue.Empty:
            if time.monotonic() >= until:
                self._step(StageTimedOut(self._late_reason()))
            return
        while True:
            self._in_flight.discard(name)
            if event is not None:
                self._step(event)
            try:
                name, event = self._events.get_nowait()
            except queue.Empty:
                return

    def _late_reason(self) -> str:
        """Return the problems that kproxies have; "" if they report none."""
        problems = [f"{name}: {reply.problem}" for name, reply in sorted(dict(self._replies).items()) if reply.problem]
        return f"{self.coordinator.stage} took too long: {'; '.join(problems)}" if problems else ""

    def _step(self, event: CoordinatorEvent) -> None:
        before = self.coordinator
        self.coordinator = handle(before, event)
        for line in self.coordinator.why[len(before.why) :]:
            self._log(line)
        if self.coordinator.stage is not before.stage:
            self._enter(before.stage)

    def _enter(self, before: Stage | None) -> None:
        stage = self.coordinator.stage
        self._stage_began = time.monotonic()
        self._due_times.clear()
        self._silent_since.clear()
        if self._hold_began is not None:
            self._stage_starts[stage.value] = self._stage_began - self._hold_began
        if before in _DECIDED and stage is Stage.ENDED:
            self._hold_ended = self._stage_began
        if stage in _STAGE_TEXTS:
            self._log_step(_STAGE_TEXTS[stage].format(to=self._plan.to, former=self._plan.former))

    def _deadline(self) -> float:
        """Return the deadline of the stage."""
        stage, limits = self.coordinator.stage, self._timeouts
        if stage in _HOLDING and self._hold_began is not None:
            keep = (
                limits.reserve + len(self._kproxies) * _SECONDS_PER_KPROXY if stage in (Stage.HOLD, Stage.WORK) else 0.0
            )
            return self._hold_began + max(self._plan.seconds - keep, self._plan.seconds / 2)
        return self._stage_began + (limits.final_replies if stage in _DECIDED else limits.first_reply)

    # Effects

    def _write(self, record: JournalDecision) -> bool:
        """Write a decision to the journal. Returns False if another driver has taken over."""
        entry = self._entry.with_decision(self._plan.driver, record)
        try:
            self._entry = self._journal.write(entry, max(1.0, self._deadline() - time.monotonic()))
        except ConfigError as error:
            self._log(str(error))
            return False
        except KproxyError as error:
            # It is not known whether the record was written: a driver that resumes reads it.
            self._step(StageTimedOut(f"the journal on the target could not be written: {error}"))
            return True
        self._step(RecordWritten(record))
        return True

    def _request(self, name: str, command: Command | None) -> None:
        if name in self._in_flight or time.monotonic() < self._due_times.get(name, 0.0):
            return
        kproxy = self._kproxies[name]
        self._in_flight.add(name)
        if command is not None and command.type is CommandType.HOLD and self._hold_began is None:
            self._hold_began = time.monotonic()
        self._fleet.submit(lambda: self._send_request(kproxy, command))

    def _send_request(self, kproxy: Kproxy, command: Command | None) -> None:
        """Send a command to a kproxy, or read its state. Runs in a thread of the fleet's pool."""
        event: CoordinatorEvent | None = None
        did = None if command is None else command.type
        try:
            cluster = kproxy.read_state() if command is None else kproxy.send(command)
            self._replies[kproxy.name] = cluster
            event = ParticipantReply(kproxy.name, cluster.state, did)
        except CommandRefused as error:
            if error.cluster is not None:
                event = ParticipantReply(kproxy.name, error.cluster.state, did, str(error))
            else:
                event = self._judge_silence(kproxy, error)
        except AdminError as error:
            event = self._judge_silence(kproxy, error)
        except Exception as error:  # a defect of ours must not leave writes held
            _logger.error("asking %s", kproxy.name, exc_info=error)
            event = AbortRequested(f"a defect of kproxy: {type(error).__name__}")
        if event is not None and not isinstance(event, ParticipantLost):
            self._silent_since.pop(kproxy.name, None)
        now, stage = time.monotonic(), self.coordinator.stage
        self._due_times[kproxy.name] = now + self._timeouts.interval(
            stage, now - self._stage_began, len(self._kproxies)
        )
        self._events.put((kproxy.name, event))

    def _judge_silence(self, kproxy: Kproxy, error: AdminError) -> ParticipantLost | None:
        """Return an event if the kproxy counts as lost; None while it may only be slow."""
        now = time.monotonic()
        since = self._silent_since.setdefault(kproxy.name, now)
        patience = self._timeouts.first_reply / 2 if self.coordinator.stage is Stage.ASK else self._timeouts.silence
        return ParticipantLost(kproxy.name, str(error)) if now - since >= patience else None

    def _start_work(self, work: Work) -> None:
        self._started_work.add(work)
        self._log_step(_WORK_TEXTS[work])
        until = self._deadline()

        def run() -> None:
            problem = ""
            try:
                self._tasks[work](until)
            except KproxyError as error:
                problem = str(error)
            except Exception as error:  # a defect of ours must not leave writes held
                _logger.error("%s", work, exc_info=error)
                problem = f"a defect of kproxy: {type(error).__name__}: {error}"
            self._events.put(("", WorkFinished(work, problem)))

        # A daemon thread that is not joined: Spark may never reply.
        threading.Thread(target=run, name=f"kproxy switch: {work}", daemon=True).start()
