"""The server of OAUTHBEARER (RFC 7628), as Kafka has it (`OAuthBearerSaslServer`)."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kproxy.proxy.login.outcomes import Challenge, ClientLoginFailed, Success

_SASLNAME = r"(?:[^=,\x00\x80-\U0010ffff]|=2C|=3D)+"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_BEARER = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A token that is valid: its user, and the Unix time at which it expires."""

    user: str
    expires_at: float


class TokenInvalid(ValueError):
    """A token that does not count. The text is for kproxy's log, and has nothing of the token."""


class OAuthBearerServer:
    """One OAUTHBEARER login. `verify` returns what a token says, or raises TokenInvalid; it may take a while."""

    name = "OAUTHBEARER"

    def __init__(self, verify: Callable[[str], Awaitable[VerifiedToken]]) -> None:
        self._verify = verify
        self._failure: ClientLoginFailed | None = None

    async def evaluate(self, token: bytes) -> Challenge | Success:
        r"""Take the client's message, or the lone \x01 that follows an error (§3.2.3). Raises ClientLoginFailed."""
        if self._failure is not None:
            raise self._failure
        try:
            match = _FIRST.fullmatch(token.decode())
        except UnicodeDecodeError:
            match = None
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01")[:-1]) if match is not None else {}
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if match is None or bearer is None:
            raise self._failed("malformed", "its first message cannot be read")
        try:
            verified = await self._verify(bearer["token"])
        except TokenInvalid as error:
            # As a broker: the client gets the error as a challenge, and the refusal when it has confirmed that.
            status = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            self._failure = ClientLoginFailed(status, "refused", str(error))
            return Challenge(status.encode())
        authorization_id = (match["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        if authorization_id not in ("", verified.user):
            raise self._failed("malformed", "it asks for another identity than its token's", verified.user)
        return Success(verified.user, expires_at=verified.expires_at)

    def _failed(self, outcome: str, problem: str, user: str = "") -> ClientLoginFailed:
        text = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self.name}"
        return ClientLoginFailed(text, outcome, problem, user)
