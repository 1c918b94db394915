"""Who carries the sessions, as the app knows it: this process, or workers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from kproxy.cluster.gateway import Gateway
from kproxy.cluster.topology import NodeKey
from kproxy.config import Config
from kproxy.metrics import Metrics
from kproxy.status.shown import WorkerStatus
from kproxy.watch.feed import Feed
from kproxy.workers.here import Reconfigured


class Carriers(Protocol):
    """Who carries the sessions: `Here`, or `Crew`."""

    def serve(self, gateways: Sequence[Gateway]) -> None: ...
    def carry(
        self, name: str, client: socket.socket, key: NodeKey | None, host: str, done: Callable[[], None]
    ) -> None: ...
    def changed(self, name: str) -> None: ...
    async def reconfigure(
        self, config: Config, taken: Sequence[Reconfigured], added: Sequence[Gateway], removed: Sequence[str]
    ) -> int: ...
    async def metrics(self) -> Metrics: ...
    def status(self) -> tuple[WorkerStatus, ...]: ...
    def watch(self, feed: Feed | None) -> None: ...
    async def hold(self, seconds: float, cluster: str | None = None) -> None: ...
    def release(self, cluster: str | None = None) -> None: ...
    async def drain(self, seconds: float) -> int: ...
