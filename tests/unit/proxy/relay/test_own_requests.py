"""kproxy's own requests stand between whole requests of the client, and their responses reach nobody else."""

from __future__ import annotations

import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation
from tests.unit.kafka_frames import CHUNKINGS, chunks
from tests.unit.proxy.relay.talking import FETCH_V4, Relay, receive, relay, request, response

__all__ = ["relay"]

SASL_AUTHENTICATE = 36 << 16 | 1
SASL_HANDSHAKE = 17 << 16 | 1
OWN = request(SASL_AUTHENTICATE, 0x7FFF0001, b"own")
OWN_RESPONSE = response(0x7FFF0001, b"\0\0its answer")


def conversation(**more: object) -> Conversation:
    calls = Calls(Metrics().node("c", "1").call)
    return Conversation(calls, lambda endpoints: [], 1 << 20, **more)  # type: ignore[arg-type]


@given(
    bodies=st.lists(st.integers(0, 300), min_size=1, max_size=6),
    sizes=CHUNKINGS,
    answer_sizes=CHUNKINGS,
    hold_at=st.integers(0, 12),
)
def test_own_requests_stand_between_whole_requests(
    bodies: list[int], sizes: list[int], answer_sizes: list[int], hold_at: int
) -> None:
    requests = [request(FETCH_V4, number, bytes(size)) for number, size in enumerate(bodies)]
    talk, to_broker, taken = conversation(), bytearray(), []
    asked_behind = None

    def ask_if_held() -> None:
        nonlocal asked_behind
        if talk.held and asked_behind is None:
            asked_behind = len(to_broker)
            to_broker.extend(talk.ask(OWN, taken.append))

    for number, chunk in enumerate(chunks(b"".join(requests), sizes)):
        if number == hold_at:
            talk.hold()
            ask_if_held()
        to_broker += talk.from_client(memoryview(chunk), 1.0)
        ask_if_held()
    if asked_behind is None:
        talk.hold()
        ask_if_held()
    to_broker += talk.release(2.0)

    assert asked_behind is not None
    before = [b"".join(requests[:count]) for count in range(len(requests) + 1)]
    assert bytes(to_broker[:asked_behind]) in before, "it stands at the end of a request"
    assert bytes(to_broker[:asked_behind] + to_broker[asked_behind + len(OWN) :]) == b"".join(requests)
    count = before.index(bytes(to_broker[:asked_behind]))

    responses = [response(number, bytes(size)) for number, size in enumerate(bodies)]
    from_broker = b"".join([*responses[:count], OWN_RESPONSE, *responses[count:]])
    to_client = b"".join(bytes(talk.from_upstream(memoryview(one), 3.0)) for one in chunks(from_broker, answer_sizes))
    assert to_client == b"".join(responses)
    assert taken == [OWN_RESPONSE[4:]]
    assert talk.is_idle


def test_an_own_response_has_a_limit() -> None:
    talk = conversation()
    talk.hold()
    talk.ask(OWN, lambda response: None)
    huge = response(0x7FFF0001, bytes(8 << 20))
    with pytest.raises(WireError, match="a response to kproxy itself takes more than 4096 KiB"):
        talk.from_upstream(memoryview(huge), 1.0)


@pytest.mark.parametrize("version", [0, 1])
def test_a_client_s_mechanism_is_told(version: int) -> None:
    told: list[str] = []
    talk = conversation(on_handshake=told.append)
    handshake = request(17 << 16 | version, 1, struct.pack(">h", 6) + b"GSSAPI")
    assert bytes(talk.from_client(memoryview(handshake), 1.0)) == handshake
    assert told == ["GSSAPI"]


def test_a_handshake_may_be_refused() -> None:
    def refuse(mechanism: str) -> None:
        raise WireError("client-logs-in", mechanism)

    talk = conversation(on_handshake=refuse)
    with pytest.raises(WireError, match="PLAIN"):
        talk.from_client(memoryview(request(SASL_HANDSHAKE, 1, b"\0\x05PLAIN")), 1.0)


def test_a_client_that_leaves_while_kproxy_asks(relay: Relay) -> None:
    client, broker, session = relay.connect()
    held = threading.Event()
    relay.call(lambda: session.hold(held.set))
    assert held.wait(30)
    relay.call(lambda: session.ask(OWN, lambda response: None))
    assert receive(broker, len(OWN)) == OWN
    client.close()
    broker.sendall(OWN_RESPONSE)
    relay.call(session.release)
    broker.close()
    relay.end_of(session)


def test_tokens_may_follow_each_of_several_handshakes() -> None:
    """SaslHandshake v0 twice, and then a token of size 0, in any chunks."""
    handshake = request(17 << 16, 7)
    sent = handshake + handshake + b"\0\0\0\0"
    for size in (1, 5, len(handshake), len(sent)):
        talk = conversation()
        passed = b"".join(bytes(talk.from_client(memoryview(one), 1.0)) for one in chunks(sent, [size]))
        assert passed == sent
