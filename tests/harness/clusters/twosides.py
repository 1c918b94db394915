"""Two small clusters, and topics that the copier copies from one to the other."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer

from kproxy.dev.devcluster import DevCluster
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.copier import Copier
from kproxy.migrate.copier.state import STATE_PARTITIONS, Job, Slice, state_topic_name
from kproxy.migrate.copier.statetopic import CopiedPartition, read_copied_partitions
from tests.harness.clusters.steady import STEADY
from tests.harness.migration.moving import topics
from tests.harness.topics import unique

_SECONDS = 120.0
# The cleaner and the deletion of segments are quick. Records may be large.
QUICK = STEADY | {
    "log.cleaner.backoff.ms": "500",  # with 100, it alone took half of a broker's CPU
    "log.segment.delete.delay.ms": "100",
    "message.max.bytes": "2000000",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "auto.create.topics.enable": "false",
}


@dataclass
class TwoSides:
    """`source` and `target` are bootstrap servers. Each migration of a test has its own name.

    `begins`: the offsets of the source at which the copy begins, by topic and partition; else it begins with the log.
    """

    source: str
    target: str
    clusters: Sequence[DevCluster] = ()
    name: str = field(default_factory=lambda: unique("move"))
    begins: Mapping[tuple[str, int], int] = field(default_factory=dict)
    _made: bool = False

    def migration(self) -> TwoSides:
        return TwoSides(self.source, self.target, self.clusters)

    def copy(
        self, renamed: Mapping[str, str], *, sparse: bool = False, size: int = 1 << 20
    ) -> dict[tuple[str, int], CopiedPartition]:
        """Copy these topics to their current ends, and return the whole state topic.

        The topics must exist on both sides. Kafka Streams deletes what it has read from its repartition topics, also
        before it is copied; as `kproxy migrate copy` does, this leaves such records out.
        """
        if not self._made:
            topics(self.target, {state_topic_name(self.name): STATE_PARTITIONS}, 1, **{"cleanup.policy": "compact"})
            self._made = True
        with ClusterClient(self.source) as source, ClusterClient(self.target) as target:
            copier = Copier(source, target, Job(self.name, STATE_PARTITIONS))
            before, wanted = self.state(), dict[tuple[str, int], int]()
            for topic, name in renamed.items():
                places = [(topic, index) for index in range(source.partition_count(topic))]
                ends = source.list_offsets(places, requests.LATEST)
                begins = source.list_offsets(places, requests.EARLIEST) | self.begins
                forgets = topic.endswith("-repartition")
                for place in places:
                    known = before.get(place)
                    if known is not None and known.source_next >= ends[place]:
                        continue
                    reached, state = -1, None
                    while reached < ends[place]:  # in small transactions, so that the target has gaps too
                        start = source.list_offsets([place], requests.EARLIEST)[place] if forgets else 0
                        [told] = copier.copy(
                            [
                                Slice(
                                    *place, name, begins[place], ends[place], size, _SECONDS, state=state,
                                    skip_to=start, allows_gaps=sparse,
                                )
                            ]
                        )  # fmt: skip
                        assert not told.stuck, told.stuck
                        assert told.state is not None
                        assert told.state.source_next > reached
                        reached, state = told.state.source_next, told.state
                    if ends[place] > begins[place]:
                        wanted[place] = ends[place]
        # A transaction is committed a moment before readers see what is in it.
        until(lambda: all(self._next(place) >= end for place, end in wanted.items()), "what was copied is to be seen")
        return self.state()

    def _next(self, place: tuple[str, int]) -> int:
        known = self.state().get(place)
        return -1 if known is None else known.source_next

    def state(self) -> dict[tuple[str, int], CopiedPartition]:
        """Return the state of the copy."""
        cluster = ClusterClient(self.target)
        try:  # a young topic has no leader so far
            return retry(cluster, lambda: read_copied_partitions(self.target, self.name), _SECONDS)
        finally:
            cluster.close()


@contextmanager
def two_sides() -> Iterator[TwoSides]:
    """Start both clusters. Brokers are dialled directly: other tests have kproxy in between."""
    with DevCluster(brokers=1, properties=QUICK) as a, DevCluster(brokers=1, properties=QUICK) as b:
        yield TwoSides(a.direct_bootstrap, b.direct_bootstrap, (a, b))


def transactions(bootstrap: str, topic: str, partitions: int, count: int, seed: int, aborted: float = 0.3) -> int:
    """Write about `count` unique records in transactions, some aborted; return how many are committed."""
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tx"), "linger.ms": 0})
    producer.init_transactions(60)
    sent = committed = 0
    while sent < count:
        producer.begin_transaction()
        size = chance.randrange(1, 40)
        for number in range(size):
            producer.produce(topic, f"{topic}-{seed}-{sent + number}", "k", chance.randrange(partitions))
        producer.flush(60)
        sent += size
        if chance.random() < aborted:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            committed += size
    return committed


def plain(bootstrap: str, topic: str, partitions: int, count: int, seed: int, keys: int = 0) -> None:
    """Write unique records, with few keys if the topic is compacted."""
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 100})
    for number in range(count):
        key = f"k{chance.randrange(keys)}" if keys else None
        producer.produce(topic, f"{topic}-{seed}-{number}", key, chance.randrange(partitions))
        if number % 1000 == 999:
            producer.flush(60)
    producer.flush(60)


def until(reached: object, what: str) -> None:
    """Wait for an effect that brokers cause by themselves."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if reached():  # type: ignore[operator]
            return
        time.sleep(0.1)
    raise AssertionError(what)
