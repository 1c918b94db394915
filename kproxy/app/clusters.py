"""The clusters that are served: each one's gateway, and what is done for it in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

from kproxy.app import nextstep
from kproxy.app.carriers import Carriers
from kproxy.app.nextstep import Invocation
from kproxy.app.present import show_nodes
from kproxy.cluster.encryption import Ends
from kproxy.cluster.gateway import Gateway
from kproxy.cluster.places import Places
from kproxy.cluster.report import report
from kproxy.cluster.tasks import Supervised, said
from kproxy.config import ClusterConfig, Config
from kproxy.config.changes import changed
from kproxy.config.declaring import Reload
from kproxy.errors import ConfigError
from kproxy.metrics import Metrics
from kproxy.status.shown import ClusterStatus
from kproxy.workers.here import Reconfigured

log = logging.getLogger(__name__)

# Between two attempts to explore a cluster whose answers cannot be used, in seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
# How often the ports of nodes are looked through, in seconds, at most.
_LOOK_EVERY = 30.0


class Clusters:
    """Those of one process, in the order of the configuration. Their tasks end with `supervised`."""

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        places: Places,
        carriers: Carriers,
        supervised: contextlib.AsyncExitStack,
        invocation: Invocation | None,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._places = places
        self._carriers = carriers
        self._supervised = supervised
        self._invocation = invocation
        self.gateways: list[Gateway] = []
        self._exploring: dict[str, asyncio.Task[None]] = {}  # by the cluster's name
        self._around: dict[str, list[asyncio.Task[None]]] = {}  # what else is done for it
        self._ending: dict[str, float] = {}  # clusters that were removed, and until when their sessions may last

    async def open_all(self) -> None:
        """Bind the listeners of all clusters. Raises ConfigError if a port cannot be had."""
        for cluster in self._config.clusters:
            self.gateways.append(await self._open(cluster))
        self._carriers.serve(self.gateways)

    async def _open(self, cluster: ClusterConfig) -> Gateway:
        """Raises ConfigError if a port cannot be had."""
        of_cluster = await self._supervised.enter_async_context(Supervised(f"cluster {cluster.name}"))
        carry = partial(self._carriers.carry, cluster.name)
        news = partial(self._carriers.changed, cluster.name)
        return Gateway(cluster, self._metrics, of_cluster, self._places, carry, news)

    def begin(self, gateway: Gateway) -> None:
        """Find the cluster's nodes, and look after it."""
        name, tasks = gateway.config.name, gateway.tasks
        servers = ",".join(str(server) for server in gateway.config.bootstrap_servers)
        log.info("cluster %s: listening on %s for %s", name, gateway.listen, servers)
        if gateway.config.via:
            hops = ", then ".join(str(hop) for hop in gateway.config.via)
            log.info("cluster %s: connects through %s", name, hops)
        self._exploring[name] = tasks.create_task(self._explore(gateway))
        around = (self._help_with_bootstrap(gateway), _look_after_ports(gateway))
        self._around[name] = [tasks.create_task(one) for one in around]

    def stop(self) -> None:
        """Look after none of them any more. What they have is left to be drained."""
        for task in chain(self._exploring.values(), *self._around.values()):
            task.cancel()

    def _end(self, gateway: Gateway, seconds: float) -> None:
        """Serve this cluster no more."""
        name = gateway.config.name
        for task in (self._exploring.pop(name), *self._around.pop(name)):
            task.cancel()
        self.gateways.remove(gateway)
        self._ending[name] = asyncio.get_running_loop().time() + seconds + 1.0  # workers begin later
        gateway.end(seconds)

    async def _explore(self, gateway: Gateway) -> None:
        """Find the cluster's nodes and a way to each, for as long as kproxy runs. What fails there is a defect: it is
        the problem of this cluster alone, and does not hinder the next attempt."""
        told, pause = "", _FIRST_PAUSE
        while True:
            try:
                await gateway.explorer.explore()
                if gateway.topology.nodes:
                    self._show_nodes(report(gateway))
                await gateway.explorer.watch()
            except Exception as error:
                problem = f"defect, please report it: {said(error)}"
                if problem != told:
                    log.error("cluster %s: %s; trying again", gateway.config.name, problem, exc_info=error)
                told = problem
                gateway.explorer.failed(problem)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _show_nodes(self, cluster: ClusterStatus) -> None:
        show_nodes(cluster, self._config.log_format, self._config.ready_requires)
        if self._invocation is not None:
            for line in nextstep.for_nodes(self._invocation, self._config, cluster):
                log.warning("cluster %s: %s", cluster.name, line)

    async def _help_with_bootstrap(self, gateway: Gateway) -> None:
        """Say once what to do if no bootstrap server can be used at start."""
        await gateway.reach.settled.wait()
        if self._invocation is not None:
            for line in nextstep.for_bootstrap(self._invocation, self._config, gateway.reach.known.explored):
                log.warning("cluster %s: %s", gateway.config.name, line)

    # Another configuration

    async def reconfigure(self, config: Config, ends: Mapping[str, Ends]) -> int:
        """Do as this configuration says; return how many sessions are drained. Raises ConfigError if a new cluster
        cannot be served, and has changed nothing then."""
        new = {cluster.name: cluster for cluster in config.clusters}
        added = await self._open_or_none(
            [new[name] for name in new.keys() - {gateway.config.name for gateway in self.gateways}]
        )
        self._config = config
        removed = [gateway for gateway in self.gateways if gateway.config.name not in new]
        for gateway in removed:
            self._end(gateway, config.drain_timeout)
        taken = []
        for gateway in self.gateways:
            name = gateway.config.name
            if new[name] == gateway.config:
                continue
            explore = any(setting.option.reload is not Reload.LIVE for setting in changed(gateway.config, new[name]))
            concerns = gateway.reconfigure(new[name], ends[name], config.drain_timeout)
            taken.append(Reconfigured(new[name], ends[name].clients, concerns))
            if explore:
                self._exploring[name].cancel()
                self._exploring[name] = gateway.tasks.create_task(self._explore(gateway))
        names = [gateway.config.name for gateway in removed]
        self.gateways = sorted((*self.gateways, *added), key=lambda gateway: list(new).index(gateway.config.name))
        draining = await self._carriers.reconfigure(config, taken, added, names)
        for gateway in added:
            self.begin(gateway)
        return draining

    async def _open_or_none(self, clusters: Sequence[ClusterConfig]) -> Sequence[Gateway]:
        opened: list[Gateway] = []
        try:
            for cluster in clusters:
                if self._ending.get(cluster.name, 0.0) > asyncio.get_running_loop().time():
                    raise ConfigError(f"cluster {cluster.name} was removed, and its last sessions are still ending")
                opened.append(await self._open(cluster))
        except ConfigError:
            for gateway in opened:
                gateway.end(0)
            raise
        return opened


async def _look_after_ports(gateway: Gateway) -> None:
    while True:
        await asyncio.sleep(min(_LOOK_EVERY, max(0.05, gateway.config.retire_after / 4)))
        gateway.retire()
        gateway.bind_missing()
