"""The sockets that clients connect to: one for bootstrap, one for each node.

kproxy binds a listener before it advertises its address. If a node's port is taken, the node gets another one; if no
port of the window is free, any free one: a response never fails because of one port.

Ports that other kproxies share (`--reuse-port`) are bound as always, and listened on only between `resume` and `pause`:
the system gives connections to those kproxies that listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.base.messages.sessions import NO_FILE_FOR_CONNECTION
from kproxy.base.repeats import about
from kproxy.net.dial.sockets import ListeningSocket, tune_accepted, tune_listening
from kproxy.proxy.cluster.ownaddresses import OwnAddresses
from kproxy.proxy.cluster.topology import NodeKey

log = logging.getLogger(__name__)

# Listeners that are bound or closed in one step of the loop, in half a millisecond. Most clusters have fewer nodes.
BOUND_AT_ONCE = 8

_BACKLOG = 1024
# Connections accepted in one go, so that a flood of them does not block the loop.
_ACCEPT_AT_ONCE = 64
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

OnAccept = Callable[[socket.socket, Address, "Listener"], None]
"""Receives an accepted connection, ready for relaying, the address of the client, and the listener."""


class Listener:
    """The local port of a node (None: of bootstrap), on each address of the listening host.

    `sessions` counts the connections to it.
    """

    def __init__(self, key: NodeKey | None, port: int, sockets: list[socket.socket]) -> None:
        self.key = key
        self.port = port
        self.sockets = sockets
        self.sessions = 0


class Listeners:
    """All listeners of one cluster, on one host.

    `own_addresses` are those of the whole process. `shared`: other kproxies may have the same ports.
    """

    def __init__(
        self, listen: Address, on_accept: OnAccept, own_addresses: OwnAddresses | None = None, *, shared: bool = False
    ) -> None:
        self._shared = shared
        self._listening = not shared
        self._loop = asyncio.get_running_loop()
        self._on_accept = on_accept
        self._families = _resolve(listen)
        self.hosts = [host for _, host in self._families]
        self._reserve = _open_reserve()
        self.bound: dict[NodeKey | None, Listener] = {}
        self._own_addresses = own_addresses or OwnAddresses()
        self.accepting = True

    def bind(self, key: NodeKey | None, port: int) -> Listener:
        """Bind `port` (0: any free one), and listen unless paused. Raises OSError if it cannot be bound."""
        sockets: list[socket.socket] = []
        try:
            for family, host in self._families:
                sock = _bind_socket(family, host, port, shared=self._shared)
                sockets.append(sock)
                port = port or sock.getsockname()[1]
                if self._listening:
                    sock.listen(_BACKLOG)
        except OSError:
            for sock in sockets:
                sock.close()
            raise
        listener = self.bound[key] = Listener(key, port, sockets)
        self._own_addresses.add(sockets)
        if self._listening:
            self._watch(listener)
        return listener

    def _watch(self, listener: Listener) -> None:
        for sock in listener.sockets:
            self._loop.add_reader(sock.fileno(), self._accept, sock, sock.getsockname()[0], listener)

    def resume(self) -> None:
        """Listen on all ports."""
        if self._listening or not self.accepting:
            return
        self._listening = True
        for listener in self.bound.values():
            for sock in listener.sockets:
                sock.listen(_BACKLOG)
            self._watch(listener)

    def pause(self) -> None:
        """Stop listening and keep the ports: the system gives connections to other kproxies.

        Clients that wait to be accepted connect again.
        """
        if not self._listening:
            return
        self._listening = False
        for listener in self.bound.values():
            for sock in listener.sockets:
                self._loop.remove_reader(sock.fileno())
                sock.shutdown(socket.SHUT_RD)  # Linux: the port stays bound, and `listen` starts again

    def close(self, key: NodeKey | None) -> None:
        """Close a listener; accepted connections stay."""
        listener = self.bound.pop(key)
        self._own_addresses.remove(listener.sockets)
        for sock in listener.sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()

    def close_all(self) -> None:
        self.accepting = False
        for key in list(self.bound):
            self.close(key)
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    @property
    def sockets(self) -> int:
        """The number of sockets that listen."""
        return len(self.bound) * len(self.hosts)

    def _accept(self, sock: socket.socket, host: str, listener: Listener) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                client, peer = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _FULL:
                    self._refuse_one(sock)
                    return
                text = "accepting a connection on port %d failed: %s"
                log.warning(text, listener.port, error.strerror, extra=about(listener.port, error.errno))
                return
            tune_accepted(client, peer[0], host)
            self._on_accept(client, Address(*peer[:2]), listener)

    def _refuse_one(self, sock: socket.socket) -> None:
        """Refuse one connection when no file descriptor is left.

        The waiting connection would wake the loop for ever. So it is accepted with the descriptor kept in reserve, and
        closed, so that its client notices.
        """
        log.error(NO_FILE_FOR_CONNECTION())
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
            with contextlib.suppress(OSError):
                sock.accept()[0].close()
        self._reserve = _open_reserve()


def _open_reserve() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _resolve(listen: Address) -> list[tuple[int, str]]:
    # For text, Python would load its tables for IDNA (0.3 MiB).
    host = listen.host.encode() if listen.host.isascii() else listen.host
    try:
        addresses = socket.getaddrinfo(host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"--listen {listen}: the name '{listen.host}' cannot be resolved here") from None
    return [(int(family), str(sockaddr[0])) for family, _, _, _, sockaddr in addresses]


def _bind_socket(family: int, host: str, port: int, *, shared: bool) -> socket.socket:
    sock = ListeningSocket(family)
    try:
        # A port whose last connections are in TIME_WAIT after a restart is free.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # `::` means every address, IPv4's too; a name with both families binds each.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        tune_listening(sock, host)
        sock.bind((host, port))
        if shared:
            # Else any program could take the port, which is bound and not listened on, with SO_REUSEADDR.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    except OSError:
        sock.close()
        raise
    return sock
