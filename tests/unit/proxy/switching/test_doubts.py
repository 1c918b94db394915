"""Clients that may repeat a write."""

from __future__ import annotations

import pytest

from kproxy.proxy.switching.doubts import (
    GIVEN_UP_AFTER,
    GIVEN_UP_LATE,
    MAX_DOUBTS,
    SETTLED_AFTER,
    ClientIdentity,
    DoubtTracker,
    give_up_seconds,
)

APP = ClientIdentity("10.1.2.3", "app")
OTHER = ClientIdentity("10.1.2.3", "other")


def test_a_doubt_ends_when_the_client_has_given_up() -> None:
    doubts = DoubtTracker()
    assert not doubts.remaining(0.0)
    doubts.note(APP, "1", 100.0, 130.0)
    assert doubts.is_in_doubt(APP)
    assert not doubts.is_in_doubt(OTHER)
    (doubt,) = doubts.remaining(140.0)
    assert (doubt.client, doubt.address, doubt.node, doubt.seconds_ago, doubt.left) == ("app", "10.1.2.3", "1", 40, 90)
    assert doubts.remaining(229.9)
    assert not doubts.remaining(230.0)
    assert not doubts.is_in_doubt(APP)


@pytest.mark.parametrize(
    ("identity", "node", "opened", "seconds", "clears"),
    [
        (APP, "1", 101.0, SETTLED_AFTER, True),
        (APP, "1", 100.0, SETTLED_AFTER, True),
        (APP, "1", 101.0, SETTLED_AFTER - 0.1, False),  # it may still wait before it repeats
        (APP, "1", 99.9, 60.0, False),  # a connection from before says nothing
        (APP, "2", 101.0, 60.0, False),  # another node, other partitions
        (OTHER, "1", 101.0, 60.0, False),
    ],
)
def test_only_the_same_client_at_the_same_node_clears_it(
    identity: ClientIdentity, node: str, opened: float, seconds: float, clears: bool
) -> None:
    doubts = DoubtTracker()
    doubts.note(APP, "1", 100.0, 1000.0)
    assert doubts.clear_if_repeated(identity, node, opened, opened + seconds) is clears
    assert doubts.is_in_doubt(APP) is not clears


def test_a_client_may_be_in_doubt_at_two_nodes_and_twice_at_one() -> None:
    doubts = DoubtTracker()
    doubts.note(APP, "1", 100.0, 10.0)
    doubts.note(APP, "2", 101.0, 10.0)
    doubts.note(APP, "1", 102.0, 10.0)
    assert [doubt.node for doubt in doubts.remaining(103.0)] == ["2", "1"]
    assert not doubts.clear_if_repeated(APP, "1", 101.0, 200.0), "this connection is from before the second time"
    assert doubts.clear_if_repeated(APP, "1", 103.0, 200.0)
    assert doubts.is_in_doubt(APP)
    assert [doubt.node for doubt in doubts.remaining(110.0)] == ["2"]
    assert not doubts.remaining(111.0)
    assert not doubts.is_in_doubt(APP)


def test_doubts_move_to_a_part_and_back_with_their_clients() -> None:
    """Of a client without a client id it is unknown whose it is: its doubt counts in both."""
    nameless = ClientIdentity("10.1.2.3", "")
    doubts = DoubtTracker()
    for identity in (APP, OTHER, nameless):
        doubts.note(identity, "1", 100.0, 130.0)
    part = doubts.split_off(lambda identity: identity == APP)
    assert [doubt.client for doubt in doubts.remaining(110.0)] == ["other", ""]
    assert [(doubt.client, doubt.seconds_ago, doubt.left) for doubt in part.remaining(110.0)] == [
        ("app", 10, 120), ("", 10, 120),
    ]  # fmt: skip
    part.note(APP, "2", 110.0, 10.0)
    doubts.merge(part)
    assert {(doubt.client, doubt.node, doubt.left) for doubt in doubts.remaining(110.0)} == {
        ("app", "1", 120), ("app", "2", 10), ("other", "1", 120), ("", "1", 120),
    }  # fmt: skip


def test_more_doubts_than_are_kept_are_in_each_part() -> None:
    doubts, part = DoubtTracker(), DoubtTracker()
    for number in range(MAX_DOUBTS + 1):
        part.note(ClientIdentity("10.0.0.1", str(number)), "1", 0.0, 100.0)
    for merged in (doubts, part.split_off(lambda identity: False)):
        merged.merge(part)
        assert merged.remaining(99.0)[0].client == "and others"


def test_many_short_lived_clients_use_bounded_memory() -> None:
    doubts = DoubtTracker()
    for number in range(3 * MAX_DOUBTS):
        doubts.note(ClientIdentity("10.0.0.1", str(number)), "1", number / 1000, 100.0)
    left = doubts.remaining(10.0)
    assert len(left) == MAX_DOUBTS + 1
    assert left[0].client == "and others"
    assert not doubts.is_in_doubt(ClientIdentity("10.0.0.1", "0"))
    end = 100.0 + (2 * MAX_DOUBTS - 1) / 1000  # of the last that is not kept
    assert [doubt.client for doubt in doubts.remaining(end - 0.001)][:1] == ["and others"]
    assert "and others" not in [doubt.client for doubt in doubts.remaining(end)]
    assert not doubts.remaining(200.0)


@pytest.mark.parametrize(
    ("software", "seconds"),
    [
        ("apache-kafka-java 4.3.1", GIVEN_UP_AFTER),
        ("kgo v1.20.0", GIVEN_UP_AFTER),
        ("confluent-kafka-python 2.12.1", GIVEN_UP_LATE),
        ("librdkafka 2.12.1", GIVEN_UP_LATE),
        ("", GIVEN_UP_LATE),
        ("\N{SNOWMAN}" * 100, GIVEN_UP_LATE),
    ],
)
def test_an_unknown_retry_time_counts_as_the_longest(software: str, seconds: float) -> None:
    assert give_up_seconds(software) == seconds
