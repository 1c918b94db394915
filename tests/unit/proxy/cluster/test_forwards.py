"""Ports of --forward: what passes, what either side can do to it, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.config.values import Forward, Map
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.report import report
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers.peers import reset
from tests.unit.proxy.cluster.doorway import Doorway, Lines, in_loop, until

NOBODY = "127.0.0.1:1"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"that was all")
    writer.close()


class Forwarded:
    """A gateway with a forward to a server of the test's own."""

    def __init__(self, doorway: Doorway, server: asyncio.Server | None) -> None:
        self.doorway = doorway
        self.server = server
        (self.forward,) = doorway.gateway.forwards.port_forwards
        self.files = len(os.listdir("/proc/self/fd"))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.forward.listen.host, self.forward.listen.port)

    async def all_gone(self) -> None:
        """Nothing is left of any connection."""
        await until(lambda: not self.forward.open, "no connection is open")
        await until(lambda: self.doorway.connection_limit.in_use == 0, "no place is taken")
        await until(lambda: len(os.listdir("/proc/self/fd")) <= self.files, "no file is open")


@contextlib.asynccontextmanager
async def forwarded(selector: RelaySelector, serve: Serve | None, **options: Any) -> AsyncIterator[Forwarded]:
    server = None if serve is None else await asyncio.start_server(serve, "127.0.0.1", 0)
    port = 1 if server is None else server.sockets[0].getsockname()[1]
    to = Forward(None, 0, Address("127.0.0.1", port))
    doorway = Doorway(selector, NOBODY, forward=(to,), **{"connect_timeout": 60.0, **options})
    try:
        yield Forwarded(doorway, server)
    finally:
        await doorway.close()
        if server is not None:
            server.close()


@in_loop
async def test_bytes_and_ends_pass_in_both_directions(selector: RelaySelector) -> None:
    async with forwarded(selector, echo) as there:
        reader, writer = await there.connect()
        sent = os.urandom(3_000_000)
        writer.write(sent)
        writer.write_eof()
        assert await reader.read() == sent + b"that was all", "the server has heard the end, and could still speak"
        writer.close()
        await there.all_gone()
        (shown,) = report(there.doorway.gateway).forwards
        assert (shown.problem, shown.connections, shown.accepted) == (None, 0, 1)


@in_loop
async def test_a_server_may_speak_first(selector: RelaySelector) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready")
        await writer.drain()
        await reader.read()
        writer.close()

    async with forwarded(selector, greet) as there:
        reader, writer = await there.connect()
        assert await reader.readexactly(9) == b"220 ready"
        writer.close()
        await there.all_gone()


@in_loop
async def test_many_at_once_do_not_mix(selector: RelaySelector) -> None:
    async def one(there: Forwarded, number: int) -> None:
        reader, writer = await there.connect()
        for _ in range(20):
            writer.write(b"%d\n" % number)
            assert await reader.readline() == b"%d\n" % number
        writer.close()

    async with forwarded(selector, echo) as there:
        await asyncio.gather(*(one(there, number) for number in range(50)))
        await there.all_gone()


def test_nobody_is_there() -> None:
    async def scenario(selector: RelaySelector) -> None:
        async with forwarded(selector, None) as there:
            for _ in range(3):
                reader, writer = await there.connect()
                assert await reader.read() == b""
                writer.close()
            await there.all_gone()
            (shown,) = report(there.doorway.gateway).forwards
            assert shown.problem is not None
            assert "refused" in shown.problem

    with Lines() as log:
        in_loop(scenario)()
    assert len([one for one in log.texts if "cannot reach its target" in one]) == 1, "said once, not for each client"


@pytest.mark.parametrize("who", ["client", "server"])
@pytest.mark.parametrize("how", ["reset", "close"])
@in_loop
async def test_a_side_that_breaks_off_ends_the_other(selector: RelaySelector, who: str, how: str) -> None:
    served: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await served.put((reader, writer))

    async with forwarded(selector, serve) as there:
        client = await there.connect()
        client[1].write(b"x")
        server = await served.get()
        assert await server[0].read(1) == b"x"
        (_, leaves), (stays, writer) = (client, server) if who == "client" else (server, client)
        if how == "reset":
            sock = leaves.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            leaves.transport.abort()
        else:
            leaves.close()
        with contextlib.suppress(ConnectionError):
            assert await stays.read() == b""
        writer.close()
        await there.all_gone()


@in_loop
async def test_a_side_that_does_not_read_costs_little(selector: RelaySelector) -> None:
    """The other one waits."""

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(bytes(65536))
                passed[0] += 65536
                await writer.drain()

    passed = [0]
    async with forwarded(selector, flood) as there:
        sock = socket.create_connection((there.forward.listen.host, there.forward.listen.port))
        before = -1
        while passed[0] != before or not before:
            before = passed[0]
            await asyncio.sleep(0.3)
        assert before < 64 * 1024 * 1024, "what the system keeps, and a few chunks"
        reset(sock)
        await there.all_gone()


def test_no_place_is_left(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(selector: RelaySelector) -> None:
        async with forwarded(selector, echo, connection_limit=ConnectionLimit(128 + 20)) as there:
            most = there.doorway.connection_limit.maximum
            assert most is not None
            opened = [await there.connect() for _ in range(most)]
            await until(lambda: there.doorway.connection_limit.is_full, "all have a place")
            reader, writer = await there.connect()
            assert await reader.read() == b"", "one more is refused"
            writer.close()
            opened[0][1].write(b"x")
            assert await opened[0][0].read(1) == b"x", "which harms no other"
            for _, writer in opened:
                writer.close()
            await there.all_gone()

    in_loop(scenario)()
    assert "no room for a connection" in caplog.text


@in_loop
async def test_a_forward_to_itself_is_no_loop(selector: RelaySelector) -> None:
    """The name resolves to the port itself, which no check of the configuration can see."""
    async with forwarded(selector, echo) as there:
        there.forward.to = Address("127.0.0.1", there.forward.listen.port)
        reader, writer = await there.connect()
        assert await reader.read() == b""
        writer.close()
        await there.all_gone()
        assert there.forward.accepted == 1
        assert "kproxy" in there.forward.problem


@in_loop
async def test_the_maps_of_the_active_upstream_choose_the_server(selector: RelaySelector) -> None:
    async def say_green(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"green")
        writer.close()

    async with forwarded(selector, echo) as there, await asyncio.start_server(say_green, "127.0.0.1", 0) as green:
        gateway, port = there.doorway.gateway, green.sockets[0].getsockname()[1]
        blue_port = there.forward.to.port
        other = gateway.config.replace(upstream="green", map=(Map.parse(f"127.0.0.1:{blue_port}=127.0.0.1:{port}"),))
        upstream = gateway.upstreams["green"] = gateway._upstream(other)
        assert not upstream.dialer.unused_maps(), "no warning that the map matches nothing"
        reader, writer = await there.connect()
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        gateway.flip("green")
        assert await reader.read() == b"", "the connection to the former server has ended"
        writer.close()
        reader, writer = await there.connect()
        assert await reader.read() == b"green"
        writer.close()
        gateway.flip("")
        reader, writer = await there.connect()
        writer.write_eof()
        assert await reader.read() == b"that was all"
        writer.close()
        await until(lambda: not there.forward.open, "no connection is open")


@in_loop
async def test_a_flip_ends_no_connection_that_leads_to_the_same_server(selector: RelaySelector) -> None:
    async with forwarded(selector, echo) as there:
        gateway = there.doorway.gateway
        other = gateway.config.replace(upstream="green", map=(Map.parse("*.elsewhere=127.0.0.1:1"),))
        gateway.upstreams["green"] = gateway._upstream(other)
        reader, writer = await there.connect()
        for to in ("green", "", "green"):
            gateway.flip(to)
            writer.write(b"x")
            assert await reader.read(1) == b"x"
        writer.close()
        await until(lambda: not there.forward.open, "no connection is open")


@in_loop
async def test_the_port_is_taken(selector: RelaySelector) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        files = len(os.listdir("/proc/self/fd"))
        ends = Address("a", 1)
        with pytest.raises(ConfigError, match=f"--forward {port}=a:1: the port is taken"):
            Doorway(selector, NOBODY, forward=(Forward(None, 0, ends), Forward(None, port, ends)))
        assert len(os.listdir("/proc/self/fd")) == files, "nothing is left open"


@in_loop
async def test_the_end_of_a_cluster_is_the_end_of_its_connections(selector: RelaySelector) -> None:
    async with forwarded(selector, echo) as there:
        reader, writer = await there.connect()
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        there.doorway.gateway.end(0.01)
        assert await reader.read() == b""
        writer.close()
        await until(lambda: not there.forward.open, "no connection is open")
        with pytest.raises(ConnectionRefusedError):
            await there.connect()
