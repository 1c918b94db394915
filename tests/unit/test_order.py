"""What tests/conftest.py says of files is so. If not, the order of the tests, or what they share, changes silently."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import LONG, TOGETHER

ROOT = Path(__file__).parents[2]


def test_the_files_that_take_longest_are_there() -> None:
    assert [path for path in LONG if not (ROOT / path).exists()] == []


def test_directories_that_share_are_packages() -> None:
    """Without `__init__.py`, pytest keeps what has the scope of a package until the end of the run."""
    assert [path for path in TOGETHER if not (ROOT / path / "__init__.py").exists()] == []
