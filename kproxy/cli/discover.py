"""`kproxy discover`: possible Kafka clusters, and the command for each."""

from __future__ import annotations

from pathlib import Path

import click

from kproxy.cli.group import kproxy, needs_unix


@kproxy.command(short_help="Find Kafka clusters near this machine.")
@click.option(
    "--in",
    "only",
    multiple=True,
    type=click.Choice(["kubernetes", "docker", "files", "tools", "here"]),
    help="Look only there. Repeatable.  [default: all]",
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]")
@click.option("--namespace", metavar="NAME", help="Namespace in Kubernetes.  [default: all that you may see]")
@click.option("--run", "start", is_flag=True, help="Run the command, if exactly one was found.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def discover(
    ctx: click.Context,
    only: tuple[str, ...],
    context: str | None,
    namespace: str | None,
    start: bool,
    as_json: bool,
) -> int:
    """Find Kafka clusters near this machine, and the command for each.

    \b
      kproxy discover
      kproxy discover --in docker --run

    kproxy looks into Kubernetes (your kubeconfig), Docker and Podman (their sockets), Compose files and client
    configurations in this directory, the configurations of kcat, rpk, kaf, kafkactl and the Confluent CLI, and what
    listens on this machine. It writes nothing and asks no broker. The exit code is 0 if something was found, else 1.
    """
    needs_unix(ctx)
    from kproxy.inspect.discover import output, search

    places = list(search.search_places(Path(), context, namespace, only or search.PLACES))
    candidates = [candidate for place in places for candidate in place.candidates]
    if start:
        runs = [candidate for candidate in candidates if candidate.words[:1] == ("run",)]
        if len(runs) != 1:
            for line in output.text(places):
                click.echo(line, err=True)
            click.echo(f"kproxy: --run needs exactly one command, and there are {len(runs)}: paste one", err=True)
            return 1
        click.echo(output.command(runs[0]), err=True)
        from kproxy.cli.run import run

        return int(run.main(list(runs[0].words[1:]), prog_name="kproxy run", standalone_mode=False, obj=ctx.obj) or 0)
    if as_json:
        click.echo(output.as_json(places))
    else:
        for line in output.text(places):
            click.echo(line)
    return 0 if candidates else 1
