"""One port-forward: moves bytes between a socket and a port of a pod, and reports the end of each direction.

With SPDY each direction ends alone. v4.channel.k8s.io cannot express that: as with TLS, the end of one ends both.
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
# Not every node passes on the end of one direction: containerd 2.0 ends both 1 s later, kwok never ends the other one.
# If the pod sends nothing for this time after the client's end, in seconds, kproxy assumes that it did not receive it.
_HALF_CLOSED_SECONDS = 60.0


class KubeForwardError(Exception):
    """The node's error message about the port-forward."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode(errors="replace").strip())


class KubePortForward(Protocol):
    """A port-forward in one of Kubernetes' protocols. Its coroutines raise OSError and ValueError."""

    async def wait_until_accepted(self) -> None:
        """Wait until the node has accepted the port-forward."""
        ...

    async def receive(self) -> bytes | None:
        """Return bytes from the pod, b"" at the end of that direction, None when both directions have ended.

        Raises KubeForwardError.
        """
        ...

    async def send(self, data: bytes) -> None: ...

    async def end_sending(self) -> bool:
        """End the sending direction. Return whether the pod may still send something."""
        ...

    async def keep_alive(self) -> None:
        """Do the background work of the connection until it is cancelled."""
        ...

    def close(self) -> None: ...


def forward_over(pipe: Pipe, port: int) -> KubePortForward:
    """Return the port-forward in the protocol of the pipe."""
    return _SpdyForward(pipe, port) if pipe.spdy else _ChannelForward(pipe)


class _ChannelForward:
    """A port-forward by v4.channel.k8s.io: the first byte of a message is its channel."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def wait_until_accepted(self) -> None:
        for _ in (_DATA, _ERROR):  # each begins with the number of the port
            _payload(await self._pipe.receive())

    async def receive(self) -> bytes | None:
        while message := await self._pipe.receive():
            channel, data = _payload(message)
            if channel == _ERROR:
                raise KubeForwardError(data)
            if data:
                return data
        return None

    async def send(self, data: bytes) -> None:
        await self._pipe.send(b"\0" + data)  # _DATA

    async def end_sending(self) -> bool:
        return False

    async def keep_alive(self) -> None:
        """Do nothing: a WebSocket has pings of its own."""

    def close(self) -> None:
        self._pipe.close()


def _payload(message: bytes) -> tuple[int, bytes]:
    """Return the channel of a message and its payload."""
    if not message:
        raise ConnectionError("it was closed")
    if message[0] not in (_DATA, _ERROR):
        raise ValueError("a message of no channel")
    return message[0], message[1:]


class _SpdyForward:
    """A port-forward by portforward.k8s.io: a stream for data, and one for the node's error messages."""

    def __init__(self, pipe: Pipe, port: int) -> None:
        self._pipe = pipe
        self._spdy = Spdy()
        headers = {"port": str(port), "requestID": "0"}
        self._errors, first = self._spdy.open({"streamType": "error", **headers}, last=True)
        self._stream, second = self._spdy.open({"streamType": "data", **headers})
        self._opening = first + second
        self._accepted = False
        self._received: list[bytes] = []
        self._error_text = bytearray()
        self._data_ended = self._data_end_reported = self._errors_ended = self._closed = False
        # One reply at a time: it waits behind data for a slow pod, and one is enough.
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def wait_until_accepted(self) -> None:
        await self._pipe.send(self._opening)
        while not self._accepted:
            if self._closed:
                raise ConnectionError(self._error_text.decode(errors="replace") or "it was closed")
            if self._received:
                raise ValueError("data on a stream without a reply")
            await self._receive_frames()

    async def receive(self) -> bytes | None:
        while not self._received:
            if self._data_ended and not self._data_end_reported:
                self._data_end_reported = True
                return b""
            complete = self._errors_ended or self._closed or len(self._error_text) == _MAX_ERROR_TEXT
            if self._error_text and complete:
                raise KubeForwardError(bytes(self._error_text))
            if self._closed or (self._data_ended and self._errors_ended):
                return None
            await self._receive_frames()
        data = b"".join(self._received)
        self._received.clear()
        return data

    async def _receive_frames(self) -> None:
        """Receive bytes, and process the frames that they complete."""
        data = await self._pipe.receive()
        if not data:
            self._closed = True
        for event in self._spdy.receive(data):
            match event:
                case StreamData(self._stream, payload):
                    self._received.append(payload)
                case StreamData(self._errors, payload):
                    self._error_text += payload[: _MAX_ERROR_TEXT - len(self._error_text)]
                case StreamAccepted(self._stream):
                    self._accepted = True
                case StreamEnd(self._stream, reset):
                    self._data_ended |= not reset
                    self._closed |= reset
                case StreamEnd(self._errors, _):
                    self._errors_ended = True
                case Ping(answer):
                    with contextlib.suppress(asyncio.QueueFull):
                        self._answers.put_nowait(answer)
                case GoAway():
                    self._closed |= not self._accepted

    async def send(self, data: bytes) -> None:
        await self._pipe.send(self._spdy.data(self._stream, data))

    async def end_sending(self) -> bool:
        await self._pipe.send(self._spdy.data(self._stream, b"", last=True))
        return not self._data_ended

    async def keep_alive(self) -> None:
        """Answer pings, and send some, because proxies drop silent connections."""
        while True:
            try:
                async with asyncio.timeout(_PING_SECONDS):
                    frame = await self._answers.get()
            except TimeoutError:
                frame = self._spdy.ping()
            await self._pipe.send(frame)

    def close(self) -> None:
        self._pipe.close()


class KubeForwardRelay:
    """Moves the bytes between an accepted port-forward and a socket, and owns both.

    `early` has the bytes that `receive` has returned already, None if none. In each direction it waits until the
    receiver has taken the bytes.
    """

    def __init__(self, forward: KubePortForward, near: socket.socket, early: bytes | None) -> None:
        self._forward = forward
        self._near = near
        self._early = early
        self._half_closed_since: float | None = None  # since then only the pod may send
        self._receiving_since: float | None = None

    async def run(self, on_data: Callable[[], None]) -> None:
        """Run until both directions have ended. Raises an exception group of what a KubePortForward raises.

        Calls `on_data` when the pod sends something.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                up, down = tasks.create_task(self._up()), tasks.create_task(self._down(on_data))
                keep = tasks.create_task(self._forward.keep_alive())
                await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
                while (
                    self._half_closed_since is not None
                    and not down.done()
                    and not self._is_silent(self._half_closed_since)
                ):
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
            return  # the client has closed the connection, so the pod's data has no receiver
        if await self._forward.end_sending():
            self._half_closed_since = loop.time()

    async def _down(self, on_data: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        data = await self._next() if self._early is None else self._early
        while data is not None:
            if data:
                on_data()
                await loop.sock_sendall(self._near, data)
            else:
                self._near.shutdown(socket.SHUT_WR)
            data = await self._next()

    async def _next(self) -> bytes | None:
        self._receiving_since = asyncio.get_running_loop().time()
        data = await self._forward.receive()
        self._receiving_since = None  # a slow client is not a silent pod
        return data

    def _is_silent(self, half_since: float) -> bool:
        if self._receiving_since is None:
            return False
        return asyncio.get_running_loop().time() - max(half_since, self._receiving_since) >= _HALF_CLOSED_SECONDS
