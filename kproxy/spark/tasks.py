"""The Python tasks by which `attach` reaches executors that have no plugin.

They come to executors as code, so that an executor without kproxy can say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

Outcome: TypeAlias = tuple[str, str, str]
"""An executor's id, why it has no proxy, and what it should be warned of ("" if nothing)."""


def starter(told: str, timeout: float) -> Callable[[object], Iterator[Outcome]]:
    """A task that joins its host's proxy with a lease of its executor."""

    def start(_: object) -> Iterator[Outcome]:
        import socket
        import sys

        try:
            from kproxy.errors import KproxyError
            from kproxy.spark.executor import own_jvm
            from kproxy.spark.host import Lease, Shipped, join
        except ImportError as error:
            python = f"{sys.executable}, the Python of Spark's executors"
            yield "", f"{socket.gethostname()}: {python}, has no kproxy: {error}", ""
            return
        try:
            pid, name = own_jvm()
            answer = join(Shipped.from_json(told), Lease.of(pid), timeout)
            lost = answer.why_not("all")
            yield name, "", f"{socket.gethostname()}: {lost}" if lost else ""
        except KproxyError as error:
            yield "", str(error), ""  # it names the host
        except OSError as error:
            yield "", f"{socket.gethostname()}: {error}", ""

    return start


def leaver(told: str) -> Callable[[object], Iterator[Outcome]]:
    """A task that gives its executor's lease back."""

    def end(_: object) -> Iterator[Outcome]:
        from kproxy.spark.executor import own_jvm
        from kproxy.spark.host import Lease, Shipped, leave

        pid, name = own_jvm()
        leave(Shipped.from_json(told), Lease.of(pid))
        yield name, "", ""

    return end
