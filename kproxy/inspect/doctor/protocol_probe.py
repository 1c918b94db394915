"""What a port speaks to which nobody answered as expected: Kafka in plaintext or TLS, HTTP, SSH, and so on.

Each try is a connection of its own, and all are made at once, so that a silent server costs one time limit. What is
sent is what a client of that protocol sends first; nobody logs in.
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
from kproxy.protocol.wire import api
from kproxy.protocol.wire.greeting import ENOUGH, Greeting, recognise
from kproxy.protocol.wire.primitives import INT32
from kproxy.protocol.wire.request import encode_request

T = TypeVar("T")

# A banner or a refusal is short.
_FIRST_BYTES = 512
_VERSIONS = encode_request(api.API_VERSIONS, 0, api.API_VERSIONS, b"")
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
    """What a port speaks, and the certificate that it showed."""

    spoken: PortProtocol
    certificate: Certificate | None = None


async def probe(connect: Connect, host: str, seconds: float) -> ProbeResult:
    """What is spoken at the address to which `connect` connects. Never raises."""
    plain, tls, http, proxied = await asyncio.gather(
        _limited(_say(connect, _VERSIONS), seconds, b""),
        _limited(_try_tls(connect, host), seconds, None),
        _limited(_say(connect, _HTTP), seconds, b""),
        _limited(_say(connect, _PROXY + _VERSIONS), seconds, b""),
    )
    if tls is not None:
        return tls
    for said in (plain, http):
        if _is_kafka(said):
            return ProbeResult(PortProtocol.KAFKA)
        greeting = recognise(said[:ENOUGH], from_upstream=True) if said else None
        if greeting in _WORDS:
            return ProbeResult(_WORDS[greeting])
    if _is_kafka(proxied):
        return ProbeResult(PortProtocol.PROXY)
    if plain or http:
        return ProbeResult(PortProtocol.OTHER)
    return ProbeResult(PortProtocol.CLOSED if plain is None else PortProtocol.NOTHING)


async def certificate_of(connect: Connect, host: str, seconds: float) -> Certificate | None:
    """The certificate of a TLS server, trusted or not; None if there is none to be had."""
    heard = await _limited(_try_tls(connect, host), seconds, None)
    return heard.certificate if heard is not None else None


async def _limited(asking: Awaitable[T], seconds: float, late: T) -> T | None:
    """What comes of it; `late` if that takes too long, None if it fails."""
    try:
        async with asyncio.timeout(seconds):
            return await asking
    except TimeoutError:
        return late
    except (KproxyError, OSError, EOFError, ValueError):
        return None


async def _say(connect: Connect, first: bytes) -> bytes | None:
    """The first bytes of the answer; None if the server closes the connection without one."""
    with await connect() as sock:
        stream = Stream(sock)
        await stream.send(first)
        return await stream.receive(_FIRST_BYTES) or None


async def _try_tls(connect: Connect, host: str) -> ProbeResult | None:
    """What a TLS server is; None if it is none. Nothing is verified: this asks who is there, and tells it nothing."""
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
        found = x509.load_der_x509_certificate(der)
        return Certificate(
            names=tuple(certificate_names(der)),
            subject=found.subject.rfc4514_string(),
            issuer=found.issuer.rfc4514_string(),
            not_before=found.not_valid_before_utc.astimezone(UTC),
            not_after=found.not_valid_after_utc.astimezone(UTC),
        )
    except ValueError:  # a certificate that OpenSSL takes and cryptography does not
        return None


def _is_kafka(said: bytes | None) -> bool:
    """Whether this is the beginning of a response to _VERSIONS."""
    return said is not None and len(said) >= 8 and said[4:8] == INT32.pack(api.API_VERSIONS)
