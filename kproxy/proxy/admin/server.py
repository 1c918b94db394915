"""The server of the admin endpoint: it binds, accepts, counts the connections, and closes."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Sequence
from functools import partial

from kproxy.base.address import Address
from kproxy.base.ephemeralports import find_connection
from kproxy.base.errors import ConfigError
from kproxy.base.messages.start import ADMIN_PORT_TAKEN
from kproxy.base.repeats import about
from kproxy.net.tls.handshakes import AdminTls
from kproxy.proxy.admin.connection import AdminConnection
from kproxy.proxy.admin.handlers import AdminSources

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
"""Scrapers, probes and a few people; more is a fault or an attack, and must not take the proxy's descriptors. A new
connection is served all the same, for it may be a probe: another one gives way to it."""
CLOSE_SECONDS = 2.0
"""The time that `AdminServer.close` gives to current replies."""


async def start_admin(address: Address, pages: AdminSources, tls: AdminTls | None = None) -> AdminServer:
    """Bind and serve. Raises ConfigError if the address cannot be bound."""
    admin = AdminServer(pages, tls)
    try:
        listening = await _bound(admin, address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and (peer := find_connection(address.port)) is not None:
            problem = f"{address} is the local end of a connection to {peer}"
        elif error.errno == errno.EADDRINUSE:
            problem = ADMIN_PORT_TAKEN(address=address)
        elif error.errno is not None and error.errno > 0:  # asyncio's own text repeats the address
            problem = f"{address} cannot be bound: {os.strerror(error.errno)}"
        else:  # the name was not found
            problem = f"{address} cannot be bound: {error.strerror or error}"
        way_out = "choose another address with --admin HOST:PORT, or switch it off with --no-admin"
        raise ConfigError(f"admin: {problem}; {way_out}") from None
    admin.listen(listening)
    return admin


async def _bound(admin: AdminServer, address: Address) -> asyncio.Server:
    if address.host != "::" or not socket.has_dualstack_ipv6():
        return await asyncio.start_server(admin.connected, address.host, address.port)
    # `::` means every address, IPv4's too, as for clients' ports. asyncio by itself would take IPv6 alone.
    sock = socket.create_server(("::", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
    return await asyncio.start_server(admin.connected, sock=sock)


class AdminServer:
    """The bound HTTP server; made by `start_admin`."""

    def __init__(self, pages: AdminSources, tls: AdminTls | None = None) -> None:
        self.pages = pages
        self._tls = tls
        self.closing = False
        self._listening: asyncio.Server | None = None
        self._connections: dict[AdminConnection, asyncio.Task[None] | None] = {}

    def listen(self, listening: asyncio.Server) -> None:
        self._listening = listening

    @property
    def address(self) -> Address:
        """The bound address, with the chosen port if 0 was configured. Not for use after `close`."""
        assert self._listening is not None
        host, port = self._listening.sockets[0].getsockname()[:2]
        return Address(host, port)

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """The listening sockets. Not for use after `close`."""
        assert self._listening is not None
        return self._listening.sockets

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, from accept to close; asyncio runs a task of this for each. No exception escapes."""
        peer = writer.get_extra_info("peername")
        complain = partial(self._complain, str(peer[0]) if peer else "a peer")
        connection = AdminConnection(reader, writer, self.pages, lambda: self.closing, tls=self._tls, complain=complain)
        if self.closing:
            connection.abort()
            return
        while len(self._connections) >= MAX_CONNECTIONS:
            self._abort_one()
        self._connections[connection] = asyncio.current_task()
        try:
            await connection.serve()
        finally:
            self._connections.pop(connection, None)

    def _complain(self, peer: str, what: str) -> None:
        """Log the fault of a peer that does not speak TLS as it should."""
        logger.warning("admin: %s %s", peer, what, extra=about(peer, what))

    def _abort_one(self) -> None:
        """Abort the connection that has waited longest for its next request; if all are busy, the slowest.

        A probe sends its request at once and takes its reply at once, so it is never aborted.
        """
        connection = min(self._connections, key=lambda candidate: (not candidate.idle, candidate.since))
        task = self._connections.pop(connection)
        connection.abort()
        if task is not None:
            task.cancel()  # it may be making an answer

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Stop accepting, close idle connections, give current replies `seconds` to finish, then abort them."""
        self.closing = True
        if self._listening is not None:
            self._listening.close()
        for connection in self._connections:
            if connection.idle:
                connection.close()
        tasks = [task for task in self._connections.values() if task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for connection in list(self._connections):
                connection.abort()
            if late:
                await asyncio.wait(late)
        if self._listening is not None:
            await self._listening.wait_closed()
