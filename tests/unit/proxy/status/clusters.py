"""Clusters as they may be shown."""

from __future__ import annotations

from kproxy.proxy.status.model import ClusterStatus, NodeStatus


def node(number: int, outcome: str) -> NodeStatus:
    """`good`, `lost`, `new` (not tried yet), `unchecked`, `assumed`, `untold` or `gone` (and lost)."""
    proof = {"unchecked": "not checked yet", "untold": "not checked yet", "assumed": "assumed"}.get(
        outcome, "it says so"
    )
    tried = outcome not in ("lost", "gone", "new")
    return NodeStatus(
        node=str(number),
        kind="broker",
        id=number,
        advertised=f"kafka-{number}:9092",
        local=f"127.0.0.1:{19092 + number}",
        bound=True,
        present=outcome != "gone",
        dial=f"gate:{number}" if tried else None,
        route=("untold" if outcome == "untold" else "learned") if tried else None,
        checked=outcome == "good",
        proof=proof if tried else None,
        problem=f"no way to {number}" if outcome in ("lost", "gone") else None,
        sessions=number,
    )


def cluster(*outcomes: str) -> ClusterStatus:
    """A cluster c with the nodes 1, 2, …"""
    return ClusterStatus(
        name="c",
        bootstrap_servers=("gate:1", "gate:2"),
        via=("ssh://bastion",),
        listen="127.0.0.1:19092",
        bootstrap="127.0.0.1:19092",
        cluster_id="größe",
        answered=True,
        searched=True,
        problem=None,
        login_refused=False,
        full=None,
        sessions=3,
        nodes=tuple(node(number, outcome) for number, outcome in enumerate(outcomes, start=1)),
    )
