"""`kproxy explain`: arguments, standard input, exit codes, JSON."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from kproxy.cli import invoke

MESSAGE = "Failed to resolve 'kafka-1.prod.internal:9092': Name or service not known"


class Input(io.TextIOWrapper):
    """A standard input with bytes behind it."""

    def __init__(self, data: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_a_message_as_one_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", MESSAGE]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("error: A broker's name cannot be resolved [name-not-resolved]\n")
    assert "kafka-1.prod.internal:9092" in shown
    assert "kproxy doctor HOST:PORT" in shown


def test_several_words_that_may_begin_with_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", *MESSAGE.split(), "-1"]) == 0
    assert "cannot be resolved" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_a_log_on_standard_input(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Input(b"noise\n" + MESSAGE.encode() + b"\n"))

    assert invoke(["explain", *arguments]) == 0
    assert "-:2: error: A broker's name" in capsys.readouterr().out


def test_unknown_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", "the disk is full"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("Not known")
    assert "kproxy doctor HOST:PORT" in shown


def test_nothing_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Input(b"", terminal=True))

    assert invoke(["explain"]) == 2
    assert "give a message" in capsys.readouterr().err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", "--json", MESSAGE]) == 0
    told = json.loads(capsys.readouterr().out)
    (cause,) = told["findings"]
    assert told["known"] is True
    assert (cause["severity"], cause["fault"], cause["place"]) == ("error", "name-not-resolved", None)
    assert cause["addresses"] == ["kafka-1.prod.internal:9092"]
    assert cause["remedies"][0]["advice"]
    assert cause["messages"] == [
        {"program": "librdkafka", "text": "Failed to resolve '…': …", "count": 1, "first": 1, "last": 1}
    ]
    assert invoke(["explain", "--json", "nonsense"]) == 1
    assert json.loads(capsys.readouterr().out)["known"] is False


def test_it_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    invoke(["explain", MESSAGE])
    invoke(["explain", "org.apache.kafka Timed out waiting for a node assignment"])
    invoke(["explain", "nothing"])

    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_log_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "output"
    log.write_text(f"noise\n{MESSAGE}\n")

    assert invoke(["explain", str(log)]) == 0
    assert capsys.readouterr().out.startswith(f"{log}:2:")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_a_log_in_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As of a shell's `<(docker logs app)`."""
    pipe = tmp_path / "63"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(f"noise\n{MESSAGE}\n",))
    writer.start()

    assert invoke(["explain", str(pipe)]) == 0
    writer.join()
    assert "kafka-1.prod.internal" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["client.log", "./client", "/no/such/file", "logs/app.txt", ".", "/"])
def test_a_file_that_is_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert invoke(["explain", name]) == (1 if name in (".", "/") else 2)
    shown = capsys.readouterr()
    assert shown.err == ("" if name in (".", "/") else f"kproxy: {name}: is no file\n")


@pytest.mark.parametrize("text", ["LEADER_NOT_AVAILABLE", "/10.1.2.3:9092", "a/b", "\0", "x" * 100_000, "\udcff.x"])
def test_one_word_that_is_no_file(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", text]) in (0, 1)
    assert not capsys.readouterr().err


def test_a_file_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "client.log"
    log.write_text(MESSAGE)

    def refuse(*_: object) -> NoReturn:  # root may read what others may not
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert invoke(["explain", str(log)]) == 2
    assert capsys.readouterr().err == f"kproxy: {log}: Permission denied\n"
