"""`kproxy doctor`: why a client cannot use a cluster, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import click

from kproxy.cli.flags import ConfiguredCommand, given_options, servers_argument
from kproxy.cli.group import kproxy, needs_unix

# A client's own limits are longer; here, a cluster that drops packets must be recognised within seconds.
_DEFAULTS = {"connect-timeout": "3s"}
# As clients read it.
_ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}


@kproxy.command(cls=ConfiguredCommand, defaults=_DEFAULTS)
@servers_argument
@click.option(
    "--topic", metavar="NAME", help="Also read the end of this topic, and check what this user may do with it."
)
@click.option("--group", metavar="NAME", help="Also find this consumer group's coordinator, and check the rights.")
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    metavar="0|1|all",
    help="Also check whether a producer with these acks could write to --topic. Nothing is written.",
)
@click.option(
    "--client", metavar="NAME:VERSION", help="Also check whether this client fits the brokers, for example java:3.9.0."
)
@click.option("-v", "--verbose", is_flag=True, help="Show each step, also those that went well.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Also draw the picture into FILE."
)
def doctor(
    servers: tuple[str, ...],
    topic: str | None,
    group: str | None,
    acks: str | None,
    client: str | None,
    verbose: bool,
    as_json: bool,
    svg: Path | None,
    **values: object,
) -> int:
    """Say why a client cannot use a cluster, and what to do.

    \b
      kproxy doctor kafka.example:9092
      kproxy doctor -c kproxy.yaml
      kproxy doctor --client-config client.properties --topic orders
      kproxy doctor            # proposes commands for what is configured here

    kproxy does what a client does: it resolves, connects, does TLS, logs in, asks for the brokers, and connects to the
    advertised address of each. Run it where the client runs. It writes nothing to the cluster.

    The options are those of 'kproxy run'. The exit code is 0 if nothing is wrong, 1 if there are problems, 2 if nothing
    could be checked.
    """
    ctx = click.get_current_context()
    needs_unix(ctx)
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    from kproxy.cli.proposals import propose  # few need it

    if (done := propose(ctx)) is not None:
        return done
    file, flags = given_options(values, servers)
    from kproxy.config.commandline import CommandLine
    from kproxy.inspect.doctor.client_versions import ClientVersion
    from kproxy.inspect.doctor.evidence import ClientIntent
    from kproxy.inspect.doctor.run import run

    if acks is not None and topic is None:
        raise click.UsageError("--acks is about a topic; name it with --topic NAME")
    try:
        version = None if client is None else ClientVersion.parse(client)
    except ValueError as error:
        raise click.UsageError(f"--client: {error}") from None

    file = file or (Path(os.environ["KPROXY_CONFIG"]) if os.environ.get("KPROXY_CONFIG") else None)
    intent = ClientIntent(topic, group, None if acks is None else _ACKS[acks], version)
    return run(
        CommandLine(flags, file), os.environ, _DEFAULTS, intent=intent, as_json=as_json, svg=svg, verbose=verbose
    )
