"""Connections along `--via k8s://…`, to the smallest stand-in of an API server. tests/matrix has a real one."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kproxy.address import Address
from kproxy.errors import UpstreamError, ViaError
from tests.harness.kube_forward import Forwarding, forwarding
from tests.harness.peers import Behaviour, Peer, closing, refused, silent
from tests.harness.ways import Ways, dialer, failure, works

pytestmark = pytest.mark.integration

BOOT = "boot:9092"
HERE = "k8s://kafka"


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Forwarding]:
    """With a Service of two pods, of which one is ready."""
    async with forwarding() as made:
        monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig(tmp_path / "config")))
        made.add_service("kafka", "boot", {"plain": (9092, 19092)}, {"kafka-0": True, "kafka-1": False})
        yield made


@pytest.fixture
def echo(api: Forwarding) -> Iterator[Peer]:
    """What listens in the pod kafka-0."""

    def behave(connection: Any) -> None:
        while data := connection.recv(65536):
            connection.sendall(data)

    with Peer(behave) as peer:
        port = Address.parse(peer.address).port
        for place in ("kafka/kafka-0:19092", "kafka/kafka-0:9092", "other/kafka-0:9092"):
            api.pods[place] = port
        yield peer


@pytest.mark.parametrize(
    "host", [BOOT, "boot.kafka:9092", "boot.kafka.svc.cluster.local:9092", "kafka-0:9092",
             "kafka-0.brokers.kafka.svc:9092", "kafka-0.brokers.other.svc.cluster.local:9092",
             "host-of-kafka-0.boot.kafka.svc:9092"],
)  # fmt: skip
async def test_names_lead_to_pods(host: str, echo: Peer) -> None:
    async with dialer(HERE) as made:
        await works(made, host)
        await works(made, host)


async def test_the_ip_of_a_pod(api: Forwarding, echo: Peer) -> None:
    pods = {"items": [{"metadata": {"name": "kafka-0"}, "status": {"phase": "Running"}}]}
    api.documents["/api/v1/namespaces/kafka/pods?fieldSelector=status.podIP=10.1.2.3"] = pods
    async with dialer(HERE) as made:
        await works(made, "10.1.2.3:9092")
    assert (await failure("10.1.2.4:9092", HERE)).reason == "resolve"


@pytest.mark.parametrize("names", [["sshd"], ["socks"], ["http", "sshd"]], ids=", ".join)
async def test_through_other_hops(names: list[str], ways: Ways, echo: Peer) -> None:
    async with dialer(*map(ways.url, names), HERE) as made:
        await works(made, BOOT)


@pytest.mark.parametrize("name", ["socks", "http"])
async def test_a_proxy_of_the_kubeconfig(name: str, ways: Ways, api: Forwarding, echo: Peer, tmp_path: Path) -> None:
    file = api.kubeconfig(tmp_path / "config", proxy=ways.url(name))
    async with dialer(HERE) as made:
        await works(made, BOOT)
        # kproxy reads the file again when the server does not take the token; both have changed.
        api.tokens = {"better"}
        api.kubeconfig(file, {"token": "better"}, proxy="http://127.0.0.1:1")
        with pytest.raises(ViaError, match=r"http://127\.0\.0\.1:1 \(proxy-url of the kubeconfig\)"):
            await works(made, BOOT)


async def test_a_context_that_is_named(echo: Peer) -> None:
    async with dialer("k8s://here/kafka") as made:
        await works(made, BOOT)
    error = await failure(BOOT, "k8s://there/kafka")
    assert (error.reason, type(error)) == ("kubernetes", ViaError)
    assert "no context 'there' (it has: here)" in str(error)


async def test_much_of_both_directions(echo: Peer) -> None:
    """Many connections at once, each with more than fits into all buffers on the way."""
    size = 8 * 1024 * 1024

    async def one(number: int) -> None:
        loop = asyncio.get_running_loop()
        sent = bytes([number]) * size
        with await made.connect(Address.parse(BOOT)) as sock:
            async with asyncio.TaskGroup() as both:
                both.create_task(loop.sock_sendall(sock, sent))
                got = 0
                while got < size:
                    data = await loop.sock_recv(sock, 65536)
                    assert data == sent[: len(data)]
                    got += len(data)

    async with dialer(HERE) as made, asyncio.TaskGroup() as all_of_them:
        for number in range(8):
            all_of_them.create_task(one(number))


async def test_a_pod_that_reads_nothing_makes_the_sender_wait(api: Forwarding) -> None:
    loop = asyncio.get_running_loop()
    ended = threading.Event()

    def reads_nothing(_: socket.socket) -> None:
        ended.wait()

    with Peer(reads_nothing) as peer:
        api.pods["kafka/full:1"] = Address.parse(peer.address).port
        async with dialer(HERE) as made:
            with await made.connect(Address("full.x.kafka", 1)) as sock:
                waits = False
                for _ in range(1024):  # 64 MiB would be no back-pressure at all
                    try:
                        async with asyncio.timeout(2):
                            await loop.sock_sendall(sock, bytes(65536))
                    except TimeoutError:
                        waits = True
                        break
                assert waits
                ended.set()


async def test_a_pod_ends_the_connection(api: Forwarding) -> None:
    with Peer(lambda connection: connection.sendall(b"bye")) as peer:
        api.pods["kafka/ends:1"] = Address.parse(peer.address).port
        async with dialer(HERE) as made:
            with await made.connect(Address("ends.x.kafka", 1)) as sock:
                assert await asyncio.get_running_loop().sock_recv(sock, 100) == b"bye"
                assert await asyncio.get_running_loop().sock_recv(sock, 100) == b""


# What is wrong with the address


@pytest.mark.parametrize(
    ("address", "reason", "words"),
    [
        ("nobody:9092", "resolve", "there is no pod nobody in namespace kafka"),
        ("kafka-7.boot.kafka.svc:9092", "resolve", "there is no pod kafka-7 in namespace kafka"),
        ("boot:1234", "refused", "Service boot in namespace kafka has no port 1234 (it has 9092)"),
        ("broker.example.com.net:1", "resolve", "cannot be a name of a Service or a pod"),
        ("idle:9092", "unreachable", "has no ready pod: kubectl -n kafka get endpointslices,pods"),
    ],
)
async def test_there_is_no_such_thing(address: str, reason: str, words: str, api: Forwarding, echo: Peer) -> None:
    api.add_service("kafka", "idle", {"plain": (9092, 9092)}, {"kafka-1": False})
    error = await failure(address, HERE)
    assert (error.reason, type(error)) == (reason, UpstreamError)
    assert str(error).startswith(f"{address}: ")
    assert words in str(error)


async def test_nothing_listens_in_the_pod(api: Forwarding) -> None:
    with refused() as nobody:
        api.pods["kafka/kafka-0:19092"] = Address.parse(nobody).port
        error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("refused", UpstreamError)
    assert "nothing listens on port 19092 in pod kafka-0, or it is not ready yet" in str(error)


@pytest.mark.parametrize(
    ("end", "role"),
    [
        ("/portforward", "--verb=get,create --resource=pods/portforward"),
        ("/services/boot", "--verb=get --resource=services"),
        ("/endpointslices", "--verb=list --resource=endpointslices.discovery.k8s.io"),
    ],
)
async def test_what_is_forbidden(end: str, role: str, api: Forwarding, echo: Peer) -> None:
    api.forbidden.add(end)
    error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("kubernetes-forbidden", UpstreamError)
    assert f"kubectl -n kafka create role kproxy {role}" in str(error)


# Who asks


def _plugin(directory: Path, program: str, **more: Any) -> dict[str, Any]:
    file = directory / "plugin.py"
    file.write_text(program)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(file)],
                     **more}}  # fmt: skip


def _gives(token: str, directory: Path, **more: Any) -> str:
    """A program that gives the token in a file, and notes that it ran."""
    (directory / "token").write_text(token)
    return (
        "import json, os\n"
        f"status = {{'token': open({str(directory / 'token')!r}).read(), **{more!r}}}\n"
        f"open({str(directory / 'ran')!r}, 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': status}))"
    )


async def test_a_plugin_gives_the_token_once(api: Forwarding, echo: Peer, tmp_path: Path) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    program = _gives("good", tmp_path, expirationTimestamp=later)
    api.kubeconfig(tmp_path / "config", _plugin(tmp_path, program, provideClusterInfo=True))
    async with dialer(HERE) as made:
        await works(made, BOOT)
        await works(made, BOOT)
    (asked,) = map(json.loads, (tmp_path / "ran").read_text().splitlines())
    assert asked["kind"] == "ExecCredential"
    assert asked["spec"] == {"interactive": False, "cluster": {"server": f"http://127.0.0.1:{api.port}"}}


async def test_a_token_that_ended_early_is_renewed(api: Forwarding, echo: Peer, tmp_path: Path) -> None:
    api.kubeconfig(tmp_path / "config", _plugin(tmp_path, _gives("good", tmp_path)))
    async with dialer(HERE) as made:
        await works(made, BOOT)
        api.tokens = {"better"}
        (tmp_path / "token").write_text("better")
        await works(made, BOOT)
        assert len((tmp_path / "ran").read_text().splitlines()) == 2


async def test_nobody_is_logged_in(api: Forwarding, echo: Peer) -> None:
    api.tokens = set()
    error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("kubernetes-auth", ViaError)
    assert "the API server does not accept the login of context 'here' (Unauthorized): log in again" in str(error)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit('run: cloud login')", "ended with 1 (run: cloud login)"),
        ("print('{}')", "gave no ExecCredential"),
        ("print('x' * 9999999)", "said more than a credential"),
        ('print(\'{"status": {"token": "a\\\\nb"}}\')', "has characters that no token has"),
    ],
)
async def test_plugins_that_give_nothing(program: str, words: str, api: Forwarding, tmp_path: Path) -> None:
    api.kubeconfig(tmp_path / "config", _plugin(tmp_path, program))
    error = await failure(BOOT, HERE)
    assert isinstance(error, ViaError)
    assert words in str(error)


async def test_a_plugin_that_is_not_installed(api: Forwarding, tmp_path: Path) -> None:
    api.kubeconfig(tmp_path / "config", {"exec": {"command": "no-such-plugin"}})
    error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("kubernetes-auth", ViaError)
    assert "the program 'no-such-plugin' of context 'here' is not installed" in str(error)


async def test_a_plugin_that_hangs_holds_nobody_else(api: Forwarding, tmp_path: Path) -> None:
    api.kubeconfig(tmp_path / "config", _plugin(tmp_path, "import time; time.sleep(600)"))
    error = await failure(BOOT, HERE, seconds=1)
    assert error.reason == "kubernetes-auth"
    assert "gave nothing within 1 s, still waiting" in str(error)


# What may stand where an API server is expected


def _nonsense(connection: Any) -> None:
    connection.recv(65536)
    connection.sendall(b"\x05\xff" * 1000)


def _endless(connection: Any) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"10000\r\n" + b"[" * 65536 + b"\r\n")


def _deep(connection: Any) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200000)


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (closing, "broke the connection off"),
        (silent, "gave no answer within 2 s"),
        (_nonsense, "does not answer as Kubernetes does"),
        (_endless, "does not answer as Kubernetes does (an answer of more than 16 MiB)"),
        (_deep, "does not answer as Kubernetes does"),
    ],
)
async def test_no_api_server(behave: Behaviour, words: str, api: Forwarding, tmp_path: Path) -> None:
    with Peer(behave) as peer:
        api.kubeconfig(tmp_path / "config", port=Address.parse(peer.address).port)
        error = await failure(BOOT, HERE, seconds=2)
        assert (error.reason, type(error)) == ("kubernetes", ViaError)
        assert words in str(error)
        error = await failure("kafka-0.x.kafka.svc:9092", HERE, seconds=2)
        assert (error.reason, type(error)) == ("kubernetes", ViaError)


async def test_the_api_server_is_away(api: Forwarding, echo: Peer, tmp_path: Path) -> None:
    with refused() as nobody:
        api.kubeconfig(tmp_path / "config", port=Address.parse(nobody).port)
        error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("kubernetes", ViaError)
    assert "the API server: 127.0.0.1" in str(error)
    assert "connection refused" in str(error)
