"""`kproxy wait` and `kproxy reload`: commands for a running kproxy."""

from __future__ import annotations

from pathlib import Path

import click

from kproxy.cli.admin_access import admin_client, admin_options
from kproxy.cli.completion import clusters
from kproxy.cli.group import kproxy, timeout_option


@kproxy.command()
@admin_options("Admin endpoint of the kproxy to wait for.")
@click.option(
    "--ready-requires",
    default="all",
    type=click.Choice(["all", "one", "none"]),
    show_default=True,
    help="How many nodes of each cluster must be reachable.",
)
@timeout_option("60s", "How long to wait. With 0, kproxy checks once.")
def wait(admin: str, admin_ca: Path | None, admin_token_file: Path | None, ready_requires: str, timeout: float) -> int:
    """Wait until a running or starting kproxy is ready.

    \b
      kproxy run kafka.example:9092 &
      kproxy wait && kcat -b 127.0.0.1:19092 -L

    The exit code is 0 if kproxy is ready. It is 1 if kproxy is not ready in time; the reasons are printed.
    """
    client = admin_client(admin, admin_ca, admin_token_file)
    reasons = client.wait_ready(timeout, ready_requires)
    for reason in reasons:
        click.echo(f"kproxy: not ready after {timeout:g} s: {reason}", err=True)
    return 1 if reasons else 0


@kproxy.command()
@admin_options("Admin endpoint of the kproxy to reload.")
@click.option(
    "--accept-cluster",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    shell_complete=clusters,
    help="If the Kafka cluster was created again, and so has another id: serve the new one, and close all sessions. "
    "NAME is needed if kproxy serves several clusters.",
)
@timeout_option("60s", "How long to wait for its answer.")
def reload(
    admin: str, admin_ca: Path | None, admin_token_file: Path | None, accept_cluster: str | None, timeout: float
) -> int:
    """Let a running kproxy read its configuration again.

    \b
      kproxy run -c kproxy.yaml --admin-reload &
      kproxy reload

    Prints what has changed. If there is a mistake, nothing changes, and the mistakes are printed. The exit code is 0 if
    the configuration was taken over, 1 if kproxy cannot be asked or refuses to reload, and 2 if there is a mistake, or
    if kproxy does not accept the new cluster.
    """
    from kproxy.base.errors import AdminError
    from kproxy.proxy.admin.neighbour import served_clusters

    client = admin_client(admin, admin_ca, admin_token_file)
    try:
        if accept_cluster == "":
            names = [cluster.name for cluster in served_clusters(client)]
            if len(names) != 1:
                text = f"--accept-cluster: kproxy serves {len(names)} clusters; allowed: {', '.join(names)}"
                raise click.UsageError(text)
            accept_cluster = names[0]
        done, lines = client.reload(timeout, accept_cluster)
    except AdminError as error:
        click.echo(f"kproxy: {error}", err=True)
        return 1
    for line in lines:
        click.echo(line if done else f"kproxy: {line}", err=not done)
    return 0 if done else 2
