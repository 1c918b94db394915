"""`kproxy explain`: what a message or a log means."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import click

from kproxy.base.errors import ConfigError
from kproxy.cli import completion
from kproxy.cli.group import kproxy

# What a person gives as a file, although there is none of that name.
_LIKE_A_FILE = re.compile(r"[^\s:]+\.(log|txt|out|err)|\.{0,2}/[^\s:]+")


@kproxy.command(short_help="Explain an error message or a log.", context_settings={"ignore_unknown_options": True})
@click.argument("text", nargs=-1, type=click.UNPROCESSED, metavar="[TEXT|FILE]", shell_complete=completion.files)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(text: tuple[str, ...], as_json: bool) -> int:
    """Explain an error message or a log: why, how to check, what to do.

    \b
      kproxy explain "Failed to resolve 'kafka-1.prod.internal:9092'"
      kproxy explain client.log
      docker logs app 2>&1 | kproxy explain

    kproxy knows the messages of Kafka clients, of brokers, and its own. It reads standard input without an argument,
    or with -. In a log, it finds the first cause and what follows from it. It opens no connection, and repeats only
    addresses, names and numbers of the text. It reads at most 1 GiB.

    The exit code is 0 if the text is explained, 1 if it is not known, and 2 for wrong usage.
    """
    from kproxy.advice.explain.explanation import explain as explain_stream
    from kproxy.advice.explain.output import render

    file = _file(text)
    if file is not None:
        with _open(file) as stream:
            explanation = explain_stream(stream, name=file)
    elif text and text != ("-",):
        explanation = explain_stream(io.BytesIO(" ".join(text).encode("utf-8", "surrogateescape")))
    elif sys.stdin.isatty() and not text:
        raise click.UsageError("give a message, a file, or a log on standard input")
    else:
        explanation = explain_stream(sys.stdin.buffer)
    if as_json:
        click.echo(json.dumps(explanation.as_json(), indent=2, ensure_ascii=False))
    else:
        width = min(shutil.get_terminal_size().columns, 100)
        click.echo(render(explanation, max(width, 40)), nl=False)
    return 0 if explanation.causes else 1


def _file(text: Sequence[str]) -> str | None:
    """Return the file that a text names; None if it is a text. Raises ConfigError if it only looks like a file."""
    if len(text) != 1:
        return None
    # The functions of `Path` raise what a text may cause. A file may be a pipe: `kproxy explain <(docker logs app)`.
    if os.path.exists(text[0]) and not os.path.isdir(text[0]):
        return text[0]
    if _LIKE_A_FILE.fullmatch(text[0]):
        raise ConfigError(f"{text[0]}: is no file")
    return None


def _open(file: str) -> BinaryIO:
    """Open a file. Raises ConfigError if it cannot be read."""
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
