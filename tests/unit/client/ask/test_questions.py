"""Questions to brokers, and what brokers may answer: what they should, nothing, too little, too much, nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, WireError
from kproxy.client.ask import questions
from kproxy.client.ask.channel import MAX_RESPONSE_SIZE, Channel
from kproxy.client.ask.question import Question
from kproxy.client.ask.questions import UNUSED_NODE_ID, ClusterNodes
from kproxy.protocol.rewrite.endpoints import Endpoint, NodeKind
from kproxy.protocol.rewrite.walk import MAX_STEPS
from kproxy.protocol.wire.api import APIS, ApiKey
from tests.harness.servers.answers import (
    array,
    configs,
    coordinator,
    groups,
    metadata,
    offsets,
    refusal,
    text,
    versions,
)
from tests.unit.client.ask import test_contents as of_contents
from tests.unit.client.ask import test_settings as of_brokers
from tests.unit.client.ask.broker import Broker

SERVED = {key: range(20) for key in APIS}
BROKERS = {1: "kafka-1:9092", 2: "kafka-2:9093"}
LED = [(b"a", 0), (b"a", 1), (b"b", 0)]


def own_id(suppose: int = UNUSED_NODE_ID) -> Question[int | None]:
    question = questions.node_id_question(SERVED, suppose)
    assert question is not None
    return question


QUESTIONS: dict[str, tuple[int, bytes, Callable[[Channel], Awaitable[object]]]] = {
    "versions": (ApiKey.API_VERSIONS, versions(), questions.ask_versions),
    "members": (ApiKey.METADATA, metadata("c", BROKERS), questions.nodes_question(SERVED).ask),
    "own id": (ApiKey.DESCRIBE_CONFIGS, refusal(7), own_id().ask),
    "leaders": (
        ApiKey.METADATA,
        metadata("c", BROKERS, {"a": [1, 2], "b": [2]}), lambda ask: questions.ask_leaders(ask, SERVED),
    ),
    "led": (
        ApiKey.LIST_OFFSETS,
        offsets({("a", 0): 0, ("b", 0): 6}), lambda ask: questions.ask_leadership(ask, SERVED, LED),
    ),
    "coordinator": (ApiKey.LIST_GROUPS, groups("g"), lambda ask: questions.ask_coordinator(ask, SERVED)),
    **of_brokers.ASKED,
    **{name: (key, whole, question.ask) for name, (key, whole, question) in of_contents.ASKED.items() if question},
}  # fmt: skip
each = pytest.mark.parametrize("question", QUESTIONS)


def endpoints(*nodes: int) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(NodeKind.BROKER, node, Address(f"kafka-{node}", 9091 + node)) for node in nodes)


async def test_who_is_there() -> None:
    broker = Broker({ApiKey.API_VERSIONS: versions(), ApiKey.METADATA: metadata("the-id", BROKERS)})
    served = await questions.ask_versions(broker)
    assert served[ApiKey.METADATA] == range(14)
    assert await questions.nodes_question(served).ask(broker) == ClusterNodes(
        "the-id", NodeKind.BROKER, endpoints(1, 2)
    )


async def test_a_broker_before_0_10_1_knows_of_no_cluster_id() -> None:
    nodes = metadata(None, BROKERS)[: -len(text(None) + b"\0\0\0\1" + b"\0\0\0\0")]
    broker = Broker({ApiKey.METADATA: nodes + struct.pack(">ii", 1, 0)})
    members = await questions.nodes_question({ApiKey.METADATA: range(2)}).ask(broker)
    assert members == ClusterNodes(None, NodeKind.BROKER, endpoints(1, 2))


@pytest.mark.parametrize(
    ("answer", "suppose", "node_id"),
    [
        (refusal(7), UNUSED_NODE_ID, 7),
        (refusal(7), 3, 7),
        (configs(), 3, 3),  # it had nothing to refuse
        (configs(), UNUSED_NODE_ID, None),  # it takes any id: that tells nothing
        (configs(error=31), 3, None),  # CLUSTER_AUTHORIZATION_FAILED
        (refusal("9" * 4300), UNUSED_NODE_ID, None),
        (refusal(UNUSED_NODE_ID), UNUSED_NODE_ID, None),
        (refusal(99999999999), UNUSED_NODE_ID, None),
        (refusal(-1), UNUSED_NODE_ID, None),
        (refusal("nobody"), 3, None),
        (struct.pack(">iih", 0, 0, 0), UNUSED_NODE_ID, None),  # no result at all
    ],
)
async def test_which_node_are_you(answer: bytes, suppose: int, node_id: int | None) -> None:
    assert await own_id(suppose).ask(Broker({ApiKey.DESCRIBE_CONFIGS: answer})) == node_id


async def test_a_few_partitions_of_each_leader() -> None:
    topics = {"a": [1, 2, 1, 1, 1], "b": [2], "c": [-1]}
    found = await questions.ask_leaders(Broker({ApiKey.METADATA: metadata("c", BROKERS, topics)}), SERVED)
    assert found == {1: ((b"a", 0), (b"a", 2), (b"a", 3)), 2: ((b"a", 1), (b"b", 0))}


async def test_a_long_list_of_partitions_is_not_read_to_its_end() -> None:
    topics = {f"topic-{number}": [1] * 100 for number in range(300)}
    found = await questions.ask_leaders(Broker({ApiKey.METADATA: metadata("c", BROKERS, topics)}), SERVED)
    assert set(found) == {1}


@pytest.mark.parametrize(
    "ask", [questions.nodes_question(SERVED).ask, lambda broker: questions.ask_leaders(broker, SERVED)]
)
async def test_a_long_list_of_nodes_keeps_no_one_waiting(ask: Callable[[Channel], Awaitable[object]]) -> None:
    """A cluster names 3,000 nodes on each connection; other sessions have their turns while kproxy reads that."""
    nodes = dict.fromkeys(range(3000), "h:1")
    asking = asyncio.ensure_future(ask(Broker({ApiKey.METADATA: metadata("c", nodes, {"a": [1]})})))  # noqa: TID251  # here it is awaited
    turns = 0
    while not asking.done():
        turns += 1
        await asyncio.sleep(0)
    assert await asking
    assert turns >= 3000 * 2 // MAX_STEPS  # a node is two steps at least


async def test_a_topic_of_many_partitions_keeps_no_one_waiting() -> None:
    body = metadata("c", BROKERS, {"a": [1] * 100_000})
    asking = asyncio.ensure_future(questions.ask_leaders(Broker({ApiKey.METADATA: body}), SERVED))  # noqa: TID251  # here it is awaited
    turns = 0
    while not asking.done():
        turns += 1
        await asyncio.sleep(0)
    assert len((await asking)[1]) == 3
    assert turns >= 20_000 // 500


@pytest.mark.parametrize("question", ["versions", "own id", "led"])
async def test_a_long_answer_to_a_short_question_is_not_read(question: str) -> None:
    """Millions of elements would hold up all sessions."""
    key, whole, asked = QUESTIONS[question]
    assert await said_of(asked(Broker({key: whole + bytes(MAX_RESPONSE_SIZE - len(whole))}))) == "malformed"


async def test_a_short_answer_passes_a_long_one() -> None:
    """While kproxy reads 4,900 nodes of one cluster, another cluster's broker names two and their partitions."""
    long = Broker({ApiKey.METADATA: metadata("hostile", dict.fromkeys(range(4900), "h:1"))})
    short = Broker({ApiKey.METADATA: metadata("honest", BROKERS, {"a": [1, 2]})})
    asking = asyncio.ensure_future(questions.nodes_question(SERVED).ask(long))  # noqa: TID251  # here it is awaited
    await asyncio.sleep(0)
    answered = asyncio.ensure_future(questions.ask_leaders(short, SERVED))  # noqa: TID251  # so is this one
    await asyncio.sleep(0)
    assert answered.done()
    assert await answered
    assert not asking.done()
    await asking


async def test_which_partitions_do_you_lead() -> None:
    broker = Broker({ApiKey.LIST_OFFSETS: offsets({("a", 0): 0, ("a", 1): 6, ("b", 0): 29})})
    assert await questions.ask_leadership(broker, SERVED, LED) == {(b"a", 0): 0, (b"b", 0): 29} | {(b"a", 1): 6}


async def test_more_than_was_asked_for_is_not_read() -> None:
    broker = Broker({ApiKey.LIST_OFFSETS: offsets({(f"x{number}", 0): 0 for number in range(1000)})})
    assert len(await questions.ask_leadership(broker, SERVED, LED)) == 0


async def test_which_group_do_you_coordinate() -> None:
    broker = Broker({ApiKey.LIST_GROUPS: groups("g", "h"), ApiKey.FIND_COORDINATOR: coordinator(4)})
    assert await questions.ask_coordinator(broker, SERVED) == 4
    broker = Broker({ApiKey.LIST_GROUPS: groups("g", "h"), ApiKey.FIND_COORDINATOR: coordinator(-1, error=30)})
    assert await questions.ask_coordinator(broker, SERVED) is None
    assert await questions.ask_coordinator(Broker({ApiKey.LIST_GROUPS: groups()}), SERVED) is None


@pytest.mark.parametrize("question", ["leaders", "led", "coordinator"])
async def test_what_the_broker_does_not_serve_is_not_asked(question: str) -> None:
    broker = Broker({})
    asked = {
        "leaders": lambda: questions.ask_leaders(broker, {}),
        "led": lambda: questions.ask_leadership(broker, {}, LED),
        "coordinator": lambda: questions.ask_coordinator(broker, {}),
    }[question]
    assert not await asked()
    assert broker.asked == []


# What can go wrong


async def said_of(answer: Awaitable[object]) -> str:
    """The reason why it is none; "" if it is one."""
    try:
        await answer
    except WireError as error:
        return error.reason
    return ""


@each
@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (EOFError(), "closed"),
        (ConnectionResetError(), "closed"),
        (TimeoutError(), "timeout"),
        (OSError(5, "Input/output error"), "other"),
    ],
)
async def test_no_answer(question: str, raised: Exception, reason: str) -> None:
    key, _, asked = QUESTIONS[question]
    with pytest.raises(UpstreamError) as error:
        await asked(Broker({key: raised}))
    assert error.value.reason == reason


@each
async def test_an_answer_to_another_question(question: str) -> None:
    _, _, asked = QUESTIONS[question]

    class Another(Channel):
        async def receive(self, seconds: float | None = None) -> bytes:
            return struct.pack(">i", 12345) + b"x" * 100

    with pytest.raises(WireError):
        await asked(Another())


@each
async def test_an_answer_that_ends_anywhere(question: str) -> None:
    """Whatever is missing: an error for the broker, or an answer without what is missing; nothing else."""
    key, whole, asked = QUESTIONS[question]
    for end in range(len(whole)):
        broker = Broker({key: whole[:end], ApiKey.FIND_COORDINATOR: b""})
        assert await said_of(asked(broker)) in ("", "malformed")


@each
@given(data=st.data())
async def test_an_answer_of_nonsense(question: str, data: st.DataObject) -> None:
    key, whole, asked = QUESTIONS[question]
    spoiled = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
        spoiled[at] = data.draw(st.integers(0, 255))
    answer = data.draw(st.one_of(st.just(bytes(spoiled)), st.binary(max_size=200)))
    broker = Broker({key: answer, ApiKey.FIND_COORDINATOR: data.draw(st.binary(max_size=20))})
    with contextlib.suppress(WireError, UpstreamError):
        await asked(broker)


@each
async def test_counts_that_are_not_there(question: str) -> None:
    """Two thousand million elements, and none of them behind."""
    key, _, asked = QUESTIONS[question]
    for count in (0x7FFFFFFF, -1, -2147483648):
        for before in range(12):
            body = bytes(before) + struct.pack(">i", count)
            said = await said_of(asked(Broker({key: body, ApiKey.FIND_COORDINATOR: b""})))
            assert said in ("", "malformed", "too-many-endpoints")


async def test_a_controller_names_controllers() -> None:
    """DescribeCluster v1, from a real controller."""
    node = b"\0\0\x0b\xb8" + b"\x0ac-3000.in" + struct.pack(">i", 9093) + b"\0" + b"\0"
    body = b"\0" + struct.pack(">ihb", 0, 0, 0) + b"\x02" + b"\x04abc" + struct.pack(">i", 3000) + b"\x02" + node
    broker = Broker({ApiKey.DESCRIBE_CLUSTER: body + struct.pack(">i", 0) + b"\0"})
    members = await questions.nodes_question({ApiKey.DESCRIBE_CLUSTER: range(2)}).ask(broker)
    assert members.cluster_id == "abc"
    assert [(one.kind, one.node_id, str(one.advertised)) for one in members.nodes] == [
        (NodeKind.CONTROLLER, 3000, "c-3000.in:9093")
    ]


async def test_an_empty_list_of_nodes_is_no_answer() -> None:
    with pytest.raises(WireError, match="names no node"):
        await questions.nodes_question(SERVED).ask(Broker({ApiKey.METADATA: array([]) + text("c")}))
