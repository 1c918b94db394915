"""The sessions of one cluster: how each begins and ends, how all are drained."""

from __future__ import annotations

import asyncio
import errno
import struct
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.client.sasl.exchange import SaslSession
from kproxy.client.sasl.login import LoginContext, SaslLogin
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.cluster import insessionchannel, pendingconnections, sessions, unknownapis
from kproxy.proxy.cluster.clientroute import ClusterUpdate
from kproxy.proxy.cluster.nodedialer import Outage, Unreachable
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.relay.pump import _SIZES, COPY
from kproxy.proxy.switching.parts import Part
from tests.harness.compiled import replaces_a_method
from tests.harness.servers.peers import reset
from tests.unit.client.sasl import broker
from tests.unit.proxy.cluster.doorway import until
from tests.unit.proxy.cluster.house import LONG, NOBODY, NODE, End, House, Running, in_house, passes
from tests.unit.proxy.relay.talking import FETCH_V4, METADATA_V1, metadata_body, request, response

API_VERSIONS_V0 = 18 << 16


async def stays(client: End, far: End) -> bytes:
    """The client sends a request that does not pass; return it."""
    sent = request(FETCH_V4, 77)
    await client.say(sent)
    for _ in range(20):
        await asyncio.sleep(0)
    assert far.has_heard_nothing()
    return sent


# One session


@in_house
async def test_a_session_from_its_first_request_to_its_end(house: House) -> None:
    one = house.cluster()
    client, far = await one.session()
    await passes(client, far)
    assert one.metrics.node("default", NODE.label).sessions_open == 1
    client.sock.close()
    await far.ended()
    far.sock.close()
    await until(lambda: not one.held, "it is over")
    assert one.metrics.node("default", NODE.label).sessions_open == 0


@in_house
async def test_an_api_that_is_newer_than_kproxy_is_named_once(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process, of all clusters; and a broker that offers thousands does not fill the log."""
    warned_of: set[int] = set()
    monkeypatch.setattr(unknownapis, "_warned_of", warned_of)

    async def asks(one: Running, *keys: int) -> None:
        client, far = await one.session()
        await client.say(request(API_VERSIONS_V0, 1))
        await far.hear(request(API_VERSIONS_V0, 1))
        known = b"\0\3\0\0\0\5"
        offered = b"".join(struct.pack(">hhh", key, 0, 0) for key in keys) + known
        await far.say(response(1, struct.pack(">hi", 0, len(keys) + 1) + offered))
        await client.hear(response(1, struct.pack(">hi", 0, 1) + known))
        client.sock.close()
        await far.ended()
        far.sock.close()

    one, other = house.cluster(), house.cluster()
    await asks(one, 95)
    await asks(one, 95)
    await asks(other, 95, 96)
    lines = [line for line in caplog.messages if "which this kproxy does not know" in line]
    assert [line.partition(", which")[0] for line in lines] == [
        f"cluster default: the broker offers the API with key {key}" for key in (95, 96)
    ]
    assert ": me at 127.0.0.1:" in lines[0]
    for first in range(1000, 3000, 20):
        await asks(one, *range(first, first + 20))
    assert len(warned_of) == len([line for line in caplog.messages if "which this kproxy does not know" in line]) == 32


@in_house
async def test_a_dial_that_fails_closes_the_client(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(key: NodeKey | None) -> VerifiedConnection:
        raise UpstreamError("refused", "nobody listens")

    one = house.cluster()
    one.dial = fails
    await one.carry().ended()
    assert not one.held
    assert f"{NODE} cannot be reached: nobody listens" in caplog.text


class Lost:
    """A node that is out of reach, for so many seconds already."""

    def __init__(self, seconds: float) -> None:
        self.outage = Outage(asyncio.get_running_loop().time() - seconds)
        self.dials = 0

    async def dial(self, key: NodeKey | None) -> VerifiedConnection:
        self.dials += 1
        raise Unreachable(UpstreamError("refused", "nobody listens"), self.outage)


@in_house
async def test_a_client_learns_at_once_of_a_new_outage(house: House) -> None:
    one, lost = house.cluster(), Lost(0)
    one.dial = lost.dial
    await one.carry().ended()
    assert (one.held, lost.dials, one.slots._waiting) == (0, 1, {})


@in_house
async def test_a_client_waits_for_its_node_and_continues_afterwards(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    one, lost = house.cluster(), Lost(100)
    one.dial = lost.dial
    kept = [one.carry() for _ in range(3)]
    await until(lambda: one.sessions._pending._waiting == 3, "they are kept")
    assert one.held == 3
    one.dial = one._dial
    lost.outage.ended.set()
    await until(lambda: one.open == 3, "they have their sessions")
    await passes(kept[2], one.upstreams[2])
    assert one.sessions._pending._waiting == 0
    assert caplog.text.count("cannot be reached: nobody listens") == 3


@in_house
async def test_a_client_that_is_kept_is_closed_after_a_while(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pendingconnections, "_LONGEST_WAIT", 0.05)
    one, lost = house.cluster(), Lost(100)
    one.dial = lost.dial
    await one.carry().ended()
    assert (one.held, lost.dials, one.slots._waiting) == (0, 1, {})


@pytest.mark.parametrize("how", ["give way", "drain", "gone", "flip"])
@in_house
async def test_a_client_that_is_kept_leaves_nothing(house: House, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pendingconnections, "_LONGEST_WAIT", 0.5)
    one, lost = house.cluster(), Lost(100)
    one.dial = lost.dial
    client = one.carry()
    (kept,) = await until(lambda: list(one.slots._waiting), "it is kept")
    if how == "gone":
        reset(client.sock)
    elif how == "give way":
        kept.give_way()
        assert not one.held, "its place is free at once"
    elif how == "flip":
        one.sessions.flip(one.sessions._routes[""].config)
    else:
        one.sessions.drain()
    await until(lambda: not one.held and not one.sessions._pending._waiting, "it is over")
    assert one.sessions._pending._dial_queue.in_use == 0


@in_house
async def test_no_more_clients_are_kept_or_on_their_way_than_allowed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pendingconnections, "pending_connection_limit", lambda files: 4)
    one, lost = house.cluster(), Lost(100)
    one.dial = lost.dial
    kept = [one.carry() for _ in range(10)]
    await until(lambda: one.held == 4, "the others are closed")
    assert lost.dials <= 10
    go = asyncio.Event()
    dialled: list[NodeKey | None] = []

    async def slow(key: NodeKey | None) -> VerifiedConnection:
        dialled.append(key)
        await go.wait()
        return one.upstream()

    one.dial = slow
    lost.outage.ended.set()
    await until(lambda: dialled, "one tries")
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(dialled) == 1, "one for all"
    go.set()
    await until(lambda: one.open == 4, "all have their sessions")
    assert len(kept) == 10


@pytest.mark.parametrize("answers", [True, False])
@in_house
async def test_a_node_must_answer_the_client_that_alone_can_ask(
    house: House, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two kproxies that lead to each other never do."""
    one = house.cluster()
    one.sessions._routes[""].config = one.sessions._routes[""].config.replace(connect_timeout=0.2)

    async def verify(channel: object) -> None:
        raise AssertionError("it has not logged in")

    async def unasked(key: NodeKey | None) -> VerifiedConnection:
        return one.upstream(key, verify=verify)

    one.dial = unasked
    client, far = await one.session()
    assert one.sessions._pending._dial_queue.in_use == 1
    await client.say(request(API_VERSIONS_V0, 1))
    await far.hear(request(API_VERSIONS_V0, 1))
    if answers:
        await far.say(response(1, b"\0\0" + bytes(4)))
        await client.hear(response(1, b"\0\0" + bytes(4)))
        await until(lambda: not one.sessions._pending._dial_queue.in_use, "it is no longer on its way")
        assert one.open == 1
    else:
        await client.ended()
        assert one.metrics.refusals["default", "upstream", "timeout"] == 1
        assert one.sessions._pending._dial_queue.in_use == 0


@in_house
async def test_a_client_that_goes_while_its_node_is_dialled(house: House) -> None:
    one, dials, go = house.cluster(), asyncio.Event(), asyncio.Event()

    async def slow(key: NodeKey | None) -> VerifiedConnection:
        dials.set()
        await go.wait()
        return one.upstream()

    one.dial = slow
    client = one.carry()
    await dials.wait()
    reset(client.sock)
    go.set()
    await until(lambda: not one.held, "it is over")
    with pytest.raises((ConnectionResetError, AssertionError)):  # nothing of a client that is gone, and an end
        await one.upstreams[0].hear(b"x")


@in_house
async def test_a_bootstrap_server_replaces_a_node_only_for_a_while(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that stayed would take it for the node when there is one, and be refused for ever."""
    monkeypatch.setattr(sessions, "_BOOTSTRAP_SESSION_SECONDS", 0.05)
    one = house.cluster()
    client, far = await one.session()
    one.dial = one.bootstrap
    other, server = await one.session()
    await other.say(request(FETCH_V4, 1))
    await server.hear(request(FETCH_V4, 1))
    await asyncio.sleep(0.2)
    await other.say(request(FETCH_V4, 2))
    await server.say(response(1, b"answer"))
    await other.hear(response(1, b"answer"))
    await server.ended()
    await passes(client, far)
    assert one.open == 1


@replaces_a_method
@in_house
async def test_a_session_that_the_selector_cannot_watch(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the system's limit of watches is reached: nothing is left registered, and the client is closed."""
    one = house.cluster()
    real, asked = house.selector.relay, []

    def relay(fd: int, mask: int, callback: Any) -> None:
        asked.append(fd)
        if len(asked) == 2:
            raise OSError(errno.ENOSPC, "no space left on device")
        real(fd, mask, callback)

    monkeypatch.setattr(house.selector, "relay", relay)
    await one.carry().ended()
    assert not one.held
    assert not house.selector._relayed
    assert one.metrics.node("default", NODE.label).sessions_open == 0


# Held


def logging_in(one: Running, monkeypatch: pytest.MonkeyPatch) -> SaslLogin:
    """Let kproxy log in to the broker, and again at once."""
    monkeypatch.setattr(insessionchannel, "_EARLIEST", 0.0)
    monkeypatch.setattr(insessionchannel, "_LATEST", 0.0)
    login = SaslLogin(
        ClusterConfig(bootstrap_servers=(NOBODY,), sasl="PLAIN", sasl_username="user", sasl_password="right")
    )

    async def dial(key: NodeKey | None) -> VerifiedConnection:
        return one.upstream(login=LoginContext(login, NOBODY, "kafka", SaslSession(20_000, {17: 1, 36: 2})))

    one.dial = dial
    return login


@in_house
async def test_a_login_is_repeated_while_the_session_is_held(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds does not hold up a login that must be repeated, nor does that let the requests go."""
    one, prepared = house.cluster(), asyncio.Event()
    login = logging_in(one, monkeypatch)
    real = login.prepare

    async def prepare(*more: Any) -> Any:
        await prepared.wait()
        return await real(*more)

    monkeypatch.setattr(login, "prepare", prepare)

    client, far = await one.session()
    ((connection, session),) = one.sessions._open()
    session.hold()
    sent = await stays(client, far)
    prepared.set()
    for answer in (broker.handshake(), broker.authenticate(2, life=0)):
        frame = await next_frame(far)
        await far.say(response(int.from_bytes(frame[8:12], "big"), answer))
    await until(lambda: (task := connection.relogin) is not None and task.done(), "it has logged in")
    assert far.has_heard_nothing()
    session.release()
    await far.hear(sent)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([broker.handshake(), broker.authenticate(2, error=58)], "the broker refused the login; check sasl-username"),
        ([broker.handshake(33, b"GSSAPI")], "the broker has not enabled PLAIN: set sasl to one of GSSAPI"),
        ([], "the broker closed the connection while kproxy was logging in again"),
    ],
    ids=["refused", "not enabled", "closed"],
)
@in_house
async def test_a_login_that_cannot_be_repeated_ends_the_session(
    house: House, answers: list[bytes], text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = house.cluster()
    logging_in(one, monkeypatch)
    client, far = await one.session()
    frame = await next_frame(far)
    for index, answer in enumerate(answers):
        frame = await next_frame(far) if index else frame
        await far.say(response(int.from_bytes(frame[8:12], "big"), answer))
    if not answers:
        far.sock.close()
    await client.ended()
    client.sock.close()
    await until(lambda: not one.open, "the session has ended")
    assert one.metrics.refusals == {("default", "upstream", "sasl"): 1}
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"closed a connection to {NODE}: ")
    assert text in message


async def next_frame(end: End) -> bytes:
    """The next request of kproxy's own, with its size."""
    frame = b""
    async with asyncio.timeout(LONG):
        while len(frame) < 4 or len(frame) < 4 + int.from_bytes(frame[:4], "big"):
            frame += await asyncio.get_running_loop().sock_recv(end.sock, 4096)
    return frame


@in_house
async def test_what_clients_send_behind_a_half_sent_request_is_bounded(house: House) -> None:
    """Each may send as much as one read takes behind it before it is read no more: of many, reads are small."""
    one = house.cluster()
    (many, _), count = _SIZES[0], 4
    assert many < count
    clients = [await one.session() for _ in range(count)]
    head = request(FETCH_V4, 1, bytes(100))
    for client, far in clients:
        await client.say(head[:50])
        await far.hear(head[:50])
    before = len(house.pump.window)
    for _, session in one.sessions._open():
        session.hold()
    assert len(house.pump.window) < before
    for client, far in clients:
        await client.say(head[50:])
        await far.hear(head[50:])
    assert len(house.pump.window) == before
    assert house.pump._kept_chunks == 0
    house.pump.expect(_SIZES[-1][0])
    assert len(house.pump.window) == COPY
    house.pump.expect(-_SIZES[-1][0])


# Drained


@in_house
async def test_a_drain_of_one_cluster_leaves_the_other_alone(house: House) -> None:
    one, two = house.cluster("one"), house.cluster("two")
    idle, busy, other = await one.session(), await one.session(), await two.session()
    await busy[0].say(request(FETCH_V4, 1))
    await busy[1].hear(request(FETCH_V4, 1))
    one.sessions.drain()
    await idle[0].ended()
    assert not one.sessions.drained.is_set()
    await passes(*other)
    await busy[1].say(response(1, b"one"))
    await busy[0].hear(response(1, b"one"))
    await busy[0].ended()
    await one.sessions.drained.wait()
    await passes(*other)
    assert (one.held, two.held) == (0, 1)


@in_house
async def test_a_stop_during_a_drain_of_one_cluster(house: House) -> None:
    one, two = house.cluster("one"), house.cluster("two")
    first, second = await one.session(), await two.session()
    for client, far in (first, second):
        await client.say(request(FETCH_V4, 1))
        await far.hear(request(FETCH_V4, 1))
    one.sessions.drain()
    stop = await house.begin(house.here.drain(LONG))
    await first[1].say(response(1, b"one"))
    await one.sessions.drained.wait()
    assert not stop.done()
    await second[1].say(response(1, b"one"))
    assert await stop == 0


@in_house
async def test_a_flip_leaves_no_way_to_the_former_cluster(house: House) -> None:
    """Neither for a session, nor for a client whose node was being dialled."""
    one, dials, go = house.cluster(), asyncio.Event(), asyncio.Event()
    client, far = await one.session()
    former = one.upstream()

    async def slow(key: NodeKey | None) -> VerifiedConnection:
        dials.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            former.sock.close()
            raise
        return former

    one.dial = slow
    waits = one.carry()
    await dials.wait()
    one.dial = one._dial
    house.here.clusters["default"].flip(ClusterConfig(name="default", bootstrap_servers=(NOBODY,), upstream="green"))
    go.set()
    for ended in (client, far, waits):
        await ended.ended()
    assert one.open == 0
    await one.upstreams[-1].ended()
    await passes(*await one.session(), 2)


@in_house
async def test_a_brokers_endpoints_belong_to_the_current_upstream(house: House) -> None:
    """Also in a session from before there was a part, and in one of a part that is no more."""
    one = house.cluster()
    config = ClusterConfig(name="default", bootstrap_servers=(NOBODY,))
    named: list[str] = []

    def localise(whose: str) -> Callable[[str, Endpoints], Sequence[Address]]:
        def note(host: str, endpoints: Endpoints) -> Sequence[Address]:
            named.append(whose)
            return [NOBODY for _ in endpoints.nodes]

        return note

    def dial(key: NodeKey | None, request: object) -> Coroutine[Any, Any, VerifiedConnection]:
        return one.dial(key)

    one.sessions = house.here.add_cluster(config, dial, localise("others"), switches=True)

    async def ask(client: End, far: End, number: int) -> None:
        await client.say(request(METADATA_V1, number))
        await far.hear(request(METADATA_V1, number))
        await far.say(response(number, metadata_body("kafka")))
        await client.hear(response(number, metadata_body("kafka")))

    before = await one.session()
    await ask(*before, 1)
    house.here.clusters["default"].parts.make(Part("some", ("me",)), config, dial, localise("some"))
    await ask(*before, 2)
    assert named == ["others", "some"]
    client, count = one.carry(), one.open
    await client.say(request(METADATA_V1, 1))  # it is heard before kproxy dials
    await until(lambda: one.open > count, "the session is open")
    far = one.upstreams[-1]
    await far.hear(request(METADATA_V1, 1))
    await far.say(response(1, metadata_body("kafka")))
    await client.hear(response(1, metadata_body("kafka")))
    assert house.here.clusters["default"].parts.end("some") == ""
    await ask(client, far, 2)
    await ask(*before, 3)
    assert named == ["others", "some", "some", "others", "others"]


async def session_in_part(one: Running) -> tuple[End, End]:
    """A session of a client that has sent its client id: kproxy dials when it has read that."""
    client, count = one.carry(), one.open
    await client.say(request(API_VERSIONS_V0, 1))
    await until(lambda: one.open > count, "the session is open")
    far = one.upstreams[-1]
    await far.hear(request(API_VERSIONS_V0, 1))
    await far.say(response(1, b"\0\0" + bytes(4)))
    await client.hear(response(1, b"\0\0" + bytes(4)))
    return client, far


MINE = Part("mine", ("me",))


@in_house
async def test_a_new_part_leaves_no_session_without_a_client_id(house: House) -> None:
    """Such a client may belong to the part, and would not move with it."""
    one = house.cluster(switches=True)
    named, nameless = await one.session(), await one.session()
    await passes(*named)
    house.here.clusters["default"].parts.make(MINE, one.config, lambda key, _: one.dial(key), one._localise)
    await nameless[0].ended()
    await passes(*named, 2)


@pytest.mark.parametrize("flipped", ["mine", ""])
@in_house
async def test_a_part_stays_apart_once_one_of_the_two_was_switched(house: House, flipped: str) -> None:
    """Their clients' positions are of different clusters."""
    one, dialled = house.cluster(switches=True), 0

    async def dial(key: NodeKey | None, request: object) -> VerifiedConnection:
        nonlocal dialled
        dialled += 1
        return one.upstream()

    house.here.clusters["default"].parts.make(MINE, one.config, dial, one._localise)
    await session_in_part(one)
    house.here.clusters["default"].flip(one.config.replace(upstream="green"), flipped)
    assert "was switched since the part was made" in house.here.clusters["default"].parts.end("mine")
    await session_in_part(one)
    assert dialled == 2


@in_house
async def test_more_clients_join_a_part_that_was_switched_and_came_back(house: House) -> None:
    """Their sessions go on, and are of the part from then on; not once the cluster was switched itself."""
    one = house.cluster(switches=True)
    sessions = house.here.clusters["default"]
    client, far = await one.session()  # of "me", which is not in the part
    await passes(client, far)
    sessions.parts.make(Part("mine", ("other",)), one.config, lambda key, _: one.dial(key), one._localise)
    for upstream in ("green", "blue"):
        sessions.flip(one.config.replace(upstream=upstream), "mine")
    assert sessions.parts.extend(Part("mine", ("me", "other"))) == ""
    await passes(client, far, 2)
    sessions.flip(one.config, "")
    await passes(client, far, 3)
    assert "the cluster was switched since part mine was made" in sessions.parts.extend(Part("mine", ("m*", "other")))
    sessions.flip(one.config, "mine")
    await client.ended()


@in_house
async def test_a_part_is_reconfigured_by_itself(house: House) -> None:
    one = house.cluster(switches=True)
    other, large = await one.session(), request(FETCH_V4, 1, bytes(2000))
    others_request = large.replace(b"me", b"no")
    await other[0].say(others_request[:100])
    await other[1].hear(others_request[:100])
    house.here.clusters["default"].parts.make(MINE, one.config, lambda key, _: one.dial(key), one._localise)
    client, _ = await session_in_part(one)
    smaller = one.config.replace(max_request_size=1000)
    parts = {"mine": (smaller, lambda *_: True)}
    assert one.sessions.reconfigure(ClusterUpdate(one.config, None, lambda *_: False, True, parts), LONG) == 1
    await client.ended()
    late = one.carry()
    await late.say(large)
    await late.ended()
    assert one.metrics.refusals == {("default", "client", "request-too-large"): 1}
    await other[0].say(others_request[100:])
    await other[1].hear(others_request[100:])


@in_house
async def test_a_drain_during_a_hold_ends_after_the_held_requests(house: House) -> None:
    one = house.cluster()
    client, far = await one.session()
    sent = request(FETCH_V4, 1, bytes(100))
    await client.say(sent[:50])
    await far.hear(sent[:50])
    ((_, session),) = one.sessions._open()
    session.hold()
    await client.say(sent[50:] + request(FETCH_V4, 2))
    await far.hear(sent[50:])
    await far.say(response(1, b"one"))
    await until(lambda: session.settled, "nothing is in flight")
    one.sessions.drain()
    assert not one.sessions.drained.is_set(), "a request of the client waits"
    session.release()
    await far.hear(request(FETCH_V4, 2))
    await far.say(response(2, b"two"))
    await client.hear(response(1, b"one") + response(2, b"two"))
    await client.ended()
    await one.sessions.drained.wait()
