"""`attach` and `detach`: the driver's host, the executors that are there, and those that come later.

With kproxy's Spark plugin, the driver's JVM has the configuration, and each executor asks for it over Spark's RPC when
it starts (`KproxyPlugin.java`). Without the plugin, `attach` gives executors the configuration in the closure of Python
tasks. A task joins its host's proxy with a lease of its executor's JVM. A thread looks for executors that come later,
and gives them such tasks, which wait for a free slot.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError, UpstreamError
from kproxy.base.process import start_time
from kproxy.spark import executorcount
from kproxy.spark.configuration import ConfigSource, build_host_config, check_secrets, is_path, type_name
from kproxy.spark.host import HostConfig, Lease, ProxyState, join, leave, linger, query_proxy, runtime_path
from kproxy.spark.logtail import LogLine, LogTail, follow_log
from kproxy.spark.pluginjar import CLASS
from kproxy.spark.tasks import ExecutorResult, first_line, make_join_task, make_leave_task, run_on_executors

log = logging.getLogger("kproxy.spark")

# In seconds: how often `attach` looks for executors, when it says for the first time that it waits, and how often then.
_LOOK_AGAIN, _SAY_AFTER, _SAY_EVERY = 0.5, 10.0, 15.0
# After something failed behind the application's back.
_TRY_AGAIN = 30.0
# Of the time that is left, executors get this share, and so many seconds at least.
_SHARE, _AT_LEAST = 0.75, 3.0
# How long executors are given to leave their proxies.
_LEAVING = 10.0

_lock = threading.Lock()
_attached: dict[str, _Application] = {}  # by application id


def attach(
    spark: Any, given: ConfigSource, timeout: float, ready_requires: str | None, allow_unauthenticated: bool
) -> str:
    """See `kproxy.spark.attach`."""
    context = _running(spark)
    told = build_host_config(given, ready_requires)
    if not (allow_unauthenticated or _authenticates(context)):
        check_secrets(told, "attach(…, allow_unauthenticated=True)")
    with _lock:
        before = _attached.get(context.applicationId)
        if before is not None:
            if before.told != told:
                raise ConfigError(
                    "this application is attached with another configuration: call kproxy.spark.detach(spark) first,"
                    " or put several clusters into one configuration, as a list under clusters"
                )
            return before.bootstrap
        application = _Application(context, told, timeout)
        try:
            application.attach()
        except KproxyError as error:
            raise _in_place(error, given) from None
        _attached[context.applicationId] = application
    return application.bootstrap


def detach(spark: Any) -> None:
    """See `kproxy.spark.detach`."""
    context = _context(spark)
    with _lock:
        names = [name for name, application in _attached.items() if application.belongs_to(context)]
        applications = [_attached.pop(name) for name in names]
    for application in applications:
        application.detach()


def _in_place(error: KproxyError, given: ConfigSource) -> KproxyError:
    """The error with what the keys are that it names (`kproxy.spark.wording`)."""
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
    """The context of a session. Raises ConfigError if that has been stopped, by whomever."""
    context = _context(spark)
    try:
        stopped = context._jsc is None or context._jsc.sc().isStopped()
    except Exception as error:  # noqa: BLE001 - whatever py4j raises when the JVM is gone
        raise ConfigError(f"the JVM of this Spark session does not answer: {first_line(error)}") from None
    if stopped:
        raise ConfigError("this Spark session has been stopped: create another one, and give attach that one")
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
    """Whether only this application's own processes can ask its driver."""
    in_one_process = bool(context._jsc.sc().isLocal())
    return in_one_process or context.getConf().get("spark.authenticate", "false").lower() == "true"


class _Application:
    """One Spark application on its driver."""

    def __init__(self, context: Any, told: HostConfig, timeout: float) -> None:
        self.told = told
        self.bootstrap = ""
        self._context = context
        self._timeout = timeout
        self._until = time.monotonic() + timeout
        self._id = str(context.applicationId)
        self._group = f"kproxy.spark {self._id}"  # of Spark's jobs
        self._lease = Lease.of(os.getpid(), self._id)
        self._is_local = bool(context._jsc.sc().isLocal())
        self._covered: set[str] = set()
        self._has_plugin = not self._is_local and CLASS in context.getConf().get("spark.plugins", "")
        self._tail = LogTail(runtime_path(told.listen, "log"), from_end=query_proxy(told.listen) is not None)
        self._said: set[str] = set()
        self._detached = threading.Event()
        self._thread: threading.Thread | None = None

    def belongs_to(self, context: Any) -> bool:
        return self._context is context

    # Attaching

    def attach(self) -> None:
        """Raises ConfigError or UpstreamError; then all leases are given back."""
        try:
            answer = self._join_here()
            self.bootstrap = answer.bootstrap
            if self._has_plugin:
                self._plugin.tell(self._context.pythonExec, self.told.to_json(), f"{self._theirs():g}")
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

    def _join_here(self) -> ProxyState:
        """Join this host's proxy. What kproxy warns of meanwhile is logged at once."""
        with follow_log(self._tail, self._log):
            answer = join(self.told, self._lease, self._timeout)
        self._warn(socket.gethostname(), answer.why_not("all"))
        return answer

    def _wait_for_executors(self) -> None:
        """Until all that are to come at start have a proxy. Raises UpstreamError if one cannot, or none came."""
        # Without the plugin, executors that start with the first Kafka task would have no kproxy.
        wanted = max(executorcount.expected_executors(self._context), 0 if self._has_plugin else 1)
        say_at = time.monotonic() + _SAY_AFTER
        while True:
            there = self._executors()
            self._cover(there)
            if len(self._covered & there) >= wanted and there <= self._covered:
                return
            now = time.monotonic()
            if now >= self._until:
                break
            if now >= say_at:
                say_at = now + _SAY_EVERY
                log.warning(
                    "waiting for executors: Spark has %d of %d, kproxy is ready for %d",
                    len(there),
                    wanted,
                    len(self._covered & there),
                )
            time.sleep(min(_LOOK_AGAIN, self._until - now))
        self._give_up(there, wanted)

    def _give_up(self, there: set[str], wanted: int) -> None:
        """The time is over. Raises UpstreamError unless those that are missing will be covered when they come."""
        left = ", ".join(sorted(there - self._covered))
        if left and not self._has_plugin:
            text = f"executor {left} ran no task within {self._timeout:g} s, so it has no kproxy"
            raise UpstreamError("timeout", text)
        if left:
            text = f"executor {left} has not said within {self._timeout:g} s that kproxy is ready there"
            raise UpstreamError("timeout", text)
        if not there and not self._has_plugin:
            text = f"Spark has no executor after {self._timeout:g} s, so kproxy runs on the driver's host only"
            raise UpstreamError("timeout", text)
        log.warning("Spark has %d of %d executors after %g s; attach goes on", len(there), wanted, self._timeout)

    def _executors(self) -> set[str]:
        """Those beside the driver."""
        ids = self._context._jsc.sc().getExecutorIds()
        return {str(ids.apply(at)) for at in range(ids.size())}

    def _cover(self, there: set[str]) -> None:
        """Note which executors have a proxy; without the plugin, have them join. Raises UpstreamError if one cannot."""
        for executor, problem, warning in self._told_by_plugin() if self._has_plugin else self._run_tasks(there):
            if problem:
                raise UpstreamError("other", problem)
            self._warn("", warning)
            self._covered.add(executor)

    def _theirs(self) -> float:
        """How long an executor's host may take, in seconds: the driver must still hear why it is not ready."""
        return max(_AT_LEAST, _SHARE * (self._until - time.monotonic()))

    @property
    def _plugin(self) -> Any:
        return self._context._jvm.kproxy.spark.KproxyPlugin

    def _told_by_plugin(self) -> Iterator[ExecutorResult]:
        for executor, problem in dict(self._plugin.executors()).items():
            yield str(executor), str(problem), ""

    def _run_tasks(self, there: set[str]) -> Iterator[ExecutorResult]:
        """Python tasks, so many that each executor that is not covered may get one; the others are faster, so this may
        have to be done again. If there is no executor, tasks make dynamic allocation start one."""
        missing = there - self._covered
        if missing or not there:
            tasks = max(2 * len(missing), self._context.defaultParallelism)
            task, seconds = make_join_task(self.told.to_json(), self._theirs()), self._until - time.monotonic()
            yield from run_on_executors(self._context, self._group, task, tasks, seconds, self._given_up)

    # Afterwards

    def _watch(self, answer: ProxyState) -> None:
        """Until the application stops."""
        not_before = 0.0
        while not (self._stopped() or self._detached.wait(_LOOK_AGAIN)):
            self._log_new_lines()
            if time.monotonic() < not_before:
                continue
            try:
                if start_time(answer.keeper) is None:
                    text = f"the keeper of kproxy (process {answer.keeper}) has ended; kproxy is started again"
                    log.warning("%s: %s", socket.gethostname(), text)
                    answer = join(self.told, self._lease, self._timeout, self._given_up)
                if not (self._has_plugin or self._is_local):
                    self._until = time.monotonic() + self._timeout
                    self._cover(self._executors())
            except Exception as error:  # noqa: BLE001 - also what py4j raises when a job fails or the JVM is gone
                not_before = time.monotonic() + _TRY_AGAIN
                if not self._given_up():
                    log.warning("no kproxy for this driver or a new executor: %s", first_line(error))
        if not self._detached.is_set():
            self._end()

    def _end(self) -> None:
        """The application has stopped. In local mode its tasks ran in a JVM that goes on, with Kafka producers that
        Spark keeps for ten minutes: the proxy stays for them, unless somebody needs its place."""
        (linger if self._is_local else leave)(self.told, self._lease)
        _attached.pop(self._id, None)

    def _stopped(self) -> bool:
        return self._context._jsc is None

    def _given_up(self) -> bool:
        """Whether nobody wants kproxy any more: what is under way ends at once."""
        return self._detached.is_set() or self._stopped()

    def detach(self) -> None:
        """Give all leases back."""
        self._detached.set()
        if self._thread is not None:
            self._thread.join()
        self._leave_everywhere()

    def _leave_everywhere(self) -> None:
        leave(self.told, self._lease)
        if self._is_local or self._stopped():
            return
        try:
            if self._has_plugin:
                self._plugin.tell(None, None, None)
            elif self._covered:
                run_on_executors(
                    self._context,
                    self._group,
                    make_leave_task(self.told.to_json()),
                    max(2 * len(self._covered), 2),
                    _LEAVING,
                )
        except Exception as error:  # noqa: BLE001 - it ends with the application in any case
            log.warning("executors keep kproxy until they end: %s", first_line(error))

    # What kproxy says

    def _log_new_lines(self) -> None:
        """Of this host's kproxy. What those of other hosts say, the plugin writes to the log of the driver's JVM."""
        for line in self._tail.look():
            self._log(line)

    def _log(self, line: LogLine) -> None:
        log.log(line.level, "%s: %s", socket.gethostname(), line.message)

    def _warn(self, host: str, text: str) -> None:
        said = f"{host}: {text}" if host else text
        if text and said not in self._said:
            self._said.add(said)
            log.warning("%s", said)
