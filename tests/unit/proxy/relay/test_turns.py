"""Responses that take long are done a little at a time: no other session waits for one of them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.endpoints import Endpoints, ListenersPending, Localise
from kproxy.protocol.rewrite.walk import MAX_NODES
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import uvarint
from kproxy.proxy.relay.judged import ChangedResponse
from kproxy.proxy.relay.observer import Exchange
from tests.harness.servers.peers import reset
from tests.unit.kafka_frames import asked, chunks, frame
from tests.unit.proxy.relay.talking import LOCAL, Relay, passes, receive, relay, request, response

__all__ = ["relay"]

FIND_COORDINATOR_V4 = ApiKey.FIND_COORDINATOR << 16 | 4
FETCH_V4 = ApiKey.FETCH << 16 | 4
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
    talk = asked(ApiKey.FIND_COORDINATOR, 4, lambda found: [LOCAL for _ in found.nodes])
    talk.client(request(FETCH_V4, 8))
    behind = response(8, b"behind it")
    assert talk.broker(*chunks(RESPONSE + behind, sizes)) == REWRITTEN + behind
    assert len(talk.seen) == 1
    assert len(talk.seen[0].nodes) == 3
    assert talk.rewritten[0] == ("FindCoordinator", KEYS)
    assert talk.turns > KEYS // 1000


def node(node_id: int, host: bytes = b"b") -> bytes:
    return struct.pack(">i", node_id) + compact(host) + struct.pack(">i", 9092) + b"\0\0"


def nodes(count: int) -> bytes:
    return uvarint(count + 1) + b"".join(map(node, range(count)))


MANY = {
    ApiKey.METADATA: (9, lambda count: b"\0" + bytes(4) + nodes(count)),
    ApiKey.DESCRIBE_CLUSTER: (0, lambda count: b"\0" + bytes(7) + compact(b"id") + bytes(4) + nodes(count)),
    ApiKey.FIND_COORDINATOR: (4, lambda count: coordinators(count, count, b"b", 1)),
    ApiKey.FETCH: (16, lambda count: b"\0" + bytes(10) + b"\1\1\0" + uvarint(len(nodes(count))) + nodes(count)),
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
    with pytest.raises(WireError, match=f"more than {MAX_NODES} nodes|more than {MAX_NODES} times"):
        talk.broker(said)


def test_a_list_names_each_node_once() -> None:
    """The same one again and again would cost as much as many."""
    said = frame(struct.pack(">i", 7) + b"\0" + bytes(4) + uvarint(MAX_NODES + 2) + node(1) * (MAX_NODES + 1))
    with pytest.raises(WireError, match="more than 5000 times"):
        asked(ApiKey.METADATA, 9).broker(said)


STEPS = 5


class Binding:
    """Local addresses that are there after some steps."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, found: Endpoints) -> Sequence[Address]:
        if self.taken < STEPS:
            raise ListenersPending(self._steps())
        return [LOCAL for _ in found.nodes]

    def _steps(self) -> Iterator[None]:
        while self.taken < STEPS:
            self.taken += 1
            yield


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.FIND_COORDINATOR])
@pytest.mark.parametrize("count", [3, 400, 3000])
@pytest.mark.parametrize("sizes", [[1 << 20], [999]])
def test_a_response_waits_until_its_nodes_have_listeners(key: int, count: int, sizes: list[int]) -> None:
    """Also one whose front came before, and what stands behind it."""
    version, body = MANY[key]
    said = frame(struct.pack(">i", 7) + body(count) + bytes(9))
    behind = response(8, b"behind it")
    for binding in (Binding(), Binding()):
        plain, talk = asked(key, version, lambda found: [LOCAL for _ in found.nodes]), asked(key, version, binding)
        talk.client(request(FETCH_V4, 8))
        assert talk.broker(*chunks(said + behind, sizes)) == plain.broker(said) + behind
        assert binding.taken == STEPS
        assert talk.turns >= STEPS
        assert talk.rewritten == plain.rewritten


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("sizes", [[1 << 20], [4096]])
def test_new_leaders_wait_likewise(long: bool, sizes: list[int]) -> None:
    nodes = uvarint(1001) + b"".join(node(one, b"b" * (60 if long else 1)) for one in range(1000))
    body = b"\0" + bytes(10) + b"\1\1\0" + uvarint(len(nodes)) + nodes
    said, behind, binding = response(7, body), response(8, b"behind it"), Binding()
    plain, talk = asked(ApiKey.FETCH, 16, lambda found: [LOCAL for _ in found.nodes]), asked(ApiKey.FETCH, 16, binding)
    talk.client(request(FETCH_V4, 8))
    assert talk.broker(*chunks(said + behind, sizes)) == plain.broker(*chunks(said, sizes)) + behind
    assert binding.taken == STEPS


@pytest.mark.parametrize("localise", [Binding(), lambda found: [LOCAL for _ in found.nodes]])
def test_a_long_response_that_was_examined_first_arrives_whole(localise: Localise) -> None:
    talk = asked(ApiKey.FIND_COORDINATOR, 4, lambda found: [LOCAL for _ in found.nodes])
    run: Any = talk.conversation._in_flight.runs[0]
    seen, out = ChangedResponse(len(RESPONSE) - 4, run.call, lambda whole: whole, "a response", localise), b""
    piece = RESPONSE
    while True:
        taken, said = seen.feed(piece)
        assert taken == len(piece)
        out, piece = out + bytes(said), b""
        if not seen.busy:
            break
    assert out == REWRITTEN
    assert seen.endpoints == KEYS


# In sessions


def test_other_sessions_go_on_while_nodes_get_their_listeners(relay: Relay) -> None:
    """The steps come to an end only when another session has had its answer."""
    client, broker, session = relay.connect()
    other, others_broker, _ = relay.connect()
    begun, answered = threading.Event(), threading.Event()

    def steps() -> Iterator[None]:
        begun.set()
        while not answered.is_set():
            yield

    def wrap(localise: Localise) -> Localise:
        def waiting(found: Endpoints) -> Sequence[Address]:
            if not answered.is_set():
                raise ListenersPending(steps())
            return localise(found)

        return waiting

    relay.call(partial(session.conversation.wrap_localise, wrap))
    client.sendall(request(FIND_COORDINATOR_V4, 7) + request(FETCH_V4, 8))
    receive(broker, 4)
    few, behind = response(7, coordinators(3, 3, b"kafka.internal")), response(8, b"behind it")
    broker.sendall(few + behind)
    assert begun.wait(30)
    sent, answer = request(FETCH_V4, 1), response(1, b"to the other one")
    passes(other, others_broker, sent)
    passes(others_broker, other, answer)
    answered.set()
    local = response(7, coordinators(3, 3, LOCAL.host.encode(), LOCAL.port))
    assert receive(client, len(local) + len(behind)) == local + behind


def test_a_session_that_closes_takes_no_more_steps(relay: Relay) -> None:
    client, broker, session = relay.connect()
    ended, begun = threading.Event(), threading.Event()

    def steps() -> Iterator[None]:
        try:
            begun.set()
            while True:
                yield
        finally:
            ended.set()

    def never(found: Endpoints) -> Sequence[Address]:
        raise ListenersPending(steps())

    relay.call(partial(session.conversation.wrap_localise, lambda _: never))
    client.sendall(request(FIND_COORDINATOR_V4, 7))
    receive(broker, 4)
    broker.sendall(response(7, coordinators(3, 3, b"kafka.internal")))
    assert begun.wait(30)
    relay.call(session.close)
    relay.ended.clear()
    relay.sessions.clear()
    del session
    assert ended.wait(30)
    assert client.recv(1) == b""


def test_a_long_response_arrives_whole_and_what_stands_behind_it(relay: Relay) -> None:
    client, broker, session = relay.connect()
    seen: list[Exchange] = []
    relay.call(partial(session.observe, seen.append))
    client.sendall(request(FIND_COORDINATOR_V4, 7) + request(FETCH_V4, 8))
    behind = response(8, b"behind it" * 20_000)
    passes(broker, client, RESPONSE + behind, REWRITTEN + behind)
    assert [exchange.api for exchange in seen] == ["FindCoordinator", "Fetch"]
    assert not session.closed


def test_other_sessions_go_on_meanwhile(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is asked, and answers, between any two pieces of the work on a long response."""
    client, broker, _ = relay.connect()
    other, others_broker, _ = relay.connect()
    turns = 0
    later = relay.selector.defer

    def between(work: object) -> None:
        nonlocal turns
        turns += 1
        later(work)  # type: ignore[arg-type]

    monkeypatch.setattr(relay.selector, "defer", between)
    sent, answer = request(FETCH_V4, 1), response(1, b"to the other one")
    client.sendall(request(FIND_COORDINATOR_V4, 7))
    receive(broker, 4)
    sending = threading.Thread(target=broker.sendall, args=(RESPONSE,))
    sending.start()
    passes(other, others_broker, sent)
    passes(others_broker, other, answer)
    assert receive(client, len(REWRITTEN)) == REWRITTEN
    sending.join()
    assert turns > 10


def test_a_drain_waits_for_a_long_response(relay: Relay) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(FIND_COORDINATOR_V4, 7))
    receive(broker, 16)
    relay.call(session.drain)
    passes(broker, client, RESPONSE, REWRITTEN)
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
        reset(broker)
    if who == "client":
        broker.close()
    relay.end_of(session)
    assert session.closed


def test_a_slow_client_gets_a_long_response(relay: Relay) -> None:
    client, broker, _ = relay.connect()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    client.sendall(request(FIND_COORDINATOR_V4, 7) + request(FIND_COORDINATOR_V4, 7 + 1))
    second = response(8, coordinators(KEYS, 3, b"kafka.internal"))
    sending = threading.Thread(target=broker.sendall, args=(RESPONSE + second,))
    sending.start()
    got = receive(client, 2 * len(REWRITTEN))
    assert got[: len(REWRITTEN)] == REWRITTEN
    assert got[len(REWRITTEN) + 8 :] == REWRITTEN[8:]
    sending.join()
