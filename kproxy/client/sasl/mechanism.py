"""The tokens of SASL mechanisms: one object for each login, bytes in, bytes out.

kafka-python's mechanisms were tried first. They import its whole client (0.1 s, 8 MB); its SCRAM sends a user name with
`,` or `=` unescaped and accepts any number of iterations, its AWS_MSK_IAM looks for credentials again for each
connection, and its GSSAPI does not support a keytab. So SCRAM is scramp's, Kerberos gssapi's, the signature botocore's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from kproxy.base.errors import UpstreamError
from kproxy.base.messages.logins import BROKER_UNPROVEN, PASSWORD_REFUSED, TOKEN_REFUSED, TOO_MANY_ITERATIONS

# The most iterations that SCRAM may demand for a login: a second of one core, or two. Since Kafka 2.7 brokers store
# no credentials of more than 16384 iterations (KIP-554); Java's clients compute whatever is demanded.
_MAX_ITERATIONS = 1_000_000


class Mechanism(Protocol):
    """One login.

    `advice` says what to check if the broker refuses it; `secrets` must never be shown. `finished` is true once the
    broker has proved what it must prove; then it only has to agree.
    """

    name: str
    advice: str
    secrets: tuple[str, ...]
    finished: bool

    def step(self, challenge: bytes) -> bytes | None:
        """Return the next token in answer to the broker's last one (b"" at first); None if there is nothing to send.

        May block. Raises UpstreamError if a login with this broker is not possible.
        """
        ...


class LoginRefused(UpstreamError):
    """The broker refused the credentials. Repeated attempts may lock the account."""

    def __init__(self, text: str) -> None:
        super().__init__("sasl", text)


class UserLoginRefused(LoginRefused):
    """One user has no login for the brokers, or the brokers refused it. It says nothing about other users."""


def unproven_broker(why: str) -> UpstreamError:
    """Return the error for a broker that cannot prove its identity, or that violates the mechanism."""
    return UpstreamError(*BROKER_UNPROVEN.with_reason(problem=why))


class Plain:
    """PLAIN (RFC 4616)."""

    name = "PLAIN"
    advice: str = PASSWORD_REFUSED()

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self.secrets: tuple[str, ...] = (password,)
        self.finished = False

    def step(self, challenge: bytes) -> bytes | None:
        """Return the one token, then None."""
        token, self._token = self._token, b""
        self.finished = not token
        return token or None


class OAuthBearer:
    """OAUTHBEARER (RFC 7628), with SASL extensions (KIP-342)."""

    name = "OAUTHBEARER"
    advice: str = TOKEN_REFUSED()

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = {"auth": f"Bearer {token}", **extensions}
        self._token = ("n,,\x01" + "".join(f"{key}={value}\x01" for key, value in pairs.items()) + "\x01").encode()
        self.secrets: tuple[str, ...] = (token,)
        self.finished = False

    def step(self, challenge: bytes) -> bytes | None:
        r"""Return the token; after an error, the lone \x01 that makes the broker send its refusal (§3.2.3)."""
        token, self._token = self._token, b""
        if token or challenge:
            return token or b"\x01"
        self.finished = True
        return None


class Scram:
    """SCRAM (RFC 5802 and 7677).

    The broker's signature is checked. Fewer than 4096 iterations are refused, and more than `_MAX_ITERATIONS`. Neither
    Kafka's clients nor its brokers normalise (SASLprep): they hash the user's own characters.
    """

    advice = Plain.advice

    def __init__(self, name: str, user: str, password: str, nonce: str | None = None) -> None:
        from scramp import ScramClient

        self.name = name
        self.secrets: tuple[str, ...] = (password,)
        self.finished = False
        self._client = ScramClient([name], "-", "-", c_nonce=nonce)
        self._client.username.username, self._client.password.password = user, password
        self._steps = iter((self._first, self._proof, self._verify))

    def step(self, challenge: bytes) -> bytes | None:
        """Return the user's name, then the proof, then None: the last challenge is the broker's own proof."""
        from scramp import ScramException

        try:
            return next(self._steps)(challenge.decode())
        except ScramException as error:
            raise unproven_broker(f"the broker failed {self.name}: {error.args[0]}") from None
        except UnicodeDecodeError:
            raise unproven_broker(f"the broker failed {self.name}: not UTF-8") from None

    def _first(self, _: str) -> bytes:
        return str(self._client.get_client_first()).encode()

    def _proof(self, challenge: str) -> bytes:
        demanded = re.search(r",i=([0-9]{1,20})", challenge)
        if demanded and int(demanded[1]) > _MAX_ITERATIONS:
            raise UpstreamError(
                *TOO_MANY_ITERATIONS.with_reason(demanded=demanded[1], name=self.name, max_iterations=_MAX_ITERATIONS)
            )
        self._client.set_server_first(challenge)
        return str(self._client.get_client_final()).encode()

    def _verify(self, challenge: str) -> None:
        self._client.set_server_final(challenge)
        self.finished = True
