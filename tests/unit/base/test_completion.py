"""What completions have in common."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kproxy.base.completion import file_argument, is_plain_word


@pytest.mark.parametrize("text", ["orders", "consumer-orders-1", "alice@example.com", "a.b_c+d", "7"])
def test_words_that_a_shell_takes_as_they_are(text: str) -> None:
    assert is_plain_word(text)


@pytest.mark.parametrize(
    "text", ["", "$(reboot)", "a b", "a;b", "`a`", "a*", "~", "größe", "a\n", "a\\b", "'a'", "a,b", "a\x1b[2J", "a|b"]
)
def test_words_that_a_shell_would_not(text: str) -> None:
    assert not is_plain_word(text)


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ([], None),
        (["--as"], None),
        (["my.yaml"], "my.yaml"),
        (["my.yaml", "--as"], "my.yaml"),
        (["--as", "bob", "my.yaml", "family"], "my.yaml"),
        (["~/my.yaml", "--as"], str(Path("~/my.yaml").expanduser())),
    ],
)
def test_the_file_that_was_typed(words: list[str], file: str | None) -> None:
    """Also before an option whose value is to be completed."""
    arguments = [click.Argument(["file"], type=click.Path(path_type=Path)), click.Argument(["more"], required=False)]
    command = click.Command("check", params=[*arguments, click.Option(["--as", "user"])])
    ctx = command.make_context("check", words, resilient_parsing=True)
    assert file_argument(ctx) == (None if file is None else Path(file))
