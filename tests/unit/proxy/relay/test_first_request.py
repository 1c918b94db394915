"""A client's first request that the broker has received before the session began: only its answer passes."""

from __future__ import annotations

import pytest

from kproxy.base.errors import WireError
from kproxy.proxy.relay.session import Session
from tests.harness.servers import answers
from tests.harness.servers.peers import reset
from tests.unit.proxy.relay.talking import FETCH_V4, Relay, passes, receive, relay, request, response

__all__ = ["relay"]

API_VERSIONS_V0 = 18 << 16
FIRST = request(API_VERSIONS_V0, 1)
OFFERED = answers.versions({18: (0, 5), 1: (4, 17), 999: (0, 1)})
ANSWER = response(1, OFFERED)
CAPPED = response(1, answers.versions({18: (0, 5), 1: (4, 17)}))


def begin(relay: Relay, session: Session, first: bytes, answer: bytes = OFFERED) -> None:
    relay.call(lambda: session.receive_first(first, answer))


def test_the_client_gets_the_answer_and_the_broker_no_request(relay: Relay) -> None:
    """The answer is capped like any other."""
    client, broker, session = relay.connect()
    begin(relay, session, FIRST)
    assert receive(client, len(CAPPED)) == CAPPED
    assert relay.call(lambda: session.conversation.in_flight) == 0
    passes(client, broker, request(FETCH_V4, 2))
    passes(broker, client, response(2, b"records"))
    traffic = session.traffic
    assert traffic.bytes_from_client == len(FIRST) + len(request(FETCH_V4, 2))
    assert traffic.bytes_from_upstream == len(ANSWER) + len(response(2, b"records"))


@pytest.mark.parametrize("size", [1, 4, 11, 15, 16])
def test_what_the_client_has_sent_behind_it_passes(relay: Relay, size: int) -> None:
    """Also a part of a request."""
    client, broker, session = relay.connect()
    second = request(FETCH_V4, 2)
    assert len(second) == 16
    begin(relay, session, FIRST + second[:size])
    if size < len(second):
        client.sendall(second[size:])
    assert receive(broker, len(second)) == second
    broker.sendall(response(2, b"records"))
    expected = CAPPED + response(2, b"records")
    assert receive(client, len(expected)) == expected


def test_without_an_answer_the_first_request_passes(relay: Relay) -> None:
    client, broker, session = relay.connect()
    begin(relay, session, FIRST, b"")
    assert receive(broker, len(FIRST)) == FIRST
    passes(broker, client, ANSWER, CAPPED)


@pytest.mark.parametrize("answer", [OFFERED[:-1], OFFERED[:1]])
def test_an_answer_that_cannot_be_read_ends_the_session(relay: Relay, answer: bytes) -> None:
    client, _, session = relay.connect()
    begin(relay, session, FIRST, answer)
    error = relay.end_of(session)
    assert isinstance(error, WireError)
    assert error.reason == "malformed"
    assert session.ended_by == "upstream"
    assert client.recv(1) == b""


def test_a_bad_request_behind_it_ends_the_session(relay: Relay) -> None:
    """It reaches no broker."""
    _, broker, session = relay.connect()
    begin(relay, session, FIRST + request(999 << 16, 2))
    error = relay.end_of(session)
    assert isinstance(error, WireError)
    assert (error.reason, session.ended_by) == ("unknown-api", "client")
    assert broker.recv(1) == b""


def test_a_client_that_has_gone(relay: Relay) -> None:
    client, broker, session = relay.connect()
    reset(client)
    begin(relay, session, FIRST)
    relay.end_of(session)
    assert session.ended_by == "client"
    assert broker.recv(1) == b""
