"""`--state-dir`: what is written is there after a restart; what is no good there is said in one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.proxy.app.statedir import StateDir
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.participant import ParticipantState, Phase

HELD = ParticipantState("blue", Phase.HELD, "x", "1", "blue", "green", 100.0, 120.0, 1)


def test_a_state_is_there_again(tmp_path: Path) -> None:
    directory = StateDir(tmp_path / "a" / "b")
    assert directory.read("one") is None
    directory.write("one", SavedState(HELD))
    directory.write("one", SavedState(ParticipantState("blue")))
    directory.write("two", SavedState(ParticipantState("green"), ended=True))
    directory.close()
    directory = StateDir(tmp_path / "a" / "b")
    one, two = directory.read("one"), directory.read("two")
    assert one is not None
    assert two is not None
    assert (one.state, one.ended) == (ParticipantState("blue"), False)
    assert (two.state, two.ended) == (ParticipantState("green"), True)
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {"lock", "cluster-one.json", "cluster-two.json"}
    assert (tmp_path / "a" / "b" / "cluster-one.json").stat().st_mode & 0o777 == 0o600
    directory.close()


def test_only_one_has_it(tmp_path: Path) -> None:
    first = StateDir(tmp_path)
    with pytest.raises(ConfigError, match="another kproxy uses it"):
        StateDir(tmp_path)
    first.close()
    StateDir(tmp_path).close()


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    directory.write("one", SavedState(HELD))
    (tmp_path / ".cluster-one.json.new").unlink()  # the room for the next state
    os.symlink("/dev/full", tmp_path / ".cluster-one.json.new")
    with pytest.raises(OSError, match=r"symbolic|Too many"):
        directory.write("one", SavedState(ParticipantState("green")))
    kept = directory.read("one")
    assert kept is not None
    assert kept.state == HELD
    (tmp_path / ".cluster-one.json.new").unlink()
    (tmp_path / ".cluster-one.json.new").write_bytes(b"x" * 10_000)  # of a kproxy that was killed
    directory.write("one", SavedState(ParticipantState("green")))
    assert (kept := directory.read("one")) is not None
    assert kept.state == ParticipantState("green")
    directory.close()


def as_directory(path: Path) -> None:
    path.mkdir()


def as_link(path: Path) -> None:
    (path.parent / "other").write_text("{}")
    path.symlink_to(path.parent / "other")


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [as_directory, as_link, as_pipe])
def test_what_is_no_file_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    directory = StateDir(tmp_path)
    make(tmp_path / "cluster-one.json")
    with pytest.raises(ConfigError, match=r"cluster-one\.json") as raised:
        directory.read("one")
    assert len(raised.value.problems) == 1
    directory.close()


@pytest.mark.parametrize("what", ["file", "below", "lock"])
def test_a_directory_that_is_none_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "lock").mkdir()
    path = {"file": tmp_path / "file", "below": tmp_path / "file" / "x", "lock": tmp_path / "dir"}[what]
    with pytest.raises(ConfigError, match="--state-dir"):
        StateDir(path)
