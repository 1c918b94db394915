"""What each path answers."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias

from prometheus_client.exposition import gzip_accepted

from kproxy.metrics import Metrics, exposition

logger = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"

PIECES_AT_A_TIME = 64
"""Pieces of the metrics' text written before others may run: about half a millisecond. The data plane shares
this thread, and the metrics of a large cluster take more than ten."""


@dataclass(frozen=True, slots=True)
class AdminPages:
    """Where the pages get what they show. All are called on the event loop and must not block."""

    metrics: Callable[[], Awaitable[Metrics]]
    status: Callable[[], Mapping[str, object]]
    """What `/status` shows as JSON; values that JSON does not know are shown as `str()`."""
    not_ready: Callable[[], Sequence[str]]
    """Why kproxy is not ready, a line each; empty when it is."""
    quit: Callable[[], None] | None = None
    """Ends kproxy in good order; None where nobody may ask for that."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


Page: TypeAlias = Callable[[AdminPages, Mapping[str, str]], Awaitable[Answer]]
"""From the sources and the request's headers (names in lower case)."""


def line(status: HTTPStatus, text: str, **headers: str) -> Answer:
    """An answer of one line of text."""
    return Answer(status, f"{text}\n".encode(), headers=headers)


async def answer(pages: AdminPages, method: str, path: str, headers: Mapping[str, str]) -> Answer:
    """The answer to a request; `path` is without the query. A fault in a page is logged and answered by 500."""
    methods = (ROUTES if pages.quit is None else ROUTES | QUIT).get(path)
    if methods is None:
        return line(HTTPStatus.NOT_FOUND, f"no such page; there are {' '.join(ROUTES)}")
    page = methods.get("GET" if method == "HEAD" else method)
    if page is None:
        allowed = ", ".join([*methods, "HEAD"] if "GET" in methods else methods)
        return line(HTTPStatus.METHOD_NOT_ALLOWED, f"this page allows {allowed}", Allow=allowed)
    try:
        return await page(pages, headers)
    except Exception:
        logger.exception("the admin page %s failed", path)
        return line(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; kproxy's log has it")


async def _metrics(pages: AdminPages, headers: Mapping[str, str]) -> Answer:
    written, content_type = exposition(await pages.metrics(), headers.get("accept", ""))
    pieces = []
    for number, piece in enumerate(written, start=1):
        pieces.append(piece)
        if number % PIECES_AT_A_TIME == 0:
            await asyncio.sleep(0)
    body = "".join(pieces).encode()
    if not gzip_accepted(headers.get("accept-encoding", "")):
        return Answer(HTTPStatus.OK, body, content_type)
    # In a thread, for zlib lets go of the interpreter; level 1 already makes this text 15 times smaller.
    packed = await asyncio.to_thread(gzip.compress, body, 1)
    return Answer(HTTPStatus.OK, packed, content_type, {"Content-Encoding": "gzip"})


async def _livez(pages: AdminPages, headers: Mapping[str, str]) -> Answer:
    return line(HTTPStatus.OK, "ok")  # that it is answered at all says that the event loop turns


async def _readyz(pages: AdminPages, headers: Mapping[str, str]) -> Answer:
    reasons = pages.not_ready()
    if reasons:
        return line(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(reasons))
    return line(HTTPStatus.OK, "ok")


async def _status(pages: AdminPages, headers: Mapping[str, str]) -> Answer:
    text = json.dumps(pages.status(), indent=2, default=str, ensure_ascii=False)
    return Answer(HTTPStatus.OK, f"{text}\n".encode(), "application/json")


async def _index(pages: AdminPages, headers: Mapping[str, str]) -> Answer:
    links = "\n".join(f'<li><a href="{path}">{path}</a></li>' for path in ROUTES if path != "/")
    page = f"<!doctype html>\n<title>kproxy</title>\n<h1>kproxy</h1>\n<ul>\n{links}\n</ul>\n"
    return Answer(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8")


async def _quit(pages: AdminPages, headers: Mapping[str, str]) -> Answer:
    # A page of any site can make a browser send this, and cannot keep the browser from adding one of these: Origin to
    # each POST (Fetch, "append a request Origin header"), Sec-Fetch-Site to each request (Fetch Metadata).
    if "origin" in headers or "sec-fetch-site" in headers:
        return line(HTTPStatus.FORBIDDEN, "a browser may not ask for this: any page could make it do so")
    assert pages.quit is not None
    pages.quit()
    return line(HTTPStatus.ACCEPTED, "stopping")


ROUTES: dict[str, Mapping[str, Page]] = {
    "/": {"GET": _index},
    "/metrics": {"GET": _metrics},
    "/livez": {"GET": _livez},
    "/readyz": {"GET": _readyz},
    "/status": {"GET": _status},
}
"""Path and method; HEAD goes with GET."""
QUIT: dict[str, Mapping[str, Page]] = {"/quit": {"POST": _quit}}
"""The same, where it is enabled (--admin-quit)."""
