"""Sessions over real sockets: a pump on a loop of its own thread, and the far ends of what it relays."""

from __future__ import annotations

import asyncio
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.loop import RelayLoop
from kproxy.proxy.relay.pump import Pump
from kproxy.proxy.relay.selector import Poller, PortablePoller, RelaySelector
from kproxy.proxy.relay.session import Session
from tests.harness.tls import connected, in_thread

FETCH_V4 = 1 << 16 | 4
METADATA_V1 = 3 << 16 | 1
LOCAL = Address("127.0.0.1", 19093)


def request(code: int, correlation_id: int, body: bytes = b"") -> bytes:
    frame = struct.pack(">Iih", code, correlation_id, 2) + b"me" + body
    return struct.pack(">i", len(frame)) + frame


def response(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def metadata_body(host: str) -> bytes:
    raw = host.encode()
    broker = struct.pack(">iih", 1, 7, len(raw)) + raw + struct.pack(">ih", 9092, -1)
    return broker + struct.pack(">ii", 7, 0)


class Relay:
    """A pump on a loop of its own thread. `connect` gives the two far ends of a new session, as blocking sockets.
    `pair` makes each of them, and the end of it that the session has."""

    def __init__(
        self, selector: RelaySelector, pair: Callable[[], tuple[socket.socket, socket.socket]] = connected
    ) -> None:
        self._pair = pair
        self.selector = selector
        self.metrics = Metrics()
        self.ended: dict[Session, Future[Exception | None]] = {}
        self.sessions: list[Session] = []
        self.sockets: list[socket.socket] = []
        self.loop = RelayLoop(selector)
        self.pump = Pump(selector)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function on the loop's thread."""
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001  # whatever it is, the caller's thread is to see it
                done.set_exception(error)

        self.loop.call_soon_threadsafe(run)
        return done.result(30)

    def connect(self) -> tuple[socket.socket, socket.socket, Session]:
        client, client_inside = self._pair()
        broker, broker_inside = self._pair()
        self.sockets += (client, broker)
        counters = self.metrics.node("c", "1")

        def localise(endpoints: Endpoints) -> list[Address]:
            return [LOCAL for _ in endpoints.nodes]

        def start() -> Session:
            conversation = Conversation(Calls(counters.call), localise, 100 * 1024 * 1024)
            return Session(self.pump, client_inside, broker_inside, conversation, counters, self._on_end)

        for sock in (client_inside, broker_inside):
            sock.setblocking(False)
        session = self.call(start)
        self.sessions.append(session)
        self.ended[session] = Future()
        return client, broker, session

    def _on_end(self, session: Session, error: Exception | None) -> None:
        self.ended[session].set_result(error)

    def end_of(self, session: Session) -> Exception | None:
        return self.ended[session].result(30)

    def close(self) -> None:
        for session in self.sessions:
            self.call(session.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()
        for sock in self.sockets:
            sock.close()


def receive(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = sock.recv(count - len(data))
        assert more, f"the connection ended after {len(data)} of {count} bytes"
        data += more
    return bytes(data)


def passes(source: socket.socket, sink: socket.socket, sent: bytes, received: bytes = b"") -> None:
    """Send bytes at one end of a session, and receive them at the other; or `received`, with what was sent before."""
    sending = in_thread(lambda: source.sendall(sent))
    assert receive(sink, len(received or sent)) == (received or sent)
    sending.join(30)


class LikeKqueue(selectors.PollSelector):
    """Reports reading and writing of one descriptor as two events, as kqueue(2) of macOS does."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        parts = (selectors.EVENT_READ, selectors.EVENT_WRITE)
        return [(key, mask & part) for key, mask in super().select(timeout) for part in parts if mask & part]


POLLERS: dict[str, Callable[[], Poller | None]] = {
    "fast": lambda: None,
    "portable": lambda: PortablePoller(selectors.PollSelector()),
    "like kqueue": lambda: PortablePoller(LikeKqueue()),
}


@pytest.fixture(params=POLLERS)
def relay(request: pytest.FixtureRequest) -> Iterator[Relay]:
    made = Relay(RelaySelector(POLLERS[request.param]()))
    yield made
    made.close()


def pending(*sessions: Session) -> int:
    """How many bytes the sides of these sessions have not taken yet."""
    return sum(len(side.pending) for session in sessions for side in (session.client, session.upstream))
