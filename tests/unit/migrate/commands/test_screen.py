"""What a person reads of a switch, and what only the log file has."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from kproxy.base.diagnostic import NOTE, WARNING, Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.migrate.commands.screen import Screen, _LogFileHandler, open_screen
from kproxy.migrate.copy.sparksession import _children_print_to

GROUPS = [Diagnostic(WARNING, f"group g{number}", "is excluded by the file", why="") for number in range(21)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "move.yaml"


def test_steps_and_each_finding_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_screen("switch", "eu-move", file, None) as screen:
        screen.report(GROUPS)
        screen.report([*GROUPS, Diagnostic(NOTE, "kproxies", "3 replied")])
        screen.log("holding \x1b[31mwrites")
        screen.result("yes: it can be done")
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "warning: group g0, g1, g2 and 18 more: is excluded by the file",
        "note: kproxies: 3 replied",
        "yes: it can be done",
    ]
    log, step = (line.partition(" ")[2] for line in shown.err.splitlines())
    assert log == f"log file: {file.parent / 'kproxy-migration-eu-move.log'}"
    assert step == "holding \\x1b[31mwrites"
    text = (file.parent / "kproxy-migration-eu-move.log").read_text()
    assert text.count("warning: group g20: is excluded by the file\n") == 2
    assert "yes: it can be done\n" in text


def test_a_program_reads_only_the_result(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_screen("switch", "eu-move", file, None, plain=True) as screen:
        screen.report(GROUPS)
    assert capsys.readouterr().out == ""


def test_libraries_warnings_and_errors_are_in_the_log_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file.parent / "other.log"
    root, shows = list(logging.getLogger().handlers), warnings.showwarning

    def fail() -> None:
        with open_screen("switch", "eu-move", file, path), warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.getLogger("kafka").warning("a broker is slow")
            warnings.warn("is old", DeprecationWarning, stacklevel=1)
            raise ConfigError("the source is gone")

    with pytest.raises(ConfigError, match="is gone"):
        fail()
    text = path.read_text()
    assert all(words in text for words in ("a broker is slow", "is old", "error: the source is gone"))
    assert "slow" not in capsys.readouterr().err
    assert logging.getLogger().handlers == root
    assert warnings.showwarning is shows


def test_what_a_child_prints_is_in_the_log_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", "import sys; print('Ivy'); print('WARN', file=sys.stderr)"]
    with (tmp_path / "log").open("a") as log:
        with _children_print_to(log):
            subprocess.run(command, check=True, timeout=60)
        subprocess.run(command, check=True, timeout=60)
    assert sorted((tmp_path / "log").read_text().split()) == ["Ivy", "WARN"]
    assert capfd.readouterr() == ("Ivy\n", "WARN\n")


def test_the_log_file_is_continued(file: Path) -> None:
    for number in range(2):
        with open_screen("switch", "m", file, None) as screen:
            screen.log(f"step {number}")
    text = (file.parent / "kproxy-migration-m.log").read_text()
    assert "step 0" in text
    assert "step 1" in text


def test_a_log_file_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(ConfigError, match=r"--log \S+: Is a directory; allowed: a file that can be written"),
        open_screen("switch", "m", tmp_path / "m.yaml", tmp_path),
    ):
        pass
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with open_screen("switch", "m", tmp_path / "no" / "m.yaml", None) as screen:
        screen.log("a step")
    (log,) = tmp_path.glob("kproxy-migration-m-*.log")
    assert "a step" in log.read_text()
    assert os.stat(log).st_mode & 0o777 == 0o600


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(Full())
    screen.report(GROUPS)
    screen.log("a step")
    _LogFileHandler(Full()).emit(logging.makeLogRecord({"msg": "a broker is slow"}))
    assert [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()] == ["a step"]


def test_the_line_of_the_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written again and again on a terminal, and a step takes its place; elsewhere there is none."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    screen = Screen(io.StringIO())
    screen.show_hold("writes held for 1.0 of 20 s")
    assert shown.getvalue() == ""
    shown.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setenv("COLUMNS", "20")
    screen.show_hold("writes held for 1.1 of 20 s")
    screen.log("a step")
    screen.log("another")
    first, second, _ = shown.getvalue().split("\n")
    assert first.startswith("\r\x1b[Kwrites held for 1.1\r\x1b[K")
    assert first.endswith(" a step")
    assert "\x1b" not in second
