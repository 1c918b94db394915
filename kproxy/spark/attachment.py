"""`attach` and `detach`: the driver's host, its executors, and executors that start later.

With kproxy's Spark plugin, the driver's JVM has the configuration, and each executor requests it over Spark's RPC when
it starts (`KproxyPlugin.java`). Without the plugin, `attach` sends the configuration to executors in the closure of
Python tasks. A task joins its host's proxy with a lease of its executor's JVM. A thread looks for executors that start
later, and runs such tasks for them, which wait for a free slot.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError, UpstreamError
from kproxy.base.messages.start import EXECUTOR_WITHOUT_TASK, KEEPER_ENDED, NO_EXECUTOR, SPARK_SESSION_STOPPED
from kproxy.base.process import start_time
from kproxy.spark.configuration import build_host_config, check_secrets
from kproxy.spark.host import HostConfig, Lease, ProxyState, join, leave, linger, query_proxy, runtime_path
from kproxy.spark.logtail import LogLine, LogTail, follow_log
from kproxy.spark.pluginjar import CLASS
from kproxy.spark.source import ConfigSource, is_path, type_name
from kproxy.spark.tasks import ExecutorResult, first_line, make_join_task, make_leave_task, run_on_executors

log = logging.getLogger("kproxy.spark")

# In seconds: how often `attach` checks the executors, when it first logs that it waits, and how often after that.
_POLL_INTERVAL, _SAY_AFTER, _SAY_EVERY = 0.5, 10.0, 15.0
# Pause after an error in the background, in seconds.
_RETRY_PAUSE = 30.0
# Executors get this share of the remaining time, and at least this many seconds.
_EXECUTOR_SHARE, _MIN_EXECUTOR_TIMEOUT = 0.75, 3.0
# How long executors may take to leave their proxies, in seconds.
_LEAVING = 10.0

_lock = threading.Lock()
_attached: dict[str, _Application] = {}  # by application id


def attach(
    spark: Any, given: ConfigSource, timeout: float, ready_requires: str | None, allow_unauthenticated: bool
) -> str:
    """Attach an application: see `kproxy.spark.attach`."""
    context = _running(spark)
    config = build_host_config(given, ready_requires)
    if not (allow_unauthenticated or _authenticates(context)):
        check_secrets(config, "attach(…, allow_unauthenticated=True)")
    with _lock:
        attached = _attached.get(context.applicationId)
        if attached is not None:
            if attached.config != config:
                raise ConfigError(
                    "this application is attached with another configuration: call kproxy.spark.detach(spark) first,"
                    " or put several clusters into one configuration, as a list under clusters"
                )
            return attached.bootstrap
        application = _Application(context, config, timeout)
        try:
            application.attach()
        except KproxyError as error:
            raise _with_key_names(error, given) from None
        _attached[context.applicationId] = application
    return application.bootstrap


def detach(spark: Any) -> None:
    """Detach an application: see `kproxy.spark.detach`."""
    context = _context(spark)
    with _lock:
        names = [name for name, application in _attached.items() if application.belongs_to(context)]
        applications = [_attached.pop(name) for name in names]
    for application in applications:
        application.detach()


def _with_key_names(error: KproxyError, given: ConfigSource) -> KproxyError:
    """Return the error with an explanation of the keys that it names (`kproxy.spark.wording`)."""
    if "`" not in str(error):
        return error
    if isinstance(given, Mapping):
        where = "keys of the dict that attach was given"
    elif is_path(given):
        where = f"keys of {os.fspath(given)}"
    else:
        where = f'keys of a dict, as in attach(spark, {{"bootstrap-servers": "{given}", …}}), or of a file'
    text = f"{error} (in `…`: {where})"
    return UpstreamError(error.reason, text) if isinstance(error, UpstreamError) else ConfigError(text)


def _running(spark: Any) -> Any:
    """Return the context of a session. Raises ConfigError if the session has been stopped."""
    context = _context(spark)
    try:
        stopped = context._jsc is None or context._jsc.sc().isStopped()
    except Exception as error:  # noqa: BLE001 - whatever py4j raises when the JVM is gone
        raise ConfigError(f"the JVM of this Spark session does not answer: {first_line(error)}") from None
    if stopped:
        raise ConfigError(SPARK_SESSION_STOPPED())
    return context


def _context(spark: Any) -> Any:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "attach cannot reach the driver of Spark Connect's server from its client; "
            "start the server with the settings of: python -m kproxy.spark conf FILE"
        )
    if not hasattr(spark, "sparkContext"):
        raise ConfigError(f"the first argument must be a SparkSession, and not {type_name(spark)}")
    return spark.sparkContext


def _authenticates(context: Any) -> bool:
    """Return True if only this application's own processes can request data from its driver."""
    in_one_process = bool(context._jsc.sc().isLocal())
    return in_one_process or context.getConf().get("spark.authenticate", "false").lower() == "true"


class _Application:
    """One Spark application on its driver."""

    def __init__(self, context: Any, config: HostConfig, timeout: float) -> None:
        self.config = config
        self.bootstrap = ""
        self._context = context
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._id = str(context.applicationId)
        self._group = f"kproxy.spark {self._id}"  # of Spark's jobs
        self._lease = Lease.of(os.getpid(), self._id)
        self._is_local = bool(context._jsc.sc().isLocal())
        self._covered: set[str] = set()
        self._has_plugin = not self._is_local and CLASS in context.getConf().get("spark.plugins", "")
        self._tail = LogTail(runtime_path(config.listen, "log"), from_end=query_proxy(config.listen) is not None)
        self._warned: set[str] = set()
        self._detached = threading.Event()
        self._thread: threading.Thread | None = None

    def belongs_to(self, context: Any) -> bool:
        return self._context is context

    # Attaching

    def attach(self) -> None:
        """Join all proxies. Raises ConfigError or UpstreamError; all leases are given back then."""
        try:
            answer = self._join_driver_host()
            self.bootstrap = answer.bootstrap
            if self._has_plugin:
                self._plugin.tell(self._context.pythonExec, self.config.to_json(), f"{self._executor_timeout():g}")
            if not self._is_local:
                self._wait_for_executors()
        except BaseException:
            self._leave_everywhere()
            raise
        if not (self._has_plugin or self._is_local):
            log.warning(
                "without kproxy's Spark plugin, an executor that starts later on another host has no kproxy until it"
                " has had a free slot; create the session with SparkSession.builder.config(map=kproxy.spark.plugin())"
            )
        self._thread = threading.Thread(target=self._watch, args=[answer], name="kproxy.spark", daemon=True)
        self._thread.start()

    def _join_driver_host(self) -> ProxyState:
        """Join this host's proxy, and log its warnings at once."""
        with follow_log(self._tail, self._log):
            state = join(self.config, self._lease, self._timeout)
        self._warn(socket.gethostname(), state.why_not("all"))
        return state

    def _wait_for_executors(self) -> None:
        """Wait until each executor that Spark starts at first has a proxy.

        Raises UpstreamError if one cannot have a proxy, or none started.
        """
        # Without the plugin, executors that start with the first Kafka task would have no kproxy.
        wanted = max(expected_executors(self._context), 0 if self._has_plugin else 1)
        say_at = time.monotonic() + _SAY_AFTER
        while True:
            running = self._executors()
            self._cover(running)
            if len(self._covered & running) >= wanted and running <= self._covered:
                return
            now = time.monotonic()
            if now >= self._deadline:
                break
            if now >= say_at:
                say_at = now + _SAY_EVERY
                log.warning(
                    "waiting for executors: Spark has %d of %d, kproxy is ready for %d",
                    len(running),
                    wanted,
                    len(self._covered & running),
                )
            time.sleep(min(_POLL_INTERVAL, self._deadline - now))
        self._check_missing(running, wanted)

    def _check_missing(self, running: set[str], wanted: int) -> None:
        """Raise UpstreamError after the timeout, unless missing executors will get a proxy when they start."""
        left = ", ".join(sorted(running - self._covered))
        if left and not self._has_plugin:
            text = EXECUTOR_WITHOUT_TASK(executor=left, timeout=self._timeout)
            raise UpstreamError("timeout", text)
        if left:
            text = f"executor {left} has not reported within {self._timeout:g} s that kproxy is ready there"
            raise UpstreamError("timeout", text)
        if not running and not self._has_plugin:
            text = NO_EXECUTOR(timeout=self._timeout)
            raise UpstreamError("timeout", text)
        log.warning("Spark has %d of %d executors after %g s; attach continues", len(running), wanted, self._timeout)

    def _executors(self) -> set[str]:
        """Return the ids of the executors, without the driver."""
        ids = self._context._jsc.sc().getExecutorIds()
        return {str(ids.apply(at)) for at in range(ids.size())}

    def _cover(self, running: set[str]) -> None:
        """Record which executors have a proxy; without the plugin, let them join.

        Raises UpstreamError if one cannot.
        """
        for executor, problem, warning in self._read_plugin_results() if self._has_plugin else self._run_tasks(running):
            if problem:
                raise UpstreamError("other", problem)
            self._warn("", warning)
            self._covered.add(executor)

    def _executor_timeout(self) -> float:
        """Return how long an executor's host may take, in seconds, so that the driver still receives its error."""
        return max(_MIN_EXECUTOR_TIMEOUT, _EXECUTOR_SHARE * (self._deadline - time.monotonic()))

    @property
    def _plugin(self) -> Any:
        return self._context._jvm.kproxy.spark.KproxyPlugin

    def _read_plugin_results(self) -> Iterator[ExecutorResult]:
        for executor, problem in dict(self._plugin.executors()).items():
            yield str(executor), str(problem), ""

    def _run_tasks(self, running: set[str]) -> Iterator[ExecutorResult]:
        """Run Python tasks, so many that each executor without a proxy may get one.

        Other executors may be faster, so this may have to be repeated. If there is no executor, tasks make dynamic
        allocation start one.
        """
        missing = running - self._covered
        if missing or not running:
            tasks = max(2 * len(missing), self._context.defaultParallelism)
            task, seconds = (
                make_join_task(self.config.to_json(), self._executor_timeout()),
                self._deadline - time.monotonic(),
            )
            yield from run_on_executors(
                self._context, self._group, task=task, tasks=tasks, seconds=seconds, given_up=self._is_abandoned
            )

    # Afterwards

    def _watch(self, state: ProxyState) -> None:
        """Watch proxies and executors until the application stops."""
        retry_at = 0.0
        while not (self._stopped() or self._detached.wait(_POLL_INTERVAL)):
            for line in self._tail.look():  # the plugin writes those of other hosts to the log of the driver's JVM
                self._log(line)
            if time.monotonic() < retry_at:
                continue
            try:
                if start_time(state.keeper) is None:
                    text = KEEPER_ENDED(process=state.keeper)
                    log.warning("%s: %s", socket.gethostname(), text)
                    state = join(self.config, self._lease, self._timeout, self._is_abandoned)
                if not (self._has_plugin or self._is_local):
                    self._deadline = time.monotonic() + self._timeout
                    self._cover(self._executors())
            except Exception as error:  # noqa: BLE001 - also what py4j raises when a job fails or the JVM is gone
                retry_at = time.monotonic() + _RETRY_PAUSE
                if not self._is_abandoned():
                    log.warning("no kproxy for this driver or a new executor: %s", first_line(error))
        if not self._detached.is_set():
            self._end()

    def _end(self) -> None:
        """Give the lease back when the application has stopped.

        In local mode its tasks ran in a JVM that continues, with Kafka producers that Spark keeps for ten minutes. So
        the proxy stays for them, unless another application needs its port.
        """
        (linger if self._is_local else leave)(self.config, self._lease)
        _attached.pop(self._id, None)

    def _stopped(self) -> bool:
        return self._context._jsc is None

    def _is_abandoned(self) -> bool:
        """Return True if kproxy is not needed any more, so that work in progress must end."""
        return self._detached.is_set() or self._stopped()

    def detach(self) -> None:
        """Give all leases back."""
        self._detached.set()
        if self._thread is not None:
            self._thread.join()
        self._leave_everywhere()

    def _leave_everywhere(self) -> None:
        leave(self.config, self._lease)
        if self._is_local or self._stopped():
            return
        try:
            if self._has_plugin:
                self._plugin.tell(None, None, None)
            elif self._covered:
                run_on_executors(
                    self._context,
                    self._group,
                    make_leave_task(self.config.to_json()),
                    max(2 * len(self._covered), 2),
                    _LEAVING,
                )
        except Exception as error:  # noqa: BLE001 - it ends with the application in any case
            log.warning("executors keep kproxy until they end: %s", first_line(error))

    # Log

    def _log(self, line: LogLine) -> None:
        log.log(line.level, "%s: %s", socket.gethostname(), line.message)

    def _warn(self, host: str, text: str) -> None:
        message = f"{host}: {text}" if host else text
        if text and message not in self._warned:
            self._warned.add(message)
            log.warning("%s", message)


_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,.*\]")


def expected_executors(context: Any) -> int:
    """Return the number of executors for a SparkContext: at least one, except with dynamic allocation.

    - With dynamic allocation: its minimum, which is 0 by default. More start when there is work.
    - On YARN and Kubernetes: `spark.executor.instances` (2 by default).
    - On a standalone cluster: as many as `spark.cores.max` has room for. Without it, Spark takes every core of the
      cluster, and only its master knows how many executors that makes.
    """
    conf, master = context.getConf(), str(context.master)

    def number(key: str, otherwise: int) -> int:
        return int(conf.get(key, str(otherwise)))

    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return number("spark.dynamicAllocation.minExecutors", 0)
    if master.startswith(("yarn", "k8s")):
        return max(1, number("spark.executor.instances", 2))
    if match := _LOCAL_CLUSTER.fullmatch(master):
        return int(match[1])
    cores = number("spark.executor.cores", 0)
    return max(1, number("spark.cores.max", 0) // cores) if cores else 1
