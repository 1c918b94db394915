"""What is read in responses after a switch, and changed."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.primitives import Underflow
from kproxy.proxy.switching import responses, transactions
from kproxy.proxy.switching.caps import CAPS
from tests.unit.kafka_frames import response
from tests.unit.proxy.switching.frames import answer

COMMIT, OFFSET_FETCH, EPOCHS = 8, 9, 23
ADD_PARTITIONS, ADD_OFFSETS = 24, 25


def versions(key: int, first: int) -> list[int]:
    return list(range(first, CAPS.get(key, APIS[key].newest) + 1))


def offset_fetch(version: int) -> bytes:
    partitions: list[dict[str, Any]] = [
        {"PartitionIndex": 0, "CommittedOffset": 5, "Metadata": "meta"},
        {"PartitionIndex": 2, "CommittedOffset": -1, "Metadata": None},
    ]
    topics = [{"Name": "a", "Partitions": partitions}, {"Name": "b", "Partitions": partitions[:1]}]
    if version >= 8:
        other = {"GroupId": "h", "Topics": [{"Name": "c", "Partitions": partitions[:1]}]}
        return answer(OFFSET_FETCH, version, {"Groups": [{"GroupId": "g", "Topics": topics}, other]})
    return answer(OFFSET_FETCH, version, {"Topics": topics})


@pytest.mark.parametrize("version", versions(OFFSET_FETCH, 1))
def test_committed_positions_are_told(version: int) -> None:
    expected = [(b"a", 0, 5), (b"a", 2, -1), (b"b", 0, 5)] + [(b"c", 0, 5)] * (version >= 8)
    assert responses.read_offsets(offset_fetch(version), OFFSET_FETCH, version) == expected


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS, 1))
def test_ends_of_a_log_are_told(version: int) -> None:
    partitions = [{"PartitionIndex": 0, "Timestamp": 1 << 40, "Offset": 5}, {"PartitionIndex": 7, "Offset": 6}]
    frame = answer(ApiKey.LIST_OFFSETS, version, {"Topics": [{"Name": "a", "Partitions": partitions}]})
    assert responses.read_offsets(frame, ApiKey.LIST_OFFSETS, version) == [(b"a", 0, 5), (b"a", 7, 6)]


def test_the_oldest_version_tells_several() -> None:
    body = struct.pack(">ih", 1, 1) + b"a" + struct.pack(">iihiqq", 1, 3, 0, 2, 10, 0)
    assert responses.read_offsets(response(ApiKey.LIST_OFFSETS, 0, body), ApiKey.LIST_OFFSETS, 0) == [
        (b"a", 3, 10),
        (b"a", 3, 0),
    ]


@pytest.mark.parametrize("version", versions(EPOCHS, 2))
def test_the_end_of_an_epoch_is_told(version: int) -> None:
    topics = [{"Topic": "a", "Partitions": [{"Partition": 3, "LeaderEpoch": 1, "EndOffset": 50}]}]
    assert responses.read_offsets(answer(EPOCHS, version, {"Topics": topics}), EPOCHS, version) == [(b"a", 3, 50)]


@pytest.mark.parametrize("version", [0, 1])
def test_the_end_of_an_epoch_before_kafka_2_3(version: int) -> None:
    epoch = struct.pack(">i", 1) if version else b""
    partition = struct.pack(">hi", 0, 3) + epoch + struct.pack(">q", 50)
    body = struct.pack(">ih1si", 1, 1, b"a", 1) + partition
    assert responses.read_offsets(response(EPOCHS, version, body), EPOCHS, version) == [(b"a", 3, 50)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_batch_of_a_client_before_kafka_0_11(version: int) -> None:
    time = struct.pack(">q", -1) if version >= 2 else b""

    def frame(*errors: int) -> bytes:
        partitions = [struct.pack(">ihq", number, error, -1) + time for number, error in enumerate(errors)]
        throttled = bytes(4) if version >= 1 else b""
        body = struct.pack(">ih1si", 1, 1, b"a", len(partitions)) + b"".join(partitions) + throttled
        return response(ApiKey.PRODUCE, version, body)

    assert responses.has_retriable_error(frame(0, 6), version)
    assert not responses.has_retriable_error(frame(0, 0), version)


def produced(version: int, *errors: int) -> bytes:
    partitions: list[dict[str, Any]] = [{"Index": n, "ErrorCode": error} for n, error in enumerate(errors)]
    if version >= 8:
        partitions[0]["RecordErrors"] = [{"BatchIndex": 1, "BatchIndexErrorMessage": "why"}]
        partitions[0]["ErrorMessage"] = None
    half = len(partitions) // 2
    topics = [
        {"Name": "a", "PartitionResponses": partitions[:half]},
        {"Name": "b", "PartitionResponses": partitions[half:]},
    ]
    return answer(ApiKey.PRODUCE, version, {"Responses": topics})


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE, 3))
@pytest.mark.parametrize(
    ("errors", "refused"),
    [
        ((0, 0), False),
        ((46, 0), False),
        ((49, 49), False),
        ((0, 6), True),
        ((3, 0), True),
        ((0, 0, 0, 45), True),
        ((999, 0), True),
    ],
)
def test_whether_a_batch_was_refused(version: int, errors: tuple[int, ...], refused: bool) -> None:
    assert responses.has_retriable_error(produced(version, *errors), version) is refused


def heartbeat(key: int, version: int, error: int) -> bytes:
    return response(
        key, version, struct.pack(">ih", 77, error) + b"\x05text\x02m" + struct.pack(">ii", 0, 69) + b"\xff\x00"
    )


@pytest.mark.parametrize("key", [68, 76, 88])
@pytest.mark.parametrize(("error", "instead"), [(69, 25), (0, 0), (25, 25), (110, 110)])
def test_a_group_that_is_not_there_is_one_that_can_be_joined(key: int, error: int, instead: int) -> None:
    assert responses.replace_unknown_group(heartbeat(key, 0, error), key, 0) == heartbeat(key, 0, instead)


@pytest.mark.parametrize("version", versions(COMMIT, 2))
def test_a_commit_to_a_group_that_is_not_there(version: int) -> None:
    def frame(*errors: int) -> bytes:
        partitions = [{"PartitionIndex": 69, "ErrorCode": error} for error in errors]
        return answer(COMMIT, version, {"Topics": [{"Name": "a", "Partitions": partitions}]})

    assert responses.replace_unknown_group(frame(0, 69, 22, 69), COMMIT, version) == frame(0, 25, 22, 25)
    untouched = frame(0, 22)
    assert responses.replace_unknown_group(untouched, COMMIT, version) is untouched


def of_transaction(key: int, version: int, error: int) -> bytes:
    if key == ApiKey.PRODUCE:
        return produced(version, 0, error, 6)
    if key in (ApiKey.END_TXN, ADD_OFFSETS):
        return answer(key, version, {"ErrorCode": error, "ThrottleTimeMs": 49})
    if key == ApiKey.TXN_OFFSET_COMMIT:
        topics = [{"Name": "a", "Partitions": [{"PartitionIndex": 49, "ErrorCode": code} for code in (0, error, 25)]}]
        return answer(key, version, {"Topics": topics})
    partitions = [{"PartitionIndex": 49, "PartitionErrorCode": code} for code in (0, error)]
    return answer(key, version, {"ResultsByTopicV3AndBelow": [{"Name": "a", "ResultsByPartition": partitions}]})


@pytest.mark.parametrize(
    ("key", "version", "instead"),
    [
        *((ApiKey.PRODUCE, version, 120) for version in versions(ApiKey.PRODUCE, 3)),
        *((ADD_PARTITIONS, version, 59) for version in range(4)),
        *((ADD_OFFSETS, version, 59) for version in versions(ADD_OFFSETS, 0)),
        *((ApiKey.TXN_OFFSET_COMMIT, version, 120) for version in versions(ApiKey.TXN_OFFSET_COMMIT, 0)),
        *((ApiKey.END_TXN, version, 59) for version in versions(ApiKey.END_TXN, 0)),
    ],
)
def test_a_producer_id_that_is_not_known_leads_to_an_abort(key: int, version: int, instead: int) -> None:
    assert transactions.substitute_errors(of_transaction(key, version, 49), key, version) == of_transaction(
        key, version, instead
    )
    for error in (0, 48, 90):
        untouched = of_transaction(key, version, error)
        assert transactions.substitute_errors(untouched, key, version) is untouched


@pytest.mark.parametrize("version", versions(ApiKey.END_TXN, 0))
def test_an_abort_of_what_is_not_there_is_done(version: int) -> None:
    frame = of_transaction(ApiKey.END_TXN, version, 49)
    assert transactions.substitute_errors(frame, ApiKey.END_TXN, version, aborts=True) == of_transaction(
        ApiKey.END_TXN, version, 0
    )
    fenced = of_transaction(ApiKey.END_TXN, version, 90)
    assert transactions.substitute_errors(fenced, ApiKey.END_TXN, version, aborts=True) == fenced


def test_what_only_brokers_say_stays_as_it_is() -> None:
    frame = answer(ADD_PARTITIONS, 4, {"ErrorCode": 49, "ThrottleTimeMs": 49})
    assert transactions.substitute_errors(frame, ADD_PARTITIONS, 4) is frame


def metadata(version: int, epoch: int) -> bytes:
    partitions = [
        {"PartitionIndex": at, "LeaderId": 3 - at, "LeaderEpoch": epoch, "ReplicaNodes": [1, 2], "IsrNodes": [2],
         "OfflineReplicas": [1] * at}
        for at in range(3)
    ]  # fmt: skip
    topics = [
        {"Name": name, "Partitions": partitions[at:], "TopicAuthorizedOperations": 9} for at, name in enumerate("ab")
    ]
    brokers = [
        {"NodeId": 1, "Host": "kafka-1", "Port": 9092, "Rack": "r"},
        {"NodeId": 2, "Host": "kafka-2", "Port": 9093},
    ]
    fields = {
        "ThrottleTimeMs": 7,
        "Brokers": brokers,
        "ClusterId": "c",
        "ControllerId": 2,
        "Topics": [*topics, {"Name": "c"}],
    }
    return answer(ApiKey.METADATA, version, fields)


@pytest.mark.parametrize("version", versions(ApiKey.METADATA, 0))
def test_no_epochs_are_told(version: int) -> None:
    for epoch in (0, 57, -1):
        shown: set[bytes] = set()
        assert bytes(responses.remove_leader_epochs(metadata(version, epoch), version, shown)) == metadata(version, -1)
        assert shown == ({b"a", b"b"} if version >= 7 else set()), "and not c, which has no partitions"
        assert bytes(responses.remove_leader_epochs(metadata(version, epoch), version, shown)) == metadata(
            version, epoch
        )
    assert (metadata(version, 0) != metadata(version, -1)) is (version >= 7)


def test_a_heartbeat_that_ends_before_its_error() -> None:
    with pytest.raises(Underflow):
        responses.replace_unknown_group(heartbeat(68, 0, 69)[:13], 68, 0)
