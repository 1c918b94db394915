"""The first contact: `kproxy` alone, or `kproxy HOST:PORT`, shows the main commands, with the user's address."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import click

_EXAMPLE = ("kafka.example:9092",)
# A host with a port, or a host with a dot: no command looks like that.
_ADDRESS = re.compile(r"(\w+://)?((\[[0-9a-f:.%]+\]|[\w.-]+):\d{1,5}|[\w-]+(\.[\w-]+)+|localhost)", re.ASCII | re.I)
_COMMANDS = (
    ("Find out why a client cannot use the cluster, and what to do:", "kproxy doctor"),
    ("Start the proxy. Clients then use 127.0.0.1:19092 as their bootstrap server:", "kproxy run"),
    ("See what is in the cluster:", "kproxy ls"),
)


def is_address(word: str) -> bool:
    """Return True if this is one bootstrap server, or several with commas between, and not a command."""
    return all(_ADDRESS.fullmatch(part) for part in word.split(","))


def show(words: Sequence[str] = ()) -> None:
    """Print the commands, each followed by these words: the bootstrap servers and any options."""
    target = shlex.join(words or _EXAMPLE)
    click.echo("kproxy: use a Kafka cluster whose advertised broker addresses you cannot reach.\n")
    for purpose, command in _COMMANDS:
        click.echo(f"{purpose}\n  {command} {target}\n")
    if not words:
        click.echo("'kproxy discover' looks for clusters in Kubernetes, Docker and on this machine.")
        click.echo("'kproxy demo' shows how kproxy works. It needs Java, Maven and confluent-kafka.")
    click.echo("'kproxy --help' lists all commands.")


class FirstContact(click.Group):
    """The group of all commands. An address in place of a command shows the commands for it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; but for an address, return a command that calls `show`."""
        if is_address(args[0]) and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            return args[0], _shows(args), []
        return super().resolve_command(ctx, args)


def _shows(words: Sequence[str]) -> click.Command:
    def callback() -> int:
        show(words)
        return 0

    return click.Command(words[0], callback=callback)
