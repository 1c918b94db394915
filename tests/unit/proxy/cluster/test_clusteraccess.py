"""Access rules in real sessions: many refused requests, what is shown and counted, rules that change."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.config import ClusterConfig
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.messages import encode_response
from kproxy.proxy.access.authorizer import TURN
from kproxy.proxy.access.sessionrules import RefusedRequest
from kproxy.proxy.cluster.clusteraccess import _MOST_SHOWN, ClusterAccess
from kproxy.proxy.metrics import Metrics
from tests.unit.proxy.cluster.doorway import until
from tests.unit.proxy.cluster.house import House, in_house, passes
from tests.unit.proxy.switching.frames import ask


def beat(group: str, correlation_id: int) -> bytes:
    return ask(ApiKey.HEARTBEAT, 0, {"GroupId": group}, correlation_id)


def refusal(correlation_id: int) -> bytes:
    return encode_response(ApiKey.HEARTBEAT, 0, correlation_id, {"ErrorCode": 30})


@in_house
async def test_a_flood_of_refused_requests_is_answered_in_order_and_others_go_on(house: House) -> None:
    """A client sends ten turns of requests at once; what stands behind them passes, and so does another client."""
    cluster = house.cluster(read_only=True)
    client, far = await cluster.session()
    other, others_far = await cluster.session()
    count = 10 * TURN
    await client.say(b"".join(beat("payments", number) for number in range(count)))
    await passes(other, others_far)
    await client.hear(b"".join(refusal(number) for number in range(count)))
    assert far.has_heard_nothing()
    await passes(client, far, number=count)
    status = cluster.sessions.access.status
    assert status is not None
    assert status.refused == count
    (shown,) = status.latest
    assert (shown.api, shown.family, shown.name, shown.client_id) == ("Heartbeat", "group", "payments", "me")
    assert (shown.times, shown.reason, shown.error) == (count, "--read-only", 30)
    assert cluster.metrics.refused_requests == {("default", "Heartbeat"): count}


@in_house
async def test_a_client_that_takes_no_answers_is_not_judged_further(house: House) -> None:
    """It sends and never reads: kproxy keeps what one read has brought, and answers no more of it."""
    cluster = house.cluster(read_only=True)
    client, _ = await cluster.session()
    ((_, session),) = cluster.sessions._open()
    deletion = ask(ApiKey.DELETE_TOPICS, 5, {"TopicNames": ["x"] * 50})
    flood = await house.begin(client.say(deletion * 4_000))
    await until(lambda: session.client.pending and session.conversation.hold_count, "it takes nothing more")

    def refused() -> int:
        status = cluster.sessions.access.status
        assert status is not None
        return status.refused

    before = refused()
    for _ in range(100):
        await asyncio.sleep(0)
    assert refused() == before
    assert session.conversation.buffered < 3 << 20
    flood.cancel()


@in_house
async def test_without_rules_a_session_has_none(house: House) -> None:
    cluster = house.cluster()
    await cluster.session()
    ((_, session),) = cluster.sessions._open()
    call = session.conversation._all_calls[ApiKey.HEARTBEAT << 16]
    assert call is not None
    assert not call.is_judged
    assert cluster.sessions.access.status is None


def test_what_is_shown_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    access = ClusterAccess(ClusterConfig(bootstrap_servers=("b:1",), read_only=True), metrics, lambda: None)
    introduction = SimpleNamespace(client_id="me")
    session: Any = SimpleNamespace(conversation=SimpleNamespace(introduction=introduction))
    with caplog.at_level(logging.WARNING):
        for number in range(3 * _MOST_SHOWN):
            refused = RefusedRequest("JoinGroup", 11, 1, "group", f"group-{number}", "--read-only", 30)
            access._refused(session, Address("10.0.0.7", number), refused)
            access._refused(session, Address("10.0.0.7", number), refused)
    status = access.status
    assert status is not None
    assert len(status.latest) == _MOST_SHOWN
    assert status.latest[-1].name == f"group-{3 * _MOST_SHOWN - 1}"
    assert status.latest[-1].times == 2
    assert len(caplog.records) == 3 * _MOST_SHOWN, "of the same client and name, one line in a second"
    assert caplog.messages[0] == (
        "cluster default: refused JoinGroup of group 'group-0' of the client 10.0.0.7 (me): --read-only"
    )


@in_house
async def test_other_rules_hold_for_the_sessions_that_come(house: House) -> None:
    cluster = house.cluster()
    client, far = await cluster.session()
    cluster.sessions.access.configure(ClusterConfig(bootstrap_servers=("b:1",), read_only=True))
    await client.say(beat("payments", 1))
    await far.hear(beat("payments", 1))
    later, laters_far = await cluster.session()
    await later.say(beat("payments", 1))
    await later.hear(refusal(1))
    assert laters_far.has_heard_nothing()
