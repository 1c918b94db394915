"""One cluster's gateway: the local ports of its nodes, local addresses for endpoints, and which upstream is active."""

from __future__ import annotations

import asyncio
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
from kproxy.base.repeats import about
from kproxy.config import ClusterConfig
from kproxy.config.changes import successors
from kproxy.protocol.rewrite.endpoints import Endpoints, ListenersPending
from kproxy.proxy.cluster.acceptor import Acceptor, HandleClient
from kproxy.proxy.cluster.connectionlimit import ConnectionLimit
from kproxy.proxy.cluster.encryption import ClusterTls, client_tls
from kproxy.proxy.cluster.explorer import Explorer
from kproxy.proxy.cluster.forwards import Forwards
from kproxy.proxy.cluster.listeners import BOUND_AT_ONCE, Listeners
from kproxy.proxy.cluster.localports import LocalPorts
from kproxy.proxy.cluster.nodedialer import AffectsSession, NodeDialer
from kproxy.proxy.cluster.nodeports import NODES_LOGGED_APART, NodePorts
from kproxy.proxy.cluster.nodeverifier import VerifiedConnection
from kproxy.proxy.cluster.ownaddresses import OwnAddresses
from kproxy.proxy.cluster.portclaims import ClusterClaims, ProcessClaims, short_hash
from kproxy.proxy.cluster.topology import Node, NodeKey, Topology, TopologyChange
from kproxy.proxy.cluster.upstream import Upstream
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.switching.logins import LoginMode
from kproxy.proxy.switching.parts import unit_name

log = logging.getLogger(__name__)

# Of so many nodes that come, go or move together there is a line for each.
_LINES_AT_ONCE = 20
# How often kproxies that share ports look which of them accepts clients, while only one does, in seconds.
_CHOOSE_AGAIN = 1.0


_WITHOUT_LOGIN = (
    ". Its brokers say it after a login only, and clients bring theirs: set cluster-id for upstream {name}, or let"
    " kproxy log in (sasl)"
)


class Gateway:
    """The local side of one cluster. `carry` takes over clients that have spoken; `on_change` is called when there is
    something new about its nodes.

    `own` are the addresses on which the process listens, which no upstream leads to.

    `others` are its upstreams beside the one that is active. Each of them is explored, and the nodes of each have
    listeners; a local port leads to a node of the active one. `topology`, `reach` and `explorer` are the active one's.

    With `sharing`, other kproxies may have the same ports. Then it listens only when a bootstrap server has answered:
    until then clients find the others.
    """

    def __init__(
        self,
        config: ClusterConfig,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        places: ConnectionLimit,
        carry: HandleClient,
        on_change: Callable[[], None] = lambda: None,
        others: Sequence[ClusterConfig] = (),
        own: OwnAddresses | None = None,
        sharing: ProcessClaims | None = None,
    ) -> None:
        self.tasks = tasks
        self._on_change = on_change
        self.own = own or OwnAddresses()
        self._warned_wildcard = False
        self._ended = False
        self._one_until = float("-inf")  # while only one of the kproxies that share the ports accepts clients
        self._leading_to_one: asyncio.Task[None] | None = None
        self.active = config.upstream
        self.parts: dict[str, str] = {}  # to which upstream each part's clients are led
        self.upstreams: dict[str, Upstream] = {}
        self.door = Acceptor(
            config, metrics, places, self.local_host, carry,
            expects_tls=client_tls(config) is not None,
        )  # fmt: skip
        self._listeners = Listeners(config.listen, self.door.accepted, self.own, shared=sharing is not None)
        self.shared = None if sharing is None else _claim_ports(sharing, config, others, self._listeners.hosts)
        try:
            bootstrap = self._listeners.bind(None, config.listen.port)
        except OSError as error:
            if self.shared is not None:
                self.shared.end()
            raise ConfigError(_bind_problem(config.listen, error, shared=self.shared is not None)) from None
        self.listen = Address(config.listen.host, bootstrap.port)
        try:
            self.forwards = Forwards(
                config.name, config.forward, config.listen, tasks, places, self._connect, self.own,
                shared=self.shared is not None,
            )  # fmt: skip
            for one in (config, *others):
                if one.cluster_id is not None and (said := self._agree(one.upstream, one.cluster_id)) != one.cluster_id:
                    raise ConfigError(_other_cluster_text(one, said))
        except ConfigError:
            self._listeners.close_all()
            if self.shared is not None:
                self.shared.end()
            raise
        window = config.effective_node_ports(self.listen.port)
        ports = LocalPorts(window.first, window.last, fixed=self.shared is not None)
        self._upstream = partial(
            Upstream, ports=ports, metrics=metrics, tasks=tasks, is_own=self.own.leads_here, learn=self._learn,
            agree=self._agree,
            on_news=self._heard,
        )  # fmt: skip
        for one in (config, *others):
            self.upstreams[one.upstream] = self._upstream(one)
        self._nodes = NodePorts(self._listeners, ports, self.upstreams, metrics, places)

    # Other kproxies at the same ports

    def _heard(self) -> None:
        """There is news of an upstream."""
        if self.shared is not None and self.reach.known.explored.answered:
            self.shared.agree("serves", "yes")
            if not self._gives_way():
                self._listeners.resume()
            self.forwards.resume()
        self._on_change()

    def lead_to_one(self, seconds: float, over: Callable[[], None]) -> None:
        """For so long, let only the one that began first of the kproxies that share the ports accept clients; then call
        `over`. What a consumer was told since a switch, only the kproxy knows that told it."""
        if self.shared is None:
            return
        self._one_until = monotonic() + seconds
        if self._leading_to_one is not None:
            self._leading_to_one.cancel()
        self._choose()
        self._leading_to_one = self.tasks.create_task(self._lead_to_one(over))

    async def _lead_to_one(self, over: Callable[[], None]) -> None:
        while monotonic() < self._one_until:
            await asyncio.sleep(_CHOOSE_AGAIN)
            self._choose()
        self._leading_to_one = None
        over()

    def _choose(self) -> None:
        if self._gives_way():
            self._listeners.pause()
        elif self.reach.known.explored.answered:
            self._listeners.resume()

    def _gives_way(self) -> bool:
        """Whether another kproxy at the same ports accepts the clients now."""
        return self.shared is not None and monotonic() < self._one_until and not self.shared.is_first("serves")

    def say_where_it_leads(self) -> str:
        """Tell the kproxies that share the ports where clients are led to. Returns why this cannot be, or ""."""
        leads = f"{self.active} {sorted(one for one in self.parts.items() if one[1] != self.active)}"
        if self.shared is None:
            return ""
        self.shared.retract("leads")
        if self.shared.agree("leads", meaning := short_hash(leads)) == meaning:
            return ""
        return (
            f"cluster {self.config.name}: another kproxy that shares port {self.listen.port} leads clients to another"
            f" upstream than {self.active}: set active to that one, or use a copy of its state-dir"
        )

    def retract_where_it_leads(self) -> None:
        """A switch is under way."""
        if self.shared is not None:
            self.shared.retract("leads")

    def _agree(self, upstream: str, cluster_id: str) -> str:
        """The id of the Kafka cluster that all kproxies which share the ports serve as this upstream."""
        return cluster_id if self.shared is None else self.shared.agree(f"id of {upstream}", cluster_id)

    # The active upstream

    @property
    def config(self) -> ClusterConfig:
        """How the cluster is served now."""
        return self.upstreams[self.active].config

    @property
    def topology(self) -> Topology:
        """The active upstream's nodes."""
        return self.upstreams[self.active].topology

    @property
    def reach(self) -> NodeDialer:
        """The ways to them."""
        return self.upstreams[self.active].reach

    @property
    def explorer(self) -> Explorer:
        """Who looks for them."""
        return self.upstreams[self.active].explorer

    def of_part(self, part: str) -> Upstream:
        """To which the clients of a part are led, or, for "", all others."""
        return self.upstreams[self.parts[part] if part else self.active]

    async def dial(self, key: NodeKey | None, part: str = "") -> VerifiedConnection:
        """Connect to a node of the active upstream, or of that of a part, or, for None, to a bootstrap server. Raises
        UpstreamError.

        A client may know nodes of another upstream only, or of one that is gone. It finds a bootstrap server at their
        ports, which tells it the right ones, and refuses what it does not lead. Which nodes there are is known when the
        bootstrap servers have been asked.
        """
        await self.of_part(part).reach.settled.wait()
        active = self.of_part(part)
        if key is not None and not active.has(key) and (len(self.upstreams) > 1 or not active.knows(key)):
            key = None
        return await active.reach.dial(key)

    async def knows(self, key: NodeKey) -> bool:
        """Whether any metadata named the node. This is known when the bootstrap servers have been asked."""
        await self.reach.settled.wait()
        return any(one.knows(key) for one in self.upstreams.values())

    async def _connect(self, address: Address) -> socket.socket:
        """To something that is no broker, along the hops to the active upstream. Raises UpstreamError."""
        return await self.reach.connect(address)

    def why_not(self, to: str, part: str = "") -> str | None:
        """Why this upstream cannot become the active one now, of a part, or of all others; None if it can: it has been
        met, and is another Kafka cluster than the active one."""
        if to not in self.upstreams:
            return f"cluster {self.config.name} has no upstream {to}; allowed: {', '.join(self.upstreams)}"
        active = self.parts[part] if part else self.active
        known, here = self.upstreams[to].reach.known, self.upstreams[active].reach.known
        if not known.explored.answered:
            return f"upstream {to} does not answer: {known.explored.problem}"
        for name, one in ((to, known), (active, here)):
            if one.cluster_id is None:
                text = f"upstream {name} has not said its cluster id: kproxy cannot tell the two apart"
                wants_login = self.upstreams[name].reach.meetings.login is LoginMode.CLIENTS
                return text + (_WITHOUT_LOGIN.format(name=name) if wants_login else "")
        return self.same_cluster() if to != active else None

    def same_cluster(self) -> str | None:
        """What to say if two upstreams are the same Kafka cluster."""
        seen: dict[str, str] = {}
        for name, one in self.upstreams.items():
            cluster_id = one.reach.known.cluster_id
            if cluster_id is not None and seen.setdefault(cluster_id, name) != name:
                return f"upstreams {seen[cluster_id]} and {name} are the same Kafka cluster (id {cluster_id})"
        return None

    def flip(self, to: str, part: str = "") -> None:
        """Lead the clients of a part, or all others, to this upstream from the next dial on. Its nodes have their ports
        already. Whoever calls this cuts their sessions in the same step: none may go on with addresses of the former
        one."""
        before = self.parts[part] if part else self.active
        text = "cluster %s: leads to upstream %s from now on, no longer to %s"
        log.info(text, unit_name(self.config.name, part), to, before)
        if part:
            self.parts[part] = to
        else:
            self.active = to
        self._on_change()

    def goes_on(self, configs: Sequence[ClusterConfig]) -> Mapping[str, str]:
        """Which upstreams another configuration has still, and under which name; the active one is its first."""
        here = [self.config, *(one.config for one in self.upstreams.values() if one.config is not self.config)]
        return successors(here, configs)

    def prepare(self, configs: Sequence[ClusterConfig]) -> Mapping[str, Upstream]:
        """The upstreams that another configuration has more, for `reconfigure`; nothing changes yet. Raises
        ConfigError."""
        kept = set(self.goes_on(configs).values())
        return {one.upstream: self._upstream(one) for one in configs if one.upstream not in kept}

    def reconfigure(
        self,
        configs: Sequence[ClusterConfig],
        ends: Mapping[str, ClusterTls],
        added: Mapping[str, Upstream],
        seconds: float,
    ) -> Mapping[str, AffectsSession]:
        """Serve the cluster so from now on, with the TLS of each upstream; return, by upstream, which sessions that
        concerns, which have so many seconds to end. Listeners and local ports stay as they are. The upstream that
        clients are led to stays, perhaps under another name."""
        former, goes_on = dict(self.upstreams), self.goes_on(configs)
        for name in former.keys() - goes_on.keys():
            self._nodes.leave(former[name])
            former[name].reach.end(seconds)
            if self.shared is not None:
                self.shared.retract(f"id of {name}")
        kept = {later: former[name] for name, later in goes_on.items()}
        concerned = {}
        for one in configs:
            if one.upstream in kept:
                concerned[one.upstream] = kept[one.upstream].reconfigure(one, ends[one.upstream], seconds)
        # In place: who looks after the ports has the same mapping.
        self.upstreams.clear()
        self.upstreams.update({one.upstream: kept.get(one.upstream) or added[one.upstream] for one in configs})
        self.active = configs[0].upstream
        self.parts = {part: goes_on[led] for part, led in self.parts.items()} if len(configs) > 1 else {}
        self.door.reconfigure(self.config, expects_tls=ends[self.active].clients is not None)
        self._on_change()
        return concerned

    # Local addresses

    def local_host(self, client: socket.socket | None = None) -> str:
        """The host that a client is told: what --advertise says, or the listener's, or, where that is every interface,
        the address that this client connected to."""
        if self.config.advertise is not None:
            return self.config.advertise.host
        if not self.listen.is_wildcard:
            return self.listen.host
        host = "127.0.0.1" if client is None else str(client.getsockname()[0]).removeprefix("::ffff:")
        if client is not None and not self._warned_wildcard:
            self._warned_wildcard = True
            log.warning(
                "--listen %s means every interface and cannot be advertised: kproxy tells each client the address that"
                " the client connected to (%s). If clients must use another, set --advertise HOST",
                self.listen,
                host,
            )
        return host

    @property
    def bootstrap(self) -> Address:
        """What clients use as their bootstrap server; behind mapped ports only the user knows that."""
        return Address(self.local_host(), self.listen.port)

    def local_address(self, node: Node, host: str) -> Address:
        """Where clients find the node."""
        if self.config.sni is not None:
            port = self.config.advertised_port(self.listen.port)
            return Address(self.config.sni.name(node.key.label), port)
        return Address(host, self.config.advertised_port(node.port, self.listen.port) if node.port else 0)

    def _learn(self, upstream: Upstream, endpoints: Endpoints) -> Iterator[None]:
        """Take in nodes. Each has a listener when the steps have been taken. Raises WireError."""
        self._nodes.make_room(upstream, endpoints)
        learned = upstream.topology.learn(endpoints, monotonic())
        if learned != TopologyChange():
            upstream.explorer.stir()
            self._say_learned(upstream, learned)
            self._on_change()
        # Another response may have named some of them, and not be done with them.
        named = [NodeKey(endpoint.kind, endpoint.node_id) for endpoint in endpoints.nodes]
        lacking = upstream.topology.in_order(key for key in named if not self._nodes.is_bound(key))
        return self._serve(upstream, lacking, learned.new)

    def _serve(self, upstream: Upstream, lacking: Sequence[NodeKey], new: Sequence[Node]) -> Iterator[None]:
        yield from self._nodes.bind(lacking)
        if new:
            self._say_new(upstream, new)
            self._on_change()

    def _say_new(self, upstream: Upstream, nodes: Sequence[Node]) -> None:
        # At start they are all new, and shown together.
        level = logging.INFO if upstream.reach.known.explored.searched else logging.DEBUG
        here = self.local_host()
        _log_nodes(level, upstream, f"{_upstream_prefix(upstream)}%s: %s is at local port %d", [
            (node, node.advertised, self.local_address(node, here).port) for node in filter(self.is_bound, nodes)
        ])  # fmt: skip

    def _say_learned(self, upstream: Upstream, learned: TopologyChange) -> None:
        whose = _upstream_prefix(upstream)
        _log_nodes(logging.INFO, upstream, f"{whose}%s moved from %s to %s; its local port stays %d", [
            (node, before, node.advertised, node.port) for node, before in learned.moved
        ])  # fmt: skip
        for text, nodes in (("%s (%s) is no longer in the metadata", learned.gone), ("%s (%s) is back", learned.back)):
            _log_nodes(logging.INFO, upstream, whose + text, [(node, node.advertised) for node in nodes])

    def localise(self, host: str, endpoints: Endpoints, part: str = "") -> Sequence[Address]:
        """The local addresses of what a broker named; each is bound. Raises WireError, and NotYet."""
        upstream = self.of_part(part)
        topology = upstream.topology
        told = upstream.told.recall(host, endpoints, (self.config, topology.edition))
        if told is not None:  # the usual case: nothing is new since these endpoints were learned
            return told
        if any(endpoint.node_id < 0 for endpoint in endpoints.nodes):
            raise WireError("malformed", "the broker named a node with a negative id")
        if self._ended and not topology.knows(endpoints):
            raise _not_served()
        steps = self._learn(upstream, endpoints)
        if sum(1 for _ in islice(steps, BOUND_AT_ONCE)) == BOUND_AT_ONCE:
            raise ListenersPending(steps)
        nodes = topology.nodes
        self._check_served([nodes[NodeKey(e.kind, e.node_id)] for e in endpoints.nodes])
        local = tuple(self.local_address(nodes[NodeKey(e.kind, e.node_id)], host) for e in endpoints.nodes)
        upstream.told.note(host, endpoints, (self.config, topology.edition), local)
        return local

    def _check_served(self, nodes: Sequence[Node]) -> None:
        """Raises WireError if one of these has no listener: a client must be told no address that is not served."""
        if self._ended or not self._listeners.accepting:
            # Nothing is served any more, but what is in flight is still answered.
            if self.config.sni is None and not all(node.port for node in nodes):
                raise _not_served()
            return
        for node in nodes:
            if not self.is_bound(node):
                raise WireError("no-local-port", f"{node.key} has no local port: {self._nodes.problem}")

    # The end, and what the app asks for

    def bind_missing(self) -> Iterator[None]:
        """Give listeners to nodes that could have none, for want of file descriptors say."""
        missing = self._nodes.missing()
        yield from self._nodes.bind(missing)
        if any(map(self._nodes.is_bound, missing)):
            self._on_change()

    def retire(self) -> Iterator[None]:
        """Close the listeners of nodes that have been absent and unused for long enough. They keep their ports."""
        return self._nodes.retire(self.config.retire_after)

    def end(self, seconds: float) -> None:
        """The cluster is served no more; its sessions have so many seconds to end."""
        self._ended = True
        self.stop_accepting()
        asyncio.get_running_loop().call_later(seconds, self.forwards.end)
        for upstream in self.upstreams.values():
            upstream.reach.end(seconds)

    async def close(self) -> None:
        """Close what is kept open for connections to come."""
        for upstream in self.upstreams.values():
            await upstream.reach.close()

    def stop_accepting(self) -> None:
        """Close the listeners and the connections that have said nothing yet."""
        self._nodes.close_all()
        if self.shared is not None:
            self.shared.end()
        self.forwards.stop_accepting()
        self.door.close()

    @property
    def sessions(self) -> int:
        """Client connections that have spoken."""
        return self.door.sessions

    def sessions_of(self, node: Node) -> int:
        """Open client connections to one node."""
        return self.door.sessions_of(node.key)

    def is_bound(self, node: Node) -> bool:
        """Whether clients may be told the node's address."""
        return self._nodes.is_bound(node.key)


def _upstream_prefix(upstream: Upstream) -> str:
    return f"{upstream.config.upstream}: " if upstream.config.upstream else ""


def _not_served() -> WireError:
    return WireError("not-localised", "a new node of a cluster that kproxy no longer serves has no local port")


def _log_nodes(level: int, upstream: Upstream, text: str, said: Sequence[tuple[Node, *tuple[object, ...]]]) -> None:
    """A line for each node; of many at once, one for all of them, with the first."""
    title = upstream.config.title
    if len(said) > _LINES_AT_ONCE:
        (node, *rest), others = said[0], len(said) - 1
        text += ", and so on: %d more nodes"
        log.log(level, text, node.key, *rest, others, extra=about(title))
        return
    for node, *rest in said:
        # A broker may name others each time, which must not crowd what else there is to say out of the log.
        log.log(level, text, node.key, *rest, extra=about(title, node.key.node_id % NODES_LOGGED_APART))


def _claim_ports(
    sharing: ProcessClaims, config: ClusterConfig, others: Sequence[ClusterConfig], hosts: Sequence[str]
) -> ClusterClaims:
    """Raises ConfigError if another kproxy means something else by one of the ports."""
    window = config.effective_node_ports()
    upstreams = sorted(one.upstream for one in (config, *others))
    tls = config.client_tls_cert is not None
    here = f"{window}, {config.sni}, {config.advertise}, {upstreams}, {tls}"
    ports = [(config.listen.port, config.listen.port, f"bootstrap {here}")]
    if config.sni is None:
        ports.append((window.first, window.last, f"nodes {here}"))
    for forward in config.forward:
        port = forward.listen(config.listen).port
        ports.append((port, port, f"forward {forward.to}"))
    return ClusterClaims(sharing, config.name, hosts, ports)


def _other_cluster_text(config: ClusterConfig, said: str) -> str:
    return (
        f"cluster {config.title}: cluster-id is {config.cluster_id}, and another kproxy that shares port"
        f" {config.listen.port} (--reuse-port) serves the Kafka cluster with the id {said}"
    )


def _bind_problem(listen: Address, error: OSError, *, shared: bool) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"--listen {listen}: {error.strerror}"
    peer = find_connection(listen.port)
    if peer is None and shared:
        return (
            f"--listen {listen}: the port is taken by a process that does not share it (--reuse-port), or of another"
            " user; choose another with --listen HOST:PORT"
        )
    if peer is None:
        return f"--listen {listen}: the port is taken by another process; choose another with --listen HOST:PORT"
    return (
        f"--listen {listen}: the port is the local end of a connection to {peer};"
        " choose another with --listen HOST:PORT"
    )
