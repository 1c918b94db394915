"""`kproxy config`: checks or shows a configuration, or prints its schema."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli.completion import configured_users, families
from kproxy.cli.findings import format_option, print_findings
from kproxy.cli.flags import ConfiguredCommand, given_options, servers_argument
from kproxy.cli.group import kproxy

if TYPE_CHECKING:
    from kproxy.config import Config


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
@click.argument("family", required=False, shell_complete=families)
@click.argument("name", required=False)
@click.option(
    *("--as", "user"),
    default="",
    metavar="USER",
    shell_complete=configured_users,
    help="The user who has logged in at kproxy (--client-sasl).",
)
@format_option
def check(file: Path, family: str | None, name: str | None, user: str, form: str) -> int:
    """Check FILE as 'kproxy run -c FILE' would read it on this machine.

    \b
      kproxy config check kproxy.yaml
      kproxy config check kproxy.yaml produce orders-1   # may clients do this?
      kproxy config check kproxy.yaml --as alice produce orders-1

    With FAMILY and NAME, the command says whether clients may use this family of APIs (produce, topic, group,
    transaction, admin) for the topic, group or transactional id NAME, and which option decides that. The exit code is
    0 if they may in each cluster of FILE, otherwise 1.

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
    if family is not None:
        from kproxy.config.access import FAMILIES

        if family not in FAMILIES:
            raise click.UsageError(f"{family!r} is no family of APIs; allowed: {', '.join(FAMILIES)}")
        if name is None and FAMILIES[family]:
            raise click.UsageError(f"{family} needs a name: kproxy config check {file} {family} NAME")
        return _explain_access(config, family, name or "*", user, form)
    if user:
        raise click.UsageError(f"--as is for a question: kproxy config check {file} --as {user} FAMILY NAME")
    if form != "text":
        print_findings([], form)
        return 0
    names = ", ".join(cluster.name for cluster in config.served)
    servers = format_count(sum(len(cluster.bootstrap_servers) for cluster in config.clusters), "bootstrap server")
    click.echo(f"ok: {format_count(len(config.served), 'cluster')} ({names}), {servers}")
    for command in unchecked_commands(config):
        click.echo(f"not run: {command}")
    return 0


def _explain_access(config: Config, family: str, name: str, user: str, form: str) -> int:
    """Say for each cluster whether clients may do this, and why. Return 0 if they may in all, otherwise 1."""
    decisions = {cluster.name: cluster.access.for_user(user).decide(family, name) for cluster in config.served}
    if form == "text":
        for cluster, decision in decisions.items():
            click.echo(f"cluster {cluster}: {'allowed' if decision.allows else 'refused'}: {decision.reason}")
    else:
        values = [
            {"cluster": cluster, "allowed": decision.allows, "reason": decision.reason}
            for cluster, decision in decisions.items()
        ]
        click.echo(json.dumps({"access": values}, indent=2, ensure_ascii=False))
    return 0 if all(decision.allows for decision in decisions.values()) else 1


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
