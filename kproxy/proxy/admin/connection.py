"""One HTTP/1.1 connection: h11 parses the bytes; this module moves them, and bounds what a peer can cost."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from email.utils import formatdate
from http import HTTPStatus

import h11

from kproxy.base.messages.start import ADMIN_HANDSHAKE_FAILED, ADMIN_PEER_NOT_TLS
from kproxy.net.tls.handshakes import AdminTls
from kproxy.proxy.admin.handlers import AdminSources
from kproxy.proxy.admin.requests import MARK, Reply, Request, RequestRefused, text_reply
from kproxy.proxy.admin.routes import handle, too_large_reply
from kproxy.proxy.admin.tlsstream import NotTls, TlsStream

logger = logging.getLogger(__name__)

MAX_HEAD = 16 * 1024
"""Bytes of a request's head; browsers send some 2 KiB."""
HEAD_SECONDS = 5.0
"""From a connection to its first whole request."""
BODY_SECONDS = 10.0
"""From a request's head to the end of its body."""
IDLE_SECONDS = 75.0
"""From an answer to the next whole request: a scraper that comes every minute keeps its connection."""
WRITE_SECONDS = 30.0
"""Until the peer has taken an answer."""
EVENTS_AT_A_TIME = 32
"""Chunks of a body that are read before others may run: a peer may make them of one byte each."""
CHUNKING = 8
"""The most bytes of a chunked body, as a multiple of its size: six if each chunk has one byte."""
LINGER_SECONDS = 1.0
"""The seconds in which superfluous bytes are read before closing: closing at once would reset the connection, and the
peer might lose the reply that names the fault."""

HANDSHAKE_SECONDS = 5.0
"""From a connection to the end of its TLS handshake."""

SPEAKS_TLS = "this is kproxy's admin endpoint and speaks HTTPS only (--admin-tls-cert): ask https://"
NOT_HTTP = "this is kproxy's admin endpoint and speaks HTTP/1.1; Kafka clients connect to kproxy's listeners"


class AdminConnection:
    """The requests of one connection, one after the other.

    `closing` returns True if the current reply must be the last one.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pages: AdminSources,
        closing: Callable[[], bool],
        tls: AdminTls | None = None,
        complain: Callable[[str], None] = logger.debug,
    ) -> None:
        """Make a connection; `complain` gets the fault of a peer that does not speak TLS as it should."""
        self._loop = asyncio.get_running_loop()
        self.idle = True
        """No request is under way, or not the whole of one: closing loses nothing."""
        self.since = self._loop.time()
        """When it became idle, or busy."""
        self._reader: asyncio.StreamReader | TlsStream = reader
        self._writer: asyncio.StreamWriter | TlsStream = writer
        self._streams = reader, writer
        self._tls = tls
        self._complain = complain
        self._pages = pages
        self._closing = closing
        address = writer.get_extra_info("peername")  # None: it has closed already
        self._peer = str(address[0]) if address else ""
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        # So that `drain` waits until the peer has taken everything, and WRITE_SECONDS bounds all of it.
        writer.transport.set_write_buffer_limits(high=0)

    async def serve(self) -> None:
        """Serve until either side closes.

        No exception escapes: a fault of the peer ends the connection, a fault of kproxy is logged.
        """
        try:
            if self._tls is not None and not await self._secure(self._tls):
                return
            seconds = HEAD_SECONDS
            while await self._serve_request(seconds):
                seconds = IDLE_SECONDS
                # `read` and `drain` return at once while there are bytes and room, so a peer that sends many
                # requests in one go would keep the data plane waiting.
                await asyncio.sleep(0)
            await self._discard_rest()
        except OSError as error:  # TimeoutError among them: the peer has closed, or takes nothing
            logger.debug("an admin connection was lost: %s", error)
            self.abort()
        except asyncio.CancelledError:  # the loop ends; this coroutine is the whole task, and ends with it
            self.abort()
        except Exception:
            logger.exception("an admin connection failed")
            self.abort()
        finally:
            await self._closed()

    async def _secure(self, tls: AdminTls) -> bool:
        """Do the TLS handshake; return True if requests may follow. Raises OSError."""
        secured = TlsStream(*self._streams, tls.current())
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                if not await secured.handshake():
                    return False
        except NotTls:
            self._complain(ADMIN_PEER_NOT_TLS())
            await self._send(text_reply(HTTPStatus.BAD_REQUEST, SPEAKS_TLS), with_body=True)
            await self._discard_rest()
            return False
        except TimeoutError:
            self._complain(f"did not finish the TLS handshake within {HANDSHAKE_SECONDS:g} s")
            raise
        except ssl.SSLError as error:
            self._complain(ADMIN_HANDSHAKE_FAILED(error=(error.reason or "closed early").replace("_", " ").lower()))
            await self._discard_rest()
            return False
        self._reader = self._writer = secured
        return True

    def close(self) -> None:
        """Close an idle connection; `serve` then returns."""
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def _closed(self) -> None:
        self._writer.close()
        with suppress(OSError, asyncio.CancelledError):
            async with asyncio.timeout(LINGER_SECONDS):  # the end of TLS may find no room
                await self._writer.wait_closed()
        self.abort()

    async def _serve_request(self, seconds: float) -> bool:
        """Read and answer one request; return True if another one may follow."""
        method = ""
        try:
            async with asyncio.timeout(seconds):
                request = await self._request()
        except h11.RemoteProtocolError as error:
            reply = self._parse_error_reply(error)
        except TimeoutError:
            if not self._http.trailing_data[0]:
                return False
            reply = text_reply(HTTPStatus.REQUEST_TIMEOUT, f"no complete request within {seconds:g} s")
        else:
            if request is None:
                return False
            self._set_idle(idle=False)
            method = request.method.decode()
            reply = await self._reply(request)
        if reply.stream is not None:
            await self._send_stream(reply, reply.stream, with_body=method != "HEAD")
            return False
        await self._send(reply, with_body=method != "HEAD")
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._set_idle(idle=True)
        return True

    def _set_idle(self, *, idle: bool) -> None:
        self.idle = idle
        self.since = self._loop.time()

    async def _request(self) -> h11.Request | None:
        """Return the head of the next request; None if the peer has closed."""
        size = len(self._http.trailing_data[0])
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self._reader.read(MAX_HEAD)
            size += len(data)
            self._http.receive_data(data)
        if not isinstance(event, h11.Request):
            return None
        # h11 bounds what is not complete yet: a head whose end has come with it may be larger by a read.
        if size - len(self._http.trailing_data[0]) > MAX_HEAD:
            raise h11.RemoteProtocolError("too large a head", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return event

    @staticmethod
    def _parse_error_reply(error: h11.RemoteProtocolError) -> Reply:
        # h11's own text may quote the peer's bytes.
        status = HTTPStatus(error.error_status_hint)
        if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            return text_reply(status, f"the head of the request is larger than {MAX_HEAD} bytes")
        return text_reply(status, NOT_HTTP)

    async def _reply(self, head: h11.Request) -> Reply:
        if not head.http_version.startswith(b"1."):  # h11 leaves the version to us; HTTP/2's preface has one
            return text_reply(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, NOT_HTTP, {"Connection": "close"})
        headers: dict[str, str] = {}
        for name, value in head.headers:
            before, text = headers.get(name.decode()), value.decode("latin-1")
            headers[name.decode()] = f"{before}, {text}" if before else text
        if "transfer-encoding" in headers and ("content-length" in headers or head.http_version < b"1.1"):
            # A proxy on the way may see another end of it (RFC 9112 §6.1, request smuggling).
            return text_reply(HTTPStatus.BAD_REQUEST, "the end of the body is ambiguous", {"Connection": "close"})
        try:
            request = Request.from_target(head.method.decode(), head.target.decode("latin-1"), headers, self._peer)
        except ValueError:
            return text_reply(HTTPStatus.BAD_REQUEST, "the query of the request has too many fields")
        if not request.has_body:
            self._http.next_event()  # EndOfMessage: another request may follow
        return await handle(self._pages, request, self._body)

    async def _body(self, most: int) -> bytes:
        """Return the body of the current request.

        Raises RequestRefused if it is larger than `most` bytes, too slow, or not HTTP.
        """
        self._set_idle(idle=True)  # it is the peer's turn, and nothing has been done yet
        try:
            async with asyncio.timeout(BODY_SECONDS):
                if self._http.they_are_waiting_for_100_continue:
                    self._writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                    await self._writer.drain()
                return await self._read_body(most)
        except h11.RemoteProtocolError:
            text = "the body ends early or is not valid HTTP/1.1"
            raise RequestRefused(text_reply(HTTPStatus.BAD_REQUEST, text)) from None
        except TimeoutError:
            text = f"no complete body within {BODY_SECONDS:g} s"
            raise RequestRefused(text_reply(HTTPStatus.REQUEST_TIMEOUT, text)) from None
        finally:
            self._set_idle(idle=False)

    async def _read_body(self, most: int) -> bytes:
        body, events, received = bytearray(), 0, 0
        while self._http.their_state is h11.SEND_BODY:
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                body += event.data
            elif event is h11.NEED_DATA:
                data = await self._reader.read(MAX_HEAD)
                received += len(data)
                self._http.receive_data(data)
            if len(body) > most or received > most * CHUNKING + MAX_HEAD:
                raise RequestRefused(too_large_reply(most))
            events += 1
            if events % EVENTS_AT_A_TIME == 0:
                await asyncio.sleep(0)
        return bytes(body)

    async def _send_stream(self, reply: Reply, stream: AsyncGenerator[bytes, None], *, with_body: bool) -> None:
        """Send a reply without an end of its own, which uses up the connection.

        It ends when the peer takes nothing for WRITE_SECONDS, or has gone.
        """
        headers = {**_headers(reply), "Connection": "close"}
        response = h11.Response(
            status_code=reply.status, reason=reply.status.phrase.encode(), headers=list(headers.items())
        )
        self._writer.write(self._http.send(response) or b"")
        async with aclosing(stream):
            if not with_body:
                return
            async for data in stream:
                if self._reader.at_eof() or self._closing():  # the reader of a stream sends nothing more
                    return
                self._writer.write(self._http.send(h11.Data(data=data)) or b"")
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._writer.drain()
        self._writer.write(self._http.send(h11.EndOfMessage()) or b"")

    async def _send(self, reply: Reply, *, with_body: bool) -> None:
        headers = {**_headers(reply), "Content-Length": str(len(reply.body)), **reply.headers}
        if self._closing() or self._http.their_state is not h11.DONE:
            headers["Connection"] = "close"
        events: list[h11.Event] = [
            h11.Response(status_code=reply.status, reason=reply.status.phrase.encode(), headers=list(headers.items())),
            h11.EndOfMessage(),
        ]
        if with_body:
            events.insert(1, h11.Data(data=reply.body))
        self._writer.write(b"".join([self._http.send(event) or b"" for event in events]))
        async with asyncio.timeout(WRITE_SECONDS):
            await self._writer.drain()

    async def _discard_rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                self._writer.write_eof()
                while await self._reader.read(MAX_HEAD):
                    pass


def _headers(reply: Reply) -> dict[str, str]:
    return {
        "Date": formatdate(usegmt=True),
        "Content-Type": reply.content_type,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        MARK: "1",
        **reply.headers,
    }
