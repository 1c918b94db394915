"""A gateway in front of a broker that checks what is expected of it (KIP-1242), and the requests of its clients."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from kproxy.protocol.rewrite.versionsrequest import VersionsRequest
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.unit.kafka_frames import request, string
from tests.unit.proxy.cluster.doorway import Doorway, until

CLUSTER = "c"
CONFIGS = ApiKey.DESCRIBE_CONFIGS, 1  # passes unchanged, and a fake broker answers it
LOGIN = [request(ApiKey.SASL_HANDSHAKE, 1, body=string("PLAIN")), request(ApiKey.SASL_AUTHENTICATE, 0, body=bytes(4))]
LONG = 30.0


def versions_request(version: int) -> bytes:
    """Return an ApiVersions request of a client that expects no node."""
    body = b"" if version < 3 else b"\x07client\x041.0" + (b"\0\xff\xff\xff\xff" if version == 5 else b"") + b"\0"
    return request(ApiKey.API_VERSIONS, version, body=body)


def expecting(cluster_id: str, node_id: int, client_id: bytes = b"client") -> bytes:
    return VersionsRequest.named(client_id).addressed_to(cluster_id, node_id)


async def answer_of(client: socket.socket) -> bytes:
    """Return the next whole frame."""
    loop, frame, size = asyncio.get_running_loop(), b"", 4
    async with asyncio.timeout(LONG):
        while len(frame) < size:
            more = await loop.sock_recv(client, size - len(frame))
            assert more, "the connection ended instead"
            frame += more
            if len(frame) == 4:
                size += struct.unpack(">i", frame)[0]
    return frame


async def ask(client: socket.socket, asked: bytes) -> bytes:
    await asyncio.get_running_loop().sock_sendall(client, asked)
    return await answer_of(client)


async def read_frame(stream: asyncio.StreamReader) -> bytes:
    size = await stream.readexactly(4)
    return size + await stream.readexactly(struct.unpack(">i", size)[0])


@asynccontextmanager
async def served(
    selector: RelaySelector, tls: ssl.SSLContext | None = None, *, login: bool = False, **options: Any
) -> AsyncIterator[tuple[FakeBroker, Doorway]]:
    """A gateway that has learned what its broker, node 1 of Kafka 4.4, answers.

    `tls`: of its clients. `login`: the broker demands one, which clients make.
    """
    with ExitStack() as held:
        broker = FakeBroker(cluster_id=CLUSTER, refusal="Unexpected broker id, expected 1 or empty")
        broker.requires_login = login
        broker.be_new(1)
        peer = held.enter_context(Peer(broker))
        broker.nodes = [(1, *_pair(peer.address)), (2, "nowhere.invalid", 9092)]
        door = Doorway(selector, peer.address, **{"connect_timeout": LONG, **options})
        try:
            door.learn((1, peer.address), (2, "nowhere.invalid:9092"))
            name = None if tls is None else "localhost"
            reader, writer = await asyncio.open_connection(sock=door.connect(1), ssl=tls, server_hostname=name)
            for asked in [*LOGIN, request(*CONFIGS)] if login else [versions_request(0)]:
                writer.write(asked)
                await read_frame(reader)
            writer.close()
            await until(lambda: not door.held["places"], "the first client is gone")
            broker.received.clear()
            yield broker, door
        finally:
            await door.close()


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
