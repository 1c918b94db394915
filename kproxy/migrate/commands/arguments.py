"""The arguments and options that several commands have, and printing for people."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only print what would be done.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
MASTER = click.option("--master", metavar="URL", help="Spark's master. [default: spark-submit's, else local[*,4]]")
AS_END = click.option(
    "--as-end",
    multiple=True,
    metavar="GROUP",
    help="Translate positions of this group beyond the end of a log as the end. [repeatable]",
)


def echo_escaped(text: str, err: bool = False) -> None:
    """Print a line that may have text from a cluster or a kproxy."""
    from kproxy.base.printable import escaped

    click.echo(escaped(text), err=err)


def parse_duration(least: float, most: float) -> Callable[[click.Context, click.Parameter, str], float]:
    """Return the callback of an option whose value is a duration; it returns seconds."""

    def parse(_: click.Context, __: click.Parameter, value: str) -> float:
        from kproxy.config.kinds import duration

        try:
            return duration(least, most).parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return parse


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM too, while the context is open."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
