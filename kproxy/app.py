"""The main process of kproxy: its clusters on one event loop, the admin endpoint, signals, drain."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kproxy import __version__, logs
from kproxy.address import Address
from kproxy.admin import AdminPages, start_admin
from kproxy.cluster.gateway import Gateway
from kproxy.cluster.places import Places, raise_file_limit
from kproxy.config import Config
from kproxy.errors import ConfigError
from kproxy.metrics import Metrics
from kproxy.present import show_nodes
from kproxy.relay.selector import RelaySelector
from kproxy.workers.here import Here

if TYPE_CHECKING:
    from kproxy.endings import Ending
    from kproxy.workers.nursery import Nursery

log = logging.getLogger(__name__)

# How often nodes are looked through that may be retired, in seconds, at most.
_RETIRE_EVERY = 30.0

Errand: TypeAlias = Callable[["App"], Awaitable[int]]
"""What a process is there for: it runs for as long as this does, and ends with this exit code."""


async def until_stopped(app: App) -> int:
    """The errand of `kproxy run`."""
    await app.stopping.wait()
    return 0


def run(config: Config, errand: Errand = until_stopped) -> int:
    """Run until the errand is done, by default until SIGTERM or SIGINT; return the exit code.

    Raises ConfigError if a port cannot be had.
    """
    logs.set_up(config.log_format, config.log_level)
    files = raise_file_limit()
    nursery = _nursery(config) if config.workers > 1 else None
    selector = RelaySelector()
    # A session has two; with workers they are theirs, and a client is here only until it has spoken.
    places = Places(files, files_per_connection=2 if nursery is None else 1)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(App(config, selector, places, nursery).run(errand))


def _nursery(config: Config) -> Nursery:
    if sys.platform != "linux":
        raise ConfigError("--workers needs Linux; leave it out, and kproxy runs in one process")
    from kproxy.workers.nursery import Nursery
    from kproxy.workers.worker import work

    return Nursery(partial(work, config))


class Carriers(Protocol):
    """Who carries the sessions: `Here`, or `Crew`."""

    def serve(self, gateways: list[Gateway]) -> None: ...
    async def metrics(self) -> Metrics: ...
    def status(self) -> Mapping[str, object]: ...
    async def drain(self, seconds: float) -> int: ...


class App:
    """The wiring of one process."""

    def __init__(self, config: Config, selector: RelaySelector, places: Places, nursery: Nursery | None) -> None:
        self._config = config
        self._selector = selector
        self._places = places
        self._nursery = nursery
        self._metrics = Metrics()
        self._gateways: list[Gateway] = []
        self.stopping = asyncio.Event()
        self._why = ""  # it has been told to stop; "" if its errand is done
        self._signalled = False

    @property
    def bootstrap(self) -> Mapping[str, Address]:
        """What clients on this machine use as their bootstrap server, by the cluster's name."""
        return {gateway.config.name: gateway.bootstrap for gateway in self._gateways}

    async def run(self, errand: Errand) -> int:
        """Serve until the errand is done, then drain."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_loop_complains)
        endings = self._endings()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop, number)
        try:
            async with asyncio.TaskGroup() as tasks:
                return await self._serve(tasks, errand, endings)
        except* ConfigError as errors:
            raise _first(errors) from None

    def _endings(self) -> list[Ending]:
        if not self._config.exit_with:
            return []
        from kproxy.endings import Ending

        return [Ending(one) for one in self._config.exit_with]

    async def _serve(self, tasks: asyncio.TaskGroup, errand: Errand, endings: Sequence[Ending]) -> int:
        admin = None
        background = []
        self._carriers = self._who_carries(tasks)
        try:
            for cluster in self._config.clusters:
                self._gateways.append(Gateway(cluster, self._metrics, tasks, self._places))
            self._carriers.serve(self._gateways)
            if self._config.admin is not None:
                quit = partial(self.end, "POST /quit") if self._config.admin_quit else None
                pages = AdminPages(self._carriers.metrics, self._status, self.not_ready, quit)
                admin = await start_admin(self._config.admin, pages)
            log.info("kproxy %s", __version__)
            for gateway in self._gateways:
                servers = ",".join(str(server) for server in gateway.config.bootstrap_servers)
                log.info("cluster %s: listening on %s for %s", gateway.config.name, gateway.listen, servers)
                if gateway.config.via:
                    hops = ", then ".join(str(hop) for hop in gateway.config.via)
                    log.info("cluster %s: connects through %s", gateway.config.name, hops)
                background.append(tasks.create_task(self._explore(gateway)))
            if admin is not None:
                log.info("metrics, health and status on http://%s", admin.address)
            background.append(tasks.create_task(self._retire()))
            background.extend(tasks.create_task(self._end_with(ending)) for ending in endings)
            # What was made until now lives as long as the process: the collector need not look at it again.
            gc.freeze()
            return await errand(self)
        finally:
            self.stopping.set()
            for task in background:
                task.cancel()
            await self._drain()
            if admin is not None:
                await admin.close()

    def _who_carries(self, tasks: asyncio.TaskGroup) -> Carriers:
        if self._nursery is None:
            return Here(self._selector, self._metrics, tasks)
        from kproxy.workers.crew import Crew

        return Crew(self._config.workers, self._nursery, self._metrics, tasks)

    async def _explore(self, gateway: Gateway) -> None:
        await gateway.reach.explore(gateway.learn)
        gateway.on_change()
        if gateway.topology.nodes:
            show_nodes(gateway, self._config.log_format)

    async def _retire(self) -> None:
        every = min(_RETIRE_EVERY, *(max(0.05, cluster.retire_after / 4) for cluster in self._config.clusters))
        while True:
            await asyncio.sleep(every)
            for gateway in self._gateways:
                gateway.retire()

    # The end

    def end(self, why: str) -> None:
        """Begin an orderly end, unless it has begun."""
        if not self.stopping.is_set():
            self._why = why
            self.stopping.set()

    async def _end_with(self, ending: Ending) -> None:
        self.end(await ending.reached())

    def stop(self, number: int) -> None:
        """What SIGTERM and SIGINT do: the first time an orderly end, the second time at once."""
        if self._signalled or (self.stopping.is_set() and not self._why):
            log.warning("stopping at once")
            # Not sys.exit: nothing may hold this up.
            logging.shutdown()
            os._exit(128 + number)
        self._signalled = True
        self.end(signal.Signals(number).name)

    async def _drain(self) -> None:
        """Stop accepting, let what is in flight finish, close what is left."""
        for gateway in self._gateways:
            gateway.stop_accepting()
        if self._why:
            in_flight = sum(count for _, _, count in (await self._carriers.metrics()).in_flight())
            log.info("%s: stopping; %s in flight", self._why, _count(in_flight, "request"))
        left = await self._carriers.drain(self._config.drain_timeout)
        if left:
            log.warning(
                "closed %s still busy after %g s (--drain-timeout)", _count(left, "session"), self._config.drain_timeout
            )
        for gateway in self._gateways:
            await gateway.reach.close()

    # What the admin endpoint shows

    def not_ready(self) -> Sequence[str]:
        """Why clients should wait, a line each; empty when they need not."""
        if self.stopping.is_set():
            return ["kproxy is stopping"]
        reasons = []
        for gateway in self._gateways:
            name, reach = gateway.config.name, gateway.reach
            if self._config.ready_requires_upstream and not reach.ready:
                reasons.append(f"cluster {name}: {reach.bootstrap_problem or 'looking for a way to each node'}")
            for node in gateway.topology.nodes.values():
                if not gateway.is_bound(node) and node.absent_since is None:
                    reasons.append(f"cluster {name}: {node.key} has no local port")
        return reasons

    def _status(self) -> dict[str, object]:
        return {
            "version": __version__,
            "draining": self.stopping.is_set(),
            **self._carriers.status(),
            "clusters": [_status_of(gateway) for gateway in self._gateways],
        }


def _status_of(gateway: Gateway) -> dict[str, object]:
    reach = gateway.reach
    host = gateway.local_host()
    return {
        "name": gateway.config.name,
        "bootstrap_servers": [str(server) for server in gateway.config.bootstrap_servers],
        "via": [str(hop) for hop in gateway.config.via],
        "listen": str(gateway.listen),
        "answered": reach.answered,
        "problem": reach.bootstrap_problem,
        "sessions": gateway.sessions,
        "nodes": [
            {
                "node": node.key.label,
                "kind": node.key.kind.value,
                "id": node.key.node_id,
                "advertised": str(node.advertised),
                "local": str(gateway.local_address(node, host)),
                "bound": gateway.is_bound(node),
                "present": node.absent_since is None,
                "dial": str(reach.worked[node.key].dial) if node.key in reach.worked else None,
                "via": reach.worked[node.key].via.value if node.key in reach.worked else None,
                "problem": reach.problems.get(node.key),
                "sessions": gateway.sessions_of(node),
            }
            for node in sorted(
                gateway.topology.nodes.values(), key=lambda node: (node.key.kind.value, node.key.node_id)
            )
        ],
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _first(errors: BaseExceptionGroup[ConfigError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _loop_complains(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio cannot raise to anybody. Its server, the admin endpoint's, runs out of file descriptors, and tries
    again a second later; anything else is a defect."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        log.error("too many open files: the admin endpoint cannot answer now; raise the limit (ulimit -n)")
    else:
        loop.default_exception_handler(context)
