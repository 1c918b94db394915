"""`kproxy explain`: what a message or a log means."""

from __future__ import annotations

import io
import json
import shutil
import sys
from typing import BinaryIO

import click

from kproxy.cli.group import kproxy


@kproxy.command(short_help="Explain an error message or a log.", context_settings={"ignore_unknown_options": True})
@click.argument("text", nargs=-1, type=click.UNPROCESSED, metavar="[TEXT]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(text: tuple[str, ...], as_json: bool) -> int:
    """Explain an error message or a log: why, how to check, what to do.

    \b
      kproxy explain "Failed to resolve 'kafka-1.prod.internal:9092'"
      kproxy explain < client.log

    kproxy knows the messages of Kafka clients, of brokers, and its own. Without TEXT, or with -, it reads standard
    input. In a log, it finds the first cause and what follows from it. It opens no connection, and repeats only
    addresses, names and numbers of the text. It reads at most 1 GiB.

    The exit code is 0 if the text is explained, 1 if it is not known, and 2 for wrong usage.
    """
    from kproxy.advice.explain.explanation import explain as explain_stream
    from kproxy.advice.explain.output import render

    if text and text != ("-",):
        stream: BinaryIO = io.BytesIO(" ".join(text).encode("utf-8", "surrogateescape"))
    elif sys.stdin.isatty() and not text:
        raise click.UsageError("give a message, or a log on standard input")
    else:
        stream = sys.stdin.buffer
    explanation = explain_stream(stream)
    if as_json:
        click.echo(json.dumps(explanation.as_json(), indent=2, ensure_ascii=False))
    else:
        width = min(shutil.get_terminal_size().columns, 100)
        click.echo(render(explanation, max(width, 40)), nl=False)
    return 0 if explanation.causes else 1
