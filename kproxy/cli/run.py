"""`kproxy run` and `kproxy exec`: the proxy itself."""

from __future__ import annotations

import os

import click

from kproxy.cli.completion import profiles
from kproxy.cli.flags import (
    BeforeCommand,
    ConfiguredCommand,
    given_options,
    is_connection_option,
    servers_argument,
)
from kproxy.cli.group import kproxy, needs_unix, show_tracebacks, timeout_option


@kproxy.command(cls=ConfiguredCommand)
@servers_argument
@click.pass_context
def run(ctx: click.Context, /, servers: tuple[str, ...], **values: object) -> int:
    """Run the proxy.

    \b
      kproxy run kafka.example:9092
      kproxy run -c kproxy.yaml
      kproxy run @staging      # -c ~/.config/kproxy/staging.yaml

    HOST:PORT is any broker that you can reach; -b HOST:PORT says the same. Clients then use 127.0.0.1:19092 (--listen)
    as their bootstrap server. Ctrl-C stops kproxy after it has finished the requests in flight; a second Ctrl-C stops
    it at once.

    Every option is also an environment variable (--node-ports is KPROXY_NODE_PORTS) and a key of the YAML file
    (node-ports). Flags override variables, and variables override the file. To serve several clusters, use a file.
    """
    needs_unix(ctx)
    from kproxy.cli.proposals import propose  # few need it

    if (done := propose(ctx)) is not None:
        return done
    from kproxy.config import load
    from kproxy.config.commandline import option_words

    file, flags = given_options(values, servers)
    config = load(flags, os.environ, file)
    show_tracebacks(ctx, config)
    from kproxy.proxy.app.main import run as run_app
    from kproxy.proxy.app.nextstep import Invocation
    from kproxy.proxy.app.reload import ConfigSource

    typed = Invocation(
        tuple(option_words(file, flags, lambda setting: setting.key != "map", names_users=False)),
        tuple(option_words(file, flags, is_connection_option, names_users=False)),
    )
    return run_app(config, invocation=typed, source=ConfigSource.of(flags, os.environ, file))


@kproxy.command(
    "exec",
    cls=BeforeCommand,
    defaults={"listen": "127.0.0.1:0", "admin": "off", "log-level": "warning", "ready-requires": "all"},
    context_settings={"allow_interspersed_args": False},
)
@click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[HOST:PORT[,...]] [--] COMMAND...",
    shell_complete=profiles,
)
@timeout_option("30s", "How long to wait for the cluster.")
@click.pass_context
def exec_(
    ctx: click.Context, /, command: tuple[str, ...], servers: tuple[str, ...], timeout: float, **values: object
) -> int:
    """Run a command with a kproxy of its own.

    \b
      kproxy exec kafka.example:9092 -- kcat -b {bootstrap} -L
      kproxy exec kafka.example:9092 -- spark-submit job.py

    kproxy starts the proxy, waits until it is ready and runs the command. When the command ends, kproxy ends with the
    same exit code. The command finds the bootstrap server in KAFKA_BOOTSTRAP_SERVERS and KPROXY_BOOTSTRAP. kproxy also
    replaces {bootstrap} in its arguments. With several clusters, these stand for the first cluster; every cluster also
    has KPROXY_BOOTSTRAP_NAME and {bootstrap:NAME}.

    HOST:PORT before the command is the same as -b. The options are those of 'kproxy run'. Several kproxy exec can run
    at the same time, because each uses free ports. Additional exit codes: 125 the cluster was not ready in time, 126
    the command cannot be executed, 127 the command was not found, 128+N signal N ended the command.
    """
    needs_unix(ctx)
    from kproxy.config import load

    file, flags = given_options(values, servers)
    assert isinstance(ctx.command, ConfiguredCommand)
    config = load(flags, os.environ, file, ctx.command.defaults)
    show_tracebacks(ctx, config)
    from kproxy.proxy.app.exec import run as run_command

    code, problem = run_command(config, command, timeout)
    if problem:
        click.echo(f"kproxy: {problem}", err=True)
    return code
