"""The real machines of both sides in a world that does its worst: drivers, kproxies, files, a journal, a network.

A request that was sent once may arrive at any later time, any number of times, or never; so may that of a driver which
is dead. An answer arrives or is lost. A kproxy may be killed at any moment, also between writing its state down and
acting on it. A deadline may pass at any moment: no clock is in here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from kproxy.proxy.switching import asjson, coordinator, participant
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.participant import Command, Effect, ParticipantState, SwitchConditions, Transition
from kproxy.proxy.switching.twophase import (
    AbortRequested,
    CoordinatorEvent,
    CoordinatorOutcome,
    CoordinatorState,
    JournalDecision,
    NextActions,
    ParticipantLost,
    ParticipantReply,
    RecordWritten,
    StageTimedOut,
    SwitchPlan,
    Work,
    WorkFinished,
    driver_id,
    last_decision,
)

BLUE, GREEN, SWITCH = "blue", "green", "x"
# No hold in here was taken after a greater count than 0: all greater ones are as good as each other.
_MOST_COUNT = 1


@dataclass(frozen=True)
class Machines:
    """What is tried: the real ones, or with one of them broken."""

    obey: Callable[[ParticipantState, Command, SwitchConditions, float], Transition] = participant.apply
    settled: Callable[[ParticipantState, SwitchConditions], Transition] = participant.settle
    expired: Callable[[ParticipantState, float], Transition] = participant.expire
    restarted: Callable[[ParticipantState, float], Transition] = participant.restart
    begin: Callable[[SwitchPlan], CoordinatorState] = coordinator.begin
    step: Callable[[CoordinatorState, CoordinatorEvent], CoordinatorState] = coordinator.handle
    wants: Callable[[CoordinatorState], NextActions] = coordinator.next_actions
    last_decision: Callable[..., JournalDecision] = last_decision
    writes_first: bool = True


class Kproxy(NamedTuple):
    """`file`: the state as written. `held`, `leads`: what its sessions do. `unanswered`: a write is on its way to the
    upstream. `doubt`: a client may repeat a write that the upstream has."""

    file: ParticipantState
    state: ParticipantState
    held: bool
    leads: str
    unanswered: bool
    doubt: bool

    def takes(self, upstream: str) -> bool:
        """Whether a write may reach this upstream now."""
        return self.leads == upstream and (not self.held or self.unanswered)


class World(NamedTuple):
    """`sent`: by kproxy, each command that may still arrive. `drivers`: those that live, the last one begun last.
    `answers`: to a driver, on their way. `began`: how many drivers there were. `journal`: (driver, record). `copied`:
    the last records were copied. `dirty`: the old upstream took a write after that. `moved`: the new one took one.
    `quiet`: a driver has said that all went back."""

    kproxies: tuple[Kproxy, ...]
    sent: tuple[frozenset[Command], ...]
    drivers: tuple[CoordinatorState, ...] = ()
    answers: frozenset[tuple[int, ParticipantReply]] = frozenset()
    began: int = 0
    journal: frozenset[tuple[str, JournalDecision]] = frozenset()
    copied: bool = False
    dirty: bool = False
    moved: bool = False
    quiet: bool = False


class Spoilt(Exception):
    """Something happened that must never happen."""


@dataclass(frozen=True)
class Bounds:
    """How much may go wrong. `drivers`: one after another. `zombies`: a driver lives on when the next one begins.
    `kills`: kproxies are killed. `doubts`: writes of killed kproxies are repeated. `late_answers`: an answer may take a
    while; else it is there at once, or never."""

    kproxies: int = 3
    drivers: int = 2
    zombies: bool = False
    kills: bool = True
    doubts: bool = True
    late_answers: bool = False


@dataclass
class Model:
    """The world's rules."""

    machines: Machines = field(default_factory=Machines)
    bounds: Bounds = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        # All of them are pure: what has been asked once need not be asked again.
        self.obeyed = lru_cache(None)(self._obey)
        self._left_alone = lru_cache(None)(lambda kproxy: tuple(self._alone(kproxy)))
        self.restarted = lru_cache(None)(self._restarted)
        self._wants = lru_cache(None)(self.machines.wants)
        self._step = lru_cache(None)(lambda driver, event: replace(self.machines.step(driver, event), why=()))

    def first(self) -> World:
        kproxy = Kproxy(ParticipantState(BLUE), ParticipantState(BLUE), False, BLUE, True, False)
        return World((kproxy,) * self.bounds.kproxies, (frozenset(),) * self.bounds.kproxies)

    # One kproxy

    def _done(self, kproxy: Kproxy, step: Transition) -> Kproxy:
        kproxy = kproxy._replace(file=step.state, state=step.state)
        for effect in step.effects:
            kproxy = self._effect(kproxy, effect)
        return kproxy

    def _effect(self, kproxy: Kproxy, effect: Effect) -> Kproxy:
        match effect:
            case Effect.HOLD:
                return kproxy._replace(held=True)
            case Effect.FLIP:
                if kproxy.unanswered or kproxy.doubt:
                    raise Spoilt("sessions were led elsewhere while a write had no answer: it may be doubled")
                return kproxy._replace(leads=kproxy.state.active)
            case Effect.RELEASE:
                return kproxy._replace(held=False, unanswered=True)

    def _restarted(self, kproxy: Kproxy) -> Kproxy:
        """Killed, and begun again with its file."""
        kept = asjson.decode_state_file(asjson.encode_state_file("default", SavedState(kproxy.file)), "default")
        step = self.machines.restarted(kept.state, 0.0)
        doubt = self.bounds.doubts and (kproxy.doubt or kproxy.unanswered)
        begun = Kproxy(step.state, step.state, False, step.state.active, True, doubt)
        for effect in step.effects:
            begun = self._effect(begun, effect)
        return begun._replace(unanswered=not begun.held)

    def _facts(self, kproxy: Kproxy) -> SwitchConditions:
        return SwitchConditions(
            {BLUE: "", GREEN: ""}, "", int(kproxy.unanswered), ("a client",) if kproxy.doubt else ()
        )

    def _obey(self, kproxy: Kproxy, command: Command | None) -> tuple[tuple[Kproxy, ParticipantState, str], ...]:
        """Each way in which a command may end here: the kproxy, and what it answers."""
        if command is None:
            return ((kproxy, kproxy.state, ""),)
        step = self.machines.obey(kproxy.state, command, self._facts(kproxy), 0.0)
        step = replace(step, state=replace(step.state, count=min(step.state.count, _MOST_COUNT)))
        after = self._done(kproxy, step)
        ends = [(after, after.state, step.problem)]
        if self.bounds.kills and after != kproxy:
            half = (
                after._replace(file=kproxy.file) if not self.machines.writes_first else kproxy._replace(file=after.file)
            )
            ends.append((half, half.state, "killed"))
        return tuple(ends)

    def _alone(self, kproxy: Kproxy) -> Iterator[Kproxy]:
        """What happens to one kproxy without anybody's word."""
        if kproxy.held and kproxy.unanswered:
            yield kproxy._replace(unanswered=False)
        if kproxy.doubt:
            yield kproxy._replace(doubt=False)
        step = self.machines.settled(kproxy.state, self._facts(kproxy))
        if step.state != kproxy.state:
            yield self._done(kproxy, step)
        step = self.machines.expired(kproxy.state, 0.0)
        if step.state != kproxy.state:
            yield self._done(kproxy, step)
        if self.bounds.kills:
            again = self.restarted(kproxy)
            if again != kproxy:
                yield again

    # All of it

    def after(self, world: World) -> Iterator[tuple[str, World]]:
        """Each next world, and what happened."""
        for at, kproxy in enumerate(world.kproxies):
            for other in self._left_alone(kproxy):
                yield f"{at} {other.state.phase}", self.judged(_with(world, at, other))
            for command in world.sent[at] | {None}:
                yield from self._delivered(world, at, command)
        for at in range(len(world.drivers)):
            yield from self._driven(world, at)
        yield from self._another(world)

    def _delivered(self, world: World, at: int, command: Command | None) -> Iterator[tuple[str, World]]:
        what = "ask" if command is None else f"{command.type} of {command.driver}"
        for kproxy, answered, problem in self.obeyed(world.kproxies[at], command):
            if problem == "killed":
                # The effects and the file differ for a moment: others may see it so before it begins again.
                passing = self.judged(_with(world, at, kproxy))
                yield f"{at} killed at {what}", self.judged(_with(passing, at, self.restarted(kproxy)))
                continue
            there = self.judged(_with(world, at, kproxy))
            if there != world:
                yield f"{at} {what}, answer lost", there
            for number, driver in enumerate(world.drivers):
                wanted = self._wants(driver).requests
                name = driver.plan.kproxies[at]
                if name in wanted and wanted[name] == command:
                    answer = ParticipantReply(name, answered, None if command is None else command.type, problem)
                    yield f"{at} {what}, answered", self._told(there, number, answer)
                    if self.bounds.late_answers and all(
                        (number, name) != (to, one.kproxy) for to, one in world.answers
                    ):
                        yield f"{at} {what}, answered late", there._replace(answers=there.answers | {(number, answer)})

    def _driven(self, world: World, at: int) -> Iterator[tuple[str, World]]:
        driver = world.drivers[at]
        wants = self._wants(driver)
        if wants.end is not None:
            return
        if wants.journal is not None:
            entry = (driver.plan.driver, wants.journal)
            there = world._replace(journal=world.journal | {entry})
            yield f"journal {wants.journal}", self._told(there, at, RecordWritten(wants.journal))
            yield f"journal {wants.journal}, unheard", there
        if wants.work is not None:
            there = world._replace(copied=True, dirty=False) if wants.work is Work.COPY else world
            yield f"{wants.work}", self._told(self.judged(there), at, WorkFinished(wants.work))
            yield f"{wants.work} failed", self._told(world, at, WorkFinished(wants.work, "it failed"))
        for number, answer in world.answers:
            if number == at:
                there = world._replace(answers=world.answers - {(number, answer)})
                yield f"late answer of {answer.kproxy}", self._told(there, at, answer)
        for name in wants.requests:
            waited = frozenset(one for one in world.answers if (one[0], one[1].kproxy) != (at, name))
            yield f"lost {name}", self._told(world._replace(answers=waited), at, ParticipantLost(name))
        yield "late", self._told(world, at, StageTimedOut())
        yield "abort", self._told(world, at, AbortRequested())

    def _another(self, world: World) -> Iterator[tuple[str, World]]:
        """The next driver begins; the former one is dead, or does not know that it is not the last one."""
        if world.began == self.bounds.drivers or (world.began and not world.journal):
            return  # a driver takes over what it finds in the journal
        names = tuple(str(number) for number in range(self.bounds.kproxies))
        for abort in (False, True) if world.began else (False,):
            plan = SwitchPlan(
                SWITCH,
                driver_id(world.began + 1, "t"),
                names,
                BLUE,
                GREEN,
                work=(Work.COPY,),
                takes_over=world.began > 0,
                decided=self.machines.last_decision(sorted(world.journal)),
                abort=abort,
            )
            kept = world.drivers if self.bounds.zombies else ()
            answers = world.answers if self.bounds.zombies else frozenset()
            yield (
                f"driver {world.began + 1}{' aborts' if abort else ''}",
                self._sends(
                    world._replace(drivers=(*kept, self.machines.begin(plan)), answers=answers, began=world.began + 1)
                ),
            )

    def _told(self, world: World, at: int, event: CoordinatorEvent) -> World:
        before = world.drivers[at]
        driver = self._step(before, event)
        if driver == before:
            return world
        drivers = (*world.drivers[:at], driver, *world.drivers[at + 1 :])
        return self._sends(self._ended(world._replace(drivers=drivers), driver))

    def _ended(self, world: World, driver: CoordinatorState) -> World:
        if driver.end is CoordinatorOutcome.RELEASED and any(one.held or one.leads != GREEN for one in world.kproxies):
            raise Spoilt("a driver says that it is done, and a kproxy does not serve the new upstream")
        if driver.end is CoordinatorOutcome.UNDONE:
            if any(one.state.holds or one.leads != BLUE for one in world.kproxies):
                raise Spoilt("a driver says that it has gone back, and a kproxy has not")
            return world._replace(quiet=True)
        return world

    def _sends(self, world: World) -> World:
        sent = list(world.sent)
        for driver in world.drivers:
            for name, command in self._wants(driver).requests.items():
                if command is not None:
                    at = driver.plan.kproxies.index(name)
                    sent[at] = sent[at] | {command}
        return world._replace(sent=tuple(sent))

    def judged(self, world: World) -> World:
        old = any(kproxy.takes(BLUE) for kproxy in world.kproxies)
        moved = world.moved or any(kproxy.leads == GREEN and not kproxy.held for kproxy in world.kproxies)
        dirty = world.dirty or (world.copied and old)
        if moved and old:
            raise Spoilt("both upstreams take writes")
        if moved and (dirty or not world.copied):
            raise Spoilt("the new upstream takes writes, and does not have all of the old one's")
        if world.quiet and any(kproxy.state.holds for kproxy in world.kproxies):
            raise Spoilt("a kproxy holds writes for a switch that was undone everywhere")
        return world._replace(moved=moved, dirty=dirty)


def _with(world: World, at: int, kproxy: Kproxy) -> World:
    return world._replace(kproxies=(*world.kproxies[:at], kproxy, *world.kproxies[at + 1 :]))


class Numbers:
    """One small number for each value, so that kproxies can be put in an order."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def of(self, value: object) -> int:
        return self._known.setdefault(value, len(self._known))


def canonical(world: World, numbers: Numbers) -> World:
    """The same world with its kproxies in a fixed order: it does not matter which of them is which."""
    many = range(len(world.kproxies))
    keys = [
        numbers.of(
            (
                world.kproxies[at],
                world.sent[at],
                tuple((driver.phases[at], driver.counts[at]) for driver in world.drivers),
            )
        )
        for at in many
    ]
    order = sorted(many, key=keys.__getitem__)
    if order == list(many):
        return world

    def sorted_by(values: tuple) -> tuple:  # type: ignore[type-arg]
        return tuple(values[at] for at in order)

    drivers = tuple(
        replace(driver, phases=sorted_by(driver.phases), counts=sorted_by(driver.counts)) for driver in world.drivers
    )
    return world._replace(kproxies=sorted_by(world.kproxies), sent=sorted_by(world.sent), drivers=drivers)


def way_out(model: Model, world: World, *, abort: bool) -> None:
    """Let one more driver bring this world to an end in which everybody is there and nothing is lost. Raises Spoilt if
    that does not happen."""
    machines, names = model.machines, tuple(str(at) for at in range(len(world.kproxies)))
    driver = machines.begin(
        SwitchPlan(
            SWITCH,
            driver_id(99, "t"),
            names,
            BLUE,
            GREEN,
            work=(Work.COPY,),
            takes_over=True,
            decided=machines.last_decision(sorted(world.journal)),
            abort=abort,
        )
    )
    for _ in range(20):
        wants = machines.wants(driver)
        if wants.journal is not None:
            driver = machines.step(driver, RecordWritten(wants.journal))
        for name, command in wants.requests.items():
            at = int(name)
            after, answered, problem = model.obeyed(world.kproxies[at], command)[0]
            world = model.judged(_with(world, at, after))
            driver = machines.step(
                driver, ParticipantReply(name, answered, None if command is None else command.type, problem)
            )
    if driver.end not in (CoordinatorOutcome.RELEASED, CoordinatorOutcome.UNDONE):
        raise Spoilt(f"there is no way out: {driver.stage} {driver.end}")
    if any(one.held or one.leads != world.kproxies[0].leads for one in world.kproxies):
        raise Spoilt("the way out leads to different upstreams, or nowhere")


@dataclass
class Explored:
    worlds: int
    found: str = ""
    path: tuple[str, ...] = ()


def explore(model: Model, each: Callable[[World], None] = lambda world: None, most: int = 10**9) -> Explored:
    """Each world that can come about, the nearest first, until one is spoilt: then how it came about."""
    numbers = Numbers()
    first = canonical(model.first(), numbers)
    came: dict[World, tuple[World | None, str]] = {first: (None, "")}
    waiting = deque([first])
    while waiting and len(came) < most:
        world = waiting.popleft()
        steps = model.after(world)
        what = ""
        try:
            each(world)
            for what, following in steps:
                following = canonical(following, numbers)
                if following not in came:
                    came[following] = (world, what)
                    waiting.append(following)
        except Spoilt as spoilt:
            path = [f"after {what or 'the beginning'}"]
            at: World | None = world
            while at is not None:
                at, said = came[at]
                path.append(said)
            return Explored(len(came), str(spoilt), tuple(reversed(path)))
    return Explored(len(came))
