"""Before the first request that is not for logging in, a session waits until kproxy has asked what it wants to know."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.apiversions import unsupported_version
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.relay.pump import CHUNK
from kproxy.proxy.relay.selector import PortablePoller
from tests.harness.servers.peers import reset
from tests.unit.kafka_frames import CHUNKINGS, Talk, chunks, frame, request, response, string
from tests.unit.proxy.relay.talking import FETCH_V4, Relay, passes, receive, relay
from tests.unit.proxy.relay.talking import request as short_request
from tests.unit.proxy.relay.talking import response as short_response

__all__ = ["relay"]

OWN = short_request(18 << 16, 0x7FFF0001)
OWN_RESPONSE = short_response(0x7FFF0001, b"own")
VERSIONS = request(ApiKey.API_VERSIONS, 3, 1, b"\x05java\x024\x00")
NEWER = request(ApiKey.API_VERSIONS, 9, 2, b"\x05java\x024\x00")
HANDSHAKE_0, HANDSHAKE_1 = (request(ApiKey.SASL_HANDSHAKE, version, 3, string("PLAIN")) for version in (0, 1))
AUTHENTICATE = request(ApiKey.SASL_AUTHENTICATE, 2, 4, b"\x0d\x00alice\x00secret\x00")
TOKEN = frame(b"\x00alice\x00secret")
# What a client may say to log in, and what of it the broker gets.
LOGINS = [
    (),
    (VERSIONS,),
    (NEWER, VERSIONS),
    (VERSIONS, HANDSHAKE_1, AUTHENTICATE),
    (NEWER, HANDSHAKE_1, AUTHENTICATE, AUTHENTICATE),
    (HANDSHAKE_0, TOKEN, frame(b""), TOKEN),
    (frame(b"\x60\x82\x02" + bytes(500)), frame(b"")),
]
# None of them may pass; the last two never do.
FIRST = [
    request(ApiKey.METADATA, 12, 7),
    request(ApiKey.FETCH, 4, 7, bytes(50_000)),
    request(ApiKey.PRODUCE, 9, 7, b"\x00" + struct.pack(">hi", -1, 1000) + b"records"),
    request(ApiKey.PRODUCE, 7, 7, string(None) + struct.pack(">hi", 0, 1000) + b"records"),
    request(ApiKey.METADATA, 14, 7),
    request(4, 0, 7),
]


def gated() -> tuple[Talk, list[int]]:
    """A conversation with a gate, and a list that grows when it is held."""
    talk, held = Talk(), []
    talk.conversation.hold_before_first_request(lambda: held.append(1))
    return talk, held


@given(
    login=st.sampled_from(LOGINS),
    first=st.sampled_from(FIRST[:4]),
    behind=st.lists(st.sampled_from([*FIRST[:4], VERSIONS]), max_size=3),
    sizes=CHUNKINGS,
    more=CHUNKINGS,
)
def test_the_login_passes_the_gate_and_nothing_after_it_does(
    login: tuple[bytes, ...], first: bytes, behind: list[bytes], sizes: list[int], more: list[int]
) -> None:
    talk, held = gated()
    passed = b"".join(one for one in login if one is not NEWER)
    assert talk.client(*chunks(b"".join(login), sizes)) == passed
    assert not held
    assert not talk.conversation.held
    rest = b"".join((first, *behind))
    assert talk.client(*chunks(rest[:12], more)) == b""
    assert held == [1]
    assert talk.conversation.held
    assert talk.client(rest[12:]) == b""  # no socket is read then; but should more come, it waits as well
    assert bytes(talk.conversation.release(3.0)) == rest
    assert held == [1]
    again = b"".join(behind)
    assert talk.client(*chunks(again, sizes)) == again, "it waits once"


@given(login=st.sampled_from(LOGINS), first=st.sampled_from(FIRST), sizes=CHUNKINGS)
def test_all_in_one_stream_however_it_is_cut(login: tuple[bytes, ...], first: bytes, sizes: list[int]) -> None:
    talk, held = gated()
    passed = b"".join(one for one in login if one is not NEWER)
    assert talk.client(*chunks(b"".join((*login, first)), sizes)) == passed
    assert held == [1]
    if first in FIRST[4:]:
        with pytest.raises(WireError, match=r"Metadata version 14|API key 4"):
            talk.conversation.release(3.0)
    else:
        assert bytes(talk.conversation.release(3.0)) == first


@given(
    login=st.sampled_from([login for login in LOGINS if {HANDSHAKE_0, HANDSHAKE_1} & {*login}]),
    asked=st.sampled_from([VERSIONS, request(ApiKey.API_VERSIONS, 0, 1)]),
    sizes=CHUNKINGS,
)
def test_api_versions_behind_a_login_waits(login: tuple[bytes, ...], asked: bytes, sizes: list[int]) -> None:
    talk, held = gated()
    passed = b"".join(part for part in login if part is not NEWER)
    rest = asked + FIRST[0] + asked
    assert talk.client(*chunks(b"".join(login) + rest, sizes)) == passed
    assert held == [1]
    assert talk.conversation.waiting == rest
    assert bytes(talk.conversation.release(3.0)) == rest
    assert talk.client(asked) == asked, "it waits once"


def test_kproxy_still_answers_what_it_answers_itself() -> None:
    talk, held = gated()
    assert talk.client(NEWER + NEWER[:9]) == b""
    assert talk.kproxy() == unsupported_version(2)
    assert talk.client(NEWER[9:] + VERSIONS + FIRST[0]) == VERSIONS
    assert talk.kproxy() == unsupported_version(2)
    assert held == [1]


def test_what_is_no_kafka_is_recognised_at_once() -> None:
    talk, held = gated()
    with pytest.raises(WireError, match="HTTP"):
        talk.client(b"GET / HTTP/1.1\r\n")
    assert not held


def test_an_own_request_comes_between_login_and_first_request() -> None:
    talk, _ = gated()
    assert talk.client(VERSIONS + FIRST[0]) == VERSIONS
    own: list[bytes] = []
    assert talk.conversation.ask(OWN, own.append) == OWN
    assert bytes(talk.conversation.release(1.5)) == FIRST[0]
    mine = response(ApiKey.API_VERSIONS, 3, bytes(2) + b"\x01" + bytes(5), 1)
    theirs = response(ApiKey.METADATA, 12, struct.pack(">i", 0) + b"\x01\x00" + struct.pack(">i", 7) + b"\x01\x00", 7)
    assert talk.broker(mine[:5], mine[5:] + OWN_RESPONSE[:3], OWN_RESPONSE[3:] + theirs) == mine + theirs
    assert own == [OWN_RESPONSE[4:]]


@pytest.mark.parametrize("met_first", [True, False])
def test_who_holds_too_lets_go_of_his_own_hold_only(met_first: bool) -> None:
    talk, held = gated()
    conversation = talk.conversation
    talk.client(VERSIONS)
    if met_first:
        talk.client(FIRST[0])
        assert held == [1]
        conversation.hold()
        assert bytes(conversation.release(3.0)) == b"", "the gate still holds it"
    else:
        conversation.hold()
        talk.client(AUTHENTICATE + FIRST[0])
        assert not held, "held by another, and not before the first request"
        assert bytes(conversation.release(3.0)) == AUTHENTICATE
        assert held == [1]
    assert conversation.held
    assert bytes(conversation.release(3.0)) == FIRST[0]
    assert not conversation.hold_count


# With sockets


class Gated:
    """A session with a gate; `held` is set when it is held."""

    def __init__(self, relay: Relay) -> None:
        self.held = threading.Event()
        self.relay = relay
        self.client, self.broker, self.session = relay.connect()
        relay.call(lambda: self.session.hold_before_first_request(self.held.set))

    def ask(self) -> threading.Event:
        answered = threading.Event()
        self.relay.call(lambda: self.session.ask(OWN, lambda _: answered.set()))
        return answered


def test_a_session_waits_once_between_login_and_first_request(relay: Relay) -> None:
    gate = Gated(relay)
    client, broker = gate.client, gate.broker
    passes(client, broker, HANDSHAKE_1)
    assert not gate.held.is_set()
    first = short_request(FETCH_V4, 8, b"first")
    client.sendall(AUTHENTICATE + first)
    assert gate.held.wait(30)
    answered = gate.ask()
    assert receive(broker, len(AUTHENTICATE + OWN)) == AUTHENTICATE + OWN
    done = response(ApiKey.SASL_HANDSHAKE, 1, bytes(6), 3) + response(ApiKey.SASL_AUTHENTICATE, 2, bytes(9), 4)
    broker.sendall(done + OWN_RESPONSE)
    assert receive(client, len(done)) == done
    assert answered.wait(30)
    relay.call(gate.session.release)
    assert receive(broker, len(first)) == first
    second = short_request(FETCH_V4, 9)
    passes(client, broker, second)


def test_who_asks_at_once_asks_behind_the_login(relay: Relay) -> None:
    client, broker, session = relay.connect()
    answered = threading.Event()

    def ask() -> None:
        session.ask(OWN, lambda _: session.release() or answered.set())  # type: ignore[func-returns-value]

    relay.call(lambda: session.hold_before_first_request(ask))
    first = short_request(FETCH_V4, 8, b"first")
    client.sendall(VERSIONS + first)
    assert receive(broker, len(VERSIONS + OWN)) == VERSIONS + OWN
    broker.sendall(response(ApiKey.API_VERSIONS, 3, b"\x00\x23\x00\x00\x00\x00", 1) + OWN_RESPONSE)
    assert answered.wait(30)
    assert receive(broker, len(first)) == first


def test_a_client_that_is_held_is_not_read(relay: Relay) -> None:
    gate = Gated(relay)
    sent, everything = 0, short_request(FETCH_V4, 1, bytes(32 * 1024 * 1024))
    gate.client.settimeout(1)
    with contextlib.suppress(TimeoutError):
        while sent < len(everything):
            sent += gate.client.send(everything[sent : sent + CHUNK])
    assert gate.held.is_set()
    assert sent < len(everything)
    assert relay.call(lambda: gate.session.conversation.buffered) <= CHUNK
    gate.client.settimeout(30)
    relay.call(gate.session.release)
    passes(gate.client, gate.broker, everything[sent:], everything)


def test_a_held_client_that_half_closes_still_gets_its_answer(relay: Relay) -> None:
    gate = Gated(relay)
    first = short_request(FETCH_V4, 1)
    gate.client.sendall(first)
    gate.client.shutdown(socket.SHUT_WR)
    assert gate.held.wait(30)
    answered = gate.ask()
    assert receive(gate.broker, len(OWN)) == OWN
    gate.broker.sendall(OWN_RESPONSE)
    assert answered.wait(30)
    relay.call(gate.session.release)
    assert receive(gate.broker, len(first)) == first
    assert gate.broker.recv(1) == b""
    gate.broker.sendall(short_response(1, b"its answer"))
    gate.broker.close()
    assert receive(gate.client, 18) == short_response(1, b"its answer")
    assert relay.end_of(gate.session) is None


@pytest.mark.parametrize("side", ["client", "upstream"])
def test_nothing_is_called_once_a_held_session_has_ended(relay: Relay, side: str) -> None:
    gate = Gated(relay)
    gate.client.sendall(short_request(FETCH_V4, 1))
    assert gate.held.wait(30)
    answered = gate.ask()
    assert receive(gate.broker, len(OWN)) == OWN
    reset(gate.client if side == "client" else gate.broker)
    if side == "client" and isinstance(relay.selector._poller, PortablePoller):
        # Only epoll tells of it while the client is not read.
        relay.call(gate.session.close)
    relay.end_of(gate.session)
    late = threading.Event()
    relay.call(lambda: gate.session.hold(late.set))
    relay.call(lambda: gate.session.ask(OWN, lambda _: late.set()))
    relay.call(gate.session.release)
    assert not late.is_set()
    assert not answered.is_set()


@pytest.mark.parametrize("sent", [b"", HANDSHAKE_1, HANDSHAKE_1 + AUTHENTICATE[:20], HANDSHAKE_1 + FIRST[0][:11]])
def test_a_client_gone_before_its_first_request_is_never_held(relay: Relay, sent: bytes) -> None:
    gate = Gated(relay)
    gate.client.sendall(sent)
    gate.client.close()
    gate.broker.close()
    relay.end_of(gate.session)
    assert not gate.held.is_set()


def test_one_of_two_who_wait_ends_the_session(relay: Relay) -> None:
    client, broker, session = relay.connect()
    first = short_request(FETCH_V4, 1, bytes(100_000))
    called = []

    def close() -> None:
        called.append(1)
        session.close()

    client.sendall(first[:50_000])
    receive(broker, 50_000)
    relay.call(lambda: (session.hold(close), session.hold(close)))
    client.sendall(first[50_000:])
    relay.end_of(session)
    assert called == [1]


def test_each_of_two_who_hold_must_release(relay: Relay) -> None:
    client, broker, session = relay.connect()
    both = [threading.Event(), threading.Event()]
    for one in both:
        relay.call(lambda one=one: session.hold(one.set))
        assert one.is_set()
    first, second = short_request(FETCH_V4, 1), short_request(FETCH_V4, 2)
    client.sendall(first)
    relay.call(session.release)
    answered = threading.Event()
    relay.call(lambda: session.ask(OWN, lambda _: answered.set()))
    relay.call(session.release)
    client.sendall(second)
    assert receive(broker, len(OWN + first + second)) == OWN + first + second
