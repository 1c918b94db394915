"""The workers, as the main process directs them: each client goes to the one that has the fewest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import socket
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count

from kproxy.cluster.gateway import Gateway
from kproxy.cluster.topology import Node, NodeKey
from kproxy.errors import WireError
from kproxy.metrics import Metrics, Numbers
from kproxy.workers import messages
from kproxy.workers.nursery import Nursery

log = logging.getLogger(__name__)

# How often the numbers of a worker are asked for beside scrapes, in seconds: what it has not told is lost when it dies.
_COUNT_EVERY = 5.0
# What a scrape waits for a worker's numbers, in seconds; it then has those of the last time.
_COUNT_WITHIN = 2.0
# Between the start of a worker that ended at once and that of its successor, in seconds.
_PAUSE = 1.0
# What workers have to end in once they have nothing to do, in seconds.
_END_WITHIN = 5.0


class Crew:
    """All workers."""

    def __init__(self, size: int, nursery: Nursery, metrics: Metrics, tasks: asyncio.TaskGroup) -> None:
        self._size = size
        self._nursery = nursery
        self._metrics = metrics
        self._tasks = tasks
        self._gateways: list[Gateway] = []
        self._workers: dict[int, _Worker] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._background: list[asyncio.Task[None]] = []
        self._ended = Numbers()  # of workers that are no more
        self._stopping = False
        self._check_quiet: Callable[[], None] = lambda: None

    def serve(self, gateways: list[Gateway]) -> None:
        """Carry the sessions of these clusters from now on."""
        self._gateways = gateways
        for at, gateway in enumerate(gateways):
            gateway.carry = partial(self._carry, at)
            gateway.on_change = partial(self._changed, at)
        self._keepers = [self._tasks.create_task(self._keep(number)) for number in range(1, self._size + 1)]
        self._background = [*self._keepers, self._tasks.create_task(self._count_now_and_then())]

    async def _keep(self, number: int) -> None:
        """Have a worker of this number, until kproxy stops."""
        loop = asyncio.get_running_loop()
        while not self._stopping:
            began = loop.time()
            worker = self._workers[number] = _Worker(self._nursery)
            try:
                await worker.listen(self._hear)
            finally:
                del self._workers[number]
                lost = worker.end()
                self._ended.add_ended(worker.numbers)
                self._check_quiet()
            if not self._stopping:
                log.error(
                    "worker %d (process %d) has ended, and %d connections with it: another takes its place",
                    number, worker.pid, lost,
                )  # fmt: skip
                await asyncio.sleep(max(0.0, began + _PAUSE - loop.time()))

    async def _count_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_COUNT_EVERY)
            for worker in self._workers.values():
                worker.send(messages.Count())

    def _hear(self, worker: _Worker, message: object) -> None:
        match message:
            case messages.Ended(number):
                worker.let_go(number)
                self._check_quiet()
            case messages.Asked(number, question):
                worker.answer(number, self._answer(question))
            case messages.Dialled(at, key, route, problem):
                reach = self._gateways[at].reach
                before = reach.outcome(key)
                reach.note(key, route, problem)
                if reach.outcome(key) != before:
                    self._changed(at)
            case messages.Logged(logger, level, text):
                logging.getLogger(logger).log(level, "%s", text)
            case messages.Started(pid):
                worker.pid = pid
            case Numbers():
                worker.numbers = message
                worker.counted.set()

    def _answer(self, question: object) -> object:
        match question:
            case messages.Look(at):
                return _view(self._gateways[at])
            case messages.Localise(at, host, endpoints):
                gateway = self._gateways[at]
                try:
                    return messages.Localised(tuple(gateway.localise(host, endpoints)), _view(gateway))
                except WireError as error:
                    return messages.Refused(error.reason, str(error))
        raise AssertionError(f"nobody asks this: {question}")

    def _changed(self, at: int) -> None:
        for worker in self._workers.values():
            worker.send(messages.Changed(at))

    def _carry(self, at: int, client: socket.socket, key: NodeKey | None, host: str, done: Callable[[], None]) -> None:
        if not self._workers:  # each has just ended
            client.close()
            done()
            return
        worker = min(self._workers.values(), key=lambda worker: len(worker.clients))
        worker.take(client, at, key, host, done)

    # What the app asks for

    async def metrics(self) -> Metrics:
        """The sums over all processes."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.counted.clear()
            worker.send(messages.Count())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COUNT_WITHIN):
                for worker in workers:
                    await worker.counted.wait()
        sums = Numbers()
        for numbers in (self._metrics.numbers(), self._ended, *(worker.numbers for worker in self._workers.values())):
            sums.add(numbers)
        total = Metrics(sums)
        total.listeners_bound = self._metrics.listeners_bound
        return total

    def status(self) -> Mapping[str, object]:
        return {
            "workers": [
                {"worker": number, "pid": worker.pid, "sessions": len(worker.clients)}
                for number, worker in sorted(self._workers.items())
            ]
        }

    async def drain(self, seconds: float) -> int:
        """Close each session as soon as nothing is in flight in it, and after so many seconds all; return how many were
        left then. The workers are gone afterwards."""
        self._stopping = True
        quiet = asyncio.Event()

        def check() -> None:
            if not any(worker.clients for worker in self._workers.values()):
                quiet.set()

        self._check_quiet = check
        for worker in self._workers.values():
            worker.send(messages.Drain())
        check()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await quiet.wait()
        left = sum(len(worker.clients) for worker in self._workers.values())
        for worker in self._workers.values():
            worker.hang_up()
        if self._keepers:
            await asyncio.wait(self._keepers, timeout=_END_WITHIN)
        for task in self._background:
            task.cancel()
        self._nursery.close()
        return left


class _Worker:
    """One worker. `clients`: what to call when a connection that it has is closed."""

    def __init__(self, nursery: Nursery) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls, calls = socket.socketpair()
        self._packets, packets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._packets.setblocking(False)
        nursery.fork(calls, packets)
        self._writer: asyncio.StreamWriter | None = None
        self._unsent: deque[tuple[bytes, int, socket.socket | None]] = deque()
        self._next = count()
        self.clients: dict[int, Callable[[], None]] = {}
        self.pid = 0
        self.numbers = Numbers()
        self.counted = asyncio.Event()

    async def listen(self, hear: Callable[[_Worker, object], None]) -> None:
        """Hear what the worker says, until it has ended."""
        reader, self._writer = await asyncio.open_connection(sock=self._calls)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = messages.SIZE.unpack(await reader.readexactly(messages.SIZE.size))
                hear(self, pickle.loads(await reader.readexactly(size)))

    def answer(self, number: int, answer: object) -> None:
        assert self._writer is not None
        self._writer.write(messages.framed((number, answer)))

    def take(self, client: socket.socket, at: int, key: NodeKey | None, host: str, done: Callable[[], None]) -> None:
        number = next(self._next)
        self.clients[number] = done
        self.send(messages.Take(number, at, key, host), number, client)

    def let_go(self, number: int) -> None:
        self.clients.pop(number)()

    def send(self, message: object, number: int = -1, client: socket.socket | None = None) -> None:
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
            except OSError:  # it has ended, or the system passes on no more sockets now
                if client is not None:
                    self.let_go(number)
            if client is not None:
                client.close()
            self._unsent.popleft()
        self._loop.remove_writer(self._packets)

    def hang_up(self) -> None:
        """Let it end at once."""
        self._loop.remove_writer(self._packets)
        self._packets.close()

    def end(self) -> int:
        """It has ended: so have its connections; return how many."""
        self.hang_up()
        if self._writer is not None:
            self._writer.transport.abort()
        for _, _, client in self._unsent:
            if client is not None:
                client.close()
        self.counted.set()
        lost = len(self.clients)
        for done in self.clients.values():
            done()
        self.clients.clear()
        return lost


def _view(gateway: Gateway) -> messages.View:
    nodes = {
        key: Node(key, node.advertised, gateway.local_address(node, "").port, node.absent_since)
        for key, node in gateway.topology.nodes.items()
    }
    return messages.View(nodes, gateway.reach.found, gateway.bound_addresses())
