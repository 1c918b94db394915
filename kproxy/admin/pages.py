"""What each path answers."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import parse_qs

from prometheus_client.exposition import gzip_accepted

from kproxy.admin.hosts import is_known
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
    status: Callable[[], bytes]
    """What `/status` shows, as JSON."""
    readiness: Callable[[str | None], Readiness]
    """Whether kproxy is ready; given what --ready-requires says in its place, or None. Raises ValueError for another
    word."""
    quit: Callable[[], None] | None = None
    """Ends kproxy in good order; None where nobody may ask for that."""
    hosts: Collection[str] = ()
    """Names by which it may be asked, see `kproxy.admin.hosts`."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """`reasons` why it is not ready, a line each, empty when it is; `missing`: what cannot be reached even so."""

    reasons: Sequence[str] = ()
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: names of `headers` are in lower case, `query` is what stands behind the `?`."""

    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


Page: TypeAlias = Callable[[AdminPages, Request], Awaitable[Answer]]
"""From the sources and the request."""


def line(status: HTTPStatus, text: str, **headers: str) -> Answer:
    """An answer of one line of text."""
    return Answer(status, f"{text}\n".encode(), headers=headers)


async def answer(pages: AdminPages, method: str, request: Request) -> Answer:
    """The answer to a request. A fault in a page is logged and answered by 500."""
    if request.path not in PROBES and not is_known(request.headers.get("host", ""), pages.hosts):
        return line(HTTPStatus.MISDIRECTED_REQUEST, "the Host of this request is unknown here; --admin-host allows it")
    methods = (ROUTES if pages.quit is None else ROUTES | QUIT).get(request.path)
    if methods is None:
        return line(HTTPStatus.NOT_FOUND, f"no such page; there are {' '.join(ROUTES)}")
    page = methods.get("GET" if method == "HEAD" else method)
    if page is None:
        allowed = ", ".join([*methods, "HEAD"] if "GET" in methods else methods)
        return line(HTTPStatus.METHOD_NOT_ALLOWED, f"this page allows {allowed}", Allow=allowed)
    try:
        return await page(pages, request)
    except Exception:
        logger.exception("the admin page %s failed", request.path)
        return line(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; kproxy's log has it")


async def _metrics(pages: AdminPages, request: Request) -> Answer:
    written, content_type = exposition(await pages.metrics(), request.headers.get("accept", ""))
    pieces = []
    for number, piece in enumerate(written, start=1):
        pieces.append(piece)
        if number % PIECES_AT_A_TIME == 0:
            await asyncio.sleep(0)
    body = "".join(pieces).encode()
    if not gzip_accepted(request.headers.get("accept-encoding", "")):
        return Answer(HTTPStatus.OK, body, content_type)
    # In a thread, for zlib lets go of the interpreter; level 1 already makes this text 15 times smaller.
    packed = await asyncio.to_thread(gzip.compress, body, 1)
    return Answer(HTTPStatus.OK, packed, content_type, {"Content-Encoding": "gzip"})


async def _livez(pages: AdminPages, request: Request) -> Answer:
    return line(HTTPStatus.OK, "ok")  # that it is answered at all says that the event loop turns


async def _readyz(pages: AdminPages, request: Request) -> Answer:
    asked = parse_qs(request.query).get("requires")
    try:
        state = pages.readiness(asked[-1] if asked else None)
    except ValueError as error:
        return line(HTTPStatus.BAD_REQUEST, f"requires: {error}")
    reasons, missing = state.reasons, state.missing
    if not is_known(request.headers.get("host", ""), pages.hosts):  # they have names of brokers
        reasons = ["not ready; the reasons are for hosts that --admin-host allows"] if reasons else []
        missing = []
    if reasons:
        return line(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(reasons))
    return line(HTTPStatus.OK, "\n".join(["ok", *missing]))


async def _status(pages: AdminPages, request: Request) -> Answer:
    return Answer(HTTPStatus.OK, pages.status(), "application/json")


async def _index(pages: AdminPages, request: Request) -> Answer:
    links = "\n".join(f'<li><a href="{path}">{path}</a></li>' for path in ROUTES if path != "/")
    page = f"<!doctype html>\n<title>kproxy</title>\n<h1>kproxy</h1>\n<ul>\n{links}\n</ul>\n"
    return Answer(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8")


async def _quit(pages: AdminPages, request: Request) -> Answer:
    # A page of any site can make a browser send this, and cannot keep the browser from adding one of these: Origin to
    # each POST (Fetch, "append a request Origin header"), Sec-Fetch-Site to each request (Fetch Metadata).
    if "origin" in request.headers or "sec-fetch-site" in request.headers:
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
PROBES = ("/livez", "/readyz")
"""Answered whatever the Host is, as probes choose it: whether kproxy is ready is no secret, only why it is not."""
QUIT: dict[str, Mapping[str, Page]] = {"/quit": {"POST": _quit}}
"""The same, where it is enabled (--admin-quit)."""
