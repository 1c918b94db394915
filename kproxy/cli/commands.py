"""The commands. Each imports what it needs when it runs, so that `kproxy --help` is there at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kproxy.cli.flags import ConfiguredCommand, given

if TYPE_CHECKING:
    from kproxy.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(slots=True)
class Session:
    """What one run of the command knows; `debug` asks for the traceback of an unexpected error."""

    debug: bool = False


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from kproxy import __version__

        click.echo(f"kproxy {__version__}")
        ctx.exit()


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
@click.pass_context
def kproxy(ctx: click.Context) -> int:
    """Use a Kafka cluster whose advertised broker addresses you cannot reach.

    \b
      kproxy run -b kafka.example:9092
      kcat -b 127.0.0.1:19092 -L

    The first line starts the proxy. The second line is any Kafka client that uses the proxy as its bootstrap server.
    The client and the brokers need no other setting. 'kproxy demo' shows this with a real cluster on this machine.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


def _timeout(default: str, text: str) -> Callable[[Command], Command]:
    """`--timeout DURATION`, in seconds for the callback."""

    def convert(_: click.Context, __: click.Parameter, value: str) -> float:
        from kproxy.config.kinds import duration

        try:
            return duration(0, 86400).parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return click.option(
        "--timeout", default=default, show_default=True, metavar="DURATION", callback=convert, help=text
    )


def _show_tracebacks(ctx: click.Context, config: Config) -> None:
    """Of unexpected errors, for those who ask for --log-level debug."""
    session = ctx.find_object(Session)
    if session is not None and config.log_level == "debug":
        session.debug = True


@kproxy.command(cls=ConfiguredCommand)
@click.pass_context
def run(ctx: click.Context, /, **values: object) -> int:
    """Run the proxy.

    \b
      kproxy run -b kafka.example:9092
      kproxy run -c kproxy.yaml

    Clients then use 127.0.0.1:19092 (--listen) as their bootstrap server. Ctrl-C stops kproxy after it has finished
    the requests in flight.

    Every option is also an environment variable (--node-ports is KPROXY_NODE_PORTS) and a key of the YAML file
    (node-ports). Flags override variables, and variables override the file. To serve several clusters, use a file.
    """
    from kproxy.config import load

    file, flags = given(values)
    config = load(flags, os.environ, file)
    _show_tracebacks(ctx, config)
    from kproxy.app import run as run_app

    return run_app(config)


@kproxy.command(
    "exec",
    cls=ConfiguredCommand,
    defaults={"listen": "127.0.0.1:0", "admin": "off", "log-level": "warning", "ready-requires": "all"},
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND...")
@_timeout("30s", "How long to wait for the cluster.")
@click.pass_context
def exec_(ctx: click.Context, /, command: tuple[str, ...], timeout: float, **values: object) -> int:
    """Run a command with a kproxy of its own.

    \b
      kproxy exec -b kafka.example:9092 -- kcat -b {bootstrap} -L
      kproxy exec -b kafka.example:9092 -- spark-submit job.py

    kproxy starts the proxy, waits until it is ready and runs the command. When the command ends, kproxy ends with the
    same exit code. The command finds the bootstrap server in KAFKA_BOOTSTRAP_SERVERS and KPROXY_BOOTSTRAP. kproxy also
    replaces {bootstrap} in its arguments. With several clusters, these stand for the first cluster; every cluster also
    has KPROXY_BOOTSTRAP_NAME and {bootstrap:NAME}.

    The options are those of 'kproxy run'. Several kproxy exec can run at the same time, because each uses free ports.
    Additional exit codes: 125 the cluster was not ready in time, 126 the command cannot be executed, 127 the command
    was not found, 128+N signal N ended the command.
    """
    from kproxy.config import load

    file, flags = given(values)
    assert isinstance(ctx.command, ConfiguredCommand)
    config = load(flags, os.environ, file, ctx.command.defaults)
    _show_tracebacks(ctx, config)
    from kproxy.exec import run as run_command

    code, problem = run_command(config, command, timeout)
    if problem:
        click.echo(f"kproxy: {problem}", err=True)
    return code


@kproxy.command()
@click.option(
    "--admin", default="127.0.0.1:19091", metavar="HOST:PORT", envvar="KPROXY_ADMIN", show_envvar=True,
    show_default=True,
    help="Admin endpoint of the kproxy to wait for.",
)  # fmt: skip
@click.option(
    "--ready-requires", default="all", type=click.Choice(["all", "one", "none"]), show_default=True,
    help="How many nodes of each cluster must be reachable.",
)  # fmt: skip
@_timeout("60s", "How long to wait. With 0, kproxy checks once.")
def wait(admin: str, ready_requires: str, timeout: float) -> int:
    """Wait until a running or starting kproxy is ready.

    \b
      kproxy run -b kafka.example:9092 &
      kproxy wait && kcat -b 127.0.0.1:19092 -L

    The exit code is 0 if kproxy is ready. It is 1 if kproxy is not ready in time; the reasons are printed.
    """
    from kproxy.cli.waiting import wait_ready

    reasons = wait_ready(admin, timeout, ready_requires)
    for reason in reasons:
        click.echo(f"kproxy: {reason}", err=True)
    return 1 if reasons else 0


@kproxy.command()
@click.option("--once", is_flag=True, help="Stop after the demonstration, without waiting for Ctrl-C.")
def demo(once: bool) -> int:
    """Show kproxy working with a real local cluster.

    \b
      kproxy demo

    The advertised names of the cluster cannot be resolved. A client fails; then the same client works through kproxy.
    This needs Java and Maven.
    """
    from kproxy.devcluster.demo import run_demo

    return run_demo(once=once)


@kproxy.command()
@click.option("--brokers", type=click.IntRange(1, 9), default=3, show_default=True, help="Number of brokers.")
@click.option(
    "--advertise",
    metavar="NAME",
    default="kafka-{id}.cluster.internal",
    show_default=True,
    help="Host that each broker advertises; {id} stands for its node id. The advertised port is its real port.",
)
@click.option(
    "--localhost", is_flag=True, help="The same as --advertise localhost. Clients then also work without kproxy."
)
def devcluster(brokers: int, advertise: str, localhost: bool) -> int:
    """Start a real cluster on this machine for experiments.

    \b
      kproxy devcluster

    The brokers advertise names that cannot be resolved. Each broker has listeners for plaintext, TLS and SASL. For
    each kind of listener, the command prints the line that starts kproxy. Ctrl-C stops the cluster and removes its
    data. This needs Java and Maven.
    """
    from rich.console import Console

    from kproxy.devcluster.demo_screen import Screen
    from kproxy.devcluster.stand import run as run_stand

    return run_stand(brokers, "localhost" if localhost else advertise, Screen(Console(highlight=False)))


@kproxy.group("config", invoke_without_command=True)
@click.pass_context
def config_group(ctx: click.Context) -> int:
    """Check or show a configuration, or print its schema.

    \b
      kproxy config check kproxy.yaml
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@config_group.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> int:
    """Check FILE as 'kproxy run -c FILE' would read it on this machine.

    \b
      kproxy config check kproxy.yaml

    The command reports all mistakes at once, with their lines. This includes unusable certificates, keys, passwords
    and secrets. It opens no socket and runs no command. The exit code is 0 without mistakes, else 2.
    """
    from kproxy.config import read
    from kproxy.preflight import commands, findings

    config = read({}, os.environ, file, further=findings).config
    names = ", ".join(cluster.name for cluster in config.clusters)
    clusters = "1 cluster" if len(config.clusters) == 1 else f"{len(config.clusters)} clusters"
    servers = sum(len(cluster.bootstrap_servers) for cluster in config.clusters)
    click.echo(f"ok: {clusters} ({names}), {servers} bootstrap server{'' if servers == 1 else 's'}")
    for command in commands(config):
        click.echo(f"not run: {command}")
    return 0


@config_group.command(cls=ConfiguredCommand)
def show(**values: object) -> int:
    """Show the effective configuration as YAML, with secrets masked.

    \b
      kproxy config show -c kproxy.yaml --listen 127.0.0.1:9092

    The options are those of 'kproxy run'. Comments in the output say where each value comes from.
    """
    from kproxy.config import read
    from kproxy.config import show as show_config

    file, flags = given(values)
    loaded = read(flags, os.environ, file)
    click.echo(show_config(loaded.config, loaded.origins), nl=False)
    return 0


@config_group.command()
def schema() -> int:
    """Print the JSON Schema of the YAML file, for editors.

    \b
      kproxy config schema > kproxy.schema.json
    """
    from kproxy.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
