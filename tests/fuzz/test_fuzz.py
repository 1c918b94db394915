"""Fuzzing as part of the tests: the corpus, a quarter of a minute, and ten minutes in the matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import cases
from tests.fuzz.__main__ import main


@pytest.mark.parametrize("path", cases.corpus(), ids=lambda path: path.stem)
def test_the_corpus(path: Path) -> None:
    case = cases.Case.load(path)
    assert cases.Case.load(path).dump() == case.dump()
    cases.check(case)


def test_a_quarter_of_a_minute(tmp_path: Path) -> None:
    """Always from the same seed: what fails here, and did not before, was changed. The matrix goes other ways."""
    assert main(["--seconds", "15", "--seed", "951", "--findings", str(tmp_path)]) == 0


@pytest.mark.matrix
@pytest.mark.timeout(1200)
def test_ten_minutes(tmp_path: Path) -> None:
    assert main(["--seconds", "600", "--findings", str(tmp_path)]) == 0


def test_a_finding_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer can find something: here, that any response is too much."""

    def broken(case: cases.Case) -> None:
        if any(who == "broker" and len(said) > 30 for who, said in case.steps):
            raise IndexError("planted")

    monkeypatch.setattr("tests.fuzz.__main__.check", broken)
    monkeypatch.setattr("tests.fuzz.__main__.corpus", list)
    assert main(["--seconds", "20", "--target", "walkers", "--seed", "1", "--findings", str(tmp_path)]) == 1
    (found,) = tmp_path.glob("fuzz-walkers-*.json")
    assert main(["--replay", str(found)]) == 1
    monkeypatch.undo()
    assert main(["--replay", str(found)]) == 0
