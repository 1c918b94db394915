"""The clusters that are served: the gateway of each, and its background tasks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

from kproxy.base.errors import ConfigError
from kproxy.base.messages.start import CANNOT_BE_REACHED, CLUSTER_ACCEPTED
from kproxy.base.messages.switches import UPSTREAM_NODES_REACHED, UPSTREAM_NOT_ACTIVE
from kproxy.config import ClusterConfig, Config
from kproxy.config.changes import changed_settings
from kproxy.config.declarations import Reload
from kproxy.proxy.app import nextstep
from kproxy.proxy.app.logs import NOT_ON_TERMINAL
from kproxy.proxy.app.nextstep import Invocation
from kproxy.proxy.app.nodedisplay import show_nodes
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.clientroute import ClusterUpdate
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.encryption import ClusterTls
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.newcluster import NewCluster, NotAccepted, new_cluster
from kproxy.proxy.cluster.ownaddresses import OwnAddresses
from kproxy.proxy.cluster.portclaims import ProcessClaims
from kproxy.proxy.cluster.report import report
from kproxy.proxy.cluster.routewatch import RouteWatch
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup, error_summary
from kproxy.proxy.cluster.upstream import Upstream
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.status.model import ClusterStatus

log = logging.getLogger(__name__)

# Between two attempts to explore a cluster whose answers cannot be used, in seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
# How often the ports of nodes are looked through, in seconds, at most.
_LOOK_EVERY = 30.0


class Clusters:
    """The clusters of one process, in the order of the configuration. Their tasks end with `supervised`."""

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        connection_limit: ConnectionLimit,
        sessions: AllSessions,
        supervised: contextlib.AsyncExitStack,
        invocation: Invocation | None,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._connection_limit = connection_limit
        self._sessions = sessions
        self._supervised = supervised
        self._invocation = invocation
        self.own_addresses = OwnAddresses()
        self._sharing = ProcessClaims() if config.reuse_port else None
        self.gateways: list[Gateway] = []
        self._exploring: dict[tuple[str, str], asyncio.Task[None]] = {}  # by the names of cluster and upstream
        self._background: dict[str, list[asyncio.Task[None]]] = {}  # its other tasks
        metrics.forwards = self._forwards
        self._ending: dict[str, float] = {}  # removed clusters: until when their sessions may last

    async def open_all(self) -> None:
        """Bind the listeners of all clusters. Raises ConfigError if a port cannot be bound."""
        for cluster in self._config.served:
            self.gateways.append(await self._open(cluster, self._config.others(cluster.name)))
        self._sessions.add_clusters(self.gateways)

    async def _open(self, cluster: ClusterConfig, others: Sequence[ClusterConfig]) -> Gateway:
        """Bind the listeners of one cluster. Raises ConfigError if a port cannot be bound."""
        cluster_tasks = await self._supervised.enter_async_context(SupervisedTaskGroup(f"cluster {cluster.name}"))
        handle_client = partial(self._sessions.handle_client, cluster.name)
        return Gateway(
            cluster,
            self._metrics,
            tasks=cluster_tasks,
            connection_limit=self._connection_limit,
            handle_client=handle_client,
            on_change=self._sessions.wake,
            others=others,
            own_addresses=self.own_addresses,
            process_claims=self._sharing,
        )

    def start(self, gateway: Gateway) -> None:
        """Start the background tasks of a cluster, which find its nodes and maintain its ports."""
        name, tasks = gateway.config.name, gateway.tasks
        for upstream in gateway.upstreams.values():
            self._begin_upstream(gateway, upstream)
        for forward in gateway.forwards.port_forwards:
            log.info("cluster %s: %s is forwarded to %s", name, forward.listen, forward.to)
        background = (self._log_bootstrap_hints(gateway), _maintain_ports(gateway))
        self._background[name] = [tasks.create_task(coroutine) for coroutine in background]

    def _begin_upstream(self, gateway: Gateway, upstream: Upstream) -> None:
        config = upstream.config
        servers = ",".join(str(server) for server in config.bootstrap_servers)
        if config.upstream == gateway.active:
            for line in config.access.describe():
                log.info("cluster %s: %s", config.name, line)
        if config.upstream == gateway.active and config.default_port_user:
            log.warning(
                "cluster %s: kproxy listens on %s, because %s refers to its usual port: give clients %s",
                config.title,
                gateway.listen,
                config.default_port_user,
                gateway.bootstrap,
            )
        if config.upstream == gateway.active:
            text = "cluster %s: listening on %s for %s"
            log.info(text, config.title, gateway.listen, servers, extra=NOT_ON_TERMINAL)
        else:
            log.info(UPSTREAM_NOT_ACTIVE(cluster=config.title, upstream=servers, active=gateway.active))
        if config.via:
            hops = ", then ".join(str(hop) for hop in config.via)
            log.info("cluster %s: connects through %s", config.title, hops)
        self._begin_exploring(gateway, upstream)

    def _begin_exploring(self, gateway: Gateway, upstream: Upstream) -> None:
        key = upstream.config.name, upstream.config.upstream
        if key in self._exploring:
            self._exploring[key].cancel()
        self._exploring[key] = gateway.tasks.create_task(self._explore(gateway, upstream))

    def gateway(self, name: str) -> Gateway | None:
        """Return the gateway of the cluster with this name, if it is served."""
        return next((gateway for gateway in self.gateways if gateway.config.name == name), None)

    def _forwards(self) -> list[tuple[str, str, int, int]]:
        """Return the values of `Metrics.forwards`."""
        return [
            (gateway.config.name, str(forward.listen), len(forward.open), forward.accepted)
            for gateway in self.gateways
            for forward in gateway.forwards.port_forwards
        ]

    def stop(self) -> None:
        """Stop all background tasks. Sessions stay, to be drained."""
        for task in chain(self._exploring.values(), *self._background.values()):
            task.cancel()

    def _end(self, gateway: Gateway, seconds: float) -> None:
        """Stop serving this cluster."""
        name = gateway.config.name
        exploring = [self._exploring.pop((name, upstream)) for upstream in gateway.upstreams]
        for task in (*exploring, *self._background.pop(name)):
            task.cancel()
        self.gateways.remove(gateway)
        self._ending[name] = asyncio.get_running_loop().time() + seconds
        gateway.end(seconds)

    async def _explore(self, gateway: Gateway, upstream: Upstream) -> None:
        """Find an upstream's nodes and their routes, for as long as kproxy runs.

        An exception here is a defect. It is the problem of this cluster alone, and does not prevent the next attempt.
        """
        last_problem, pause = "", _FIRST_PAUSE
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    exploring = tasks.create_task(self._explore_and_retry(gateway, upstream))
                    new = await upstream.watch.wait_for_new_cluster()
                    exploring.cancel()
                self._replace(gateway, new, "--accept-new-cluster-after")
                return
            except ConfigError as error:
                log.error("cluster %s: %s; trying again", upstream.config.title, error)
            except Exception as error:
                problem = f"defect, please report it: {error_summary(error)}"
                if problem != last_problem:
                    log.error("cluster %s: %s; trying again", upstream.config.title, problem, exc_info=error)
                last_problem = problem
                upstream.explorer.failed(problem)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _explore_and_retry(self, gateway: Gateway, upstream: Upstream) -> None:
        await upstream.explorer.explore()
        if (same := gateway.same_cluster_problem()) is not None:
            log.error("cluster %s: %s: no switch can be made", gateway.config.name, same)
        if upstream.config.upstream != gateway.active:
            _log_standby(gateway, upstream)
        elif upstream.topology.nodes:
            self._show_nodes(report(gateway))
        routes = RouteWatch(upstream.config.title, upstream.topology, upstream.dialer, gateway.slots.dial_addresses)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(upstream.explorer.retry_nodes())
            tasks.create_task(routes.watch())

    # Another Kafka cluster in place of the served one

    async def accept_new_cluster(self, name: str) -> str:
        """Serve the Kafka cluster to which the bootstrap servers of a cluster belong now; return what has changed.

        Raises KproxyError, with the reason, if kproxy continues to serve the present one.
        """
        gateway = self.gateway(name)
        if gateway is None:
            names = ", ".join(gateway.config.name for gateway in self.gateways)
            raise ConfigError(f"there is no cluster {name}; allowed: {names}")
        if problem := gateway.replacement_problem():
            raise ConfigError(problem)
        upstream, config = gateway.upstreams[gateway.active], gateway.config
        answers = await upstream.explorer.ask_bootstrap_servers(config.connect_timeout)
        if gateway not in self.gateways or gateway.upstreams.get(gateway.active) is not upstream:
            raise ConfigError(f"cluster {name} has changed meanwhile: try again")
        if gateway.config is not config:
            raise ConfigError(f"the configuration of cluster {name} has changed meanwhile: try again")
        try:
            new = new_cluster(upstream.dialer.reachability.cluster_id, answers)
        except NotAccepted as error:
            if error.unchanged:
                return f"cluster {name}: {error}"
            raise ConfigError(f"cluster {name}: {error}") from None
        return self._replace(gateway, new, "--accept-cluster")

    def _replace(self, gateway: Gateway, new: NewCluster, reason: str) -> str:
        """Serve this Kafka cluster from now on, and close all sessions; return what has changed.

        Raises ConfigError if kproxy continues to serve the present one.
        """
        if problem := gateway.replacement_problem():
            raise ConfigError(problem)
        name, served_id = gateway.config.name, gateway.dialer.reachability.cluster_id
        upstream = gateway.serve_new_cluster(new)
        closed = self._sessions.clusters[name].begin_again()
        text = CLUSTER_ACCEPTED(
            cluster=name, cluster_id=new.cluster_id, reason=reason, served_id=served_id, sessions=closed
        )
        log.warning("%s", text)
        self._begin_exploring(gateway, upstream)
        return text

    def _show_nodes(self, cluster: ClusterStatus) -> None:
        show_nodes(cluster, self._config.log_format, self._config.ready_requires)
        if self._invocation is not None:
            for line in nextstep.node_hints(self._invocation, self._config, cluster):
                log.warning("cluster %s: %s", cluster.name, line)

    async def _log_bootstrap_hints(self, gateway: Gateway) -> None:
        """Log once what to do if no bootstrap server can be used at start."""
        await gateway.dialer.bootstrap_asked.wait()
        if self._invocation is not None:
            for line in nextstep.bootstrap_hints(
                self._invocation, self._config, gateway.dialer.reachability.exploration
            ):
                log.warning("cluster %s: %s", gateway.config.name, line)

    # Another configuration

    async def reconfigure(self, config: Config, tls: Mapping[str, ClusterTls]) -> int:
        """Apply this configuration; return how many sessions are drained.

        Raises ConfigError if a new cluster cannot be served; then nothing has changed.
        """
        new = {cluster.name: (cluster, *config.others(cluster.name)) for cluster in config.served}
        present = {gateway.config.name for gateway in self.gateways}
        added = await self._open_or_none(config, [configs[0] for name, configs in new.items() if name not in present])
        kept = [gateway for gateway in self.gateways if gateway.config.name in new]
        upstreams = {gateway.config.name: gateway.prepare_upstreams(new[gateway.config.name]) for gateway in kept}
        self._config = config
        removed = [gateway for gateway in self.gateways if gateway.config.name not in new]
        for gateway in removed:
            self._end(gateway, config.drain_timeout)
        updates = []
        for gateway in kept:
            name = gateway.config.name
            if _present_configs(gateway) != new[name]:
                updates.append(
                    self._reconfigure_gateway(gateway, new[name], tls, upstreams[name], config.drain_timeout)
                )
        names = [gateway.config.name for gateway in removed]
        self.gateways = sorted((*kept, *added), key=lambda gateway: list(new).index(gateway.config.name))
        draining = self._sessions.reconfigure(config, updates) + self._sessions.remove(config, names)
        self._sessions.add_clusters(added)
        for gateway in added:
            self.start(gateway)
        return draining

    def _reconfigure_gateway(
        self,
        gateway: Gateway,
        configs: Sequence[ClusterConfig],
        tls: Mapping[str, ClusterTls],
        added: Mapping[str, Upstream],
        seconds: float,
    ) -> ClusterUpdate:
        """Apply the configurations of a cluster, the active upstream first.

        Upstreams that are new, or whose configuration has changed, are explored.
        """
        name, former, kept = gateway.config.name, dict(gateway.upstreams), gateway.kept_upstreams(configs)
        new_configs = {config.upstream: config for config in configs}
        changes = {later: changed_settings(former[key].config, new_configs[later]) for key, later in kept.items()}
        secured = {config.upstream: tls[config.title] for config in configs}
        concerns = gateway.reconfigure(configs, secured, added, seconds)
        exploring = {key: self._exploring.pop((name, key)) for key in former}
        for key in former.keys() - kept.keys():
            exploring[key].cancel()
        self._exploring |= {(name, later): exploring[key] for key, later in kept.items()}
        for key, settings in changes.items():
            if any(setting.reload is not Reload.LIVE for setting in settings):
                self._begin_exploring(gateway, gateway.upstreams[key])
        for upstream in added.values():
            self._begin_upstream(gateway, upstream)
        parts = {
            part: (gateway.upstreams[upstream_name].config, concerns[upstream_name])
            for part, upstream_name in gateway.parts.items()
        }
        clients = secured[gateway.active].clients
        return ClusterUpdate(gateway.config, clients, concerns[gateway.active], len(configs) > 1, parts)

    async def _open_or_none(self, config: Config, clusters: Sequence[ClusterConfig]) -> Sequence[Gateway]:
        opened: list[Gateway] = []
        try:
            for cluster in clusters:
                if self._ending.get(cluster.name, 0.0) > asyncio.get_running_loop().time():
                    raise ConfigError(f"cluster {cluster.name} was removed, and its last sessions are still ending")
                opened.append(await self._open(cluster, config.others(cluster.name)))
        except ConfigError:
            for gateway in opened:
                gateway.end(0)
            raise
        return opened


def _present_configs(gateway: Gateway) -> tuple[ClusterConfig, ...]:
    """Return the present configurations of a cluster, the active upstream first."""
    others = [upstream.config for name, upstream in gateway.upstreams.items() if name != gateway.active]
    return gateway.config, *others


def _log_standby(gateway: Gateway, upstream: Upstream) -> None:
    """Log the state of an upstream that clients are not routed to. Its nodes have ports already."""
    nodes = [node for node in upstream.topology.nodes.values() if node.absent_since is None]
    problems = upstream.dialer.reachability.problems
    lost = [node for node in nodes if node.key in problems]
    log.info(
        UPSTREAM_NODES_REACHED(
            title=upstream.config.title, reached=len(nodes) - len(lost), nodes=len(nodes), active=gateway.active
        )
    )
    for node in lost:
        problem = CANNOT_BE_REACHED(problem=problems[node.key])
        log.warning("cluster %s: %s: %s", upstream.config.title, node.key, problem)


async def _maintain_ports(gateway: Gateway) -> None:
    while True:
        await asyncio.sleep(min(_LOOK_EVERY, max(0.05, gateway.config.retire_after / 4)))
        for _ in chain(gateway.retire(), gateway.bind_missing()):
            await asyncio.sleep(0)  # sessions continue meanwhile
