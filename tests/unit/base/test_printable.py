"""What brokers say of themselves reaches neither a terminal nor a log as it is."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError, WireError
from kproxy.base.printable import escaped, one_line
from kproxy.proxy.app import logs

HOSTILE = {
    "carriage return": ("good\rbad", r"good\rbad"),
    "newline": ("good\nbad", r"good\nbad"),
    "escape": ("\x1b[2J\x1b[31mbad", r"\x1b[2J\x1b[31mbad"),
    "C1 escape": ("\x9b2Jbad", r"\x9b2Jbad"),
    "right to left": ("good\u202edab", r"good\u202edab"),
    "isolate": ("good\u2066bad", r"good\u2066bad"),
    "line separator": ("good\u2028bad", r"good\u2028bad"),
    "null": ("good\0bad", r"good\x00bad"),
    "surrogate": ("good\udc80bad", r"good\udc80bad"),
    "zero width": ("go\u200bod", r"go\u200bod"),
}


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> tuple[str, str]:
    before, after = request.param
    return before, after


def test_what_is_harmless_stays() -> None:
    for text in ("kafka-1.prod.internal", "größe.example", "[::1]:9092", "a b\\c", "日本"):
        assert escaped(text) == one_line(text, 100) == text


def test_an_address_is_escaped(hostile: tuple[str, str]) -> None:
    assert str(Address(hostile[0], 9092)) == f"{hostile[1]}:9092"


def test_an_address_is_cut() -> None:
    assert str(Address("h" * 32767, 9092)) == "h" * 255 + "… (32767 characters):9092"
    assert len(str(Address("\x1b" * 32767, 9092))) < 300


@pytest.mark.parametrize("kind", [WireError, UpstreamError, ViaError])
def test_the_text_of_an_error_is_one_short_line(kind: type[WireError], hostile: tuple[str, str]) -> None:
    assert str(kind("other", hostile[0])) == hostile[1]
    assert len(str(kind("other", hostile[0] * 5000))) < 1040


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, which `set_up` changes."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_line_of_the_log_is_escaped_and_cut(
    root: logging.Logger, hostile: tuple[str, str], stream: type[io.StringIO]
) -> None:
    out = stream()
    logs.set_up("auto", "info", out)
    logging.getLogger("kproxy.x").warning("node %s is away", hostile[0])
    try:
        raise ValueError(hostile[0].replace("\n", "\r"))
    except ValueError:
        logging.getLogger("kproxy.x").exception("node %s is bad", hostile[0])
    said = out.getvalue().replace("\x1b[33m", "").replace("\x1b[31m", "", 1).replace("\x1b[0m", "")
    assert f"node {hostile[1]} is away" in said
    assert f"node {hostile[1]} is bad" in said
    assert escaped(said.replace("\n", "")) == said.replace("\n", "")


def test_a_json_line_is_escaped_and_cut(root: logging.Logger, hostile: tuple[str, str]) -> None:
    out = io.StringIO()
    logs.set_up("json", "info", out)
    logging.getLogger("kproxy.x").warning("node %s is away", hostile[0])
    logging.getLogger("kproxy.x").warning("%s", "x" * 97_000)
    first, second = out.getvalue().splitlines()
    assert json.loads(first)["message"] == f"node {hostile[1]} is away"
    assert len(second) < logs.MAX_MESSAGE_LENGTH + 200


def test_a_long_line_is_cut_and_a_long_traceback_line(root: logging.Logger) -> None:
    out = io.StringIO()
    logs.set_up("text", "info", out)
    logging.getLogger("kproxy.x").warning("%s", "x" * 97_000)
    try:
        raise ValueError("y" * 97_000)
    except ValueError:
        logging.getLogger("kproxy.x").exception("bad")
    assert max(map(len, out.getvalue().splitlines())) < logs.MAX_MESSAGE_LENGTH + 200
    assert "… (97000 characters)" in out.getvalue()
