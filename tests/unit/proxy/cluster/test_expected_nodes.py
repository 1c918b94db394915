"""The node that kproxy, and a client since Kafka 4.4, expects at a connection (KIP-1242), over real sockets.

What reaches a broker before the first request of a client, and what kproxy answers in the broker's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kproxy.config.principalrules import PrincipalRules
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import read_response
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers import answers
from tests.harness.servers.peers import reset
from tests.harness.tls import Authority
from tests.unit.kafka_frames import request
from tests.unit.proxy.cluster.checkedbroker import (
    CLUSTER,
    CONFIGS,
    LONG,
    answer_of,
    ask,
    expecting,
    read_frame,
    served,
    versions_request,
)
from tests.unit.proxy.cluster.doorway import Lines, in_loop, is_closed, until


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("node", [None, 1])
@in_loop
async def test_a_new_connection_costs_no_round_trip_more_than_a_direct_one(
    selector: RelaySelector, node: int | None, version: int
) -> None:
    """The broker receives one request for each that the client sends, in the same order, one after the other."""
    async with served(selector) as (broker, door):
        with door.connect(node) as client:
            answer = read_response(ApiKey.API_VERSIONS, version, await ask(client, versions_request(version)), 8)
            assert answer["ErrorCode"] == 0
            await ask(client, request(*CONFIGS))
        assert broker.received == [(ApiKey.API_VERSIONS, 5), CONFIGS]


@in_loop
async def test_a_client_that_does_not_begin_with_api_versions_waits_for_one_answer(selector: RelaySelector) -> None:
    async with served(selector) as (broker, door):
        with door.connect(1) as client:
            await ask(client, request(*CONFIGS))
        assert broker.received == [(ApiKey.API_VERSIONS, 5), CONFIGS]


@pytest.mark.parametrize("cut", [0, 3, 12, -1])
@pytest.mark.parametrize(("node", "cluster_id", "node_id"), [(1, CLUSTER, 2), (1, "other", 1), (None, "other", 1)])
@in_loop
async def test_a_client_that_expects_another_node_is_refused_as_by_a_broker(
    selector: RelaySelector,
    node: int | None,
    cluster_id: str,
    node_id: int,
    cut: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gets REBOOTSTRAP_REQUIRED, whatever the pieces of its request are. No broker receives a byte."""
    monkeypatch.setattr("kproxy.proxy.cluster.clientroute._SHORT_TIMEOUT", LONG)
    caplog.set_level(logging.INFO, "kproxy")
    asked = expecting(cluster_id, node_id)
    async with served(selector) as (broker, door):
        with Lines() as log, door.connect(node) as client:
            client.send(asked[:cut])
            await asyncio.sleep(0)
            frame = await ask(client, asked[cut:] if cut else asked)
            await until(lambda: is_closed(client), "the connection is closed")
        assert frame[4:8] == asked[8:12]
        assert read_response(ApiKey.API_VERSIONS, 5, frame, 8)["ErrorCode"] == ErrorCode.REBOOTSTRAP_REQUIRED
        assert broker.received == []
        refusals = {reason: count for (_, _, reason), count in door.metrics.refusals.items()}
        assert refusals == {"misrouted": 1}
        (line,) = [text for text in log.texts if "expects" in text]
        assert f"the client expects node {node_id} of cluster {cluster_id}, which is not here" in line
        await until(lambda: not door.held["places"], "its place is free")


@in_loop
async def test_a_client_that_expects_another_node_and_leaves(selector: RelaySelector) -> None:
    async with served(selector) as (broker, door):
        for _ in range(20):
            client = door.connect(1)
            client.send(expecting("other", 1))
            reset(client)
        await until(lambda: not door.held["places"], "their places are free")
        assert broker.received == []


@in_loop
async def test_a_client_gets_one_refusal_at_a_time(
    selector: RelaySelector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets the next one when it has closed the connection of the former. Other clients wait for nothing."""
    monkeypatch.setattr("kproxy.proxy.cluster.misrouted._PATIENCE", LONG)
    async with served(selector) as (_, door):
        with ExitStack() as held:
            first, second, third, other = (held.enter_context(door.connect(1)) for _ in range(4))
            assert_refused(await ask(first, expecting("other", 1)))
            second.send(expecting("other", 1))
            third.send(expecting("other", 1))
            assert_refused(await ask(other, expecting("other", 1, b"another client")))
            for waits in (second, third):
                with pytest.raises(BlockingIOError):
                    waits.recv(1)
            second.close()
            first.close()
            assert_refused(await answer_of(third))
        await until(lambda: not door.held["places"], "their places are free")
        assert door.metrics.refusals.total() == 3, "the second one has left before it was refused"


@pytest.mark.parametrize("by_certificate", [False, True])
def test_a_client_over_tls_gets_one_refusal_at_a_time(
    by_certificate: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its certificate is its login."""
    monkeypatch.setattr("kproxy.proxy.cluster.misrouted._PATIENCE", LONG)
    monkeypatch.setattr("kproxy.proxy.cluster.clientroute._SHORT_TIMEOUT", LONG)
    authority = Authority(tmp_path)
    cert, key = authority.files("localhost")
    options: dict[str, Any] = {"client_tls_cert": cert, "client_tls_key": key}
    if by_certificate:
        options |= {"client_tls_ca": authority.pem, "client_tls_principal_rules": PrincipalRules.parse("DEFAULT")}
    context = authority.client_context("alice")
    asked = expecting("other", 1)

    @in_loop
    async def scenario(selector: RelaySelector) -> None:
        async with served(selector, context, **options) as (broker, door):
            one, another, third = [
                await asyncio.open_connection(sock=door.connect(1), ssl=context, server_hostname="localhost")
                for _ in range(3)
            ]
            one[1].write(asked)
            assert_refused(await read_frame(one[0]))
            another[1].write(asked)
            third[1].write(asked)
            another[1].transport.abort()
            with contextlib.suppress(ConnectionError):
                await another[1].wait_closed()
            one[1].close()
            assert_refused(await read_frame(third[0]))
            third[1].close()
            await until(lambda: not door.held["places"], "their places are free")
            assert door.metrics.refusals.total() == 2
            assert broker.received == []

    scenario()


@in_loop
async def test_a_client_that_stays_does_not_keep_others_waiting(
    selector: RelaySelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes may have the same host and client id. kproxy closes the connection of the one that stays."""
    monkeypatch.setattr("kproxy.proxy.cluster.misrouted._PATIENCE", 0.05)
    async with served(selector) as (_, door):
        with ExitStack() as held:
            clients = [held.enter_context(door.connect(1)) for _ in range(5)]
            for client in clients:
                client.send(expecting("other", 1))
            for client in clients:
                assert_refused(await answer_of(client))
            await until(lambda: all(map(is_closed, clients)), "kproxy closes them")
        await until(lambda: not door.held["places"], "their places are free")


@in_loop
async def test_a_client_that_sends_on_after_its_refusal_is_cut_off(
    selector: RelaySelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kproxy.proxy.cluster.misrouted._PATIENCE", LONG)
    async with served(selector) as (broker, door):
        with door.connect(1) as client:
            assert_refused(await ask(client, expecting("other", 1)))
            client.send(request(*CONFIGS))
            await until(lambda: is_closed(client), "the connection is closed")
        assert broker.received == []


def assert_refused(frame: bytes) -> None:
    answer = read_response(ApiKey.API_VERSIONS, 5, frame, 8)
    assert answer["ErrorCode"] == ErrorCode.REBOOTSTRAP_REQUIRED


@in_loop
async def test_many_clients_that_expect_another_node_write_one_line(
    selector: RelaySelector, caplog: pytest.LogCaptureFixture
) -> None:
    """A hostile name is escaped, and one host does not fill the log."""
    caplog.set_level(logging.INFO, "kproxy")
    async with served(selector) as (_, door):
        with Lines() as log:
            for _ in range(50):
                with door.connect(1) as client:
                    await ask(client, expecting("x\n\x1b[2J", 7))
        lines = [text for text in log.texts if "expects" in text]
        assert len(lines) == 1
        assert lines[0].isprintable()


@in_loop
async def test_a_client_that_expects_the_node_of_the_port(selector: RelaySelector) -> None:
    async with served(selector) as (broker, door):
        with door.connect(1) as client:
            frame = await ask(client, expecting(CLUSTER, 1))
            assert read_response(ApiKey.API_VERSIONS, 5, frame, 8)["ErrorCode"] == 0
            await ask(client, request(*CONFIGS))
        assert broker.received == [(ApiKey.API_VERSIONS, 5), CONFIGS]


@in_loop
async def test_an_address_that_turns_into_a_listener_with_a_login(selector: RelaySelector) -> None:
    """Before the login, such a listener confirms any cluster and node, and closes on any other request.

    One request of a client meets it. For the next connection, kproxy asks for more than a confirmation.
    """
    async with served(selector) as (broker, door):
        broker.cluster_id = "other"
        broker.checks = lambda cluster_id, node_id: answers.versions_5(broker.serves)
        broker.deaf_to = {ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS}
        with door.connect(1) as client:
            frame = await ask(client, versions_request(4))
            assert read_response(ApiKey.API_VERSIONS, 4, frame, 8)["ErrorCode"] == 0
            client.send(request(*CONFIGS))
            await until(lambda: is_closed(client), "the listener has closed the connection")
        assert broker.received == [(ApiKey.API_VERSIONS, 5), CONFIGS]
        broker.received.clear()
        with door.connect(1) as client:
            client.send(versions_request(4) + request(*CONFIGS))
            await until(lambda: is_closed(client), "kproxy closes the connection")
        assert ApiKey.METADATA in dict(broker.received)
        assert CONFIGS not in broker.received
