"""The reload of the configuration while kproxy runs: kproxy reads and checks it whole, then applies all or nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kproxy.base.errors import ConfigError
from kproxy.base.messages.runtime import CONFIGURATION_KEPT
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.config import Config, read
from kproxy.config.changes import compare
from kproxy.config.sources import CONFIG_VARIABLE
from kproxy.proxy.admin.handlers import ReloadResult
from kproxy.proxy.cluster.encryption import ClusterTls
from kproxy.proxy.metrics import Metrics

log = logging.getLogger(__name__)

# How long reading all files may take, in seconds: one may be a pipe without a writer.
_READ_WITHIN = 30.0
NOTHING_CHANGED = "nothing has changed"

Apply = Callable[[Config, Mapping[str, ClusterTls]], Awaitable[int]]
"""Applies a configuration, with the TLS of each cluster by its title; returns how many sessions are drained for it.

Raises ConfigError; then it has changed nothing.
"""


@dataclass(frozen=True, slots=True, repr=False)
class ConfigSource:
    """The sources of the configuration: flags over variables over a file."""

    flags: Mapping[str, object]
    env: Mapping[str, str]
    file: Path | None

    @classmethod
    def of(cls, flags: Mapping[str, object], env: Mapping[str, str], file: Path | None) -> ConfigSource:
        """Return the sources, as `kproxy.config.read` takes them."""
        named = env.get(CONFIG_VARIABLE, "").strip()
        return cls(flags, dict(env), file or (Path(named) if named else None))

    def files(self, config: Config) -> Sequence[Path]:
        """Return the files that options were read from."""
        named = [cluster.client_config for cluster in config.clusters]
        return [path for path in (self.file, *named) if path is not None]

    def read(self) -> tuple[Config, Mapping[str, ClusterTls]]:
        """Read all sources, and the files that they name. Raises ConfigError."""
        from kproxy.proxy.app import preflight  # with all that a login may need

        config = read(self.flags, self.env, self.file, further=preflight.cluster_violations).config
        return config, {cluster.title: ClusterTls.of(cluster) for cluster in config.clusters}


class Reloader:
    """The present configuration, and the next one. One reload at a time."""

    def __init__(
        self,
        source: ConfigSource,
        config: Config,
        metrics: Metrics,
        apply: Apply,
        keep_active: Callable[[Config, Config], Config] = lambda old, new: new,
    ) -> None:
        """Start with this configuration.

        `keep_active` returns the second configuration with the active upstreams that a switch has chosen, where the
        configuration has not changed them. Raises ConfigError.
        """
        self._source = source
        self._keep_active = keep_active
        self._config = config
        self._metrics = metrics
        self._apply = apply
        self._blocking_calls = BlockingCalls()
        self._under_way = False
        self._next_reason = ""  # who wants one more reload, as soon as this one is over

    @property
    def files(self) -> Sequence[Path]:
        """The files that options were read from."""
        return self._source.files(self._config)

    async def reload(self, reason: str) -> ReloadResult:
        """Read all sources again, and apply them, unless there is a mistake in them. It must not be cancelled."""
        if self._under_way:
            return ReloadResult("busy", ["another reload is under way"])
        self._under_way = True
        try:
            outcome = await self._reload_once(reason)
        finally:
            self._under_way = False
        self._metrics.count_reload(outcome.outcome == "done", time.time())
        return outcome

    async def reload_soon(self, reason: str) -> None:
        """Reload without a result for the caller.

        If a reload is under way, which may have read the files before they changed, another one follows.
        """
        if self._under_way:
            self._next_reason = reason
            return
        self._next_reason = reason
        while self._next_reason:
            reason, self._next_reason = self._next_reason, ""
            await self.reload(reason)

    async def _reload_once(self, reason: str) -> ReloadResult:
        try:
            new, tls = await self._blocking_calls.run(_READ_WITHIN, self._source.read)
            present = self._keep_active(self._config, self._config)
            effective = self._keep_active(self._config, new)
            changes = compare(present, effective)
            if changes.refused:
                raise ConfigError(*changes.refused)
        except ConfigError as error:
            return self._refused(reason, error.problems)
        except TimeoutError:
            return self._refused(reason, [f"the files could not be read within {_READ_WITHIN:g} s"])
        try:
            draining = await self._apply(effective, tls)
        except ConfigError as error:  # of a port that a new cluster cannot have
            return self._refused(reason, error.problems)
        self._config = new
        lines = list(changes.lines) or [NOTHING_CHANGED]
        if changes.lines:
            self._metrics.configured_at = time.time()
        for line in lines:
            log.info("%s: reloaded: %s", reason, line)
        if draining:
            lines.append(f"{draining} session{'' if draining == 1 else 's'} of the former configuration will end")
            log.info("%s: %s", reason, lines[-1])
        return ReloadResult("done", lines)

    def _refused(self, reason: str, problems: Sequence[str]) -> ReloadResult:
        for problem in problems:
            log.error(CONFIGURATION_KEPT(cause=reason, problem=problem))
        return ReloadResult("refused", problems)


async def watch_files(files: Callable[[], Sequence[Path]], changed: Callable[[], object], every: float = 1.0) -> None:
    """Call `changed` when a file has changed, for as long as kproxy runs.

    A file may be written in place, replaced, or behind a link whose target changes, as in volumes of Kubernetes. A
    half-written file gets one more turn.
    """
    reported = before = _file_states(files())
    while True:
        await asyncio.sleep(every)
        now = _file_states(files())
        if now != reported and now == before:
            reported = now
            changed()
        before = now


def _file_states(files: Sequence[Path]) -> Mapping[Path, tuple[int, ...] | None]:
    states: dict[Path, tuple[int, ...] | None] = {}
    for path in files:
        try:
            state = path.stat()
        except OSError:
            states[path] = None
        else:
            states[path] = (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size)
    return states
