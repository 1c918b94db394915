"""The protocol of a port at which no broker answered as expected: Kafka in plaintext or TLS, HTTP, SSH, and so on.

Each try has its own connection, and all are made at once, so that a silent server costs one time limit. kproxy sends
what a client of that protocol sends first, and never logs in.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC
from typing import TypeVar

from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.client.ask import questions
from kproxy.client.ask.channel import ConnectionChannel
from kproxy.inspect.doctor.evidence import Certificate, PortProtocol
from kproxy.net.dial.stream import Connect, Stream, retry_when_ready
from kproxy.net.tls.handshakes import certificate_names
from kproxy.net.tls.tlssocket import TlsSocket
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.greeting import ENOUGH, Greeting, recognise
from kproxy.protocol.wire.messages import encode_request
from kproxy.protocol.wire.primitives import INT32

T = TypeVar("T")

# A banner or a refusal is short.
_FIRST_BYTES = 512
_VERSIONS = encode_request(ApiKey.API_VERSIONS, 0, ApiKey.API_VERSIONS, b"")
_HTTP = b"GET / HTTP/1.0\r\n\r\n"
_PROXY = b"PROXY TCP4 127.0.0.1 127.0.0.1 9 9\r\n"
_WORDS = {
    Greeting.HTTP: PortProtocol.HTTP,
    Greeting.SSH: PortProtocol.SSH,
    Greeting.SOCKS: PortProtocol.SOCKS,
    Greeting.TLS: PortProtocol.TLS,
    Greeting.TLS_ALERT: PortProtocol.TLS,
}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The protocol of a port, and its certificate."""

    protocol: PortProtocol
    certificate: Certificate | None = None


async def probe(connect: Connect, host: str, seconds: float) -> ProbeResult:
    """Probe the address to which `connect` connects. Never raises."""
    plain, tls, http, proxied = await asyncio.gather(
        _limited(_exchange(connect, _VERSIONS), seconds, b""),
        _limited(_try_tls(connect, host), seconds, None),
        _limited(_exchange(connect, _HTTP), seconds, b""),
        _limited(_exchange(connect, _PROXY + _VERSIONS), seconds, b""),
    )
    if tls is not None:
        return tls
    for reply in (plain, http):
        if _is_kafka(reply):
            return ProbeResult(PortProtocol.KAFKA)
        greeting = recognise(reply[:ENOUGH], from_upstream=True) if reply else None
        if greeting in _WORDS:
            return ProbeResult(_WORDS[greeting])
    if _is_kafka(proxied):
        return ProbeResult(PortProtocol.PROXY)
    if plain or http:
        return ProbeResult(PortProtocol.OTHER)
    return ProbeResult(PortProtocol.CLOSED if plain is None else PortProtocol.NOTHING)


async def certificate_of(connect: Connect, host: str, seconds: float) -> Certificate | None:
    """Return the certificate of a TLS server, trusted or not; None if there is none."""
    result = await _limited(_try_tls(connect, host), seconds, None)
    return result.certificate if result is not None else None


async def _limited(asking: Awaitable[T], seconds: float, late: T) -> T | None:
    """Return the result of `asking`; `late` if it takes too long, None if it fails."""
    try:
        async with asyncio.timeout(seconds):
            return await asking
    except TimeoutError:
        return late
    except (KproxyError, OSError, EOFError, ValueError):
        return None


async def _exchange(connect: Connect, first: bytes) -> bytes | None:
    """Send `first` and return the first bytes of the reply; None if the server closes without one."""
    with await connect() as sock:
        stream = Stream(sock)
        await stream.send(first)
        return await stream.receive(_FIRST_BYTES) or None


async def _try_tls(connect: Connect, host: str) -> ProbeResult | None:
    """Probe a TLS server; None if it is none.

    Nothing is verified: kproxy only identifies the server, and sends it no secret.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with TlsSocket(await connect(), context, host=host.removesuffix(".")) as sock:
        try:
            await retry_when_ready(sock, sock.do_handshake)
        except ssl.SSLError as error:
            # An alert is TLS as well; what is no TLS at all has no record that could be read.
            return ProbeResult(PortProtocol.TLS) if "ALERT" in (error.reason or "") else None
        certificate = _read(sock.peer_der())
        try:
            await questions.ask_versions(ConnectionChannel(Stream(sock)))
        except (KproxyError, OSError, EOFError) as error:
            # Kafka that wants a client certificate ends the connection after the handshake, too.
            wants = isinstance(error, UpstreamError) and error.reason == "tls-client-certificate"
            return ProbeResult(PortProtocol.KAFKA_TLS if wants else PortProtocol.TLS, certificate)
        return ProbeResult(PortProtocol.KAFKA_TLS, certificate)


def _read(der: bytes | None) -> Certificate | None:
    if der is None:
        return None
    from cryptography import x509

    try:
        certificate = x509.load_der_x509_certificate(der)
        return Certificate(
            names=tuple(certificate_names(der)),
            issuer=certificate.issuer.rfc4514_string(),
            not_before=certificate.not_valid_before_utc.astimezone(UTC),
            not_after=certificate.not_valid_after_utc.astimezone(UTC),
        )
    except ValueError:  # a certificate that OpenSSL takes and cryptography does not
        return None


def _is_kafka(reply: bytes | None) -> bool:
    """Return True if these bytes begin a response to _VERSIONS."""
    return reply is not None and len(reply) >= 8 and reply[4:8] == INT32.pack(ApiKey.API_VERSIONS)
