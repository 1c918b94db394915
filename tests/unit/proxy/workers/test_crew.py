"""A crew of real processes, some of which are killed or stopped. Nobody who connects is left hanging."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import socket
import struct
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.config import ClusterConfig, Config
from kproxy.protocol.wire import api
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.known import Explored
from kproxy.proxy.cluster.places import Places
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.workers import forker, pulse
from kproxy.proxy.workers.crew import Crew
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="--workers needs Linux")

ASK = struct.pack(">ihhihs", 11, 18, 0, 7, 1, b"t")  # ApiVersions v0


async def until(reached: Callable[[], Any], what: str) -> None:
    try:
        async with asyncio.timeout(60):
            while not reached():  # noqa: ASYNC110  # processes set no asyncio.Event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class SlowBroker(FakeBroker):
    """Answers ListOffsets with nothing, as soon as it may."""

    def __init__(self) -> None:
        super().__init__([(1, "127.0.0.1", 1)])
        self.may = threading.Event()
        self.heard = threading.Event()

    def answer(self, connection: socket.socket, request: bytes) -> bool:
        if request[:2] == struct.pack(">h", api.LIST_OFFSETS):
            self.heard.set()
            assert self.may.wait(60)
            connection.sendall(struct.pack(">i", 8) + request[4:8] + b"none")
            return True
        return super().answer(connection, request)


class Client:
    """One connection. `asks` says whether it was answered; False if it was closed; neither of both fails the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def asks(self) -> bool:
        self.writer.write(ASK)
        async with asyncio.timeout(60):
            try:
                size, correlation_id = struct.unpack(">ii", await self._reader.readexactly(8))
                return correlation_id == 7 and (await self._reader.readexactly(size - 4))[:2] == b"\0\0"
            except (asyncio.IncompleteReadError, ConnectionError):
                return False


class Running:
    """A crew of two, a gateway before it, a broker behind it."""

    def __init__(self, crew: Crew, gateway: Gateway, broker: SlowBroker, held: contextlib.ExitStack) -> None:
        self.crew, self.gateway, self.broker, self._held = crew, gateway, broker, held

    @property
    def pids(self) -> list[int]:
        """Of the workers that are well."""
        return [worker.pid for worker in self.crew._workers.values() if worker.well]

    @property
    def forker(self) -> int:
        return self.crew.forker.pid if self.crew.forker.there.is_set() else 0

    async def complete(self) -> None:
        await until(lambda: len(self.pids) == 2 and self.forker, "two workers and a forker")

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection(self.gateway.listen.host, self.gateway.listen.port))
        self._held.callback(client.writer.close)
        return client

    def of(self, pid: int) -> int:
        return next(len(worker.clients) for worker in self.crew._workers.values() if worker.pid == pid)


@pytest.fixture
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setattr(pulse, "TURN", 0.2)
    broker = SlowBroker()
    with Peer(broker) as peer, contextlib.ExitStack() as held:
        cluster = ClusterConfig(bootstrap_servers=(Address.parse(peer.address),), listen=Address("127.0.0.1", 0))
        async with asyncio.TaskGroup() as tasks:
            metrics = Metrics()
            crew = Crew(Config(clusters=(cluster,), workers=2), metrics, tasks)
            carry, changed = partial(crew.carry, cluster.name), partial(crew.changed, cluster.name)
            gateway = Gateway(cluster, metrics, tasks, Places(), carry, changed)
            gateway.reach.note(Explored(settled=True, answered=True, searched=True, problem=None))
            crew.serve([gateway])
            held.callback(broker.may.set)
            made = Running(crew, gateway, broker, held)
            await made.complete()
            of_it = [*made.pids, made.forker]
            yield made
            of_it += [*made.pids, made.forker]
            gateway.stop_accepting()
            await crew.drain(0)
            await gateway.reach.close()
    await until(lambda: not any(alive(pid) for pid in of_it if pid), "every process has ended")


NAMES = {signal.SIGKILL: "killed", signal.SIGSTOP: "stopped", None: "well"}


@pytest.mark.parametrize("to_forker", NAMES, ids=lambda one: f"forker {NAMES[one]}")
@pytest.mark.parametrize("to_worker", NAMES, ids=lambda one: f"worker {NAMES[one]}")
async def test_what_is_lost_is_replaced_and_what_lives_goes_on(
    to_worker: signal.Signals | None,
    to_forker: signal.Signals | None,
    running: Running,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = await running.connect(), await running.connect()
    assert await first.asks()
    assert await second.asks()  # one is with each worker
    worker, other, its_forker = *running.pids, running.forker
    assert (running.of(worker), running.of(other)) == (1, 1)
    if to_forker is not None:
        os.kill(its_forker, to_forker)
    if to_worker is not None:
        os.kill(worker, to_worker)
        await until(lambda: worker not in running.pids, "it is noticed")
        await until(lambda: not alive(worker), "it has ended")
    if to_forker is not None:
        await until(lambda: running.forker not in (0, its_forker), "another takes its place")
        assert f"the process that starts workers (process {its_forker}) was ended by SIGKILL" in caplog.text
    await running.complete()
    assert other in running.pids
    assert sorted([await first.asks(), await second.asks()]) == [to_worker is None, True]
    for _ in range(4):
        assert await (await running.connect()).asks()
    assert (f"(process {worker}) has ended, with its 1 connections: kproxy starts another" in caplog.text) == (
        to_worker is not None
    )
    for which, pid in ((to_worker, worker), (to_forker, its_forker)):
        silent = f"(process {pid}) has not answered for " in caplog.text
        assert silent == (which is signal.SIGSTOP)


async def test_clients_in_the_queue_of_a_stopped_worker_go_to_another(running: Running) -> None:
    stopped, other = running.pids
    os.kill(stopped, signal.SIGSTOP)
    clients = [await running.connect() for _ in range(6)]
    assert all(await asyncio.gather(*(client.asks() for client in clients)))
    assert running.of(other) == len(clients)


async def test_a_worker_that_is_continued_goes_on(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    before = [await running.connect() for _ in range(2)]
    assert all([await client.asks() for client in before])
    pids = running.pids
    os.kill(pids[0], signal.SIGSTOP)
    await until(lambda: pids[0] not in running.pids, "it is noticed")
    os.kill(pids[0], signal.SIGCONT)
    await running.complete()
    assert running.pids == pids
    assert all([await client.asks() for client in before])
    for _ in range(2):
        assert await (await running.connect()).asks()
    assert [running.of(pid) for pid in pids] == [2, 2]
    assert f"process {pids[0]}, a worker, answers again" in caplog.text


async def test_without_any_worker_clients_wait_for_a_while(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    pids = running.pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    await until(lambda: not running.pids, "it is noticed")
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task((await running.connect()).asks())
        await until(lambda: running.crew._held, "the client waits")
        os.kill(pids[0], signal.SIGCONT)
    assert asking.result()
    os.kill(pids[0], signal.SIGSTOP)
    await until(lambda: not running.pids, "it is noticed again")
    await (await running.connect()).asks()  # it was closed, or one of the successors has it: it does not hang
    await running.complete()
    assert await (await running.connect()).asks()


async def test_a_client_is_closed_that_no_worker_takes(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    for worker in running.crew._workers.values():
        worker.started = False  # and it never says that it is
    assert not await (await running.connect()).asks()
    assert "no worker was available for a connection within 10 s: kproxy closed it" in caplog.text
    assert running.gateway.sessions == 0


async def test_a_drain_does_not_wait_for_what_is_stopped(running: Running) -> None:
    client = await running.connect()
    assert await client.asks()
    of_it = [*running.pids, running.forker]
    for pid in of_it:
        os.kill(pid, signal.SIGSTOP)
    running.gateway.stop_accepting()
    async with asyncio.timeout(30):
        assert await running.crew.drain(0.1) == 1
    await until(lambda: not any(map(alive, of_it)), "every process has ended")
    assert running.gateway.sessions == 0
    assert not await client.asks()


async def test_out_of_files_in_the_forker(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    worker, before = running.pids[0], resource.prlimit(running.forker, resource.RLIMIT_NOFILE)
    resource.prlimit(running.forker, resource.RLIMIT_NOFILE, (4, before[1]))
    os.kill(worker, signal.SIGKILL)
    await until(lambda: "a worker cannot be started: too many open files" in caplog.text, "it is said")
    assert await (await running.connect()).asks()
    resource.prlimit(running.forker, resource.RLIMIT_NOFILE, before)
    await running.complete()


async def test_out_of_files_here(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socketpair", fails)
        os.kill(running.pids[0], signal.SIGKILL)
        os.kill(running.forker, signal.SIGKILL)
        said = "the process that starts workers cannot be started: Too many open files"
        await until(lambda: said in caplog.text, "it is said")
    await running.complete()
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socketpair", fails)
        os.kill(running.pids[0], signal.SIGKILL)
        await until(lambda: "a worker cannot be started: Too many open files" in caplog.text, "it is said")
        assert await (await running.connect()).asks()
    await running.complete()


FAILS_ONCE = """\
import os
fork, failures = os.fork, iter([BlockingIOError(11, "no processes")])
def one():
    for error in failures:
        raise error
    return fork()
os.fork = one
"""


async def test_the_system_gives_no_process(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(forker, "_PROGRAM", FAILS_ONCE + forker._PROGRAM)
    os.kill(running.forker, signal.SIGKILL)
    await until(lambda: not running.forker, "it has ended")
    os.kill(running.pids[0], signal.SIGKILL)
    await until(lambda: "a worker cannot be started: no processes" in caplog.text, "it is said")
    await running.complete()


# Holding the clients' requests

SLOW = struct.pack(">ihhihs", 11, 2, 1, 9, 1, b"t")  # ListOffsets v1
CLUSTER = "default"


async def answer_of(client: Client) -> bytes:
    async with asyncio.timeout(60):
        (size,) = struct.unpack(">i", await client._reader.readexactly(4))
        return await client._reader.readexactly(size)


async def test_a_hold_is_there_when_nothing_is_in_flight_in_any_worker(running: Running) -> None:
    first, second = await running.connect(), await running.connect()
    assert await first.asks()
    assert await second.asks()
    assert sorted(map(running.of, running.pids)) == [1, 1]
    first.writer.write(SLOW)
    await asyncio.to_thread(running.broker.heard.wait)
    async with asyncio.TaskGroup() as tasks:
        holding = tasks.create_task(running.crew.hold(60, CLUSTER))
        await running.crew.metrics()  # the workers have answered what they were asked after it
        assert not holding.done()
        running.broker.may.set()
    assert await answer_of(first) == struct.pack(">i", 9) + b"none"
    await running.crew.hold(60)  # somebody else, all clusters
    third = await running.connect()
    asking = [asyncio.get_running_loop().create_task(client.asks()) for client in (first, second, third)]
    running.crew.release(CLUSTER)
    await running.crew.metrics()
    assert not any(one.done() for one in asking)
    running.crew.release()
    assert await asyncio.gather(*asking) == [True] * 3


async def test_a_hold_that_takes_too_long_is_undone(running: Running) -> None:
    first, second = await running.connect(), await running.connect()
    assert await first.asks()
    first.writer.write(SLOW)
    await asyncio.to_thread(running.broker.heard.wait)
    with pytest.raises(TimeoutError):
        await running.crew.hold(0.1, CLUSTER)
    assert await second.asks()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_worker_that_replaces_another_holds_too(running: Running, how: signal.Signals) -> None:
    first, second = await running.connect(), await running.connect()
    assert await first.asks()
    assert await second.asks()
    await running.crew.hold(60, CLUSTER)
    lost = running.pids[0]
    os.kill(lost, how)
    await until(lambda: len(running.pids) == 2 and lost not in running.pids, "another takes its place")
    await running.crew.hold(60, CLUSTER)
    clients = [await running.connect() for _ in range(4)]
    asking = [asyncio.get_running_loop().create_task(client.asks()) for client in clients]
    await until(lambda: running.gateway.sessions >= 4, "the workers have them")
    await running.crew.metrics()
    assert not any(one.done() for one in asking)
    for _ in range(2):
        running.crew.release(CLUSTER)
    assert await asyncio.gather(*asking) == [True] * 4
