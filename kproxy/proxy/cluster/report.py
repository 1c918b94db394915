"""The state of one cluster as `kproxy.proxy.status` describes it."""

from __future__ import annotations

from collections import Counter
from time import monotonic, time

from kproxy.net.dial.forwardcommands import RunningCommand
from kproxy.proxy.cluster.forwards import PortForward
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.reachability import NodeReachability
from kproxy.proxy.cluster.topology import Node, NodeKey
from kproxy.proxy.cluster.upstream import Upstream
from kproxy.proxy.metrics.registry import BOOTSTRAP
from kproxy.proxy.status.model import ClusterStatus, ForwardCommandStatus, ForwardStatus, NodeStatus, UpstreamStatus
from kproxy.proxy.status.readiness import Requires, unreachable_nodes


def report(gateway: Gateway) -> ClusterStatus:
    """Return the present state of the cluster."""
    advertise = gateway.config.advertise
    published = advertise is not None and advertise.first_port is not None
    reachability = gateway.dialer.reachability
    return ClusterStatus(
        name=gateway.config.name,
        bootstrap_servers=tuple(str(server) for server in gateway.config.bootstrap_servers),
        via=tuple(str(hop) for hop in gateway.config.via),
        listen=str(gateway.listen),
        bootstrap=None if published else str(gateway.bootstrap),
        cluster_id=reachability.cluster_id,
        answered=reachability.exploration.answered,
        searched=reachability.exploration.searched,
        problem=reachability.exploration.problem,
        replaced_by=reachability.exploration.replaced_by,
        problem_since=reachability.exploration.since,
        login_refused=reachability.exploration.login_refused,
        full=gateway.slots.full_reason() or None,
        sessions=gateway.slots.sessions,
        nodes=_nodes(gateway, gateway.upstreams[gateway.active]),
        forward_commands=tuple(
            _command(command, name)
            for name, upstream in gateway.upstreams.items()
            for command in upstream.dialer.forwards
        ),
        forwards=tuple(_forward(port_forward) for port_forward in gateway.forwards.port_forwards),
        upstreams=tuple(_upstream(gateway, upstream) for name, upstream in gateway.upstreams.items() if name),
    )


def lasting_problems(gateway: Gateway, requires: Requires) -> list[str]:
    """Return why the cluster will not become ready before a person changes something, a line each; empty if it may.

    Such problems are a refused login, a name that does not resolve, a certificate with another name.
    """
    reachability, name = gateway.dialer.reachability, gateway.config.name
    exploration = reachability.exploration
    if requires == "none":
        return []
    if not exploration.answered:
        stays = exploration.login_refused or exploration.lasting
        return [f"cluster {name}: {exploration.problem}"] if stays else []
    if not exploration.searched:
        return []
    present = [node.key for node in gateway.upstreams[gateway.active].topology.nodes.values() if not node.absent_since]
    lost = [key for key in present if reachability.of_node(key).lasting]
    if not lost or (requires == "one" and len(lost) < len(present)):
        return []
    return unreachable_nodes(report(gateway))


def _forward(forward: PortForward) -> ForwardStatus:
    return ForwardStatus(
        listen=str(forward.listen),
        to=str(forward.to),
        problem=forward.problem or None,
        connections=len(forward.open),
        accepted=forward.accepted,
    )


def _command(command: RunningCommand, upstream: str) -> ForwardCommandStatus:
    return ForwardCommandStatus(
        node=command.label or BOOTSTRAP,
        server=None if command.label else str(command.advertised),
        command=command.command,
        port=command.port,
        state=command.state.value,
        since=command.since,
        starts=command.starts,
        problem=None if command.problem is None else str(command.problem),
        last_line=command.last_line or None,
        upstream=upstream,
    )


def _upstream(gateway: Gateway, upstream: Upstream) -> UpstreamStatus:
    config, reachability = upstream.config, upstream.dialer.reachability
    active = config.upstream == gateway.active
    return UpstreamStatus(
        name=config.upstream,
        active=active,
        bootstrap_servers=tuple(str(server) for server in config.bootstrap_servers),
        via=tuple(str(hop) for hop in config.via),
        cluster_id=reachability.cluster_id,
        answered=reachability.exploration.answered,
        searched=reachability.exploration.searched,
        problem=reachability.exploration.problem,
        refuses=None if active else gateway.activation_problem(config.upstream),
        nodes=_nodes(gateway, upstream),
    )


def _nodes(gateway: Gateway, upstream: Upstream) -> tuple[NodeStatus, ...]:
    """Return the status of the nodes: brokers, then controllers."""
    host, counts = gateway.local_host(), Counter[NodeKey | None]()
    if upstream.config.upstream == gateway.active:
        counts = gateway.slots.count_by_node()
    nodes = sorted(upstream.topology.nodes.values(), key=lambda node: (node.key.kind.value, node.key.node_id))
    return tuple(_node(gateway, upstream, node, host, counts[node.key]) for node in nodes)


def _node(gateway: Gateway, upstream: Upstream, node: Node, host: str, sessions: int) -> NodeStatus:
    reached = upstream.dialer.reachability.of_node(node.key)
    route, proof = reached.route, reached.proof
    answers = None if route is None else upstream.dialer.reachability.node_addresses.get(route.dial)
    taken = reached.problem is not None and answers is not None and answers.key != node.key
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
        dial_belongs_to=answers.key.label if taken and answers is not None else None,
        sessions=sessions,
    )


def _lost_since(reached: NodeReachability, node: Node) -> float | None:
    """Return the Unix time since when clients cannot use the node; None if they can."""
    times = [] if reached.problem is None or reached.since is None else [reached.since]
    if node.absent_since is not None:
        times.append(round(time() - (monotonic() - node.absent_since), 1))
    return min(times, default=None)
