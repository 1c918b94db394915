"""`kproxy migrate`: the commands of the room `migrate`, which is imported only when one of them is wanted."""

from __future__ import annotations

import click

from kproxy.cli.group import kproxy


class _Later(click.Group):
    """The group of another wing, imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _commands().list_commands(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve with that group, which suggests similar commands."""
        return _commands().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _commands().get_command(ctx, cmd_name)


def _commands() -> click.Group:
    from kproxy.migrate.commands.group import migrate

    return migrate


kproxy.add_command(
    _Later(
        "migrate",
        short_help="Move topics from one cluster to another.",
        help="Move topics from one cluster to another, and prove that they are the same.\n\n\b\n"
        "  kproxy migrate plan move.yaml\n  kproxy migrate prepare move.yaml",
    )
)
