"""What a person sees at start: the nodes of a cluster, where each is, and whether kproxy can reach it.

On a terminal a table, else one log line for each node.
"""

from __future__ import annotations

import logging
import sys

from kproxy.cluster.gateway import Gateway
from kproxy.cluster.topology import Node

log = logging.getLogger(__name__)


def show_nodes(gateway: Gateway, log_format: str) -> None:
    """Show every node of the cluster."""
    name = gateway.config.name
    nodes = sorted(gateway.topology.nodes.values(), key=lambda node: (node.key.kind.value, node.key.node_id))
    if log_format == "auto" and sys.stderr.isatty() and log.isEnabledFor(logging.INFO):
        _table(gateway, nodes)
    else:
        host = gateway.local_host()
        for node in nodes:
            level = logging.WARNING if node.key in gateway.reach.problems else logging.INFO
            local = gateway.local_address(node, host)
            log.log(level, "%s: %s -> %s: %s", node.key, node.advertised, local, _reachable(gateway, node))
    advice = _advice(gateway, nodes)
    if advice:
        log.warning("%s", advice)
    if gateway.config.advertise is not None and gateway.config.advertise.first_port is not None:
        # The ports are published under other numbers, that of the bootstrap listener too; only the user knows it.
        log.info("cluster %s: ready; clients use the port under which %s is published", name, gateway.listen)
    else:
        log.info("cluster %s: ready; bootstrap.servers=%s", name, gateway.bootstrap)


def _reachable(gateway: Gateway, node: Node) -> str:
    problem = gateway.reach.problems.get(node.key)
    if problem is not None:
        return f"NOT reachable: {problem}"
    route = gateway.reach.worked.get(node.key)
    if route is None or route.dial == node.advertised:
        return "reachable"
    return f"reachable through {route.dial} ({route.via.value})"


def _advice(gateway: Gateway, nodes: list[Node]) -> str:
    """What to do about nodes that cannot be reached, in one line; empty if all can."""
    lost = [node for node in nodes if node.key in gateway.reach.problems]
    if not lost:
        return ""
    first = lost[0]
    return (
        f"{len(lost)} of {len(nodes)} nodes cannot be reached from here. Say where each one is:"
        f" --map 'node:{first.key.label}=HOST:PORT', or list one reachable address of each broker in"
        " --bootstrap-servers and kproxy finds out which is which"
    )


def _table(gateway: Gateway, nodes: list[Node]) -> None:
    # Only a terminal needs rich; importing it takes longer than everything else that is shown.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    host = gateway.local_host()
    table = Table(title=f"cluster {gateway.config.name}", title_justify="left", pad_edge=False)
    for column in ("node", "advertised by the broker", "local address for clients", "reachable from here"):
        table.add_column(column, overflow="fold")
    for node in nodes:
        good = node.key not in gateway.reach.problems
        table.add_row(
            node.key.label,
            Text(str(node.advertised)),
            str(gateway.local_address(node, host)),
            Text(_reachable(gateway, node), style="green" if good else "red"),
        )
    Console(stderr=True).print(table)
