"""A switch whose state directory cannot be written: a file system that is full, and each call that fails.

What cannot be written is not done and is said, and writes wait no longer than was promised.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.app import statedir
from kproxy.proxy.switching.participant import Command, CommandType, Phase, SwitchOutcome
from tests.harness.smallfs import fill, small_file_system
from tests.unit.proxy.app.switchbench import COMMIT, FLIP, HOLD, RELEASE, Bench

SHORT = Command(CommandType.HOLD, "x", to="green", seconds=1)
UNDO = Command(CommandType.UNDO, "x")
Fails = Callable[[str], None]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "state")
    yield made
    made.switch.end()
    if made.directory is not None:
        made.directory.close()


class Os:
    """The module `os` as `statedir` has it. `call` fails from now on: "fsync" that of a file, "sync" that of the
    directory."""

    def __init__(self, call: str) -> None:
        self.call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _fail(self, *calls: str) -> None:
        if self.call in calls:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def fsync(self, descriptor: int) -> None:
        self._fail("sync" if os.path.isdir(f"/dev/fd/{descriptor}") else "fsync")
        os.fsync(descriptor)

    def replace(self, *args: Any, **more: Any) -> None:
        self._fail("replace")
        os.replace(*args, **more)

    def open(self, path: Any, flags: int, *args: Any, **more: Any) -> int:
        self._fail("read" if flags & os.O_ACCMODE == os.O_RDONLY else "open", "all")
        return os.open(path, flags, *args, **more)


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Fails:
    """Let a call of the operating system fail; "" ends that."""

    def make(call: str) -> None:
        monkeypatch.setattr(statedir, "os", Os(call))

    return make


async def gone_back(bench: Bench) -> None:
    """Until the switch has."""
    while bench.switch.state.holds:  # noqa: ASYNC110  # it tells nobody
        await asyncio.sleep(0.01)


CALLS = ["open", "fsync", "replace", "sync", "all"]


@pytest.mark.parametrize("call", CALLS)
async def test_what_cannot_be_written_is_not_done_and_is_said(
    bench: Bench, fails: Fails, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    bench.begin()
    fails(call)
    for _ in range(3):
        assert "Input/output error" in bench.switch.apply(HOLD)
    assert (bench.process.done, bench.switch.state.phase) == ([], Phase.SERVING)
    assert "Input/output error" in bench.switch.as_json()["problem"]
    assert "Input/output error" in bench.switch.status().problem
    assert bench.switch.status().stuck is False, "clients write"
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(said) == 1, "each problem once"
    fails("")
    bench.to(HOLD)
    assert bench.switch.as_json()["problem"] == ""
    fails(call)
    assert "Input/output error" in bench.switch.apply(FLIP)
    assert bench.process.done == [("hold", Phase.HOLDING)]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("phase", [Phase.HOLDING, Phase.HELD, Phase.FLIPPED])
async def test_writes_wait_no_longer_than_was_promised(bench: Bench, fails: Fails, call: str, phase: Phase) -> None:
    bench.begin()
    if phase is Phase.HOLDING:
        assert bench.switch.apply(HOLD) == ""
    else:
        bench.to(HOLD, *[FLIP][: phase is Phase.FLIPPED])
    bench.process.state = lambda: bench.switch.state
    fails(call)
    if phase is Phase.HOLDING:
        assert bench.process.settled is not None
        bench.process.settled()
        assert bench.switch.state.phase is Phase.HOLDING
    assert "Input/output error" in bench.switch.apply(UNDO)
    bench.switch._on_deadline()
    assert bench.process.done[-1][0] == "release"
    assert bench.switch.state.active == "blue"
    last = bench.switch.state.last
    assert last is not None
    assert last.outcome is SwitchOutcome.UNDONE
    assert "Input/output error" in bench.switch.as_json()["problem"]
    assert bench.switch.apply(UNDO) == "", "it is undone"
    fails("")
    # Another process, which finds what was there before, goes back too.
    bench.now += 21
    bench.begin()
    assert (bench.switch.state.phase, bench.switch.state.active) == (Phase.SERVING, "blue")
    assert bench.on_disk() == bench.switch.state
    again = bench.switch.apply(Command(CommandType.HOLD, "y", to="green", seconds=20))
    assert "clients may repeat writes" in again, "writes have passed since the state that it found"


async def test_it_writes_again_until_the_disk_has_what_is_so(bench: Bench, fails: Fails) -> None:
    bench.begin()
    bench.to(SHORT, FLIP)
    bench.process.state = lambda: bench.switch.state
    fails("fsync")
    await asyncio.wait_for(gone_back(bench), 60)
    assert bench.on_disk().phase is Phase.FLIPPED
    fails("")
    while bench.on_disk() != bench.switch.state:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert bench.switch.as_json()["problem"] == ""
    assert bench.switch.apply(Command(CommandType.HOLD, "y", to="green", seconds=20)) == ""


async def test_a_possibly_written_commit_survives_the_deadline(
    bench: Bench, fails: Fails, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process would find that it has committed, and may be told to release: nobody may write to the former
    upstream before."""
    bench.begin()
    bench.to(HOLD, FLIP)
    fails("sync")
    assert "Input/output error" in bench.switch.apply(COMMIT)
    fails("fsync")  # what is there stays there
    bench.switch._on_deadline()
    assert (bench.switch.state.phase, bench.on_disk().phase) == (Phase.FLIPPED, Phase.COMMITTED)
    assert "writes stay held" in caplog.text
    fails("")
    bench.switch._on_deadline()
    assert (bench.switch.state.phase, bench.on_disk().phase) == (Phase.SERVING, Phase.SERVING)


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
async def test_a_commit_that_is_not_on_disk_is_undone_by_the_deadline(bench: Bench, fails: Fails, call: str) -> None:
    bench.begin()
    bench.to(HOLD, FLIP)
    bench.process.state = lambda: bench.switch.state
    fails(call)
    assert "Input/output error" in bench.switch.apply(COMMIT)
    bench.switch._on_deadline()
    assert (bench.switch.state.phase, bench.switch.state.active) == (Phase.SERVING, "blue")


async def test_what_has_committed_waits_for_the_disk(bench: Bench, fails: Fails) -> None:
    bench.begin()
    bench.to(HOLD, FLIP, COMMIT)
    fails("fsync")
    for command in (RELEASE, Command(CommandType.UNDO, "x", force=True)):
        assert "Input/output error" in bench.switch.apply(command)
    assert bench.switch.status().stuck is True
    fails("")
    bench.to(RELEASE)


# A file system that is full


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "small") as path:
        yield path


@pytest.fixture
def full(small: Path) -> Iterator[Bench]:
    made = Bench(small / "state")
    yield made
    made.switch.end()
    assert made.directory is not None
    made.directory.close()


async def test_no_hold_begins_on_a_full_disk(full: Bench, small: Path) -> None:
    full.begin()
    filler = fill(small)
    assert "No space left on device" in full.switch.apply(HOLD)
    assert full.process.done == []
    assert "No space left on device" in full.switch.as_json()["problem"]
    filler.unlink()
    full.to(HOLD)


@pytest.mark.parametrize("commands", [(UNDO,), (FLIP, UNDO), (FLIP, COMMIT, RELEASE)])
async def test_a_hold_has_room_for_all_that_follows(full: Bench, small: Path, commands: tuple[Command, ...]) -> None:
    """Also if the disk gets full meanwhile, and each time that a state makes way for the next."""
    full.begin()
    full.to(HOLD)
    for command in commands:
        fill(small)
        full.to(command)
    assert full.on_disk() == full.switch.state
    assert full.switch.as_json()["problem"] == ""
    assert not [path for path in (small / "state").iterdir() if path.name.endswith(".new")], "no room is kept now"


async def test_a_full_disk_does_not_make_a_hold_longer(full: Bench, small: Path) -> None:
    """Somebody has taken the room that was kept, too."""
    full.begin()
    full.to(SHORT)
    (small / "state" / ".cluster-c.json.new").unlink()
    fill(small)
    assert "No space left on device" in full.switch.apply(UNDO)
    await asyncio.wait_for(gone_back(full), 60)
    assert full.process.done[-1] == ("release", Phase.HELD), "what is on the disk"
    assert "No space left on device" in full.switch.as_json()["problem"]
