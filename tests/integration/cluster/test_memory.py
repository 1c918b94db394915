"""Memory and many sessions: whatever goes through kproxy, or waits in it, it stays small."""

from __future__ import annotations

import asyncio
import os
import resource
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.frames import Frames, address, api_versions, fetch, metadata
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import create_topic, leaders, local_addresses, produce, read_topic, values

pytestmark = pytest.mark.integration

MB = 1 << 20


def peak_rss(kproxy: Kproxy) -> int:
    """The most memory that it has had resident at any time since it started, in bytes."""
    status = Path(f"/proc/{kproxy.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def grow(kproxy: Kproxy, idle: int) -> str:
    return f"kproxy {idle / MB:.1f} MB idle, at most {peak_rss(kproxy) / MB:.1f} MB"


@pytest.fixture(scope="module")
def large(cluster: DevCluster) -> str:
    """A topic of one partition with 20 records of 5 MB, none like another, that do not compress."""
    topic = create_topic(cluster.direct_bootstrap, 1, 1, max_message_bytes=str(6 * MB))
    producer = Producer({"bootstrap.servers": cluster.direct_bootstrap, "message.max.bytes": 6 * MB, "linger.ms": 0})
    for number in range(20):
        producer.produce(topic, os.urandom(5 * MB), key=b"%d" % number)
        assert producer.flush(60) == 0
    return topic


def leader_of(bootstrap: str, topic: str) -> int:
    return leaders(bootstrap, topic)[0]


def test_100_mb_of_fetch_responses_never_sit_in_memory(
    cluster: DevCluster,
    own_kproxy: Callable[..., Kproxy],
    large: str,
    figures: list[str],
) -> None:
    kproxy = own_kproxy(cluster.bootstrap)
    leader = leader_of(kproxy.bootstrap, large)
    idle = kproxy.rss
    # The largest single frame that the broker makes (its fetch.max.bytes), to the last byte.
    question = fetch(7, large, 0, 0, 200 * MB)
    with Frames(str(cluster.dial[leader])) as direct, Frames(local_addresses(kproxy)[leader]) as through:
        expected = direct.ask(question)
        assert len(expected) > 90 * MB
        assert through.ask(question) == expected
    # And all of it, through an ordinary consumer that wants as much as it can get.
    wide = {
        "fetch_max_bytes": 100 * MB,
        "max_partition_fetch_bytes": 100 * MB,
        "receive_message_max_bytes": 200 * MB,
    }
    got = {one.key(): one.value() for one in read_topic(kproxy.bootstrap, large, 1, **wide)}
    sent = {one.key(): one.value() for one in read_topic(cluster.direct_bootstrap, large, 1, **wide)}
    assert len(sent) == 20
    assert got == sent
    assert kproxy.metric("kproxy_bytes_total", direction="upstream_to_client") > 150 * MB
    figures.append(f"{len(expected) / MB:.0f} MB in one frame, 100 MB in all: {grow(kproxy, idle)}")
    assert peak_rss(kproxy) - idle < 16 * MB


def test_a_client_that_reads_nothing(
    cluster: DevCluster,
    own_kproxy: Callable[..., Kproxy],
    large: str,
    figures: list[str],
) -> None:
    """The broker has 1 GB for it: kproxy takes what the kernel buffers, and no more. Others do not notice."""
    kproxy = own_kproxy(cluster.bootstrap)
    topic = create_topic(kproxy.bootstrap)
    leader = leader_of(kproxy.bootstrap, large)
    idle = kproxy.rss

    with Frames(str(cluster.dial[leader])) as direct, Frames(local_addresses(kproxy)[leader]) as slow:
        expected = memoryview(direct.ask(fetch(0, large, 0, 0, 20 * MB)))[4:]
        frames = 1024 * MB // len(expected) + 1
        slow.send(*(fetch(number, large, 0, 0, 20 * MB) for number in range(frames)))

        taken = wait_until_still(lambda: kproxy.metric("kproxy_bytes_total", node=str(leader)))
        records = [b"%d" % number for number in range(10_000)]
        produce(kproxy.bootstrap, topic, records)
        assert values(read_topic(kproxy.bootstrap, topic)) == sorted(records)
        with Frames(local_addresses(kproxy)[leader]) as quick:  # at the very node that the slow one is stuck with
            assert quick.ask(fetch(1, large, 0, 0, 20 * MB))[4:] == expected
        figures.append(
            f"{frames * len(expected) / MB:.0f} MB wait, {taken / MB:.1f} MB of them beyond the broker:"
            f" {grow(kproxy, idle)}",
        )
        assert 0 < taken < 64 * MB
        assert peak_rss(kproxy) - idle < 16 * MB

        for number in range(frames):
            at = -4
            for part in slow.stream():
                if at < 0:
                    head, part = part[:4], part[4:]
                    assert len(head) == 4
                    assert struct.unpack(">i", head) == (number,)
                    at = 0
                assert part == expected[at : at + len(part)], f"response {number} differs after byte {at}"
                at += len(part)
            assert at == len(expected)
    figures.append(f"after it has read all of it: {grow(kproxy, idle)}")
    assert peak_rss(kproxy) - idle < 16 * MB


def test_100_clients_that_read_nothing(
    cluster: DevCluster,
    own_kproxy: Callable[..., Kproxy],
    large: str,
    figures: list[str],
) -> None:
    """What kproxy holds of each is 256 KiB at most, but for two chunks of 1 MiB."""
    kproxy = own_kproxy(cluster.bootstrap)
    leader = leader_of(kproxy.bootstrap, large)
    idle = kproxy.rss
    with ExitStack() as stack:
        for number in range(100):
            slow = stack.enter_context(Frames(local_addresses(kproxy)[leader]))
            slow.send(fetch(number, large, 0, 0, 20 * MB))
        taken = wait_until_still(lambda: kproxy.metric("kproxy_bytes_total", node=str(leader)))
        with Frames(local_addresses(kproxy)[leader]) as quick:
            assert quick.ask(api_versions(5))[:4] == struct.pack(">i", 5)
        figures.append(f"100 clients wait for 20 MB each, {taken / MB:.0f} MB beyond the broker: {grow(kproxy, idle)}")
        assert peak_rss(kproxy) - idle < 100 * MB // 4 + 16 * MB
    wait_until(lambda: kproxy.metric("kproxy_sessions_open", node=str(leader)) == 0, "their sessions end")


async def test_500_idle_and_200_busy_sessions(
    cluster: DevCluster,
    own_kproxy: Callable[..., Kproxy],
    file_limit: None,
    figures: list[str],
) -> None:
    kproxy = own_kproxy(cluster.bootstrap)
    topic = create_topic(cluster.direct_bootstrap)
    before = kproxy.rss
    async with asyncio.timeout(120), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Peer.connect(kproxy.bootstrap)) for _ in range(700)]
        idle, busy = clients[:500], clients[500:]
        for client in clients:  # a session begins with the first byte
            assert await client.ask(metadata(client.next_id(), [topic]))
        assert await asyncio.to_thread(kproxy.metric, "kproxy_sessions_open", node="bootstrap") == 700

        finished = asyncio.Event()
        records = [b"%d" % number for number in range(20_000)]

        async def real_clients() -> None:
            try:
                await asyncio.to_thread(produce, kproxy.bootstrap, topic, records)
                got = await asyncio.to_thread(read_topic, kproxy.bootstrap, topic)
                assert values(got) == sorted(records)
            finally:
                finished.set()

        async def keep_busy(client: Peer) -> int:
            rounds = 0
            while not (finished.is_set() and rounds >= 20):
                assert await client.ask(api_versions(client.next_id()))
                rounds += 1
            return rounds

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(real_clients())
            rounds = [tasks.create_task(keep_busy(client)) for client in busy]
        for client in idle:  # still there, and each gets an answer of its own
            assert await client.ask(api_versions(client.next_id()))
        assert len({client.said for client in clients}) == 1  # all were told the same versions
        assert kproxy.metric("kproxy_sessions_open", node="bootstrap") == 700
        figures.append(
            f"500 idle and 200 busy sessions, {sum(task.result() for task in rounds)} requests, {len(records)} records"
            f" beside them: {grow(kproxy, before)}",
        )
        assert peak_rss(kproxy) - before < 32 * MB
        assert kproxy.metric("kproxy_refused_total") == 0
    wait_until(lambda: kproxy.metric("kproxy_sessions_open", node="bootstrap") == 0, "the sessions end")


@pytest.fixture
def file_limit() -> Iterator[None]:
    """Room for 700 connections in the test's own process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Peer:
    """One connection that asks, and checks that the answer is to what it asked."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._last_id = 0
        self.said = b""

    @classmethod
    @asynccontextmanager
    async def connect(cls, where: str) -> AsyncIterator[Peer]:
        reader, writer = await asyncio.open_connection(*address(where))
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    async def ask(self, request: bytes) -> bytes:
        """The answer, without its size and correlation id."""
        self._writer.write(request)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        response = await self._reader.readexactly(size)
        assert response[:4] == request[8:12]
        self.said = response[4:]
        return self.said


def wait_until_still(count: Callable[[], float]) -> float:
    """The count, once it has begun and has stayed the same for 20 looks in a row."""
    seen: list[float] = []

    def still() -> bool:
        seen.append(count())
        return seen[-1] > 0 and len(seen) >= 20 and len(set(seen[-20:])) == 1

    wait_until(still, "the bytes from upstream stop")
    return seen[-1]
