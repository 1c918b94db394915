"""The formats in which commands print the diagnostics of a check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kproxy.base.diagnostic import Diagnostic

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="For a person, a program, or GitHub Actions.",
)


def print_findings(diagnostics: Sequence[Diagnostic], form: str) -> None:
    """Print the diagnostics of a check that reports nothing else."""
    from kproxy.base import diagnostic

    if form == "json":
        click.echo(json.dumps({"findings": [diagnostic.to_json(each) for each in diagnostics]}, indent=2))
    elif form == "github":
        click.echo("".join(f"{line}\n" for line in diagnostic.github_annotations(diagnostics)), nl=False)
    else:
        diagnostic.show(diagnostics)
