"""PLAIN: what it takes, and the words of a broker for what it does not."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy.login.outcomes import ClientLoginFailed, Success
from kproxy.proxy.login.plain import PlainServer
from kproxy.users.verifier import ScramVerifier

VERIFIER = ScramVerifier.from_password("SCRAM-SHA-256", "pä$s")


async def is_of(verifier: ScramVerifier, password: str) -> bool:
    return verifier.is_of(password)


def evaluate(token: bytes, known: tuple[str, ...] = ("alice",)) -> Success:
    return asyncio.run(PlainServer(lambda user: (VERIFIER, user in known), is_of).evaluate(token))


@pytest.mark.parametrize("token", ["\0alice\0pä$s", "alice\0alice\0pä$s"])
def test_the_right_password(token: str) -> None:
    assert evaluate(token.encode()) == Success("alice")


@pytest.mark.parametrize(
    ("token", "outcome", "text"),
    [
        ("\0alice\0wrong", "refused", "Authentication failed: Invalid username or password"),
        ("\0bob\0pä$s", "refused", "Authentication failed: Invalid username or password"),
        ("bob\0alice\0pä$s", "malformed", "Authentication failed: Client requested an authorization id that is"),
        ("\0\0pä$s", "malformed", "Authentication failed: username not specified"),
        ("\0alice\0", "malformed", "Authentication failed: password not specified"),
        ("alice", "malformed", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("\0a\0b\0c\0d", "malformed", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("\0alice\0" + "x" * 10_000, "malformed", "Invalid SASL/PLAIN response"),
    ],
)
def test_what_is_refused(token: str, outcome: str, text: str) -> None:
    with pytest.raises(ClientLoginFailed) as failed:
        evaluate(token.encode())
    assert failed.value.outcome == outcome
    assert failed.value.text.startswith(text)
    assert "pä$s" not in str(failed.value)


def test_an_unknown_user_costs_the_same_work() -> None:
    checked = []

    async def check(verifier: ScramVerifier, password: str) -> bool:
        checked.append(password)
        return True

    with pytest.raises(ClientLoginFailed):
        asyncio.run(PlainServer(lambda user: (VERIFIER, False), check).evaluate(b"\0bob\0x"))
    assert checked == ["x"]


@given(st.binary(max_size=100))
def test_garbage_only_fails(token: bytes) -> None:
    with pytest.raises(ClientLoginFailed):
        evaluate(token, ())
