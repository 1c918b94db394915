"""The command `kproxy` itself, and code that several of its commands share."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kproxy.base.exits import CliSession

if TYPE_CHECKING:
    from kproxy.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])

# Each command and its module, which adds it to `kproxy` when it is imported.
_COMMAND_MODULES = """
completion:completion config:config demo:sandbox devcluster:sandbox discover:discover doctor:doctor
down:profiles.commands exec:run explain:explain help:group lint:lint list:profiles.commands ls:ls migrate:migrate
reload:control run:run tap:tap up:profiles.commands users:users version:group wait:control
"""
MODULES = dict(command.split(":") for command in _COMMAND_MODULES.split())


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


def show_main_commands(words: Sequence[str] = ()) -> None:
    """Print the commands, each followed by these words: the bootstrap servers and any options."""
    target = shlex.join(words or _EXAMPLE)
    click.echo("kproxy: use a Kafka cluster whose advertised broker addresses you cannot reach.\n")
    for purpose, command in _COMMANDS:
        click.echo(f"{purpose}\n  {command} {target}\n")
    if not words:
        click.echo("Without an address, the first two propose what is configured on this machine.")
        click.echo("'kproxy discover' looks for clusters in Kubernetes, Docker and on this machine.")
        click.echo("'kproxy demo' shows how kproxy works. It needs Java, Maven and confluent-kafka.")
    click.echo("'kproxy --help' lists all commands.")


class _Commands(click.Group):
    """Imports a command's module when the command is used: `kproxy run` starts sooner and is smaller.

    An address in place of a command shows the commands for it.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # For a name that is not there, click looks for similar ones among all.
        for name in [cmd_name] if cmd_name in MODULES else MODULES:
            importlib.import_module(f"kproxy.cli.{MODULES[name]}")
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; but for an address, return a command that calls `show_main_commands`."""
        if is_address(args[0]) and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            return args[0], click.Command(args[0], callback=lambda: show_main_commands(args)), []
        return super().resolve_command(ctx, args)


def print_version() -> None:
    """Print kproxy's version, and whether it is compiled."""
    from kproxy import __version__
    from kproxy.base import compilation

    click.echo(f"kproxy {__version__} ({compilation.data_plane_kind()})")


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        print_version()
        ctx.exit()


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
@click.pass_context
def kproxy(ctx: click.Context) -> int:
    """Use a Kafka cluster whose advertised broker addresses you cannot reach.

    \b
      kproxy run kafka.example:9092
      kcat -b 127.0.0.1:19092 -L

    The first line starts the proxy. The second line is any Kafka client that uses the proxy as its bootstrap server.
    The client and the brokers need no other setting. 'kproxy demo' shows this with a real cluster on this machine
    (with Java, Maven and confluent-kafka).
    """
    if ctx.invoked_subcommand is None:
        show_main_commands()
    return 0


def needs_unix(ctx: click.Context) -> None:
    """Raise UsageError on Windows, where kproxy has never been tried, and which lacks signals and file locks."""
    if sys.platform == "win32":
        raise click.UsageError(f"{ctx.info_name} needs Linux or macOS; on Windows, use kproxy in WSL", ctx)


def timeout_option(default: str, text: str) -> Callable[[Command], Command]:
    """Return the option `--timeout DURATION`; the callback gets seconds."""

    def convert(_: click.Context, __: click.Parameter, value: str) -> float:
        from kproxy.config.kinds import duration

        try:
            return duration(0, 86400).parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return click.option(
        "--timeout", default=default, show_default=True, metavar="DURATION", callback=convert, help=text
    )


def show_tracebacks(ctx: click.Context, config: Config) -> None:
    """Show tracebacks of unexpected errors with --log-level debug."""
    session = ctx.find_object(CliSession)
    if session is not None and config.log_level == "debug":
        session.debug = True


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
