"""`kproxy run` and `kproxy exec`: being a proxy."""

from __future__ import annotations

import os

import click

from kproxy.cli.flags import ConfiguredCommand, given
from kproxy.cli.group import kproxy, show_tracebacks, timeout_option


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
    show_tracebacks(ctx, config)
    from kproxy.app.main import run as run_app

    return run_app(config)


@kproxy.command(
    "exec",
    cls=ConfiguredCommand,
    defaults={"listen": "127.0.0.1:0", "admin": "off", "log-level": "warning", "ready-requires": "all"},
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND...")
@timeout_option("30s", "How long to wait for the cluster before giving up.")
@click.pass_context
def exec_(ctx: click.Context, /, command: tuple[str, ...], timeout: float, **values: object) -> int:
    """Run a command whose Kafka clients go through a kproxy of their own.

    \b
      kproxy exec -b kafka.example:9092 -- kcat -b {bootstrap} -L
      kproxy exec -b kafka.example:9092 -- spark-submit job.py

    Starts the proxy, waits until it is ready, runs the command, and ends with it and with its exit code. The command
    finds the bootstrap server in KAFKA_BOOTSTRAP_SERVERS and KPROXY_BOOTSTRAP; in its arguments, {bootstrap} is
    replaced. With several clusters these are the first one's; each has KPROXY_BOOTSTRAP_NAME and {bootstrap:NAME} too.

    Takes the options of 'kproxy run'. Several can run at once: each takes free ports. Exit codes of its own: 125 not
    ready in time, 126 the command cannot be executed, 127 not found; 128+N when signal N ended it.
    """
    from kproxy.config import load

    file, flags = given(values)
    assert isinstance(ctx.command, ConfiguredCommand)
    config = load(flags, os.environ, file, ctx.command.defaults)
    show_tracebacks(ctx, config)
    from kproxy.app.exec import run as run_command

    code, problem = run_command(config, command, timeout)
    if problem:
        click.echo(f"kproxy: {problem}", err=True)
    return code
