"""The commands. Each imports what it needs when it runs, so that `kproxy --help` is there at once."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import click

from kproxy.cli.flags import ConfiguredCommand, given


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

    The first line starts the proxy. The second is any Kafka client, pointed at it; neither the client nor the
    brokers need another setting. 'kproxy demo' shows it on a real cluster on this machine.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@kproxy.command(cls=ConfiguredCommand)
@click.pass_context
def run(ctx: click.Context, /, **values: object) -> int:
    """Run the proxy.

    \b
      kproxy run -b kafka.example:9092
      kproxy run -c kproxy.yaml

    Clients then use 127.0.0.1:19092 (--listen) as their bootstrap server. Ctrl-C ends it, after requests in
    flight are finished.

    Every option is also a variable (--node-ports is KPROXY_NODE_PORTS) and a key of the file (node-ports).
    Flags win over variables, those over the file. Several clusters at once go into a file.
    """
    from kproxy.config import load

    file, flags = given(values)
    config = load(flags, os.environ, file)
    session = ctx.find_object(Session)
    if session is not None and config.log_level == "debug":
        session.debug = True
    from kproxy.app import run as run_app

    return run_app(config)


@kproxy.command()
@click.option("--once", is_flag=True, help="End after the story, without waiting for Ctrl-C.")
def demo(once: bool) -> int:
    """See it work: a real cluster on this machine, whose advertised names resolve nowhere.

    \b
      kproxy demo

    Needs Java and Maven. Shows a client failing, then the same client working through kproxy.
    """
    from kproxy.devcluster.demo import run_demo

    return run_demo(once=once)


@kproxy.group("config", invoke_without_command=True)
@click.pass_context
def config_group(ctx: click.Context) -> int:
    """Check a configuration, show the effective one, print its schema.

    \b
      kproxy config check kproxy.yaml
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@config_group.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> int:
    """Check FILE as 'kproxy run -c FILE' would read it here.

    \b
      kproxy config check kproxy.yaml

    Reports every mistake at once, with its line. Exit code 0 is fine, 2 is not.
    """
    from kproxy.config import load

    config = load({}, os.environ, file)
    names = ", ".join(cluster.name for cluster in config.clusters)
    clusters = "1 cluster" if len(config.clusters) == 1 else f"{len(config.clusters)} clusters"
    servers = sum(len(cluster.bootstrap_servers) for cluster in config.clusters)
    click.echo(f"ok: {clusters} ({names}), {servers} bootstrap server{'' if servers == 1 else 's'}")
    return 0


@config_group.command(cls=ConfiguredCommand)
def show(**values: object) -> int:
    """Show the effective configuration as YAML, secrets masked.

    \b
      kproxy config show -c kproxy.yaml --listen 127.0.0.1:9092

    Takes the options of 'kproxy run'. Comments say where each value comes from.
    """
    from kproxy.config import read
    from kproxy.config import show as show_config

    file, flags = given(values)
    loaded = read(flags, os.environ, file)
    click.echo(show_config(loaded.config, loaded.origins), nl=False)
    return 0


@config_group.command()
def schema() -> int:
    """Print the JSON Schema of the file, for editors.

    \b
      kproxy config schema > kproxy.schema.json
    """
    from kproxy.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
