"""The data plane where one side of a session, or both, is TLS; at the far ends are OpenSSL's own sockets."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from collections.abc import Iterator

import pytest

from kproxy.net.tls.tlssocket import TlsSocket
from kproxy.proxy.relay import pump
from kproxy.proxy.relay.pump import CHUNK
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers.peers import reset
from tests.harness.tls import Authority, connected, in_thread
from tests.unit.proxy.relay.talking import (
    FETCH_V4,
    LOCAL,
    METADATA_V1,
    Relay,
    metadata_body,
    passes,
    pending,
    receive,
    request,
    response,
)

MB = 1 << 20
SIDES = ["client", "upstream", "both"]


@pytest.fixture(params=SIDES)
def relay(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Relay]:
    """As the plain one, but its sessions have TLS on these sides."""
    name = "peer.internal"
    server, client = authority.server_context(name), authority.client_context()
    turn = 0

    def pair() -> tuple[socket.socket, socket.socket]:
        nonlocal turn
        turn += 1  # `connect` makes the client's pair first, then the upstream's
        is_client = turn % 2 == 1
        theirs, ours = connected()
        if request.param not in ("both", "client" if is_client else "upstream"):
            return theirs, ours
        made: list[ssl.SSLSocket] = []
        if is_client:
            thread = in_thread(lambda: made.append(client.wrap_socket(theirs, server_hostname=name)))
            tls = TlsSocket(ours, server, server_side=True)
        else:
            thread = in_thread(lambda: made.append(server.wrap_socket(theirs, server_side=True)))
            tls = TlsSocket(ours, client, host=name)
        tls.setblocking(True)  # so that the handshake needs no loop
        tls.settimeout(30)
        tls.do_handshake()
        tls.setblocking(False)
        thread.join(30)
        return made[0], tls

    made = Relay(RelaySelector(), pair)
    yield made
    made.close()


def test_requests_pass_and_responses_are_rewritten(relay: Relay) -> None:
    client, broker, _ = relay.connect()
    for number in range(1000):
        sent = request(METADATA_V1, number, struct.pack(">i", 0))
        passes(client, broker, sent)
        broker.sendall(response(number, metadata_body("unreachable.internal")))
        expected = response(
            number, struct.pack(">iih", 1, 7, 9) + b"127.0.0.1" + struct.pack(">ihii", LOCAL.port, -1, 7, 0)
        )
        assert receive(client, len(expected)) == expected


def test_100_mb_in_random_pieces_past_slow_readers(relay: Relay) -> None:
    client, broker, session = relay.connect()
    noise = random.Random(7)
    upward = request(FETCH_V4, 1, noise.randbytes(50 * MB))
    downward = response(1, noise.randbytes(50 * MB))

    def send(sock: socket.socket, data: bytes, seed: int) -> None:
        sizes, at = random.Random(seed), 0
        while at < len(data):
            size = sizes.choice([1, 100, 4096, 16384, 60_000, MB])
            sock.sendall(data[at : at + size])
            at += size

    def drink(sock: socket.socket, count: int, seed: int) -> bytes:
        sizes, got = random.Random(seed), bytearray()
        while len(got) < count:
            if sizes.random() < 0.01:
                relay.call(lambda: None)  # a reader that has other things to do
            more = sock.recv(min(sizes.choice([10, 1000, 70_000, MB]), count - len(got)))
            assert more
            got += more
        return bytes(got)

    thread = in_thread(lambda: send(client, upward, 1))
    assert drink(broker, len(upward), 2) == upward
    thread.join(60)
    thread = in_thread(lambda: send(broker, downward, 3))
    assert drink(client, len(downward), 4) == downward
    thread.join(60)
    assert not relay.ended[session].done()


def test_a_reader_that_reads_nothing_stops_the_sender(relay: Relay) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    frame = response(1, bytes(32 * MB))
    done = in_thread(lambda: broker.sendall(frame))
    done.join(1)
    assert done.is_alive(), "32 MB went through to a client that reads nothing"
    held = relay.call(lambda: pending(session))
    assert 0 < held <= CHUNK
    assert receive(client, len(frame)) == frame
    done.join(30)


def test_many_stalled_clients_and_small_windows(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many kept chunks reads are small: a TLS socket must do with that window, too."""
    monkeypatch.setattr(pump, "_SIZES", ((1, CHUNK),))
    ends = [relay.connect() for _ in range(5)]
    frame = response(1, random.Random(5).randbytes(16 * MB))
    senders = []
    for client, broker, _ in ends:
        client.sendall(request(FETCH_V4, 1))
        receive(broker, 16)
        senders.append(in_thread(lambda broker=broker: broker.sendall(frame)))  # type: ignore[misc]
    for sender in senders:
        sender.join(0.2)
        assert sender.is_alive()
    held = relay.call(lambda: pending(*relay.sessions))
    assert held <= len(ends) * CHUNK
    for client, _, _ in ends:
        assert receive(client, len(frame)) == frame
    for sender in senders:
        sender.join(30)


def test_half_close(relay: Relay) -> None:
    """The client has said its last, and is answered all the same."""
    client, broker, session = relay.connect()
    sent = request(FETCH_V4, 1)
    client.sendall(sent)
    socket.socket.shutdown(client, socket.SHUT_WR)
    assert receive(broker, len(sent)) == sent
    assert broker.recv(1) == b""
    frame = response(1, random.Random(6).randbytes(3 * MB))

    def answer() -> None:
        broker.sendall(frame)
        broker.close()

    thread = in_thread(answer)
    assert receive(client, len(frame)) == frame
    assert client.recv(1) == b""
    thread.join(30)
    assert relay.end_of(session) is None


def test_drain(relay: Relay) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    relay.call(session.drain)
    frame = response(1, bytes(2 * MB))
    passes(broker, client, frame)
    assert client.recv(1) == b""
    assert relay.end_of(session) is None


def test_a_reset_ends_the_session(relay: Relay) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    reset(broker)
    assert isinstance(relay.end_of(session), OSError)
    assert session.ended_by == "upstream"
    assert client.recv(1) == b""


def test_a_defect_in_the_records_ends_the_session(relay: Relay) -> None:
    client, broker, session = relay.connect()
    side, end = ("client", client) if isinstance(client, ssl.SSLSocket) else ("upstream", broker)
    socket.socket.send(end, b"\x17\x03\x03\x00\x20" + b"not encrypted".ljust(32))
    assert isinstance(relay.end_of(session), ssl.SSLError)
    assert session.ended_by == side
