"""Log lines on a terminal and elsewhere."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

from kproxy.proxy.app import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def written(stream: io.StringIO, log_format: str = "auto") -> str:
    logs.set_up(log_format, "info", stream)
    logging.getLogger("kproxy.test").warning("careful")
    return stream.getvalue()


def test_colours_on_a_terminal_only() -> None:
    assert re.fullmatch(r"\x1b\[33m\d\d:\d\d:\d\d WARNING careful\x1b\[0m\n", written(Terminal()))
    assert "\x1b" not in written(Terminal(), "text")
    assert "\x1b" not in written(io.StringIO())


@pytest.mark.parametrize(
    ("variable", "value", "coloured"),
    [("NO_COLOR", "1", False), ("NO_COLOR", "", True), ("TERM", "dumb", False), ("TERM", "vt100", True)],
)
def test_no_colours_for_those_who_want_none(
    variable: str, value: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://no-color.org: set, and not empty. What else a terminal gets, short times, stays."""
    monkeypatch.setenv(variable, value)
    text = written(Terminal())
    assert ("\x1b" in text) == coloured
    assert re.search(r"(?<![\dT])\d\d:\d\d:\d\d WARNING careful", text)
