"""TLS of the admin endpoint, on one connection over its asyncio streams: the rest of it sees streams again.

The first bytes are checked before OpenSSL gets them, so that a peer with plain HTTP gets a helpful reply. During the
handshake, the limits of `server` and of `connection` apply as to any other connection.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

from kproxy.config import Config
from kproxy.net.tls.handshakes import AdminTls, TlsFiles

_PIECE = 64 * 1024
"""Bytes that are encrypted, or read, before the peer has to take, or send, some: an answer may have many MiB."""
_HANDSHAKE = b"\x16"
"""The first byte of TLS (RFC 8446 §5.1): a record of the handshake."""


class NotTls(Exception):
    """The peer does not begin a TLS handshake."""


class TlsStream:
    """A reader and a writer of plain bytes, over those of an encrypted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self._reader = reader
        self._writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = bytearray()
        self._has_handshake = self._ended = False

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._writer.transport

    def get_extra_info(self, name: str) -> Any:
        return self._writer.get_extra_info(name)

    async def handshake(self) -> bool:
        """Do the handshake; return False if the peer closed before it sent anything. Raises NotTls, OSError."""
        first = await self._reader.read(_PIECE)
        if not first:
            return False
        if not first.startswith(_HANDSHAKE):
            raise NotTls
        self._incoming.write(first)
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
                continue
            except ssl.SSLError:
                await self._flush()  # the alert that says why
                raise
            self._has_handshake = True
            await self._flush()
            return True

    async def read(self, most: int) -> bytes:
        """Return some bytes; none at the end of the stream, with TLS's own end or without.

        HTTP itself tells whether something is missing. Raises OSError.
        """
        if self._ended:  # the remaining bytes are discarded, so they need not be decrypted
            return await self._reader.read(most)
        while True:
            try:
                return self._tls.read(most)
            except ssl.SSLWantReadError:
                await self._flush()  # what OpenSSL answers by itself, to a new key
                await self._receive()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    def at_eof(self) -> bool:
        """Return True if the peer has gone, as far as is known without reading."""
        return self._reader.at_eof()

    def write(self, data: bytes) -> None:
        """Queue bytes for `drain`."""
        self._unsent += data

    async def drain(self) -> None:
        """Send the queued bytes, and wait until the transport has room for more.

        With `high=0`: until the peer has taken everything. Raises OSError.
        """
        while self._unsent:
            sent = self._tls.write(memoryview(self._unsent)[:_PIECE].tobytes())
            del self._unsent[:sent]
            await self._flush()
        await self._flush()

    def write_eof(self) -> None:
        """Send the end of the stream."""
        self._send_end()
        self._writer.write_eof()
        self._ended = True

    def close(self) -> None:
        self._send_end()
        self._writer.close()

    async def wait_closed(self) -> None:
        await self._writer.wait_closed()

    def _send_end(self) -> None:
        if self._has_handshake and not self._writer.is_closing():
            self._has_handshake = False
            with suppress(OSError):  # the peer has not said so yet, or has gone
                self._tls.unwrap()
            if data := self._outgoing.read():
                self._writer.write(data)

    async def _receive(self) -> None:
        if data := await self._reader.read(_PIECE):
            self._incoming.write(data)
            # A peer may send records without any content for as long as it likes.
            await asyncio.sleep(0)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            self._writer.write(data)
            await self._writer.drain()


def admin_tls(config: Config) -> AdminTls | None:
    """Return TLS of the admin endpoint, if it is configured. Raises ConfigError if a file cannot be used."""
    if config.admin is None or config.admin_tls_cert is None:
        return None
    files = TlsFiles(cert=config.admin_tls_cert, key=config.admin_tls_key, key_password=config.admin_tls_key_password)
    return AdminTls(files)
