"""Drives a switch: the pure machine of `kproxy.proxy.switching.whole` with real kproxies, a real journal and real work.

One thread decides. Kproxies are asked in threads, each of them one thing at a time; the work of the hold is done in
another. All that any of them finds comes through one queue. Every question has a limit of time, and so has every stage:
whatever does not answer, this goes on, or back.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from kproxy.base.errors import AdminError, ConfigError, KproxyError
from kproxy.migrate.journal.switch_journal import SwitchEntry
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet
from kproxy.migrate.switch.kproxy_replies import ClusterReply, CommandRefused
from kproxy.proxy.switching.plan import (
    Abort,
    Answer,
    End,
    Event,
    Late,
    Lost,
    Plan,
    Record,
    Stage,
    Whole,
    Work,
    Worked,
    Written,
)
from kproxy.proxy.switching.state import Command, Do
from kproxy.proxy.switching.whole import begin, step, wants

HoldTask = Callable[[float], None]
"""A piece of work; it is told until when, of time.monotonic, and raises KproxyError."""
Say = Callable[[str], None]


class EntryWriter(Protocol):
    """As `SwitchJournal`."""

    def write(self, entry: SwitchEntry, seconds: float = 30.0) -> SwitchEntry: ...


@dataclass(frozen=True, slots=True)
class DriveTimeouts:
    """In seconds. `ask`: for all kproxies to say where they are. `lost`: how long one may say nothing, or nonsense.
    `reserve`: of the hold, what is kept for flipping and committing when the work is done. `last`: how long those that
    do not answer are asked when all is decided. `poll`: until one is asked again that has not got there."""

    ask: float = 15.0
    lost: float = 4.0
    reserve: float = 3.0
    last: float = 60.0
    poll: float = 0.2
    look: float = 1.0


TIMEOUTS = DriveTimeouts()

# To flip and to commit one kproxy of many, in seconds; measured with 1,000 on two busy cores.
_SECONDS_PER_KPROXY = 0.005
# What may be answered late without harm: it is decided already.
_DECIDED = frozenset({Stage.RELEASE, Stage.UNDO})
_HOLDING = frozenset({Stage.HOLD, Stage.WORK, Stage.FLIP, Stage.COMMIT})
_STAGE_TEXTS: Mapping[Stage, str] = {
    Stage.ASK: "asks all kproxies where they are",
    Stage.HOLD: "holds writes",
    Stage.WORK: "all writes are held",
    Stage.FLIP: "leads sessions to {to}",
    Stage.COMMIT: "commits",
    Stage.RELEASE: "releases writes: clients go on with {to}",
    Stage.UNDO: "goes back to {former}",
}
_WORK_TEXTS: Mapping[Work, str] = {
    Work.DRAIN: "ends open transactions",
    Work.COPY: "copies what was written last",
    Work.VERIFY: "compares it",
    Work.TRANSLATE: "translates the last positions",
}


@dataclass
class DriveResult:
    """What came of it. `held`: seconds from the first hold to the last answer of a release or undo, by this machine's
    clock; None if nothing was held by this driver. `answers`: the last one of each kproxy. `stages`: when each began,
    in seconds since the first hold."""

    end: End
    why: tuple[str, ...]
    entry: SwitchEntry
    answers: Mapping[str, ClusterReply]
    held: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)


class Drive:
    """One driver's run."""

    def __init__(
        self,
        plan: Plan,
        fleet: KproxyFleet,
        journal: EntryWriter,
        entry: SwitchEntry,
        works: Mapping[Work, HoldTask],
        say: Say = lambda _: None,
        limits: DriveTimeouts = TIMEOUTS,
    ) -> None:
        self._plan, self._journal, self._entry = plan, journal, entry
        self._fleet, self._kproxies = fleet, {one.name: one for one in fleet.all}
        self._works, self._say, self._limits = works, say, limits
        # Of which kproxy, or "". A signal handler may put something here whatever its thread is just doing.
        self._events: queue.SimpleQueue[tuple[str, Event | None]] = queue.SimpleQueue()
        self._asked: set[str] = set()
        self._due: dict[str, float] = {}
        self._silent: dict[str, float] = {}  # since when
        self._answers: dict[str, ClusterReply] = {}
        self._working: set[Work] = set()
        self._began: float | None = None  # the hold
        self._over: float | None = None
        self._entered = time.monotonic()
        self._stages: dict[str, float] = {}
        self.whole: Whole = begin(plan)

    def abort(self, why: str) -> None:
        """From any thread or a signal handler: go back, unless it is too late for that."""
        self._events.put(("", Abort(why)))

    def run(self) -> DriveResult:
        """Until it is over, one way or another."""
        self._enter(None)
        while True:
            now = wants(self.whole)
            if now.end is not None:
                return self._driven(now.end)
            if now.journal is not None:
                if not self._write(now.journal):
                    return self._driven(End.TAKEN_OVER)
                continue
            for name, command in now.requests.items():
                self._ask(name, command)
            if now.work is not None and now.work not in self._working:
                self._do(now.work)
            self._take(now.requests)

    def _driven(self, end: End) -> DriveResult:
        held = None if self._began is None else (self._over or time.monotonic()) - self._began
        known = {name: one.value for name, one in zip(self._plan.kproxies, self.whole.known, strict=True)}
        entry = self._entry
        if end in (End.RELEASED, End.UNDONE) and entry.decisions:
            entry = self._ended(entry)
        return DriveResult(end, self.whole.why, entry, self._answers, held, self._stages, known)

    def _ended(self, entry: SwitchEntry) -> SwitchEntry:
        try:
            return self._journal.write(replace(entry, ended=True))
        except KproxyError as error:
            self._say(f"the journal could not be told that it is over ({error}): --resume does that")
            return entry

    # Events

    def _take(self, requests: Mapping[str, Command | None]) -> None:
        """Wait for the next thing to happen, or to be due."""
        now = time.monotonic()
        until = self._until()
        free = [self._due.get(name, 0.0) for name in requests if name not in self._asked]
        due = min([until, now + 1.0, *free])
        try:
            who, event = self._events.get(timeout=max(0.001, due - now))
        except queue.Empty:
            if time.monotonic() >= until:
                self._step(Late(self._why_late()))
            return
        while True:
            self._asked.discard(who)
            if event is not None:
                self._step(event)
            try:
                who, event = self._events.get_nowait()
            except queue.Empty:
                return

    def _why_late(self) -> str:
        """What kproxies say that hinders them; "" if they say nothing."""
        said = [f"{name}: {one.problem}" for name, one in sorted(dict(self._answers).items()) if one.problem]
        return f"{self.whole.stage} took too long: {'; '.join(said)}" if said else ""

    def _step(self, event: Event) -> None:
        before = self.whole
        self.whole = step(before, event)
        for line in self.whole.why[len(before.why) :]:
            self._say(line)
        if self.whole.stage is not before.stage:
            self._enter(before.stage)

    def _enter(self, before: Stage | None) -> None:
        stage = self.whole.stage
        self._entered = time.monotonic()
        self._due.clear()
        self._silent.clear()
        if self._began is not None:
            self._stages[stage.value] = self._entered - self._began
        if before in _DECIDED and stage is Stage.ENDED:
            self._over = self._entered
        if stage in _STAGE_TEXTS:
            self._say(_STAGE_TEXTS[stage].format(to=self._plan.to, former=self._plan.former))

    def _until(self) -> float:
        """When the stage takes too long."""
        stage, limits = self.whole.stage, self._limits
        if stage in _HOLDING and self._began is not None:
            keep = (
                limits.reserve + len(self._kproxies) * _SECONDS_PER_KPROXY if stage in (Stage.HOLD, Stage.WORK) else 0.0
            )
            return self._began + max(self._plan.seconds - keep, self._plan.seconds / 2)
        return self._entered + (limits.last if stage in _DECIDED else limits.ask)

    # Effects

    def _write(self, record: Record) -> bool:
        """False if another driver has taken over."""
        entry = self._entry.decided(self._plan.driver, record)
        try:
            self._entry = self._journal.write(entry, max(1.0, self._until() - time.monotonic()))
        except ConfigError as error:
            self._say(str(error))
            return False
        except KproxyError as error:
            # Whether it is there, nobody knows: whoever resumes reads it.
            self._step(Late(f"the journal on the target could not be written: {error}"))
            return True
        self._step(Written(record))
        return True

    def _ask(self, name: str, command: Command | None) -> None:
        if name in self._asked or time.monotonic() < self._due.get(name, 0.0):
            return
        kproxy = self._kproxies[name]
        self._asked.add(name)
        if command is not None and command.do is Do.HOLD and self._began is None:
            self._began = time.monotonic()
        self._fleet.later(lambda: self._answer(kproxy, command))

    def _answer(self, kproxy: Kproxy, command: Command | None) -> None:
        """In a thread of the fleet's."""
        event: Event | None = None
        did = None if command is None else command.do
        try:
            cluster = kproxy.state() if command is None else kproxy.tell(command)
            self._answers[kproxy.name] = cluster
            event = Answer(kproxy.name, cluster.state, did)
        except CommandRefused as error:
            if error.cluster is not None:
                event = Answer(kproxy.name, error.cluster.state, did, str(error))
            else:
                event = self._silence(kproxy, error)
        except AdminError as error:
            event = self._silence(kproxy, error)
        except Exception as error:  # noqa: BLE001  # a defect of ours must not leave writes held
            traceback.print_exception(error)
            event = Abort(f"a defect of kproxy: {type(error).__name__}")
        if event is not None and not isinstance(event, Lost):
            self._silent.pop(kproxy.name, None)
        wait = self._limits.look if self.whole.stage is Stage.WORK else self._limits.poll
        self._due[kproxy.name] = time.monotonic() + wait
        self._events.put((kproxy.name, event))

    def _silence(self, kproxy: Kproxy, error: AdminError) -> Lost | None:
        """None while it may be only slow."""
        now = time.monotonic()
        since = self._silent.setdefault(kproxy.name, now)
        patience = self._limits.ask / 2 if self.whole.stage is Stage.ASK else self._limits.lost
        return Lost(kproxy.name, str(error)) if now - since >= patience else None

    def _do(self, work: Work) -> None:
        self._working.add(work)
        self._say(_WORK_TEXTS[work])
        until = self._until()

        def run() -> None:
            problem = ""
            try:
                self._works[work](until)
            except KproxyError as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001  # a defect of ours must not leave writes held
                traceback.print_exception(error)
                problem = f"a defect of kproxy: {type(error).__name__}: {error}"
            self._events.put(("", Worked(work, problem)))

        # A thread that nobody waits for: Spark may not answer any more.
        threading.Thread(target=run, name=f"kproxy switch: {work}", daemon=True).start()
