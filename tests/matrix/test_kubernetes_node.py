"""`--via k8s://…` against Kubernetes' own code for port-forwards: moby/spdystream, the kubelet's and the API server's.

kwok, which plays the kubelet in test_kubernetes_forward.py, ends both directions at once or none. This node passes on
each end.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from array import array
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from kproxy.base.address import Address
from tests.harness.servers.kube_forward import Forwarding
from tests.harness.servers.peers import Peer, refused
from tests.harness.servers.ways import dialer, failure
from tests.matrix.kubernetes import BUILD_S, programs

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(BUILD_S + 120)]

WAYS = ("tunnel", "channel", "upgrade")
EACH = pytest.mark.parametrize("way", WAYS)
SPDY = pytest.mark.parametrize("way", ["tunnel", "upgrade"])
HERE = "k8s://kafka"
LARGE = array("I", range(4 * 1024 * 1024)).tobytes()  # more than all buffers


@pytest.fixture(scope="module")
def node() -> Iterator[dict[str, int]]:
    """The ports of its API servers."""
    process = subprocess.Popen(
        [programs() / "node"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        yield dict(zip(WAYS, map(int, process.stdout.readline().split()), strict=True))
        process.stdin.close()


@pytest.fixture(autouse=True)
def api(node: dict[str, int], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(Forwarding().kubeconfig(tmp_path / "config", port=node[way])))


def pod(address: str) -> Address:
    """A port of this machine is that of any pod."""
    return Address("kafka-0.x.kafka.svc", Address.parse(address).port)


async def heard(sock: socket.socket) -> bytes:
    """All until the end."""
    said = bytearray()
    while data := await asyncio.get_running_loop().sock_recv(sock, 1 << 20):
        said += data
    return bytes(said)


def digests(connection: socket.socket) -> None:
    """Says the digest of what it heard when that has ended, and what it heard."""
    said = bytearray()
    while data := connection.recv(1 << 20):
        said += data
    connection.sendall(sha256(said).digest() + said)


@SPDY
async def test_the_client_ends_first(way: str) -> None:
    with Peer(digests) as peer:
        async with dialer(HERE) as made:
            for _ in range(2):
                with await made.connect(pod(peer.address)) as sock:
                    await asyncio.get_running_loop().sock_sendall(sock, LARGE)
                    sock.shutdown(socket.SHUT_WR)
                    assert await heard(sock) == sha256(LARGE).digest() + LARGE


@SPDY
async def test_the_pod_ends_first(way: str) -> None:
    digest: list[bytes] = []
    ended = threading.Event()

    def behave(connection: socket.socket) -> None:
        connection.sendall(LARGE)
        connection.shutdown(socket.SHUT_WR)
        said = bytearray()
        while data := connection.recv(1 << 20):
            said += data
        digest.append(sha256(said).digest())
        ended.set()

    with Peer(behave) as peer:
        async with dialer(HERE) as made:
            with await made.connect(pod(peer.address)) as sock:
                assert await heard(sock) == LARGE
                await asyncio.get_running_loop().sock_sendall(sock, LARGE)
                sock.shutdown(socket.SHUT_WR)
                await asyncio.to_thread(ended.wait, 60)
                assert digest == [sha256(LARGE).digest()]


@EACH
async def test_both_directions_at_once(way: str) -> None:
    def behave(connection: socket.socket) -> None:
        while data := connection.recv(1 << 20):
            connection.sendall(data)

    async def one() -> None:
        loop = asyncio.get_running_loop()
        with await made.connect(pod(peer.address)) as sock:
            async with asyncio.TaskGroup() as both:
                both.create_task(loop.sock_sendall(sock, LARGE))
                said = bytearray()
                while len(said) < len(LARGE):
                    said += await loop.sock_recv(sock, 1 << 20)
            assert said == LARGE

    with Peer(behave) as peer:
        async with dialer(HERE) as made, asyncio.TaskGroup() as all_of_them:
            for _ in range(4):
                all_of_them.create_task(one())


@EACH
async def test_a_connection_that_is_closed_ends_in_the_pod(way: str) -> None:
    ended = threading.Event()

    def behave(connection: socket.socket) -> None:
        connection.sendall(b"hello")
        connection.recv(1)
        ended.set()

    with Peer(behave) as peer:
        async with dialer(HERE) as made:
            with await made.connect(pod(peer.address)) as sock:
                assert await asyncio.get_running_loop().sock_recv(sock, 5) == b"hello"
            await asyncio.to_thread(ended.wait, 30)
            assert ended.is_set()


@EACH
async def test_nothing_listens_in_the_pod(way: str) -> None:
    with refused() as nobody:
        error = await failure(str(pod(nobody)), HERE)
    assert error.reason == "refused"
    assert "nothing listens on port" in str(error)
