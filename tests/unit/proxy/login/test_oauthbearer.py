"""OAUTHBEARER: tokens that another library has made, and tokens that do not count."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from kproxy.client.sasl.mechanism import OAuthBearer
from kproxy.proxy.login import tokens
from kproxy.proxy.login.oauthbearer import OAuthBearerServer, TokenInvalid, VerifiedToken
from kproxy.proxy.login.outcomes import Challenge, ClientLoginFailed, Success
from kproxy.proxy.login.tokens import TokenRules, TokenVerifier

RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
OTHER = RSAKey.generate_key(2048, {"kid": "other"})
ISSUER, AUDIENCE = "https://issuer.example", "kafka"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    useless = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}
    path.write_text(json.dumps({"keys": [*KeySet([RSA, EC]).as_dict(private=False)["keys"], useless]}))
    return path


def claims(**changes: Any) -> dict[str, Any]:
    values = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time()) + 600, **changes}
    return {name: value for name, value in values.items() if value is not None}


def token(key: Any = RSA, alg: str = "RS256", kid: str | None = "", **changes: Any) -> str:
    header = {"alg": alg, **({} if kid is None else {"kid": kid or key.kid})}
    return jwt.encode(header, claims(**changes), key, algorithms=[alg])


def crafted(header: dict[str, str], secret: bytes = b"") -> str:
    """Return a token that no library signs."""
    parts = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims())]
    signature = hmac.digest(secret, b".".join(parts), "sha256") if secret else b""
    return b".".join([*parts, urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def verify(path: Path, made: str, claim: str = "sub") -> VerifiedToken:
    rules = TokenRules(None, path, None, ISSUER, AUDIENCE, claim)
    return asyncio.run(_verify(rules, made))


async def _verify(rules: TokenRules, made: str) -> VerifiedToken:
    return await TokenVerifier(rules).verify(made)


def test_valid_tokens(keys: Path) -> None:
    for made in (token(), token(kid=None), token(EC, "ES256"), token(aud=["other", AUDIENCE]), token(nbf=int(time()))):
        assert verify(keys, made).user == "alice"
    assert verify(keys, token(email="a@b"), "email").user == "a@b"
    assert verify(keys, token(exp=2_000_000_000)).expires_at == 2_000_000_000


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: token(iss="https://evil.example"), "another issuer"),
        (lambda: token(iss=None), "another issuer"),
        (lambda: token(aud="other"), "another audience"),
        (lambda: token(aud=None), "another audience"),
        (lambda: token(aud=[]), "another audience"),
        (lambda: token(exp=int(time()) - 1), "has expired"),
        (lambda: token(exp=None), "no expiry"),
        (lambda: token(exp="tomorrow"), "no expiry"),
        (lambda: token(exp=True), "no expiry"),
        (lambda: token(nbf=int(time()) + 3600), "not valid yet"),
        (lambda: token(sub=None), "no user in the claim sub"),
        (lambda: token(sub=""), "no user in the claim sub"),
        (lambda: token(sub=["alice"]), "no user in the claim sub"),
        (lambda: token(sub="a\nb"), "no user in the claim sub"),
        (lambda: token(OTHER), "a key that the OIDC server does not have"),
        (lambda: token(OTHER, kid="rsa"), "its signature is wrong"),
        (lambda: token(OTHER, kid=None), "its signature is wrong"),
        (lambda: token(EC, "ES256", kid="rsa"), "its signature is wrong"),
        (lambda: token()[:-6] + "AAAAAA", "its signature is wrong"),
        (lambda: crafted({"alg": "HS256", "kid": "shared"}, b"secret"), "no signature"),
        (lambda: crafted({"alg": "HS256", "kid": "rsa"}, RSA.as_pem(private=False)), "no signature"),
        (lambda: crafted({"alg": "none"}), "no signature"),
        (lambda: crafted({"alg": "NONE", "kid": "rsa"}), "no signature"),
        (lambda: crafted({"kid": "rsa"}), "no signature|no JWT"),
        (lambda: "no.token.atall", "no JWT"),
        (lambda: "x" * 60_000, "no JWT"),
    ],
)
def test_tokens_that_do_not_count(keys: Path, make: Callable[[], str], why: str) -> None:
    made = make()
    with pytest.raises(TokenInvalid, match=why) as invalid:
        verify(keys, made)
    assert made not in str(invalid.value)


def test_keys_are_read_again_for_an_unknown_key_but_not_often(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, read, write = [1000.0], [], keys.write_text
    monkeypatch.setattr(tokens, "monotonic", lambda: clock[0])
    original = tokens.read_keys

    def counted(rules: TokenRules) -> Any:
        read.append(1)
        return original(rules)

    monkeypatch.setattr(tokens, "read_keys", counted)

    async def play() -> None:  # of files on this machine
        verifier = TokenVerifier(TokenRules(None, keys, None, ISSUER, AUDIENCE, "sub"))
        await verifier.verify(token())
        for _ in range(100):
            with pytest.raises(TokenInvalid):
                await verifier.verify(token(OTHER))
        assert len(read) == 1
        write(json.dumps(KeySet([OTHER]).as_dict(private=False)))
        clock[0] += 11
        assert (await verifier.verify(token(OTHER))).user == "alice"
        assert len(read) == 2
        write("no keys")
        clock[0] += 3601
        assert (await verifier.verify(token(OTHER))).user == "alice"  # the former keys still count
        assert len(read) == 3

    asyncio.run(play())


def test_a_token_with_a_known_key_does_not_wait_for_keys_that_are_fetched_again(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, begun, go_on = [1000.0], threading.Event(), threading.Event()
    monkeypatch.setattr(tokens, "monotonic", lambda: clock[0])
    original = tokens.read_keys

    def slow(rules: TokenRules) -> Any:
        begun.set()
        assert go_on.wait(60)
        return original(rules)

    async def play() -> None:
        verifier = TokenVerifier(TokenRules(None, keys, None, ISSUER, AUDIENCE, "sub"))

        async def fails() -> None:
            with pytest.raises(TokenInvalid):
                await verifier.verify(token(OTHER))

        await verifier.verify(token())
        monkeypatch.setattr(tokens, "read_keys", slow)
        clock[0] += 11
        async with asyncio.TaskGroup() as tasks:
            unknown = tasks.create_task(fails())
            assert await asyncio.to_thread(begun.wait, 60)
            for _ in range(2 * tokens._MOST_VERIFIED):
                assert (await verifier.verify(token())).user == "alice"
            assert not unknown.done()
            go_on.set()

    asyncio.run(play())


def test_keys_from_a_pipe_are_refused(tmp_path: Path) -> None:
    """Reading it would wait for a writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(TokenInvalid, match="keys cannot be fetched: is not a regular file"):
        verify(pipe, token())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": 1}', '{"keys": []}', '{"keys": [{"kty": "RSA"}]}', "x" * 2_000_000]
)
def test_a_key_set_that_is_none(keys: Path, text: str) -> None:
    keys.write_text(text)
    with pytest.raises(TokenInvalid, match="keys cannot be fetched"):
        verify(keys, token())


# The messages


def evaluate(server: OAuthBearerServer, message: bytes) -> Challenge | Success:
    return asyncio.run(server.evaluate(message))


async def accept(made: str) -> VerifiedToken:
    if made == "bad":
        raise TokenInvalid("its token has expired")
    return VerifiedToken("alice", 5.0)


def test_a_client_of_kproxy_logs_in() -> None:
    message = OAuthBearer("abc.def", {"traceId": "7"}).step(b"")
    assert message is not None
    assert evaluate(OAuthBearerServer(accept), message) == Success("alice", expires_at=5.0)
    assert evaluate(OAuthBearerServer(accept), b"n,a=alice,\x01auth=Bearer x\x01\x01") == Success(
        "alice", expires_at=5.0
    )


def test_a_refused_token_gets_an_error_and_then_the_refusal() -> None:
    server, client = OAuthBearerServer(accept), OAuthBearer("bad", {})
    message = client.step(b"")
    assert message is not None
    challenge = evaluate(server, message)
    assert json.loads(challenge.token) == {"status": "invalid_token"}
    confirmed = client.step(challenge.token)
    assert confirmed == b"\x01"
    with pytest.raises(ClientLoginFailed) as failed:
        evaluate(server, confirmed)
    assert (failed.value.outcome, failed.value.text) == ("refused", '{"status":"invalid_token"}')


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01other=x\x01\x01",
        b"n,a=bob,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_wrong_messages(message: bytes) -> None:
    with pytest.raises(ClientLoginFailed) as failed:
        evaluate(OAuthBearerServer(accept), message)
    assert failed.value.outcome == "malformed"


@given(st.binary(max_size=200))
def test_garbage_only_fails(message: bytes) -> None:
    with pytest.raises(ClientLoginFailed):
        evaluate(OAuthBearerServer(accept), message)
