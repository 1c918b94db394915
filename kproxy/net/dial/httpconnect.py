"""Connecting through an HTTP proxy by CONNECT (RFC 9110 §9.3.6), plain or over TLS. The proxy resolves names."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator

import h11

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.net.dial.bridge import bridge
from kproxy.net.dial.connector import Connector, Deadline, DialStepKind, HopSpec, connect_to_hop

# The largest response to CONNECT, in bytes; usual ones have a few hundred.
_LIMIT = 64 * 1024
# Statuses about the address; the message for any other status quotes it.
_STATUS = {
    502: ("unreachable", "the proxy cannot reach that address"),
    503: ("unreachable", "the proxy cannot reach that address"),
    504: ("timeout", "the proxy got no answer from that address"),
}


# The first byte of any answer of a SOCKS5 proxy (RFC 1928 §3); HTTP has no such byte.
_SOCKS5 = b"\x05"


class _SocksError(Exception):
    """The server is a SOCKS5 proxy."""


class HttpConnect:
    """One HTTP proxy; `https` verifies the proxy's certificate with the system's trust store."""

    def __init__(self, hop: HopSpec, previous: Connector) -> None:
        assert hop.port is not None
        self._name = f"--via {hop}"
        self._previous = previous
        self._address = Address(hop.host, hop.port)
        self._tls = ssl.create_default_context() if hop.scheme == "https" else None
        self._headers: list[tuple[str, str]] = []
        if hop.user is not None:
            credentials = b64encode(f"{hop.user}:{hop.password or ''}".encode()).decode()
            self._headers.append(("Proxy-Authorization", f"Basic {credentials}"))

    async def connect(self, address: Address, deadline: Deadline) -> socket.socket:
        """Ask the proxy for a connection to the address. Raises UpstreamError."""
        sock = await connect_to_hop(self._name, "proxy", self._previous, self._address, deadline)
        with deadline.step(DialStepKind.HOP, self._name):
            return await self._connect(sock, address, deadline)

    async def _connect(self, sock: socket.socket, address: Address, deadline: Deadline) -> socket.socket:
        if self._tls is not None:
            sock = await self._secure(sock, self._tls, deadline)
        with contextlib.ExitStack() as undo:
            undo.callback(sock.close)
            with self._errors(address, deadline):
                async with deadline.timeout():
                    status, phrase = await self._ask(sock, address)
            if not 200 <= status < 300:
                raise self._explain(address, status, phrase)
            undo.pop_all()
        return sock

    async def _secure(self, sock: socket.socket, tls: ssl.SSLContext, deadline: Deadline) -> socket.socket:
        loop, host = asyncio.get_running_loop(), self._address.host
        try:
            async with deadline.timeout():
                return await bridge(
                    lambda end: loop.create_connection(lambda: end, sock=sock, ssl=tls, server_hostname=host)
                )
        except TimeoutError:
            error = f"no TLS handshake with the proxy within {deadline.seconds:g} s; it may be an http:// proxy"
        except ssl.SSLCertVerificationError as problem:
            trust = "SSL_CERT_FILE can name another CA file"
            error = f"the proxy's certificate is not trusted: {problem.verify_message}; {trust}"
        except OSError as problem:
            error = f"TLS with the proxy failed ({problem.strerror or problem}); it may be an http:// proxy"
        sock.close()
        raise ViaError("proxy", f"{self._name}: {error}")

    @contextlib.contextmanager
    def _errors(self, address: Address, deadline: Deadline) -> Iterator[None]:
        """Convert the errors until the proxy's response to UpstreamError."""
        try:
            yield
        except TimeoutError:
            text = f"no answer within {deadline.seconds:g} s through {self._name}"
            raise UpstreamError("timeout", f"{address}: {text}") from None
        except OSError as error:
            raise ViaError("proxy", f"{self._name}: {error.strerror or error}") from None
        except _SocksError:
            text = "the server at this address is a SOCKS5 proxy: use --via socks5://HOST:PORT"
            raise ViaError("proxy", f"{self._name}: {text}") from None
        except h11.RemoteProtocolError as error:
            raise ViaError(
                "proxy", f"{self._name}: the server at this address is not an HTTP proxy ({error})"
            ) from None
        except (h11.LocalProtocolError, UnicodeError):
            raise UpstreamError("resolve", f"{address}: '{address.host}' cannot be a host name") from None

    async def _ask(self, sock: socket.socket, address: Address) -> tuple[int, str]:
        """Return the status of the response and its phrase; bytes after the response stay in the socket."""
        loop = asyncio.get_running_loop()
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LIMIT)
        host = address.host.encode("idna").decode()
        if not host.isprintable() or len(host) > 253:  # `str` of such an address is for people
            raise UnicodeError
        target = str(Address(host, address.port))
        request = h11.Request(method="CONNECT", target=target, headers=[("Host", target), *self._headers])
        await loop.sock_sendall(sock, (http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        while True:
            event = http.next_event()
            if isinstance(event, h11.Response):
                return event.status_code, event.reason.decode("ascii", "replace")
            if event is h11.NEED_DATA:
                # One byte at a time: the byte after the response is the far end's, which may speak first (SSH does).
                data = await loop.sock_recv(sock, 1)
                if data == _SOCKS5 and not http.trailing_data[0]:
                    raise _SocksError
                http.receive_data(data)

    def _explain(self, address: Address, status: int, phrase: str) -> UpstreamError:
        answer = f"{status} {phrase}".strip()
        if status in (401, 407):  # some proxies send 401
            text = (
                "the proxy refuses this user and password"
                if self._headers
                else "the proxy requires a user and password"
            )
            return ViaError("proxy-auth", f"{self._name}: {text} ({answer}): --via http://USER:PASSWORD@HOST:PORT")
        if status in (403, 405):
            return UpstreamError("proxy", f"{address}: {self._name} does not allow connections there ({answer})")
        reason, text = _STATUS.get(status, ("proxy", "the proxy could not connect"))
        return UpstreamError(reason, f"{address}: {text} ({self._name} answers {answer})")

    async def close(self) -> None:
        """Do nothing: nothing is kept open."""
