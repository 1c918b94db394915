"""The reply of each path. The table in `routes` checks access; no handler does."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, TypeAlias

from kproxy.base.printable import one_line
from kproxy.proxy.admin import statuspage
from kproxy.proxy.admin.bearer import TokenFile
from kproxy.proxy.admin.requests import ACCEPT_CLUSTER, JSON, Reply, Request, text_reply
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.watch.feed import TooManyReaders

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"

PIECES_AT_A_TIME = 64
"""Pieces of the metrics' text written before others may run: about half a millisecond. The data plane shares
this thread, and the metrics of a large cluster take more than ten."""

LineStream: TypeAlias = Callable[[Mapping[str, Sequence[str]]], AsyncGenerator[bytes, None]]
"""Lines without an end, for the query of a request."""


@dataclass(frozen=True, slots=True)
class AdminSources:
    """The sources of the pages' contents. All are called on the event loop and must not block."""

    metrics: Metrics
    status: Callable[[], bytes]
    """The JSON of `/status`."""
    readiness: Callable[[str | None], Readiness]
    """The readiness of kproxy; the argument, if any, replaces --ready-requires. Raises ValueError if it is invalid."""
    quit: Callable[[], None] | None = None
    """Stops kproxy in good order; None if requests must not do that."""
    tap: LineStream | None = None
    """Lines of exchanges, for the query of a request. Raises ValueError if the query has unknown fields, and
    kproxy.proxy.watch's TooManyReaders."""
    hosts: Collection[str] = ()
    """Accepted Host names, see `kproxy.proxy.admin.requests`."""
    token: str | TokenFile | None = field(default=None, repr=False)
    """The token that a request must have if its route needs one; None: there is no token."""
    require_token_for_reads: bool = False
    """Pages that only show something need the token too."""
    sessions: Callable[[], bytes] | None = None
    """The JSON of `/sessions`."""
    live: Callable[[], AsyncGenerator[bytes, None]] | None = None
    """Server-sent events for the page. Raises kproxy.proxy.watch's TooManyReaders."""
    reload: Callable[[str | None], Awaitable[ReloadResult]] | None = None
    """Reloads the configuration; None if requests must not do that. The argument, if any, is the name of a cluster; if
    another Kafka cluster has taken its place, kproxy serves that one from then on."""
    frames: LineStream | None = None
    """Lines with copies of frames, like `tap`."""
    observation: Callable[[], AsyncGenerator[bytes, None]] | None = None
    """Lines of JSON with what clients have used; they end."""
    observe: Callable[[object], bytes] | None = None
    """Executes the command in the body of POST /observation, and returns JSON. Raises ValueError: what is allowed."""

    switches: Callable[[], bytes] | None = None
    """The JSON of `/switch`."""
    switch: Callable[[object], SwitchCommandResult] | None = None
    """Executes the command in the body of POST /switch."""
    switch_logins: Callable[[object], Awaitable[SwitchCommandResult]] | None = None
    """Checks the users in the body of POST /switch/logins."""
    may_switch: Callable[[], bool] = lambda: True
    """Returns True if a cluster can be switched now."""

    def has(self, name: str) -> bool:
        """Return True if this source exists now."""
        return getattr(self, name) is not None and (not name.startswith("switch") or self.may_switch())

    def current_token(self) -> str | None:
        """Return the token as it is now."""
        return self.token.current() if isinstance(self.token, TokenFile) else self.token


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness of kproxy."""

    reasons: Sequence[str] = ()
    """Why kproxy is not ready, a line each; empty if it is."""
    missing: Sequence[str] = ()
    """Nodes that cannot be reached although kproxy is ready, a line each."""


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The outcome of a reload, in lines: the changes, or why there are none."""

    outcome: Literal["done", "refused", "busy"]
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class SwitchCommandResult:
    """The outcome of a command of a switch, and the reply to it, as JSON."""

    outcome: Literal["done", "refused", "nonsense"]
    body: bytes


Handler: TypeAlias = Callable[[AdminSources, Request], Awaitable[Reply]]
"""Makes the reply from the sources and the request."""


async def metrics(sources: AdminSources, request: Request) -> Reply:
    from prometheus_client.exposition import gzip_accepted  # few scrape

    from kproxy.proxy.metrics.exposition import exposition

    written, content_type = exposition(sources.metrics, request.headers.get("accept", ""))
    pieces = []
    for number, piece in enumerate(written, start=1):
        pieces.append(piece)
        if number % PIECES_AT_A_TIME == 0:
            await asyncio.sleep(0)
    body = "".join(pieces).encode()
    if not gzip_accepted(request.headers.get("accept-encoding", "")):
        return Reply(HTTPStatus.OK, body, content_type)
    # In a thread, for zlib lets go of the interpreter; level 1 already makes this text 15 times smaller.
    packed = await asyncio.to_thread(gzip.compress, body, 1)
    return Reply(HTTPStatus.OK, packed, content_type, {"Content-Encoding": "gzip"})


async def livez(sources: AdminSources, request: Request) -> Reply:
    return text_reply(HTTPStatus.OK, "ok")  # that it is answered at all says that the event loop turns


async def readyz(sources: AdminSources, request: Request) -> Reply:
    asked = request.query.get("requires")
    try:
        state = sources.readiness(asked[-1] if asked else None)
    except ValueError as error:
        return text_reply(HTTPStatus.BAD_REQUEST, f"requires: {error}")
    reasons, missing = state.reasons, state.missing
    if request.withheld:
        reasons = [f"not ready; kproxy gives the reasons {request.withheld}"] if reasons else []
        missing = []
    if reasons:
        return text_reply(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(reasons))
    return text_reply(HTTPStatus.OK, "\n".join(["ok", *missing]))


async def status(sources: AdminSources, request: Request) -> Reply:
    return Reply(HTTPStatus.OK, sources.status(), JSON)


async def sessions(sources: AdminSources, request: Request) -> Reply:
    assert sources.sessions is not None  # or there is no such route
    return Reply(HTTPStatus.OK, sources.sessions(), JSON)


async def live(sources: AdminSources, request: Request) -> Reply:
    assert sources.live is not None  # or there is no such route
    try:
        stream = sources.live()
    except TooManyReaders as error:
        return text_reply(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    return Reply(HTTPStatus.OK, b"", EVENTS, stream=stream)


async def tap(sources: AdminSources, request: Request) -> Reply:
    assert sources.tap is not None  # or there is no such route
    return _stream_reply(sources.tap, request)


async def frames(sources: AdminSources, request: Request) -> Reply:
    assert sources.frames is not None  # or there is no such route
    return _stream_reply(sources.frames, request)


def _stream_reply(begin: LineStream, request: Request) -> Reply:
    try:
        stream = begin(request.query)
    except ValueError as error:
        return text_reply(HTTPStatus.BAD_REQUEST, str(error))
    except TooManyReaders as error:
        return text_reply(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    return Reply(HTTPStatus.OK, b"", NDJSON, stream=stream)


async def observation(sources: AdminSources, request: Request) -> Reply:
    assert sources.observation is not None  # or there is no such route
    return Reply(HTTPStatus.OK, b"", NDJSON, stream=sources.observation())


async def observe(sources: AdminSources, request: Request) -> Reply:
    assert sources.observe is not None  # or there is no such route
    try:
        return Reply(HTTPStatus.OK, sources.observe(request.body), JSON)
    except ValueError as error:
        return text_reply(HTTPStatus.BAD_REQUEST, str(error))


async def home(sources: AdminSources, request: Request) -> Reply:
    text, headers = statuspage.document()
    return Reply(HTTPStatus.OK, text, headers["Content-Type"], headers)


async def quit(sources: AdminSources, request: Request) -> Reply:
    assert sources.quit is not None  # or there is no such route
    sources.quit()
    return text_reply(HTTPStatus.ACCEPTED, "stopping")


async def reload(sources: AdminSources, request: Request) -> Reply:
    assert sources.reload is not None  # or there is no such route
    if unknown := request.query.keys() - {ACCEPT_CLUSTER}:
        return text_reply(HTTPStatus.BAD_REQUEST, f"{one_line(min(unknown), 40)}: unknown; allowed: {ACCEPT_CLUSTER}")
    names = request.query.get(ACCEPT_CLUSTER, ())
    if len(names) > 1:
        return text_reply(HTTPStatus.BAD_REQUEST, f"{ACCEPT_CLUSTER}: is there twice; allowed: one cluster")
    answer = await sources.reload(names[0] if names else None)
    return text_reply(_RELOAD_STATUS[answer.outcome], "\n".join(answer.lines))


_RELOAD_STATUS = {"done": HTTPStatus.OK, "refused": HTTPStatus.BAD_REQUEST, "busy": HTTPStatus.CONFLICT}


async def switches(sources: AdminSources, request: Request) -> Reply:
    assert sources.switches is not None  # or there is no such route
    return Reply(HTTPStatus.OK, sources.switches(), JSON)


async def switch(sources: AdminSources, request: Request) -> Reply:
    assert sources.switch is not None  # or there is no such route
    answer = sources.switch(request.body)
    return Reply(_SWITCH_STATUS[answer.outcome], answer.body, JSON)


async def switch_logins(sources: AdminSources, request: Request) -> Reply:
    assert sources.switch_logins is not None  # or there is no such route
    answer = await sources.switch_logins(request.body)
    return Reply(_SWITCH_STATUS[answer.outcome], answer.body, JSON)


_SWITCH_STATUS = {"done": HTTPStatus.OK, "refused": HTTPStatus.CONFLICT, "nonsense": HTTPStatus.BAD_REQUEST}
