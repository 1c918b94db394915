"""The Python tasks by which `attach` reaches executors that have no plugin, and the Spark job that runs them.

They come to executors as code, so that an executor without kproxy can say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kproxy.base.errors import UpstreamError

# How often it is looked whether the job is still wanted, in seconds.
_LOOK_AGAIN = 0.2
# How often Spark is told that it is not, in seconds.
_CANCEL_AGAIN = 1.0

ExecutorResult: TypeAlias = tuple[str, str, str]
"""An executor's id, why it has no proxy, and what it should be warned of ("" if nothing)."""


def make_join_task(told: str, timeout: float) -> Callable[[object], Iterator[ExecutorResult]]:
    """A task that joins its host's proxy with a lease of its executor."""

    def start(_: object) -> Iterator[ExecutorResult]:
        import socket
        import sys

        try:
            from kproxy.base.errors import KproxyError
            from kproxy.spark.executor import find_own_jvm
            from kproxy.spark.host import HostConfig, Lease, join
        except ImportError as error:
            python = f"{sys.executable}, the Python of Spark's executors"
            way_out = "install kproxy into it, or set spark.pyspark.python to the path of a Python that has it"
            yield "", f"{socket.gethostname()}: {python}, has no kproxy: {error}; {way_out}", ""
            return
        try:
            pid, name = find_own_jvm()
            answer = join(HostConfig.from_json(told), Lease.of(pid), timeout)
            lost = answer.why_not("all")
            yield name, "", f"{socket.gethostname()}: {lost}" if lost else ""
        except KproxyError as error:
            yield "", str(error), ""  # it names the host
        except OSError as error:
            yield "", f"{socket.gethostname()}: {error}", ""

    return start


def make_leave_task(told: str) -> Callable[[object], Iterator[ExecutorResult]]:
    """A task that gives its executor's lease back."""

    def end(_: object) -> Iterator[ExecutorResult]:
        from kproxy.spark.executor import find_own_jvm
        from kproxy.spark.host import HostConfig, Lease, leave

        pid, name = find_own_jvm()
        leave(HostConfig.from_json(told), Lease.of(pid))
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
    """The outcomes of a Spark job; empty if it has not come to its end in so many seconds, as it may wait for a slot
    that other jobs have, or if it was given up. Raises UpstreamError if Spark cannot run it.

    It runs in a thread of its own, as job groups belong to threads."""
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
    until = time.monotonic() + max(seconds, 1.0)
    while job.is_alive() and time.monotonic() < until and not given_up():
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
    """What is wrong, of an error that may have Java's stack trace; py4j says before it only what it has called."""
    lines = [line.removeprefix(": ") for line in str(error).splitlines()]
    called = len(lines) > 1 and lines[0].startswith("An error occurred while calling ")
    return (lines[called:] or [type(error).__name__])[0]
