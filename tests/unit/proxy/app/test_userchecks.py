"""POST /switch/logins in a process: which requests it takes, and brokers that do not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kproxy.base.errors import UpstreamError
from kproxy.proxy.app import userchecks
from kproxy.proxy.app.userchecks import UserChecks
from kproxy.proxy.switching.userchecks import UserCheckRequest
from tests.unit.proxy.cluster.twoupstreams import Two

REQUEST = UserCheckRequest("default", "green", {"alice": (), "bob": ()}).to_json()


@pytest.fixture
async def two(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Two]:
    two = Two(monkeypatch)
    yield two
    two.gateway.stop_accepting()


def dials(two: Two, monkeypatch: pytest.MonkeyPatch, dial: Callable[[object], Awaitable[Any]]) -> UserChecks:
    monkeypatch.setattr(two.gateway.upstreams["green"].dialer, "dial", dial)
    return UserChecks(lambda: [two.gateway])


async def asked(checks: UserChecks, body: object = REQUEST) -> tuple[str, Any]:
    result = await checks.handle_request(body)
    return result.outcome, json.loads(result.body)


async def test_brokers_that_cannot_be_reached(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: object) -> None:
        raise UpstreamError("timeout", "no broker answers\x1b[31m")

    outcome, reply = await asked(dials(two, monkeypatch, refuse))
    failed = {"outcome": "failed", "login": "", "problem": "no broker answers\\x1b[31m", "rights": []}
    assert (outcome, reply) == ("done", {"problem": "", "users": {"alice": failed, "bob": failed}})


async def test_brokers_that_are_silent(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(userchecks, "_USER_SECONDS", 0.01)
    outcome, reply = await asked(dials(two, monkeypatch, wait))
    assert outcome == "done"
    assert {check["outcome"] for check in reply["users"].values()} == {"failed"}
    monkeypatch.setattr(userchecks, "_REQUEST_SECONDS", 0.0)
    _, reply = await asked(dials(two, monkeypatch, wait))
    assert {check["problem"] for check in reply["users"].values()} == {"not tried: others took too long"}


async def test_one_request_at_a_time_with_few_logins_at_once(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, most, are_eight, resume = 0, 0, asyncio.Event(), asyncio.Event()

    async def wait(_: object) -> None:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        if waiting == 8:
            are_eight.set()
        await resume.wait()
        waiting -= 1
        raise UpstreamError("other", "enough")

    checks = dials(two, monkeypatch, wait)
    users: dict[str, tuple[()]] = {f"user-{n}": () for n in range(50)}
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(asked(checks, UserCheckRequest("default", "green", users).to_json()))
        await are_eight.wait()
        outcome, reply = await asked(checks)
        assert (outcome, reply["problem"]) == ("refused", "another check of users is running; try again later")
        resume.set()
    assert len(first.result()[1]["users"]) == 50
    assert most == 8
    assert (await asked(checks))[0] == "done"


@pytest.mark.parametrize(
    "change", [{"upstream": "red"}, {"cluster": "other"}, {"users": {}}, {"upstream": "../green"}, {"more": 1}]
)
async def test_requests_that_are_none(two: Two, change: dict[str, object]) -> None:
    outcome, reply = await asked(UserChecks(lambda: [two.gateway]), {**REQUEST, **change})
    assert outcome == "nonsense"
    assert reply["problem"]
    assert reply["users"] == {}


async def test_the_reply_names_the_upstreams_that_there_are(two: Two) -> None:
    _, reply = await asked(UserChecks(lambda: [two.gateway]), {**REQUEST, "upstream": "red"})
    assert reply["problem"].endswith("those of this kproxy: default (blue, green)")


async def test_a_part_of_a_cluster_has_the_same_upstreams(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: object) -> None:
        raise UpstreamError("other", "no")

    outcome, _ = await asked(dials(two, monkeypatch, refuse), {**REQUEST, "cluster": "default/reports"})
    assert outcome == "done"
