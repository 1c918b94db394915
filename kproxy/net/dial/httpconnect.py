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
from kproxy.base.messages.hops import (
    HOP_TIMEOUT,
    NOT_HTTP_PROXY,
    PROXY_ANSWERS_ERROR,
    PROXY_CERTIFICATE_UNTRUSTED,
    PROXY_FORBIDS,
    PROXY_NO_ROUTE,
    PROXY_PASSWORD_REFUSED,
    PROXY_PASSWORD_REQUIRED,
    PROXY_TLS_FAILED,
    PROXY_TLS_TIMEOUT,
    SOCKS_INSTEAD_OF_HTTP,
)
from kproxy.net.dial.bridge import bridge
from kproxy.net.dial.connector import Connector, Deadline, DialStepKind, HopSpec, connect_to_hop

# The largest response to CONNECT, in bytes; usual ones have a few hundred.
_LIMIT = 64 * 1024
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
            error = PROXY_TLS_TIMEOUT(seconds=deadline.seconds)
        except ssl.SSLCertVerificationError as problem:
            trust = "SSL_CERT_FILE can name another CA file"
            error = PROXY_CERTIFICATE_UNTRUSTED(error=problem.verify_message, trust=trust)
        except OSError as problem:
            error = PROXY_TLS_FAILED(error=problem.strerror or problem)
        sock.close()
        raise ViaError("proxy", f"{self._name}: {error}")

    @contextlib.contextmanager
    def _errors(self, address: Address, deadline: Deadline) -> Iterator[None]:
        """Convert the errors until the proxy's response to UpstreamError."""
        try:
            yield
        except TimeoutError:
            timeout = HOP_TIMEOUT.with_reason(address=address, seconds=deadline.seconds, name=self._name)
            raise UpstreamError(*timeout) from None
        except OSError as error:
            raise ViaError("proxy", f"{self._name}: {error.strerror or error}") from None
        except _SocksError:
            raise ViaError(*SOCKS_INSTEAD_OF_HTTP.with_reason(name=self._name)) from None
        except h11.RemoteProtocolError as error:
            raise ViaError(*NOT_HTTP_PROXY.with_reason(name=self._name, error=error)) from None
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
            message = PROXY_PASSWORD_REFUSED if self._headers else PROXY_PASSWORD_REQUIRED
            return ViaError(*message.with_reason(name=self._name, answer=f" ({answer})", scheme="http"))
        if status in (403, 405):
            return UpstreamError(*PROXY_FORBIDS.with_reason(address=address, name=self._name, answer=f" ({answer})"))
        if status == 504:
            text = f"the proxy got no answer from that address ({self._name} answers {answer})"
            return UpstreamError("timeout", f"{address}: {text}")
        message = PROXY_NO_ROUTE if status in (502, 503) else PROXY_ANSWERS_ERROR
        return UpstreamError(*message.with_reason(address=address, name=self._name, answer=answer))

    async def close(self) -> None:
        """Do nothing: nothing is kept open."""
