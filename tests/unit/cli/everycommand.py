"""The commands of kproxy, as words."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kproxy.cli import group


def every_command(command: click.Command = group.kproxy, *names: str) -> Iterator[list[str]]:
    yield [*names]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from every_command(subcommand, *names, name)
