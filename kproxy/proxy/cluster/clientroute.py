"""Whose client a connection is, where a cluster has parts: each part's clients are led by themselves.

A connection belongs to a part, or to the cluster, by the client id of its first request, from its first byte to its
last. So kproxy must have heard that request before it dials. Clusters without parts hear nothing before.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.config import ClusterConfig
from kproxy.net.dial.stream import Stream
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.cluster.nodeverifier import VerifiedConnection
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.relay.introduction import is_long_enough, read_introduction

if TYPE_CHECKING:
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit
    from kproxy.proxy.switching.parts import Part

DialNode = Callable[["NodeKey | None"], Awaitable[VerifiedConnection]]
"""Connects to a node, or, for None, to a bootstrap server. Raises UpstreamError."""
LocaliseForHost = Callable[[str, Endpoints], Sequence[Address]]
"""The local addresses of endpoints, for a client that finds kproxy at this host; each is bound. Raises WireError."""

# How long a client may take for the beginning of its first request, in seconds: they speak at once.
_TIMEOUT = 30.0
# One read: as much as a TLS record may have.
_READ_SIZE = 16 * 1024


@dataclass(eq=False)
class ClientRoute:
    """The clients of a cluster, or of a part of it: who is led to one upstream. `config` is the upstream's.
    `switchable`: None if the cluster cannot be switched."""

    config: ClusterConfig
    dial: DialNode
    localise: LocaliseForHost
    switchable: SwitchableUnit | None = None
    part: Part | None = None

    @property
    def name(self) -> str:
        """Of the part; "" for the cluster."""
        return "" if self.part is None else self.part.name


def route_for(client_id: str, parts: Iterable[ClientRoute], others: ClientRoute) -> ClientRoute:
    """The part that a client belongs to, or `others`."""
    return next((led for led in parts if led.part is not None and led.part.has(client_id)), others)


def client_id_of(heard: bytes) -> str:
    """The client id in a client's first words, as kproxy shows it."""
    return read_introduction(heard).client_id if heard else ""


async def read_first_request(client: socket.socket) -> bytes:
    """What a client says first, until it has said its client id. Raises WireError if that takes too long, and OSError
    if it goes."""
    heard, stream = b"", Stream(client)
    try:
        async with asyncio.timeout(_TIMEOUT):
            while not is_long_enough(heard):
                more = await stream.receive(_READ_SIZE)
                if not more:
                    raise ConnectionResetError("the client has gone")
                heard += more
    except TimeoutError:
        text = f"the client has not said who it is for {_TIMEOUT:g} s, and the cluster has parts"
        raise WireError("silent", text) from None
    return heard
