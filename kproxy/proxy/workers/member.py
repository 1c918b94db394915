"""One worker, as the main process has it: what it is told, what it has, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from kproxy.proxy.cluster.door import Visit
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.metrics import Numbers
from kproxy.proxy.status.shown import SessionStatus
from kproxy.proxy.workers import messages
from kproxy.proxy.workers.forker import Forker
from kproxy.proxy.workers.forking import LARGEST_PACKET
from kproxy.proxy.workers.pulse import Pulse
from kproxy.proxy.workers.told import Told

# For how many turns a worker may be silent until it is given no more clients.
QUIET = 3


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """A client that has spoken: its socket, the cluster's name, the node (None: a bootstrap
    server), the host by which it found kproxy, and its visit."""

    socket: socket.socket
    cluster: str
    key: NodeKey | None
    host: str
    visit: Visit

    def close(self) -> None:
        """Nobody takes it."""
        self.socket.close()
        self.visit.over()


class Member:
    """A worker from before its start until after its end. `clients` are those that it was given, by number; their
    sockets are closed here when it has them."""

    def __init__(self, forker: Forker) -> None:
        """Raises OSError: there are no more sockets."""
        self._loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as undo:
            self._calls, calls = (undo.enter_context(one) for one in socket.socketpair())
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            # Its end stays open here: what it does not take in time is taken back there.
            self._packets, self._its_end = (undo.enter_context(one) for one in pair)
            self._packets.setblocking(False)
            self._its_end.setblocking(False)  # as the worker does; recv_fds takes no flags
            undo.pop_all()
        with calls:
            forker.fork(calls, self._its_end, self._is_process)
        self._writer: asyncio.StreamWriter | None = None
        self._unsent: deque[tuple[bytes, int, socket.socket | None]] = deque()
        self._next = count()
        self.clients: dict[int, Client] = {}
        self.pid = 0
        self.started = False
        self.pulse = Pulse(lambda: self.send(messages.Ping()))
        self.edition = 0  # of the configuration that it has said it follows
        self.draining = 0  # sessions, for that
        self.settled: set[int] = set()  # the holds since which nothing is in flight in its sessions
        self.numbers = Told(Numbers())
        self.sessions: Told[Sequence[SessionStatus]] = Told(())

    def _is_process(self, pid: int) -> None:
        self.pid = pid

    @property
    def well(self) -> bool:
        """Whether it is there and answers."""
        return self.started and self.pulse.silent < QUIET

    async def listen(self, hear: Callable[[Member, object], None]) -> None:
        """Hear what the worker says, until it has ended."""
        reader, self._writer = await asyncio.open_connection(sock=self._calls)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = messages.SIZE.unpack(await reader.readexactly(messages.SIZE.size))
                hear(self, pickle.loads(await reader.readexactly(size)))

    def answer(self, number: int, answer: object) -> None:
        """The answer to what it asked."""
        assert self._writer is not None
        self._writer.write(messages.framed((number, answer)))

    def take(self, client: Client) -> None:
        """Let it carry this client."""
        number = next(self._next)
        self.clients[number] = client
        self.send(
            messages.Take(number, client.cluster, client.key, client.host, client.visit.peer), number, client.socket
        )

    def take_back(self) -> list[Client]:
        """The clients that it has not taken so far; it never will. Of all else that it was sent, nothing is kept."""
        back = []
        with contextlib.suppress(BlockingIOError):
            while True:
                data, fds, _, _ = socket.recv_fds(self._its_end, LARGEST_PACKET, 1)
                if not data:
                    break
                message = pickle.loads(data)
                if isinstance(message, messages.Take):
                    client = self.clients.pop(message.number)
                    if fds:
                        back.append(replace(client, socket=socket.socket(fileno=fds[0])))
                    else:  # no file descriptor is free here
                        client.visit.over()
        back += [self.clients.pop(number) for _, number, client in self._unsent if client is not None]
        self._unsent.clear()
        self._flush()
        return back

    def let_go(self, number: int) -> None:
        """It has closed this client's connection."""
        self.clients.pop(number).visit.over()

    def send(self, message: object, number: int = -1, client: socket.socket | None = None) -> None:
        """Say something, as soon as it has room for it."""
        self._unsent.append((pickle.dumps(message, pickle.HIGHEST_PROTOCOL), number, client))
        self._flush()

    def _flush(self) -> None:
        while self._unsent:
            packet, number, client = self._unsent[0]
            try:
                if client is None:
                    self._packets.send(packet)
                else:
                    socket.send_fds(self._packets, [packet], [client.fileno()])
            except BlockingIOError:
                self._loop.add_writer(self._packets, self._flush)
                return
            except OSError:  # the system passes on no more sockets now
                if client is not None:
                    self.let_go(number)
            if client is not None:
                client.close()
            self._unsent.popleft()
        if self._packets.fileno() >= 0:
            self._loop.remove_writer(self._packets)

    def hang_up(self) -> None:
        """Let it end at once."""
        if self._packets.fileno() >= 0:
            self._loop.remove_writer(self._packets)
            self._packets.close()

    def kill(self) -> None:
        """End it, and do not wait for that. No end of file has come from it, so its id means no other process."""
        if self.pid:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        if self._writer is not None:
            self._writer.transport.abort()

    def end(self) -> tuple[list[Client], int]:
        """It has ended; return the clients that it never had, and how many have ended with it."""
        back = self.take_back()
        self.hang_up()
        self._its_end.close()
        if self._writer is not None:
            self._writer.transport.abort()
        else:
            self._calls.close()
        self.numbers.comes_no_more()
        self.sessions.comes_no_more()
        lost = len(self.clients)
        for client in self.clients.values():
            client.visit.over()
        self.clients.clear()
        return back, lost
