"""Whether a broker is a certain node: brokers of Kafka 4.4, and what else may answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, WireError
from kproxy.client.ask.questions import UNUSED_NODE_ID
from kproxy.protocol.rewrite.versionsrequest import read_versions_request
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.messages import encode_fields, encode_request, request_reader
from kproxy.proxy.cluster import nodecheck
from kproxy.proxy.cluster.nodecheck import NodeCheck, Verdict
from tests.unit.client.ask.broker import Broker

HERE, THERE = Address("10.0.0.1", 9092), Address("10.0.0.2", 9092)
APIS = [(ApiKey.METADATA, 0, 13), (ApiKey.API_VERSIONS, 0, 5)]
OTHER_APIS = [*APIS, (ApiKey.FETCH, 4, 18)]
Answers = Callable[[str, int], "bytes | Exception"]


def versions(error: int = 0, apis: list[tuple[int, int, int]] = APIS, version: int = 5) -> bytes:
    keys = [dict(zip(("ApiKey", "MinVersion", "MaxVersion"), api, strict=True)) for api in apis if not error]
    return encode_fields("ApiVersionsResponse", version, {"ErrorCode": error, "ApiKeys": keys})


def kafka(node: int = 2, cluster_id: str = "id-1", apis: list[tuple[int, int, int]] = APIS) -> Answers:
    """A broker of Kafka 4.4."""
    return lambda cluster, node_id: versions(0 if (cluster, node_id) == (cluster_id, node) else 129, apis)


def broker(answers: Answers) -> Broker:
    def answer(body: bytes) -> bytes:
        fields: dict[str, Any] = request_reader(ApiKey.API_VERSIONS, 5).read(body)
        said = answers(fields["ClusterId"].decode(), fields["NodeId"])
        if isinstance(said, Exception):
            raise said
        return said

    return Broker({ApiKey.API_VERSIONS: answer})


@pytest.fixture
def check() -> NodeCheck:
    made = NodeCheck()
    made.note_versions(HERE, {ApiKey.API_VERSIONS: range(6)})
    return made


async def trusting(check: NodeCheck, answers: Answers | None = None) -> NodeCheck:
    assert await check.find(broker(answers or kafka()), HERE, "id-1", [1, 2, 3]) == (Verdict.CONFIRMED, 2)
    return check


async def test_which_node_it_is(check: NodeCheck) -> None:
    assert not check.may_confirm(HERE)
    await trusting(check)
    assert check.may_confirm(HERE)
    assert await check.find(broker(kafka(9)), HERE, "id-1", [1, 2, 3]) == (Verdict.REFUSED, None)


async def test_of_many_nodes_some_are_asked_for_at_once(check: NodeCheck) -> None:
    peer = broker(kafka(120))
    assert await check.find(peer, HERE, "id-1", range(200)) == (Verdict.CONFIRMED, 120)
    assert len(peer.asked) == 152


async def test_one_answer_proves_it_from_then_on(check: NodeCheck) -> None:
    await trusting(check)
    for node, verdict in ((2, Verdict.CONFIRMED), (1, Verdict.REFUSED)):
        peer = broker(kafka())
        assert await check.confirm(peer, HERE, "id-1", node, None) == (verdict, b"")
        assert peer.asked == [ApiKey.API_VERSIONS]
    assert (await check.confirm(broker(kafka()), HERE, "id-2", 2, None))[0] is Verdict.REFUSED


@pytest.mark.parametrize("version", range(6))
async def test_a_client_s_request_serves_as_well(check: NodeCheck, version: int) -> None:
    await trusting(check)
    software = {"ClientSoftwareName": b"x", "ClientSoftwareVersion": b"1"} if version >= 3 else {}
    fields = {**software, "ClusterId": None, "NodeId": -1} if version == 5 else software
    request = read_versions_request(encode_request(18, version, 77, fields))
    _, response = await check.confirm(broker(kafka()), HERE, "id-1", 2, request)
    assert response == versions(version=version)


# What proves nothing

NOTHING: list[tuple[Answers, str]] = [
    (lambda cluster, node: versions(), "it confirms any node"),  # it ignores the fields, as controllers do
    (lambda cluster, node: versions(0 if cluster == "id-1" else 129), "it confirms any node"),
    (lambda cluster, node: versions(0 if node == 2 else 129), "it confirms any node"),
    (lambda cluster, node: versions(0 if node < UNUSED_NODE_ID else 129), "it confirms any node"),
    (lambda cluster, node: versions(42), "it neither confirms nor refuses"),
    (lambda cluster, node: versions(0 if node == 2 else 42), "it neither confirms nor refuses"),
    (lambda cluster, node: b"", "it neither confirms nor refuses"),
    (lambda cluster, node: b"\0\0" + bytes(200), "it neither confirms nor refuses"),
    (lambda cluster, node: versions(version=0), "it neither confirms nor refuses"),  # version 0 without an error
    (lambda cluster, node: versions()[:-1], "it neither confirms nor refuses"),
    (lambda cluster, node: versions() + b"\0", "it neither confirms nor refuses"),
    (lambda cluster, node: versions(129) + b"\0" if node == 2 else versions(129), "it neither confirms nor refuses"),
]


@pytest.mark.parametrize(("answers", "words"), NOTHING)
async def test_a_broker_that_answers_oddly_is_named_and_asked_otherwise(
    check: NodeCheck, answers: Answers, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    peer = broker(answers)
    assert await check.find(peer, HERE, "id-1", [2, 1]) == (Verdict.UNKNOWN, None)
    assert (len(peer.asked), len(peer._sent)) == (4, 0), "no answer is left for later questions"
    assert [words in record.getMessage() for record in caplog.records] == [True]
    assert str(HERE) in caplog.text
    assert not check.may_ask(HERE)


async def test_later_it_is_asked_again(check: NodeCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    await check.find(broker(NOTHING[0][0]), HERE, "id-1", [2])
    now = nodecheck.monotonic()
    monkeypatch.setattr(nodecheck, "monotonic", lambda: now + 301)
    check.note_versions(HERE, {ApiKey.API_VERSIONS: range(6)})
    assert check.may_ask(HERE)


async def test_who_confirms_is_believed_only_if_the_same_software_has_refused(check: NodeCheck) -> None:
    """A port-forward that leads to software which confirms any node."""
    await trusting(check)
    said = await check.confirm(broker(lambda cluster, node: versions(apis=OTHER_APIS)), HERE, "id-1", 2, None)
    assert said == (Verdict.UNKNOWN, b"")
    assert check.may_confirm(HERE), "it may be a newer Kafka, which the next question shows"
    await trusting(check, kafka(apis=OTHER_APIS))
    assert (await check.confirm(broker(kafka(apis=OTHER_APIS)), HERE, "id-1", 2, None))[0] is Verdict.CONFIRMED


@pytest.mark.parametrize("answer", [b"", b"\0", versions()[:-1], versions(version=0), b"\0\0\xff\xff\xff\xff\x0f"])
async def test_an_answer_that_cannot_be_read_confirms_nothing(
    check: NodeCheck, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await trusting(check)
    assert await check.confirm(broker(lambda cluster, node: answer), HERE, "id-1", 2, None) == (Verdict.UNKNOWN, b"")
    assert not check.may_confirm(HERE)
    assert len(caplog.records) == 1


async def test_a_broker_that_was_replaced_by_an_older_one(check: NodeCheck, caplog: pytest.LogCaptureFixture) -> None:
    await trusting(check)
    assert (await check.confirm(broker(lambda cluster, node: versions(35, version=0)), HERE, "id-1", 2, None))[
        0
    ] is Verdict.UNKNOWN
    assert (check.may_ask(HERE), check.newest(HERE), caplog.records) == (False, None, [])


# What kproxy remembers


def test_brokers_are_remembered_by_their_address_for_a_while(check: NodeCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    check.note_versions(THERE, {ApiKey.API_VERSIONS: range(5)})
    assert (check.newest(HERE), check.newest(THERE), check.may_ask(THERE)) == (5, 4, False)
    now = nodecheck.monotonic()
    monkeypatch.setattr(nodecheck, "monotonic", lambda: now + 301)
    assert check.newest(HERE) is check.newest(THERE) is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodecheck, "_ADDRESSES", 10)
    check = NodeCheck()
    for number in range(100):
        address = Address("10.0.0.1", number)
        check.note_versions(address, {})
        check.note_failure(address, "closed")
        check.distrust(address, 1.0)
    assert max(map(len, (check._newest, check._failures, check._omitted_until))) <= 10


async def test_kinds_of_software_are_bounded(check: NodeCheck) -> None:
    for number in range(100):
        await trusting(check, kafka(apis=[*APIS, (1000 + number, 0, 0)]))
    assert len(check._refusing) <= 64


def test_a_connection_may_break_once(check: NodeCheck, caplog: pytest.LogCaptureFixture) -> None:
    check.note_failure(HERE, "closed")
    assert check.may_ask(HERE)
    check.note_answered(HERE)
    check.note_failure(HERE, "closed")
    assert check.may_ask(HERE)
    check.note_failure(HERE, "the broker closed the connection")
    assert not check.may_ask(HERE)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("error", [EOFError(), TimeoutError(), WireError("malformed", "x")])
async def test_a_connection_that_cannot_be_used_any_more(check: NodeCheck, error: Exception) -> None:
    await trusting(check)
    with pytest.raises((UpstreamError, WireError)):
        await check.confirm(broker(lambda cluster, node: error), HERE, "id-1", 2, None)
