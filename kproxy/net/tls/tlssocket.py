"""A TCP socket that speaks TLS, with the calls that the pump and `Stream` make on a plain one.

Records are decrypted in memory (ssl.MemoryBIO), not by OpenSSL on the file descriptor. So a half-close is a clean
close_notify, a key update never blocks a read, and no bytes are ever hidden from the selector: each `recv_into` returns
everything that it has read from the kernel, except an incomplete record.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

# RFC 8446 §5.1 and RFC 5246 §6.2.1: the most plaintext that one record has; a record's header.
_MAX_RECORD = 16 * 1024
_HEADER = 5
# The most bytes that are read from the kernel, or encrypted for it, at once. OpenSSL's buffers grow to that.
_CHUNK = 32 * 1024

_scratch = memoryview(bytearray(_CHUNK))  # the ciphertext of one read; all sockets share it


def record_server_name(tls: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    """Record the name that the client asked for; the `sni_callback` of a context."""
    tls.requested_name = name  # type: ignore[attr-defined]


class TlsSocket(socket.socket):
    """A TLS socket that takes over a connected socket, and does not block.

    Call `do_handshake` first, then `recv` for a conversation, then `recv_into` and `send`; not `recv` again. Where a
    plain socket would block, `recv_into` and `send` raise BlockingIOError, the others ssl.SSLWantReadError and
    ssl.SSLWantWriteError. Bytes that were not sent must be offered again from the same byte on, as a stream does.
    """

    __slots__ = ("_decrypt", "_header", "_in", "_missing", "_out", "_tls", "_unreported", "_unsent")

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool = False, host: str | None = None
    ) -> None:
        """Take over the socket; the other side's certificate must name `host`.

        Raises ValueError if `host` is not a valid name.
        """
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server_side, server_hostname=host)
        self._decrypt: Callable[[int, memoryview], int] = self._tls.read  # type: ignore[assignment]  # with a buffer
        self._unsent: memoryview | bytes = b""  # ciphertext that the kernel has not taken
        self._unreported = 0  # bytes of plaintext in it that `send` has not reported yet
        self._missing = _HEADER  # of the record, or of its header, that `_take_record` reads
        self._header = b""
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self.setblocking(False)

    def do_handshake(self) -> None:
        """Continue the handshake.

        Raises SSLWantReadError or SSLWantWriteError until it is complete, another OSError if it fails.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._push()
                self._take_record()
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._push()  # the alert with the reason
                raise
            else:
                self._push()
                return

    @property
    def requested_name(self) -> str:
        """The name that the client asked for (RFC 6066 §3), if the context has `record_server_name`; "" if none."""
        return getattr(self._tls, "requested_name", None) or ""

    def peer_names(self) -> list[str]:
        """Return the host names and addresses in the other side's certificate; none if it was not verified."""
        certificate: Any = self._tls.getpeercert() or {}
        names = [str(value) for _, value in certificate.get("subjectAltName", ())]
        # A certificate without any has one name, its subject's.
        return names or [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]

    def peer_der(self) -> bytes | None:
        """Return the other side's certificate, whether it was verified or not."""
        return self._tls.getpeercert(binary_form=True)

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Receive at most one record; bytes after it stay in the kernel, where the selector sees them."""
        while True:
            try:
                return self._tls.read(bufsize)
            except ssl.SSLWantReadError:
                self._take_record()
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # an end without close_notify, and one after our own
                return b""

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        """Fill the buffer, which must have room for two records, and return the count.

        0 is the end, with or without a close_notify: Kafka's frames have their sizes.
        """
        view = memoryview(buffer)
        count, size = 0, len(view)
        while (room := size - count - _MAX_RECORD) >= _CHUNK or not count:
            piece = _scratch[: min(room, _CHUNK)]
            try:
                received = super().recv_into(piece)
            except (BlockingIOError, InterruptedError):
                break
            if not received:
                return count
            self._in.write(piece[:received])
            try:
                while self._in.pending or self._tls.pending():
                    read = self._decrypt(size - count, view[count:])
                    if not read:
                        # A close_notify: nothing follows. This makes the next call, and the selector, report the end.
                        with contextlib.suppress(OSError):
                            super().shutdown(socket.SHUT_RD)
                        return count
                    count += read
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:  # a close_notify, after our own
                return count
            if received < len(piece):
                break
        if self._out.pending:
            self._flush()  # a key update's answer; what the kernel does not take goes with the next bytes
        if not count:
            raise BlockingIOError
        return count

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        """Send as much as the kernel takes, and return the count."""
        view = memoryview(data)
        sent = 0
        if self._unsent:
            if not self._flush():
                raise BlockingIOError
            sent, self._unreported = self._unreported, 0
        while sent < len(view):
            piece = self._tls.write(view[sent : sent + _CHUNK])
            if not self._flush():
                self._unreported = piece
                if sent:
                    return sent
                raise BlockingIOError
            sent += piece
        return sent

    def shutdown(self, how: int) -> None:
        """End the sending side (SHUT_WR) with a close_notify; the other side stays open."""
        self._send_close_notify()
        super().shutdown(how)

    def close(self) -> None:
        if self.fileno() >= 0:
            self._send_close_notify()
        super().close()

    def _send_close_notify(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._flush():
                # It would also wait for the other side's close_notify, which may never arrive.
                with contextlib.suppress(ssl.SSLWantReadError):
                    self._tls.unwrap()
                self._flush()

    def _push(self) -> None:
        if not self._flush():
            raise ssl.SSLWantWriteError

    def _flush(self) -> bool:
        """Give the kernel the encrypted bytes, and return whether it has taken all of them."""
        while self._unsent or self._out.pending:
            if not self._unsent:
                self._unsent = memoryview(self._out.read())
            try:
                self._unsent = self._unsent[super().send(self._unsent) :]
            except (BlockingIOError, InterruptedError):
                return False
            if self._unsent:
                return False
        return True

    def _take_record(self) -> None:
        """Give OpenSSL the rest of one record, no more. Raises SSLWantReadError."""
        try:
            data = super().recv(min(self._missing, _CHUNK))
        except (BlockingIOError, InterruptedError):
            raise ssl.SSLWantReadError from None
        if not data:
            self._in.write_eof()
            return
        self._in.write(data)
        self._missing -= len(data)
        if len(self._header) < _HEADER:
            self._header += data
            if len(self._header) == _HEADER:
                self._missing = int.from_bytes(self._header[3:5], "big")
        if not self._missing:
            self._missing, self._header = _HEADER, b""
