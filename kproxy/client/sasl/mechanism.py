"""What a SASL mechanism says: one object for each login, bytes in, bytes out.

kafka-python's mechanisms were tried first. They bring its whole client along (0.1 s, 8 MB); its SCRAM sends a user name
with `,` or `=` unescaped and takes any number of iterations, its AWS_MSK_IAM looks for credentials again for each
connection, and its GSSAPI knows no keytab. So SCRAM is scramp's, Kerberos gssapi's, the signature botocore's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from kproxy.base.errors import UpstreamError

# How often SCRAM may hash, each time that somebody logs in: a second of one core, or two. Since Kafka 2.7 brokers store
# no credentials of more than 16384 iterations (KIP-554); Java's clients compute whatever is demanded.
_MAX_ITERATIONS = 1_000_000


class Mechanism(Protocol):
    """One login. `advice` says what to look at if it is refused, `secrets` are never to be shown.

    `finished`: the broker has proved what it must prove, or need not; it only has to agree.
    """

    name: str
    advice: str
    secrets: tuple[str, ...]
    finished: bool

    def step(self, challenge: bytes) -> bytes | None:
        """The next token for the broker's last one (b"" at first); None if there is nothing to say to it.

        May take long or ask others. Raises UpstreamError if there is no login with this broker.
        """
        ...


class LoginRefused(UpstreamError):
    """Nobody takes these credentials. Trying them again and again may lock the account."""

    def __init__(self, text: str) -> None:
        super().__init__("sasl", text)


def unproven_broker(why: str) -> UpstreamError:
    """The error for a broker that cannot prove who it is, or does not keep to the mechanism."""
    return UpstreamError("sasl", f"{why}; this is not the broker that knows the user, or something stands between")


class Plain:
    """RFC 4616."""

    name = "PLAIN"
    advice = "check sasl-username and the password"

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self.secrets: tuple[str, ...] = (password,)
        self.finished = False

    def step(self, challenge: bytes) -> bytes | None:
        """The one token, then nothing."""
        token, self._token = self._token, b""
        self.finished = not token
        return token or None


class OAuthBearer:
    """RFC 7628, with SASL extensions (KIP-342)."""

    name = "OAUTHBEARER"
    advice = "check the token: its issuer, audience, scope and expiry"

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = {"auth": f"Bearer {token}", **extensions}
        self._token = ("n,,\x01" + "".join(f"{key}={value}\x01" for key, value in pairs.items()) + "\x01").encode()
        self.secrets: tuple[str, ...] = (token,)
        self.finished = False

    def step(self, challenge: bytes) -> bytes | None:
        """The token; for an error, the lone \\x01 after which the broker says no in its own words (§3.2.3)."""
        token, self._token = self._token, b""
        if token or challenge:
            return token or b"\x01"
        self.finished = True
        return None


class Scram:
    """RFC 5802 and 7677. The broker's signature is checked; fewer than 4096 iterations are refused, and far too many.

    Neither Kafka's clients nor its brokers normalise (SASLprep): they hash the user's own characters.
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
        """The user's name, the proof, and nothing more: the last challenge is the broker's own proof."""
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
                "sasl",
                f"the broker demands {demanded[1]} iterations of {self.name}, more than the {_MAX_ITERATIONS} that"
                " kproxy computes; Kafka allows 16384: set the user's password anew",
            )
        self._client.set_server_first(challenge)
        return str(self._client.get_client_final()).encode()

    def _verify(self, challenge: str) -> None:
        self._client.set_server_final(challenge)
        self.finished = True
