"""One port-forward: carries bytes between a socket and a port of a pod, and says which direction has ended.

Over SPDY each direction ends alone. v4.channel.k8s.io has no word for it: as with TLS, the end of one ends both.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Protocol

from kproxy.net.dial.kubepipe import Pipe
from kproxy.net.dial.spdy import GoAway, Ping, Spdy, StreamAccepted, StreamData, StreamEnd

_CHUNK = 64 * 1024
_DATA, _ERROR = 0, 1
_PING_SECONDS = 30.0
_MAX_ERROR_TEXT = 4096
# Not every node passes on the end of one direction: containerd 2.0 ends both 1 s later, kwok goes on for ever. A pod
# that has nothing to say for so long after the client's end is taken for one that never heard of it.
_HALF_CLOSED_SECONDS = 60.0


class PortForwardError(Exception):
    """What the node says is wrong with the port-forward."""

    def __init__(self, said: bytes) -> None:
        super().__init__(said.decode(errors="replace").strip())


class PortForward(Protocol):
    """A port-forward in one of Kubernetes' protocols. What its methods await raises OSError and ValueError."""

    async def begin(self) -> None:
        """Wait until the node has taken it."""
        ...

    async def receive(self) -> bytes | None:
        """What the pod said, b"" when it will say no more, None when both directions are over. Raises Complaint."""
        ...

    async def send(self, data: bytes) -> None: ...

    async def end(self) -> bool:
        """No more will be sent. Returns whether the pod may still say something."""
        ...

    async def keep(self) -> None:
        """What has to be done all the time."""
        ...

    def close(self) -> None: ...


def forward_over(pipe: Pipe, port: int) -> PortForward:
    """In the protocol of the pipe."""
    return _SpdyForward(pipe, port) if pipe.spdy else _ChannelForward(pipe)


class _ChannelForward:
    """v4.channel.k8s.io: the first byte of a message says what it is."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def begin(self) -> None:
        for _ in (_DATA, _ERROR):  # each begins with the number of the port
            _payload(await self._pipe.receive())

    async def receive(self) -> bytes | None:
        while message := await self._pipe.receive():
            channel, data = _payload(message)
            if channel == _ERROR:
                raise PortForwardError(data)
            if data:
                return data
        return None

    async def send(self, data: bytes) -> None:
        await self._pipe.send(b"\0" + data)  # _DATA

    async def end(self) -> bool:
        return False

    async def keep(self) -> None:
        """Nothing: a WebSocket has pings of its own."""

    def close(self) -> None:
        self._pipe.close()


def _payload(message: bytes) -> tuple[int, bytes]:
    """The channel and what it carries."""
    if not message:
        raise ConnectionError("it was closed")
    if message[0] not in (_DATA, _ERROR):
        raise ValueError("a message of no channel")
    return message[0], message[1:]


class _SpdyForward:
    """portforward.k8s.io: a stream for data, and one on which only the node says something."""

    def __init__(self, pipe: Pipe, port: int) -> None:
        self._pipe = pipe
        self._spdy = Spdy()
        headers = {"port": str(port), "requestID": "0"}
        self._errors, first = self._spdy.open({"streamType": "error", **headers}, last=True)
        self._stream, second = self._spdy.open({"streamType": "data", **headers})
        self._opening = first + second
        self._accepted = False
        self._said: list[bytes] = []
        self._complaint = bytearray()
        self._no_more_data = self._no_more_data_told = self._no_more_errors = self._over = False
        # One answer at a time: it waits behind data for a slow pod, and nobody needs two.
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def begin(self) -> None:
        await self._pipe.send(self._opening)
        while not self._accepted:
            if self._over:
                raise ConnectionError(self._complaint.decode(errors="replace") or "it was closed")
            if self._said:
                raise ValueError("data on a stream without a reply")
            await self._take()

    async def receive(self) -> bytes | None:
        while not self._said:
            if self._no_more_data and not self._no_more_data_told:
                self._no_more_data_told = True
                return b""
            if self._complaint and (self._no_more_errors or self._over):
                raise PortForwardError(bytes(self._complaint))
            if self._over or (self._no_more_data and self._no_more_errors):
                return None
            await self._take()
        said = b"".join(self._said)
        self._said.clear()
        return said

    async def _take(self) -> None:
        """What comes next."""
        data = await self._pipe.receive()
        if not data:
            self._over = True
        for event in self._spdy.receive(data):
            match event:
                case StreamData(self._stream, said):
                    self._said.append(said)
                case StreamData(self._errors, said):
                    self._complaint += said[: _MAX_ERROR_TEXT - len(self._complaint)]
                case StreamAccepted(self._stream):
                    self._accepted = True
                case StreamEnd(self._stream, reset):
                    self._no_more_data |= not reset
                    self._over |= reset
                case StreamEnd(self._errors, _):
                    self._no_more_errors = True
                case Ping(answer):
                    with contextlib.suppress(asyncio.QueueFull):
                        self._answers.put_nowait(answer)
                case GoAway():
                    self._over |= not self._accepted

    async def send(self, data: bytes) -> None:
        await self._pipe.send(self._spdy.data(self._stream, data))

    async def end(self) -> bool:
        await self._pipe.send(self._spdy.data(self._stream, b"", last=True))
        return not self._no_more_data

    async def keep(self) -> None:
        """Answer pings, and send some: what is between drops connections that are silent."""
        while True:
            try:
                async with asyncio.timeout(_PING_SECONDS):
                    frame = await self._answers.get()
            except TimeoutError:
                frame = self._spdy.ping()
            await self._pipe.send(frame)

    def close(self) -> None:
        self._pipe.close()


class PortForwardRelay:
    """Moves the bytes between a port-forward that has begun and a socket; both are its own.

    `early` is what `receive` gave already, None if it gave nothing. In each direction it waits until the other side
    has taken what came.
    """

    def __init__(self, forward: PortForward, near: socket.socket, early: bytes | None) -> None:
        self._forward = forward
        self._near = near
        self._early = early
        self._half_since: float | None = None  # from here on only the pod may say something
        self._listening_since: float | None = None

    async def run(self, heard: Callable[[], None]) -> None:
        """Until it is over. Calls `heard` when the pod says something. Raises a group of what a Forward raises."""
        try:
            async with asyncio.TaskGroup() as tasks:
                up, down = tasks.create_task(self._up()), tasks.create_task(self._down(heard))
                keep = tasks.create_task(self._forward.keep())
                await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
                while self._half_since is not None and not down.done() and not self._is_silent(self._half_since):
                    await asyncio.wait((down,), timeout=_HALF_CLOSED_SECONDS)
                for task in (up, down, keep):
                    task.cancel()
        finally:
            self._near.close()
            self._forward.close()

    async def _up(self) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._near, _CHUNK):
            await self._forward.send(data)
        try:
            self._near.send(b"")
        except ConnectionError:
            return  # nobody is there any more to hear the pod
        if await self._forward.end():
            self._half_since = loop.time()

    async def _down(self, heard: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        said = await self._next() if self._early is None else self._early
        while said is not None:
            if said:
                heard()
                await loop.sock_sendall(self._near, said)
            else:
                self._near.shutdown(socket.SHUT_WR)
            said = await self._next()

    async def _next(self) -> bytes | None:
        self._listening_since = asyncio.get_running_loop().time()
        said = await self._forward.receive()
        self._listening_since = None  # a slow client is not a silent pod
        return said

    def _is_silent(self, half_since: float) -> bool:
        if self._listening_since is None:
            return False
        return asyncio.get_running_loop().time() - max(half_since, self._listening_since) >= _HALF_CLOSED_SECONDS
