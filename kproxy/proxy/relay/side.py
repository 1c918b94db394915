"""One side of a session: its connection, the bytes that it has not taken yet, and the events that it is watched for.

What comes from one side goes to the other. A session has two sides, and treats both alike.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from struct import Struct

from kproxy.protocol.wire.primitives import Buffer
from kproxy.proxy.relay.pump import COPY, Pump
from kproxy.proxy.relay.selector import Callback

INT32_NATIVE = Struct("=i")
# macOS: the bytes in the send buffer (sys/socket.h). Python has no name for it, and TIOCOUTQ is not for sockets there.
_SO_NWRITE = 0x1024

Step = Callable[[Buffer, float], Buffer]


class Side:
    """The connection to the client or to the broker. `name` is "client" or "upstream".

    `pending` is what the connection has not taken yet, and `ended` that its peer sends no more. `step` turns what comes
    from it into what may pass to the other side. `on_event` is the selector's callback.
    """

    __slots__ = (
        "_expects_rest",
        "_kept_chunk",
        "_pump",
        "_watched",
        "ended",
        "name",
        "on_event",
        "pending",
        "sock",
        "step",
    )

    def __init__(self, name: str, sock: socket.socket, step: Step, pump: Pump) -> None:
        self.name = name
        self.sock = sock
        self.step = step
        self._pump = pump
        self.pending: Buffer = b""
        self._kept_chunk: bytearray | None = None  # the chunk that `pending` is a part of
        self._expects_rest = False
        self.ended = False
        self.on_event: Callback = _ignore
        self._watched: int | None = None  # what the selector was asked for; None: the socket is not registered

    def watch(self, mask: int) -> None:
        """Watch the socket for these events."""
        old = self._watched
        if mask == old or (old is None and not mask):
            return
        if old is None:
            self._pump.selector.relay(self.sock.fileno(), mask, self.on_event)
        else:
            self._pump.selector.modify_relay(self.sock.fileno(), mask)
        self._watched = mask

    def set_callback(self, callback: Callback) -> None:
        """Use another callback from now on."""
        self.on_event = callback
        if self._watched is not None:
            self._pump.selector.replace_relay(self.sock.fileno(), callback)

    def unwatch(self) -> None:
        """Receive no event of the socket, not even a hang-up, until `watch`."""
        if self._watched is not None:
            self._pump.selector.end_relay(self.sock.fileno())
            self._watched = None

    def keep(self, data: Buffer) -> None:
        """Keep these bytes until the socket takes them. They are all that waits."""
        if len(data) <= COPY:
            self._return_chunk()
            data = bytes(data)
        elif isinstance(data, memoryview) and data.obj is self._pump.chunk:
            self._kept_chunk = self._pump.take_chunk()
        else:
            self._return_chunk()
        self.pending = data

    def flush(self) -> bool:
        """Send what waits; return whether nothing waits any more. Raises OSError."""
        try:
            sent = self.sock.send(self.pending)
        except (BlockingIOError, InterruptedError):
            return False
        if sent < len(self.pending):
            self.pending = memoryview(self.pending)[sent:]
            return False
        self.pending = b""
        self._return_chunk()
        return True

    def expect_rest(self) -> None:
        """Announce that the next reads may bring what must be kept, until `expect_no_rest`.

        Reads are smaller if many sides announce it.
        """
        if not self._expects_rest:
            self._expects_rest = True
            self._pump.expect(1)

    def expect_no_rest(self) -> None:
        if self._expects_rest:
            self._expects_rest = False
            self._pump.expect(-1)

    @property
    def unacked_bytes(self) -> int:
        """The number of sent bytes that the peer has not acknowledged; 0 if this system does not show it."""
        try:
            if sys.platform == "darwin":
                return self.sock.getsockopt(socket.SOL_SOCKET, _SO_NWRITE)
            import fcntl  # not on every platform
            import termios

            return int(INT32_NATIVE.unpack(fcntl.ioctl(self.sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0])
        except (ImportError, OSError):
            return 0

    def close(self) -> None:
        """Close the connection, and drop what waits."""
        if self._watched is not None:
            self._pump.selector.forget_relay(self.sock.fileno())
            self._watched = None
        if self._expects_rest:
            self.expect_no_rest()
        self.pending = b""
        if self._kept_chunk is not None:
            self._return_chunk()
        self.on_event = _ignore  # it refers to the session
        self.sock.close()

    def _return_chunk(self) -> None:
        if self._kept_chunk is not None:
            self._pump.return_chunk(self._kept_chunk)
            self._kept_chunk = None


def _ignore(mask: int) -> None: ...
