"""The acceptor of one cluster: it accepts clients, reads their first bytes, and refuses what is no Kafka client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.protocol.wire.greeting import ENOUGH, Greeting, plaintext_client, recognise, wrong_client
from kproxy.proxy.cluster.clientconnection import ClientConnection
from kproxy.proxy.cluster.connectionslots import ConnectionSlots
from kproxy.proxy.cluster.listeners import Listener

# The first byte of a TLS connection: a record of type handshake (RFC 8446 §5.1).
_TLS_HANDSHAKE = b"\x16"
# The response to a browser or curl at a Kafka port.
_HTTP_HINT = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a Kafka port of kproxy: give it to a Kafka client as bootstrap.servers.\n"
)

# The most bytes of a client that are read before kproxy dials.
_READ_SIZE = 16 * 1024

HandleClient = Callable[[ClientConnection, bytes], None]
"""Takes over a client that has sent its first bytes, and what was read of them; see `Sessions.handle_client`."""


class Acceptor:
    """The acceptor of one cluster.

    `local_host` returns the host under which a client finds kproxy. `handle_client` takes over a client that has sent
    its first bytes.
    """

    def __init__(
        self,
        slots: ConnectionSlots,
        local_host: Callable[[socket.socket], str],
        handle_client: HandleClient,
        *,
        expects_tls: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._slots = slots
        self._local_host = local_host
        self._handle_client = handle_client
        self.expects_tls = expects_tls

    def on_accept(self, client: socket.socket, peer: Address, listener: Listener) -> None:
        """Give the connection a slot, or refuse it."""
        try:
            host = self._local_host(client)
        except OSError:  # the client has already disconnected
            client.close()
            return
        if not self._slots.make_room():
            client.close()
            return
        connection = ClientConnection(self._slots, listener, client, peer, self._loop.time(), host)
        # kproxy dials a broker when the client has sent something: a TCP probe costs brokers nothing.
        if not self._read_first_bytes(connection):
            self._loop.add_reader(client.fileno(), self._read_first_bytes, connection)
            self._slots.add_silent(connection)

    def _read_first_bytes(self, connection: ClientConnection) -> bool:
        """Read the client's first bytes; return whether it has sent any.

        Those of a TLS handshake stay where they are.
        """
        client = connection.sock
        try:
            first = client.recv(ENOUGH, socket.MSG_PEEK) if self.expects_tls else client.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            first = b""
        self._slots.remove_silent(connection)
        error = self._refusal(first[:ENOUGH])
        if error is not None:
            self._slots.log_refusal(connection.peer, error)
            if recognise(first[:ENOUGH]) is Greeting.HTTP:
                with contextlib.suppress(OSError):
                    client.send(_HTTP_HINT)
                    client.recv(65536)  # unread bytes would turn the close into a reset
        if error is not None or not first:
            connection.close()
        else:
            self._handle_client(connection, b"" if self.expects_tls else first)
        return True

    def _refusal(self, first: bytes) -> WireError | None:
        """Return the error for a client whose first bytes are these; None if they are fine."""
        greeting = recognise(first)
        if not self.expects_tls or not first:
            return None if greeting is None else wrong_client(greeting)
        if first[:1] == _TLS_HANDSHAKE:
            return None
        return plaintext_client() if greeting is None else wrong_client(greeting)
