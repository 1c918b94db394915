"""What arrives at the wrong server is found, whatever the chunks are."""

from __future__ import annotations

import struct

import pytest

from kproxy.base.address import Address
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest
from tests.soak.arrivals import Arrivals, Server, client_id_for

HERE, THERE = Address("127.0.0.1", 1), Address("127.0.0.1", 2)
PRODUCE, FETCH, METADATA, VERSIONS = 0, 1, 3, 18


def request(key: int, client_id: str, version: int = 3, body: bytes = b"body") -> bytes:
    payload = struct.pack(">hhih", key, version, 7, len(client_id)) + client_id.encode() + body
    return struct.pack(">i", len(payload)) + payload


@pytest.fixture
def arrivals() -> Arrivals:
    made = Arrivals()
    made.register(HERE, Server("broker 1", 1, home=True))
    made.register(THERE, Server("the other cluster's broker 1", 1))
    return made


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_requests_are_counted_where_they_arrive(arrivals: Arrivals, step: int) -> None:
    stream = b"".join(
        [request(PRODUCE, client_id_for(1), body=bytes(400)), request(METADATA, "x"), request(METADATA, "kproxy")]
    )
    connection = arrivals.connection(HERE, HERE)
    for at in range(0, len(stream), step):
        connection.feed(stream[at : at + step])
    assert not arrivals.problems()
    assert arrivals.requests == {"broker 1": 2}
    assert arrivals.questions == {"broker 1": 1}
    assert arrivals.at_their_node == {1: 1}
    assert not arrivals.detours


@pytest.mark.parametrize(
    ("to", "frame", "words"),
    [
        (THERE, request(METADATA, "x"), "API key 3, version 3, of the client 'x' arrived at the other cluster's"),
        (THERE, request(VERSIONS, "x"), "API key 18, version 3, of the client 'x' arrived at the other cluster's"),
        (HERE, request(PRODUCE, "for-2"), "API key 0, version 3, of the client 'for-2' arrived at broker 1"),
        (HERE, request(FETCH, "for-12-reader"), "of the client 'for-12-reader' arrived at broker 1"),
        (Address("127.0.0.1", 3), request(FETCH, "x"), "arrived at an impostor"),
    ],
)
def test_what_arrives_at_the_wrong_server(arrivals: Arrivals, to: Address, frame: bytes, words: str) -> None:
    connection = arrivals.connection(to, HERE)
    connection.feed(request(METADATA, "kproxy"))
    assert not arrivals.problems()
    connection.feed(frame)
    (problem,) = arrivals.problems()
    assert words in problem


def test_a_controller_is_no_broker(arrivals: Arrivals) -> None:
    arrivals.register(THERE, Server("the controller", 3000, home=True, controller=True))
    arrivals.connection(THERE, HERE).feed(request(METADATA, "x"))
    assert arrivals.problems()


def test_a_request_that_the_broker_refuses_may_arrive_anywhere(arrivals: Arrivals) -> None:
    asked = VersionsRequest.named(b"x").addressed_to("the cluster", 1)
    arrivals.connection(THERE, HERE).feed(asked)
    assert not arrivals.problems()
    assert arrivals.checks == arrivals.detours == {"the other cluster's broker 1": 1}


def test_a_client_of_one_broker_may_ask_others_for_metadata(arrivals: Arrivals) -> None:
    arrivals.connection(HERE, HERE).feed(request(METADATA, client_id_for(2)))
    assert not arrivals.problems()
