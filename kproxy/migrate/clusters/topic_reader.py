"""The topics of a cluster: partitions, offsets, sizes, rates, configurations, producer ids."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from kproxy.migrate.clusters.administration import error_name
from kproxy.migrate.clusters.inventory import RELEVANT_CONFIGS, InventoryGap, PartitionInventory, TopicInventory
from kproxy.migrate.clusters.permissions import (
    NOT_ALLOWED,
    TOPIC,
    NotAllowedError,
    PermissionAwareQueries,
    authorized_operations,
    chunks,
    raise_for_code,
)

_EARLIEST, _LATEST = -2, -1


class TopicReader:
    """Those that are wanted."""

    def __init__(self, seeing: PermissionAwareQueries, nodes: Sequence[int], wants: Callable[[str], bool]) -> None:
        self._queries = seeing
        self._nodes = nodes
        self._wants = wants
        self._leaders: dict[tuple[str, int], int] = {}

    def read_topics(self) -> dict[str, TopicInventory]:
        topics = self.list_topics()
        begins, ends, sizes = self._offsets(_EARLIEST), self._offsets(_LATEST), self._sizes()
        configs = self._queries.read_configs(TOPIC, topics)
        return {
            name: replace(
                topic,
                partitions=tuple(
                    replace(one, begin=begins.get((name, n)), end=ends.get((name, n)), size=sizes.get((name, n)))
                    for n, one in enumerate(topic.partitions)
                ),
                configs={key: value for key, (value, of_topic) in configs.get(name, {}).items() if of_topic},
                effective_configs={
                    key: value for key, (value, _) in configs.get(name, {}).items() if key in RELEVANT_CONFIGS
                },
            )
            for name, topic in sorted(topics.items())
        }

    def list_topics(self) -> dict[str, TopicInventory]:
        """With nothing but their partitions and what one may do with them."""
        from kafka.protocol.metadata import MetadataRequest

        answer = self._queries.admin.ask(MetadataRequest(topics=None, include_topic_authorized_operations=True))
        topics: dict[str, TopicInventory] = {}
        for found in answer.topics:
            if found.error_code or not self._wants(found.name):
                if found.error_code:
                    why = error_name(found.error_code)
                    self._queries.gaps.append(InventoryGap(f"topic {found.name}", why))
                continue
            for one in found.partitions:
                if one.leader_id >= 0:
                    self._leaders[found.name, one.partition_index] = one.leader_id
            partitions = sorted(found.partitions, key=lambda one: int(one.partition_index))
            topics[found.name] = TopicInventory(
                found.name,
                tuple(PartitionInventory(None, None, None, len(one.replica_nodes)) for one in partitions),
                operations=authorized_operations(found),
            )
        return topics

    def _offsets(self, when: int) -> dict[tuple[str, int], int]:
        from kafka.protocol.consumer import ListOffsetsRequest as Request

        found: dict[tuple[str, int], int] = {}
        for node, partitions in self._by_leader():
            topics = [
                Request.ListOffsetsTopic(
                    name=name,
                    partitions=[
                        Request.ListOffsetsTopic.ListOffsetsPartition(partition_index=n, timestamp=when)
                        for n in numbers
                    ],
                )
                for name, numbers in partitions.items()
            ]
            answer = self._queries.admin.ask(Request(replica_id=-1, isolation_level=0, topics=topics), node)
            for topic in answer.topics:
                for one in topic.partitions:
                    if not one.error_code:
                        found[topic.name, one.partition_index] = int(one.offset)
        return found

    def _by_leader(self) -> Iterator[tuple[int, dict[str, list[int]]]]:
        """Partitions by who leads them, in requests that are not too large."""
        of_leader: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for (name, number), node in sorted(self._leaders.items()):
            of_leader[node].append((name, number))
        for node, everything in of_leader.items():
            for some in chunks(everything):
                topics: dict[str, list[int]] = defaultdict(list)
                for name, number in some:
                    topics[name].append(number)
                yield node, topics

    def _sizes(self) -> dict[tuple[str, int], int]:
        return (
            self._queries.try_query("the sizes of partitions", self._log_directories, "Describe", "the cluster") or {}
        )

    def _log_directories(self) -> dict[tuple[str, int], int]:
        from kafka.protocol.admin import DescribeLogDirsRequest

        sizes: dict[tuple[str, int], int] = {}
        for node in self._nodes:
            answer = self._queries.admin.ask(DescribeLogDirsRequest(topics=None), node)
            raise_for_code(getattr(answer, "error_code", 0))
            if not answer.results:  # before Kafka 2.6, that is how brokers refuse
                raise NotAllowedError
            for directory in answer.results:
                for topic in directory.topics or ():
                    for one in topic.partitions:
                        place = (str(topic.name), int(one.partition_index))
                        if not one.is_future_key and self._leaders.get(place) == node:
                            sizes[place] = int(one.partition_size)
        return sizes

    def measure_rates(
        self, topics: Mapping[str, TopicInventory], before: Mapping[str, Sequence[int]], began: float
    ) -> dict[str, TopicInventory]:
        ends = self._offsets(_LATEST)
        seconds = time.monotonic() - began
        return {
            name: replace(
                topic,
                rate=sum(max(0, ends.get((name, n), end) - end) for n, end in enumerate(before[name])) / seconds,
            )
            for name, topic in topics.items()
        }

    def read_highest_producer_id(self) -> int:
        """The highest in the log, -1 if there is none."""
        return max((max(ids) for ids in self.read_producer_ids().values()), default=-1)

    def read_producer_ids(self) -> dict[tuple[str, int], frozenset[int]]:
        """Those that a partition's leader knows, of each partition that has some. Raises NotAllowedError and
        NotThereError."""
        from kafka.protocol.admin import DescribeProducersRequest as Request

        found: dict[tuple[str, int], frozenset[int]] = {}
        refused = False
        for node, partitions in self._by_leader():
            topics = [Request.TopicRequest(name=name, partition_indexes=some) for name, some in partitions.items()]
            for topic in self._queries.admin.ask(Request(topics=topics), node).topics:
                for one in topic.partitions:
                    refused |= one.error_code in NOT_ALLOWED
                    if one.active_producers:
                        ids = frozenset(int(producer.producer_id) for producer in one.active_producers)
                        found[str(topic.name), int(one.partition_index)] = ids
        if refused:
            raise NotAllowedError
        return found


def end_offsets(topic: TopicInventory) -> list[int]:
    return [one.end or 0 for one in topic.partitions]
