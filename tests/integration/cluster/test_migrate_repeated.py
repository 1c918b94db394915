"""What readers of uncommitted records see of an attempt of the copy that was aborted, and who is warned of it."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kproxy.dev.devcluster import DevCluster
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.duplicates import find_duplicates
from kproxy.migrate.offsets.groupsync import UNCHANGED, GroupResult, PositionResult
from kproxy.migrate.offsets.positions import EXACT, Position
from tests.harness.topics import create_topic, produce, unique

pytestmark = pytest.mark.integration


def write(bootstrap: str, topic: str, first: int, count: int, *, commit: bool, producer_id: str) -> None:
    """One transaction, as the copier has them."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": producer_id})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush(60)
    (producer.commit_transaction if commit else producer.abort_transaction)(60)


def read(bootstrap: str, topic: str, at: int, level: str) -> list[int]:
    """All values from an offset on, to the record `-1`."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": unique("reader"), "isolation.level": level})
    reader.assign([TopicPartition(topic, 0, at)])
    found: list[int] = []
    try:
        while not found or found[-1] != -1:
            record = reader.poll(60)
            assert record is not None
            assert record.error() is None, record.error()
            found.append(int(record.value() or b""))
    finally:
        reader.close()
    return found[:-1]


def group(name: str, topic: str, target: int) -> GroupResult:
    position = Position("old", 0, 0, topic, target, EXACT)
    return GroupResult(name, "consumer", (PositionResult(position, "", UNCHANGED),))


def test_a_group_that_rereads_an_aborted_attempt_is_named(cluster: DevCluster) -> None:
    bootstrap = cluster.direct_bootstrap
    topic = create_topic(bootstrap, 1, 1)
    copier = unique("copier")
    write(bootstrap, topic, 0, 10, commit=True, producer_id=copier)  # 0 to 9, and a marker
    write(bootstrap, topic, 10, 5, commit=False, producer_id=copier)  # 11 to 15, and a marker
    write(bootstrap, topic, 10, 5, commit=True, producer_id=copier)  # 17 to 21
    produce(bootstrap, topic, [b"77", b"77"], 0)  # 23 and 24, of somebody else
    write(bootstrap, topic, 15, 3, commit=True, producer_id=copier)  # 25 to 27
    produce(bootstrap, topic, [b"-1"], 0)
    copied = CopiedPartition("old", 0, topic, 0, 18, 28, 18, 100, OffsetMap([(0, 0, 10), (10, 17, 5), (15, 25, 3)]))
    twice, once = [*range(5, 15), *range(10, 15)], list(range(5, 15))
    rest = [77, 77, 15, 16, 17]
    assert sorted(read(bootstrap, topic, 5, "read_uncommitted")) == sorted(twice + rest), "this is why"
    assert read(bootstrap, topic, 5, "read_committed") == once + rest
    assert read(bootstrap, topic, 17, "read_uncommitted") == once[5:] + rest

    found = list(
        find_duplicates(
            bootstrap,
            [group("lags", topic, 5), group("behind it", topic, 17), group("at the end", topic, 28)],
            {("old", 0): copied},
        )
    )

    assert [(one.group, one.topic, one.partition, one.records) for one in found] == [("lags", topic, 0, 5)]
    assert "isolation.level=read_uncommitted" in found[0].text
