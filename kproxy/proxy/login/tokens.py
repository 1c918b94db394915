"""Verifies tokens (JWT, RFC 7519) by the keys of an OIDC server (JWKS, RFC 7517), from its URL or from a file.

The signature, the issuer, the audience, the expiry and the user are all demanded. A token without a signature ("none"),
or with one by a shared secret (HS256), does not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.request
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, time
from typing import Any, TypeGuard

from kproxy.base import regularfile
from kproxy.base.errors import UpstreamError
from kproxy.base.messages.clientlogins import JOSERFC_MISSING
from kproxy.base.packages import install_command
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.oidc import endpoint_tls_context
from kproxy.proxy.login.oauthbearer import TokenInvalid, VerifiedToken

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
# The keys are fetched again after so long, and sooner for a token with an unknown key, but not more often than this, in
# seconds: else a client could make kproxy ask all the time. After a failure, the former keys still count.
_KEPT, _LEAST_BETWEEN = 3600.0, 10.0
_SILENCE, _FETCHED_WITHIN = 5.0, 15.0
_MOST = 1024 * 1024
# How far the clocks of kproxy and of the OIDC server may differ, in seconds.
_LEEWAY = 30.0
_LONGEST_USER = 255
_MOST_VERIFIED = 4
# A token without the id of its key is tried with so many keys.
_MOST_TRIED = 8


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must have, and where its keys are: `url` or `file`. `ca`: the CA to trust for the URL."""

    url: str | None
    file: Path | None
    ca: Path | None
    issuer: str
    audience: str
    user_claim: str


class TokenVerifier:
    """Verifies the tokens of one cluster's clients."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        self._calls = BlockingCalls(_MOST_VERIFIED)
        # Of its own: a server that sends its keys byte by byte must not keep tokens from being verified.
        self._fetches = BlockingCalls(1)
        self._lock = asyncio.Lock()
        self._keys: Any = None
        self._fetched_at = float("-inf")
        self._problem = ""

    async def verify(self, token: str) -> VerifiedToken:
        """Return what a token says. Raises TokenInvalid."""
        await self._fetch(_KEPT)
        try:
            return await self._run(token)
        except _UnknownKey:
            await self._fetch(_LEAST_BETWEEN)
        try:
            return await self._run(token)
        except _UnknownKey:
            problem = f"its token is signed with a key that the OIDC server does not have{self._problem}"
            raise TokenInvalid(problem) from None

    async def _run(self, token: str) -> VerifiedToken:
        try:
            return await self._calls.run(_FETCHED_WITHIN, _verified, token, self._keys, self._rules)
        except TimeoutError:
            raise TokenInvalid("its token could not be verified in time") from None

    async def _fetch(self, age: float) -> None:
        """Fetch the keys unless they are younger than this. While they are fetched again, the former ones count."""
        if self._keys is not None and monotonic() - self._fetched_at < age:
            return
        async with self._lock:
            if monotonic() - self._fetched_at < (age if self._keys is not None else min(age, _LEAST_BETWEEN)):
                return
            self._fetched_at = monotonic()
            try:
                self._keys = await self._fetches.run(_FETCHED_WITHIN, read_keys, self._rules)
                self._problem = ""
            except (OSError, ValueError, TimeoutError, UpstreamError) as error:
                reason = getattr(error, "reason", None) or error
                self._problem = f" (its keys cannot be fetched: {str(reason)[:200] or 'timeout'})"


def require_joserfc() -> None:
    """Raise UpstreamError if joserfc is not installed."""
    if find_spec("joserfc") is None:
        raise UpstreamError(*JOSERFC_MISSING.with_reason(command=install_command("joserfc")))


class _UnknownKey(Exception):
    """There is no key with the id in the token, as far as is known."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: the keys are those of one address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def read_keys(rules: TokenRules) -> Any:
    """Return the keys. It blocks. Raises OSError, ValueError and UpstreamError."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    if rules.file is not None:
        with regularfile.open_regular(rules.file) as file:
            data = file.read(_MOST + 1)
    else:
        assert rules.url is not None
        request = urllib.request.Request(rules.url, headers={"Accept": "application/json", "User-Agent": "kproxy"})
        trust = urllib.request.HTTPSHandler(context=endpoint_tls_context(rules.ca))
        with urllib.request.build_opener(trust, _NoRedirect).open(request, timeout=_SILENCE) as response:
            data = response.read(_MOST + 1)
    if len(data) > _MOST:
        raise ValueError(f"a key set of more than {_MOST} bytes")
    try:
        value = json.loads(data)
        # What is of no use here, such as keys for encryption, must not make the others useless.
        keys = [key for key in value["keys"] if key.get("kty") in ("RSA", "EC") and key.get("use") != "enc"]
        if not keys:
            raise ValueError("no keys for signatures (RSA, EC) in the key set")
        return KeySet.import_key_set({"keys": keys})
    except (JoseError, LookupError, TypeError, AttributeError) as error:
        raise ValueError("the answer is no key set (JWKS)") from error


def _verified(token: str, keys: Any, rules: TokenRules) -> VerifiedToken:
    from joserfc import jwt
    from joserfc.errors import BadSignatureError, JoseError
    from joserfc.jws import extract_compact

    if keys is None:
        raise _UnknownKey
    try:
        header = extract_compact(token.encode()).headers()
        if header.get("alg") not in _ALGORITHMS:
            raise TokenInvalid("its token has no signature that counts; allowed: " + ", ".join(_ALGORITHMS))
        key_id, key_type = header.get("kid"), "EC" if header["alg"].startswith("ES") else "RSA"
        candidates = [key for key in keys.keys if key_id is None or key.kid == key_id]
        if key_id is not None and not candidates:
            raise _UnknownKey
        candidates = [key for key in candidates if key.key_type == key_type][:_MOST_TRIED]
        for key in candidates:
            with contextlib.suppress(BadSignatureError):
                return _checked(jwt.decode(token, key, algorithms=_ALGORITHMS).claims, rules)
        raise TokenInvalid("its token is no JWT, or its signature is wrong")
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, TokenInvalid):
            raise
        raise TokenInvalid("its token is no JWT, or its signature is wrong") from None


def _checked(claims: dict[str, Any], rules: TokenRules) -> VerifiedToken:
    now = time()
    expires, begins = claims.get("exp"), claims.get("nbf", 0)
    if not _is_number(expires) or not _is_number(begins):
        raise TokenInvalid("its token has no expiry")
    if now >= expires:
        raise TokenInvalid("its token has expired")
    if begins > now + _LEEWAY:
        raise TokenInvalid("its token is not valid yet")
    if claims.get("iss") != rules.issuer:
        raise TokenInvalid("its token is of another issuer than client-oauth-issuer")
    audience = claims.get("aud")
    if rules.audience not in (audience if isinstance(audience, list) else [audience]):
        raise TokenInvalid("its token is for another audience than client-oauth-audience")
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not 0 < len(user) <= _LONGEST_USER or not user.isprintable():
        raise TokenInvalid(f"its token has no user in the claim {rules.user_claim}")
    return VerifiedToken(user, float(expires))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
