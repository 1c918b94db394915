"""The steps that are printed while the examination runs."""

from __future__ import annotations

import pytest

from kproxy.inspect.doctor.evidence import ExaminationStep, StepVerdict
from kproxy.inspect.doctor.progress import StepProgress

GOOD = ("resolve", "connect", "tls", "login", "versions", "metadata")


def contact(address: str, *kinds: str, fails: str = "") -> list[ExaminationStep]:
    return [
        ExaminationStep(kind, address, StepVerdict.FAILED if kind == fails else StepVerdict.OK, 0.01, "", address)
        for kind in kinds
    ]


def question(kind: str) -> ExaminationStep:
    return ExaminationStep(kind, "broker 1", StepVerdict.OK, 0.01, "")


def shown(capsys: pytest.CaptureFixture[str], *steps: ExaminationStep, verbose: bool = False) -> list[list[str]]:
    """The words of each line."""
    progress = StepProgress(verbose)
    for step in steps:
        progress.show(step)
    progress.finish()
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_what_went_well_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [*contact("a:1", *GOOD), question("topics"), question("settings")]
    reached, asked, hint = shown(capsys, *steps)
    assert reached == ["ok", "reached", "a:1", "60", "ms"]
    assert asked == ["ok", "asked", "topics,", "settings", "20", "ms"]
    assert hint[0] == "(-v"
    assert len(shown(capsys, *steps, verbose=True)) == 8


def test_contacts_at_the_same_time_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = contact("a:1", *GOOD), contact("b:1", "resolve", "connect", fails="connect")
    lines = shown(capsys, *[step for pair in zip(first[:2], second, strict=True) for step in pair], *first[2:])
    assert lines[:2] == [["FAILED", "connect", "b:1", "10", "ms"], ["ok", "reached", "a:1", "60", "ms"]]


def test_many_alike_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [step for port in range(50) for step in contact(f"k-{port}:9092", "resolve", fails="resolve")]
    lines = shown(capsys, *steps)
    assert [line[:2] for line in lines] == [["FAILED", "resolve"]] * 4 + [["…", "46"], ["(-v", "shows"]]


def test_the_same_result_of_several_listeners_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [*contact("a:1", *GOOD), *contact("a:1", *GOOD), *contact("b:1", "resolve", fails="resolve") * 2]
    lines = shown(capsys, *steps)
    assert [line[:3] for line in lines[:2]] == [["ok", "reached", "a:1"], ["FAILED", "resolve", "b:1"]]
    assert [line[0] for line in lines[2:]] == ["(-v"]
