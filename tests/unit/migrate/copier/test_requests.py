"""What is written and read here, against kafka-python's message classes, which are made from Kafka's definitions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.migrate.copier import requests
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import Underflow

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files in a deprecated way
    from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
    from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
    from kafka.protocol.metadata import (
        FindCoordinatorRequest,
        FindCoordinatorResponse,
        MetadataRequest,
        MetadataResponse,
    )
    from kafka.protocol.producer import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        EndTxnRequest,
        EndTxnResponse,
        InitProducerIdRequest,
        InitProducerIdResponse,
        ProduceRequest,
        ProduceResponse,
    )


@pytest.mark.parametrize("version", requests.VERSIONS[ApiKey.FETCH])
@pytest.mark.parametrize("committed", [True, False])
def test_fetch(version: int, committed: bool) -> None:
    body = requests.encode_fetch(version, "orders", 3, 1 << 40, size=1000, wait_ms=5, committed=committed)
    read = FetchRequest.decode(body, version=version)
    (topic,) = read.topics
    (partition,) = topic.partitions
    assert (read.replica_id, read.max_wait_ms, read.min_bytes, read.max_bytes) == (-1, 5, 1, 1000)
    assert read.isolation_level == int(committed)
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("orders", 3, 1 << 40)
    assert partition.partition_max_bytes == 1000


def fetched(version: int, error: int = 0, top: int = 0) -> bytes:
    of = FetchResponse.FetchableTopicResponse
    partition = of.PartitionData(
        partition_index=3, error_code=error, high_watermark=100, last_stable_offset=90, log_start_offset=10,
        aborted_transactions=[of.PartitionData.AbortedTransaction(producer_id=7, first_offset=20)],
        preferred_read_replica=-1, records=b"abc",
    )  # fmt: skip
    whole = FetchResponse(
        throttle_time_ms=0, error_code=top, session_id=0, responses=[of(topic="orders", partitions=[partition])]
    )
    return bytes(whole.encode(version=version))


@pytest.mark.parametrize("version", requests.VERSIONS[ApiKey.FETCH])
def test_a_fetch_answer(version: int) -> None:
    answer = requests.read_fetch(version, memoryview(fetched(version)))
    assert (answer.error, answer.high, answer.stable) == (0, 100, 90)
    assert answer.start == (10 if version >= 5 else -1)
    assert answer.aborted == ((7, 20),)
    assert bytes(answer.records) == b"abc"


def test_a_fetch_answer_with_an_error_of_its_own() -> None:
    assert requests.read_fetch(11, fetched(11, top=71)).error == 71
    assert requests.read_fetch(11, fetched(11, error=6)).error == 6


@pytest.mark.parametrize("version", requests.VERSIONS[ApiKey.FETCH])
def test_fetch_of_several_partitions(version: int) -> None:
    offsets = {("a", 0): 5, ("b", 7): 6, ("a", 1): 1 << 40}
    body = requests.encode_fetch_many(version, offsets, size=1000, partition_size=300, wait_ms=5)
    read = FetchRequest.decode(body, version=version)
    assert {
        (topic.topic, each.partition): (each.fetch_offset, each.partition_max_bytes)
        for topic in read.topics
        for each in topic.partitions
    } == {place: (offset, 300) for place, offset in offsets.items()}
    assert (read.max_bytes, read.isolation_level) == (1000, 1)
    error, responses = requests.read_fetch_many(version, fetched(version, error=6))
    assert (error, list(responses)) == (0, [("orders", 3)])
    assert responses["orders", 3].error == 6
    if version >= 7:
        assert requests.read_fetch_many(version, fetched(version, top=71)) == (71, {})


BATCHES = [(("orders", 3), [b"12", b"345"]), (("orders", 0), [b"678"]), (("users", 9), [b"9"])]


@pytest.mark.parametrize("version", requests.VERSIONS[ApiKey.PRODUCE])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_produce(version: int, count: int) -> None:
    body = b"".join(requests.encode_produce("mine", BATCHES[:count], 1000))
    read = ProduceRequest.decode(body, version=version)
    assert (read.transactional_id, read.acks, read.timeout_ms) == ("mine", -1, 1000)
    assert [
        ((topic.name, each.index), bytes(each.records)) for topic in read.topic_data for each in topic.partition_data
    ] == [(place, b"".join(parts)) for place, parts in BATCHES[:count]]
    assert len(read.topic_data) == (2 if count == 3 else 1)
    assert ProduceRequest.decode(
        b"".join(requests.encode_produce(None, BATCHES, 1000)), version=version
    ).transactional_id is None  # fmt: skip


def produced(version: int) -> bytes:
    of = ProduceResponse.TopicProduceResponse
    one = of.PartitionProduceResponse
    errors = [
        one.BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message=text) for text in ("bad", None, "")
    ]

    def partition(index: int, error: int, offset: int, text: str | None = None) -> object:
        return one(
            index=index, error_code=error, base_offset=offset, log_append_time_ms=-1, log_start_offset=0,
            record_errors=errors if error else [], error_message=text,
        )  # fmt: skip

    responses = [
        of(name="orders", partition_responses=[partition(3, 87, -1, "refused"), partition(0, 0, 77)]),
        of(name="users", partition_responses=[partition(9, 0, 1 << 40)]),
    ]
    return bytes(ProduceResponse(responses=responses, throttle_time_ms=0).encode(version=version))


PRODUCED = {("orders", 3): (87, -1), ("orders", 0): (0, 77), ("users", 9): (0, 1 << 40)}


@pytest.mark.parametrize("version", requests.VERSIONS[ApiKey.PRODUCE])
def test_an_answer_to_produce(version: int) -> None:
    assert requests.read_produce(version, produced(version)) == PRODUCED


@pytest.mark.parametrize("version", requests.VERSIONS[ApiKey.METADATA])
def test_metadata(version: int) -> None:
    read = MetadataRequest.decode(requests.encode_metadata(version, ["a", "b"]), version=version)
    assert [topic.name for topic in read.topics] == ["a", "b"]
    assert read.allow_auto_topic_creation is False
    assert MetadataRequest.decode(requests.encode_metadata(version, None), version=version).topics is None
    of = MetadataResponse
    answer = of(
        throttle_time_ms=0, cluster_id="c", controller_id=1,
        brokers=[of.MetadataResponseBroker(node_id=1, host="h", port=9, rack=None)],
        topics=[
            of.MetadataResponseTopic(
                error_code=0, name="a", topic_id=ID, is_internal=False,
                partitions=[
                    of.MetadataResponseTopic.MetadataResponsePartition(
                        error_code=5, partition_index=2, leader_id=-1, replica_nodes=[1, 2], isr_nodes=[1],
                        offline_replicas=[], leader_epoch=4,
                    )
                ],
            )
        ],
    )  # fmt: skip
    header = b"\0" if version >= 9 else b""  # its tagged fields
    layout = requests.read_metadata(version, header + answer.encode(version=version))
    assert layout.ids == {"a": ID.hex if version >= 10 else ""}
    assert layout.cluster_id == "c"
    assert layout.brokers == {1: ("h", 9)}
    assert layout.topics == {"a": (0, (requests.PartitionMetadata(5, 2, -1),))}


def test_list_offsets() -> None:
    read = ListOffsetsRequest.decode(requests.encode_list_offsets({"a": [0, 2]}, requests.LATEST), version=2)
    assert read.isolation_level == 1
    assert [(one.partition_index, one.timestamp) for one in read.topics[0].partitions] == [(0, -1), (2, -1)]
    of = ListOffsetsResponse.ListOffsetsTopicResponse
    found = of.ListOffsetsPartitionResponse(partition_index=2, error_code=6, timestamp=-1, offset=9)
    answer = ListOffsetsResponse(throttle_time_ms=0, topics=[of(name="a", partitions=[found])])
    assert requests.read_list_offsets(answer.encode(version=2)) == {("a", 2): (6, 9)}


def test_find_coordinator() -> None:
    read = FindCoordinatorRequest.decode(requests.encode_find_coordinator("mine", 1), version=1)
    assert (read.key, read.key_type) == ("mine", 1)
    answer = FindCoordinatorResponse(
        throttle_time_ms=0, error_code=15, error_message=None, node_id=3, host="h", port=9
    ).encode(version=1)
    assert requests.read_find_coordinator(answer) == (15, 3, ("h", 9))


def test_transactions() -> None:
    read = InitProducerIdRequest.decode(requests.encode_init_producer_id("mine", 60_000), version=0)
    assert (read.transactional_id, read.transaction_timeout_ms) == ("mine", 60_000)
    assert InitProducerIdRequest.decode(requests.encode_init_producer_id(None, 1), version=0).transactional_id is None
    answer = InitProducerIdResponse(throttle_time_ms=0, error_code=51, producer_id=8, producer_epoch=2)
    assert requests.read_init_producer_id(answer.encode(version=0)) == (51, 8, 2)

    read = AddPartitionsToTxnRequest.decode(requests.encode_add_partitions("mine", 8, 2, {"a": [1, 2]}), version=0)
    assert (read.v3_and_below_transactional_id, read.v3_and_below_producer_id) == ("mine", 8)
    assert [(topic.name, list(topic.partitions)) for topic in read.v3_and_below_topics] == [("a", [1, 2])]

    read = EndTxnRequest.decode(requests.encode_end_txn("mine", 8, 2, commit=True), version=0)
    assert (read.transactional_id, read.producer_id, read.producer_epoch, read.committed) == ("mine", 8, 2, True)
    assert EndTxnRequest.decode(requests.encode_end_txn("mine", 8, 2, commit=False), version=0).committed is False
    assert requests.read_end_txn(EndTxnResponse(throttle_time_ms=0, error_code=47).encode(version=0)) == 47


@pytest.mark.parametrize(
    ("codes", "errors"),
    [((0, 0), {}), ((55, 29), {1: 29}), ((29, 55), {0: 29}), ((0, 3), {1: 3}), ((55, 55), {0: 55, 1: 55})],
)
def test_the_errors_that_matter_of_several(codes: tuple[int, int], errors: dict[int, int]) -> None:
    of = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    results = [of.AddPartitionsToTxnPartitionResult(partition_index=at, partition_error_code=code)
               for at, code in enumerate(codes)]  # fmt: skip
    answer = AddPartitionsToTxnResponse(
        throttle_time_ms=0, results_by_topic_v3_and_below=[of(name="a", results_by_partition=results)]
    )
    assert requests.read_add_partitions(answer.encode(version=0)) == {("a", at): code for at, code in errors.items()}


ID = UUID(int=0x1234567890ABCDEF)
ANSWERS: list[tuple[Callable[[bytes], Any], bytes]] = [(lambda body: requests.read_fetch(11, body), fetched(11))]


@pytest.mark.parametrize("cut", range(0, len(fetched(11)) - 1, 3))
def test_an_answer_that_is_cut(cut: int) -> None:
    for read, whole in ANSWERS:
        with pytest.raises(Underflow):
            read(whole[:cut])


@pytest.mark.parametrize("version", requests.VERSIONS[ApiKey.PRODUCE])
def test_an_answer_to_produce_that_is_cut(version: int) -> None:
    whole = produced(version)
    for cut in range(len(whole) - 4):  # the last four bytes are the throttle time, which is not read
        with pytest.raises(Underflow):
            requests.read_produce(version, whole[:cut])


@given(st.sampled_from(list(requests.VERSIONS[ApiKey.PRODUCE])), st.integers(0, 200), st.binary(max_size=8))
def test_an_answer_to_produce_that_is_nonsense(version: int, at: int, noise: bytes) -> None:
    whole = produced(version)
    with suppress(WireError, Underflow):
        requests.read_produce(version, whole[:at] + noise + whole[at:])
