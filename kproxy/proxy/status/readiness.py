"""The readiness of a cluster for clients, and advice about nodes that kproxy cannot connect to."""

from __future__ import annotations

from typing import Literal, get_args

from kproxy.base.messages.start import CANNOT_BE_REACHED, NODES_UNREACHABLE_FIX, NODES_UNREACHABLE_MAP
from kproxy.proxy.status.model import ClusterStatus, SwitchStatus

Requires = Literal["all", "one", "none"]
"""The number of nodes of each cluster that must be reachable for kproxy to be ready."""

LEVELS: tuple[Requires, ...] = get_args(Requires)
"""All values of `Requires`."""


def not_ready_reasons(cluster: ClusterStatus, requires: Requires) -> list[str]:
    """Return why clients should wait, a line each; empty if they need not."""
    reasons = _unreachable(cluster, requires)
    if cluster.full:
        reasons.append(cluster.full)
    reasons += [f"cluster {cluster.name}: {node.name} has no local port" for node in cluster.present if not node.bound]
    if cluster.switch is not None:
        for switch in (cluster.switch, *cluster.switch.parts):
            reasons += _switch_problems(f"{cluster.name}/{switch.part}" if switch.part else cluster.name, switch)
    return reasons


def permanent_problems(cluster: ClusterStatus) -> list[str]:
    """Return why the cluster will not become ready before a person acts, a line each; empty if it may."""
    return [f"cluster {cluster.name}: {cluster.problem}"] if cluster.login_refused else []


def _switch_problems(name: str, switch: SwitchStatus) -> list[str]:
    """Return why clients cannot write before a person acts, a line each."""
    if not switch.stuck:
        return []  # it ends by itself, in seconds
    reasons = [f"cluster {name}: {switch.problem}"] if switch.problem else []
    if switch.phase == "committed":
        reasons.append(
            f"cluster {name}: switch {switch.switch} has committed and holds all writes: "
            "kproxy migrate switch --resume continues it, --abort undoes it"
        )
    return reasons


def _unreachable(cluster: ClusterStatus, requires: Requires) -> list[str]:
    if requires == "none":
        return []
    if not cluster.answered or not cluster.searched:
        return [f"cluster {cluster.name}: {cluster.problem or 'looking for an address of each node that works'}"]
    lost = cluster.out_of_reach
    if not lost or (requires == "one" and len(lost) < len(cluster.present)):
        return []
    return unreachable_nodes(cluster)


def unreachable_nodes(cluster: ClusterStatus) -> list[str]:
    """Return every node that kproxy cannot connect to, why, and what to do, a line each."""
    lost = cluster.out_of_reach
    lines = [
        f"cluster {cluster.name}: {node.name} ({node.advertised}) "
        + CANNOT_BE_REACHED(problem=node.problem or "not tried yet")
        for node in lost
    ]
    return [*lines, f"cluster {cluster.name}: {advice(cluster)}"] if lost else []


def advice(cluster: ClusterStatus) -> str:
    """Return what to do about the nodes that kproxy cannot connect to, in one line."""
    lost = cluster.out_of_reach
    count = f"{len(lost)} of {len(cluster.present)}"
    elsewhere = [node for node in lost if node.may_be_elsewhere]
    if not elsewhere:
        return NODES_UNREACHABLE_FIX(count=count)
    maps = " ".join(f"--map 'node:{node.node}=HOST:PORT'" for node in elsewhere)
    which = "each of them is" if len(elsewhere) == len(lost) else "these are"
    return NODES_UNREACHABLE_MAP(count=count, which=which, maps=maps)
