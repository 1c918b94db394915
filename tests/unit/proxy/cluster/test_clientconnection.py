"""The table of a client connection's states and events, row by row, as its docstring has it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.net.tls import handshakes
from kproxy.proxy.cluster import connectionslots, sessions
from kproxy.proxy.cluster.acceptor import Acceptor
from kproxy.proxy.cluster.clientconnection import ClientConnection, ConnectionState
from kproxy.proxy.cluster.clientroute import ClusterUpdate
from kproxy.proxy.cluster.listeners import Listener
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from tests.harness.servers.peers import reset
from tests.harness.tls import Authority, connected
from tests.unit.proxy.cluster.doorway import until
from tests.unit.proxy.cluster.house import LONG, NODE, End, House, Running, in_house
from tests.unit.proxy.relay.talking import FETCH_V4, request

SOON = 0.05
HALF_A_RECORD = b"\x16\x03\x01\x00\x05hel"
NO_REQUEST = b"\x7f" * 16


def rows() -> list[tuple[str, str, str]]:
    """Each state, event and next state in the docstring."""
    lines = (ClientConnection.__doc__ or "").splitlines()
    start = next(number for number, line in enumerate(lines) if line.split()[:1] == ["state"])
    _, *events = lines[start].split()
    table = [line.split() for line in lines[start + 1 : lines.index("", start)]]
    return [
        (state, event, after) for state, *all_after in table for event, after in zip(events, all_after, strict=True)
    ]


class Client:
    """A client that is brought into a state, and what happens to it there."""

    def __init__(self, cluster: Running) -> None:
        self.cluster = cluster
        self.go = asyncio.Event()  # for the dial
        self.refused = False
        self.far: End

    async def dial(self, key: NodeKey | None) -> VerifiedConnection:
        await self.go.wait()
        if self.refused:
            raise UpstreamError("refused", "nobody listens")
        return self.cluster.upstream(None)  # a bootstrap server in place of the node

    async def reach(self, state: str, drain_seconds: float) -> ClientConnection:
        self.cluster.dial = self.dial
        far, near = connected()
        near.setblocking(False)
        self.far = End(far)
        self.cluster.ends.append(self.far)
        slots, handle = self.cluster.slots, self.cluster.sessions.handle_client
        acceptor = Acceptor(slots, lambda _: "127.0.0.1", handle, expects_tls=state == "handshaking")
        acceptor.on_accept(near, Address("127.0.0.1", 1), Listener(NODE, 0, []))
        (connection,) = slots._connections
        if state == "handshaking":
            await self.far.say(HALF_A_RECORD)
        elif state != "accepted":
            await self.far.say(request(FETCH_V4, 1))
        if state in ("open", "draining"):
            self.go.set()
            await until(lambda: connection.session is not None, "it is open")
            await self.cluster.upstreams[-1].hear(request(FETCH_V4, 1))
        if state == "draining":
            update = ClusterUpdate(self.cluster.config, None, lambda *_: True, True)
            assert self.cluster.sessions.reconfigure(update, drain_seconds) == 1
        if drain_seconds == LONG or state == "dialling":  # else its time may be over already
            await until(lambda: connection.state is ConnectionState[state.upper()], state)
        return connection

    async def suffer(self, event: str, connection: ClientConnection) -> None:
        unit = self.cluster.sessions.unit()
        assert unit is not None
        if event == "reset":
            reset(self.far.sock)
        elif event == "half-close":
            self.far.sock.shutdown(socket.SHUT_WR)
        elif event == "refusal":
            self.refused = True
            self.go.set()
            await self.far.say(NO_REQUEST)
        elif event == "hold":
            unit.write_hold.begin_hold(lambda: None)
        elif event == "switch":
            self.cluster.sessions.flip(self.cluster.config)
        elif event == "drain":
            self.cluster.slots.close_silent()
            self.cluster.sessions.drain()
        elif event == "timeout" and connection.state is ConnectionState.DIALLING:
            self.refused = True  # as the dialer says it after --connect-timeout
            self.go.set()


@pytest.mark.parametrize(("state", "event", "after"), rows())
@in_house
async def test_each_row_of_the_table(
    house: House, state: str, event: str, after: str, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    if event == "timeout":
        monkeypatch.setattr(connectionslots, "_SILENCE", SOON)
        monkeypatch.setattr(handshakes, "_CLIENT_TIMEOUT", SOON)
    if event == "timeout" and state == "open":
        monkeypatch.setattr(sessions, "_BOOTSTRAP_SESSION_SECONDS", SOON)
    options: dict[str, Path] = {}
    if state == "handshaking":
        options["client_tls_cert"], options["client_tls_key"] = authority.files("localhost")
    cluster = house.cluster(switches=True, max_connections=1, **options)  # type: ignore[arg-type]
    client = Client(cluster)
    connection = await client.reach(state, SOON if event == "timeout" else LONG)
    await client.suffer(event, connection)
    wanted = ConnectionState[after.upper()]
    if after == state:
        await asyncio.sleep(2 * SOON if event == "timeout" else SOON / 5)
        assert connection.state is wanted
        assert cluster.held == 1
    else:
        await until(lambda: connection.state is wanted, f"{state}, {event}: {after}, not {connection.state}")
    if wanted is ConnectionState.CLOSED:
        assert connection.sock.fileno() == -1
        assert cluster.held == 0
        assert not cluster.slots._limit.evictable
        assert cluster.sessions._pending._dial_queue.in_use == 0
    if event == "hold":
        cluster.sessions.unit().release_writes()  # type: ignore[union-attr]
    client.refused = True
    client.go.set()
    connection.close()


def test_the_table_has_each_state_and_event() -> None:
    table = list(rows())
    assert {state for state, _, _ in table} == {state.name.lower() for state in ConnectionState} - {"closed"}
    assert len({event for _, event, _ in table}) == 7
    assert len(table) == 35


@in_house
async def test_closing_twice_frees_one_slot(house: House) -> None:
    cluster = house.cluster()
    client, connection = cluster.accept()
    other, _ = cluster.accept()
    for _ in range(2):
        connection.close()
    assert cluster.held == 1
    await client.ended()
    assert other.has_heard_nothing()
    cluster.slots._connections.copy().pop().close()
