"""Connections along `--via k8s://…`, to the smallest stand-in of an API server. tests/matrix has a real one."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.net.dial import kubeforward
from tests.harness.servers.kube_forward import CHANNEL, TUNNEL, Forwarding, SpdyPeer, forwarding
from tests.harness.servers.peers import Behaviour, Peer, closing, refused, silent
from tests.harness.servers.spdy_server import FIN, GOAWAY, PING, SYN_REPLY, Node, Receive, Send, control, data, reset
from tests.harness.servers.ways import Ways, dialer, failure, works

pytestmark = pytest.mark.integration

BOOT = "boot:9092"
HERE = "k8s://kafka"

# What servers speak: since 1.31; before; and those, or proxies before them, that have no WebSockets.
NEW, OLD, PLAIN = {TUNNEL, CHANNEL, "POST"}, {CHANNEL, "POST"}, {"POST"}
EACH = pytest.mark.parametrize("speaks", [NEW, OLD, PLAIN], ids=["tunnel", "channel", "upgrade"])
# Those where one direction can end alone.
SPDY = pytest.mark.parametrize("speaks", [NEW, PLAIN], ids=["tunnel", "upgrade"])


@pytest.fixture
def speaks() -> set[str]:
    return NEW


@pytest.fixture
async def api(speaks: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Forwarding]:
    """With a Service of two pods, of which one is ready."""
    async with forwarding() as made:
        made.speaks = set(speaks)
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


@EACH
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


@EACH
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


@EACH
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


@EACH
async def test_a_pod_ends_the_connection(api: Forwarding) -> None:
    with Peer(lambda connection: connection.sendall(b"bye")) as peer:
        api.pods["kafka/ends:1"] = Address.parse(peer.address).port
        async with dialer(HERE) as made:
            with await made.connect(Address("ends.x.kafka", 1)) as sock:
                assert await asyncio.get_running_loop().sock_recv(sock, 100) == b"bye"
                assert await asyncio.get_running_loop().sock_recv(sock, 100) == b""


# Which way, and how it ends


@pytest.mark.parametrize(
    ("speaks", "asked"),
    [(NEW, ["GET", "GET"]), (OLD, ["GET", "GET"]), (PLAIN, ["GET", "POST", "POST"])],
    ids=["tunnel", "channel", "upgrade"],
)
async def test_the_way_that_works_is_asked_for_first(asked: list[str], api: Forwarding, echo: Peer) -> None:
    async with dialer(HERE) as made:
        await works(made, BOOT)
        await works(made, BOOT)
        assert api.forwards == asked
        # Another server at the same address has another way.
        api.speaks = {CHANNEL} if asked[-1] == "POST" else {"POST"}
        await works(made, BOOT)
        await works(made, BOOT)
        assert api.forwards[len(asked) :] == [asked[-1], *(["GET"] if asked[-1] == "POST" else ["POST"]) * 2]


async def test_a_role_that_may_only_create(api: Forwarding, echo: Peer) -> None:
    """kubectl falls back likewise: WebSockets begin with GET, so they need the verb `get`."""
    api.without_right.add("GET")
    async with dialer(HERE) as made:
        await works(made, BOOT)
    api.without_right.add("POST")
    error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("kubernetes-forbidden", UpstreamError)
    assert "--verb=get,create --resource=pods/portforward" in str(error)


async def test_no_way_at_all(api: Forwarding, echo: Peer) -> None:
    api.speaks = set()
    error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("unreachable", UpstreamError)
    assert "unable to upgrade" in str(error)
    assert api.forwards == ["GET", "POST"]
    # What the API server itself says tells more.
    api.without_right.add("POST")
    error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("kubernetes-forbidden", UpstreamError)


def _says_late(connection: Any) -> None:
    """All that was said, and more, when the other side has ended."""
    heard = b""
    while data := connection.recv(65536):
        heard += data
    connection.sendall(heard * 1000 + b"bye")


@SPDY
async def test_the_client_ends_and_hears_the_rest(api: Forwarding) -> None:
    loop = asyncio.get_running_loop()
    with Peer(_says_late) as peer:
        api.pods["kafka/late:1"] = Address.parse(peer.address).port
        async with dialer(HERE) as made:
            with await made.connect(Address("late.x.kafka", 1)) as sock:
                await loop.sock_sendall(sock, b"hello" * 100)
                sock.shutdown(socket.SHUT_WR)
                heard = b""
                while data := await loop.sock_recv(sock, 65536):
                    heard += data
                assert heard == b"hello" * 100_000 + b"bye"


@SPDY
async def test_the_pod_ends_and_hears_the_rest(api: Forwarding) -> None:
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    def behave(connection: socket.socket) -> None:
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while data := connection.recv(65536):
            said += data
        loop.call_soon_threadsafe(heard.put_nowait, said)

    with Peer(behave) as peer:
        api.pods["kafka/first:1"] = Address.parse(peer.address).port
        async with dialer(HERE) as made:
            with await made.connect(Address("first.x.kafka", 1)) as sock:
                assert await loop.sock_recv(sock, 100) == b"bye"
                assert await loop.sock_recv(sock, 100) == b""
                await loop.sock_sendall(sock, b"x" * 1_000_000)
                sock.shutdown(socket.SHUT_WR)
                assert await heard.get() == b"x" * 1_000_000


async def test_a_channel_ends_in_both_directions(api: Forwarding) -> None:
    api.speaks = OLD
    loop = asyncio.get_running_loop()
    with Peer(_says_late) as peer:
        api.pods["kafka/late:1"] = Address.parse(peer.address).port
        async with dialer(HERE) as made:
            with await made.connect(Address("late.x.kafka", 1)) as sock:
                sock.shutdown(socket.SHUT_WR)
                assert await loop.sock_recv(sock, 100) == b""


@SPDY
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "ended"])
async def test_a_node_that_passes_on_no_end(closes: bool, api: Forwarding, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod hears of it at once when nobody is there any more, and else when it has been silent for long."""
    if not closes:
        monkeypatch.setattr(kubeforward, "_HALF_CLOSED_SECONDS", 0.2)
    api.passes_ends = False
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def behave(connection: socket.socket) -> None:
        while connection.recv(65536):
            pass
        loop.call_soon_threadsafe(ended.set)

    with Peer(behave) as peer:
        api.pods["kafka/quiet:1"] = Address.parse(peer.address).port
        async with dialer(HERE) as made:
            with await made.connect(Address("quiet.x.kafka", 1)) as sock:
                sock.close() if closes else sock.shutdown(socket.SHUT_WR)
                await ended.wait()
                assert closes or await loop.sock_recv(sock, 100) == b""


@EACH
async def test_a_client_that_reads_nothing_makes_the_pod_wait(api: Forwarding) -> None:
    sent = 0
    waits = threading.Event()

    def endless(connection: socket.socket) -> None:
        nonlocal sent
        connection.settimeout(2)
        try:
            while sent < 64 * 1024 * 1024:  # that would be no back-pressure at all
                sent += connection.send(bytes(65536))
        except TimeoutError:
            waits.set()

    with Peer(endless) as peer:
        api.pods["kafka/endless:1"] = Address.parse(peer.address).port
        async with dialer(HERE) as made:
            with await made.connect(Address("endless.x.kafka", 1)):
                await asyncio.to_thread(waits.wait, 60)
                assert waits.is_set()


# What may stand where a node is expected


async def _flood(send: Send, frame: bytes) -> None:
    with suppress(ConnectionError):
        while True:
            await send(frame)


async def _begun(send: Send, receive: Receive) -> Node:
    node = Node(send, receive, 0)
    await node.accept()
    return node


async def _hangs_up(send: Send, receive: Receive) -> None:
    await receive()


async def _is_silent(send: Send, receive: Receive) -> None:
    while await receive():
        pass


async def _resets(send: Send, receive: Receive) -> None:
    await _begun(send, receive)
    await send(reset(1) + reset(3))
    await _is_silent(send, receive)


async def _refuses(send: Send, receive: Receive) -> None:
    await receive()
    await send(reset(1) + reset(3))
    await _is_silent(send, receive)


async def _leaves(send: Send, receive: Receive) -> None:
    await receive()
    await send(control(GOAWAY, bytes(8)))
    await _is_silent(send, receive)


async def _says_nonsense(send: Send, receive: Receive) -> None:
    await receive()
    await send(b"\xff" * 100)
    await _is_silent(send, receive)


async def _says_too_much(send: Send, receive: Receive) -> None:
    await receive()
    await _flood(send, control(SYN_REPLY, bytes(1024 * 512)))


async def _says_it_again_and_again(send: Send, receive: Receive) -> None:
    await receive()
    await _flood(send, control(PING, b"\0\0\0\2") * 1000)


async def _says_much_without_a_reply(send: Send, receive: Receive) -> None:
    await receive()
    await _flood(send, data(3, bytes(65536)))


async def _complains_for_ever(send: Send, receive: Receive) -> None:
    await _begun(send, receive)
    await send(data(3, b"", FIN))
    for _ in range(1000):
        await send(data(1, b"no " * 1000))
    await send(data(1, b"", FIN))
    await _is_silent(send, receive)


@SPDY
@pytest.mark.parametrize(
    ("behave", "reason", "words"),
    [
        (_hangs_up, "kubernetes", "ended the port-forward to pod kafka-0"),
        (_is_silent, "timeout", "no answer from the node of pod kafka-0 within 2 s"),
        (_resets, "kubernetes", "ended the port-forward to pod kafka-0: it was closed"),
        (_refuses, "kubernetes", "ended the port-forward to pod kafka-0: it was closed"),
        (_leaves, "kubernetes", "ended the port-forward to pod kafka-0: it was closed"),
        (_says_nonsense, "kubernetes", "ended the port-forward to pod kafka-0: a control frame of 16777215 bytes"),
        (_says_too_much, "kubernetes", "ended the port-forward to pod kafka-0: a control frame of 524288 bytes"),
        (_says_it_again_and_again, "timeout", "no answer from the node of pod kafka-0 within 2 s"),
        (_says_much_without_a_reply, "kubernetes", "pod kafka-0: data on a stream without a reply"),
        (_complains_for_ever, "kubernetes", "the port-forward to pod kafka-0 fails: no no no"),
    ],
)
async def test_no_node(behave: SpdyPeer, reason: str, words: str, api: Forwarding, echo: Peer) -> None:
    api.instead = behave
    error = await failure(BOOT, HERE, seconds=2)
    assert (error.reason, type(error)) == (reason, UpstreamError)
    assert words in str(error)
    assert len(str(error)) < 1000


@SPDY
async def test_pings_are_answered(api: Forwarding, echo: Peer) -> None:
    answered = asyncio.Event()

    async def pings(send: Send, receive: Receive) -> None:
        node = await _begun(send, receive)
        await send(control(PING, b"\0\0\0\2") + data(3, b"hello"))
        while (frame := await node.frame()) is not None:
            if frame == (control(PING, b"\0\0\0\2")[:8], b"\0\0\0\2"):
                answered.set()

    api.instead = pings
    async with dialer(HERE) as made:
        with await made.connect(Address.parse(BOOT)) as sock:
            assert await asyncio.get_running_loop().sock_recv(sock, 100) == b"hello"
            await answered.wait()


@SPDY
async def test_silence_is_kept_alive(api: Forwarding, echo: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeforward, "_PING_SECONDS", 0.05)
    pinged = asyncio.Event()

    async def waits(send: Send, receive: Receive) -> None:
        node = await _begun(send, receive)
        while (frame := await node.frame()) is not None:
            if frame[0][:4] == control(PING, b"")[:4]:
                await send(b"".join(frame))  # its answer is the same
                pinged.set()

    api.instead = waits
    async with dialer(HERE) as made:
        with await made.connect(Address.parse(BOOT)):
            await pinged.wait()


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


@EACH
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


@EACH
async def test_a_token_that_ended_early_is_renewed(api: Forwarding, echo: Peer, tmp_path: Path) -> None:
    api.kubeconfig(tmp_path / "config", _plugin(tmp_path, _gives("good", tmp_path)))
    async with dialer(HERE) as made:
        await works(made, BOOT)
        api.tokens = {"better"}
        (tmp_path / "token").write_text("better")
        await works(made, BOOT)
        assert len((tmp_path / "ran").read_text().splitlines()) == 2


@EACH
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
        ("print('x' * 9999999)", "printed more than a credential"),
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
        (closing, "closed the connection"),
        (silent, "gave no answer within 2 s"),
        (_nonsense, "does not answer as Kubernetes does"),
        (_endless, "does not answer as Kubernetes does (an answer of more than 64 MiB)"),
        (_deep, "does not answer as Kubernetes does"),
    ],
)
async def test_no_api_server(behave: Behaviour, words: str, api: Forwarding, tmp_path: Path) -> None:
    seconds = 2 if behave is silent else 60  # a busy machine takes more than 2 s for 64 MiB
    with Peer(behave) as peer:
        api.kubeconfig(tmp_path / "config", port=Address.parse(peer.address).port)
        error = await failure(BOOT, HERE, seconds=seconds)
        assert (error.reason, type(error)) == ("kubernetes", ViaError)
        assert words in str(error)
        error = await failure("kafka-0.x.kafka.svc:9092", HERE, seconds=seconds)
        assert (error.reason, type(error)) == ("kubernetes", ViaError)


async def test_the_api_server_is_away(api: Forwarding, echo: Peer, tmp_path: Path) -> None:
    with refused() as nobody:
        api.kubeconfig(tmp_path / "config", port=Address.parse(nobody).port)
        error = await failure(BOOT, HERE)
    assert (error.reason, type(error)) == ("kubernetes", ViaError)
    assert "the API server: 127.0.0.1" in str(error)
    assert "connection refused" in str(error)
