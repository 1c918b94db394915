"""Each room's docstring lists its modules: a newcomer finds the one to change there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import kproxy

ROOT = Path(kproxy.__file__).parent
ROOMS = sorted(init.parent for init in ROOT.rglob("__init__.py"))


def modules(room: Path) -> set[str]:
    found = {file.stem for file in room.glob("*.py")} | {init.parent.name for init in room.glob("*/__init__.py")}
    return found - {"__init__", "__main__"}


def listed(room: Path) -> set[str]:
    """The words that begin a line of the docstring and are followed by two spaces or more, as in a table."""
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    return set(re.findall(r"^ *(\w+) {2,}\S", text, re.MULTILINE))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_lists_its_modules(room: Path) -> None:
    there = modules(room) | ({"__init__"} if "__init__" in listed(room) else set())
    assert listed(room) == there


def test_there_are_rooms() -> None:
    assert {"relay", "wire", "cluster"} <= {room.name for room in ROOMS}


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda file: str(file.relative_to(ROOT)))
def test_every_module_says_what_it_owns(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text()))


TESTS = Path(__file__).parents[1]


def test_no_test_imports_another() -> None:
    """What tests share is in helper modules."""
    modules = [path for path in TESTS.rglob("*.py")]
    assert len(modules) > 100
    wrong = [
        f"{path.relative_to(TESTS)}: {line}"
        for path in modules
        for line in path.read_text().splitlines()
        if re.match(r"\s*(from|import) tests\.[\w.]*\btest_", line)
    ]
    assert wrong == []
