"""The command `kproxy` itself, and code that several of its commands share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kproxy.base.exits import CliSession
from kproxy.cli import first_contact

if TYPE_CHECKING:
    from kproxy.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])

# Where each command is. Its module adds it to `kproxy` when it is imported.
MODULES = {
    "config": "config",
    "demo": "sandbox",
    "devcluster": "sandbox",
    "discover": "discover",
    "doctor": "doctor",
    "down": "profiles.commands",
    "exec": "run",
    "explain": "explain",
    "help": "about",
    "lint": "lint",
    "list": "profiles.commands",
    "ls": "ls",
    "migrate": "migrate",
    "reload": "control",
    "run": "run",
    "tap": "tap",
    "up": "profiles.commands",
    "version": "about",
    "wait": "control",
}


class _Commands(first_contact.FirstContact):
    """Imports a command's module when the command is used: `kproxy run` starts sooner and is smaller."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # For a name that is not there, click looks for similar ones among all.
        for name in [cmd_name] if cmd_name in MODULES else MODULES:
            importlib.import_module(f"kproxy.cli.{MODULES[name]}")
        return super().get_command(ctx, cmd_name)


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
        first_contact.show()
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
