"""Which positions a consumer may have after a switch."""

from __future__ import annotations

import pytest

from kproxy.proxy.switching import positions
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.positions import MAX_OFFSETS, MAX_WAITING, PositionTracker, SessionPositions

OLD, NEW = ClientIdentity("10.1.2.3", "old"), ClientIdentity("10.1.2.3", "new")
T = b"topic"


def test_only_who_has_fetched_before_is_doubted() -> None:
    known = PositionTracker([OLD])
    assert known.client(NEW) is None
    assert known.client(OLD) is known.client(OLD) is not None


def test_after_a_restart_everyone_is_doubted() -> None:
    known = PositionTracker(everyone=True)
    assert known.client(NEW) is not None
    assert known.client(NEW) is known.client(NEW)


@pytest.mark.parametrize(
    ("name", "doubted"),
    [
        ("consumer-spark-kafka-source-1f-executor-2", True),
        ("consumer-spark-kafka-source-1f-executor-1", True),
        ("consumer-spark-kafka-source-2e-executor-1", False),
        ("consumer-spark-kafka-source-1f-executor", False),
        ("consumer-spark-kafka-source-1f-executor-x", False),
        ("consumer-spark-kafka-source-1f-executor-", False),
        ("consumer-spark-kafka-source-1f-executor-²", False),
        ("-1", False),
        ("", False),
    ],
)
def test_the_next_of_a_series_is_doubted_wherever_it_is(name: str, doubted: bool) -> None:
    """Spark makes a consumer of the next number for a task that is repeated."""
    known = PositionTracker(
        [ClientIdentity("10.1.2.3", "consumer-spark-kafka-source-1f-executor-1"), OLD, ClientIdentity("10.1.2.3", "")]
    )
    assert (known.client(ClientIdentity("10.9.9.9", name)) is not None) == doubted


def test_known_correct_positions_of_a_series_are_not_doubted() -> None:
    """After a switch that was undone, one member of a group has a position of the other cluster, another has not."""
    moved, stayed, new = (ClientIdentity("10.1.2.3", f"consumer-g-{number}") for number in (1, 2, 3))
    known = PositionTracker([moved], [stayed])
    assert [known.client(one) is not None for one in (moved, stayed, new)] == [True, False, True]


def test_clients_that_were_not_switched_are_not_doubted() -> None:
    """Whatever is thought of those that were: that they are remembered, of one series, or all of them in doubt."""
    numbered, other = ClientIdentity("10.1.2.3", "consumer-g-1"), ClientIdentity("10.1.2.3", "consumer-g-2")
    for everyone in (False, True):
        known = PositionTracker([OLD, numbered], everyone=everyone)
        known.adopt(lambda client_id: client_id in ("old", "consumer-g-2"), None)
        assert [known.client(each) is not None for each in (OLD, other, numbered)] == [False, False, True]


def test_clients_of_another_switch_are_doubted_as_there() -> None:
    former = PositionTracker([OLD])
    client = former.client(OLD)
    assert client is not None
    client.note_offset(T, 0, 7)
    known = PositionTracker([NEW])
    known.adopt(lambda client_id: client_id in ("old", "new"), former)
    assert known.client(OLD) is client
    assert known.client(NEW) is None


@pytest.mark.parametrize("offset", [0, 9, 11, 1000, -1, 1 << 62])
def test_a_session_begins_only_at_the_position_it_was_given(offset: int) -> None:
    client = PositionTracker([OLD]).client(OLD)
    assert client is not None
    followed = SessionPositions(client)
    assert followed.first_stale([(T, 0, 10)], 1.0) == (T, 0, 10)
    client.note_offset(T, 0, 10)
    assert followed.first_stale([(T, 0, offset)], 1.0) == (T, 0, offset)
    assert followed.first_stale([(T, 1, 10)], 1.0) == (T, 1, 10), "another partition"
    assert followed.first_stale([(b"other", 0, 10)], 1.0) == (b"other", 0, 10)
    assert followed.first_stale([(T, 0, 10)], 1.0) is None
    assert followed.first_stale([(T, 0, offset)], 1.0) is None, "from there on it counts itself"


def test_a_partition_dropped_by_a_session_continues_in_another() -> None:
    """Another broker leads it now."""
    client = PositionTracker([OLD]).client(OLD)
    assert client is not None
    for partition in (0, 1):
        client.note_offset(T, partition, 10)
    one, other = SessionPositions(client), SessionPositions(client)
    assert one.first_stale([(T, 0, 10), (T, 1, 10)], 1.0) is None
    assert one.first_stale([(T, 1, 20)], 3.0) is None
    assert other.first_stale([(T, 0, 77)], 5.9) == (T, 0, 77), "it may be another client of that name"
    assert other.is_followed_elsewhere((T, 0, 77))
    assert not other.is_followed_elsewhere((T, 2, 77))
    assert other.first_stale([(T, 0, 77)], 6.0) is None
    assert client.may_commit(T, 0, 80)
    assert other.first_stale([(T, 1, 99)], 7.9) == (T, 1, 99), "one still asks for it"
    assert one.first_stale([(T, 0, 20)], 8.0) is None, "it comes back"


def test_a_fetch_session_covers_all_but_its_forgotten_topics() -> None:
    client = PositionTracker([OLD]).client(OLD)
    assert client is not None
    for partition in (0, 1):
        client.note_offset(T, partition, 10)
    one, other = SessionPositions(client), SessionPositions(client)
    assert one.first_stale([(T, 0, 10), (T, 1, 10)], 1.0) is None
    one.note_fetch_all([(T, 1), (T, 9)], 3.0)
    one.note_fetch_all([], 30.0)
    assert other.first_stale([(T, 0, 77)], 34.9) == (T, 0, 77)
    assert other.first_stale([(T, 9, 77)], 34.9) == (T, 9, 77), "nobody has followed it"
    assert other.first_stale([(T, 1, 77)], 34.9) is None
    assert one.first_stale([(T, 1, 20)], 36.0) is None, "a part of it again"
    one.note_fetch_all([], 50.0)
    other.end()
    one.end()
    assert not client.open


def test_one_unknown_position_stops_all_and_begins_none() -> None:
    client = PositionTracker([OLD]).client(OLD)
    assert client is not None
    client.note_offset(T, 0, 10)
    followed = SessionPositions(client)
    assert followed.first_stale([(T, 0, 10), (T, 1, 5)], 1.0) == (T, 1, 5)
    assert not followed.partitions
    client.note_offset(T, 1, 5)
    assert followed.first_stale([(T, 0, 10), (T, 1, 5)], 1.0) is None


def test_a_session_does_not_vouch_for_another_until_it_ends() -> None:
    """Two members of a group may have the same name and address, and one of them may not know of the switch yet."""
    client = PositionTracker([OLD]).client(OLD)
    assert client is not None
    client.note_offset(T, 0, 10)
    one, other = SessionPositions(client), SessionPositions(client)
    assert one.first_stale([(T, 0, 10)], 1.0) is None
    assert one.first_stale([(T, 0, 999)], 1.0) is None
    assert other.first_stale([(T, 0, 777)], 1.0) == (T, 0, 777)
    one.end()
    assert SessionPositions(client).first_stale([(T, 0, 1234)], 1.0) is None, "it comes back on another connection"


def test_no_offset_is_no_position() -> None:
    client = PositionTracker([OLD]).client(OLD)
    assert client is not None
    client.note_offset(T, 0, -1)
    assert not client.has_offsets(T, 0)
    assert SessionPositions(client).lacks_offsets([(T, 0, 0)])
    client.note_offset(T, 0, 0)
    assert not SessionPositions(client).lacks_offsets([(T, 0, 0)])
    assert SessionPositions(client).lacks_offsets([(T, 0, 0), (T, 1, 0)])


def test_the_last_offsets_of_a_partition_count() -> None:
    client = PositionTracker([OLD]).client(OLD)
    assert client is not None
    for offset in [5, *range(100, 100 + MAX_OFFSETS - 1)]:
        client.note_offset(T, 0, offset)
    client.note_offset(T, 0, 5)  # again: it is the newest now
    client.note_offset(T, 0, 500)
    assert client.may_start_at(T, 0, 5)
    assert not client.may_start_at(T, 0, 100)
    assert client.may_start_at(T, 0, 101)


def test_a_crowd_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "MAX_CLIENTS", 10)
    monkeypatch.setattr(positions, "MAX_PARTITIONS", 10)
    known = PositionTracker(ClientIdentity("10.0.0.1", str(number)) for number in range(11))
    assert known.full, "who is not remembered one by one is doubted as well"
    for number in range(100):
        assert known.client(ClientIdentity("10.0.0.2", str(number))) is not None
    assert len(known._clients) == 20
    client = known.client(OLD)
    assert client is not None
    for number in range(100):
        client.note_offset(T, number, 1)
    client.note_followed((T, number) for number in range(100, 200))
    assert [number for number in range(200) if client.has_offsets(T, number)] == [*range(90, 100), *range(190, 200)]


def test_who_waits_is_told_once_and_as_often_as_it_begins_anew() -> None:
    known = PositionTracker([OLD])
    assert known.note_waiting(OLD, (T, 0, 7), 100.0)
    assert not known.note_waiting(OLD, (T, 1, 8), 101.0)
    (waiting,) = known.waiting
    assert (waiting.topic, waiting.partition, waiting.offset, waiting.since) == (T, 1, 8, 100.0)
    known.note_served(OLD)
    assert not known.waiting
    assert known.note_waiting(OLD, (T, 0, 7), 102.0)
    for number in range(2 * MAX_WAITING):
        known.note_waiting(ClientIdentity("", str(number)), (T, 0, 0), 0.0)
    assert len(known.waiting) == MAX_WAITING
