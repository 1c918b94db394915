"""The Python tasks by which `attach` reaches executors without the plugin, and the Spark job that runs them.

Executors receive them as code, so an executor without kproxy can report that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kproxy.base.errors import UpstreamError
from kproxy.base.messages.start import NO_KPROXY_INSTALLED

# How often the job is checked, in seconds.
_LOOK_AGAIN = 0.2
# How often the cancellation of the job is repeated, in seconds.
_CANCEL_AGAIN = 1.0

ExecutorResult: TypeAlias = tuple[str, str, str]
"""An executor's id, the reason why it has no proxy, and a warning ("" if there is none)."""


def make_join_task(config: str, timeout: float) -> Callable[[object], Iterator[ExecutorResult]]:
    """Return a task that joins its host's proxy with a lease of its executor."""
    advice = "install kproxy into it, or set spark.pyspark.python to the path of a Python that has it"
    # A plain string with fields: the executor that needs it has no class of kproxy.
    no_kproxy = str(NO_KPROXY_INSTALLED(host="{host}", python="{python}", error="{error}", advice=advice))

    def start(_: object) -> Iterator[ExecutorResult]:
        import socket
        import sys

        try:
            from kproxy.base.errors import KproxyError
            from kproxy.spark.host import HostConfig, Lease, find_own_jvm, join
        except ImportError as error:
            python = f"{sys.executable}, the Python of Spark's executors"
            yield "", no_kproxy.format(host=socket.gethostname(), python=python, error=error), ""
            return
        try:
            pid, name = find_own_jvm()
            state = join(HostConfig.from_json(config), Lease.of(pid), timeout)
            lost = state.why_not("all")
            yield name, "", f"{socket.gethostname()}: {lost}" if lost else ""
        except KproxyError as error:
            yield "", str(error), ""  # it names the host
        except OSError as error:
            yield "", f"{socket.gethostname()}: {error}", ""

    return start


def make_leave_task(config: str) -> Callable[[object], Iterator[ExecutorResult]]:
    """Return a task that gives its executor's lease back."""

    def end(_: object) -> Iterator[ExecutorResult]:
        from kproxy.spark.host import HostConfig, Lease, find_own_jvm, leave

        pid, name = find_own_jvm()
        leave(HostConfig.from_json(config), Lease.of(pid))
        yield name, "", ""

    return end


def run_on_executors(
    context: Any,
    group: str,
    task: Callable[[object], Iterator[ExecutorResult]],
    tasks: int,
    seconds: float,
    given_up: Callable[[], bool] = lambda: False,
) -> list[ExecutorResult]:
    """Return the results of a Spark job.

    Returns nothing if the job has not ended after this many seconds, since it may wait for a slot that other jobs have,
    or if it is abandoned. Raises UpstreamError if Spark cannot run it. It runs in a separate thread, because job groups
    belong to threads.
    """
    outcomes: list[ExecutorResult] = []
    errors: list[BaseException] = []

    def collect() -> None:
        try:
            context.setJobGroup(group, "kproxy joins each executor's host", True)
            outcomes.extend(context.parallelize(range(tasks), tasks).mapPartitions(task).collect())
        except Exception as error:  # noqa: BLE001 - whatever py4j raises is raised again below
            errors.append(error)

    from pyspark import InheritableThread

    job = InheritableThread(target=collect, daemon=True)
    job.start()
    deadline = time.monotonic() + max(seconds, 1.0)
    while job.is_alive() and time.monotonic() < deadline and not given_up():
        job.join(_LOOK_AGAIN)
    if job.is_alive():
        while job.is_alive():  # Spark forgets it if it does not have the job yet
            context.cancelJobGroup(group)
            job.join(_CANCEL_AGAIN)
        return []
    if errors:
        raise UpstreamError("other", f"Spark cannot run kproxy's tasks on executors: {first_line(errors[0])}")
    return outcomes


def first_line(error: BaseException) -> str:
    """Return the reason of an error that may have Java's stack trace, without py4j's line about the call."""
    lines = [line.removeprefix(": ") for line in str(error).splitlines()]
    called = len(lines) > 1 and lines[0].startswith("An error occurred while calling ")
    return (lines[called:] or [type(error).__name__])[0]
