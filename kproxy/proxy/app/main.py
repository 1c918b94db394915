"""The main object of the process: on one event loop, it connects the clusters, the sessions, and the admin endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kproxy import __version__
from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.base.repeats import RepeatFilter
from kproxy.config import Config
from kproxy.config.checks import WHERE_NOT_SHARED
from kproxy.proxy.admin import bearer
from kproxy.proxy.admin.handlers import AdminSources, Readiness, ReloadResult, SwitchCommandResult
from kproxy.proxy.admin.server import start_admin
from kproxy.proxy.admin.tlsstream import admin_tls
from kproxy.proxy.app import logs, nextstep
from kproxy.proxy.app.clusters import Clusters
from kproxy.proxy.app.control import Control, release_signals
from kproxy.proxy.app.neighbours import warn_about_neighbours
from kproxy.proxy.app.nextstep import Invocation
from kproxy.proxy.app.reload import NOTHING_CHANGED, ConfigSource, Reloader, watch_files
from kproxy.proxy.app.stderr import threaded_stderr
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.connectionslots import ConnectionLimit, raise_file_limit
from kproxy.proxy.cluster.encryption import ClusterTls
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.report import lasting_problems, report
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.loop import RelayLoop
from kproxy.proxy.relay.selector import RelaySelector
from kproxy.proxy.status import asjson
from kproxy.proxy.status.model import ClusterStatus, Status
from kproxy.proxy.status.readiness import Requires, not_ready_reasons, permanent_problems, unreachable_nodes
from kproxy.proxy.watch.events import EventLog
from kproxy.proxy.watch.feed import Feed, Filter
from kproxy.proxy.watch.frames import FrameFeed, frame_filter

if TYPE_CHECKING:
    from kproxy.proxy.app.statedir import StateDir
    from kproxy.proxy.app.switchregistry import SwitchRegistry
    from kproxy.proxy.app.userchecks import UserChecks
    from kproxy.proxy.observation.observation import Observation
    from kproxy.proxy.watch.live import Live

log = logging.getLogger(__name__)

Job: TypeAlias = Callable[["App"], Awaitable[int]]
"""The job of a process. kproxy runs for as long as the job does, and ends with its exit code."""


async def until_stopped(app: App) -> int:
    """Wait until kproxy must stop: the job of `kproxy run`."""
    await app.control.stopping.wait()
    return 0


def run(
    config: Config,
    job: Job = until_stopped,
    invocation: Invocation | None = None,
    source: ConfigSource | None = None,
) -> int:
    """Run until the job is done, by default until a signal; return the exit code.

    With `invocation`, kproxy logs which command lines help if it cannot reach a broker. With `source`, it can read the
    configuration again. Raises ConfigError if a port cannot be bound.
    """
    with threaded_stderr():
        log = logs.set_up(config.log_format, config.log_level, sys.stderr)
        files = raise_file_limit()
        if config.reuse_port and sys.platform != "linux":
            raise ConfigError(f"--reuse-port {WHERE_NOT_SHARED}")
        selector = RelaySelector()
        connection_limit = ConnectionLimit(files)
        with asyncio.Runner(loop_factory=lambda: RelayLoop(selector)) as runner:
            app = App(config, selector, connection_limit, invocation=invocation, source=source, log=log)
            try:
                return runner.run(app.run(job))
            finally:
                release_signals(runner.get_loop())


class App:
    """The parts of one process, connected."""

    def __init__(
        self,
        config: Config,
        selector: RelaySelector,
        connection_limit: ConnectionLimit,
        invocation: Invocation | None = None,
        source: ConfigSource | None = None,
        log: logs.ProcessLog | None = None,
    ) -> None:
        """Connect the parts. Raises ConfigError if a condition of `--exit-with`, or a file, cannot be used."""
        self._config = config
        self._invocation = invocation
        self._selector = selector
        self._connection_limit = connection_limit
        self._log = log or logs.ProcessLog(RepeatFilter())
        self._metrics = Metrics()
        self._metrics.log_lines_dropped = lambda: self._log.dropped
        self._metrics.configured_at = self._metrics.reload_succeeded_at = time.time()
        self._clusters: Clusters | None = None
        self._switching: SwitchRegistry | None = None
        self._user_checks: UserChecks | None = None
        self._state_dir: StateDir | None = None
        self._reloader = (
            None if source is None else Reloader(source, config, self._metrics, self._reconfigure, self._keep_active)
        )
        self.control = Control(config)
        self._token = _token(config)
        self._admin_tls = admin_tls(config)

    @property
    def bootstrap(self) -> Mapping[str, Address]:
        """The bootstrap address for clients on this machine, by the cluster's name."""
        return {gateway.config.name: gateway.bootstrap for gateway in self._gateways}

    async def run(self, job: Job) -> int:
        """Serve until the job is done, then drain."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_handle_loop_error)
        try:
            # What fails in a cluster or a session ends nothing else; what is in `tasks` ends kproxy.
            async with asyncio.TaskGroup() as tasks, contextlib.AsyncExitStack() as supervised:
                return await self._serve(tasks, supervised, job)
        except BaseExceptionGroup as errors:
            # Not `except*`: until Python 3.11.4 what is raised there is wrapped in a group again.
            mistakes, other_errors = errors.split(ConfigError)
            if mistakes is None or other_errors is not None:
                raise
            raise _first_error(mistakes) from None

    async def _serve(self, tasks: asyncio.TaskGroup, supervised: contextlib.AsyncExitStack, job: Job) -> int:
        admin = None
        background = []
        self._reloads = await supervised.enter_async_context(SupervisedTaskGroup("a reload"))
        self.control.handle_signals(self._start_reload)
        of_sessions = await supervised.enter_async_context(SupervisedTaskGroup("a session"))
        self._sessions = AllSessions(self._selector, self._metrics, of_sessions)
        switching = self._switching = self._open_switching(supervised)
        if switching is not None:
            self._config = switching.adopt(self._config)
        clusters = self._clusters = Clusters(
            self._config,
            self._metrics,
            self._connection_limit,
            sessions=self._sessions,
            supervised=supervised,
            invocation=self._invocation,
        )
        try:
            await warn_about_neighbours(self._config)
            await clusters.open_all()
            if switching is not None:
                switching.begin(self._config)  # before the loop turns, and a client is accepted
            if self._config.admin is not None:
                feed, frames = Feed(self._sessions.watch), FrameFeed(self._sessions.capture)
                events = EventLog()
                events.addFilter(self._log.once)
                page = await supervised.enter_async_context(SupervisedTaskGroup("the page"))
                logging.getLogger().addHandler(events)
                supervised.callback(logging.getLogger().removeHandler, events)
                pages = AdminSources(
                    self._metrics,
                    lambda: asjson.write(self.status()),
                    self._readiness,
                    hosts=(self._config.admin.host, *self._config.admin_host),
                    token=self._token,
                    require_token_for_reads=self._config.admin_require_token_for_reads,
                    quit=partial(self.control.end, "POST /quit") if self._config.admin_quit else None,
                    reload=self._reload if self._config.admin_reload and self._reloader is not None else None,
                    sessions=lambda: asjson.sessions(self._sessions.shown()),
                    tap=lambda query: feed.subscribe(Filter.from_query(query)),
                    frames=lambda query: frames.subscribe(frame_filter(query)),
                    live=self._page(page, feed, events),
                    observation=lambda: self._observation.lines(),
                    observe=lambda body: self._observation.command(body),
                    switches=self._switch_json,
                    switch=self._switch,
                    switch_logins=self._check_logins,
                    may_switch=lambda: self._switching is not None,
                )
                admin = await start_admin(self._config.admin, pages, self._admin_tls)
                clusters.own_addresses.add(admin.sockets)
            log.info("kproxy %s", __version__, extra=logs.NOT_ON_TERMINAL)
            for gateway in clusters.gateways:
                clusters.start(gateway)
            if admin is not None:
                scheme = "http" if self._admin_tls is None else "https"
                log.info("status page, metrics and health on %s://%s/", scheme, admin.address)
            background.extend(self.control.watch(tasks))
            background.append(tasks.create_task(self._log.write_suppressed()))
            if self._config.watch_config and self._reloader is not None:
                reloader = self._reloader
                reread = partial(self._start_reload, "--watch-config")
                background.append(self._reloads.create_task(watch_files(lambda: reloader.files, reread)))
            # What was made until now lives as long as the process: the collector need not look at it again.
            gc.freeze()
            return await job(self)
        finally:
            self.control.stopping.set()
            clusters.stop()
            for task in background:
                task.cancel()
            await self.control.drain(self._gateways, self._sessions)
            if self._switching is not None:
                self._switching.end()
            if admin is not None:
                await admin.close()
            self._log.once.write_suppressed(at_the_end=True)

    def _open_switching(self, supervised: contextlib.AsyncExitStack) -> SwitchRegistry | None:
        """Open the state directory and the switches. Raises ConfigError if the directory cannot be used."""
        supervised.callback(self._close_state_dir)
        if not _needs_switching(self._config):
            return None
        self._state_dir = _state_dir(self._config)
        return self._new_switching(self._state_dir)

    def _new_switching(self, directory: StateDir | None) -> SwitchRegistry:
        from kproxy.proxy.app.effects import ProcessEffects  # few need it
        from kproxy.proxy.app.switchregistry import SwitchRegistry

        served = [gateway.config.name for gateway in self._gateways]
        effects = ProcessEffects(self._all_clusters, self._sessions)
        switching = SwitchRegistry(directory, effects, self.control.stopping.is_set, served)
        self._metrics.switches = switching.switch_numbers
        return switching

    def _close_state_dir(self) -> None:
        if self._state_dir is not None:
            self._state_dir.close()

    def _all_clusters(self) -> Clusters:
        assert self._clusters is not None
        return self._clusters

    # A new configuration

    def _start_reload(self, reason: str) -> bool:
        """Begin a reload; return False if there is no file to read again."""
        if self._reloader is None or not self._reloader.files:
            return False
        if not self.control.stopping.is_set():
            self._reloads.create_task(self._reloader.reload_soon(reason))
        return True

    async def _reload(self, accept: str | None = None) -> ReloadResult:
        """Reload the configuration. `accept`: a cluster whose new Kafka cluster kproxy may serve from then on."""
        assert self._reloader is not None
        if self.control.stopping.is_set():
            return ReloadResult("busy", ["kproxy is stopping"])
        # In a task of its own: a client that hangs up must not leave half of it.
        return await asyncio.shield(self._reloads.create_task(self._reload_and_accept(self._reloader, accept)))

    async def _reload_and_accept(self, reloader: Reloader, accept: str | None) -> ReloadResult:
        result = await reloader.reload("POST /reload")
        if accept is None or result.outcome != "done":
            return result
        lines = [line for line in result.lines if line != NOTHING_CHANGED]
        try:
            return ReloadResult("done", [*lines, await self._all_clusters().accept_new_cluster(accept)])
        except ConfigError as error:
            return ReloadResult("refused", [*error.problems, *(f"all the same: {line}" for line in lines)])

    def _keep_active(self, old: Config, new: Config) -> Config:
        return new if self._switching is None else self._switching.with_active_upstreams(old, new)

    async def _reconfigure(self, config: Config, tls: Mapping[str, ClusterTls]) -> int:
        assert self._clusters is not None
        switching, directory = self._switching, None
        if _needs_switching(config):
            if self._state_dir is None:
                directory = _state_dir(config)
            switching = switching or self._new_switching(None)
        try:
            if switching is not None:
                config = switching.adopt(config, directory)
            draining = await self._clusters.reconfigure(config, tls)
        except ConfigError:
            if switching is not None:
                switching.discard_adopted()
            if directory is not None:
                directory.close()
            raise
        self._config = self.control.config = config
        self._switching, self._state_dir = switching, directory or self._state_dir
        if switching is not None:
            switching.begin(config, directory)
        logs.set_level(config.log_level)
        return draining

    # What the admin endpoint shows

    @property
    def _gateways(self) -> list[Gateway]:
        return [] if self._clusters is None else self._clusters.gateways

    @property
    def ready_requires(self) -> Requires:
        """The level of readiness that the configuration asks for."""
        return self._config.ready_requires

    def not_ready(self, requires: Requires | None = None) -> Sequence[str]:
        """Return why clients should wait, a line each; empty if they need not. `requires`: see --ready-requires."""
        if self.control.stopping.is_set():
            return ["kproxy is stopping"]
        return self._reasons([self._report(gateway) for gateway in self._gateways], requires)

    def permanent_problems(self) -> Sequence[str]:
        """Return why a cluster will not become ready before a person acts, a line each; empty if all may."""
        return [reason for gateway in self._gateways for reason in permanent_problems(self._report(gateway))]

    def lasting_problems(self, requires: Requires) -> Sequence[str]:
        """Return the problems that last until a person acts, including unresolvable names and wrong certificates."""
        return [reason for gateway in self._gateways for reason in lasting_problems(gateway, requires)]

    def _report(self, gateway: Gateway) -> ClusterStatus:
        switch = None if self._switching is None else self._switching.status(gateway.config.name)
        sessions = self._sessions.clusters.get(gateway.config.name)
        return replace(report(gateway), switch=switch, access=None if sessions is None else sessions.access.status)

    def _reasons(self, clusters: Sequence[ClusterStatus], requires: Requires | None) -> Sequence[str]:
        needs = requires or self._config.ready_requires
        reasons = [reason for cluster in clusters for reason in not_ready_reasons(cluster, needs)]
        return list(dict.fromkeys(reasons))  # all clusters may say that there are no places

    def _readiness(self, requires: str | None) -> Readiness:
        if requires not in (None, "all", "one", "none"):
            raise ValueError("allowed: all, one, none")
        if self.control.stopping.is_set():
            return Readiness(self.not_ready())
        clusters = [self._report(gateway) for gateway in self._gateways]
        reasons = self._reasons(clusters, requires)  # type: ignore[arg-type]  # mypy does not see that it was checked
        return Readiness(reasons, [line for cluster in clusters for line in unreachable_nodes(cluster)])

    def _fix_lines(self, cluster: ClusterStatus) -> Sequence[str]:
        if self._invocation is None:
            return ()
        return nextstep.fix_lines(self._invocation, self._config, cluster)

    def _page(
        self, tasks: SupervisedTaskGroup, feed: Feed, events: EventLog
    ) -> Callable[[], AsyncGenerator[bytes, None]]:
        @cache
        def live() -> Live:
            from kproxy.proxy.watch.live import Live  # megabytes that only the page needs

            return Live(tasks.create_task, feed, self.status, self._sessions.shown, events, self._fix_lines)

        return lambda: live().view()

    @cached_property
    def _observation(self) -> Observation:
        from kproxy.proxy.observation.observation import Observation  # few ask for it

        return Observation(self._sessions.read_requests)

    def _switch_json(self) -> bytes:
        assert self._switching is not None
        return self._switching.as_json(self._sessions.shown())

    def _switch(self, body: object) -> SwitchCommandResult:
        assert self._switching is not None
        return self._switching.handle_request(body)

    async def _check_logins(self, body: object) -> SwitchCommandResult:
        if self._user_checks is None:
            from kproxy.proxy.app.userchecks import UserChecks  # few need it

            self._user_checks = UserChecks(lambda: self._gateways)
        return await self._user_checks.handle_request(body)

    def status(self) -> Status:
        """Return the present state of the process."""
        return Status(
            version=__version__,
            draining=self.control.stopping.is_set(),
            configured_at=datetime.fromtimestamp(int(self._metrics.configured_at), UTC).isoformat(),
            reloads=self._metrics.reloads["success"],
            clusters=tuple(self._report(gateway) for gateway in self._gateways),
        )


def _needs_switching(config: Config) -> bool:
    return config.state_dir is not None or any(cluster.upstream for cluster in config.clusters)


def _state_dir(config: Config) -> StateDir | None:
    """Open the state directory, if one is configured. Raises ConfigError if it cannot be used."""
    if config.state_dir is None:
        return None
    from kproxy.proxy.app.statedir import StateDir  # few need it

    return StateDir(config.state_dir)


def _token(config: Config) -> str | bearer.TokenFile | None:
    """Return the token of the admin endpoint. It is read before the event loop turns: the file may be a pipe."""
    if config.admin is None or config.admin_token_file is None:
        return config.admin_token
    try:
        return bearer.TokenFile(config.admin_token_file)
    except ConfigError as error:
        raise ConfigError(f"--admin-token-file: {error}") from None


def _first_error(errors: BaseExceptionGroup[ConfigError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle what asyncio cannot raise to a caller.

    If its server, the admin endpoint's, has no file descriptor left, it tries again a second later; anything else is a
    defect.
    """
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        log.error("too many open files: the admin endpoint cannot answer now; raise the limit (ulimit -n)")
    else:
        loop.default_exception_handler(context)
