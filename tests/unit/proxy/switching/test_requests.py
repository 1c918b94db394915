"""Reading requests after a switch, and answering them."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.proxy.switching import requests
from kproxy.proxy.switching.caps import CAPS
from kproxy.proxy.switching.transactions import is_commit
from tests.unit.proxy.switching.frames import answer, ask

COMMIT, DELETION, EPOCHS = 8, 21, 23
POSITIONS = (("a", 0, 5), ("a", 3, 1 << 40), ("b\N{SNOWMAN}", 1, 0))


def versions(key: int, first: int) -> list[int]:
    return list(range(first, CAPS.get(key, APIS[key].newest) + 1))


def topics(partition: Callable[[int, int], dict[str, object]], name: str = "Topic") -> list[dict[str, object]]:
    grouped: dict[str, list[dict[str, object]]] = {}
    for topic, number, offset in POSITIONS:
        grouped.setdefault(topic, []).append(partition(number, offset))
    return [{name: topic, "Partitions": found} for topic, found in grouped.items()]


RAW = tuple((topic.encode(), number, offset) for topic, number, offset in POSITIONS)


def fetch(
    version: int, session: int = 0, epoch: int = 0, client_id: str | None = "me", *, forgets: bool = False
) -> bytes:
    fields: dict[str, object] = {
        "MaxWaitMs": 321,
        "Topics": topics(lambda number, offset: {"Partition": number, "FetchOffset": offset, "LogStartOffset": 99}),
    }
    if version >= 7:
        fields |= {"SessionId": session, "SessionEpoch": epoch}
        fields["ForgottenTopicsData"] = [{"Topic": "gone", "Partitions": [1, 2]}] if forgets else []
    return ask(ApiKey.FETCH, version, fields, client_id=client_id)


@pytest.mark.parametrize("client_id", ["me", "", None, "x" * 300])
@pytest.mark.parametrize("version", versions(ApiKey.FETCH, 4))
def test_the_positions_of_a_fetch(version: int, client_id: str | None) -> None:
    found = requests.read_fetch(fetch(version, client_id=client_id))
    assert found.positions == RAW
    quickly = requests.read_fetch_positions(fetch(version, client_id=client_id))
    assert quickly is not None
    assert (tuple(quickly[0]), quickly[1]) == (RAW, False)
    assert found.max_wait == 321
    assert not found.in_session


@pytest.mark.parametrize("version", versions(ApiKey.FETCH, 7))
def test_what_a_fetch_session_goes_on_without(version: int) -> None:
    request = fetch(version, session=7, epoch=2, forgets=True)
    found = requests.read_fetch(request)
    assert (found.positions, found.in_session, found.forgotten) == (RAW, True, ((b"gone", 1), (b"gone", 2)))
    assert requests.read_fetch_positions(request) is None
    assert requests.read_fetch_positions(fetch(version, session=7, epoch=2)) == (list(RAW), True)


@pytest.mark.parametrize("version", versions(ApiKey.FETCH, 4))
def test_what_is_read_quickly_is_what_is_read(version: int) -> None:
    """Whatever the bytes are: it is the same, or is left to `read_fetch`."""
    both = [fetch(version, session=7, epoch=2, forgets=forgets) for forgets in (False, True)]
    whole = both[0]

    @given(
        st.sampled_from(both),
        st.lists(st.tuples(st.integers(8, len(whole) - 1), st.integers(0, 255)), max_size=4),
        st.integers(14, len(whole)),
    )
    def check(sent: bytes, changes: list[tuple[int, int]], end: int) -> None:
        request = bytearray(sent)
        for at, byte in changes:
            request[at] = byte
        found = requests.read_fetch_positions(memoryview(request)[:end])
        if found is not None:
            slowly = requests.read_fetch(memoryview(request)[:end])
            assert (tuple(found[0]), found[1], slowly.forgotten) == (slowly.positions, slowly.in_session, ())

    check()


@pytest.mark.parametrize(
    "at",
    [16, 78, 111, 151, 112, 152],
    ids=["header", "partition 0", "partition 3", "partition 1", "topic a", "topic b"],
)
def test_tagged_fields_are_left_to_the_slower_reader(at: int) -> None:
    """Whatever tag section they are in."""
    whole = fetch(12)
    assert not whole[at]
    tagged = whole[:at] + b"\x01\x63\x01x" + whole[at + 1 :]
    assert requests.read_fetch(tagged).positions == RAW
    assert requests.read_fetch_positions(tagged) is None


@pytest.mark.parametrize("version", versions(ApiKey.FETCH, 4))
def test_the_answer_that_there_is_nothing_new(version: int) -> None:
    def partition(number: int, offset: int) -> dict[str, object]:
        fields: dict[str, object] = {"PartitionIndex": number, "HighWatermark": -1, "LastStableOffset": -1}
        if version >= 5:
            fields["LogStartOffset"] = -1
        if version >= 11:
            fields["PreferredReadReplica"] = -1
        return fields

    expected = answer(ApiKey.FETCH, version, {"Responses": topics(partition)})
    assert requests.empty_fetch_response(requests.read_fetch(fetch(version))) == expected
    beyond = requests.empty_fetch_response(requests.read_fetch(fetch(version)), RAW[1])
    (topic, number, _), error = POSITIONS[1], {"ErrorCode": 1}
    responses = topics(lambda at, offset: partition(at, offset) | (error if at == number else {}))
    for one in responses:  # the number is in several topics
        if one["Topic"] != topic:
            assert isinstance(one["Partitions"], list)
            one["Partitions"] = [{**found, "ErrorCode": 0} for found in one["Partitions"]]
    assert beyond == answer(ApiKey.FETCH, version, {"Responses": responses})


@pytest.mark.parametrize("version", versions(ApiKey.FETCH, 7))
def test_who_fetches_in_a_session_is_told_to_begin_another(version: int) -> None:
    found = requests.read_fetch(fetch(version, session=77, epoch=3))
    assert found.in_session
    assert requests.empty_fetch_response(found) == answer(ApiKey.FETCH, version, {"ErrorCode": 70, "Responses": []})
    assert not requests.read_fetch(fetch(version, session=77, epoch=0)).in_session, (
        "it asks for another one, and names all"
    )
    assert not requests.read_fetch(fetch(version, session=0, epoch=-1)).in_session


@pytest.mark.parametrize("version", versions(COMMIT, 2))
@pytest.mark.parametrize(("generation", "member"), [(-1, ""), (5, "m"), (0, "m")])
def test_a_commit_and_its_refusal(version: int, generation: int, member: str) -> None:
    name = "GenerationIdOrMemberEpoch"
    fields = {
        "GroupId": "group", name: generation, "MemberId": member,
        "Topics": topics(
            lambda number, offset: {"PartitionIndex": number, "CommittedOffset": offset, "CommittedMetadata": "meta"},
            "Name",
        ),
    }  # fmt: skip
    if version >= 7:
        fields["GroupInstanceId"] = None
    commit = requests.read_commit(ask(COMMIT, version, fields))
    assert commit.positions == RAW
    for keeps, error in ((False, 25), (True, 27)):
        refused = topics(lambda number, offset: {"PartitionIndex": number, "ErrorCode": error}, "Name")  # noqa: B023
        told = requests.commit_refusal(commit, keeps_positions=keeps)
        assert told == answer(COMMIT, version, {"Topics": refused})


@pytest.mark.parametrize("version", versions(DELETION, 0))
def test_a_deletion_is_refused(version: int) -> None:
    asked = topics(lambda number, offset: {"PartitionIndex": number, "Offset": offset}, "Name")
    refused = topics(lambda number, offset: {"PartitionIndex": number, "LowWatermark": -1, "ErrorCode": 1}, "Name")
    told = requests.deletion_refusal(ask(DELETION, version, {"Topics": asked, "TimeoutMs": 9}))
    assert told == answer(DELETION, version, {"Topics": refused})


@pytest.mark.parametrize("version", versions(EPOCHS, 2))
def test_a_position_that_is_examined_is_not_known_yet(version: int) -> None:
    asked = topics(lambda number, offset: {"Partition": number, "LeaderEpoch": 4, "CurrentLeaderEpoch": 5})
    epochs = requests.read_epochs(ask(EPOCHS, version, {"Topics": asked}))
    assert [one[:2] for one in epochs.positions] == [one[:2] for one in RAW]
    answered = topics(lambda number, offset: {"Partition": number, "ErrorCode": 6, "LeaderEpoch": -1, "EndOffset": -1})
    assert requests.epochs_refusal(epochs) == answer(EPOCHS, version, {"Topics": answered})
    answered = topics(lambda number, offset: {"Partition": number, "LeaderEpoch": -1, "EndOffset": -1})
    assert requests.epochs_refusal(epochs, for_good=True) == answer(EPOCHS, version, {"Topics": answered})


@pytest.mark.parametrize("version", versions(ApiKey.END_TXN, 0))
@pytest.mark.parametrize("commits", [True, False])
def test_whether_a_transaction_is_to_be_committed(version: int, commits: bool) -> None:
    asked = ask(ApiKey.END_TXN, version, {"TransactionalId": "id", "ProducerId": 1 << 40, "Committed": commits})
    assert is_commit(asked) is commits


# Versions of brokers before Kafka 4.0, by hand: kafka-python has no message definitions of them


def old_frame(*parts: bytes) -> bytes:
    return struct.pack(">i", sum(map(len, parts))) + b"".join(parts)


def old_request(key: int, version: int, *parts: bytes) -> bytes:
    return old_frame(struct.pack(">hhih2s", key, version, 7, 2, b"me"), *parts)


def old_topics(partition: Callable[[int, int], bytes]) -> bytes:
    grouped: dict[bytes, list[bytes]] = {}
    for topic, number, offset in RAW:
        grouped.setdefault(topic, []).append(partition(number, offset))
    listed = [
        struct.pack(">h", len(topic)) + topic + struct.pack(">i", len(found)) + b"".join(found)
        for topic, found in grouped.items()
    ]
    return struct.pack(">i", len(listed)) + b"".join(listed)


ID = struct.pack(">i", 7)


@pytest.mark.parametrize("version", range(4))
def test_an_old_fetch_and_its_answer(version: int) -> None:
    limits = struct.pack(">iiii", -1, 321, 1, 1 << 20)[: 16 if version == 3 else 12]
    asked = old_request(
        ApiKey.FETCH, version, limits, old_topics(lambda number, offset: struct.pack(">iqi", number, offset, 99))
    )
    found = requests.read_fetch(asked)
    assert (found.positions, found.max_wait, found.in_session, found.forgotten) == (RAW, 321, False, ())
    assert requests.read_fetch_positions(asked) == (list(RAW), False)
    throttled = bytes(4) if version >= 1 else b""
    nothing = old_topics(lambda number, offset: struct.pack(">ihqi", number, 0, -1, 0))
    assert requests.empty_fetch_response(found) == old_frame(ID, throttled, nothing)


@pytest.mark.parametrize("version", [0, 1])
def test_an_old_commit_and_its_refusal(version: int) -> None:
    """Before members of groups had a say in it, and with a time."""
    member = struct.pack(">ih1s", 5, 1, b"m") if version else b""
    time = struct.pack(">q", 99) if version else b""
    asked = old_request(
        COMMIT, version, struct.pack(">h5s", 5, b"group"), member,
        old_topics(lambda number, offset: struct.pack(">iq", number, offset) + time + struct.pack(">h4s", 4, b"meta")),
    )  # fmt: skip
    commit = requests.read_commit(asked)
    assert commit.positions == RAW
    refused = old_topics(lambda number, offset: struct.pack(">ih", number, 25))
    assert requests.commit_refusal(commit) == old_frame(ID, refused)


@pytest.mark.parametrize("version", [0, 1])
def test_an_old_examination_of_a_position(version: int) -> None:
    epochs = requests.read_epochs(
        old_request(EPOCHS, version, old_topics(lambda number, offset: struct.pack(">ii", number, 4)))
    )
    assert [one[:2] for one in epochs.positions] == [one[:2] for one in RAW]
    for for_good, error in ((False, 6), (True, 0)):
        tail = struct.pack(">iq", -1, -1) if version else struct.pack(">q", -1)
        answered = old_topics(lambda number, offset: struct.pack(">hi", error, number) + tail)  # noqa: B023
        assert requests.epochs_refusal(epochs, for_good=for_good) == old_frame(ID, answered)
