"""`kproxy config`: checks or shows a configuration, or prints its schema."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from kproxy.cli.findings import format_option, print_findings
from kproxy.cli.flags import ConfiguredCommand, given_options, servers_argument
from kproxy.cli.group import kproxy


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
@format_option
def check(file: Path, form: str) -> int:
    """Check FILE as 'kproxy run -c FILE' would read it on this machine.

    \b
      kproxy config check kproxy.yaml

    The command reports all mistakes at once, with their lines. This includes unusable certificates, keys, passwords
    and secrets. It opens no socket and runs no command. The exit code is 0 without mistakes, 1 with mistakes, and 2 if
    the file cannot be read.
    """
    from kproxy.base.diagnostic import exit_code
    from kproxy.base.errors import ConfigError
    from kproxy.base.format import format_count
    from kproxy.config import read
    from kproxy.proxy.app.preflight import unchecked_commands, violations

    try:
        config = read({}, os.environ, file, further=violations).config
    except ConfigError as error:
        if not os.access(file, os.R_OK):
            raise
        print_findings(error.diagnostics, form)
        return exit_code(error.diagnostics)
    if form != "text":
        print_findings([], form)
        return 0
    names = ", ".join(cluster.name for cluster in config.served)
    servers = format_count(sum(len(cluster.bootstrap_servers) for cluster in config.clusters), "bootstrap server")
    click.echo(f"ok: {format_count(len(config.served), 'cluster')} ({names}), {servers}")
    for command in unchecked_commands(config):
        click.echo(f"not run: {command}")
    return 0


@config_group.command(cls=ConfiguredCommand)
@servers_argument
def show(servers: tuple[str, ...], **values: object) -> int:
    """Show the effective configuration as YAML, with secrets masked.

    \b
      kproxy config show -c kproxy.yaml --listen 127.0.0.1:9092

    The options are those of 'kproxy run'. Comments in the output say where each value comes from.
    """
    from kproxy.config import read
    from kproxy.config.presentation import show as show_config

    file, flags = given_options(values, servers)
    loaded = read(flags, os.environ, file)
    click.echo(show_config(loaded.config, loaded.origins), nl=False)
    return 0


@config_group.command()
def schema() -> int:
    """Print the JSON Schema of the YAML file, for editors.

    \b
      kproxy config schema > kproxy.schema.json
    """
    from kproxy.config.presentation import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
