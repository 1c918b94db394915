"""The display of a cluster's nodes at start: where each is, and whether kproxy can reach it.

On a terminal it is a table (`kproxy.proxy.app.nodetable`), else one log line for each node.
"""

from __future__ import annotations

import logging
import sys

from kproxy.net.dial.routes import RouteKind
from kproxy.proxy.app import logs, nodetable
from kproxy.proxy.cluster.reachability import Proof
from kproxy.proxy.status.model import ClusterStatus, NodeStatus
from kproxy.proxy.status.readiness import Requires, advice, not_ready_reasons

log = logging.getLogger(__name__)


def show_nodes(cluster: ClusterStatus, log_format: str, requires: Requires) -> None:
    """Display every node of the cluster, and whether the cluster is ready."""
    if log_format == "auto" and sys.stderr is not None and sys.stderr.isatty() and log.isEnabledFor(logging.INFO):
        _table(cluster)
    else:
        for node in cluster.nodes:
            level = logging.INFO if node.problem is None else logging.WARNING
            log.log(level, "%s: %s -> %s: %s", node.name, node.advertised, node.local, _reachable(node))
    total, lost = len(cluster.present), len(cluster.out_of_reach)
    if lost:
        log.warning("cluster %s: %s", cluster.name, advice(cluster))
    state = f"ready with {total - lost} of {total} nodes (--ready-requires {requires})" if lost else "ready"
    if not_ready_reasons(cluster, requires):
        log.warning(
            "cluster %s: NOT ready: %d of %d nodes can be reached (--ready-requires %s)",
            cluster.name,
            total - lost,
            total,
            requires,
        )
    elif cluster.bootstrap is None:
        # The ports are published under other numbers, that of the bootstrap listener too; only the user knows it.
        log.info("cluster %s: %s; clients use the port that publishes %s", cluster.name, state, cluster.listen)
    else:
        log.info("cluster %s: %s; bootstrap.servers=%s", cluster.name, state, cluster.bootstrap)


def _reachable(node: NodeStatus) -> str:
    if node.problem is not None:
        return f"cannot be reached: {node.problem}"
    if node.dial is None:
        return "not tried yet"
    if node.proof == Proof.UNCHECKED.value:
        if node.route == RouteKind.UNIDENTIFIED.value:
            return "one of the bootstrap servers; kproxy finds out which one after a client has logged in"
        return f"{node.dial} answers; kproxy checks which node it is after a client has logged in"
    where = "reachable" if node.dial == node.advertised else f"reachable through {node.dial} ({node.route})"
    return f"{where}, assumed" if node.proof == Proof.ASSUMED.value else where


def _table(cluster: ClusterStatus) -> None:
    rows = [
        nodetable.NodeRow(node.node, node.advertised, node.local, _reachable(node), node.problem is None)
        for node in cluster.nodes
    ]
    terminal = nodetable.stderr_console(logs.coloured(sys.stderr))
    nodetable.show_table(terminal, f"cluster {cluster.name}", rows)
