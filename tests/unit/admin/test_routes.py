"""The table of the admin endpoint: each route refuses what its line does not allow, whatever its page does."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus

import pytest

from kproxy.admin import routes
from kproxy.admin.pages import AdminPages
from kproxy.admin.requests import Reply, Request, line
from kproxy.admin.routes import TABLE, Route, Token
from tests.unit.admin.endpoint import Running

TOKEN = "a-token-of-these-tests"
MOST = 100


async def echo(sources: AdminPages, request: Request) -> Reply:
    """What a page gets to see."""
    return line(HTTPStatus.OK, json.dumps([request.method, request.body, sorted(request.headers), repr(request)]))


# Every kind of route; of some, kproxy has none yet.
OTHERS = (
    Route("/echo", echo, method="POST", most_body=MOST),
    Route("/write", echo, method="POST", token=Token.ALWAYS, most_body=MOST),
    Route("/write", echo, token=Token.ALWAYS),
    Route("/erase", echo, method="DELETE", token=Token.ALWAYS),
    Route("/for-pages", echo, method="POST", refuses_browsers=False),
    Route("/not-for-pages", echo, refuses_browsers=True),
)
ALL = (*TABLE, *OTHERS)
BROWSERS = ({"Origin": "http://hostile.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "none"})


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture
def running(running: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    """With every route, and a token."""
    monkeypatch.setattr(routes, "TABLE", ALL)
    running.enable_quit()
    running.enable_reload()
    running.set(token=TOKEN)
    return running


def ask(running: Running, route: Route, method: str = "", body: bytes | None = None, **more: str) -> tuple[int, bytes]:
    """Ask as the route wants it, but for what is given."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    if route.most_body:
        headers["Content-Type"] = "application/json"
        body = b"{}" if body is None else body
    headers |= {key.replace("_", "-"): value for key, value in more.items()}
    response, answer = running.ask(route.path, method or route.method, body, **headers)
    assert "Access-Control-Allow-Origin" not in response.headers
    if response.status >= 400:
        assert (response.headers["Content-Type"], answer.count(b"\n")) == ("text/plain; charset=utf-8", 1)
    if response.status == HTTPStatus.METHOD_NOT_ALLOWED:
        assert response.headers["Allow"]
    if response.status == HTTPStatus.UNAUTHORIZED:
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert TOKEN.encode() not in answer
    return response.status, answer


@pytest.mark.parametrize("route", ALL, ids=name)
def test_who_asks_as_the_route_says_is_answered(running: Running, route: Route) -> None:
    assert ask(running, route)[0] in (200, 202)
    if route.method == "GET":
        assert ask(running, route, "HEAD")[0] == 200


@pytest.mark.parametrize("route", ALL, ids=name)
def test_other_methods_are_refused(running: Running, route: Route) -> None:
    there = {one.method for one in ALL if one.path == route.path}
    allowed = there | ({"HEAD"} if "GET" in there else set())
    for method in {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get", "FOO"} - allowed:
        response, _ = running.ask(route.path, method, Authorization=f"Bearer {TOKEN}")
        assert response.status == 405
        assert set(response.headers["Allow"].split(", ")) == allowed
    assert running.quits == []


@pytest.mark.parametrize("route", ALL, ids=name)
def test_foreign_hosts_are_refused_but_of_probes(running: Running, route: Route) -> None:
    assert route.any_host == (route.path in ("/livez", "/readyz"))
    assert ask(running, route, Host="evil.example")[0] == (200 if route.any_host else 421)
    assert running.quits == []


@pytest.mark.parametrize("headers", BROWSERS, ids=str)
@pytest.mark.parametrize("route", ALL, ids=name)
def test_browsers_are_refused_where_something_happens(running: Running, route: Route, headers: dict[str, str]) -> None:
    refuses = {"/for-pages": False, "/not-for-pages": True}.get(route.path, route.method != "GET")
    status, _ = ask(running, route, **headers)
    assert (status == 403) == refuses
    assert running.quits == []


WRONG = (
    None, "", TOKEN, "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN}, Bearer {TOKEN}", "Bearer \xe4\xf6\xfc", "Bearer " + "x" * 8000,
)  # fmt: skip


@pytest.mark.parametrize("route", [route for route in ALL if route.token is not Token.NEVER], ids=name)
def test_without_the_token_nothing_happens(running: Running, route: Route, caplog: pytest.LogCaptureFixture) -> None:
    body, headers = (b"{}", {"Content-Type": "application/json"}) if route.most_body else (None, {})
    for wrong in WRONG:
        shown = {} if wrong is None else {"Authorization": wrong}
        response, answer = running.ask(route.path, route.method, body, **headers, **shown)
        assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer"), wrong
        assert b"--admin-token-file" in answer
        assert answer.count(b"\n") == 1
    assert running.quits == []
    assert ask(running, route, Authorization=f"bearer  {TOKEN} ")[0] in (200, 202)
    assert TOKEN not in caplog.text + repr(running.admin.pages)


@pytest.mark.parametrize("route", [route for route in ALL if route.token is not Token.NEVER], ids=name)
def test_where_kproxy_has_no_token(running: Running, route: Route) -> None:
    running.set(token=None)
    status, answer = ask(running, route)
    if route.token is Token.ALWAYS:
        assert (status, b"--admin-token-file" in answer) == (403, True)
    else:
        assert (route.path, status) in [("/quit", 202), ("/reload", 200)]


@pytest.mark.parametrize("route", ALL, ids=name)
def test_bodies_over_the_limit_are_refused(running: Running, route: Route) -> None:
    for size in (route.most_body + 1, 1_000_000):
        status, answer = ask(running, route, body=b" " * size)
        assert status == 413
        assert (f"larger than {route.most_body} bytes".encode() in answer) == bool(route.most_body)
    assert running.quits == []
    if route.most_body:
        text = json.dumps("x" * (route.most_body - 2)).encode()
        assert (len(text), ask(running, route, body=text)[0]) == (route.most_body, 200)


def test_what_is_refused_first_tells_no_more_than_it_must(running: Running) -> None:
    """A foreign host learns nothing of the path; who has no token learns nothing of bodies."""
    assert ask(running, Route("/nothing", echo), Host="evil.example")[0] == 421
    response, _ = running.ask("/write", "POST", b"not JSON", Content_Length="1000")
    assert response.status == 401


def test_a_page_is_not_given_the_token(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    body = json.dumps({"a": ["secret", 1, None]}).encode()
    status, answer = ask(running, OTHERS[1], body=body)
    method, value, headers, text = json.loads(answer)
    assert (status, method, value) == (200, "POST", {"a": ["secret", 1, None]})
    assert "authorization" not in headers
    assert "secret" not in text + caplog.text


def test_a_fault_in_a_page_that_has_a_body(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(sources: AdminPages, request: Request) -> Reply:
        raise ZeroDivisionError

    route = Route("/fails", fails, method="POST", token=Token.ALWAYS, most_body=MOST)
    monkeypatch.setattr(routes, "TABLE", (*ALL, route))
    assert ask(running, route, body=b'"secret"') == (500, b"internal error; see the log of kproxy\n")
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]
    assert "secret" not in caplog.text


def test_no_route_takes_more_than_is_parsed_in_a_moment() -> None:
    with pytest.raises(ValueError, match="/large allows a body larger than 65536 bytes"):
        Route("/large", echo, method="POST", most_body=1_000_000)
