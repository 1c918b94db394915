"""The commands that `kproxy doctor` and `kproxy run` propose without arguments: those for what is configured here.

Only variables and files of this machine are read. Nothing is contacted before the user has chosen a command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kproxy.base.diagnostic import NOT_CHECKED
from kproxy.cli.group import kproxy

if TYPE_CHECKING:
    from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult

# Variables that give `kproxy` a cluster.
_OWN = ("KPROXY_BOOTSTRAP_SERVERS", "KPROXY_CONFIG", "KPROXY_CLIENT_CONFIG")


def propose(ctx: click.Context) -> int | None:
    """Propose commands if this one has no arguments, run the one that the user chooses, and return its exit code.

    Return None if it has arguments, or if nothing was found. Raises UsageError if there is no terminal to ask at.
    """
    if any(os.environ.get(name) for name in _OWN) or any(
        ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ctx.params
    ):
        return None
    command = str(ctx.info_name)
    proposals = [
        (place, candidate, _words(candidate, command))
        for place in _places()
        for candidate in place.candidates
        if candidate.words
    ]
    if not proposals:
        return None
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    click.echo("No bootstrap server is given. Configured here, and not contacted yet:", err=True)
    for number, (place, candidate, words) in enumerate(proposals, 1):
        lead = f"{number:3}. " if asks else "  "
        click.echo(f"{lead}{place.name}: {candidate.description}", err=True)
        click.echo(f"       {_shell(words)}", err=True)
        for note in candidate.notes:
            click.echo(f"       # {note}", err=True)
    if not asks:
        raise click.UsageError(f"no bootstrap server is given; allowed: kproxy {command} HOST:PORT, or a command above")
    choice = click.prompt(
        "Run which one? Enter for none", type=click.IntRange(0, len(proposals)), default=0, show_default=False, err=True
    )
    return NOT_CHECKED if choice == 0 else _run(ctx, proposals[choice - 1][2])


def _places() -> Sequence[PlaceResult]:
    from kproxy.inspect.discover import environment, files, search, tools
    from kproxy.inspect.discover.results import PlaceResult
    from kproxy.net.dial import engine

    home = Path(os.path.expanduser("~"))
    return (
        environment.search_environment(os.environ),
        files.search_files(Path()),
        tools.search_tools(home, Path(), os.environ) or PlaceResult(tools.NAME),
        environment.further_searches(engine.find_sockets(), search.has_kubeconfig()),
    )


def _words(candidate: ClusterCandidate, command: str) -> tuple[str, ...]:
    """Return the words of a candidate for this command: `discover` has those of `run`."""
    words = candidate.words
    return (command, *words[1:]) if words[0] == "run" else words


def _shell(words: Sequence[str]) -> str:
    from kproxy.config.commandline import shell

    return shell(("kproxy", *words))


def _run(ctx: click.Context, words: Sequence[str]) -> int:
    chosen = kproxy.get_command(ctx, words[0])
    assert chosen is not None
    click.echo(_shell(words), err=True)
    done = chosen.main(list(words[1:]), prog_name=f"kproxy {words[0]}", standalone_mode=False, obj=ctx.obj)
    return int(done or 0)
