"""The server of SCRAM (RFC 5802 and 7677), as far as Kafka has it: without channel binding and SASLprep.

scramp's server was tried first: it refuses an authorization id, which Kafka allows if it is the user, and raises
KeyError for a message without a field.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from kproxy.proxy.login.outcomes import Challenge, ClientLoginFailed, Success
from kproxy.users.verifier import HASHES, ScramVerifier

# As `ScramMessages` in Kafka reads them: a user name has `,` and `=` escaped, and any other character.
_NAME = r"(?:[^=,\x00]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\x00]+)*"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>(?:m=[^,\x00]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"(?P<unproved>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
# The longest message, in bytes: names of 255 characters, each of 4 bytes, and nonces. The patterns take linear time.
_LONGEST = 4096


class ScramServer:
    """One SCRAM login. `verifier_of` returns the verifier of a name, and whether there is such a user."""

    def __init__(self, name: str, verifier_of: Callable[[str], tuple[ScramVerifier, bool]]) -> None:
        self.name = name
        self._hash = HASHES[name]
        self._verifier_of = verifier_of
        self._user = ""
        self._first: tuple[str, str, str, ScramVerifier, bool] | None = None

    async def evaluate(self, token: bytes) -> Challenge | Success:
        """Take the client's first message, or its proof. Raises ClientLoginFailed."""
        try:
            text = token.decode() if len(token) <= _LONGEST else ""
        except UnicodeDecodeError:
            text = ""
        return self._challenge(text) if self._first is None else self._prove(text)

    def _challenge(self, text: str) -> Challenge:
        match = _FIRST.fullmatch(text)
        if match is None:
            binds = text.startswith(("p=", "y,"))
            raise self._failed("channel-binding" if binds else "malformed", "its first message cannot be read")
        self._user = unescaped(match["name"])
        if match["authzid"] and unescaped(match["authzid"]) != self._user:
            raise self._failed("malformed", "it asks for another identity than its user's")
        if "tokenauth=true" in match["extensions"].split(","):
            raise self._failed("delegation-token", "it logs in with a delegation token, which only brokers know")
        verifier, is_known = self._verifier_of(self._user)
        nonce = match["nonce"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(verifier.salt).decode()
        challenge = f"r={nonce},s={salt},i={verifier.iterations}"
        self._first = match["gs2"], nonce, f"{match['bare']},{challenge}", verifier, is_known
        return Challenge(challenge.encode())

    def _prove(self, text: str) -> Success:
        assert self._first is not None
        gs2, nonce, messages, verifier, is_known = self._first
        match = _FINAL.fullmatch(text)
        if match is None:
            raise self._failed("malformed", "its last message cannot be read")
        if base64.b64decode(match["binding"]) != gs2.encode() or match["nonce"] != nonce:
            raise self._failed("malformed", "its last message does not belong to its first one")
        signed = f"{messages},{match['unproved']}".encode()
        signature = hmac.digest(verifier.stored_key, signed, self._hash)
        proof = base64.b64decode(match["proof"])
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=False))
        is_right = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), verifier.stored_key)
        if not (is_right and len(proof) == len(signature) and is_known):
            raise self._failed("refused", "the password is wrong, or there is no such user")
        proof = hmac.digest(verifier.server_key, signed, self._hash)
        return Success(self._user, b"v=" + base64.b64encode(proof))

    def _failed(self, outcome: str, problem: str) -> ClientLoginFailed:
        # The words of a broker (SaslServerAuthenticator).
        text = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self.name}"
        return ClientLoginFailed(text, outcome, problem, self._user)


def unescaped(name: str) -> str:
    """Return a user name without the escapes of SCRAM (RFC 5802 §5.1)."""
    return name.replace("=2C", ",").replace("=3D", "=")
