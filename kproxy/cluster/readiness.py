"""Whether clients can use a cluster, and what to do about the nodes that cannot be reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kproxy.cluster.known import Known
from kproxy.cluster.topology import Node, Topology

Requires = Literal["all", "one", "none"]
"""How many nodes of each cluster must be reachable for kproxy to be ready."""


def not_ready(cluster: str, topology: Topology, known: Known, requires: Requires) -> list[str]:
    """Why clients should wait, a line each; empty when they need not."""
    explored = known.explored
    if requires == "none":
        return []
    if not explored.answered or not explored.searched:
        return [f"cluster {cluster}: {explored.problem or 'looking for a way to each node'}"]
    nodes = present(topology)
    lost = out_of_reach(topology, known)
    if not lost or (requires == "one" and len(lost) < len(nodes)):
        return []
    return missing(cluster, topology, known)


def missing(cluster: str, topology: Topology, known: Known) -> list[str]:
    """Every node that cannot be reached, why, and what to do, a line each; empty if all can be."""
    lost = out_of_reach(topology, known)
    lines = [
        f"cluster {cluster}: {node.key} ({node.advertised}) cannot be reached:"
        f" {known.reached(node.key).problem or 'not tried yet'}"
        for node in lost
    ]
    return [*lines, f"cluster {cluster}: {advice(lost, len(present(topology)))}"] if lost else []


def advice(lost: Sequence[Node], total: int) -> str:
    """What to do about nodes that cannot be reached, in one line."""
    maps = " ".join(f"--map 'node:{node.key.label}=HOST:PORT'" for node in lost)
    return (
        f"{len(lost)} of {total} nodes cannot be reached from here. Say where each one is: {maps}; or list one"
        " reachable address of each broker in --bootstrap-servers and kproxy finds out which is which"
    )


def present(topology: Topology) -> list[Node]:
    """The nodes that are there, as far as is known, in order."""
    nodes = [node for node in topology.nodes.values() if node.absent_since is None]
    return sorted(nodes, key=lambda node: (node.key.kind.value, node.key.node_id))


def out_of_reach(topology: Topology, known: Known) -> list[Node]:
    """Those of them that could not be reached at the last try, or have not been tried yet."""
    return [
        node
        for node in present(topology)
        if known.reached(node.key).problem is not None or known.reached(node.key).route is None
    ]
