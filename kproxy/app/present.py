"""What a person sees at start: the nodes of a cluster, where each is, and whether kproxy can reach it.

On a terminal a table (`kproxy.app.table`), else one log line for each node.
"""

from __future__ import annotations

import logging
import sys

from kproxy.app import logs, table
from kproxy.cluster.gateway import Gateway
from kproxy.cluster.known import Proof
from kproxy.cluster.readiness import Requires, advice, not_ready, out_of_reach, present
from kproxy.cluster.topology import Node
from kproxy.dial.routes import Via

log = logging.getLogger(__name__)


def show_nodes(gateway: Gateway, log_format: str, requires: Requires) -> None:
    """Show every node of the cluster, and whether it is ready."""
    name = gateway.config.name
    nodes = sorted(gateway.topology.nodes.values(), key=lambda node: (node.key.kind.value, node.key.node_id))
    if log_format == "auto" and sys.stderr.isatty() and log.isEnabledFor(logging.INFO):
        _table(gateway, nodes)
    else:
        host = gateway.local_host()
        for node in nodes:
            level = logging.WARNING if node.key in gateway.reach.known.problems else logging.INFO
            local = gateway.local_address(node, host)
            log.log(level, "%s: %s -> %s: %s", node.key, node.advertised, local, _reachable(gateway, node))
    lost = out_of_reach(gateway.topology, gateway.reach.known)
    total = len(present(gateway.topology))
    if lost:
        log.warning("cluster %s: %s", name, advice(lost, total))
    state = f"ready with {total - len(lost)} of {total} nodes (--ready-requires {requires})" if lost else "ready"
    if not_ready(name, gateway.topology, gateway.reach.known, requires):
        log.warning(
            "cluster %s: NOT ready: %d of %d nodes can be reached (--ready-requires %s)",
            name, total - len(lost), total, requires,
        )  # fmt: skip
    elif gateway.config.advertise is not None and gateway.config.advertise.first_port is not None:
        # The ports are published under other numbers, that of the bootstrap listener too; only the user knows it.
        log.info("cluster %s: %s; clients use the port under which %s is published", name, state, gateway.listen)
    else:
        log.info("cluster %s: %s; bootstrap.servers=%s", name, state, gateway.bootstrap)


def _reachable(gateway: Gateway, node: Node) -> str:
    reached = gateway.reach.known.reached(node.key)
    if reached.problem is not None:
        return f"NOT reachable: {reached.problem}"
    route, proof = reached.route, reached.proof
    if route is None:
        return "not tried yet"
    if proof is Proof.UNCHECKED:
        if route.via is Via.UNTOLD:
            return "one of the bootstrap servers; which one is found out when a client has logged in"
        return f"answers at {route.dial}; who it is will be checked when a client has logged in"
    where = "reachable" if route.dial == node.advertised else f"reachable through {route.dial} ({route.via.value})"
    return f"{where}, assumed" if proof is Proof.ASSUMED else where


def _table(gateway: Gateway, nodes: list[Node]) -> None:
    host = gateway.local_host()
    rows = [
        table.Row(
            node.key.label,
            str(node.advertised),
            str(gateway.local_address(node, host)),
            _reachable(gateway, node),
            node.key not in gateway.reach.known.problems,
        )
        for node in nodes
    ]
    terminal = table.console(logs.coloured(sys.stderr))
    table.show(terminal, f"cluster {gateway.config.name}", rows)
