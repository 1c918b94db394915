"""Lines that TCP connections go along, each to a node of a cluster: they can be led elsewhere, cut, held up, closed.

A line listens on some ports and leads to one address. When it leads elsewhere, its connections are cut in the same
step, as when a broker is replaced; or they stay with the former address, as behind a load balancer. So no byte that was
sent to the one arrives at the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import TypeVar

from kproxy.base.address import Address
from tests.soak.arrivals import Arrivals, Connection
from tests.soak.ports import bound

_Result = TypeVar("_Result")
_CHUNK = 65536
_MOST = 600  # connections of one line; one more is closed at once
_SECONDS = 30  # for a step that takes none, on a busy machine
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER that turns a close into a reset


class Switch:
    """The thread in which all lines are. Use it as a context manager. `arrivals` sees what passes along them."""

    def __init__(self) -> None:
        self.arrivals = Arrivals()
        self._lines: list[Line] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Switch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.close()
        self.do(_settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    def line(self, home: Address) -> Line:
        """A line to this address; it listens nowhere yet."""
        made = Line(self, home)
        self._lines.append(made)
        return made

    def do(self, step: Coroutine[object, object, _Result]) -> _Result:
        """Do this in the lines' thread; what does not wait there is one step."""
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(_SECONDS)


async def _settle() -> None:
    """Wait for the end of everything else there is in this thread."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    await asyncio.sleep(0)  # transports say their last word


class Line:
    """Its methods may be called in any thread but that of the lines, and have their effect when they return."""

    def __init__(self, switch: Switch, home: Address) -> None:
        self._switch = switch
        self._home = home
        self._detour: Address | None = None
        self._ports: dict[int, socket.socket | None] = {}  # None: it refuses
        self._taken: set[asyncio.Task[None]] = set()
        self._refuses = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._cuts = 0

    def listen(self, port: int) -> None:
        """Listen on this port of `Ports` too."""

        async def step() -> None:
            self._ports[port] = None
            await self._serve_all()

        self._switch.do(step())

    def leave(self, port: int) -> None:
        """No longer listen on this port; connections that came through it stay."""

        async def step() -> None:
            self._stop(self._ports.pop(port))

        self._switch.do(step())

    def move(self, home: Address) -> None:
        """The node has moved: lead there, unless there is a detour."""

        async def step() -> None:
            if home != self._home:
                self._home = home
                if self._detour is None:
                    self._cut(reset=True)

        self._switch.do(step())

    def lead(self, to: Address | None, *, reset: bool | None) -> None:
        """Lead to this address instead of home (None: home again), and cut every connection, unless `reset` is None."""

        async def step() -> None:
            self._detour = to
            if reset is not None:
                self._cut(reset)

        self._switch.do(step())

    def cut(self, *, reset: bool) -> None:
        """End every connection, by a reset or by closing it."""

        async def step() -> None:
            self._cut(reset)

        self._switch.do(step())

    def refuse(self, refuses: bool) -> None:
        """Take no connections, as where nothing listens; or take them again."""

        async def step() -> None:
            self._refuses = refuses
            await self._serve_all()

        self._switch.do(step())

    def hold(self, holds: bool) -> None:
        """Pass no byte on, in no direction; or pass on what waits."""

        async def step() -> None:
            if holds:
                self._flowing.clear()
            else:
                self._flowing.set()

        self._switch.do(step())

    def close(self) -> None:
        """The end of it."""

        async def step() -> None:
            for listening in self._ports.values():
                self._stop(listening)
            self._ports.clear()
            self._flowing.set()
            self._cut(reset=True)

        self._switch.do(step())

    # In the lines' thread

    async def _serve_all(self) -> None:
        for port, listening in self._ports.items():
            if self._refuses:
                self._stop(listening)
                self._ports[port] = None
            elif listening is None:
                self._ports[port] = self._listen(port)

    # Not asyncio's server: until Python 3.12 it forgets a connection that it accepts while it is being closed.

    def _listen(self, port: int) -> socket.socket:
        listening = bound(port)
        listening.setblocking(False)
        listening.listen(100)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)
        return listening

    def _stop(self, listening: socket.socket | None) -> None:
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            task = asyncio.get_running_loop().create_task(self._take(connection))
            self._taken.add(task)
            task.add_done_callback(self._taken.discard)

    async def _take(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        await self._pass_on(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def _cut(self, reset: bool) -> None:
        self._cuts += 1
        for writer in self._open:
            _end(writer, reset)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MOST:
            _end(writer, reset=True)
            return
        cuts, home, to = self._cuts, self._home, self._detour or self._home
        self._open.add(writer)
        far = None
        try:
            far_reader, far = await asyncio.open_connection(to.host, to.port)
            self._open.add(far)
            if cuts == self._cuts:  # else it leads elsewhere by now
                seen = self._switch.arrivals.connection(to, home)
                await asyncio.gather(self._copy(reader, far, seen), self._copy(far_reader, writer))
        except OSError:  # an end on one side is one on the other
            pass
        finally:
            for one in (writer, far):
                if one is not None:
                    _end(one, reset=True)
                    self._open.discard(one)
                    with contextlib.suppress(OSError):
                        await one.wait_closed()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Connection | None = None
    ) -> None:
        while data := await reader.read(_CHUNK):
            await self._flowing.wait()
            if seen is not None:
                seen.feed(data)
            writer.write(data)
            await writer.drain()
        await self._flowing.wait()
        writer.write_eof()


def _end(writer: asyncio.StreamWriter, reset: bool) -> None:
    sock = writer.get_extra_info("socket")
    if reset and sock.fileno() >= 0:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
