"""The main process of kproxy: its clusters on one event loop, the admin endpoint, signals, drain."""

from __future__ import annotations

import asyncio
import contextlib
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
from kproxy.admin import AdminPages, Readiness, start_admin
from kproxy.cluster.gateway import Gateway
from kproxy.cluster.known import Reached
from kproxy.cluster.places import Places, raise_file_limit
from kproxy.cluster.readiness import Requires, missing, not_ready
from kproxy.cluster.tasks import Supervised, said
from kproxy.config import Config
from kproxy.errors import ConfigError
from kproxy.metrics import Metrics
from kproxy.present import show_nodes
from kproxy.relay.selector import RelaySelector
from kproxy.workers.here import Here

if TYPE_CHECKING:
    from kproxy.endings import Ending

log = logging.getLogger(__name__)

# Between two attempts to explore a cluster whose answers cannot be used, in seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
# How often the ports of nodes are looked through, in seconds, at most.
_LOOK_EVERY = 30.0

Errand: TypeAlias = Callable[["App"], Awaitable[int]]
"""What a process is there for: it runs for as long as this does, and ends with this exit code."""


async def until_stopped(app: App) -> int:
    """The errand of `kproxy run`."""
    await app.stopping.wait()
    return 0


def run(config: Config, errand: Errand = until_stopped) -> int:
    """Run until the errand is done, by default until SIGTERM, SIGINT or SIGHUP; return the exit code.

    Raises ConfigError if a port cannot be had.
    """
    logs.set_up(config.log_format, config.log_level)
    files = raise_file_limit()
    if config.workers > 1 and sys.platform != "linux":
        raise ConfigError("--workers needs Linux; leave it out, and kproxy runs in one process")
    selector = RelaySelector()
    # A session has two; with workers they are theirs, and a client is here only until it has spoken.
    places = Places(files, files_per_connection=2 if config.workers == 1 else 1)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(App(config, selector, places).run(errand))


class Carriers(Protocol):
    """Who carries the sessions: `Here`, or `Crew`."""

    def serve(self, gateways: list[Gateway]) -> None: ...
    async def metrics(self) -> Metrics: ...
    def status(self) -> Mapping[str, object]: ...
    async def drain(self, seconds: float) -> int: ...


class App:
    """The wiring of one process."""

    def __init__(self, config: Config, selector: RelaySelector, places: Places) -> None:
        self._config = config
        self._selector = selector
        self._places = places
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
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored by nohup: it stays so
            # Never at once: a terminal that is closed may send it twice, by itself and by the shell in it.
            loop.add_signal_handler(signal.SIGHUP, self.end, signal.SIGHUP.name)
        try:
            # What fails in a cluster or a session ends nothing else; what is in `tasks` ends kproxy.
            async with asyncio.TaskGroup() as tasks, contextlib.AsyncExitStack() as supervised:
                return await self._serve(tasks, supervised, errand, endings)
        except BaseExceptionGroup as errors:
            # Not `except*`: until Python 3.11.4 what is raised there is wrapped in a group again.
            mistakes, others = errors.split(ConfigError)
            if mistakes is None or others is not None:
                raise
            raise _first(mistakes) from None

    def _endings(self) -> list[Ending]:
        if not self._config.exit_with:
            return []
        from kproxy.endings import Ending

        return [Ending(one) for one in self._config.exit_with]

    async def _serve(
        self,
        tasks: asyncio.TaskGroup,
        supervised: contextlib.AsyncExitStack,
        errand: Errand,
        endings: Sequence[Ending],
    ) -> int:
        admin = None
        background = []
        self._carriers = self._who_carries(tasks, await supervised.enter_async_context(Supervised("a session")))
        try:
            for cluster in self._config.clusters:
                of_cluster = await supervised.enter_async_context(Supervised(f"cluster {cluster.name}"))
                self._gateways.append(Gateway(cluster, self._metrics, of_cluster, self._places))
            self._carriers.serve(self._gateways)
            if self._config.admin is not None:
                quit = partial(self.end, "POST /quit") if self._config.admin_quit else None
                hosts = (self._config.admin.host, *self._config.admin_host)
                pages = AdminPages(self._carriers.metrics, self._status, self._readiness, quit, hosts)
                admin = await start_admin(self._config.admin, pages)
            log.info("kproxy %s", __version__)
            for gateway in self._gateways:
                servers = ",".join(str(server) for server in gateway.config.bootstrap_servers)
                log.info("cluster %s: listening on %s for %s", gateway.config.name, gateway.listen, servers)
                if gateway.config.via:
                    hops = ", then ".join(str(hop) for hop in gateway.config.via)
                    log.info("cluster %s: connects through %s", gateway.config.name, hops)
                background.append(gateway.tasks.create_task(self._explore(gateway)))
                background.append(gateway.tasks.create_task(_look_after_ports(gateway)))
            if admin is not None:
                log.info("metrics, health and status on http://%s", admin.address)
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

    def _who_carries(self, tasks: asyncio.TaskGroup, sessions: Supervised) -> Carriers:
        if self._config.workers == 1:
            return Here(self._selector, self._metrics, sessions)
        from kproxy.workers.crew import Crew

        return Crew(self._config, self._metrics, tasks)

    async def _explore(self, gateway: Gateway) -> None:
        """Find the cluster's nodes and a way to each, for as long as kproxy runs. What fails there is a defect: it is
        the problem of this cluster alone, and does not hinder the next attempt."""
        told, pause = "", _FIRST_PAUSE
        while True:
            try:
                await gateway.explorer.explore()
                if gateway.topology.nodes:
                    show_nodes(gateway, self._config.log_format, self._config.ready_requires)
                await gateway.explorer.watch()
            except Exception as error:
                problem = f"defect, please report it: {said(error)}"
                if problem != told:
                    log.error("cluster %s: %s; trying again", gateway.config.name, problem, exc_info=error)
                told = problem
                gateway.explorer.failed(problem)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

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

    def not_ready(self, requires: Requires | None = None) -> Sequence[str]:
        """Why clients should wait, a line each; empty when they need not. `requires` overrides --ready-requires."""
        if self.stopping.is_set():
            return ["kproxy is stopping"]
        reasons = []
        for gateway in self._gateways:
            name = gateway.config.name
            needs = requires or self._config.ready_requires
            reasons += not_ready(name, gateway.topology, gateway.reach.known, needs)
            if (full := gateway.door.no_place()) and full not in reasons:
                reasons.append(full)
            for node in gateway.topology.nodes.values():
                if not gateway.is_bound(node) and node.absent_since is None:
                    reasons.append(f"cluster {name}: {node.key} has no local port")
        return reasons

    def _readiness(self, requires: str | None) -> Readiness:
        if requires not in (None, "all", "one", "none"):
            raise ValueError("allowed: all, one, none")
        reasons = self.not_ready(requires)  # type: ignore[arg-type]  # mypy does not see that it was checked
        lost = [missing(one.config.name, one.topology, one.reach.known) for one in self._gateways]
        return Readiness(reasons, [line for lines in lost for line in lines])

    def _status(self) -> dict[str, object]:
        return {
            "version": __version__,
            "draining": self.stopping.is_set(),
            **self._carriers.status(),
            "clusters": [_status_of(gateway) for gateway in self._gateways],
        }


async def _look_after_ports(gateway: Gateway) -> None:
    every = min(_LOOK_EVERY, max(0.05, gateway.config.retire_after / 4))
    while True:
        await asyncio.sleep(every)
        gateway.retire()
        gateway.bind_missing()


def _status_of(gateway: Gateway) -> dict[str, object]:
    known = gateway.reach.known
    host = gateway.local_host()
    return {
        "name": gateway.config.name,
        "bootstrap_servers": [str(server) for server in gateway.config.bootstrap_servers],
        "via": [str(hop) for hop in gateway.config.via],
        "listen": str(gateway.listen),
        "cluster_id": known.cluster_id,
        "answered": known.explored.answered,
        "problem": known.explored.problem,
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
                **_status_of_reach(known.reached(node.key)),
                "sessions": gateway.sessions_of(node),
            }
            for node in sorted(
                gateway.topology.nodes.values(), key=lambda node: (node.key.kind.value, node.key.node_id)
            )
        ],
    }


def _status_of_reach(reached: Reached) -> dict[str, object]:
    return {
        "dial": str(reached.route.dial) if reached.route else None,
        "via": reached.route.via.value if reached.route else None,
        "checked": reached.proof is not None and reached.proof.checked,
        "proof": reached.proof.value if reached.proof else None,
        "problem": reached.problem,
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
