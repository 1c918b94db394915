"""The state of one cluster, for those who show it (`kproxy.proxy.status`)."""

from __future__ import annotations

from time import monotonic, time

from kproxy.proxy.cluster.forwards import PortForward
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.reachability import NodeReachability
from kproxy.proxy.cluster.topology import Node
from kproxy.proxy.cluster.upstream import Upstream
from kproxy.proxy.status.model import ClusterStatus, ForwardStatus, NodeStatus, UpstreamStatus
from kproxy.proxy.status.readiness import Requires, unreachable_nodes


def report(gateway: Gateway) -> ClusterStatus:
    """The cluster as it is now."""
    advertise = gateway.config.advertise
    published = advertise is not None and advertise.first_port is not None
    known = gateway.reach.known
    return ClusterStatus(
        name=gateway.config.name,
        bootstrap_servers=tuple(str(server) for server in gateway.config.bootstrap_servers),
        via=tuple(str(hop) for hop in gateway.config.via),
        listen=str(gateway.listen),
        bootstrap=None if published else str(gateway.bootstrap),
        cluster_id=known.cluster_id,
        answered=known.explored.answered,
        searched=known.explored.searched,
        problem=known.explored.problem,
        problem_since=known.explored.since,
        login_refused=known.explored.login_refused,
        full=gateway.door.no_place() or None,
        sessions=gateway.sessions,
        nodes=_nodes(gateway, gateway.upstreams[gateway.active]),
        forwards=tuple(_forward(one) for one in gateway.forwards.leading),
        upstreams=tuple(_upstream(gateway, one) for name, one in gateway.upstreams.items() if name),
    )


def lasting_problems(gateway: Gateway, requires: Requires) -> list[str]:
    """Why trying again will not make the cluster ready before a person changes something, a line each; empty if it may:
    a refused login, a name that nobody knows, a certificate with another name."""
    known, name = gateway.reach.known, gateway.config.name
    explored = known.explored
    if requires == "none":
        return []
    if not explored.answered:
        stays = explored.login_refused or explored.lasting
        return [f"cluster {name}: {explored.problem}"] if stays else []
    if not explored.searched:
        return []
    present = [node.key for node in gateway.upstreams[gateway.active].topology.nodes.values() if not node.absent_since]
    lost = [key for key in present if known.reached(key).lasting]
    if not lost or (requires == "one" and len(lost) < len(present)):
        return []
    return unreachable_nodes(report(gateway))


def _forward(leading: PortForward) -> ForwardStatus:
    return ForwardStatus(
        listen=str(leading.listen),
        to=str(leading.to),
        problem=leading.problem or None,
        connections=len(leading.open),
        accepted=leading.accepted,
    )


def _upstream(gateway: Gateway, upstream: Upstream) -> UpstreamStatus:
    config, known = upstream.config, upstream.reach.known
    active = config.upstream == gateway.active
    return UpstreamStatus(
        name=config.upstream,
        active=active,
        bootstrap_servers=tuple(str(server) for server in config.bootstrap_servers),
        via=tuple(str(hop) for hop in config.via),
        cluster_id=known.cluster_id,
        answered=known.explored.answered,
        searched=known.explored.searched,
        problem=known.explored.problem,
        refuses=None if active else gateway.why_not(config.upstream),
        nodes=_nodes(gateway, upstream),
    )


def _nodes(gateway: Gateway, upstream: Upstream) -> tuple[NodeStatus, ...]:
    """Brokers, then controllers."""
    host = gateway.local_host()
    nodes = sorted(upstream.topology.nodes.values(), key=lambda node: (node.key.kind.value, node.key.node_id))
    return tuple(_node(gateway, upstream, node, host) for node in nodes)


def _node(gateway: Gateway, upstream: Upstream, node: Node, host: str) -> NodeStatus:
    reached = upstream.reach.known.reached(node.key)
    route, proof = reached.route, reached.proof
    return NodeStatus(
        node=node.key.label,
        kind=node.key.kind.value,
        id=node.key.node_id,
        advertised=str(node.advertised),
        local=str(gateway.local_address(node, host)),
        bound=gateway.is_bound(node),
        present=node.absent_since is None,
        dial=None if route is None else str(route.dial),
        route=None if route is None else route.kind.value,
        checked=proof is not None and proof.checked,
        proof=None if proof is None else proof.value,
        problem=reached.problem,
        reason=reached.reason,
        lost_since=_lost_since(reached, node),
        sessions=gateway.sessions_of(node) if upstream.config.upstream == gateway.active else 0,
    )


def _lost_since(reached: NodeReachability, node: Node) -> float | None:
    """The Unix time since when clients cannot use the node; None if they can."""
    times = [] if reached.problem is None or reached.since is None else [reached.since]
    if node.absent_since is not None:
        times.append(round(time() - (monotonic() - node.absent_since), 1))
    return min(times, default=None)
