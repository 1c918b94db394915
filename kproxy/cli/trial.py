"""`kproxy demo` and `kproxy devcluster`: a real cluster on this machine."""

from __future__ import annotations

import click

from kproxy.cli.group import kproxy


@kproxy.command()
@click.option("--once", is_flag=True, help="End after the story, without waiting for Ctrl-C.")
def demo(once: bool) -> int:
    """See it work: a real cluster on this machine, whose advertised names resolve nowhere.

    \b
      kproxy demo

    Needs Java and Maven. Shows a client failing, then the same client working through kproxy.
    """
    from kproxy.demo.story import run_demo

    return run_demo(once=once)


@kproxy.command()
@click.option("--brokers", type=click.IntRange(1, 9), default=3, show_default=True, help="How many brokers.")
@click.option(
    "--advertise",
    metavar="NAME",
    default="kafka-{id}.cluster.internal",
    show_default=True,
    help="Host that each broker says it is; {id} stands for its node id. The port is always its own.",
)
@click.option("--localhost", is_flag=True, help="The same as --advertise localhost: clients work without kproxy too.")
def devcluster(brokers: int, advertise: str, localhost: bool) -> int:
    """Start a real cluster on this machine, to try things with.

    \b
      kproxy devcluster

    Its brokers say that they are at names that resolve nowhere. Each has listeners for plaintext, TLS and SASL; for
    each of them the line to start kproxy with is printed. Needs Java and Maven. Ctrl-C ends the cluster and removes
    its data.
    """
    from rich.console import Console

    from kproxy.devcluster.screen import Screen
    from kproxy.devcluster.stand import run as run_stand

    return run_stand(brokers, "localhost" if localhost else advertise, Screen(Console(highlight=False)))
