"""One cluster's gateway: the local ports of its nodes, local addresses for endpoints, and which upstream is active."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from time import monotonic

from kproxy.base.address import Address
from kproxy.base.ephemeralports import find_connection
from kproxy.base.errors import ConfigError, WireError
from kproxy.base.messages.runtime import NODE_FOUND
from kproxy.base.messages.start import (
    CLUSTER_ID_CONFIGURED,
    CLUSTER_ID_SHARED,
    CLUSTER_OF_SWITCH,
    LISTEN_PORT_OF_CONNECTION,
    PORT_NOT_SHARED,
    PORT_TAKEN,
    SHARED_PORT_SWITCHED,
    WILDCARD_NOT_ADVERTISED,
)
from kproxy.base.messages.switches import CLUSTER_ID_AFTER_LOGIN, CLUSTER_ID_MISSING, SAME_CLUSTER, UPSTREAM_SILENT
from kproxy.config import ClusterConfig
from kproxy.config.changes import successors
from kproxy.protocol.rewrite.endpoints import Endpoints, ListenersPending
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest
from kproxy.proxy.cluster.acceptor import Acceptor, HandleClient
from kproxy.proxy.cluster.connectionslots import ConnectionLimit, ConnectionSlots
from kproxy.proxy.cluster.encryption import ClusterTls, client_tls
from kproxy.proxy.cluster.forwards import Forwards
from kproxy.proxy.cluster.listeners import BOUND_AT_ONCE, Listeners
from kproxy.proxy.cluster.newcluster import NewCluster
from kproxy.proxy.cluster.nodedialer import AffectsSession, NodeDialer
from kproxy.proxy.cluster.nodeports import NodePorts
from kproxy.proxy.cluster.ownaddresses import OwnAddresses
from kproxy.proxy.cluster.portclaims import PortSharing, ProcessClaims
from kproxy.proxy.cluster.topology import LocalPorts, Node, NodeKey, Topology, TopologyChange
from kproxy.proxy.cluster.upstream import Upstream
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.switching.logins import LoginMode
from kproxy.proxy.switching.parts import unit_name

log = logging.getLogger(__name__)


class Gateway:
    """The local side of one cluster, and its upstreams.

    `topology` and `dialer` are those of the active upstream. Each other upstream is explored too, and its
    nodes have listeners; a local port is routed to a node of the active one.
    """

    def __init__(
        self,
        config: ClusterConfig,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        connection_limit: ConnectionLimit,
        handle_client: HandleClient,
        on_change: Callable[[], None] = lambda: None,
        others: Sequence[ClusterConfig] = (),
        own_addresses: OwnAddresses | None = None,
        process_claims: ProcessClaims | None = None,
    ) -> None:
        """Bind the bootstrap listener. Raises ConfigError if a port cannot be bound.

        `handle_client` takes over clients that have sent their first bytes. `on_change` is called when a node of the
        cluster changes. `others` are the upstreams beside the active one. `own_addresses` are those on which the
        process listens, which kproxy never dials. With `process_claims`, other kproxies may have the same ports.
        """
        self.tasks = tasks
        self._on_change = on_change
        self.own_addresses = own_addresses or OwnAddresses()
        self._warned_wildcard = False
        self._ended = False
        self.active = config.upstream
        self.parts: dict[str, str] = {}  # the upstream of each part's clients
        self.upstreams: dict[str, Upstream] = {}
        self.slots = ConnectionSlots(config, connection_limit, metrics)
        self._acceptor = Acceptor(
            self.slots, self.local_host, handle_client, expects_tls=client_tls(config) is not None
        )
        self._listeners = Listeners(
            config.listen, self._acceptor.on_accept, self.own_addresses, shared=process_claims is not None
        )
        with contextlib.ExitStack() as undo:
            undo.callback(self._listeners.close_all)
            self.sharing = PortSharing(process_claims, (config, *others), self._listeners, tasks, self._is_answered)
            undo.callback(self.sharing.end)
            self.listen = Address(config.listen.host, self._bind_bootstrap(config.listen))
            self.forwards = Forwards(
                config.name,
                config.forward,
                config.listen,
                tasks,
                connection_limit,
                lambda address: self.dialer.connect(address),  # of the upstream that is active then
                self.own_addresses,
                shared=self.sharing.is_shared,
            )
            undo.pop_all()
        window = config.effective_node_ports(self.listen.port)
        ports = LocalPorts(window.first, window.last, fixed=self.sharing.is_shared)
        self._upstream = partial(
            Upstream,
            ports=ports,
            metrics=metrics,
            tasks=tasks,
            is_own=self.own_addresses.is_own,
            learn=self._learn,
            agree=self.sharing.agree_on_cluster,
            on_news=self._on_upstream_change,
        )
        for upstream_config in (config, *others):
            self.upstreams[upstream_config.upstream] = self._upstream(upstream_config)
        self._nodes = NodePorts(self._listeners, ports, self.upstreams, metrics, connection_limit)

    def _bind_bootstrap(self, listen: Address) -> int:
        """Bind the bootstrap listener, and return its port. Raises ConfigError if it cannot be bound."""
        try:
            return self._listeners.bind(None, listen.port).port
        except OSError as error:
            raise ConfigError(_bind_problem(listen, error, shared=self.sharing.is_shared)) from None

    def _is_answered(self) -> bool:
        return self.dialer.reachability.exploration.answered

    def _on_upstream_change(self) -> None:
        """React to news of an upstream."""
        if self._is_answered():
            self.sharing.serve()
            self.forwards.resume()
        self._on_change()

    def claim_route(self) -> str:
        """Claim the present route of clients among the kproxies that share the ports; return why that fails, or ""."""
        if self.sharing.claim_route(self.active, self.parts):
            return ""
        return SHARED_PORT_SWITCHED(name=self.config.name, port=self.listen.port, active=self.active)

    # The active upstream

    @property
    def config(self) -> ClusterConfig:
        """The present configuration of the active upstream."""
        return self.upstreams[self.active].config

    @property
    def topology(self) -> Topology:
        """The active upstream's nodes."""
        return self.upstreams[self.active].topology

    @property
    def dialer(self) -> NodeDialer:
        """The active upstream's dialer."""
        return self.upstreams[self.active].dialer

    def upstream_of_part(self, part: str) -> Upstream:
        """Return the upstream that the clients of a part are routed to, or, for "", all others."""
        return self.upstreams[self.parts[part] if part else self.active]

    async def dial(
        self, key: NodeKey | None, request: VersionsRequest | None = None, *, part: str = ""
    ) -> VerifiedConnection:
        """Connect to a node of the active upstream, or of that of a part, or, for None, to a bootstrap server.

        A client may know only nodes of another upstream, or nodes that are gone. At their ports, it reaches a bootstrap
        server, which sends it the right ones, and refuses requests for partitions that it does not lead. kproxy knows
        which nodes exist when it has asked the bootstrap servers. `request` as for `NodeDialer.dial`. Raises
        UpstreamError.
        """
        active = self.upstream_of_part(part)
        if not active.dialer.bootstrap_asked.is_set():
            await active.dialer.bootstrap_asked.wait()
            active = self.upstream_of_part(part)
        if key is not None and not active.has_node(key) and (len(self.upstreams) > 1 or not active.knows_node(key)):
            key = None
        return await active.dialer.dial(key, request)

    async def knows_node(self, key: NodeKey) -> bool:
        """Check whether any metadata named the node, once the bootstrap servers have been asked."""
        await self.dialer.bootstrap_asked.wait()
        return any(upstream.knows_node(key) for upstream in self.upstreams.values())

    def activation_problem(self, to: str, part: str = "") -> str | None:
        """Return why this upstream cannot become active now, for a part or for all other clients; None if it can.

        It must have answered, and be another Kafka cluster than the active one.
        """
        if to not in self.upstreams:
            return f"cluster {self.config.name} has no upstream {to}; allowed: {', '.join(self.upstreams)}"
        active = self.parts[part] if part else self.active
        new_state, active_state = self.upstreams[to].dialer.reachability, self.upstreams[active].dialer.reachability
        if not new_state.exploration.answered:
            return UPSTREAM_SILENT(to=to, problem=new_state.exploration.problem)
        for name, state in ((to, new_state), (active, active_state)):
            if state.cluster_id is None:
                after_login = self.upstreams[name].dialer.verifier.login is LoginMode.CLIENTS
                return (CLUSTER_ID_AFTER_LOGIN if after_login else CLUSTER_ID_MISSING)(name=name)
        return self.same_cluster_problem() if to != active else None

    def same_cluster_problem(self) -> str | None:
        """Return an error text if two upstreams are the same Kafka cluster."""
        name_by_id: dict[str, str] = {}
        for name, upstream in self.upstreams.items():
            cluster_id = upstream.dialer.reachability.cluster_id
            if cluster_id is not None and name_by_id.setdefault(cluster_id, name) != name:
                return SAME_CLUSTER(other=name_by_id[cluster_id], name=name, cluster_id=cluster_id)
        return None

    def flip(self, to: str, part: str = "") -> None:
        """Route the clients of a part, or all others, to this upstream from the next dial on.

        Its nodes have ports already. The caller closes their sessions in the same step: none may continue with
        addresses of the former upstream.
        """
        before = self.parts[part] if part else self.active
        text = "cluster %s: routes clients to upstream %s from now on, no longer to %s"
        log.info(text, unit_name(self.config.name, part), to, before)
        if part:
            self.parts[part] = to
        else:
            former = self.dialer
            self.active = to
            self.forwards.end(lambda target: former.hops_and_address(target) != self.dialer.hops_and_address(target))
        self._on_change()

    def replacement_problem(self) -> str:
        """Return why kproxy cannot serve another Kafka cluster in place of the present one, or ""."""
        if len(self.upstreams) > 1:
            return CLUSTER_OF_SWITCH(name=self.config.name)
        if (cluster_id := self.config.cluster_id) is not None:
            return CLUSTER_ID_CONFIGURED(name=self.config.name, cluster_id=cluster_id)
        return CLUSTER_ID_SHARED(name=self.config.name) if self.sharing.others else ""

    def serve_new_cluster(self, new: NewCluster) -> Upstream:
        """Serve this Kafka cluster in place of the present one; return its upstream, whose nodes are unknown yet.

        The caller closes all sessions in the same step: none may continue with addresses of the former cluster. Until
        the listeners of its nodes are closed, they lead to a bootstrap server, or to the nodes of the new cluster that
        have the same ids. Raises ConfigError if a file for TLS cannot be read; then nothing has changed.
        """
        former = self.upstreams[self.active]
        upstream = self._upstream(former.config)
        self._nodes.remove_upstream(former)
        former.dialer.end(0)
        self.sharing.forget_upstream(self.active)
        self.upstreams[self.active] = upstream
        upstream.dialer.claim_cluster_id(new.cluster_id, new.server)
        self.slots.close_silent()
        self._on_change()
        return upstream

    def kept_upstreams(self, configs: Sequence[ClusterConfig]) -> Mapping[str, str]:
        """Return which upstreams another configuration keeps, and under which name; the active one is its first."""
        others = [upstream.config for upstream in self.upstreams.values() if upstream.config is not self.config]
        return successors([self.config, *others], configs)

    def prepare_upstreams(self, configs: Sequence[ClusterConfig]) -> Mapping[str, Upstream]:
        """Return the upstreams that another configuration adds, for `reconfigure`. Raises ConfigError.

        Nothing changes yet.
        """
        kept_names = set(self.kept_upstreams(configs).values())
        return {config.upstream: self._upstream(config) for config in configs if config.upstream not in kept_names}

    def reconfigure(
        self,
        configs: Sequence[ClusterConfig],
        tls: Mapping[str, ClusterTls],
        added: Mapping[str, Upstream],
        seconds: float,
    ) -> Mapping[str, AffectsSession]:
        """Use these configurations and this TLS, by upstream; return which sessions of each upstream that affects.

        These have that many seconds to end. Listeners and local ports stay. The upstream that clients are routed to
        stays, perhaps under another name.
        """
        former, new_names = dict(self.upstreams), self.kept_upstreams(configs)
        for name in former.keys() - new_names.keys():
            self._nodes.remove_upstream(former[name])
            former[name].dialer.end(seconds)
            self.sharing.forget_upstream(name)
        kept_upstreams = {later: former[name] for name, later in new_names.items()}
        concerns = {
            config.upstream: kept_upstreams[config.upstream].reconfigure(config, tls[config.upstream], seconds)
            for config in configs
            if config.upstream in kept_upstreams
        }
        # In place: `NodePorts` has the same mapping.
        self.upstreams.clear()
        self.upstreams.update(
            {config.upstream: kept_upstreams.get(config.upstream) or added[config.upstream] for config in configs}
        )
        self.active = configs[0].upstream
        self.parts = (
            {part: new_names[upstream_name] for part, upstream_name in self.parts.items()} if len(configs) > 1 else {}
        )
        self.slots.config, self._acceptor.expects_tls = self.config, tls[self.active].clients is not None
        self._on_change()
        return concerns

    # Local addresses

    def local_host(self, client: socket.socket | None = None) -> str:
        """Return the host that kproxy advertises to a client.

        It is that of --advertise, or the listener's, or, where that is every interface, the address that this client
        used.
        """
        if self.config.advertise is not None:
            return self.config.advertise.host
        if not self.listen.is_wildcard:
            return self.listen.host
        host = "127.0.0.1" if client is None else str(client.getsockname()[0]).removeprefix("::ffff:")
        if client is not None and not self._warned_wildcard:
            self._warned_wildcard = True
            log.warning(WILDCARD_NOT_ADVERTISED(listen=self.listen, host=host))
        return host

    @property
    def bootstrap(self) -> Address:
        """The address that clients use as their bootstrap server; behind mapped ports, only the user knows it."""
        return Address(self.local_host(), self.listen.port)

    def local_address(self, node: Node, host: str) -> Address:
        """Return where clients find the node."""
        if self.config.sni is not None:
            port = self.config.advertised_port(self.listen.port)
            return Address(self.config.sni.name(node.key.label), port)
        return Address(host, self.config.advertised_port(node.port, self.listen.port) if node.port else 0)

    def _learn(self, upstream: Upstream, endpoints: Endpoints) -> Iterator[None]:
        """Take in nodes. Each has a listener when all steps of the iterator are done. Raises WireError."""
        self._nodes.make_room(upstream, endpoints)
        change = upstream.topology.learn(endpoints, monotonic())
        if change != TopologyChange():
            upstream.explorer.notify_change()
            upstream.log_changes(change)
            self._on_change()
        # Another response may have named some of them, whose listeners are not bound yet.
        named = [NodeKey(endpoint.kind, endpoint.node_id) for endpoint in endpoints.nodes]
        lacking = upstream.topology.in_order(key for key in named if not self._nodes.is_bound(key))
        return self._serve(upstream, lacking, change.new)

    def _serve(self, upstream: Upstream, lacking: Sequence[NodeKey], new: Sequence[Node]) -> Iterator[None]:
        yield from self._nodes.bind(lacking)
        if new:
            self._log_new(upstream, new)
            self._on_change()

    def _log_new(self, upstream: Upstream, nodes: Sequence[Node]) -> None:
        # At start they are all new, and shown together.
        level = logging.INFO if upstream.dialer.reachability.exploration.searched else logging.DEBUG
        host = self.local_host()
        texts = {
            node.key: NODE_FOUND(node=node.key, address=node.advertised, port=self.local_address(node, host).port)
            for node in filter(self.is_bound, nodes)
        }
        upstream.log_nodes(level, NODE_FOUND, texts)

    def localise(self, host: str, endpoints: Endpoints, part: str = "") -> Sequence[Address]:
        """Return the bound local addresses of a response's endpoints. Raises WireError and ListenersPending."""
        upstream = self.upstream_of_part(part)
        topology = upstream.topology
        cached = upstream.local_addresses.get(host, endpoints, (self.config, topology.revision))
        if cached is not None:  # the usual case: nothing is new since these endpoints were learned
            return cached
        if any(endpoint.node_id < 0 for endpoint in endpoints.nodes):
            raise WireError("malformed", "the broker named a node with a negative id")
        if self._ended and not topology.contains(endpoints):
            raise _not_served()
        steps = self._learn(upstream, endpoints)
        if sum(1 for _ in islice(steps, BOUND_AT_ONCE)) == BOUND_AT_ONCE:
            raise ListenersPending(steps)
        nodes = topology.nodes
        self._check_served([nodes[NodeKey(e.kind, e.node_id)] for e in endpoints.nodes])
        local = tuple(self.local_address(nodes[NodeKey(e.kind, e.node_id)], host) for e in endpoints.nodes)
        upstream.local_addresses.put(host, endpoints, (self.config, topology.revision), local)
        return local

    def _check_served(self, nodes: Sequence[Node]) -> None:
        """Raise WireError if one of these nodes has no listener: kproxy advertises only addresses that it serves."""
        if self._ended or not self._listeners.accepting:
            # The cluster is no longer served, but requests in flight are still answered.
            if self.config.sni is None and not all(node.port for node in nodes):
                raise _not_served()
            return
        for node in nodes:
            if not self.is_bound(node):
                raise WireError("no-local-port", f"{node.key} has no local port: {self._nodes.problem}")

    # The end, and what the app asks for

    def bind_missing(self) -> Iterator[None]:
        """Give listeners to nodes that have none, for example for lack of file descriptors."""
        missing = self._nodes.unbound_nodes()
        yield from self._nodes.bind(missing)
        if any(map(self._nodes.is_bound, missing)):
            self._on_change()

    def retire(self) -> Iterator[None]:
        """Close the listeners of nodes that have been absent and unused for long enough. They keep their ports."""
        return self._nodes.retire(self.config.retire_after)

    def end(self, seconds: float) -> None:
        """Stop serving the cluster; its sessions have this many seconds to end."""
        self._ended = True
        self.stop_accepting()
        asyncio.get_running_loop().call_later(seconds, self.forwards.end)
        for upstream in self.upstreams.values():
            upstream.dialer.end(seconds)

    async def close(self) -> None:
        """Close what is kept open for later connections."""
        for upstream in self.upstreams.values():
            await upstream.dialer.close()

    def stop_accepting(self) -> None:
        """Close the listeners, and the connections that have sent nothing yet."""
        self._nodes.close_all()
        self.sharing.end()
        self.forwards.stop_accepting()
        self.slots.close_silent()

    def is_bound(self, node: Node) -> bool:
        """Check whether kproxy may advertise the node's local address."""
        return self._nodes.is_bound(node.key)


def _not_served() -> WireError:
    return WireError("not-localised", "a new node of a cluster that kproxy no longer serves has no local port")


def _bind_problem(listen: Address, error: OSError, *, shared: bool) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"--listen {listen}: {error.strerror}"
    peer = find_connection(listen.port)
    if peer is None and shared:
        return PORT_NOT_SHARED(listen=listen)
    if peer is None:
        return PORT_TAKEN(listen=listen)
    return LISTEN_PORT_OF_CONNECTION(listen=listen, peer=peer)
