"""Parts of completions that several commands share: the typed file, and words that need no quotes in a shell."""

from __future__ import annotations

import re
from pathlib import Path

import click

_PLAIN = re.compile(r"[\w.@+-]+", re.ASCII)


def is_plain_word(text: str) -> bool:
    """Return True if a shell takes this text as one word, as it is: letters, digits and `.`, `@`, `_`, `+`, `-`.

    A shell runs what a person sends off, and brokers, clients and other programs choose names.
    """
    return _PLAIN.fullmatch(text) is not None


def file_argument(ctx: click.Context) -> Path | None:
    """Return the argument FILE of a command that is typed; None if it has none yet. The shell has not expanded `~`."""
    file = ctx.params.get("file")
    if file is None and ctx.args:
        file = ctx.args[0]  # click does not take arguments before an option whose value is typed
    return None if file is None else Path(file).expanduser()
