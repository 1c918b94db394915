"""The commands: what cannot be given together, what is missing, and what each exit code says."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.commands.group import migrate
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry
from kproxy.migrate.switch import finish, operations, resumption
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.report import SwitchResult, describe_reverse_copy
from kproxy.proxy.switching.twophase import CoordinatorOutcome, JournalDecision

BOTH = "source: {bootstrap-servers: a:9092}\ntarget: {bootstrap-servers: b:9092}\n"
SECTION = "switch: {kproxies: ['127.0.0.1:1'], target-upstream: green}\n"


def run(*words: str) -> int:
    return int(migrate.main(list(words), prog_name="x", standalone_mode=False) or 0)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "move.yaml"
    path.write_text(BOTH + SECTION)
    return str(path)


def switching(monkeypatch: pytest.MonkeyPatch, result: SwitchResult) -> None:
    """What a switch comes to, without clusters."""
    monkeypatch.setattr(operations, "open_context", lambda *_: nullcontext())
    monkeypatch.setattr(operations, "switch_clients", lambda *_, **__: result)
    monkeypatch.setattr(resumption, "open_target", lambda *_: nullcontext(""))
    monkeypatch.setattr(resumption, "read_last_switch", lambda *_: None)


@pytest.mark.parametrize(
    "words",
    [
        ["--resume", "--abort"],
        ["--dry-run", "--resume"],
        ["--reversible", "--abort"],
        ["--lost", "kp"],
        ["--dry-run", "--lost", "kp"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_given_together(file: str, words: list[str]) -> None:
    with pytest.raises(ConfigError, match="allowed: one of --dry-run, --resume and --abort"):
        run("switch", file, *words)


WAVES = "waves: {orders: {clients: [shop], topics: [orders]}}\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["switch", "--wave", "x"], "--wave x: the file has no such wave; it has orders"),
        (["switch", "--wave", "orders", "--only", "group=g"], "--only: allowed with"),
        (["switch", "--wave", "orders", "--resume"], "--wave: not with --resume or --abort"),
        (["switch", "--allow-split-readers"], "--allow-split-readers: allowed with --only or --wave"),
        (["rollback", "--wave", "orders", "--only", "group=g"], "--wave and --only: allowed: one of them"),
    ],
    ids=str,
)
def test_what_cannot_be_given_with_a_wave(tmp_path: Path, words: list[str], problem: str) -> None:
    file = tmp_path / "move.yaml"
    file.write_text(BOTH + SECTION + WAVES)
    with pytest.raises(ConfigError, match=problem):
        run(words[0], str(file), *words[1:])


def test_a_copy_of_one_wave_goes_back(file: str) -> None:
    with pytest.raises(click.UsageError, match="--wave: allowed with --reverse"):
        run("copy", file, "--wave", "orders")


@pytest.mark.parametrize("command", ["switch", "finish"])
def test_a_file_without_the_section(tmp_path: Path, command: str) -> None:
    (tmp_path / "m.yaml").write_text(BOTH)
    with pytest.raises(ConfigError, match="the file has no section 'switch'; allowed: switch"):
        run(command, str(tmp_path / "m.yaml"))


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (CoordinatorOutcome.RELEASED, 0, "next: set 'active: green'"),
        (CoordinatorOutcome.UNDONE, 3, "next: kproxy migrate copy FILE --follow restarts the copy"),
        (CoordinatorOutcome.INCOMPLETE, 4, "next: kproxy migrate switch FILE --resume continues it"),
        (CoordinatorOutcome.TAKEN_OVER, 4, "another driver has taken over"),
    ],
    ids=str,
)
def test_exit_codes(
    file: str,
    end: CoordinatorOutcome,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    entry = SwitchEntry("x1", SWITCHING, "default", "blue", "green", ("kp",)).with_decision(
        "000001-a", JournalDecision.BEGUN
    )
    switching(monkeypatch, SwitchResult(DriveResult(end, (), entry, {}, 1.5)))
    assert run("switch", file) == code
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(("stopped", "code"), [(True, 1), (False, 0)])
def test_nothing_was_held(file: str, stopped: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    switching(monkeypatch, SwitchResult(None, "said", stopped))
    assert run("switch", file, "--dry-run") == code


@pytest.mark.parametrize(("stays", "code"), [([], 0), (["topic x"], 1)], ids=["all", "some"])
def test_finish(
    file: str, stays: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(finish, "run_finish", lambda *_, **__: stays)
    assert run("finish", file) == code
    assert capsys.readouterr().out == "".join(f"stays: {one}\n" for one in stays)


# One way to go on


class Interrupted:
    """A migration whose last switch or rollback is this one, without clusters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, entry: SwitchEntry) -> None:
        self.entry, self.resumed = entry, list[bool]()
        monkeypatch.setattr(resumption, "open_target", lambda *_: nullcontext(""))
        monkeypatch.setattr(resumption, "read_last_switch", lambda *_: self.entry)
        monkeypatch.setattr(operations, "resume_or_abort", self._resume)
        monkeypatch.setattr(operations, "open_context", lambda *_: nullcontext())
        monkeypatch.setattr(operations, "switch_clients", lambda *_, **__: SwitchResult(None, "a new one"))
        monkeypatch.setattr(operations, "roll_back_clients", lambda *_, **__: SwitchResult(None, "a new one"))

    def _resume(self, *_: object, abort: bool, lost: object, wave: str = "") -> SwitchResult:
        self.resumed.append(abort)
        return SwitchResult(None, "it was continued")


BEGUN = SwitchEntry(
    "x1", SWITCHING, "default", "blue", "green", ("kp",), ((("000001-a"), JournalDecision.BEGUN.value),),
    reversible=True, at=time.time_ns() // 1_000_000, host=platform.node(), pid=os.getpid(),
)  # fmt: skip
MOVED = replace(BEGUN, decisions=(("000001-a", JournalDecision.RELEASED.value),), ended=True)


@pytest.mark.parametrize(
    ("entry", "words", "aborts", "says"),
    [
        (BEGUN, ["switch"], [False], "nothing was decided, and clients may write only to blue"),
        (replace(MOVED, ended=False), ["switch"], [False], "it was decided to move clients to green"),
        (BEGUN, ["rollback"], [True], "nothing was decided"),
        (replace(BEGUN, what=ROLLBACK), ["rollback"], [False], "rollback x1 of process"),
        (MOVED, ["switch", "--reversible"], [False], "it was continued"),
        (MOVED, ["switch"], [], "a new one"),
        (replace(BEGUN, ended=True), ["switch"], [], "a new one"),
        (BEGUN, ["switch", "--dry-run"], [], "a new one"),
        (BEGUN, ["rollback", "--dry-run"], [], "no: rollback would abort that first"),
    ],
)
def test_the_same_command_continues_what_was_interrupted(
    file: str,
    entry: SwitchEntry,
    words: list[str],
    aborts: list[bool],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its driver was this process, as in a container that is started again."""
    site = Interrupted(monkeypatch, entry)
    run(words[0], file, *words[1:])
    assert site.resumed == aborts
    shown = capsys.readouterr()
    assert says in shown.out + shown.err


def test_the_copy_back_of_a_wave_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "move.yaml"
    file.write_text(BOTH + SECTION + WAVES)
    wave = replace(MOVED, cluster="default/wave-orders", wave="orders", topics=("orders",), clients=("shop",))
    site = Interrupted(monkeypatch, wave)
    run("switch", str(file), "--wave", "orders", "--reversible")
    assert site.resumed == [False]
    site.entry = replace(wave, reversible=False)
    run("switch", str(file), "--wave", "orders", "--reversible")  # which says that the wave has moved
    run("switch", str(file), "--reversible")  # of all others
    assert site.resumed == [False]


@pytest.mark.parametrize("what", [SWITCHING, ROLLBACK])
def test_a_driver_that_may_live_is_not_taken_over_by_accident(
    file: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        now_ms = time.time_ns() // 1_000_000
        site = Interrupted(monkeypatch, replace(BEGUN, what=what, pid=other.pid, at=now_ms))
        with pytest.raises(
            ConfigError, match=rf"process {other.pid} on .* may still drive it: wait for its end, or run"
        ):
            run(what, file)
        site.entry = replace(site.entry, at=site.entry.at - 120_000)
        run(what, file)
        other.communicate()
    site.entry = replace(site.entry, at=now_ms)
    run(what, file)
    assert site.resumed == [False, False]
    site.entry = replace(site.entry, host="another")
    with pytest.raises(ConfigError, match="on another, which wrote to the journal"):
        run(what, file)


class FakeCopy:
    """A copy back that ends at once."""

    def __init__(self, *_: object) -> None:
        self.said: list[str] = []

    def resume(self) -> None:
        self.said.append("resumed")

    def wait(self) -> None:
        self.said.append("waited")

    def close(self) -> None:
        self.said.append("closed")


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of a reversible switch has ended after it, and with it the copy back."""
    monkeypatch.setattr(resumption, "open_target", lambda *_: nullcontext(""))
    monkeypatch.setattr(resumption, "open_fleet", lambda *_: nullcontext())
    monkeypatch.setattr(resumption, "resume_drive", lambda *_, **__: None)
    monkeypatch.setattr(resumption, "read_last_switch", lambda *_: MOVED)
    monkeypatch.setattr(resumption, "_describe_copies", lambda *_: describe_reverse_copy(None, MOVED))


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("words", [["--resume"], ["--abort"], ["--reversible"]], ids=str)
def test_the_copy_back_is_started_again(
    file: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resumption, "open_context", lambda *_: nullcontext(Mock()))
    copy = FakeCopy()
    monkeypatch.setattr(resumption, "ReverseCopy", Mock(return_value=copy, wait=FakeCopy.wait))
    assert run("switch", file, *words) == 0
    assert copy.said == ["resumed", "waited", "closed"]
    shown = capsys.readouterr().out.splitlines()
    assert shown[1:3] == [
        "clients: all are on green, the target",
        "running: this command, which copies back what clients write to the target, until Ctrl-C",
    ]
    assert shown[3].startswith("next: kproxy migrate rollback FILE moves clients back")
    assert len(shown) == 4


@pytest.mark.usefixtures("stopped")
def test_the_copy_back_cannot_be_started_again(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ConfigError("pyspark is not installed")

    monkeypatch.setattr(resumption, "open_context", fail)
    assert run("switch", file, "--resume") == 0
    shown = capsys.readouterr()
    assert "the copy back could not be started again: pyspark is not installed" in shown.err
    assert "running: no copy" in shown.out
    assert "next: kproxy migrate copy FILE --reverse --follow resumes it" in shown.out
