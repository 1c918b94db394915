"""`attach`: the driver's host, the executors that are there, and what tells those that come later.

Executors are reached by a job of Python tasks, whose closure carries the configuration: it is in no setting, event or
page of Spark's. A task joins its host's proxy with a lease of its executor's JVM. Those that come later ask the driver,
if the session has the plugin. Without it a thread looks for them, and gives them such a job, which waits for a slot.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kproxy.errors import ConfigError, UpstreamError
from kproxy.process import birth
from kproxy.spark.configuration import Given, shipped
from kproxy.spark.host import Answer, Lease, Shipped, join, leave
from kproxy.spark.pluginjar import CLASS

log = logging.getLogger(__name__)

# How often it is looked whether the application has stopped, and who has come, in seconds; and after something failed.
_LOOK_AGAIN, _TRY_AGAIN = 0.5, 30.0

Outcome: TypeAlias = tuple[str, str]
"""An executor's id, and what is wrong there ("" if nothing is)."""

_lock = threading.Lock()
_attached: dict[str, tuple[Shipped, str]] = {}  # application id → what it was attached with, its bootstrap server


def attach(spark: Any, given: Given, timeout: float) -> str:
    """See `kproxy.spark.attach`."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "attach cannot reach the driver of Spark Connect's server from its client; "
            "start the server with the settings of: python -m kproxy.spark conf FILE"
        )
    context = spark.sparkContext
    told = shipped(given)
    with _lock:
        before = _attached.get(context.applicationId)
        if before is not None:
            if before[0] != told:
                raise ConfigError(
                    "this application is attached with another configuration; put several clusters into one"
                    " configuration, as a list under clusters"
                )
            return before[1]
        bootstrap = _Application(context, told, timeout).attach()
        _attached[context.applicationId] = told, bootstrap
    return bootstrap


class _Application:
    """One Spark application on its driver."""

    def __init__(self, context: Any, told: Shipped, timeout: float) -> None:
        self._context = context
        self._told = told
        self._timeout = timeout
        self._id = str(context.applicationId)
        self._lease = Lease.of(os.getpid(), self._id)
        self._covered: set[str] = set()
        self._has_plugin = CLASS in context.getConf().get("spark.plugins", "")

    def attach(self) -> str:
        """Returns the bootstrap server. Raises ConfigError or UpstreamError; then this host's lease is given back."""
        try:
            answer = join(self._told, self._lease, self._timeout)
            if self._has_plugin:  # before those are counted who have asked in vain
                plugin = self._context._jvm.kproxy.spark.KproxyPlugin
                plugin.tell(self._context.pythonExec, self._told.to_json())
            self._cover()
        except BaseException:
            leave(self._told, self._lease)
            raise
        threading.Thread(target=self._watch, args=[answer], name="kproxy.spark", daemon=True).start()
        return answer.bootstrap

    def _executors(self) -> set[str]:
        """Those beside the driver, which in local mode is one itself."""
        if self._context._jsc.sc().isLocal():
            return set()
        ids = self._context._jsc.sc().getExecutorIds()
        return {str(ids.apply(at)) for at in range(ids.size())}

    def _cover(self) -> None:
        """Have every executor that is there join; again for those that got no task, as others were faster."""
        until = time.monotonic() + self._timeout
        while missing := self._executors() - self._covered:
            tasks = max(2 * len(missing), self._context.defaultParallelism)
            outcomes = self._context.parallelize(range(tasks), tasks).mapPartitions(
                _starter(self._told.to_json(), self._timeout)
            )
            for executor, problem in outcomes.collect():
                if problem:
                    raise UpstreamError("other", problem)
                self._covered.add(executor)
            if time.monotonic() > until:
                left = ", ".join(sorted(missing - self._covered))
                raise UpstreamError(
                    "timeout", f"executor {left} ran no task within {self._timeout:g} s, so it has no kproxy"
                )

    def _watch(self, answer: Answer) -> None:
        """Until the application stops."""
        not_before = 0.0
        while not self._stopped():
            time.sleep(_LOOK_AGAIN)
            if time.monotonic() < not_before:
                continue
            try:
                if birth(answer.keeper) is None:
                    answer = join(self._told, self._lease, self._timeout)
                if not self._has_plugin:
                    self._cover()
            except Exception as error:  # noqa: BLE001 - also what py4j raises when a job fails or the JVM is gone
                not_before = time.monotonic() + _TRY_AGAIN
                if not self._stopped():
                    why = (str(error).splitlines() or [type(error).__name__])[0]
                    log.warning("no kproxy for this driver or a new executor: %s", why)
        leave(self._told, self._lease)
        _attached.pop(self._id, None)

    def _stopped(self) -> bool:
        return self._context._jsc is None


def _starter(told: str, timeout: float) -> Callable[[object], Iterator[Outcome]]:
    """What a task does. It comes to executors as code, so that one without kproxy can say so."""

    def start(_: object) -> Iterator[Outcome]:
        import socket
        import sys

        try:
            from kproxy.errors import KproxyError
            from kproxy.spark.executor import own_jvm
            from kproxy.spark.host import Lease, Shipped, join
        except ImportError as error:
            python = f"{sys.executable}, the Python of Spark's executors"
            yield "", f"{socket.gethostname()}: {python}, has no kproxy: {error}"
            return
        try:
            pid, name = own_jvm()
            join(Shipped.from_json(told), Lease.of(pid), timeout)
            yield name, ""
        except (KproxyError, OSError) as error:
            yield "", f"{socket.gethostname()}: {error}"

    return start
