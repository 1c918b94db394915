"""Reads the topics of a cluster: partitions, offsets, sizes, rates, configurations, producer ids."""

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
    """Reads the selected topics."""

    def __init__(
        self, queries: PermissionAwareQueries, nodes: Sequence[int], is_selected: Callable[[str], bool]
    ) -> None:
        self._queries = queries
        self._nodes = nodes
        self._wants = is_selected
        self._leaders: dict[tuple[str, int], int] = {}

    def read_topics(self) -> dict[str, TopicInventory]:
        topics = self.list_topics()
        begins, ends, sizes = self._offsets(_EARLIEST), self._offsets(_LATEST), self._sizes()
        configs = self._queries.read_configs(TOPIC, topics)
        return {
            name: replace(
                topic,
                partitions=tuple(
                    replace(partition, begin=begins.get((name, n)), end=ends.get((name, n)), size=sizes.get((name, n)))
                    for n, partition in enumerate(topic.partitions)
                ),
                configs={key: value for key, (value, of_topic) in configs.get(name, {}).items() if of_topic},
                effective_configs={
                    key: value for key, (value, _) in configs.get(name, {}).items() if key in RELEVANT_CONFIGS
                },
            )
            for name, topic in sorted(topics.items())
        }

    def list_topics(self) -> dict[str, TopicInventory]:
        """Return the topics with only their partitions and the operations that the principal may perform."""
        from kafka.protocol.metadata import MetadataRequest

        answer = self._queries.admin.ask(MetadataRequest(topics=None, include_topic_authorized_operations=True))
        topics: dict[str, TopicInventory] = {}
        for topic in answer.topics:
            if topic.error_code or not self._wants(topic.name):
                if topic.error_code:
                    why = error_name(topic.error_code)
                    self._queries.gaps.append(InventoryGap(f"topic {topic.name}", why))
                continue
            for partition in topic.partitions:
                if partition.leader_id >= 0:
                    self._leaders[topic.name, partition.partition_index] = partition.leader_id
            partitions = sorted(topic.partitions, key=lambda partition: int(partition.partition_index))
            topics[topic.name] = TopicInventory(
                topic.name,
                tuple(PartitionInventory(None, None, None, len(partition.replica_nodes)) for partition in partitions),
                operations=authorized_operations(topic),
            )
        return topics

    def _offsets(self, when: int) -> dict[tuple[str, int], int]:
        from kafka.protocol.consumer import ListOffsetsRequest as Request

        offsets: dict[tuple[str, int], int] = {}
        for node, partitions in self._by_leader():
            partition_type = Request.ListOffsetsTopic.ListOffsetsPartition
            topics = [
                Request.ListOffsetsTopic(name, [partition_type(partition_index=n, timestamp=when) for n in numbers])
                for name, numbers in partitions.items()
            ]
            answer = self._queries.admin.ask(Request(replica_id=-1, isolation_level=0, topics=topics), node)
            for topic in answer.topics:
                for partition in topic.partitions:
                    if not partition.error_code:
                        offsets[topic.name, partition.partition_index] = int(partition.offset)
        return offsets

    def _by_leader(self) -> Iterator[tuple[int, dict[str, list[int]]]]:
        """Yield partitions by their leader, in requests of limited size."""
        of_leader: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for (name, number), node in sorted(self._leaders.items()):
            of_leader[node].append((name, number))
        for node, partitions in of_leader.items():
            for batch in chunks(partitions):
                topics: dict[str, list[int]] = defaultdict(list)
                for name, number in batch:
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
                    for partition in topic.partitions:
                        partition_id = (str(topic.name), int(partition.partition_index))
                        if not partition.is_future_key and self._leaders.get(partition_id) == node:
                            sizes[partition_id] = int(partition.partition_size)
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
        """Return the highest producer id in the logs, -1 if there is none."""
        return max((max(ids) for ids in self.read_producer_ids().values()), default=-1)

    def read_producer_ids(self) -> dict[tuple[str, int], frozenset[int]]:
        """Return the producer ids that each partition's leader knows; partitions without any are left out.

        Raises NotAllowedError and UnsupportedRequestError.
        """
        from kafka.protocol.admin import DescribeProducersRequest as Request

        producer_ids: dict[tuple[str, int], frozenset[int]] = {}
        refused = False
        for node, partitions in self._by_leader():
            topics = [Request.TopicRequest(*item) for item in partitions.items()]
            for topic in self._queries.admin.ask(Request(topics=topics), node).topics:
                for partition in topic.partitions:
                    refused |= partition.error_code in NOT_ALLOWED
                    if partition.active_producers:
                        ids = frozenset(int(producer.producer_id) for producer in partition.active_producers)
                        producer_ids[str(topic.name), int(partition.partition_index)] = ids
        if refused:
            raise NotAllowedError
        return producer_ids


def end_offsets(topic: TopicInventory) -> list[int]:
    return [partition.end or 0 for partition in topic.partitions]
