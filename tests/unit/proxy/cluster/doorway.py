"""One cluster's gateway with its sessions, in the test's own process, and clients of it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

from kproxy.base import repeats
from kproxy.base.address import Address
from kproxy.base.repeats import RepeatFilter
from kproxy.config import ClusterConfig
from kproxy.config.values import PortRange
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, ListenersPending, NodeKind
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.portclaims import ProcessClaims
from kproxy.proxy.cluster.reachability import ExplorationState
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.loop import RelayLoop
from kproxy.proxy.relay.selector import RelaySelector
from kproxy.proxy.relay.session import Session
from tests.harness.process import free_window

API_VERSIONS = b"\0\0\0\x0d\0\x12\0\0\0\0\0\x01\0\x03raw"
METADATA = b"\0\0\0\x11\0\x03\0\x01\0\0\0\x02\0\x03raw\0\0\0\0"


class Doorway:
    """A gateway whose only broker, node 1, is at `broker`."""

    def __init__(
        self,
        selector: RelaySelector,
        broker: str,
        connection_limit: ConnectionLimit | None = None,
        sharing: ProcessClaims | None = None,
        **options: Any,
    ) -> None:
        options = {"listen": Address("127.0.0.1", 0), "connect_timeout": 0.2, **options}
        config = ClusterConfig(bootstrap_servers=(Address.parse(broker),), **options)
        self.metrics = Metrics()
        self.connection_limit = connection_limit or ConnectionLimit()
        self.tasks = SupervisedTaskGroup("cluster default")
        self._here = AllSessions(selector, self.metrics, self.tasks)
        carry, changed = partial(self._here.handle_client, config.name), self._here.wake
        self.gateway = Gateway(
            config, self.metrics, self.tasks, self.connection_limit, carry, changed, process_claims=sharing
        )
        self.gateway.dialer.note(ExplorationState(bootstrap_asked=True, answered=True, searched=True, problem=None))
        self._here.add_clusters([self.gateway])

    def learn(self, *nodes: tuple[int, str], complete: bool = True) -> None:
        """A response names these nodes: their ids and addresses."""
        endpoints = tuple(Endpoint(NodeKind.BROKER, node, Address.parse(address)) for node, address in nodes)
        list(self.gateway._learn(self.gateway.upstream_of_part(""), Endpoints(endpoints, complete)))

    def connect(self, node: int | None = None) -> socket.socket:
        """A client's connection, to the bootstrap listener or a node's; not blocking."""
        ports = {each.key.node_id: each.port for each in self.gateway.topology.nodes.values()}
        client = socket.create_connection(("127.0.0.1", self.gateway.listen.port if node is None else ports[node]), 30)
        client.setblocking(False)
        return client

    @property
    def held(self) -> dict[str, int]:
        """What connections hold now."""
        return {
            "places": self.connection_limit.in_use,
            "sessions": self.gateway.slots.sessions,
            "of listeners": sum(listener.sessions for listener in self.gateway._listeners.bound.values()),
            "files": len(os.listdir("/proc/self/fd")),
        }

    @property
    def sessions(self) -> list[Session]:
        """The open ones."""
        return [session for sessions in self._here.clusters.values() for _, session in sessions._open()]

    async def close(self) -> None:
        self.gateway.stop_accepting()
        await self._here.drain(0)
        await self.gateway.dialer.close()
        await self.tasks.__aexit__(None, None, None)


def localised(gateway: Gateway, host: str, endpoints: Endpoints) -> Sequence[Address]:
    """What a client is told at last."""
    while True:
        try:
            return gateway.localise(host, endpoints)
        except ListenersPending as not_yet:
            list(not_yet.steps)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop with the data plane's selector, which it is given if its first argument is `selector`."""
    wants_selector = next(iter(inspect.signature(test).parameters), "") == "selector"

    def run(*args: Any, **kwargs: Any) -> None:
        selector = RelaySelector()
        with asyncio.Runner(loop_factory=lambda: RelayLoop(selector)) as runner:
            runner.run(test(*(selector,) * wants_selector, *args, **kwargs))

    return shown_without_first(run, test) if wants_selector else functools.wraps(test)(run)


def shown_without_first(run: Callable[..., None], test: Callable[..., Any]) -> Callable[..., None]:
    """Let pytest take `run` for `test` without its first argument, which `run` adds."""
    functools.update_wrapper(run, test)
    signature = inspect.signature(test)
    _, *parameters = signature.parameters.values()
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def alone(**options: object) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with a gateway whose broker is nowhere, which is the test's first argument."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        async def run(selector: RelaySelector, *args: Any, **kwargs: Any) -> None:
            first = free_window(40)
            door = Doorway(selector, "nowhere.invalid:1", **{"node_ports": PortRange(first, first + 39), **options})
            test(door, *args, **kwargs)
            await door.close()

        return shown_without_first(in_loop(run), test)

    return decorated


async def until(reached: Callable[[], Any], what: str) -> Any:
    """Let the loop turn until `reached` gives something true, and return it; fail after a bound."""
    for _ in range(10_000):
        if result := reached():
            return result
        await asyncio.sleep(0.001)
    raise AssertionError(f"not in time: {what}")


def is_closed(client: socket.socket) -> bool:
    """Whether kproxy has closed the connection; what it said before is lost."""
    try:
        while client.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


class Lines(logging.Handler):
    """What the log of a running kproxy would have, if all happened within the interval for repeated lines."""

    def __init__(self) -> None:
        super().__init__()
        self._at_once = patch.object(repeats, "INTERVAL", math.inf)
        self.texts: list[str] = []
        self.once = RepeatFilter()
        self.addFilter(self.once)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> Lines:
        self._at_once.start()
        logging.getLogger("kproxy").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("kproxy").removeHandler(self)
        self._at_once.stop()
