"""A cluster of three nodes and its sessions, as `kproxy.proxy.status` shows them."""

from __future__ import annotations

from kproxy.proxy.status.model import ClusterStatus, NodeStatus, SessionStatus

NOW = 1000.0
PORTS = {"1": "localhost:19093", "2": "localhost:19094", "3": "localhost:19095"}
TOLD = tuple((f"kafka-{node}:9092", local) for node, local in PORTS.items())


def node(label: str) -> NodeStatus:
    return NodeStatus(
        node=label, kind="broker", id=int(label), advertised=f"kafka-{label}:9092",
        local=PORTS.get(label, ""), bound=True,
        present=True, dial="10.0.0.1:9092", route="mapped", checked=True, proof="", problem=None, sessions=0,
    )  # fmt: skip


def cluster(name: str = "default") -> ClusterStatus:
    return ClusterStatus(
        name=name, bootstrap_servers=(), via=(), listen="", bootstrap=None, cluster_id=None, answered=True,
        searched=True, problem=None, login_refused=False, full=None, sessions=0, nodes=tuple(map(node, PORTS)),
    )  # fmt: skip


def session(
    label: str, client: str = "10.1.1.1:5000", client_id: str = "billing", name: str = "default"
) -> SessionStatus:
    return SessionStatus(
        cluster=name, node=label, client=client, client_id=client_id, software="", since=NOW, in_flight=0
    )
