"""Each declaration of a message can be read, and the code that uses it gives the values of its fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

from kproxy.advice.remedies.own import SECTIONS, all_messages
from kproxy.base.messages.message import Message, MessageText, alike

CODE = Path(__file__).parents[4] / "kproxy"
DECLARATIONS = {
    name: value for section in SECTIONS for name, value in vars(section.module).items() if isinstance(value, Message)
}


def fields(message: Message) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(message.text) if field is not None}


@cache
def uses() -> tuple[tuple[str, str, ast.AST], ...]:
    """Where the code names a declaration: the place, the name, and the call or the name alone."""
    return tuple(_uses())


def _uses() -> Iterator[tuple[str, str, ast.AST]]:
    for path in CODE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        names = {alias.name for node in imports if "base.messages." in (node.module or "") for alias in node.names}
        for node in ast.walk(tree) if names else ():
            function = node.func if isinstance(node, ast.Call) else node
            if isinstance(function, ast.Attribute) and function.attr == "with_reason":
                function = function.value
            if isinstance(function, ast.Name) and function.id in names & DECLARATIONS.keys():
                yield f"{path.relative_to(CODE)}:{function.lineno}", function.id, node


def test_a_call_gives_the_fields_of_the_text() -> None:
    calls = [(place, name, node) for place, name, node in uses() if isinstance(node, ast.Call)]

    assert len(calls) > 200
    for place, name, call in calls:
        assert {keyword.arg for keyword in call.keywords} == fields(DECLARATIONS[name]), f"{place}: {name}"
        reasoned = isinstance(call.func, ast.Attribute)
        assert DECLARATIONS[name].reason or not reasoned, f"{place}: {name} has no reason"


def test_the_code_uses_each_message() -> None:
    """Spark's plugin has its messages in Java."""
    java = (CODE / "spark" / "KproxyPlugin.java").read_text()
    for name in DECLARATIONS.keys() - {name for _, name, _ in uses()}:
        assert all(part.strip() in java for part in re.split(r"\{\w+\}", DECLARATIONS[name].text)), name


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.pattern[:60])
def test_a_message_can_be_read_and_found(message: Message) -> None:
    assert message.meaning.endswith((".", "`"))
    assert message.meaning.count("`") % 2 == 0
    assert "`" not in message.text
    assert re.fullmatch(r"[a-z0-9-]*", message.reason)
    assert len(max(message.pattern.split("…"), key=len).strip()) >= 8


def test_texts_are_different() -> None:
    texts = [message.pattern for message in all_messages()]

    assert len(set(texts)) == len(texts)


def test_a_text_knows_its_message() -> None:
    (refused, slow) = alike("Wait.", "cluster {name}: refused", "{name}: took {seconds:g} s{more}{why}", reason="slow")
    reason, text = slow.with_reason(name="x", seconds=2.0, more="", why="")

    assert (reason, text) == ("slow", "x: took 2 s")
    assert isinstance(text, MessageText)
    assert text.message is slow
    assert (refused.pattern, slow.pattern) == ("refused", "took … s…")
