"""The arguments and options that several commands have, and printing for people."""

from __future__ import annotations

from pathlib import Path

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
