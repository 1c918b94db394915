"""Whatever a client does, at whatever moment: its place, its descriptor and its session come back."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.proxy.cluster import connectionslots, pendingconnections
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Behaviour, Peer, black_hole, closing, refused, reset, silent
from tests.harness.tls import Authority
from tests.unit.proxy.cluster.doorway import API_VERSIONS, Doorway, Lines, in_loop, is_closed, until

GREETINGS = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "tls": bytes.fromhex("16030100a5010000a10303") + bytes(160),
    "tls-alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "proxy": b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
    "socks": b"\x05\x01\x00",
}

LONG = 60.0  # a limit that no test waits for
Visit = Callable[[Doorway], Awaitable[None]]


def refusals(door: Doorway) -> int:
    return sum(door.metrics.refusals.values())


async def before_accept(door: Doorway) -> None:
    reset(door.connect())


async def before_a_word(door: Doorway) -> None:
    client = door.connect()
    await until(lambda: door.connection_limit.in_use, "accepted")
    reset(client)


async def goes_before_a_word(door: Doorway) -> None:
    client = door.connect()
    await until(lambda: door.connection_limit.in_use, "accepted")
    client.close()


def with_the_words(words: bytes) -> Visit:
    async def visit(door: Doorway) -> None:
        client = door.connect()
        client.send(words)
        reset(client)

    return visit


def with_the_words_once_accepted(words: bytes) -> Visit:
    async def visit(door: Doorway) -> None:
        client = door.connect()
        await until(lambda: door.connection_limit.in_use, "accepted")
        client.send(words)
        reset(client)

    return visit


def once_refused(words: bytes) -> Visit:
    async def visit(door: Doorway) -> None:
        client = door.connect()
        client.send(words)
        await until(lambda: refusals(door), "refused")
        reset(client)

    return visit


def ends_its_side_after(words: bytes) -> Visit:
    async def visit(door: Doorway) -> None:
        client = door.connect()
        client.send(words)
        client.shutdown(socket.SHUT_WR)
        await until(lambda: is_closed(client), "kproxy hangs up")
        client.close()

    return visit


async def while_dialling(door: Doorway) -> None:
    client = door.connect()
    client.send(API_VERSIONS)
    await until(lambda: door.gateway.slots.sessions or is_closed(client), "handed over, perhaps over already")
    reset(client)


async def in_the_session(door: Doorway) -> None:
    client = door.connect()
    client.send(API_VERSIONS)
    await until(lambda: door.metrics.nodes and door.metrics.node("default", "bootstrap").bytes_from_client, "relayed")
    reset(client)


BEFORE_A_SESSION = {
    "before accept": before_accept,
    "before a word": before_a_word,
    "goes before a word": goes_before_a_word,
    **{f"{name} at once": with_the_words(words) for name, words in GREETINGS.items()},
    **{f"{name} once accepted": with_the_words_once_accepted(words) for name, words in GREETINGS.items()},
    **{f"{name} once refused": once_refused(words) for name, words in GREETINGS.items()},
    **{f"{name} and an end": ends_its_side_after(words) for name, words in GREETINGS.items()},
    "kafka at once": with_the_words(API_VERSIONS),
    "half a size at once": with_the_words(b"\0\0"),
    "kafka once accepted": with_the_words_once_accepted(API_VERSIONS),
}


async def holds_nothing_after(door: Doorway, visit: Visit) -> None:
    """One visit, so that what is made once does not count, then three: a broker in this process may have a descriptor
    more or less."""
    before = None
    for _ in range(4):
        await visit(door)
        await until(lambda: not door.connection_limit.in_use, "its place is free again")
        door.metrics.refusals.clear()
        door.metrics.nodes.clear()
        before = before or door.held

    assert before is not None
    await until(lambda: door.held["files"] <= before["files"], "its descriptors are closed")
    assert (before["sessions"], before["of listeners"]) == (0, 0)
    assert (door.held["places"], door.held["sessions"], door.held["of listeners"]) == (0, 0, 0)


@pytest.fixture(autouse=True)
def defects(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """asyncio and kproxy have logged no defect."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("listen", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("visit", BEFORE_A_SESSION.values(), ids=BEFORE_A_SESSION)
@in_loop
async def test_a_client_that_resets_before_its_session(selector: RelaySelector, visit: Visit, listen: str) -> None:
    with Peer(silent) as broker:
        async with opened(Doorway(selector, broker.address, listen=Address(listen, 0))) as door:
            await holds_nothing_after(door, visit)


def answering() -> FakeBroker:
    """The only broker of its cluster."""
    return FakeBroker([(1, "127.0.0.1", 1)])


@contextlib.asynccontextmanager
async def opened(door: Doorway) -> AsyncIterator[Doorway]:
    try:
        yield door
    finally:
        await door.close()


def resetting(connection: socket.socket) -> None:
    connection.recv(65536)
    reset(connection)


def resetting_at_once(connection: socket.socket) -> None:
    reset(connection)


@pytest.mark.parametrize("behave", [silent, closing, resetting, resetting_at_once])
@pytest.mark.parametrize("visit", [while_dialling, with_the_words(API_VERSIONS)], ids=["later", "at once"])
@in_loop
async def test_a_client_and_a_broker_that_go(
    selector: RelaySelector, behave: Callable[[socket.socket], None], visit: Visit
) -> None:
    with Peer(behave) as broker:
        async with opened(Doorway(selector, broker.address)) as door:
            await holds_nothing_after(door, visit)


@in_loop
async def test_a_client_that_resets_its_session(selector: RelaySelector) -> None:
    with Peer(answering()) as broker:
        async with opened(Doorway(selector, broker.address)) as door:
            await holds_nothing_after(door, in_the_session)


@pytest.mark.parametrize("where", [black_hole, refused])
@in_loop
async def test_a_client_that_resets_while_kproxy_dials(
    selector: RelaySelector, where: Callable[[], contextlib.AbstractContextManager[str]]
) -> None:
    with where() as address:
        async with opened(Doorway(selector, address)) as door:
            await holds_nothing_after(door, while_dialling)


# TLS


def hello() -> bytes:
    """A whole ClientHello."""
    out = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


async def shakes_hands(door: Doorway) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = context.wrap_socket(door.connect(), do_handshake_on_connect=False)

    def done() -> bool:
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    await until(done, "the handshake is done")
    return client


async def resets_after_the_handshake(door: Doorway) -> None:
    reset(await shakes_hands(door))


async def resets_its_secured_session(door: Doorway) -> None:
    client = await shakes_hands(door)
    client.send(API_VERSIONS)
    await until(lambda: door.metrics.nodes and door.metrics.node("default", "bootstrap").bytes_from_client, "relayed")
    reset(client)


HANDSHAKES = {
    "hello at once": with_the_words(hello()),
    "half a hello": with_the_words(hello()[:50]),
    "hello once accepted": with_the_words_once_accepted(hello()),
    "half a hello, an end": ends_its_side_after(hello()[:50]),
    "no TLS": with_the_words(API_VERSIONS),
    "nonsense in a record": ends_its_side_after(b"\x16\x03\x01\x00\x05hello"),
    "after the handshake": resets_after_the_handshake,
    "in the session": resets_its_secured_session,
}


@pytest.mark.parametrize("visit", HANDSHAKES.values(), ids=HANDSHAKES)
@in_loop
async def test_a_client_that_resets_its_handshake(selector: RelaySelector, visit: Visit, tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).files("localhost")
    with Peer(answering()) as broker:
        door = Doorway(selector, broker.address, client_tls_cert=cert, client_tls_key=key)
        async with opened(door):
            await holds_nothing_after(door, visit)


@in_loop
async def test_two_hundred_who_reset_lock_nobody_out(selector: RelaySelector) -> None:
    with Peer(answering()) as broker:
        async with opened(Doorway(selector, broker.address, max_connections=200)) as door:
            for number in range(200):
                await list(BEFORE_A_SESSION.values())[3 + number % 6](door)
            await until(lambda: not door.connection_limit.in_use, "all have gone")
            client = door.connect()
            client.send(API_VERSIONS)
            await until(lambda: door.gateway.slots.sessions == 1, "a real client has its session")
            client.close()


# Those who say nothing


def spoken(door: Doorway, node: int | None = None) -> socket.socket:
    client = door.connect(node)
    client.send(API_VERSIONS)
    return client


@in_loop
async def test_silent_connections_yield_to_new_ones_oldest_first(selector: RelaySelector) -> None:
    with Peer(silent) as broker:
        async with opened(Doorway(selector, broker.address, max_connections=3)) as door:
            crowd = [door.connect() for _ in range(10)]
            await until(lambda: sum(map(is_closed, crowd)) == 7, "the oldest have given way")
            assert not any(is_closed(client) for client in crowd[7:])
            assert door.gateway.slots.full_reason() == ""
            clients = []
            for number in range(1, 4):
                clients.append(spoken(door))
                await until(lambda number=number: door.gateway.slots.sessions == number, "a client has its session")
            assert all(is_closed(client) for client in crowd)
            assert "3 connections, the limit of --max-connections" in door.gateway.slots.full_reason()
            for client in (*crowd, *clients):
                client.close()
            await until(lambda: not door.gateway.slots.full_reason(), "there are places again")


@in_loop
async def test_silent_connections_yield_to_clients_of_another_cluster(selector: RelaySelector) -> None:
    connection_limit = ConnectionLimit(128 + 2 + 4 * 2)  # two listeners
    with Peer(silent) as broker:
        async with (
            opened(Doorway(selector, broker.address, connection_limit)) as one,
            opened(Doorway(selector, broker.address, connection_limit)) as other,
        ):
            crowd = [one.connect() for _ in range(6)]
            await until(lambda: sum(map(is_closed, crowd)) == 2, "the oldest have given way")
            clients = [spoken(other) for _ in range(4)]
            await until(lambda: other.gateway.slots.sessions == 4, "the clients have their sessions")
            assert connection_limit.in_use == 4
            assert other.gateway.slots.full_reason() == one.gateway.slots.full_reason() != ""
            for client in (*crowd, *clients):
                client.close()


@in_loop
async def test_clients_waiting_for_a_node_yield_to_another_cluster(
    selector: RelaySelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pendingconnections, "_LONGEST_WAIT", 60.0)
    connection_limit = ConnectionLimit(128 + 2 + 4 * 2)  # two listeners
    with Peer(silent) as broker, refused() as nobody:
        async with (
            opened(Doorway(selector, nobody, connection_limit)) as one,
            opened(Doorway(selector, broker.address, connection_limit, connect_timeout=LONG)) as other,
        ):
            one.gateway.dialer._outages.begin(None).since -= 100
            crowd = [spoken(one) for _ in range(4)]
            await until(lambda: connection_limit.in_use == len(connection_limit.evictable) == 4, "they are kept")
            clients = [spoken(other) for _ in range(4)]
            await until(lambda: other.gateway.slots.sessions == 4, "the clients have their sessions")
            await until(lambda: all(map(is_closed, crowd)), "they have given way")
            assert connection_limit.in_use == 4
            assert one.metrics.refusals["default", "client", "too-many-connections"] == 4
            for client in (*crowd, *clients):
                client.close()


@in_loop
async def test_clients_waiting_for_a_node_yield_to_another_node(
    selector: RelaySelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pendingconnections, "_LONGEST_WAIT", 60.0)
    with Peer(silent) as broker, refused() as nobody:
        async with opened(Doorway(selector, nobody, max_connections=3, connect_timeout=LONG)) as door:
            door.learn((1, broker.address), (2, nobody))
            door.gateway.dialer._outages.begin(NodeKey(NodeKind.BROKER, 2)).since -= 100
            crowd = [spoken(door, 2) for _ in range(3)]
            await until(lambda: len(door.connection_limit.evictable) == 3, "they are kept")
            clients = [spoken(door, 1) for _ in range(2)]
            await until(lambda: sum(map(is_closed, crowd)) == 2, "two have given way")
            assert door.gateway.slots.sessions == 3
            for client in (*crowd, *clients):
                client.close()


@in_loop
async def test_silence_has_a_limit_while_places_are_scarce(
    selector: RelaySelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connectionslots, "_SILENCE", 0.02)
    with Peer(silent) as broker:
        async with opened(Doorway(selector, broker.address, max_connections=5)) as door:
            crowd = [door.connect() for _ in range(4)]
            await until(lambda: any(map(is_closed, crowd)), "one had to go")
            # Now there are places enough.
            await until(lambda: door.connection_limit.in_use == 3, "and only one")
            assert [is_closed(client) for client in crowd] == [True, False, False, False]
            for client in crowd:
                client.close()


# The log


def too_large(number: int) -> bytes:
    return struct.pack(">ihhi", 2**30 + number, 0, 3, number)


BAD: dict[str, tuple[Callable[[int], bytes], Callable[[], Behaviour], str]] = {
    "another protocol": (lambda number: b"GET /%d HTTP/1.1\r\n\r\n" % number, lambda: closing, "refused a connection"),
    "a bad request": (too_large, answering, "closed a connection"),
    "no answer": (lambda number: b"\0\0\0\x0d\0\x01\0\x04\0\0\0\x01\0\x03raw", answering, "before it answered"),
    "no broker": (lambda number: API_VERSIONS, lambda: closing, "cannot be reached"),
    "no TLS": (too_large, FakeBroker, "refused a connection"),
    "no handshake": (lambda number: b"\x16\x03\x01\x00\x05hello", FakeBroker, "refused a connection"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_client_does_not_fill_the_log(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    says, made, words = BAD[kind]
    options: dict[str, Any] = {"connect_timeout": LONG} if kind == "no broker" else {}  # else there may be two reasons
    if kind in ("no TLS", "no handshake"):
        options["client_tls_cert"], options["client_tls_key"] = Authority(tmp_path).files("localhost")
    behave = made()

    async def scenario(selector: RelaySelector) -> None:
        with Peer(behave) as broker:
            async with opened(Doorway(selector, broker.address, **options)) as door:
                for number in range(20):
                    client = door.connect()
                    client.send(says(number))
                    await until(partial(is_closed, client), "closed")
                    client.close()

    with Lines() as log:
        in_loop(scenario)()
        assert len([text for text in caplog.messages if words in text]) == 20
        assert len([text for text in log.texts if words in text]) == 1
        log.once.write_suppressed(at_the_end=True)
        (last,) = [text for text in log.texts[1:] if words in text]
        assert last.endswith(" (18 times more since)")
