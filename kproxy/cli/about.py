"""`kproxy help` and `kproxy version`: the same as `--help` and `--version`, for those who type words."""

from __future__ import annotations

import click

from kproxy.cli.group import kproxy, print_version


@kproxy.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Show what a command does, and its options.

    \b
      kproxy help
      kproxy help run
      kproxy help migrate plan
    """
    assert ctx.parent is not None
    about, command = ctx.parent, ctx.parent.command
    for word in words:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"'{about.command_path}' has no commands of its own", about)
        # Not the group's own method: to that of `kproxy`, an address is a command.
        name, subcommand, _ = click.Group.resolve_command(command, about, [word])
        assert subcommand is not None
        command, about = subcommand, click.Context(subcommand, parent=about, info_name=name)
    click.echo(command.get_help(about))
    return 0


@kproxy.command()
def version() -> int:
    """Show the version."""
    print_version()
    return 0
