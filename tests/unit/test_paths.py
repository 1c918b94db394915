"""Paths of tests, as commands and documents name them: after a rename, a command would run no test at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_NAMING = sorted(
    {
        *(_ROOT / ".ci").iterdir(),
        *(_ROOT / ".github").rglob("*.yml"),
        *(_ROOT / "docs").glob("*.md"),
        *_ROOT.glob("*.md"),
        _ROOT / "Makefile",
        _ROOT / "pyproject.toml",
    }
)
_TEST_PATH = re.compile(r"\btests/[\w./*-]*\w")
_MADE_BY_TESTS = {"tests/oracle/build"}


def _test_paths(text: str) -> set[str]:
    return set(_TEST_PATH.findall(text)) - _MADE_BY_TESTS


def test_paths_are_found_in_a_command() -> None:
    assert _test_paths('make X ARGS="tests/unit/a.py tests/fuzz" # see tests/b_*.py.') == {
        "tests/unit/a.py",
        "tests/fuzz",
        "tests/b_*.py",
    }
    assert _test_paths((_ROOT / ".ci" / "run").read_text())


@pytest.mark.parametrize("file", _NAMING, ids=lambda file: str(file.relative_to(_ROOT)))
def test_each_named_test_exists(file: Path) -> None:
    assert [path for path in _test_paths(file.read_text()) if not any(_ROOT.glob(path))] == []
