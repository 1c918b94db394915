"""The answer to clients that expect another cluster or node than the one behind the port (KIP-1242).

REBOOTSTRAP_REQUIRED makes a client close its connections to all nodes and bootstrap again. Java's client, at least up
to 4.4.0, also forgets what it has asked these nodes, but not what they have already answered: if the answer of a second
node comes in the same poll, the client throws IllegalStateException ("There are no in-flight requests for node 2"),
which ends a consumer. After a switch, all nodes refuse a client at once. So a client gets one refusal at a time: the
next one is sent when it has closed the connection of the former one, and by then it has closed the other one, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from kproxy.base.repeats import about
from kproxy.net.dial.stream import Stream
from kproxy.protocol.rewrite.versionsrequest import rebootstrap_required
from kproxy.protocol.wire.headers import read_request
from kproxy.proxy.cluster.clientconnection import ClientConnection
from kproxy.proxy.cluster.nodedialer import Misrouted
from kproxy.proxy.relay.introduction import read_introduction

log = logging.getLogger(__name__)

# How long a client may take to receive the answer, in seconds.
_ANSWERED_WITHIN = 5.0
# How long kproxy waits for a client to close a connection, and how long for its turn, in seconds. kproxy knows a client
# by its host and client id, which several may share, and not each client closes its connection.
_PATIENCE = 2.0


class MisroutedClients:
    """The clients of one cluster that are being refused."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def refuse(self, connection: ClientConnection, first: bytes, error: Misrouted) -> None:
        """Answer the ApiVersions request `first` as a broker does that is not the expected one.

        Returns when the client has closed the connection, or may be cut off. Raises OSError if it has left before.
        """
        client = Stream(connection.sock)
        async with self._turn(connection.peer.host, read_introduction(first).client_id):
            if _has_left(connection.sock):
                return
            _, _, correlation_id = read_request(first, 0)
            connection.slots.count_refusal(error.reason)
            host = connection.peer.host
            log.info("%s: %s; it bootstraps again", connection.peer, error, extra=about(host, error.reason))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ANSWERED_WITHIN):
                    await client.send(rebootstrap_required(correlation_id))
                async with asyncio.timeout(_PATIENCE):
                    await client.receive(1)

    @contextlib.asynccontextmanager
    async def _turn(self, host: str, client_id: str) -> AsyncIterator[None]:
        """Wait until no other connection of the client is being refused, for `_PATIENCE` at most."""
        turn = self._turns.setdefault((host, client_id), asyncio.Lock())
        try:
            async with asyncio.timeout(_PATIENCE):
                await turn.acquire()
        except TimeoutError:
            yield
            return
        try:
            yield
        finally:
            turn.release()


def _has_left(client: socket.socket) -> bool:
    """Check whether a client that awaits its answer has closed the connection. Raises OSError if it has reset it."""
    try:
        return not client.recv(1)
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
