"""Where clients log in to the brokers, kproxy verifies the node behind a client's login, over real sockets.

What reaches a broker before the first request of a client, whatever the client sends behind its login.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence

import pytest

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import read_response
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import reset
from tests.unit.kafka_frames import request
from tests.unit.proxy.cluster.checkedbroker import (
    CLUSTER,
    LOGIN,
    LONG,
    answer_of,
    ask,
    expecting,
    served,
    versions_request,
)
from tests.unit.proxy.cluster.doorway import in_loop, is_closed, until

SASL = [(ApiKey.SASL_HANDSHAKE, 1), (ApiKey.SASL_AUTHENTICATE, 0)]
CHECK = ApiKey.API_VERSIONS, 5
ASKED = ApiKey.DESCRIBE_CONFIGS, 0  # passes unchanged, and kproxy itself asks with version 1
NODE = NodeKey.of("1")


async def log_in(client: socket.socket, *first: bytes) -> None:
    for asked in (*first, *LOGIN):
        await ask(client, asked)


def versions_error(frame: bytes, version: int) -> int:
    return int(read_response(ApiKey.API_VERSIONS, version, frame, 8)["ErrorCode"])


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("node", [None, 1])
@in_loop
async def test_a_client_that_asks_again_costs_no_round_trip_more_than_directly(
    selector: RelaySelector, node: int | None, version: int
) -> None:
    """As Java's clients do. The broker receives one request for each of the client's, in the same order."""
    async with served(selector, login=True) as (broker, door):
        with door.connect(node) as client:
            await log_in(client, versions_request(0))
            frame = await ask(client, versions_request(version))
            assert versions_error(frame, version) == 0
            assert frame[4:8] == versions_request(version)[8:12]
            await ask(client, request(*ASKED))
            await ask(client, versions_request(0))
        assert broker.received == [(ApiKey.API_VERSIONS, 0), *SASL, CHECK, ASKED, (ApiKey.API_VERSIONS, 0)]


@in_loop
async def test_a_client_that_expects_the_node_of_the_port(selector: RelaySelector) -> None:
    async with served(selector, login=True) as (broker, door):
        with door.connect(1) as client:
            await log_in(client)
            assert versions_error(await ask(client, expecting(CLUSTER, 1)), 5) == 0
            await ask(client, request(*ASKED))
        assert broker.received == [*SASL, CHECK, ASKED]


@in_loop
async def test_a_client_that_does_not_ask_again_waits_for_one_answer(selector: RelaySelector) -> None:
    """As librdkafka does."""
    async with served(selector, login=True) as (broker, door):
        with door.connect(1) as client:
            await log_in(client, versions_request(0))
            await ask(client, request(*ASKED))
        assert broker.received == [(ApiKey.API_VERSIONS, 0), *SASL, CHECK, ASKED]


@pytest.mark.parametrize(
    "pieces",
    [
        [versions_request(4) + request(*ASKED)],
        [versions_request(4) + request(*ASKED)[:9], request(*ASKED)[9:]],
        [versions_request(4)[:5], versions_request(4)[5:] + request(*ASKED)],
    ],
    ids=["at once", "and a piece", "in pieces"],
)
@in_loop
async def test_what_follows_the_client_s_request(selector: RelaySelector, pieces: Sequence[bytes]) -> None:
    async with served(selector, login=True) as (broker, door):
        with door.connect(1) as client:
            await log_in(client)
            for piece in pieces:
                client.send(piece)
                await asyncio.sleep(0.01)
            assert versions_error(await answer_of(client), 4) == 0
            await answer_of(client)
        assert broker.received == [*SASL, CHECK, ASKED]


@in_loop
async def test_a_request_that_has_not_come_whole_is_the_broker_s(selector: RelaySelector) -> None:
    """kproxy asks by itself then. The request passes as it came."""
    asked = expecting(CLUSTER, 1)
    async with served(selector, login=True) as (broker, door):
        with door.connect(1) as client:
            await log_in(client)
            client.send(asked[:12])
            await until(lambda: broker.received == [*SASL, CHECK], "kproxy has asked")
            assert versions_error(await ask(client, asked[12:]), 5) == 0
        assert broker.received == [*SASL, CHECK, CHECK]


@pytest.mark.parametrize(("cluster_id", "node_id"), [(CLUSTER, 2), ("other", 1)])
@pytest.mark.parametrize("node", [None, 1])
@in_loop
async def test_what_a_client_expects_is_judged_by_the_broker(
    selector: RelaySelector, node: int | None, cluster_id: str, node_id: int
) -> None:
    """The broker is the one that kproxy expects, and receives the client's request as it is."""
    expected: list[tuple[str, int]] = []
    async with served(selector, login=True) as (broker, door):
        checks = broker.checks
        assert checks is not None
        broker.checks = lambda *pair: expected.append(pair) or checks(*pair)  # type: ignore[func-returns-value]
        with door.connect(node) as client:
            await log_in(client)
            frame = await ask(client, expecting(cluster_id, node_id))
            assert versions_error(frame, 5) == ErrorCode.REBOOTSTRAP_REQUIRED
            assert expected[-1] == (cluster_id, node_id)
            assert (CLUSTER, 1) in expected[:-1]


@pytest.mark.parametrize("asks_again", [False, True])
@pytest.mark.parametrize(("cluster_id", "node_id"), [(CLUSTER, 2), ("other", 1)])
@in_loop
async def test_another_broker_behind_the_address_gets_no_request(
    selector: RelaySelector, cluster_id: str, node_id: int, asks_again: bool
) -> None:
    """Not the client's ApiVersions either: it gets that of kproxy, and refuses it."""
    async with served(selector, login=True) as (broker, door):
        broker.cluster_id, broker.refusal = cluster_id, f"Unexpected broker id, expected {node_id} or empty"
        broker.be_new(node_id)
        with door.connect(1) as client:
            await log_in(client)
            client.send(versions_request(4) * asks_again + request(*ASKED))
            await until(lambda: is_closed(client), "kproxy closes the connection")
        assert broker.received[:3] == [*SASL, CHECK]
        assert not {ASKED, (ApiKey.API_VERSIONS, 4)} & {*broker.received}
        problem = door.gateway.dialer.reachability.of_node(NODE)
        assert problem.reason == ("wrong-cluster" if cluster_id == "other" else "wrong-node")


@pytest.mark.parametrize("first", [b"", versions_request(0)], ids=["no ApiVersions", "ApiVersions"])
@in_loop
async def test_a_confirmation_without_a_login_proves_nothing(selector: RelaySelector, first: bytes) -> None:
    """A client does not log in, and the broker, of another cluster now, confirms any node before a login."""
    async with served(selector, login=True) as (broker, door):
        broker.cluster_id = "other"
        broker.be_new(7)
        door.gateway.dialer.reachability.node_addresses.clear()
        with door.connect(1) as client:
            client.send(first + request(*ASKED))
            await until(lambda: is_closed(client), "kproxy closes the connection")
        assert ASKED not in broker.received
        assert not door.gateway.dialer.reachability.node_addresses


class Patient:
    """A broker's answer to a check, which waits until the test allows it."""

    def __init__(self, broker: FakeBroker) -> None:
        checks = broker.checks
        assert checks is not None
        self.checks = checks
        self.may_answer = threading.Event()
        broker.checks = self

    def __call__(self, cluster_id: str, node_id: int) -> bytes | None:
        self.may_answer.wait(LONG)
        return self.checks(cluster_id, node_id)


@in_loop
async def test_a_hold_of_another_party_keeps_the_answer_out(selector: RelaySelector) -> None:
    """The client's request waits for the other party, and then goes to the broker."""
    async with served(selector, login=True) as (broker, door):
        answers = Patient(broker)
        with door.connect(1) as client:
            await log_in(client)
            (session,) = door.sessions
            client.send(expecting(CLUSTER, 1))
            await until(lambda: session.conversation.hold_count == 1, "kproxy verifies")
            session.hold()
            answers.may_answer.set()
            await until(lambda: session.conversation.hold_count == 1, "kproxy has verified")
            assert broker.received == [*SASL, CHECK]
            session.release()
            assert versions_error(await answer_of(client), 5) == 0
            assert broker.received == [*SASL, CHECK, CHECK]


@in_loop
async def test_a_session_that_drains_ends_behind_the_answer(selector: RelaySelector) -> None:
    async with served(selector, login=True) as (broker, door):
        answers = Patient(broker)
        with door.connect(1) as client:
            await log_in(client)
            (session,) = door.sessions
            client.send(versions_request(4))
            await until(lambda: session.conversation.hold_count == 1, "kproxy verifies")
            session.drain()
            answers.may_answer.set()
            assert versions_error(await answer_of(client), 4) == 0
            await until(lambda: is_closed(client), "the session has ended")
        assert broker.received == [*SASL, CHECK]


@pytest.mark.parametrize("side", ["client", "broker"])
@in_loop
async def test_a_side_that_leaves_while_kproxy_asks(selector: RelaySelector, side: str) -> None:
    async with served(selector, login=True) as (broker, door):
        answers = Patient(broker)
        with door.connect(1) as client:
            await log_in(client)
            client.send(versions_request(4))
            await until(lambda: broker.received == [*SASL, CHECK], "kproxy asks")
            if side == "broker":
                answers.checks = lambda cluster_id, node_id: None
                answers.may_answer.set()
                await until(lambda: is_closed(client), "the client sees its end")
            reset(client)
            answers.may_answer.set()
        await until(lambda: not door.held["places"], "its place is free")
        assert broker.received == [*SASL, CHECK]
