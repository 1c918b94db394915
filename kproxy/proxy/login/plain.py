"""The server of PLAIN (RFC 4616), which verifies passwords by the verifiers of SCRAM."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kproxy.proxy.login.outcomes import ClientLoginFailed, Success
from kproxy.users.verifier import ScramVerifier

# The longest name and password, in bytes. RFC 4616 demands 255; tokens in place of a password have some KiB.
_LONGEST = 8 * 1024


class PlainServer:
    """One PLAIN login.

    `verifier_of` returns the verifier of a name, and whether there is such a user. `is_of` checks a password: it takes
    milliseconds of a core, so it works beside the event loop.
    """

    name = "PLAIN"

    def __init__(
        self,
        verifier_of: Callable[[str], tuple[ScramVerifier, bool]],
        is_of: Callable[[ScramVerifier, str], Awaitable[bool]],
    ) -> None:
        self._verifier_of = verifier_of
        self._is_of = is_of

    async def evaluate(self, token: bytes) -> Success:
        """Take the one token. Raises ClientLoginFailed, with the words of a broker (PlainSaslServer)."""
        try:
            parts = token.decode().split("\0") if len(token) <= _LONGEST else []
        except UnicodeDecodeError:
            parts = []
        if len(parts) != 3:
            text = f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(max(len(parts), 1), 4)}"
            raise ClientLoginFailed(text, "malformed", "its token cannot be read")
        authorization_id, user, password = parts
        for what, value in (("username", user), ("password", password)):
            if not value:
                text = f"Authentication failed: {what} not specified"
                raise ClientLoginFailed(text, "malformed", f"it sends no {what}", user)
        verifier, is_known = self._verifier_of(user)
        if not (await self._is_of(verifier, password) and is_known):
            text = "Authentication failed: Invalid username or password"
            raise ClientLoginFailed(text, "refused", "the password is wrong, or there is no such user", user)
        if authorization_id not in ("", user):
            text = "Authentication failed: Client requested an authorization id that is different from username"
            raise ClientLoginFailed(text, "malformed", "it asks for another identity than its user's", user)
        return Success(user)
