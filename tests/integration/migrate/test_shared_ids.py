"""Partitions that share a transactional id: which id may write, what one of them does to the others, and zombies.

librdkafka writes and reads; the brokers say which transactional ids there are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.copier import Copier
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import (
    LITTLE_SIZE,
    STATE_PARTITIONS,
    Job,
    PartitionState,
    Slice,
    SliceResult,
    state_topic_name,
)
from kproxy.migrate.copier.statetopic import CopiedPartition, read_copied_partitions
from kproxy.migrate.copy.rounds import PartitionBacklog, pack_tasks, slice_size
from kproxy.migrate.usage.sourcestate import read_own_producer_ids
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.moving import compared, rows, topics, until
from tests.harness.topics import unique

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

_SECONDS = 60.0
_LARGEST = 2_000_000
# So many partitions are compared; a reader takes a second for each.
_COMPARED = 6


@dataclass
class Move:
    """The copy of one topic, round by round, as the driver plans it; no state is read but by the copier."""

    sides: TwoSides
    source: ClusterClient
    target: ClusterClient
    partitions: int
    topic: str = field(default_factory=lambda: unique("shared"))
    name: str = field(default_factory=lambda: unique("move"))
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for bootstrap in (self.sides.source, self.sides.target):
            topics(bootstrap, {self.topic: self.partitions}, 1, **{"max.message.bytes": str(_LARGEST)})
        topics(self.sides.target, {state_topic_name(self.name): STATE_PARTITIONS}, 1, **{"cleanup.policy": "compact"})
        self.job = Job(self.name, STATE_PARTITIONS)
        self.copier = Copier(self.source, self.target, self.job)
        until(lambda: len(self.ends()) == self.partitions, "the source has leaders")
        retry(self.target, lambda: self.target.partition_count(self.topic), _SECONDS)

    def ends(self) -> dict[TopicPartition, int]:
        return self.source.list_offsets([(self.topic, at) for at in range(self.partitions)], requests.LATEST)

    def slices(self, ends: Mapping[TopicPartition, int]) -> list[tuple[int, Slice]]:
        """What is left up to these ends, as the driver plans it."""
        planned = []
        for place, end in ends.items():
            state = self.states.get(place)
            backlog = PartitionBacklog(*place, 0 if state is None else state.source_next, end, 1000.0)
            if backlog.lag:
                size = slice_size(backlog, state, 1 << 28)
                slice = Slice(*place, self.topic, 0, end, size, _SECONDS, state=state, max_batch_size=_LARGEST)
                planned.append((min(backlog.size, size), slice))
        return planned

    def round(self) -> list[SliceResult]:
        results = [
            result
            for task in pack_tasks(self.slices(self.ends()), self.job, 2)
            for group in task
            for result in self.copier.copy(group)
        ]
        self.states |= {(each.topic, each.partition): each.state for each in results if each.state is not None}
        return results

    def copy(self) -> int:
        """Copy to the current ends, and return in how many rounds."""
        for number in range(1, 20):
            results = self.round()
            if not results:
                return number - 1
            assert not [each.stuck for each in results if each.stuck]
        raise AssertionError("it has no end")

    def write(self, counts: Mapping[int, int], size: int = 100) -> None:
        chance = random.Random(sum(counts.values()))
        producer = Producer({"bootstrap.servers": self.sides.source, "enable.idempotence": True, "linger.ms": 5})
        for partition, count in counts.items():
            for _ in range(count):
                producer.produce(self.topic, chance.randbytes(size), b"k%d" % chance.randrange(9), partition)
                producer.poll(0)
        assert producer.flush(60) == 0

    def ids(self) -> set[str]:
        """The transactional ids of this migration that the target knows, without the name in front."""
        prefix = f"kproxy-migration-{self.name}/"
        with Admin(self.sides.target) as admin:
            return {name.removeprefix(prefix) for name in read_own_producer_ids(admin) if name.startswith(prefix)}

    def committed(self) -> dict[TopicPartition, CopiedPartition]:
        return read_copied_partitions(self.sides.target, self.name)

    def check(self) -> None:
        """Everything is on the target, once and in order, and where the offset map says."""
        expected = {place: end for place, end in self.ends().items() if end}
        until(
            lambda: {place: state.source_next for place, state in self.committed().items()} == expected,
            "all states are to be seen",
        )
        for (topic, partition), copied in list(self.committed().items())[:_COMPARED]:
            source, target = rows(self.sides.source, topic, partition), rows(self.sides.target, topic, partition)
            assert compared(source, target, copied.map) == "", partition


@pytest.fixture
def clients(sides: TwoSides) -> Iterator[tuple[ClusterClient, ClusterClient]]:
    with closing(ClusterClient(sides.source)) as source, closing(ClusterClient(sides.target)) as target:
        yield source, target


def move(sides: TwoSides, clients: tuple[ClusterClient, ClusterClient], partitions: int) -> Move:
    return Move(sides, *clients, partitions)


def test_little_partitions_share_transactions(sides: TwoSides, clients: tuple[ClusterClient, ClusterClient]) -> None:
    """However many there are, there are at most as many transactional ids as the state topic has partitions."""
    moved = move(sides, clients, 100)
    for _ in range(3):
        moved.write({at: 1 + at % 7 for at in range(0, 100, 2)})
        assert moved.copy() == 1
    assert moved.ids() <= {f"shared-{at}" for at in range(STATE_PARTITIONS)}
    moved.check()
    # One transaction of a partition has one marker. Each round has one transaction.
    ends = moved.target.list_offsets([(moved.topic, 0), (moved.topic, 2)], requests.LATEST)
    assert ends == {(moved.topic, 0): 3 * (1 + 1), (moved.topic, 2): 3 * (3 + 1)}


def test_a_partition_gets_its_own_id_and_gives_it_back(
    sides: TwoSides, clients: tuple[ClusterClient, ClusterClient]
) -> None:
    moved = move(sides, clients, 20)
    moved.write(dict.fromkeys(range(20), 10))
    moved.write({3: 3 * LITTLE_SIZE // 100_000}, 100_000)
    assert moved.copy() == 2, "the shared id copies the beginning, its own the rest"
    own = f"{moved.topic}/3"
    assert own in moved.ids()
    assert len(moved.ids()) <= STATE_PARTITIONS + 1
    assert {place[1] for place, state in moved.states.items() if state.has_own_id} == {3}
    moved.write({3: 5, 4: 5})
    assert moved.copy() == 1
    assert not any(state.has_own_id for state in moved.states.values()), "it had little to copy"
    assert moved.states[moved.topic, 3].writers(moved.job, moved.topic, 3)[0].endswith(own)
    moved.write({3: 5, 4: 5})
    assert moved.copy() == 1
    moved.check()


def test_who_may_not_write_does_not(sides: TwoSides, clients: tuple[ClusterClient, ClusterClient]) -> None:
    """A task that comes too late has another epoch, and finds that another transactional id may write."""
    moved = move(sides, clients, 2)
    moved.write({0: 10, 1: 10})
    assert moved.copy() == 1
    moved.write({0: 10, 1: 10})
    former = PartitionState(moved.topic, 0, 0, 0, has_own_id=True)
    for at in range(2):
        late = Slice(moved.topic, at, moved.topic, 0, 20, 1 << 20, _SECONDS, state=former)
        [result] = moved.copier.copy([late])
        assert (result.records, result.stuck) == (0, "")
        assert result.state == moved.states[moved.topic, at]
    assert moved.copy() == 1
    moved.check()


@pytest.mark.parametrize("own", [False, True])
def test_a_zombie_cannot_commit(sides: TwoSides, clients: tuple[ClusterClient, ClusterClient], own: bool) -> None:
    """Its transaction has records of a partition that the next copier copies."""
    moved = move(sides, clients, 4)
    moved.write(dict.fromkeys(range(4), 10))
    if own:
        moved.write({0: 3 * LITTLE_SIZE // 100_000}, 100_000)
        moved.round()
        assert moved.states[moved.topic, 0].has_own_id
    [(_, slice)] = moved.slices({(moved.topic, 0): moved.ends()[moved.topic, 0]})
    with closing(ClusterClient(sides.target)) as other:
        zombie = TransactionalProducer(other, slice.transactional_id(moved.job))
        zombie.init_transactions(time.monotonic() + _SECONDS)
        zombie.add_partitions({moved.topic: [0]})
        zombie.send_records(moved.topic, 0, [(b"zombie", b"zombie")] * 5, 0)
        zombie.flush()
        moved.copy()
        with pytest.raises(ProducerFenced):
            zombie.commit()
    moved.check()


def test_one_partition_does_not_stop_the_others(sides: TwoSides, clients: tuple[ClusterClient, ClusterClient]) -> None:
    """Of those that share its transactions: one is too large, one is deleted, and one is missing on the target."""
    moved = move(sides, clients, 40)
    moved.write(dict.fromkeys(range(40), 20))
    moved.write({5: 1}, 900_000)
    admin = AdminClient({"bootstrap.servers": sides.source})
    for done in admin.delete_records([Partition(moved.topic, 6, 10)]).values():
        done.result(30)
    slices = [slice for _, slice in moved.slices(moved.ends())]
    # The target takes no batch as large as this, and the source begins after offset 0.
    topics(sides.target, {f"{moved.topic}-small": 40}, 1, **{"max.message.bytes": "100000"})
    retry(moved.target, lambda: moved.target.partition_count(f"{moved.topic}-small"), _SECONDS)
    targets = {5: f"{moved.topic}-small", 7: "missing-there"}
    results = []
    for group in pack_tasks([(1, changed(slice, targets, 2.0)) for slice in slices], moved.job, 1):
        results += [result for members in group for result in moved.copier.copy(members)]
    stuck = {each.partition: each.stuck for each in results if each.stuck}
    assert stuck.keys() == {5, 6, 7}
    assert "MESSAGE_TOO_LARGE" in stuck[5]
    assert "the log now begins at offset 10" in stuck[6]
    assert "missing-there" in stuck[7]
    assert {each.partition for each in results if each.is_final} == {5}
    assert all(each.records == 20 for each in results if not each.stuck)
    for at in (0, 8, 39):
        source, target = rows(sides.source, moved.topic, at), rows(sides.target, moved.topic, at)
        assert [row[1:] for row in source] == [row[1:] for row in target]


def changed(slice: Slice, targets: Mapping[int, str], seconds: float) -> Slice:
    return replace(slice, target_topic=targets.get(slice.partition, slice.target_topic), seconds=seconds)
