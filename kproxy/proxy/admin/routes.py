"""The table of paths, and the one function that enforces its access rules.

A simple path is one function in `handlers` and one line here. All that a line does not allow is refused: other methods,
foreign hosts, bodies, and from browsers all methods but GET. Requests that change something need the token, if there is
one; without one, only this machine may send them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from typing import NoReturn, TypeAlias

from kproxy.base.addressclass import is_this_machine
from kproxy.base.messages.start import HOST_NOT_ALLOWED
from kproxy.proxy.admin import bearer, handlers
from kproxy.proxy.admin.handlers import AdminSources, Handler
from kproxy.proxy.admin.requests import JSON, Reply, Request, RequestRefused, is_accepted, text_reply

logger = logging.getLogger(__name__)

MOST_BODY = 64 * 1024
"""No route may take a larger body: it is parsed in one go on the thread of the data plane, which takes a few
milliseconds."""

_MOST_COMMAND = 40 * 1024
_MOST_OBSERVE = 1024

ReadBody: TypeAlias = Callable[[int], Awaitable[bytes]]
"""Returns the whole body of the request; raises RequestRefused if it is larger than the argument, in bytes."""


class TokenRule(Enum):
    """When a request must have the token. NEVER and READS are for pages that change nothing."""

    NEVER = "never"
    READS = "with --admin-require-token-for-reads"
    IF_SET = "if kproxy has one"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class AdminRoute:
    """One path and one method (GET includes HEAD)."""

    path: str
    page: Handler
    method: str = "GET"
    changes: bool | None = None
    """The request changes something; None: unless the method is GET."""
    token: TokenRule | None = None
    """None: READS, or IF_SET if the request changes something."""
    refuses_browsers: bool | None = None
    """None: unless the method is GET."""
    any_host: bool = False
    """Accept any Host, for probes, which choose it."""
    most_body: int = 0
    """The most bytes of a request's JSON; 0: it has no body."""
    needs: str = ""
    """The source without which the route does not exist."""

    def __post_init__(self) -> None:
        if self.most_body > MOST_BODY:
            raise ValueError(f"{self.path} allows a body larger than {MOST_BODY} bytes")
        if self.is_change and self.token_rule in (TokenRule.NEVER, TokenRule.READS):
            raise ValueError(f"{self.path} changes something without the token")

    def is_enabled(self, sources: AdminSources) -> bool:
        """Return True if the route exists."""
        return not self.needs or sources.has(self.needs)

    @property
    def is_change(self) -> bool:
        return self.method != "GET" if self.changes is None else self.changes

    @property
    def token_rule(self) -> TokenRule:
        if self.token is not None:
            return self.token
        return TokenRule.IF_SET if self.is_change else TokenRule.READS

    @property
    def excludes_browsers(self) -> bool:
        return self.method != "GET" if self.refuses_browsers is None else self.refuses_browsers


TABLE: tuple[AdminRoute, ...] = (
    AdminRoute("/", handlers.home),
    AdminRoute("/metrics", handlers.metrics),
    AdminRoute("/livez", handlers.livez, token=TokenRule.NEVER, any_host=True),
    # Whether kproxy is ready is no secret, only why it is not: `_withheld` decides who may read that.
    AdminRoute("/readyz", handlers.readyz, token=TokenRule.NEVER, any_host=True),
    AdminRoute("/status", handlers.status),
    AdminRoute("/sessions", handlers.sessions, needs="sessions"),
    AdminRoute("/live", handlers.live, needs="live"),
    AdminRoute("/tap", handlers.tap, needs="tap"),
    # It changes nothing. But it shows the names of topics, groups and users, which is more than numbers.
    AdminRoute("/tap/frames", handlers.frames, changes=True, refuses_browsers=True, needs="frames"),
    # It names topics, groups and users, like /tap/frames.
    AdminRoute("/observation", handlers.observation, changes=True, refuses_browsers=True, needs="observation"),
    AdminRoute("/observation", handlers.observe, "POST", most_body=_MOST_OBSERVE, needs="observe"),
    AdminRoute("/quit", handlers.quit, "POST", needs="quit"),
    AdminRoute("/reload", handlers.reload, "POST", needs="reload"),
    # It names clients. And an operator who can read it without the token would think that the switch needs none either.
    AdminRoute("/switch", handlers.switches, token=TokenRule.ALWAYS, refuses_browsers=True, needs="switches"),
    AdminRoute("/switch", handlers.switch, "POST", token=TokenRule.ALWAYS, most_body=_MOST_COMMAND, needs="switch"),
    # It changes nothing, but kproxy logs in to brokers for it.
    AdminRoute(
        "/switch/logins",
        handlers.switch_logins,
        "POST",
        token=TokenRule.ALWAYS,
        most_body=_MOST_COMMAND,
        needs="switch_logins",
    ),
)


async def handle(sources: AdminSources, request: Request, read_body: ReadBody) -> Reply:
    """Return the reply to a request. A fault in a handler is logged and answered with 500.

    `read_body` is called at most once, if the route takes a body and the head of the request is accepted. If it is not
    called, the rest of the request is unread.
    """
    try:
        route = _admit(sources, request)
        body = await _body(route, request, read_body) if route.most_body else None
    except RequestRefused as refused:
        return refused.reply
    # A page needs no token: it cannot show what it is not given.
    headers = {name: value for name, value in request.headers.items() if name != "authorization"}
    try:
        withheld = _withheld(sources, request)
        return await route.page(sources, replace(request, headers=headers, body=body, withheld=withheld))
    except Exception:
        logger.exception("the admin page %s failed", route.path)
        return text_reply(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log of kproxy")


def _admit(sources: AdminSources, request: Request) -> AdminRoute:
    """Return the route of a request whose head is accepted. Raises RequestRefused."""
    routes = {route.method: route for route in TABLE if route.path == request.path and route.is_enabled(sources)}
    # Check this before the path: a page that rebinds its name must not learn which paths exist.
    if not (routes and all(route.any_host for route in routes.values())) and not is_accepted(
        request.host, sources.hosts
    ):
        _refuse(HTTPStatus.MISDIRECTED_REQUEST, HOST_NOT_ALLOWED())
    route = routes.get("GET" if request.method == "HEAD" else request.method)
    if request.has_body and (route is None or not route.most_body):
        _refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request for this page must not have a body")
    if not routes:
        paths = " ".join(route.path for route in TABLE if route.method == "GET" and route.is_enabled(sources))
        _refuse(HTTPStatus.NOT_FOUND, f"no such page; the pages are {paths}")
    if route is None:
        allowed = ", ".join([*routes, "HEAD"] if "GET" in routes else routes)
        _refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"this page allows {allowed}", {"Allow": allowed})
    # A page of any site can make a browser send a request, and cannot keep the browser from adding one of these: Origin
    # to each POST (Fetch, "append a request Origin header"), Sec-Fetch-Site to each request (Fetch Metadata).
    if route.excludes_browsers and ("origin" in request.headers or "sec-fetch-site" in request.headers):
        _refuse(HTTPStatus.FORBIDDEN, "kproxy refuses this request from a browser, because any web page could send it")
    _check_token(route, sources, request)
    return route


def _check_token(route: AdminRoute, sources: AdminSources, request: Request) -> None:
    needs = route.token_rule
    if needs is TokenRule.NEVER or (needs is TokenRule.READS and not sources.require_token_for_reads):
        return
    token = sources.current_token()
    if token is None:
        if needs is not TokenRule.IF_SET:
            text = "this request needs a token, and kproxy has none: start it with --admin-token-file FILE"
            _refuse(HTTPStatus.FORBIDDEN, text)
        if route.is_change and not is_this_machine(request.peer):
            text = "without a token, kproxy takes this request only from its own machine (127.0.0.1, ::1)"
            _refuse(HTTPStatus.FORBIDDEN, f"{text}: start it with --admin-token-file FILE")
        return
    # A browser sends a password again by itself, also where another site's page makes it ask. That page cannot read the
    # answer, but it could change something.
    basic = needs is TokenRule.READS and not route.excludes_browsers
    if not bearer.has_token(request.headers.get("authorization", ""), token, basic=basic):
        text = "this request needs the token of kproxy (--admin-token-file): send 'Authorization: Bearer TOKEN'"
        if basic:
            text, scheme = f"{text}; in a browser, give the token as the password of any user", 'Basic realm="kproxy"'
        _refuse(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": scheme if basic else "Bearer"})


def _withheld(sources: AdminSources, request: Request) -> str:
    """Return who alone may read the names of brokers on a page that needs no token; "": this request may."""
    if not is_accepted(request.host, sources.hosts):
        return "only to a Host that --admin-host allows"
    if not sources.require_token_for_reads:
        return ""
    token, sent = sources.current_token(), request.headers.get("authorization", "")
    if token is not None and bearer.has_token(sent, token, basic=True):
        return ""
    return "only to requests with its token (--admin-require-token-for-reads)"


async def _body(route: AdminRoute, request: Request, read_body: ReadBody) -> object:
    """Return the JSON value of a request. Raises RequestRefused."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON or request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        text = f"the body must be JSON: send it with 'Content-Type: {JSON}', not packed"
        _refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
    if request.content_length > route.most_body:
        raise RequestRefused(too_large_reply(route.most_body))
    return _parsed(await read_body(route.most_body))


def too_large_reply(most: int) -> Reply:
    return text_reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {most} bytes; send less")


def _parsed(body: bytes) -> object:
    try:
        value: object = json.loads(body.decode(), parse_constant=_no_json)
        if b"\\u" in body:  # an escape of half a character (\ud800) makes text that cannot be encoded
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # its own text may quote the body
        _refuse(HTTPStatus.BAD_REQUEST, "the body is not JSON in UTF-8" if body else "the body is empty; send JSON")
    return value


def _no_json(word: str) -> NoReturn:
    raise ValueError("NaN and Infinity are Python's own (RFC 8259 §6)")


def _refuse(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> NoReturn:
    raise RequestRefused(text_reply(status, text, headers))
