"""The commands: what cannot be given together, what is missing, and what each exit code says."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.commands.group import migrate
from kproxy.migrate.journal.switch_journal import SWITCHING, SwitchEntry
from kproxy.migrate.switch import finish, operations
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.report import SwitchResult
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
