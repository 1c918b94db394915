"""Reads the topics of a cluster: partitions, offsets, sizes, rates, configurations, producer ids.

The principal may not be allowed to make a query: each refusal is recorded, and its result left out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.clusters.inventory import (
    RELEVANT_CONFIGS,
    InventoryGap,
    PartitionInventory,
    TopicInventory,
)
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.protocol.wire.acls import OPERATIONS
from kproxy.protocol.wire.errorcodes import ErrorCode, error_name

T = TypeVar("T")

_EARLIEST, _LATEST = -2, -1
_READ_COMMITTED = 1  # with it, a log ends at its last stable offset
# Resources whose configurations can be asked.
TOPIC, BROKER = 2, 4
# Topics, partitions or groups in one request.
_CHUNK = 500
NOT_ALLOWED = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)  # fmt: skip
_DYNAMIC_TOPIC_CONFIG = 1  # where a configuration comes from
_OPERATIONS_OMITTED = 31  # the sign bit of the bit field: the response omits the operations


class PermissionAwareQueries:
    """Queries of one cluster; `gaps` collects what the principal may not read and what the brokers do not support."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.gaps: list[InventoryGap] = []

    def try_query(self, subject: str, ask: Callable[[], T], operation: str, resource: str) -> T | None:
        """Return the result of `ask`; record a gap and return None if it fails."""
        try:
            return ask()
        except NotAllowedError:
            self.gaps.append(InventoryGap(subject, f"not allowed: {operation} on {resource}", operation, resource))
        except UnsupportedRequestError as error:
            self.gaps.append(InventoryGap(subject, f"these brokers do not support {error}"))
        except UpstreamError as error:
            self.gaps.append(InventoryGap(subject, str(error)))
        return None

    def read_configs(
        self, kind: int, names: Iterable[str], node: int | None = None, keys: list[str] | None = None
    ) -> dict[str, dict[str, tuple[str, bool]]]:
        """Return the configurations of each resource, with True for a value that was set for the topic itself.

        `keys`: the configurations to read; None for all.
        """
        from kafka.protocol.admin import DescribeConfigsRequest as Request

        configs: dict[str, dict[str, tuple[str, bool]]] = {}
        for batch in chunks(list(names)):
            resources = [Request.DescribeConfigsResource(kind, name, keys) for name in batch]
            for result in self.admin.ask(Request(resources=resources), node).results:
                name = str(result.resource_name)
                if result.error_code:
                    resource = f"topic {name}" if kind == TOPIC else f"broker {name}"
                    self._add_gap(f"the configuration of {resource}", result.error_code, "DescribeConfigs", resource)
                    continue
                configs[name] = {
                    str(config.name): (str(config.value), _is_set_for_topic(config))
                    for config in result.configs
                    if config.value is not None and not config.is_sensitive
                }
        return configs

    def _add_gap(self, subject: str, code: int, operation: str, resource: str) -> None:
        if code in NOT_ALLOWED:
            resource = "the cluster" if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else resource
            self.gaps.append(InventoryGap(subject, f"not allowed: {operation} on {resource}", operation, resource))
        else:
            self.gaps.append(InventoryGap(subject, error_name(code)))


class NotAllowedError(UpstreamError):
    """A query that the principal of this connection may not make."""

    def __init__(self, text: str) -> None:
        super().__init__("other", text)


def raise_for_code(code: int) -> None:
    if code in NOT_ALLOWED:
        raise NotAllowedError(error_name(code))
    if code:
        raise UpstreamError("other", error_name(code))


def _is_set_for_topic(config: Any) -> bool:
    source = getattr(config, "config_source", -1)
    # Version 0 says only whether it is a default; what brokers have set is none there.
    return bool(
        source == _DYNAMIC_TOPIC_CONFIG if source not in (None, -1) else not getattr(config, "is_default", True)
    )


def authorized_operations(answer: Any) -> frozenset[str] | None:
    """Return the operations that the principal may perform (KIP-430); None if the response does not contain them."""
    numbers = getattr(answer, "authorized_operations", None)
    if numbers is None or _OPERATIONS_OMITTED in numbers:
        return None
    return frozenset(name for number, name in OPERATIONS.items() if number in numbers)


def chunks(items: Sequence[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer as the leader of a partition knows it, by its last batch there."""

    id: int
    epoch: int
    sequence: int
    """The sequence number of its last record; -1 after a marker of a transaction."""
    last: int
    """The timestamp of its last batch in milliseconds since 1970. The producer chooses it."""
    transaction_start: int = -1
    """The first offset of its open transaction; -1 if it has none."""


class TopicReader:
    """Reads the selected topics."""

    def __init__(
        self, queries: PermissionAwareQueries, nodes: Sequence[int], is_selected: Callable[[str], bool]
    ) -> None:
        self._queries = queries
        self._nodes = nodes
        self._wants = is_selected
        self._leaders: dict[TopicPartition, int] = {}

    def read_topics(self) -> dict[str, TopicInventory]:
        topics = self.list_topics()
        begins, ends = self._offsets(_EARLIEST), self._offsets(_LATEST)
        sizes = (
            self._queries.try_query("the sizes of partitions", self._log_directories, "Describe", "the cluster") or {}
        )
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

    def keep_partitions_with_open_transactions(self) -> None:
        """Let all other methods leave out partitions in whose logs no transaction is open."""
        stable = self._offsets(_LATEST, _READ_COMMITTED)
        ends = self._offsets(_LATEST)
        self._leaders = {
            partition: leader
            for partition, leader in self._leaders.items()
            if stable.get(partition, -1) < ends.get(partition, -1)
        }

    def _offsets(self, when: int, isolation_level: int = 0) -> dict[TopicPartition, int]:
        from kafka.protocol.consumer import ListOffsetsRequest as Request

        offsets: dict[TopicPartition, int] = {}
        for node, partitions in self._by_leader():
            partition_type = Request.ListOffsetsTopic.ListOffsetsPartition
            topics = [
                Request.ListOffsetsTopic(name, [partition_type(partition_index=n, timestamp=when) for n in numbers])
                for name, numbers in partitions.items()
            ]
            request = Request(replica_id=-1, isolation_level=isolation_level, topics=topics)
            answer = self._queries.admin.ask(request, node)
            for topic in answer.topics:
                for partition in topic.partitions:
                    if not partition.error_code:
                        offsets[topic.name, partition.partition_index] = int(partition.offset)
        return offsets

    def _by_leader(self) -> Iterator[tuple[int, dict[str, list[int]]]]:
        """Yield partitions by their leader, in requests of limited size."""
        of_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for (name, number), node in sorted(self._leaders.items()):
            of_leader[node].append((name, number))
        for node, partitions in of_leader.items():
            for batch in chunks(partitions):
                topics: dict[str, list[int]] = defaultdict(list)
                for name, number in batch:
                    topics[name].append(number)
                yield node, topics

    def _log_directories(self) -> dict[TopicPartition, int]:
        from kafka.protocol.admin import DescribeLogDirsRequest

        sizes: dict[TopicPartition, int] = {}
        for node in self._nodes:
            answer = self._queries.admin.ask(DescribeLogDirsRequest(topics=None), node)
            raise_for_code(getattr(answer, "error_code", 0))
            if not answer.results:  # before Kafka 2.6, that is how brokers refuse
                raise NotAllowedError("the broker returned no directories")
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

    def read_producer_ids(self) -> dict[TopicPartition, frozenset[int]]:
        """Return the producer ids that each partition's leader knows; partitions without any are left out.

        Raises as `read_producers`.
        """
        return {
            partition: frozenset(producer.id for producer in producers)
            for partition, producers in self.read_producers().items()
        }

    def read_producers(self) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the producers that each partition's leader knows; partitions without any are left out.

        Raises NotAllowedError and UnsupportedRequestError.
        """
        from kafka.protocol.admin import DescribeProducersRequest as Request

        producers: dict[TopicPartition, tuple[ActiveProducer, ...]] = {}
        refused = False
        for node, partitions in self._by_leader():
            topics = [Request.TopicRequest(*item) for item in partitions.items()]
            for topic in self._queries.admin.ask(Request(topics=topics), node).topics:
                for partition in topic.partitions:
                    refused |= partition.error_code in NOT_ALLOWED
                    if partition.active_producers:
                        producers[str(topic.name), int(partition.partition_index)] = tuple(
                            ActiveProducer(
                                int(producer.producer_id),
                                int(producer.producer_epoch),
                                int(producer.last_sequence),
                                int(producer.last_timestamp),
                                int(producer.current_txn_start_offset),
                            )
                            for producer in partition.active_producers
                        )
        if refused:
            raise NotAllowedError("the brokers did not return the producers of some partitions")
        return producers


def end_offsets(topic: TopicInventory) -> list[int]:
    return [partition.end or 0 for partition in topic.partitions]
