"""Outcomes of one step of a client's login: a challenge, success, or a refusal. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, repr=False)
class Challenge:
    """The token that the client gets in the middle of a login."""

    token: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Success:
    """The end of a login of a user, with the last token for the client.

    `expires_at`: the Unix time at which the credentials expire; None if they do not.
    """

    user: str
    token: bytes = b""
    expires_at: float | None = None


class ClientLoginFailed(Exception):
    """The login failed. `text` is what the client gets to read; `outcome` is the value of a metric's label.

    `problem` is for kproxy's log, and `user` is the name that the client has sent, if it has: no other text of it.
    """

    def __init__(self, text: str, outcome: str, problem: str, user: str = "") -> None:
        self.text, self.outcome, self.problem, self.user = text, outcome, problem, user
        super().__init__(problem)


class ServerMechanism(Protocol):
    """The server's side of one login. `name` is that of the mechanism."""

    name: str

    async def evaluate(self, token: bytes) -> Challenge | Success:
        """Take a token of the client. Raises ClientLoginFailed."""
        ...
