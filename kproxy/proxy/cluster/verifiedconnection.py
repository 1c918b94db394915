"""An upstream connection that leads to the expected node, or is verified within its client's session."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kproxy.base.address import Address
from kproxy.client.ask.channel import Channel
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.metrics.registry import BOOTSTRAP

if TYPE_CHECKING:
    from kproxy.client.sasl.login import LoginContext


class Verify(Protocol):
    """The verification of a connection within a client's session."""

    async def __call__(
        self, channel: Channel, request: VersionsRequest | None = None, *, confirmable: bool = True
    ) -> bytes:
        """Verify the connection, with the client's next request if it is this one.

        Return the body of the broker's response to that request, b"" if kproxy has not sent it. `confirmable`: the
        broker has accepted a login, so that its confirmation proves something. Raises UpstreamError.
        """


@dataclass(slots=True, eq=False)
class VerifiedConnection:
    """An open upstream connection to the expected node. Nothing of it changes."""

    sock: socket.socket
    key: NodeKey | None
    """The node; None: a bootstrap server."""
    dial: Address
    """The address that was dialled."""
    login: LoginContext | None = None
    """The result of kproxy's own login to the broker, if it made one."""
    verify: Verify | None = None
    """The verification to run within the client's session, after its login and before its first request passes.

    None: the connection is verified already.
    """
    log_in: Callable[[Channel, str], Awaitable[LoginContext | None]] | None = None
    """kproxy's login to the broker for the user who logs in at kproxy, to run within the session before `verify`.

    None: kproxy does not log in, or has done so.
    """
    answer: bytes = b""
    """The body of the broker's response to the client's first request, with which kproxy has verified the connection;
    b"": it has not sent that request."""
    newest_versions: int | None = None
    """The newest version of ApiVersions that the broker offers; None while it is unknown."""
    on_unanswered: Callable[[], None] = lambda: None
    """Called if the broker closes the connection soon, without an answer to a request of the client."""

    @property
    def label(self) -> str:
        """The node in logs and metrics."""
        return BOOTSTRAP if self.key is None else self.key.label
