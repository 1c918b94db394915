"""The table of the admin endpoint: each route refuses what its line does not allow, whatever its page does."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from http import HTTPStatus

import pytest

from kproxy.proxy.admin import routes
from kproxy.proxy.admin.handlers import AdminSources, Readiness, ReloadResult, SwitchCommandResult
from kproxy.proxy.admin.requests import Reply, Request, text_reply
from kproxy.proxy.admin.routes import TABLE, AdminRoute, TokenRule
from kproxy.proxy.metrics import Metrics
from tests.unit.proxy.admin.endpoint import Running, no_body, own_address

TOKEN = "a-token-of-these-tests"
MOST = 100


async def echo(sources: AdminSources, request: Request) -> Reply:
    """What a page gets to see."""
    return text_reply(HTTPStatus.OK, json.dumps([request.method, request.body, sorted(request.headers), repr(request)]))


# Every kind of route; of some, kproxy has none yet.
OTHERS = (
    AdminRoute("/echo", echo, method="POST", changes=False, token=TokenRule.NEVER, most_body=MOST),
    AdminRoute("/write", echo, method="POST", token=TokenRule.ALWAYS, most_body=MOST),
    AdminRoute("/write", echo, token=TokenRule.ALWAYS),
    AdminRoute("/erase", echo, method="DELETE", token=TokenRule.ALWAYS),
    AdminRoute("/for-pages", echo, method="POST", refuses_browsers=False),
    AdminRoute("/question", echo, method="POST", changes=False),
    AdminRoute("/not-for-pages", echo, refuses_browsers=True),
    AdminRoute("/reset", echo, method="POST"),
    AdminRoute("/shutdown", echo, changes=True),
)
ALL = (*TABLE, *OTHERS)
BROWSERS = ({"Origin": "http://hostile.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "none"})


def name(route: AdminRoute) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture
def running(running: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    """With every route, and a token."""
    monkeypatch.setattr(routes, "TABLE", ALL)
    running.enable_quit()
    running.enable_tap()
    running.enable_reload()
    running.enable_switch()
    running.set(token=TOKEN)
    return running


def ask(
    running: Running, route: AdminRoute, method: str = "", body: bytes | None = None, **more: str
) -> tuple[int, bytes]:
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
        for_people = route.token_rule is TokenRule.READS and not route.excludes_browsers
        assert response.headers["WWW-Authenticate"] == ('Basic realm="kproxy"' if for_people else "Bearer")
    assert TOKEN.encode() not in answer
    return response.status, answer


@pytest.mark.parametrize("route", ALL, ids=name)
def test_who_asks_as_the_route_says_is_answered(running: Running, route: AdminRoute) -> None:
    assert ask(running, route)[0] in (200, 202)
    if route.method == "GET":
        assert ask(running, route, "HEAD")[0] == 200


@pytest.mark.parametrize("route", ALL, ids=name)
def test_other_methods_are_refused(running: Running, route: AdminRoute) -> None:
    there = {one.method for one in ALL if one.path == route.path}
    allowed = there | ({"HEAD"} if "GET" in there else set())
    for method in {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get", "FOO"} - allowed:
        response, _ = running.ask(route.path, method, Authorization=f"Bearer {TOKEN}")
        assert response.status == 405
        assert set(response.headers["Allow"].split(", ")) == allowed
    assert running.quits == []


@pytest.mark.parametrize("route", ALL, ids=name)
def test_foreign_hosts_are_refused_but_of_probes(running: Running, route: AdminRoute) -> None:
    assert route.any_host == (route.path in ("/livez", "/readyz"))
    assert ask(running, route, Host="evil.example")[0] == (200 if route.any_host else 421)
    assert running.quits == []


@pytest.mark.parametrize("headers", BROWSERS, ids=str)
@pytest.mark.parametrize("route", ALL, ids=name)
def test_browsers_are_refused_where_something_happens(
    running: Running, route: AdminRoute, headers: dict[str, str]
) -> None:
    known = {"/for-pages": False, "/not-for-pages": True, "/tap/frames": True, "/switch": True, "/observation": True}
    refuses = known.get(route.path, route.method != "GET")
    status, _ = ask(running, route, **headers)
    assert (status == 403) == refuses
    assert running.quits == []


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


WRONG = (
    None, "", TOKEN, "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
    basic(f"me:{TOKEN}"), basic(TOKEN), f"Bearer {TOKEN.upper()}",
    f"Bearer {TOKEN}, Bearer {TOKEN}", "Bearer \xe4\xf6\xfc", "Bearer " + "x" * 8000,
)  # fmt: skip


@pytest.mark.parametrize(
    "route", [route for route in ALL if route.token_rule in (TokenRule.IF_SET, TokenRule.ALWAYS)], ids=name
)
def test_without_the_token_nothing_happens(
    running: Running, route: AdminRoute, caplog: pytest.LogCaptureFixture
) -> None:
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


@pytest.mark.parametrize(
    "route", [route for route in ALL if route.token_rule in (TokenRule.IF_SET, TokenRule.ALWAYS)], ids=name
)
def test_where_kproxy_has_no_token(running: Running, route: AdminRoute) -> None:
    running.set(token=None)
    status, answer = ask(running, route)
    if route.token_rule is TokenRule.ALWAYS:
        assert (status, b"--admin-token-file" in answer) == (403, True)
    else:
        assert status in (200, 202)


WRITING = [route for route in ALL if route.is_change]


@pytest.mark.parametrize("route", WRITING, ids=name)
def test_nobody_changes_anything_who_may_not(
    everywhere: Running, monkeypatch: pytest.MonkeyPatch, route: AdminRoute
) -> None:
    """Every route that writes: no token, a wrong one, another origin, a foreign Host, another machine."""
    reached = []

    async def writes(sources: AdminSources, request: Request) -> Reply:
        reached.append(request.path)
        return text_reply(HTTPStatus.ACCEPTED, "done")

    monkeypatch.setattr(routes, "TABLE", tuple(replace(one, page=writes) for one in ALL))
    everywhere.enable_quit()
    everywhere.enable_reload()
    everywhere.enable_switch()
    everywhere.enable_tap()
    everywhere.set(token=TOKEN)
    body, kind = (b"{}", {"Content-Type": "application/json"}) if route.most_body else (None, {})

    def status(via: str = "", **headers: str) -> int:
        return everywhere.ask(route.path, route.method, body, via, **kind, **headers)[0].status

    right = {"Authorization": f"Bearer {TOKEN}"}
    outside = own_address()
    for via in ("", outside):
        assert status(via) == 401
        for wrong in WRONG:
            assert status(via, **({} if wrong is None else {"Authorization": wrong})) == 401
        for host in ("evil.example", "127.0.0.1.evil.example"):
            assert status(via, Host=host, **right) == 421
        if route.excludes_browsers:
            for of_browser in (*BROWSERS, {"Origin": "http://127.0.0.1"}, {"Sec-Fetch-Site": "cross-site"}):
                assert status(via, **of_browser, **right) == 403
    everywhere.set(token=None)
    if outside:
        assert status(outside) == 403
        assert status(outside, Host="localhost", X_Forwarded_For="127.0.0.1", **right) == 403
    assert reached == []
    assert status() == (403 if route.token_rule is TokenRule.ALWAYS else 202)
    everywhere.set(token=TOKEN)
    assert status(outside, **right) == 202
    assert set(reached) == {route.path}


@pytest.mark.parametrize("route", WRITING, ids=name)
@pytest.mark.parametrize("peer", ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1", "fd00::1", "0.0.0.0", "", "a.localhost"])
async def test_without_a_token_another_machine_changes_nothing(
    sources: AdminSources, monkeypatch: pytest.MonkeyPatch, route: AdminRoute, peer: str
) -> None:
    monkeypatch.setattr(routes, "TABLE", ALL)
    reply = await routes.handle(sources, Request(route.method, route.path, peer=peer), no_body)
    assert reply.status == 403
    assert b"start it with --admin-token-file FILE" in reply.body


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
async def test_without_a_token_its_own_machine_may(sources: AdminSources, peer: str) -> None:
    assert (await routes.handle(sources, Request("POST", "/quit", peer=peer), no_body)).status == 202


@pytest.fixture
def sources() -> AdminSources:
    return AdminSources(
        Metrics(), lambda: b"{}", lambda _: Readiness(["node 2"]), quit=lambda: None, reload=reload_nothing,
        frames=lambda query: no_frames(), switches=no_switches, switch=lambda body: SwitchCommandResult("done", b"{}"),
        switch_logins=no_logins,
        observation=no_frames, observe=lambda body: b"{}",
    )  # fmt: skip


async def no_logins(body: object) -> SwitchCommandResult:
    return SwitchCommandResult("done", b"{}")


def no_switches() -> bytes:
    return b"{}"


async def no_frames() -> AsyncGenerator[bytes, None]:
    yield b"\n"


async def reload_nothing(accept: str | None) -> ReloadResult:
    return ReloadResult("done", ["nothing has changed"])


def test_reads_are_open_unless_they_are_closed(running: Running) -> None:
    running.status["version"] = "1"
    running.not_ready.append("node kafka-2.internal is missing")
    open_to_all = {"/livez": 200, "/readyz": 503}
    reads = [route for route in ALL if route.token_rule in (TokenRule.NEVER, TokenRule.READS)]
    assert {route.path for route in reads if route.token_rule is TokenRule.NEVER} == {*open_to_all, "/echo"}
    for route in reads:
        assert ask(running, route, Authorization="")[0] == open_to_all.get(route.path, 200)
    running.set(require_token_for_reads=True)
    for route in reads:
        status, answer = ask(running, route, Authorization="")
        assert status == (401 if route.token_rule is TokenRule.READS else open_to_all.get(route.path, 200))
        assert b"kafka-2" not in answer
        assert ask(running, route)[0] == open_to_all.get(route.path, 200)


def test_why_it_is_not_ready_is_told_with_the_token(running: Running) -> None:
    running.set(require_token_for_reads=True)
    running.not_ready.append("node kafka-2.internal is missing")
    answers = [running.ask("/readyz", Authorization=shown) for shown in ("", "Bearer no", f"Bearer {TOKEN}")]
    option = b"--admin-require-token-for-reads"
    withheld = b"not ready; kproxy gives the reasons only to requests with its token (" + option + b")\n"
    assert [body for _, body in answers] == [withheld, withheld, b"node kafka-2.internal is missing\n"]
    running.not_ready.clear()
    assert running.ask("/readyz")[1] == b"ok\n"
    assert running.ask("/readyz", Authorization=f"Bearer {TOKEN}")[1] == b"ok\nnode 2 is missing\n"


def test_a_browser_shows_the_token_as_a_password(running: Running) -> None:
    running.set(require_token_for_reads=True)
    response, answer = running.ask("/status", Sec_Fetch_Site="none")
    assert (response.status, response.headers["WWW-Authenticate"]) == (401, 'Basic realm="kproxy"')
    assert b"in a browser, give the token as the password of any user" in answer
    for right in (basic(f":{TOKEN}"), basic(f"me:{TOKEN}"), basic(f"me:{TOKEN}").replace("Basic", "basic ")):
        assert running.ask("/status", Sec_Fetch_Site="same-origin", Authorization=right)[0].status == 200
    for wrong in (basic(TOKEN), basic(f"{TOKEN}:"), basic(f"me:{TOKEN} "), "Basic", "Basic !", basic("m\xe4:\xf6")):
        assert running.ask("/status", Authorization=wrong)[0].status == 401


def test_reads_without_any_token_are_not_answered(running: Running) -> None:
    running.set(require_token_for_reads=True, token=None)
    assert running.ask("/status")[0].status == 403
    assert running.ask("/livez")[0].status == 200


def test_no_route_changes_something_without_the_token() -> None:
    for token in (TokenRule.NEVER, TokenRule.READS):
        with pytest.raises(ValueError, match=r"^/new changes something without the token$"):
            AdminRoute("/new", echo, method="POST", token=token)


@pytest.mark.parametrize("route", ALL, ids=name)
def test_bodies_over_the_limit_are_refused(running: Running, route: AdminRoute) -> None:
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
    assert ask(running, AdminRoute("/nothing", echo), Host="evil.example")[0] == 421
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
    async def fails(sources: AdminSources, request: Request) -> Reply:
        raise ZeroDivisionError

    route = AdminRoute("/fails", fails, method="POST", token=TokenRule.ALWAYS, most_body=MOST)
    monkeypatch.setattr(routes, "TABLE", (*ALL, route))
    assert ask(running, route, body=b'"secret"') == (500, b"internal error; see the log of kproxy\n")
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]
    assert "secret" not in caplog.text


def test_no_route_takes_more_than_is_parsed_in_a_moment() -> None:
    with pytest.raises(ValueError, match="/large allows a body larger than 65536 bytes"):
        AdminRoute("/large", echo, method="POST", most_body=1_000_000)
