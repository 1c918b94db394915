"""Local ports that are forwarded to something else than a broker, through the same hops, such as a schema registry.

kproxy passes the bytes of both sides on as they come, and the end of each side's bytes as well. With several upstreams,
the maps and hops of the active one decide where a port leads; a flip to another one ends the connections that would
lead elsewhere now.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.repeats import about
from kproxy.config.values import Forward
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.listeners import Listener, Listeners
from kproxy.proxy.cluster.ownaddresses import OwnAddresses

log = logging.getLogger(__name__)

# Bytes that are read at once. Of each connection, a few times as many wait in each direction at most.
_CHUNK = 64 * 1024

Connect = Callable[[Address], Awaitable[socket.socket]]
"""Opens a connection. Raises UpstreamError."""


@dataclass(eq=False)
class PortForward:
    """One forwarded port: where it listens, and its target."""

    listen: Address
    to: Address
    listeners: Listeners
    problem: str = ""
    """Why the last connection to the target failed; "" if it succeeded."""
    open: set[asyncio.Task[None]] = field(default_factory=set)
    accepted: int = 0
    """The number of connections so far."""


class Forwards:
    """The forwarded ports of one cluster."""

    def __init__(
        self,
        name: str,
        forwards: Sequence[Forward],
        beside: Address,
        tasks: asyncio.TaskGroup,
        connection_limit: ConnectionLimit,
        connect: Connect,
        own_addresses: OwnAddresses | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """Bind the ports. Raises ConfigError if one cannot be bound. `beside`: the listening address of the cluster."""
        self._shared = shared
        self._name = name
        self._tasks = tasks
        self._limit = connection_limit
        self._connect = connect
        self._own_addresses = own_addresses
        self.port_forwards: list[PortForward] = []
        try:
            for forward in forwards:
                self._listen(forward, forward.listen(beside))
        except ConfigError:
            self.stop_accepting()
            raise

    def _listen(self, forward: Forward, listen: Address) -> None:
        def accepted(client: socket.socket, peer: Address, listener: Listener) -> None:
            self._accepted(port_forward, client)

        listeners = Listeners(listen, accepted, self._own_addresses, shared=self._shared)
        try:
            port = listeners.bind(None, listen.port).port
        except OSError as error:
            listeners.close_all()
            taken = error.errno == errno.EADDRINUSE
            problem = "the port is taken; choose another" if taken else error.strerror
            raise ConfigError(f"--forward {forward}: {problem}") from None
        port_forward = PortForward(Address(listen.host, port), forward.to, listeners)
        self.port_forwards.append(port_forward)
        self._limit.listening += listeners.sockets

    def resume(self) -> None:
        """Listen on the ports, where other kproxies share them."""
        for forward in self.port_forwards:
            forward.listeners.resume()

    def stop_accepting(self) -> None:
        """Close the ports; open connections stay."""
        for forward in self.port_forwards:
            self._limit.listening -= forward.listeners.sockets
            forward.listeners.close_all()

    def end(self, is_moved: Callable[[Address], bool] = lambda to: True) -> None:
        """Close the open connections to the targets for which this returns True, by default to all."""
        for forward in self.port_forwards:
            if is_moved(forward.to):
                for task in forward.open:
                    task.cancel()

    def _accepted(self, forward: PortForward, client: socket.socket) -> None:
        if self._limit.is_full and not self._limit.evict_oldest():
            text = "cluster %s: no room for a connection to %s: too many open files"
            log.error(text, self._name, forward.to, extra=about(self._name, forward.to))
            client.close()
            return
        forward.accepted += 1
        task = self._tasks.create_task(self._forward(forward, client))
        forward.open.add(task)
        self._limit.in_use += 1

        def release(task: asyncio.Task[None]) -> None:
            client.close()  # for a task that never began
            forward.open.discard(task)
            self._limit.in_use -= 1

        task.add_done_callback(release)

    async def _forward(self, forward: PortForward, client: socket.socket) -> None:
        try:
            upstream = await self._connect(forward.to)
        except UpstreamError as error:
            text = "cluster %s: forward %s cannot reach its target: %s"
            log.warning(text, self._name, forward.listen, error, extra=about(self._name, forward.listen, error.reason))
            forward.problem = str(error)
            return
        forward.problem = ""
        try:
            await _relay(client, upstream)
        finally:
            upstream.close()


async def _relay(client: socket.socket, upstream: socket.socket) -> None:
    """Pass bytes on until both sides have ended, or either connection breaks."""
    writers: list[asyncio.StreamWriter] = []
    try:
        ends = []
        for sock in (client, upstream):
            reader, writer = await asyncio.open_connection(sock=sock, limit=_CHUNK)
            writers.append(writer)
            ends.append(reader)
        async with asyncio.TaskGroup() as both:
            both.create_task(_pass_on(ends[0], writers[1]))
            both.create_task(_pass_on(ends[1], writers[0]))
        for writer in writers:
            writer.close()
            await writer.wait_closed()  # all that was written is on its way
    except* OSError:
        pass  # a peer that breaks its connection breaks the other one
    finally:
        for writer in writers:
            writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
