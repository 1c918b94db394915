"""The body of POST /switch/logins and its reply: what is read, and what neither side takes from the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kproxy.protocol.wire.acls import Right
from kproxy.proxy.switching.userchecks import (
    LoginOutcome,
    UserCheck,
    UserCheckRequest,
    parse_reply,
    parse_request,
)

WRITE = Right("Write", "Topic", "orders")
REQUEST = UserCheckRequest("default", "green", {"alice": (WRITE, Right("Read", "Group", "g")), "bob": ()})
CHECKS = {
    "alice": UserCheck(LoginOutcome.OWN, "sa-1", rights=(True, "no answer")),
    "bob": UserCheck(LoginOutcome.MISSING, problem="user bob has no login"),
}


def reply(**checks: UserCheck) -> dict[str, Any]:
    users = {user: check.to_json() for user, check in (CHECKS | checks).items()}
    return {"problem": "", "users": json.loads(json.dumps(users))}


def test_there_and_back() -> None:
    assert parse_request(json.loads(json.dumps(REQUEST.to_json()))) == REQUEST
    assert parse_reply(reply(), REQUEST) == CHECKS


BODY = REQUEST.to_json()


@pytest.mark.parametrize(
    ("body", "mistake"),
    [
        (None, "the body is not a JSON object with 'cluster', 'upstream' and 'users'"),
        ([], "the body is not a JSON object"),
        ({**BODY, "more": 1}, "the body is not a JSON object"),
        ({**BODY, "cluster": 1}, "'cluster' has a name that is no text of 1 to 255 characters"),
        ({**BODY, "upstream": ""}, "'upstream' has a name that is no text"),
        ({**BODY, "users": []}, "'users' is not an object with 1 to 50 users"),
        ({**BODY, "users": {}}, "'users' is not an object with 1 to 50 users"),
        ({**BODY, "users": {str(n): [] for n in range(51)}}, "'users' is not an object with 1 to 50 users"),
        ({**BODY, "users": {"": []}}, "'users' has a name"),
        ({**BODY, "users": {"a": None}}, "the rights of a user are not a list"),
        ({**BODY, "users": {"a": [["Write", "Topic"]]}}, "a right is not a list: operation, resource, name"),
        ({**BODY, "users": {"a": [[["Write"], "Topic", "t"]]}}, "a right has an unknown operation or resource"),
        ({**BODY, "users": {"a": [["Write", "Topics", "t"]]}}, "a right has an unknown operation or resource"),
        ({**BODY, "users": {"a": [["Write", "Topic", "t" * 256]]}}, "'users' has a name"),
        ({**BODY, "users": {n: [["Write", "Topic", "t"]] * 501 for n in "ab"}}, "'users' has more than 1000 rights"),
    ],
)
def test_requests_that_are_none(body: object, mistake: str) -> None:
    with pytest.raises(ValueError, match="^" + mistake):
        parse_request(body)


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "fine"},
        {"outcome": None},
        {"outcome": []},
        {"rights": None},
        {"rights": [True]},
        {"rights": [True, 1]},
        {"rights": [True, None]},
        {"login": None},
        {"problem": 1},
    ],
)
def test_replies_that_are_none(change: dict[str, object]) -> None:
    value = reply()
    value["users"]["alice"] |= change
    with pytest.raises(ValueError, match=r"^$"):
        parse_reply(value, REQUEST)


@pytest.mark.parametrize("value", [None, [], {}, {"problem": None}, {"problem": ""}, {"problem": "", "users": {}}])
def test_other_replies_that_are_none(value: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        parse_reply(value, REQUEST)


def test_a_refusal_and_text_from_outside() -> None:
    with pytest.raises(ValueError, match=r"^busy\\x1b$"):
        parse_reply({"problem": "busy\x1b", "users": {}}, REQUEST)
    check = UserCheck(LoginOutcome.OWN, "a\nb", "\x1b[31m", (True, "x\r" * 1000))
    read = parse_reply(reply(alice=check), REQUEST)["alice"]
    assert read.login.isprintable()
    assert read.problem.isprintable()
    assert str(read.rights[1]).isprintable()
    assert len(str(read.rights[1])) < 600
