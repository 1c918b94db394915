"""The switch of one cluster in one process after another, with effects that are only noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kproxy.proxy.app.effects import PortSharers, UpstreamState
from kproxy.proxy.app.statedir import StateDir
from kproxy.proxy.app.unitswitch import UnitSwitch
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.doubts import ClientIdentity, Doubt
from kproxy.proxy.switching.participant import Command, CommandType, ParticipantState, Phase
from kproxy.proxy.switching.positions import WaitingConsumer

HOLD = Command(CommandType.HOLD, "x", to="green", seconds=20)


@dataclass
class Process:
    """Effects, as they come; `state()` is what was on the disk then."""

    state: Callable[[], ParticipantState]
    done: list[tuple[str, Phase]] = field(default_factory=list)
    unanswered: int = 0
    held: int = 0
    doubts: Sequence[Doubt] = ()
    settled: Callable[[], None] | None = None
    fails: bool = False
    known: tuple[ClientIdentity, ...] | None = ()

    def _note(self, what: str) -> None:
        if self.fails:
            raise RuntimeError("a defect")
        self.done.append((what, self.state().phase))

    def begin_write_hold(self, cluster: str, on_settled: Callable[[], None]) -> None:
        self._note("hold")
        self.settled = on_settled

    def release_write_hold(self, cluster: str) -> None:
        self._note("release")

    def flip(self, cluster: str, to: str, *, everyone: bool) -> None:
        assert self.state().active == to
        self._note(f"flip to {to}" + (", guarding everyone" if everyone else ""))

    def fetched(self, cluster: str) -> tuple[ClientIdentity, ...] | None:
        return self.known

    def restore_fetched(self, cluster: str, fetched: Sequence[ClientIdentity]) -> None:
        self.known = tuple(fetched)

    def guard_everyone(self, cluster: str) -> None:
        self.done.append(("guard", self.state().phase))

    def writes(self, cluster: str) -> Process:
        return self

    def waiting(self, cluster: str) -> Sequence[WaitingConsumer]:
        return [WaitingConsumer(ClientIdentity("10.0.0.2", "reader"), b"t", 0, 5, 0.0)]

    def upstreams(self, cluster: str) -> Mapping[str, UpstreamState]:
        return {"blue": UpstreamState("b", ""), "green": UpstreamState("g", "")}

    def port_sharers(self, cluster: str) -> PortSharers:
        return PortSharers()


@dataclass
class Bench:
    """One process after another with the same directory. `now` is their clock."""

    path: Path
    now: float = 1000.0
    directory: StateDir | None = None
    process: Process = field(init=False)
    switch: UnitSwitch = field(init=False)

    def begin(self, *, settled: bool = True) -> UnitSwitch:
        if self.directory is not None:
            self.directory.close()
        directory = self.directory = StateDir(self.path)
        if settled and directory.read("c") is None:
            directory.write("c", SavedState(ParticipantState("blue"), ended=True, fetched=()))
        self.process = Process(self.on_disk)
        stopping = [False]
        self.switch = UnitSwitch(
            "c", "blue", ["blue", "green"], directory, self.process, lambda: self.now, lambda: stopping[0]
        )
        self.stopping = stopping
        self.switch.begin()
        return self.switch

    def on_disk(self) -> ParticipantState:
        assert self.directory is not None
        kept = self.directory.read("c")
        assert kept is not None
        return kept.state

    def to(self, *commands: Command) -> None:
        for command in commands:
            assert self.switch.apply(command) == ""
            if command.type is CommandType.HOLD:
                assert self.process.settled is not None
                self.process.settled()


FLIP, COMMIT, RELEASE = (Command(do, "x") for do in (CommandType.FLIP, CommandType.COMMIT, CommandType.RELEASE))
