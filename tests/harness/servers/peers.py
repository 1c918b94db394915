"""Servers in the place of a broker that speak something else, or nothing."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import run
from typing import Self

Behaviour = Callable[[socket.socket], None]


class Peer:
    """A TCP server on a free port of 127.0.0.1 (or another address).

    Each connection is treated by `behave` in a separate thread, and then closed. `accepted` counts the connections.
    """

    def __init__(self, behave: Behaviour, host: str = "127.0.0.1", port: int = 0) -> None:
        self._behave = behave
        self._listening = socket.create_server((host, port))
        self._open: set[socket.socket] = set()
        self.accepted = 0
        self.address = "{}:{}".format(*self._listening.getsockname()[:2])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A thread in accept() does not notice a close, but a shutdown.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.add(connection)
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self._behave(connection)
        self._open.discard(connection)


def silent(connection: socket.socket) -> None:
    """Read everything and answer nothing."""
    while connection.recv(65536):
        pass


def closing(connection: socket.socket) -> None:
    """Read the first request and hang up."""
    connection.recv(65536)


def saying(text: bytes, *, first: bool) -> Behaviour:
    """Send `text`: at once if `first`, else in answer to the first bytes. Then wait for the end."""

    def behave(connection: socket.socket) -> None:
        if first or connection.recv(65536):
            connection.sendall(text)
            silent(connection)

    return behave


def tls(certificate: Path) -> Behaviour:
    """Run a TLS server that hangs up on a plaintext request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def behave(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    return behave


def make_certificate(directory: Path, name: str = "DNS:localhost") -> Path:
    """Create a self-signed certificate for a name, with its key in the same PEM file."""
    path = directory / "peer.pem"
    run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2",
         "-addext", f"subjectAltName={name}",
         "-keyout", path, "-out", directory / "cert.pem"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + (directory / "cert.pem").read_text())
    return path


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Yield an address that answers no SYN: a listening socket with a full backlog, like a dropping firewall."""
    with contextlib.ExitStack() as held:
        listening = held.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        while True:
            filler = held.enter_context(socket.socket())
            filler.settimeout(1)
            try:
                filler.connect(listening.getsockname())
            except TimeoutError:
                break
        yield "{}:{}".format(*listening.getsockname())


@contextlib.contextmanager
def refused() -> Iterator[str]:
    """Yield an address where nothing listens, and nothing else will while this is held."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield "{}:{}".format(*held.getsockname())


@contextlib.contextmanager
def taken(port: int, host: str = "127.0.0.1") -> Iterator[None]:
    """Listen on this port as another program would."""
    with socket.create_server((host, port)):
        yield


class Road(Peer):
    """A TCP forwarder: `target` returns the address for each connection."""

    def __init__(self, target: Callable[[], str], host: str = "127.0.0.1", port: int = 0) -> None:
        self.target = target
        super().__init__(self._pass_on, host, port)

    def lead(self, target: Callable[[], str]) -> None:
        """Change the target, and break every connection, as it happens when a broker is replaced."""
        self.target = target
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def note(self, connection: socket.socket, data: bytes, *, from_client: bool) -> None:
        """Look at what passes on a client's connection."""

    def send(self, to: socket.socket, data: bytes, *, from_client: bool) -> None:
        """Send on what has come."""
        to.sendall(data)

    def _pass_on(self, connection: socket.socket) -> None:
        host, _, port = self.target().rpartition(":")
        with socket.create_connection((host, int(port))) as far:
            ends = {connection: far, far: connection}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    self.note(connection, data, from_client=end is connection)
                    self.send(ends[end], data, from_client=end is connection)


def reset(sock: socket.socket) -> None:
    """Close with a RST, and lose what was not sent yet."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
