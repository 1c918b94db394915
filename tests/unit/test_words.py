"""One word, one meaning: kproxy and its documents have nothing that the table *Words* of CONTRIBUTING.md forbids."""

from __future__ import annotations

import ast
import io
import re
import token
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_GENERATED = {_ROOT / "docs/troubleshooting.md"}  # its texts are those of the code
_DOCUMENTS = sorted({*(_ROOT / "docs").glob("*.md"), _ROOT / "README.md", _ROOT / "CHANGELOG.md"} - _GENERATED)
_TEXT = {token.COMMENT, token.STRING, getattr(token, "FSTRING_MIDDLE", token.STRING)}


def _forbidden(mark: str) -> list[str]:
    """Return the words in the last column of the table that stand between two of this mark."""
    _, _, section = (_ROOT / "CONTRIBUTING.md").read_text().partition("\n## Words\n")
    rows = [line.split("|") for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [word for row in rows for word in re.findall(rf"{re.escape(mark)}([^{mark}]+){re.escape(mark)}", row[-2])]


def _phrase() -> re.Pattern[str]:
    return re.compile(rf"\b({'|'.join(map(re.escape, _forbidden('*')))})\b", re.IGNORECASE)


def _violations(source: str, names: set[str], phrase: re.Pattern[str]) -> Iterator[str]:
    """Yield LINE: WORD for each forbidden name, and for each forbidden phrase in a comment or a string."""
    for part in tokenize.generate_tokens(io.StringIO(source).readline):
        if part.type == token.NAME and part.string in names:
            yield f"{part.start[0]}: {part.string}"
        elif part.type in _TEXT:
            text = re.sub(r"\s*\n\s*#?\s*", " ", part.string)
            yield from (f"{part.start[0]}: {match[0]}" for match in phrase.finditer(text))


def test_the_table_forbids_names_and_phrases() -> None:
    assert {"one", "found"} <= set(_forbidden("`"))
    assert {"nobody", "is to be"} <= set(_forbidden("*"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for one in rows:\n    pass\n", ["1: one"]),
        ("# Nobody\nx = 1\n", ["1: Nobody"]),
        ('"""It is\nto be so."""\n', ["1: is to be"]),
        ("someone = 1\n", []),
    ],
)
def test_a_violation_is_reported(source: str, expected: list[str]) -> None:
    ast.parse(source)
    assert list(_violations(source, set(_forbidden("`")), _phrase())) == expected


def test_no_forbidden_word_in_the_code() -> None:
    names, phrase = set(_forbidden("`")), _phrase()
    violations = [
        f"{path.relative_to(_ROOT)}:{violation}"
        for path in sorted((_ROOT / "kproxy").rglob("*.py"))
        for violation in _violations(path.read_text(), names, phrase)
    ]
    assert not violations, "\n".join(violations)


def test_no_forbidden_word_in_the_documents() -> None:
    phrase = _phrase()
    violations = [
        f"{path.relative_to(_ROOT)}: {match[0]}"
        for path in _DOCUMENTS
        for match in phrase.finditer(re.sub(r"\s*\n\s*", " ", path.read_text()))
    ]
    assert not violations, "\n".join(violations)
