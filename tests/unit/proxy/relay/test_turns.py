"""Responses that take long are done a little at a time: no other session waits for one of them."""

from __future__ import annotations

import socket
import struct
import threading
from functools import partial

import pytest

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.walk import MAX_NODES
from kproxy.protocol.wire.api import DESCRIBE_CLUSTER, FETCH, FIND_COORDINATOR, METADATA
from kproxy.protocol.wire.primitives import uvarint
from kproxy.proxy.relay.observer import Exchange
from tests.unit.kafka_frames import asked, chunks, frame
from tests.unit.proxy.relay.talking import LOCAL, Relay, receive, relay, request, response

__all__ = ["relay"]

FIND_COORDINATOR_V4 = FIND_COORDINATOR << 16 | 4
FETCH_V4 = FETCH << 16 | 4
# More than a session rewrites in one go, many times over, and fewer than 4 MiB.
KEYS = 30_000


def compact(text: bytes) -> bytes:
    return uvarint(len(text) + 1) + text


def coordinators(keys: int, nodes: int, host: bytes, port: int | None = None) -> bytes:
    """The body of a FindCoordinator response v4: so many keys with coordinators among so many nodes."""
    each = (
        compact(b"group-%d" % key) + struct.pack(">i", key % nodes) + compact(host)
        + struct.pack(">i", 9000 + key % nodes if port is None else port) + b"\0\0\0\0"
        for key in range(keys)
    )  # fmt: skip
    return b"\0" + bytes(4) + uvarint(keys + 1) + b"".join(each) + b"\0"


RESPONSE = response(7, coordinators(KEYS, 3, b"kafka.internal"))
REWRITTEN = response(7, coordinators(KEYS, 3, LOCAL.host.encode(), LOCAL.port))


@pytest.mark.parametrize("sizes", [[1 << 20], [70_000], [999, 100_000, 7]])
def test_keys_that_name_few_nodes_may_be_many(sizes: list[int]) -> None:
    talk = asked(FIND_COORDINATOR, 4, lambda found: [LOCAL for _ in found.nodes])
    talk.client(request(FETCH_V4, 8))
    behind = response(8, b"behind it")
    assert talk.broker(*chunks(RESPONSE + behind, sizes)) == REWRITTEN + behind
    assert len(talk.seen) == 1
    assert len(talk.seen[0].nodes) == 3
    assert talk.rewritten[0] == ("FindCoordinator", KEYS)
    assert talk.turns > KEYS // 1000


def node(node_id: int) -> bytes:
    return struct.pack(">i", node_id) + compact(b"b") + struct.pack(">i", 9092) + b"\0\0"


def nodes(count: int) -> bytes:
    return uvarint(count + 1) + b"".join(map(node, range(count)))


MANY = {
    METADATA: (9, lambda count: b"\0" + bytes(4) + nodes(count)),
    DESCRIBE_CLUSTER: (0, lambda count: b"\0" + bytes(7) + compact(b"id") + bytes(4) + nodes(count)),
    FIND_COORDINATOR: (4, lambda count: coordinators(count, count, b"b", 1)),
    FETCH: (16, lambda count: b"\0" + bytes(10) + b"\1\1\0" + uvarint(len(nodes(count))) + nodes(count)),
}


@pytest.mark.parametrize("key", MANY)
@pytest.mark.parametrize("more", [0, 1])
def test_nodes_are_bounded(key: int, more: int) -> None:
    version, body = MANY[key]
    talk = asked(key, version)
    said = frame(struct.pack(">i", 7) + body(MAX_NODES + more) + bytes(40))
    if not more:
        talk.broker(said)
        assert len(talk.seen[0].nodes) == MAX_NODES
        return
    with pytest.raises(WireError, match=f"more than {MAX_NODES} nodes|at more than {MAX_NODES} places"):
        talk.broker(said)


def test_a_list_names_each_node_once() -> None:
    """The same one again and again would cost as much as many."""
    said = frame(struct.pack(">i", 7) + b"\0" + bytes(4) + uvarint(MAX_NODES + 2) + node(1) * (MAX_NODES + 1))
    with pytest.raises(WireError, match="at more than"):
        asked(METADATA, 9).broker(said)


# In sessions


def test_a_long_response_arrives_whole_and_what_stands_behind_it(relay: Relay) -> None:
    client, broker, session = relay.connect()
    seen: list[Exchange] = []
    relay.call(partial(session.observe, seen.append))
    client.sendall(request(FIND_COORDINATOR_V4, 7) + request(FETCH_V4, 8))
    behind = response(8, b"behind it" * 20_000)
    sending = threading.Thread(target=broker.sendall, args=(RESPONSE + behind,))
    sending.start()
    assert receive(client, len(REWRITTEN)) == REWRITTEN
    assert receive(client, len(behind)) == behind
    sending.join()
    assert [exchange.api for exchange in seen] == ["FindCoordinator", "Fetch"]
    assert not session.closed


def test_other_sessions_go_on_meanwhile(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is asked, and answers, between any two pieces of the work on a long response."""
    client, broker, _ = relay.connect()
    other, others_broker, _ = relay.connect()
    turns = 0
    later = relay.selector.later

    def between(work: object) -> None:
        nonlocal turns
        turns += 1
        later(work)  # type: ignore[arg-type]

    monkeypatch.setattr(relay.selector, "later", between)
    sent, answer = request(FETCH_V4, 1), response(1, b"to the other one")
    client.sendall(request(FIND_COORDINATOR_V4, 7))
    receive(broker, 4)
    sending = threading.Thread(target=broker.sendall, args=(RESPONSE,))
    sending.start()
    other.sendall(sent)
    assert receive(others_broker, len(sent)) == sent
    others_broker.sendall(answer)
    assert receive(other, len(answer)) == answer
    assert receive(client, len(REWRITTEN)) == REWRITTEN
    sending.join()
    assert turns > 10


def test_a_drain_waits_for_a_long_response(relay: Relay) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(FIND_COORDINATOR_V4, 7))
    receive(broker, 16)
    sending = threading.Thread(target=broker.sendall, args=(RESPONSE,))
    sending.start()
    relay.call(session.drain)
    assert receive(client, len(REWRITTEN)) == REWRITTEN
    sending.join()
    assert relay.end_of(session) is None
    assert client.recv(1) == b""


@pytest.mark.parametrize("who", ["client", "broker", "broker at once"])
def test_a_peer_that_goes_meanwhile(relay: Relay, who: str) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(FIND_COORDINATOR_V4, 7))
    receive(broker, 16)
    broker.sendall(RESPONSE) if who == "broker" else broker.sendall(RESPONSE[:400_000])
    if who == "client":
        client.close()
    elif who == "broker":
        broker.close()
        assert receive(client, len(REWRITTEN)) == REWRITTEN
        assert client.recv(1) == b""
        client.close()
    else:
        broker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        broker.close()
    if who == "client":
        broker.close()
    relay.end_of(session)
    assert session.closed


def test_a_slow_client_gets_a_long_response(relay: Relay) -> None:
    client, broker, _ = relay.connect()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(request(FIND_COORDINATOR_V4, 7) + request(FIND_COORDINATOR_V4, 7 + 1))
    second = response(8, coordinators(KEYS, 3, b"kafka.internal"))
    sending = threading.Thread(target=broker.sendall, args=(RESPONSE + second,))
    sending.start()
    got = receive(client, 2 * len(REWRITTEN))
    assert got[: len(REWRITTEN)] == REWRITTEN
    assert got[len(REWRITTEN) + 8 :] == REWRITTEN[8:]
    sending.join()
