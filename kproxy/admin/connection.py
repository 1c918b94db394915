"""One HTTP/1.1 connection: h11 judges the bytes, this module moves them and bounds what a peer can cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus

import h11

from kproxy.admin.pages import AdminPages, Answer, Request, answer, line

logger = logging.getLogger(__name__)

MAX_HEAD = 16 * 1024
"""Bytes of a request's head; browsers send some 2 KiB."""
HEAD_SECONDS = 5.0
"""From a connection to its first whole request."""
IDLE_SECONDS = 75.0
"""From an answer to the next whole request: a scraper that comes every minute keeps its connection."""
WRITE_SECONDS = 30.0
"""Until the peer has taken an answer."""
LINGER_SECONDS = 1.0
"""How long bytes that nobody wants are read before closing: closing at once would reset the connection, and
the peer might lose the answer that says what was wrong."""

NOT_HTTP = "this is kproxy's admin endpoint and speaks HTTP/1.1; Kafka clients connect to kproxy's listeners"


class Connection:
    """Requests one after the other; `closing` says whether the answer under way is the last."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pages: AdminPages,
        closing: Callable[[], bool],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.idle = True
        """No request is under way: closing loses nothing."""
        self.since = self._loop.time()
        """When it became idle, or busy."""
        self._reader = reader
        self._writer = writer
        self._pages = pages
        self._closing = closing
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        # So that `drain` waits until the peer has taken everything, and WRITE_SECONDS bounds all of it.
        writer.transport.set_write_buffer_limits(high=0)

    async def serve(self) -> None:
        """Until either side has enough. Nothing escapes: a peer's fault ends the connection, ours is logged."""
        try:
            seconds = HEAD_SECONDS
            while await self._one_request(seconds):
                seconds = IDLE_SECONDS
                # `read` and `drain` return at once while there are bytes and room, so a peer that sends many
                # requests in one go would keep the data plane waiting.
                await asyncio.sleep(0)
            await self._linger()
        except OSError as error:  # TimeoutError among them: the peer is gone, or takes nothing
            logger.debug("an admin connection was lost: %s", error)
            self.abort()
        except asyncio.CancelledError:  # the loop ends; this coroutine is the whole task, and ends with it
            self.abort()
        except Exception:
            logger.exception("an admin connection failed")
            self.abort()
        finally:
            await self._closed()

    def close(self) -> None:
        """Close an idle connection; `serve` then returns."""
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def _closed(self) -> None:
        self._writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await self._writer.wait_closed()

    async def _one_request(self, seconds: float) -> bool:
        """Read and answer one; whether another may follow."""
        method = ""
        try:
            async with asyncio.timeout(seconds):
                request = await self._request()
        except h11.RemoteProtocolError as error:
            reply = self._not_understood(error)
        except TimeoutError:
            if not self._http.trailing_data[0]:
                return False
            reply = line(HTTPStatus.REQUEST_TIMEOUT, f"no whole request within {seconds:g} s")
        else:
            if request is None:
                return False
            self._turn(idle=False)
            method = request.method.decode()
            reply = await self._reply(request, method)
        await self._send(reply, with_body=method != "HEAD")
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._turn(idle=True)
        return True

    def _turn(self, *, idle: bool) -> None:
        self.idle = idle
        self.since = self._loop.time()

    async def _request(self) -> h11.Request | None:
        """The next request's head, and its end where it has no body; None when the peer has closed."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(MAX_HEAD))
        if not isinstance(event, h11.Request):
            return None
        self._http.next_event()  # EndOfMessage, unless a body follows
        return event

    @staticmethod
    def _not_understood(error: h11.RemoteProtocolError) -> Answer:
        # h11's own text may quote the peer's bytes.
        status = HTTPStatus(error.error_status_hint)
        if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            return line(status, f"the request's head is over {MAX_HEAD} bytes")
        return line(status, NOT_HTTP)

    async def _reply(self, request: h11.Request, method: str) -> Answer:
        if not request.http_version.startswith(b"1."):  # h11 leaves the version to us; HTTP/2's preface has one
            return line(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, NOT_HTTP, Connection="close")
        if self._http.their_state is h11.SEND_BODY:
            return line(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request has no body here")
        headers: dict[str, str] = {}
        for name, value in request.headers:
            known, text = headers.get(name.decode()), value.decode("latin-1")
            headers[name.decode()] = f"{known}, {text}" if known else text
        path, _, query = request.target.decode("latin-1").partition("?")
        return await answer(self._pages, method, Request(path, query, headers))

    async def _send(self, reply: Answer, *, with_body: bool) -> None:
        headers = {
            "Date": formatdate(usegmt=True),
            "Content-Type": reply.content_type,
            "Content-Length": str(len(reply.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **reply.headers,
        }
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

    async def _linger(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                self._writer.write_eof()
                while await self._reader.read(MAX_HEAD):
                    pass
