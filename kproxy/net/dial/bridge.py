"""A socket for a transport that has none: an SSH channel, a TLS connection.

The data plane moves bytes between real sockets. So it gets one end of a socket pair, and two protocols that face each
other move the bytes between the other end and the transport. Back-pressure works both ways: a transport whose buffer is
full pauses reading on the other one. The end of one direction is passed on too.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable


class BridgeEnd(asyncio.Protocol):
    """One of the two protocols. asyncssh's channels take it as their session, because both have asyncio's callbacks."""

    peer: BridgeEnd

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.ended = False  # this end receives no more data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a Transport, or asyncssh's channel, which is like one

    def session_started(self) -> None:
        """Do nothing: `connection_made` has noted the open channel."""

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        if self.peer.transport is not None:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer.transport is not None:
            self.peer.transport.resume_reading()

    def eof_received(self) -> bool:
        """Return whether this direction's transport must stay open for the other direction."""
        self.ended = True
        sink, source = self.peer.transport, self.transport
        if sink is None or source is None:
            return False
        if self.peer.ended or not sink.can_write_eof():  # TLS cannot end one direction alone
            sink.close()
            source.close()
            return False
        sink.write_eof()
        return source.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        if self.peer.transport is not None:
            self.peer.transport.close()


async def bridge(open_far: Callable[[BridgeEnd], Awaitable[object]]) -> socket.socket:
    """Return a connected, non-blocking local socket that leads to the transport which `open_far` connects.

    Raises what `open_far` raises. The transport is closed with the socket.
    """
    near, far = BridgeEnd(), BridgeEnd()
    near.peer, far.peer = far, near
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    try:
        await asyncio.get_running_loop().create_connection(lambda: near, sock=ours)
        await open_far(far)
    except BaseException:
        ours.close() if near.transport is None else near.transport.abort()
        theirs.close()
        raise
    return theirs
