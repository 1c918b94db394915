"""The switch of one cluster in a process: files first, then effects; deadlines; what a disk and a defect do to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kproxy.app.statedir import StateDir
from kproxy.app.switch import Standing, Switch
from kproxy.errors import ConfigError
from kproxy.switching.doubts import Doubt, Identity
from kproxy.switching.positions import Waiting
from kproxy.switching.state import Command, Do, Phase, State

HOLD = Command(Do.HOLD, "x", to="green", seconds=20)


@dataclass
class Process:
    """Effects, as they come; `state()` is what was on the disk then."""

    state: Callable[[], State]
    done: list[tuple[str, Phase]] = field(default_factory=list)
    unanswered: int = 0
    held: int = 0
    doubts: Sequence[Doubt] = ()
    settled: Callable[[], None] | None = None
    fails: bool = False
    known: tuple[Identity, ...] | None = ()

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

    def fetched(self, cluster: str) -> tuple[Identity, ...] | None:
        return self.known

    def know(self, cluster: str, fetched: Sequence[Identity]) -> None:
        self.known = tuple(fetched)

    def guard_everyone(self, cluster: str) -> None:
        self.done.append(("guard", self.state().phase))

    def writes(self, cluster: str) -> Process:
        return self

    def waiting(self, cluster: str) -> Sequence[Waiting]:
        return [Waiting(Identity("10.0.0.2", "reader"), b"t", 0, 5, 0.0)]

    def upstreams(self, cluster: str) -> Mapping[str, Standing]:
        return {"blue": Standing("b", ""), "green": Standing("g", "")}


@dataclass
class Bench:
    """One process after another with the same directory. `now` is their clock."""

    path: Path
    now: float = 1000.0
    directory: StateDir | None = None
    process: Process = field(init=False)
    switch: Switch = field(init=False)

    def begin(self, *, settled: bool = True) -> Switch:
        if self.directory is not None:
            self.directory.close()
        directory = self.directory = StateDir(self.path)
        if settled and directory.read("c") is None:
            directory.write("c", State("blue"), ended=True)
        self.process = Process(self.on_disk)
        stopping = [False]
        self.switch = Switch(
            "c", "blue", ["blue", "green"], directory, self.process, lambda: self.now, lambda: stopping[0]
        )
        self.stopping = stopping
        self.switch.begin()
        return self.switch

    def on_disk(self) -> State:
        assert self.directory is not None
        kept = self.directory.read("c")
        assert kept is not None
        return kept.state

    def to(self, *commands: Command) -> None:
        for command in commands:
            assert self.switch.obey(command) == ""
            if command.do is Do.HOLD:
                assert self.process.settled is not None
                self.process.settled()


FLIP, COMMIT, RELEASE = (Command(do, "x") for do in (Do.FLIP, Do.COMMIT, Do.RELEASE))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "state")
    yield made
    made.switch.end()
    if made.directory is not None:
        made.directory.close()


async def test_each_effect_comes_after_its_file(bench: Bench) -> None:
    bench.begin()
    bench.to(HOLD, FLIP, COMMIT, RELEASE)
    assert bench.process.done == [
        ("hold", Phase.HOLDING), ("flip to green", Phase.FLIPPED), ("release", Phase.SERVING),
    ]  # fmt: skip
    assert bench.on_disk().active == "green"
    assert bench.switch.status().waiting == 1
    (waiting,) = bench.switch.shown()["waiting"]
    assert (waiting["client"], waiting["topic"], waiting["offset"]) == ("reader", "t", 5)


@pytest.mark.parametrize("commands", [(HOLD,), (HOLD, FLIP), (HOLD, FLIP, COMMIT)])
async def test_a_process_goes_on_where_the_one_before_was(bench: Bench, commands: Sequence[Command]) -> None:
    bench.begin()
    bench.to(*commands)
    before = bench.switch.state
    bench.begin()
    assert bench.switch.state == before
    assert [what for what, _ in bench.process.done] == ["hold"] + ["guard"] * (len(commands) > 1)
    bench.to(*(FLIP, COMMIT, RELEASE)[len(commands) - 1 :])
    assert bench.on_disk().active == "green"


async def test_a_deadline_that_passed_meanwhile_has_undone_it(bench: Bench) -> None:
    bench.begin()
    bench.to(HOLD, FLIP)
    bench.now += 30
    bench.begin()
    assert bench.switch.state.active == "blue"
    assert bench.process.done == [("guard", Phase.SERVING)]
    assert bench.on_disk() == bench.switch.state


async def test_the_deadline_undoes_it(bench: Bench) -> None:
    bench.begin()
    bench.to(Command(Do.HOLD, "x", to="green", seconds=1), FLIP)
    undone = asyncio.Event()
    bench.process.release_write_hold = lambda cluster: undone.set()  # type: ignore[method-assign]
    await asyncio.wait_for(undone.wait(), 60)
    assert bench.on_disk().active == "blue"


async def test_what_cannot_be_written_is_not_done(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.begin()
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(StateDir, "write", lambda *_, **__: (_ for _ in ()).throw(full))
    assert "No space left on device" in bench.switch.obey(HOLD)
    assert (bench.process.done, bench.switch.state.phase) == ([], Phase.SERVING)
    monkeypatch.undo()
    bench.to(HOLD)
    monkeypatch.setattr(StateDir, "write", lambda *_, **__: (_ for _ in ()).throw(full))
    assert "No space left on device" in bench.switch.obey(FLIP)
    bench.switch._expire()
    assert bench.switch.state.phase is Phase.HELD
    assert bench.process.done == [("hold", Phase.HOLDING)]
    monkeypatch.undo()
    bench.switch._expire()
    assert bench.process.done[-1] == ("release", Phase.SERVING)


async def test_a_defect_stops_all_until_a_restart(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.begin()
    bench.to(HOLD)
    bench.process.fails = True
    bench.switch.obey(FLIP)
    for command in (FLIP, COMMIT, RELEASE, Command(Do.UNDO, "x", force=True)):
        assert "restart kproxy" in bench.switch.obey(command)
    assert bench.switch.status().problem
    assert [one.levelno for one in caplog.records if one.levelno > logging.ERROR] == [logging.CRITICAL]
    bench.begin()
    assert (bench.switch.state.phase, bench.switch.state.active) == (Phase.FLIPPED, "green")
    bench.to(COMMIT, RELEASE)


async def test_a_killed_process_leaves_doubts_and_one_that_ends_well_none(bench: Bench) -> None:
    bench.begin()
    bench.begin()  # the first one was killed
    assert "clients may repeat writes for 310 s" in bench.switch.obey(HOLD)
    bench.now += 300
    assert bench.switch.obey(HOLD) == ""
    assert bench.process.settled is not None
    bench.process.settled()
    assert bench.switch.state.phase is Phase.HOLDING
    assert "may repeat writes" in bench.switch.obey(FLIP)
    bench.now += 11
    bench.switch._settle()
    assert bench.switch.state.phase is Phase.HELD
    bench.to(Command(Do.UNDO, "x"))
    bench.switch.end()
    bench.begin()
    assert bench.switch.obey(Command(Do.HOLD, "y", to="green", seconds=5)) == ""


@pytest.mark.parametrize("why", ["unanswered", "doubt", "held"])
async def test_an_end_that_leaves_something_does_not_say_otherwise(bench: Bench, why: str) -> None:
    bench.begin()
    if why == "unanswered":
        bench.process.unanswered = 1
    elif why == "doubt":
        bench.process.doubts = (Doubt("c", "10.0.0.1", "1", 1.0, 100.0),)
    else:
        bench.to(HOLD)
    bench.switch.end()
    assert bench.directory is not None
    kept = bench.directory.read("c")
    assert kept is not None
    assert kept.ended is False


async def test_without_a_directory_nothing_is_held(tmp_path: Path) -> None:
    process = Process(lambda: State("blue"))
    switch = Switch("c", "blue", ["blue", "green"], None, process, lambda: 0.0, lambda: False)
    switch.begin()
    assert "no --state-dir" in switch.obey(HOLD)
    assert switch.status().active == "blue"
    switch.end()


async def test_a_kproxy_that_stops_takes_no_hold(bench: Bench) -> None:
    bench.begin()
    bench.stopping[0] = True
    assert bench.switch.obey(HOLD) == "kproxy is stopping"


async def test_a_state_of_other_upstreams_stops_the_start(bench: Bench) -> None:
    bench.begin()
    bench.to(HOLD, FLIP, RELEASE)
    assert bench.directory is not None
    with pytest.raises(ConfigError, match="led to or from upstream green, which the configuration does not have"):
        Switch("c", "blue", ["blue", "red"], bench.directory, bench.process, lambda: 0.0, lambda: False)


READER = Identity("10.0.0.2", "reader")


async def test_who_has_fetched_the_next_process_is_told(bench: Bench) -> None:
    bench.begin()
    bench.process.known = (READER,)
    bench.switch.end()
    bench.begin()
    assert bench.process.known == (READER,)
    bench.to(HOLD, FLIP)
    assert bench.process.done[-1] == ("flip to green", Phase.FLIPPED)


@pytest.mark.parametrize("killed", [True, False])
async def test_if_nobody_knows_who_has_fetched_everyone_is_guarded(bench: Bench, killed: bool) -> None:
    """A process that was killed told nobody, and there may be too many to tell. A client that fetched through it may
    come back only behind the switch."""
    bench.begin()
    if killed:
        bench.to(HOLD)
    else:
        bench.process.known = None
        bench.switch.end()
    bench.begin()
    if not killed:
        bench.to(HOLD)
    bench.to(FLIP)
    assert bench.process.done[-1] == ("flip to green, guarding everyone", Phase.FLIPPED)
    bench.to(COMMIT, RELEASE)
    bench.switch.end()
    kept = bench.directory and bench.directory.read("c")
    assert kept is not None
    assert (kept.ended, kept.fetched) == (True, None), "nor does the next process know"


async def test_who_does_not_come_again_for_long_has_given_up(bench: Bench) -> None:
    bench.begin()
    bench.begin()  # the first one was killed
    bench.now += 311
    bench.to(HOLD, FLIP)
    assert bench.process.done[-1] == ("flip to green", Phase.FLIPPED)


async def test_names_that_are_too_long_to_be_kept_hinder_no_start(bench: Bench) -> None:
    """A file of that size would not be read: kproxy could not be started again."""
    bench.begin()
    bench.process.known = tuple(Identity(f"10.0.{at // 250}.{at % 250}", "\U0001f600" * 100) for at in range(2000))
    bench.switch.end()
    assert bench.directory is not None
    kept = bench.directory.read("c")
    assert kept is not None
    assert (kept.ended, kept.fetched) == (True, None)
    bench.begin()
    bench.to(HOLD, FLIP)
    assert bench.process.done[-1] == ("flip to green, guarding everyone", Phase.FLIPPED)


async def test_an_end_from_before_its_clients_says_nothing_of_them(bench: Bench) -> None:
    """A cluster that gets its second upstream by a reload has had clients whom nobody has noted."""
    bench.begin()
    bench.switch.end()
    among = Switch(
        "c", "blue", ["blue", "green"], bench.directory, bench.process, lambda: bench.now, lambda: False,
        among_clients=True,
    )  # fmt: skip
    among.begin()
    assert "clients may repeat writes" in among.obey(HOLD)
    assert among._knows_from == bench.now + 310
    among.end()
