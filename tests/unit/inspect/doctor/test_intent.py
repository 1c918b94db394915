"""What the user's client is going to do: problems with it, and what was not tried of it."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.base.faults import Fault
from kproxy.client.ask.contents import ClusterContents, Topic
from kproxy.client.ask.usage import GroupDescription
from kproxy.inspect.doctor.diagnosis import diagnose
from kproxy.inspect.doctor.evidence import ClientIntent, Examination
from kproxy.inspect.doctor.intent_checks import not_tried, tried
from tests.unit.inspect.doctor.examined import examination, good, key, topic

ALL = frozenset({"Read", "Write", "Describe"})
READER, WRITER = ClientIntent("t", "g"), ClientIntent("t", acks=-1)


def of(intent: ClientIntent, *topics: Topic, **more: Any) -> Examination:
    nodes = [good(f"kafka-{node}.example:9092", node, node) for node in (1, 2, 3)]
    contents = ClusterContents("c", 1, (), topics or (topic("t", 1, 2, 3, allowed=ALL),))
    return examination(*nodes, intent=intent, contents=contents, **more)


def described(*errors: int, allowed: frozenset[str] | None = ALL) -> dict[Any, GroupDescription]:
    """What brokers 1, 2 … say of the group."""
    return {key(node): GroupDescription(error, "", allowed) for node, error in enumerate(errors, 1)}


def faults(found: Examination) -> list[str]:
    return [one.fault for one in diagnose(found) if one.is_error]


@pytest.mark.parametrize(
    ("intent", "operations"),
    [
        (ClientIntent("t"), ("Read", "Write")),
        (ClientIntent("t", group="g"), ("Read",)),
        (ClientIntent("t", acks=1), ("Write",)),
        (ClientIntent("t", group="g", acks=0), ("Read", "Write")),
    ],
)
def test_what_a_client_needs(intent: ClientIntent, operations: tuple[str, ...]) -> None:
    assert intent.operations == operations
    nothing = topic("t", 1, allowed=frozenset({"Describe"}))
    (finding,) = [one for one in diagnose(of(intent, nothing)) if one.is_error]
    assert f"may not {' and '.join(operations)} the topic t" in finding.text
    for one in operations:
        assert faults(of(intent, topic("t", 1, allowed=ALL - {one}))) == [Fault.NOT_AUTHORIZED]
    assert faults(of(intent, topic("t", 1, allowed=frozenset(operations)))) == []


def test_rights_that_old_brokers_do_not_tell() -> None:
    old = topic("t", 1)
    assert faults(of(READER, old, reads={0: 29})) == [Fault.NOT_AUTHORIZED]
    assert faults(of(READER, old, reads={0: 0})) == []
    unsaid = [list(not_tried(of(intent, old, reads={0: 0}))) for intent in (READER, WRITER)]
    assert [any("whether this user may" in line for line in lines) for lines in unsaid] == [False, True]


@pytest.mark.parametrize(
    ("errors", "coordinator", "expected"),
    [
        ((16, 0, 16), None, []),
        ((16, 69), None, []),  # a group that does not exist yet
        ((16, 0), (0, 2), []),
        ((30, 30), None, [Fault.NOT_AUTHORIZED]),
        ((), (30, -1), [Fault.NOT_AUTHORIZED]),
        ((16, 14), None, [Fault.NO_COORDINATOR]),
        ((16, 16), (15, -1), [Fault.NO_COORDINATOR]),
        ((16, 16), None, []),  # not known: no group has been there yet
        ((15, 15), None, []),
        ((), None, []),
    ],
)
def test_the_coordinator(errors: tuple[int, ...], coordinator: tuple[int, int] | None, expected: list[Fault]) -> None:
    found = of(READER, descriptions=described(*errors), coordinator=coordinator, reads=dict.fromkeys(range(3), 0))
    assert faults(found) == expected
    knows = any(error in (0, 69) for error in errors)
    assert any("as the coordinator of g" in each for each in tried(found)) is knows
    unknown = any("which broker coordinates g" in line for line in not_tried(found))
    assert unknown is (not expected and not knows)
    assert any(line.startswith("joining g") for line in not_tried(found))


def test_a_group_that_this_user_may_only_describe() -> None:
    found = of(READER, descriptions=described(0, allowed=frozenset({"Describe"})))
    (finding,) = [one for one in diagnose(found) if one.is_error]
    assert finding.fix[0].endswith("--operation Read --group g")
    assert faults(of(READER, descriptions=described(0, allowed=None))) == []


def test_a_leader_that_is_none() -> None:
    (finding,) = [one for one in diagnose(of(READER, reads={0: 0, 1: 56, 2: 9999})) if one.is_error]
    assert finding.fault is Fault.NO_LEADER
    assert "partition 1: KAFKA_STORAGE_ERROR; partition 2: error 9999" in finding.text
    assert "1 partition of t could be read at the end" in " ".join(tried(of(READER, reads={0: 0, 1: 56})))


def test_partitions_that_were_not_read_are_counted() -> None:
    assert any("reading 2 more partitions of t" in line for line in not_tried(of(READER, reads={0: 0})))
    assert not any("reading" in line for line in not_tried(of(READER, reads=dict.fromkeys(range(3), 0))))


def test_replicas_in_sync() -> None:
    parts = topic("t", 1, 1, replicas=(1, 2, 3), allowed=ALL)
    short = of(WRITER, parts, min_in_sync=2)
    (finding,) = [one for one in diagnose(short) if one.is_error]
    assert (finding.fault, finding.subjects) == (Fault.NOT_ENOUGH_REPLICAS, ("t",))
    assert "partition 0 (0 of 3), partition 1 (0 of 3)" in finding.text
    few = topic("t", 1, replicas=(1,), allowed=ALL, isr=(1,))
    assert faults(of(WRITER, few, min_in_sync=2)) == []
    (note,) = [one for one in diagnose(of(WRITER, few, min_in_sync=2)) if one.fault == Fault.NOT_ENOUGH_REPLICAS]
    assert "Brokers before Kafka 3.7 refuse such writes" in note.text
    assert faults(of(ClientIntent("t", acks=1), parts, min_in_sync=2)) == []
    assert any("DescribeConfigs on the topic" in line for line in not_tried(of(WRITER, parts)))
    assert any("a producer does not notice" in line for line in not_tried(of(ClientIntent("t", acks=0), parts)))


@pytest.mark.parametrize("intent", [ClientIntent("t"), WRITER])
def test_nothing_is_written(intent: ClientIntent) -> None:
    assert any("kproxy writes nothing" in line for line in not_tried(of(intent)))
    assert not any("writes nothing" in line for line in not_tried(of(READER)))


def test_where_no_broker_answered_nothing_is_said() -> None:
    lost = of(READER, descriptions=described(0), reads={0: 56}, answering=None)
    assert list(not_tried(lost)) == []
