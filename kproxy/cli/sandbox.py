"""`kproxy demo` and `kproxy devcluster`: a real cluster on this machine."""

from __future__ import annotations

import click

from kproxy.cli.group import kproxy, needs_unix


@kproxy.command()
@click.option("--once", is_flag=True, help="Stop after the demonstration, without waiting for Ctrl-C.")
def demo(once: bool) -> int:
    """Show kproxy working with a real local cluster.

    \b
      kproxy demo

    The advertised names of the cluster cannot be resolved. A client fails; then the same client works through kproxy.
    This needs Java 17, Maven and the Python package confluent-kafka. If one of them is missing, the command says how to
    get it before it starts anything.
    """
    needs_unix(click.get_current_context())
    from kproxy.dev.demo.story import run_demo

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
    data. This needs Java 17 and Maven.
    """
    needs_unix(click.get_current_context())
    from rich.console import Console

    from kproxy.dev.devcluster.screen import Screen
    from kproxy.dev.devcluster.trialcluster import run_trial_cluster as run_stand

    return run_stand(brokers, "localhost" if localhost else advertise, Screen(Console(highlight=False)))
