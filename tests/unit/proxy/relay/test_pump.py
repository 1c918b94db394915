"""The data plane over real sockets, on the fast poller and on the portable one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import struct
import threading

import pytest

from kproxy.base.errors import WireError
from kproxy.proxy.relay.pump import CHUNK
from kproxy.proxy.relay.selector import READ
from tests.harness.servers.peers import reset
from tests.unit.proxy.relay.talking import (
    FETCH_V4,
    METADATA_V1,
    Relay,
    metadata_body,
    passes,
    pending,
    receive,
    relay,
    request,
    response,
)

PRODUCE_V3 = 0 << 16 | 3

__all__ = ["relay"]


def test_a_request_passes_and_its_response_is_rewritten(relay: Relay) -> None:
    client, broker, _ = relay.connect()
    sent = request(METADATA_V1, 5, struct.pack(">i", 0))
    passes(client, broker, sent)
    broker.sendall(response(5, metadata_body("unreachable.internal")))
    expected = response(5, struct.pack(">iih", 1, 7, 9) + b"127.0.0.1" + struct.pack(">ihii", 19093, -1, 7, 0))
    assert receive(client, len(expected)) == expected


def test_a_client_that_stops_reading_later_gets_every_byte(relay: Relay) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    body = hashlib.sha256(b"seed").digest() * (48 * 1024 * 1024 // 32)
    frame = response(1, body)
    broker.settimeout(1)
    at = 0
    with contextlib.suppress(TimeoutError):
        while at < len(frame):
            at += broker.send(frame[at : at + 1024 * 1024])
    assert at < len(frame), "48 MB went through to a client that reads nothing"
    held = relay.call(lambda: pending(session))
    assert 0 < held <= CHUNK

    # The others do not notice.
    client2, broker2, _ = relay.connect()
    ping = request(METADATA_V1, 2, struct.pack(">i", 0))
    passes(client2, broker2, ping)

    broker.settimeout(30)
    passes(broker, client, frame[at:], frame)


def test_a_broker_that_reads_nothing_stops_the_client(relay: Relay) -> None:
    client, broker, session = relay.connect()
    frame = request(FETCH_V4, 1, bytes(32 * 1024 * 1024))
    client.settimeout(1)
    at = 0
    with contextlib.suppress(TimeoutError):
        while at < len(frame):
            at += client.send(frame[at : at + 1024 * 1024])
    assert at < len(frame)
    assert relay.call(lambda: pending(session)) <= CHUNK
    client.settimeout(30)
    passes(client, broker, frame[at:], frame)


def test_many_stalled_clients_hold_one_chunk_each_at_most(relay: Relay) -> None:
    body = bytes(16 * 1024 * 1024)
    ends = [relay.connect() for _ in range(20)]
    for client, broker, _ in ends:
        client.sendall(request(FETCH_V4, 1))
        receive(broker, 16)
        broker.setblocking(False)
    frame = response(1, body)
    sent = [0] * len(ends)
    for _ in range(200):  # bounded: each pass offers every broker's bytes once
        progress = False
        for at, (_, broker, _) in enumerate(ends):
            with contextlib.suppress(BlockingIOError):
                sent[at] += broker.send(memoryview(frame)[sent[at] : sent[at] + 512 * 1024])
                progress = True
        if not progress:
            break
        relay.call(lambda: None)
    assert all(count < len(frame) for count in sent)
    held = relay.call(lambda: pending(*relay.sessions))
    assert held <= len(ends) * CHUNK
    for at, (client, broker, _) in enumerate(ends):
        broker.settimeout(30)
        passes(broker, client, frame[sent[at] :], frame)


def test_a_broker_may_answer_after_the_clients_half_close(relay: Relay) -> None:
    client, broker, session = relay.connect()
    sent = request(FETCH_V4, 1)
    client.sendall(sent)
    client.shutdown(socket.SHUT_WR)
    assert receive(broker, len(sent)) == sent
    assert broker.recv(1) == b""
    frame = response(1, bytes(3 * 1024 * 1024))
    sender = threading.Thread(target=lambda: (broker.sendall(frame), broker.close()))
    sender.start()
    assert receive(client, len(frame)) == frame
    assert client.recv(1) == b""
    sender.join(30)
    assert relay.end_of(session) is None


def test_a_half_close_without_pending_responses_ends_the_session(relay: Relay) -> None:
    """The broker need not end its side first; what it was sent arrives all the same."""
    client, broker, session = relay.connect()
    for correlation_id in (1, 2):
        asked, answer = request(FETCH_V4, correlation_id), response(correlation_id, b"records")
        passes(client, broker, asked)
        passes(broker, client, answer)
    unanswered = request(PRODUCE_V3, 3, struct.pack(">hhi", -1, 0, 1000))  # acks=0
    client.sendall(unanswered)
    client.shutdown(socket.SHUT_WR)
    assert relay.end_of(session) is None
    assert session.ended_by == "client"
    assert client.recv(1) == b""
    assert receive(broker, len(unanswered)) == unanswered
    assert broker.recv(1) == b""


@pytest.mark.parametrize("waits", ["half a request", "half a header", "token", "use is noted"])
def test_a_half_closed_client_may_wait_for_other_data(relay: Relay, waits: str) -> None:
    client, broker, session = relay.connect()
    if waits == "use is noted":
        relay.call(session.note_used_apis)
    said = {
        "half a request": request(FETCH_V4, 1, bytes(100))[:50],
        "half a header": request(FETCH_V4, 1)[:6],
        "token": struct.pack(">i", 15) + b"\x60\x0dabcdefghijklm",
        "use is noted": b"",
    }[waits]
    client.sendall(said)
    client.shutdown(socket.SHUT_WR)
    passed = b"" if waits == "half a header" else said
    assert receive(broker, len(passed)) == passed
    assert broker.recv(1) == b""
    assert not relay.call(lambda: session.closed)
    broker.close()
    assert relay.end_of(session) is None


def test_a_broker_that_dies_ends_only_its_clients_connections(relay: Relay) -> None:
    client, broker, session = relay.connect()
    other_client, other_broker, _ = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    reset(broker)
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""
    assert isinstance(relay.end_of(session), OSError)
    assert session.ended_by == "upstream"
    sent = request(FETCH_V4, 9)
    passes(other_client, other_broker, sent)


def test_a_hang_up_while_the_other_side_is_slow_does_not_spin(relay: Relay) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    frame = response(1, bytes(32 * 1024 * 1024))
    broker.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        broker.sendall(frame)
    reset(broker)
    calls = 0
    upstream_event = session.upstream.on_event

    def count() -> int:
        return calls

    def counting(mask: int) -> None:
        nonlocal calls
        calls += 1
        upstream_event(mask)

    def watch() -> None:
        fd = session.upstream.sock.fileno()
        if fd in relay.selector._relayed:
            relay.selector._relayed[fd] = counting

    relay.call(watch)
    for _ in range(50):  # fifty rounds of the loop
        relay.call(lambda: None)
    assert relay.call(count) <= 2
    client.close()
    relay.end_of(session)


def test_bytes_that_are_not_kafka_end_one_session_with_its_error(relay: Relay) -> None:
    client, _, session = relay.connect()
    other_client, other_broker, _ = relay.connect()
    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    error = relay.end_of(session)
    assert isinstance(error, WireError)
    assert error.reason == "client-speaks-http"
    assert session.ended_by == "client"
    sent = request(FETCH_V4, 9)
    passes(other_client, other_broker, sent)


def test_a_response_that_cannot_be_rewritten_is_not_passed_on(relay: Relay) -> None:
    client, broker, session = relay.connect()
    client.sendall(request(METADATA_V1, 1, struct.pack(">i", 0)))
    receive(broker, 20)
    broker.sendall(response(1, struct.pack(">iih", 1, 7, -5) + b"secret.internal"))
    error = relay.end_of(session)
    assert isinstance(error, WireError)
    assert session.ended_by == "upstream"
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(100) == b""


def test_drain_closes_idle_sessions_and_lets_busy_ones_finish(relay: Relay) -> None:
    idle_client, _, idle = relay.connect()
    client, broker, busy = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    for session in (idle, busy, busy):
        relay.call(session.drain)
    assert relay.end_of(idle) is None
    assert idle_client.recv(1) == b""
    assert not relay.ended[busy].done()
    frame = response(1, bytes(2 * 1024 * 1024))
    passes(broker, client, frame)
    assert client.recv(1) == b""
    assert relay.end_of(busy) is None


def test_a_drain_waits_until_a_slow_client_has_everything(relay: Relay) -> None:
    client, broker, session = relay.connect()
    answers, body = 0, bytes(64 * 1024)
    while not relay.call(lambda: pending(session)):
        sent = request(FETCH_V4, answers)
        passes(client, broker, sent)
        broker.sendall(response(answers, body))
        answers += 1
        while relay.call(lambda: session.conversation.in_flight and not pending(session)):
            pass
    relay.call(session.drain)
    assert not session.closed
    for number in range(answers):
        assert receive(client, len(body) + 8) == response(number, body)
    assert relay.end_of(session) is None
    assert client.recv(1) == b""


def test_a_kproxy_answer_reaches_the_client_and_not_the_broker(relay: Relay) -> None:
    client, broker, _ = relay.connect()
    unknown = request(18 << 16 | 99, 7)
    known = request(FETCH_V4, 8)
    client.sendall(unknown + known)
    answer = receive(client, 4 + 4 + 2 + 4 + 6)
    assert struct.unpack(">ih", answer[4:10]) == (7, 35)
    assert receive(broker, len(known)) == known


def narrow(*socks: socket.socket) -> None:
    for sock in socks:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            # No less: a window that was larger once makes a sender wait for its timer.
            sock.setsockopt(socket.SOL_SOCKET, option, 128 * 1024)


def next_id(sock: socket.socket) -> int:
    """The correlation id of the next response."""
    size, correlation_id = struct.unpack(">ii", receive(sock, 8))
    receive(sock, size - 4)
    return int(correlation_id)


def test_a_client_that_ignores_kproxys_answers_is_not_read(relay: Relay) -> None:
    client, broker, session = relay.connect()
    narrow(client, session.client.sock)
    count = 4 * CHUNK // 16
    everything = b"".join(request(18 << 16 | 99, number) for number in range(count))
    client.settimeout(1)
    at = 0
    with contextlib.suppress(TimeoutError):
        while at < len(everything):
            at += client.send(everything[at : at + 65536])
    assert at < len(everything), "4 MB went through, and 5 MB of answers wait"
    # What two reads brought may wait.
    assert relay.call(lambda: pending(session) + len(session.conversation.answers)) <= CHUNK
    assert not relay.call(lambda: session.client._watched & READ)

    client.settimeout(30)
    rest = threading.Thread(target=client.sendall, args=(everything[at:],))
    rest.start()
    answers = receive(client, count * 20)
    assert [number for _, number, _ in struct.iter_unpack(">ii12s", answers)] == list(range(count))
    rest.join(30)
    sent = request(FETCH_V4, 8)
    passes(client, broker, sent)


def test_answers_of_kproxy_and_broker_keep_their_order(relay: Relay) -> None:
    client, broker, session = relay.connect()
    narrow(client, session.client.sock)
    # Which are answered at once, and which wait for a response before them, is a matter of the moment.
    said, ids = [], list(range(20_000))
    for number in ids:
        said.append(request(FETCH_V4 if number % 400 < 2 else 18 << 16 | 99, number))
    asked = ids[::400] + ids[1::400]

    def answer() -> None:
        for number in sorted(asked):
            receive(broker, 18 - 2)
            broker.sendall(response(number, bytes(20_000)))

    threads = [threading.Thread(target=answer), threading.Thread(target=client.sendall, args=(b"".join(said),))]
    for thread in threads:
        thread.start()
    assert [next_id(client) for _ in ids] == ids
    for thread in threads:
        thread.join(30)
    client.close()
    broker.close()
    relay.end_of(session)


def test_the_last_answers_of_kproxy_itself_come_before_the_end(relay: Relay) -> None:
    """The broker ends while they wait behind what it has said last."""
    client, broker, session = relay.connect()
    narrow(client, session.client.sock)
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    frame = response(1, bytes(4 * CHUNK))

    def answer() -> None:
        broker.sendall(frame)
        broker.close()

    sender = threading.Thread(target=answer)
    sender.start()
    receive(client, 100)  # most of the rest waits
    client.sendall(request(18 << 16 | 99, 2))
    receive(client, len(frame) - 100)
    assert next_id(client) == 2
    sender.join(30)
    assert client.recv(1) == b""
    client.close()
    relay.end_of(session)


def test_traffic_is_counted(relay: Relay) -> None:
    client, broker, session = relay.connect()
    sent = request(FETCH_V4, 1)
    client.sendall(sent)
    receive(broker, len(sent))
    frame = response(1, b"12345678")
    broker.sendall(frame)
    receive(client, len(frame))
    counters = relay.metrics.node("c", "1")
    assert counters.bytes_from_client == len(sent)
    assert counters.bytes_from_upstream == len(frame)
    assert counters.sessions_open == 1
    assert counters.calls[FETCH_V4].count == 1
    assert sum(counters.calls[FETCH_V4].buckets) == 1
    client.close()
    broker.close()
    relay.end_of(session)
    assert counters.sessions_open == 0
    assert counters.sessions_total == 1


def test_the_loop_keeps_its_timers_and_calls_while_data_flows(relay: Relay) -> None:
    client, broker, _ = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(broker, 16)
    stop = threading.Event()
    size = 1 << 30

    def flood() -> None:
        broker.sendall(struct.pack(">ii", size, 1))
        with contextlib.suppress(OSError):
            while not stop.is_set():
                broker.sendall(bytes(256 * 1024))

    def drink() -> None:
        with contextlib.suppress(OSError):
            while client.recv(1 << 20):
                pass

    threads = [threading.Thread(target=work, daemon=True) for work in (flood, drink)]
    for thread in threads:
        thread.start()
    fired = asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05, "fired"), relay.loop)
    assert fired.result(30) == "fired"
    stop.set()
    broker.close()
    for thread in threads:
        thread.join(30)


def test_a_defect_in_a_send_ends_one_session_only(relay: Relay, caplog: pytest.LogCaptureFixture) -> None:
    """The selector calls sessions from inside the loop, which an exception would end."""

    class Broken:
        def __init__(self, real: socket.socket) -> None:
            self.close, self.fileno = real.close, real.fileno

        def send(self, data: object) -> int:
            raise RuntimeError("planted")

    client, _, session = relay.connect()
    other, broker, _ = relay.connect()
    relay.call(lambda: setattr(session.upstream, "sock", Broken(session.upstream.sock)))
    client.sendall(request(FETCH_V4, 1))
    assert isinstance(relay.end_of(session), RuntimeError)
    assert "defect in the data plane" in caplog.text
    passes(other, broker, request(FETCH_V4, 2))
