"""The check that users can be switched: the body of POST /switch/logins and its reply, as JSON. Pure.

The driver asks each kproxy to log in to an upstream as some users, and to find out whether they have some rights there:

    {"cluster": "default", "upstream": "green", "users": {"alice": [["Write", "Topic", "orders"]]}}
    {"problem": "", "users": {"alice": {"outcome": "own", "login": "sa-4711", "problem": "", "rights": [true]}}}

The rights in a reply are in the order of the request: true, false, or a text that says why it is not known. They are
empty if kproxy has not logged in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kproxy.base.printable import one_line
from kproxy.protocol.wire.acls import OPERATIONS, RESOURCES, Right

MOST_USERS = 50
"""The most users of one request."""
MOST_RIGHTS = 1000
"""The most rights of one request."""
_LONGEST_NAME = 255
_LONGEST_TEXT = 500


class LoginOutcome(StrEnum):
    """The result of the login for a user."""

    OWN = "own"
    """kproxy has logged in with the login of this user."""
    SHARED = "shared"
    """kproxy has logged in with its own login, which all users share."""
    NO_LOGIN_NEEDED = "no-login-needed"
    """The brokers answer without a login."""
    PASSED_THROUGH = "passed-through"
    """kproxy cannot log in: logins of clients pass through to this upstream."""
    MISSING = "missing"
    """This user has no login for the upstream."""
    REFUSED = "refused"
    """The brokers have refused the login."""
    FAILED = "failed"
    """kproxy has not found out."""


@dataclass(frozen=True, slots=True)
class UserCheckRequest:
    """A request to check users. `cluster` and `upstream` are the kproxy's names."""

    cluster: str
    upstream: str
    users: Mapping[str, tuple[Right, ...]]

    def to_json(self) -> dict[str, Any]:
        """Return the body of the POST."""
        users = {
            user: [[right.operation, right.resource, right.name] for right in rights]
            for user, rights in self.users.items()
        }
        return {"cluster": self.cluster, "upstream": self.upstream, "users": users}


@dataclass(frozen=True, slots=True)
class UserCheck:
    """The result for one user."""

    outcome: LoginOutcome
    login: str = ""
    """The user name of the login; "" if it has none, or a token."""
    problem: str = ""
    rights: tuple[bool | str, ...] = ()
    """For each right of the request whether the user has it; a text says why that is not known."""

    def to_json(self) -> dict[str, Any]:
        """Return the user's object in the reply."""
        return {
            "outcome": self.outcome.value,
            "login": self.login,
            "problem": self.problem,
            "rights": list(self.rights),
        }


def parse_request(body: object) -> UserCheckRequest:
    """Read the body of a request. Raises ValueError with the mistake, in one line."""
    if not isinstance(body, dict) or set(body) != {"cluster", "upstream", "users"}:
        raise ValueError("the body is not a JSON object with 'cluster', 'upstream' and 'users'")
    users = body["users"]
    if not isinstance(users, dict) or not 1 <= len(users) <= MOST_USERS:
        raise ValueError(f"'users' is not an object with 1 to {MOST_USERS} users")
    request = UserCheckRequest(
        _name(body["cluster"], "cluster"),
        _name(body["upstream"], "upstream"),
        {_name(user, "users"): tuple(_rights(rights)) for user, rights in users.items()},
    )
    if sum(map(len, request.users.values())) > MOST_RIGHTS:
        raise ValueError(f"'users' has more than {MOST_RIGHTS} rights")
    return request


def parse_reply(value: object, request: UserCheckRequest) -> dict[str, UserCheck]:
    """Read a reply to `request`. Raises ValueError: with kproxy's reason if it refuses, else without text."""
    if not isinstance(value, dict) or not isinstance(value.get("problem"), str):
        raise ValueError
    if value["problem"]:
        raise ValueError(one_line(value["problem"], _LONGEST_TEXT))
    users = value.get("users")
    if not isinstance(users, dict) or users.keys() != request.users.keys():
        raise ValueError
    return {user: _user_check(users[user], rights) for user, rights in request.users.items()}


def _user_check(value: object, rights: Sequence[Right]) -> UserCheck:
    if not isinstance(value, dict) or value.get("outcome") not in list(LoginOutcome):
        raise ValueError
    results = value.get("rights")
    if not isinstance(results, list) or not all(isinstance(result, bool | str) for result in results):
        raise ValueError
    if results and len(results) != len(rights):
        raise ValueError
    if not isinstance(value.get("login"), str) or not isinstance(value.get("problem"), str):
        raise ValueError
    return UserCheck(
        LoginOutcome(value["outcome"]),
        one_line(value["login"], _LONGEST_NAME),
        one_line(value["problem"], _LONGEST_TEXT),
        tuple(result if isinstance(result, bool) else one_line(result, _LONGEST_TEXT) for result in results),
    )


def _rights(value: object) -> Iterator[Right]:
    if not isinstance(value, list):
        raise ValueError("the rights of a user are not a list")
    for right in value:
        if not isinstance(right, list) or len(right) != 3:
            raise ValueError("a right is not a list: operation, resource, name")
        operation, resource, name = right
        if operation not in OPERATIONS.values() or resource not in RESOURCES.values():
            raise ValueError("a right has an unknown operation or resource")
        yield Right(operation, resource, _name(name, "users"))


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_NAME:
        raise ValueError(f"'{field}' has a name that is no text of 1 to {_LONGEST_NAME} characters")
    return value
