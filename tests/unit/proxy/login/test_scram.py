"""SCRAM against a client of another library, and against what no client sends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient

from kproxy.proxy.login.outcomes import Challenge, ClientLoginFailed, Success
from kproxy.proxy.login.scram import ScramServer
from kproxy.users.verifier import HASHES, ScramVerifier

PASSWORD = 'p"w,=;$'
VERIFIERS = {name: ScramVerifier.from_password(name, PASSWORD) for name in HASHES}


def server(name: str, *, known: bool = True) -> ScramServer:
    return ScramServer(name, lambda user: (VERIFIERS[name], known))


def evaluate(server: ScramServer, token: bytes | str) -> Challenge | Success:
    return asyncio.run(server.evaluate(token.encode() if isinstance(token, str) else token))


def client(name: str, user: str, password: str) -> ScramClient:
    made = ScramClient([name], "-", "-")
    made.username.username, made.password.password = user, password
    return made


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "Ünï=2C", "a" * 255])
def test_a_client_logs_in_and_accepts_the_proof(name: str, user: str) -> None:
    seen = []
    here = ScramServer(name, lambda user: (seen.append(user), (VERIFIERS[name], True))[1])  # type: ignore[func-returns-value]
    there = client(name, user, PASSWORD)
    there.set_server_first(evaluate(here, there.get_client_first()).token.decode())
    success = evaluate(here, there.get_client_final())
    assert isinstance(success, Success)
    there.set_server_final(success.token.decode())
    assert (success.user, seen) == (user, [user])


@pytest.mark.parametrize(("password", "known"), [("guess", True), (PASSWORD, False), ("guess", False)])
def test_a_wrong_password_and_an_unknown_user_get_the_same_answers(password: str, known: bool) -> None:
    here, there = server("SCRAM-SHA-512", known=known), client("SCRAM-SHA-512", "bob", password)
    challenge = evaluate(here, there.get_client_first()).token.decode()
    assert re.fullmatch(r"r=\S+,s=[\w+/=]+,i=4096", challenge)
    there.set_server_first(challenge)
    with pytest.raises(ClientLoginFailed) as failed:
        evaluate(here, there.get_client_final())
    assert failed.value.outcome == "refused"
    assert failed.value.text.endswith("due to invalid credentials with SASL mechanism SCRAM-SHA-512")
    assert password not in str(failed.value)


def test_a_proof_is_of_no_use_again() -> None:
    here, there = server("SCRAM-SHA-256"), client("SCRAM-SHA-256", "alice", PASSWORD)
    first = there.get_client_first()
    there.set_server_first(evaluate(here, first).token.decode())
    final = there.get_client_final()
    assert isinstance(evaluate(here, final), Success)
    again = server("SCRAM-SHA-256")
    evaluate(again, first)
    with pytest.raises(ClientLoginFailed):
        evaluate(again, final)


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("", "malformed"),
        ("p=tls-unique,,n=a,r=x", "channel-binding"),
        ("y,,n=a,r=x", "channel-binding"),
        ("n,a=root,n=alice,r=x", "malformed"),
        ("n,,n=id,r=x,tokenauth=true", "delegation-token"),
        ("n,,n=a=b,r=x", "malformed"),
        ("n,,n=,r=x", "malformed"),
        ("n,,n=a\0,r=x", "malformed"),
        ("n,,n=a,r=" + "x" * 5000, "malformed"),
        (b"n,,n=\xff,r=x", "malformed"),
    ],
)
def test_wrong_first_messages(message: bytes | str, outcome: str) -> None:
    with pytest.raises(ClientLoginFailed) as failed:
        evaluate(server("SCRAM-SHA-256"), message)
    assert failed.value.outcome == outcome


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("biws", "eSws"), lambda text: text[:-8] + "AAAA", str.upper]
)
def test_wrong_last_messages(change: object) -> None:
    here, there = server("SCRAM-SHA-256"), client("SCRAM-SHA-256", "alice", PASSWORD)
    there.set_server_first(evaluate(here, there.get_client_first()).token.decode())
    with pytest.raises(ClientLoginFailed):
        evaluate(here, change(there.get_client_final()))  # type: ignore[operator]


def test_a_proof_of_another_length_is_wrong() -> None:
    for size in (0, 1, 31, 33, 64):
        again = server("SCRAM-SHA-256")
        nonce = evaluate(again, "n,,n=alice,r=x").token.decode().partition(",")[0]
        with pytest.raises(ClientLoginFailed):
            evaluate(again, f"c=biws,{nonce},p={base64.b64encode(bytes(size)).decode()}")


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_garbage_only_fails(first: bytes, last: bytes) -> None:
    here = server("SCRAM-SHA-256")
    for message in (first, last):
        with contextlib.suppress(ClientLoginFailed):
            assert not isinstance(evaluate(here, message), Success)
