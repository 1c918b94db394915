"""The routes of a cluster's clients: which upstream each client reaches. Each part of a cluster has its own route.

A connection belongs to a part, or to the cluster, by the client id of its first request, from its first byte to its
last. So kproxy must read that request before it dials. In clusters without parts, kproxy dials without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.config import ClusterConfig
from kproxy.net.dial.stream import Stream
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest, is_begun
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.relay.introduction import is_long_enough, read_introduction

if TYPE_CHECKING:
    from kproxy.net.tls.handshakes import ClientTls
    from kproxy.proxy.cluster.nodedialer import AffectsSession
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit
    from kproxy.proxy.switching.parts import Part

DialNode = Callable[["NodeKey | None", "VersionsRequest | None"], Awaitable[VerifiedConnection]]
"""Connects to a node, or, for None, to a bootstrap server, with a client's first request. Raises UpstreamError."""
LocaliseForHost = Callable[[str, Endpoints], Sequence[Address]]
"""Returns the local addresses of endpoints, for a client that finds kproxy at this host. Raises WireError.

Each address is bound.
"""

# How long a client may take for the beginning of its first request, in seconds: clients send it at once.
_TIMEOUT = 30.0
# How long kproxy waits for it where it can do without. A busy client may need that long after its TLS handshake.
_SHORT_TIMEOUT = 1.0
# One read: as much as a TLS record may have.
_READ_SIZE = 16 * 1024


@dataclass(eq=False)
class ClientRoute:
    """The upstream of a cluster's clients, or of those of one part."""

    config: ClusterConfig
    """The configuration of the upstream."""
    dial: DialNode
    localise: LocaliseForHost
    unit: SwitchableUnit | None = None
    """The state and the sessions for a switch; None if the cluster cannot be switched."""
    part: Part | None = None
    """The part; None: the clients that are in no part."""

    @property
    def name(self) -> str:
        """The name of the part; "" for the cluster."""
        return "" if self.part is None else self.part.name


@dataclass(frozen=True, slots=True)
class ClusterUpdate:
    """The new configuration of a cluster that is already served."""

    config: ClusterConfig
    tls: ClientTls | None
    """TLS with its clients; None: they connect without it."""
    concerns: AffectsSession
    """The predicate that selects the open sessions which the change affects."""
    switches: bool = False
    """True if the cluster can be switched to another upstream."""
    parts: Mapping[str, tuple[ClusterConfig, AffectsSession]] = field(default_factory=dict)
    """The configuration and the affected sessions of each part, by its name."""


Routes = dict[str, ClientRoute]
"""The routes of a cluster's clients by their names: "" for those that are in no part, and each part's."""


def route_for(first_request: bytes, routes: Routes) -> ClientRoute:
    """Return the route of the part that a client belongs to, or that of all other clients."""
    if len(routes) == 1:
        return routes[""]
    client_id = read_introduction(first_request).client_id
    return next(
        (route for route in routes.values() if route.part is not None and route.part.has(client_id)), routes[""]
    )


async def read_first_request(client: socket.socket, request: bytes) -> bytes:
    """Read what a client sends, up to its client id, behind these bytes of it; return all of them.

    Raises WireError on a timeout, OSError if it disconnects.
    """
    stream = Stream(client)
    try:
        async with asyncio.timeout(_TIMEOUT):
            while not is_long_enough(request):
                chunk = await stream.receive(_READ_SIZE)
                if not chunk:
                    raise ConnectionResetError("the client has disconnected")
                request += chunk
    except TimeoutError:
        text = f"the client has sent no client id for {_TIMEOUT:g} s, and the cluster has parts"
        raise WireError("silent", text) from None
    return request


async def read_versions_bytes(client: socket.socket, request: bytes) -> bytes:
    """Read the rest of the ApiVersions request that these bytes begin, as far as it comes soon; return all bytes.

    Raises OSError if the client disconnects.
    """
    stream = Stream(client)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SHORT_TIMEOUT):
            while is_begun(request):
                chunk = await stream.receive(_READ_SIZE)
                if not chunk:
                    raise ConnectionResetError("the client has disconnected")
                request += chunk
    return request
