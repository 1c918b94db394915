"""The switch of one cluster in a process: files first, then effects; deadlines; what a defect does to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.proxy.app.unitswitch import UnitSwitch
from kproxy.proxy.switching.doubts import ClientIdentity, Doubt
from kproxy.proxy.switching.participant import Command, CommandType, ParticipantState, Phase
from tests.unit.proxy.app.switchbench import COMMIT, FLIP, HOLD, RELEASE, Bench, Process


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
    (waiting,) = bench.switch.as_json()["waiting"]
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
    bench.to(Command(CommandType.HOLD, "x", to="green", seconds=1), FLIP)
    undone = asyncio.Event()
    bench.process.release_write_hold = lambda cluster: undone.set()  # type: ignore[method-assign]
    await asyncio.wait_for(undone.wait(), 60)
    assert bench.on_disk().active == "blue"


async def test_a_defect_stops_all_until_a_restart(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.begin()
    bench.to(HOLD)
    bench.process.fails = True
    bench.switch.apply(FLIP)
    for command in (FLIP, COMMIT, RELEASE, Command(CommandType.UNDO, "x", force=True)):
        assert "restart kproxy" in bench.switch.apply(command)
    assert bench.switch.status().problem
    assert [one.levelno for one in caplog.records if one.levelno > logging.ERROR] == [logging.CRITICAL]
    bench.begin()
    assert (bench.switch.state.phase, bench.switch.state.active) == (Phase.FLIPPED, "green")
    bench.to(COMMIT, RELEASE)


async def test_a_killed_process_leaves_doubts_and_a_graceful_one_none(bench: Bench) -> None:
    bench.begin()
    bench.begin()  # the first one was killed
    assert "clients may repeat writes for 310 s" in bench.switch.apply(HOLD)
    bench.now += 300
    assert bench.switch.apply(HOLD) == ""
    assert bench.process.settled is not None
    bench.process.settled()
    assert bench.switch.state.phase is Phase.HOLDING
    assert "may repeat writes" in bench.switch.apply(FLIP)
    bench.now += 11
    bench.switch._on_settled()
    assert bench.switch.state.phase is Phase.HELD
    bench.to(Command(CommandType.UNDO, "x"))
    bench.switch.end()
    bench.begin()
    assert bench.switch.apply(Command(CommandType.HOLD, "y", to="green", seconds=5)) == ""


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
    assert (kept.ended, kept.unsure) == ((True, 100.0) if why == "doubt" else (False, 0.0))


async def test_a_good_end_is_one_also_if_others_have_left_doubts(bench: Bench) -> None:
    """Of a process that was started without a state, say. The time that it has run counts."""
    bench.begin(settled=False)
    assert "for 310 s" in bench.switch.apply(HOLD)
    for left in (210, 110, 10):
        bench.now += 100
        bench.switch.end()
        kept = bench.directory and bench.directory.read("c")
        assert kept is not None
        assert (kept.ended, kept.unsure, kept.unknown, kept.fetched) == (True, left, left, ())
        bench.begin()
        assert bench.on_disk() == ParticipantState("blue")
    assert bench.switch.apply(HOLD) == "", "it waits for the last 10 s"
    bench.switch.end()


async def test_who_has_fetched_is_told_also_if_there_may_be_others(bench: Bench) -> None:
    bench.begin(settled=False)
    bench.process.known = (READER,)
    bench.now += 300
    bench.switch.end()
    bench.begin()
    assert bench.process.known == (READER,)
    bench.now += 20
    bench.to(HOLD, FLIP)
    assert bench.process.done[-1] == ("flip to green", Phase.FLIPPED)


async def test_a_start_that_fails_leaves_a_good_end(bench: Bench) -> None:
    """Such as one whose port is taken: its state was examined, and it has had no client."""
    bench.begin()
    bench.process.known = (READER,)
    bench.switch.end()
    assert bench.directory is not None
    before = bench.directory.read("c")
    another = UnitSwitch(
        "c", "blue", ["blue", "green"], bench.directory, bench.process, lambda: bench.now, lambda: False
    )
    another.write()
    another.end()
    assert bench.directory.read("c") == before
    assert before is not None
    assert before.ended


async def test_without_a_directory_nothing_is_held(tmp_path: Path) -> None:
    process = Process(lambda: ParticipantState("blue"))
    switch = UnitSwitch("c", "blue", ["blue", "green"], None, process, lambda: 0.0, lambda: False)
    switch.begin()
    assert "no --state-dir" in switch.apply(HOLD)
    assert switch.status().active == "blue"
    switch.end()


async def test_a_kproxy_that_stops_takes_no_hold(bench: Bench) -> None:
    bench.begin()
    bench.stopping[0] = True
    assert bench.switch.apply(HOLD) == "kproxy is stopping"


async def test_a_state_of_other_upstreams_stops_the_start(bench: Bench) -> None:
    bench.begin()
    bench.to(HOLD, FLIP, RELEASE)
    assert bench.directory is not None
    with pytest.raises(ConfigError, match="routed to or from upstream green, which the configuration does not have"):
        UnitSwitch("c", "blue", ["blue", "red"], bench.directory, bench.process, lambda: 0.0, lambda: False)


READER = ClientIdentity("10.0.0.2", "reader")


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
    assert (kept.ended, kept.unknown) == (True, 310), "nor does the next process know"


async def test_who_does_not_come_again_for_long_has_given_up(bench: Bench) -> None:
    bench.begin()
    bench.begin()  # the first one was killed
    bench.now += 311
    bench.to(HOLD, FLIP)
    assert bench.process.done[-1] == ("flip to green", Phase.FLIPPED)


async def test_names_that_are_too_long_to_be_kept_hinder_no_start(bench: Bench) -> None:
    """A file of that size would not be read: kproxy could not be started again."""
    bench.begin()
    bench.process.known = tuple(
        ClientIdentity(f"10.0.{at // 250}.{at % 250}", "\U0001f600" * 100) for at in range(2000)
    )
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
    among = UnitSwitch(
        "c", "blue", ["blue", "green"], bench.directory, bench.process, lambda: bench.now, lambda: False,
        among_clients=True,
    )  # fmt: skip
    among.begin()
    assert "clients may repeat writes" in among.apply(HOLD)
    assert among._fetched_unknown_until == bench.now + 310
    among.end()
