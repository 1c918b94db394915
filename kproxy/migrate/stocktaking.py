"""Asks a cluster what is in it. What one may not see, or what its brokers are too old for, is named and left out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from kproxy.errors import UpstreamError
from kproxy.migrate.administration import Admin, NotThereError, error_name
from kproxy.migrate.inventory import (
    MATTER,
    OPERATIONS,
    Acl,
    Broker,
    Entity,
    Group,
    Inventory,
    Partition,
    Topic,
    Unseen,
)

T = TypeVar("T")

# Topics, partitions or groups in one request.
_CHUNK = 500
# Configurations of brokers that matter for a copy.
_OF_BROKERS = (
    "auto.create.topics.enable",
    "authorizer.class.name",
    "default.replication.factor",
    "message.max.bytes",
    "offsets.retention.minutes",
    "producer.id.expiration.ms",
    "transaction.max.timeout.ms",
    "transactional.id.expiration.ms",
)
_NOT_ALLOWED = {29, 30, 31, 53}  # of a topic, a group, the cluster, a transactional id
_SECURITY_DISABLED = 54
_CREATED_BY_NOBODY = "kproxy-migration-defaults"  # a topic that is never created
_EARLIEST, _LATEST = -2, -1
_TOPIC, _BROKER = 2, 4  # resources whose configurations can be asked
_OF_TOPIC = 1  # where a configuration comes from
_NOT_SAID = 31  # the sign of the bit field: a broker that does not say it


def take(admin: Admin, wants: Callable[[str], bool] = lambda _: True, sample: float = 0.0) -> Inventory:
    """The inventory of one cluster. `wants`: the topics to look into. `sample`: for how many seconds rates are
    measured, 0 for none. Raises UpstreamError if the cluster does not answer."""
    return _Stocktaking(admin, wants).take(sample)


class _Stocktaking:
    def __init__(self, admin: Admin, wants: Callable[[str], bool]) -> None:
        self.admin = admin
        self.wants = wants
        self.unseen: list[Unseen] = []
        self.nodes = sorted(admin.nodes())
        self.leaders: dict[tuple[str, int], int] = {}
        self.authorizes: bool | None = None

    def take(self, sample: float) -> Inventory:
        topics = self._topics()
        brokers = tuple(self._brokers())
        began, ends = time.monotonic(), {name: _ends(topic) for name, topic in topics.items()}
        acls = self._seen("the ACLs", self._acls, "Describe", "the cluster")
        inventory = Inventory(
            cluster_id=self.admin.cluster_id(),
            version=self.admin.version,
            brokers=brokers,
            topics=topics,
            groups=self._seen("the groups", self._groups, "Describe", "the cluster") or {},
            acls=acls,
            quotas=self._seen("the quotas", self._quotas, "DescribeConfigs", "the cluster"),
            users=self._seen("the SCRAM users", self._users, "Describe", "the cluster"),
            operations=self._operations(),
            defaults=self._seen("the defaults of new topics", self._defaults, "Create", "the cluster"),
            producer_id=self._seen("the producer ids in the log", self._producer_id, "Read", "the topics"),
            authorizes=self.authorizes,
        )
        if sample > 0:
            time.sleep(max(0.0, began + sample - time.monotonic()))
            inventory = replace(inventory, topics=self._rated(topics, ends, began))
        return replace(inventory, unseen=tuple(dict.fromkeys(self.unseen)))

    def _seen(self, what: str, ask: Callable[[], T], operation: str, resource: str) -> T | None:
        try:
            return ask()
        except _NotAllowedError:
            self.unseen.append(Unseen(what, f"not allowed: {operation} on {resource}", operation, resource))
        except NotThereError as error:
            self.unseen.append(Unseen(what, f"these brokers have no {error}"))
        except UpstreamError as error:
            self.unseen.append(Unseen(what, str(error)))
        return None

    # Topics

    def _topics(self) -> dict[str, Topic]:
        from kafka.protocol.metadata import MetadataRequest

        answer = self.admin.ask(MetadataRequest(topics=None, include_topic_authorized_operations=True))
        topics: dict[str, Topic] = {}
        for found in answer.topics:
            if found.error_code or not self.wants(found.name):
                if found.error_code:
                    why = error_name(found.error_code)
                    self.unseen.append(Unseen(f"topic {found.name}", why))
                continue
            for one in found.partitions:
                if one.leader_id >= 0:
                    self.leaders[found.name, one.partition_index] = one.leader_id
            partitions = sorted(found.partitions, key=lambda one: int(one.partition_index))
            topics[found.name] = Topic(
                found.name,
                tuple(Partition(None, None, None, len(one.replica_nodes)) for one in partitions),
                operations=_operations(found),
            )
        begins, ends, sizes = self._offsets(_EARLIEST), self._offsets(_LATEST), self._sizes()
        configs = self._configs(_TOPIC, topics)
        return {
            name: replace(
                topic,
                partitions=tuple(
                    replace(one, begin=begins.get((name, n)), end=ends.get((name, n)), size=sizes.get((name, n)))
                    for n, one in enumerate(topic.partitions)
                ),
                configs={key: value for key, (value, of_topic) in configs.get(name, {}).items() if of_topic},
                effective={key: value for key, (value, _) in configs.get(name, {}).items() if key in MATTER},
            )
            for name, topic in sorted(topics.items())
        }

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
            answer = self.admin.ask(Request(replica_id=-1, isolation_level=0, topics=topics), node)
            for topic in answer.topics:
                for one in topic.partitions:
                    if not one.error_code:
                        found[topic.name, one.partition_index] = int(one.offset)
        return found

    def _by_leader(self) -> Iterator[tuple[int, dict[str, list[int]]]]:
        """Partitions by who leads them, in requests that are not too large."""
        of_leader: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for (name, number), node in sorted(self.leaders.items()):
            of_leader[node].append((name, number))
        for node, everything in of_leader.items():
            for some in _chunks(everything):
                topics: dict[str, list[int]] = defaultdict(list)
                for name, number in some:
                    topics[name].append(number)
                yield node, topics

    def _sizes(self) -> dict[tuple[str, int], int]:
        return self._seen("the sizes of partitions", self._log_directories, "Describe", "the cluster") or {}

    def _log_directories(self) -> dict[tuple[str, int], int]:
        from kafka.protocol.admin import DescribeLogDirsRequest

        sizes: dict[tuple[str, int], int] = {}
        for node in self.nodes:
            answer = self.admin.ask(DescribeLogDirsRequest(topics=None), node)
            _allowed(getattr(answer, "error_code", 0))
            if not answer.results:  # before Kafka 2.6, that is how brokers refuse
                raise _NotAllowedError
            for directory in answer.results:
                for topic in directory.topics or ():
                    for one in topic.partitions:
                        place = (str(topic.name), int(one.partition_index))
                        if not one.is_future_key and self.leaders.get(place) == node:
                            sizes[place] = int(one.partition_size)
        return sizes

    def _rated(
        self, topics: Mapping[str, Topic], before: Mapping[str, Sequence[int]], began: float
    ) -> dict[str, Topic]:
        ends = self._offsets(_LATEST)
        seconds = time.monotonic() - began
        return {
            name: replace(
                topic,
                rate=sum(max(0, ends.get((name, n), end) - end) for n, end in enumerate(before[name])) / seconds,
            )
            for name, topic in topics.items()
        }

    def _configs(
        self, kind: int, names: Iterable[str], node: int | None = None
    ) -> dict[str, dict[str, tuple[str, bool]]]:
        """By name: each configuration, and whether it was set for the topic itself."""
        from kafka.protocol.admin import DescribeConfigsRequest as Request

        found: dict[str, dict[str, tuple[str, bool]]] = {}
        for some in _chunks(list(names)):
            asked = [
                Request.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for name in some
            ]
            for result in self.admin.ask(Request(resources=asked), node).results:
                name = str(result.resource_name)
                if result.error_code:
                    what = f"topic {name}" if kind == _TOPIC else f"broker {name}"
                    self._not_seen(f"the configuration of {what}", result.error_code, "DescribeConfigs", what)
                    continue
                found[name] = {
                    str(one.name): (str(one.value), _set_for_topic(one))
                    for one in result.configs
                    if one.value is not None and not one.is_sensitive
                }
        return found

    def _not_seen(self, what: str, code: int, operation: str, resource: str) -> None:
        if code in _NOT_ALLOWED:
            resource = "the cluster" if code == 31 else resource
            self.unseen.append(Unseen(what, f"not allowed: {operation} on {resource}", operation, resource))
        else:
            self.unseen.append(Unseen(what, error_name(code)))

    def _producer_id(self) -> int:
        from kafka.protocol.admin import DescribeProducersRequest as Request

        highest, refused = -1, False
        for node, partitions in self._by_leader():
            topics = [Request.TopicRequest(name=name, partition_indexes=some) for name, some in partitions.items()]
            for topic in self.admin.ask(Request(topics=topics), node).topics:
                for one in topic.partitions:
                    refused |= one.error_code in _NOT_ALLOWED
                    highest = max([highest, *(int(producer.producer_id) for producer in one.active_producers)])
        if refused:
            raise _NotAllowedError
        return highest

    # The rest of the cluster

    def _brokers(self) -> Iterator[Broker]:
        for node in self.nodes:
            try:
                configs = self._configs(_BROKER, [str(node)], node).get(str(node), {})
            except UpstreamError as error:
                configs = {}
                self.unseen.append(Unseen(f"the configuration of broker {node}", str(error)))
            yield Broker(node, {key: value for key, (value, _) in configs.items() if key in _OF_BROKERS})

    def _groups(self) -> dict[str, Group]:
        from kafka.protocol.admin import ListGroupsRequest

        groups: dict[str, Group] = {}
        for node in self.nodes:
            answer = self.admin.ask(ListGroupsRequest(), node)
            _allowed(answer.error_code)
            without_state = []
            for one in answer.groups:
                kind = (getattr(one, "group_type", "") or "classic").lower()
                state = getattr(one, "group_state", "") or ""
                groups[one.group_id] = Group(str(one.group_id), kind, str(state), str(one.protocol_type or ""))
                if not state:
                    without_state.append(one.group_id)
            for some in _chunks(without_state):
                groups |= self._described(some, node, groups)
        return dict(sorted(groups.items()))

    def _described(self, names: Sequence[str], node: int, listed: Mapping[str, Group]) -> dict[str, Group]:
        from kafka.protocol.admin import DescribeGroupsRequest

        answer = self.admin.ask(DescribeGroupsRequest(groups=list(names)), node)
        return {one.group_id: replace(listed[one.group_id], state=str(one.group_state)) for one in answer.groups}

    def _acls(self) -> tuple[Acl, ...]:
        from kafka.protocol.admin import DescribeAclsRequest

        any_, with_any_name = 1, None
        answer = self.admin.ask(
            DescribeAclsRequest(
                resource_type_filter=any_, resource_name_filter=with_any_name, pattern_type_filter=any_,
                principal_filter=None, host_filter=None, operation=any_, permission_type=any_,
            )
        )  # fmt: skip
        self.authorizes = answer.error_code != _SECURITY_DISABLED
        if not self.authorizes:
            return ()
        _allowed(answer.error_code)
        return tuple(
            sorted(
                Acl(
                    int(found.resource_type), str(found.resource_name), int(getattr(found, "pattern_type", 3) or 3),
                    str(one.principal), str(one.host), int(one.operation), int(one.permission_type),
                )
                for found in answer.resources
                for one in found.acls
            )
        )  # fmt: skip

    def _quotas(self) -> dict[Entity, dict[str, float]]:
        from kafka.protocol.admin import DescribeClientQuotasRequest

        answer = self.admin.ask(DescribeClientQuotasRequest(components=[], strict=False))
        _allowed(answer.error_code)
        return {
            tuple(sorted((str(part.entity_type), part.entity_name) for part in entry.entity)): {
                str(one.key): float(one.value) for one in entry.values
            }
            for entry in answer.entries or ()
        }

    def _users(self) -> dict[str, tuple[tuple[str, int], ...]]:
        mechanisms = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
        from kafka.protocol.admin import DescribeUserScramCredentialsRequest

        # Not null, which means the same: to that, brokers (4.3.1) never answer one who is not allowed it.
        answer = self.admin.ask(DescribeUserScramCredentialsRequest(users=[]))
        _allowed(answer.error_code)
        return {
            str(one.user): tuple(
                (mechanisms.get(int(info.mechanism), "unknown"), int(info.iterations)) for info in one.credential_infos
            )
            for one in sorted(answer.results, key=lambda one: str(one.user))
        }

    def _operations(self) -> frozenset[str] | None:
        """What one may do with the cluster."""
        from kafka.protocol.admin import DescribeClusterRequest
        from kafka.protocol.metadata import MetadataRequest

        try:
            answer = self.admin.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
        except NotThereError:
            request = MetadataRequest(topics=[], include_cluster_authorized_operations=True, max_version=10)
            answer = self.admin.ask(request)
        return _operations(answer)

    def _defaults(self) -> dict[str, str]:
        """What a new topic would have: asked by creating one that is only validated."""
        from kafka.protocol.admin import CreateTopicsRequest as Request

        topic = Request.CreatableTopic(
            name=_CREATED_BY_NOBODY, num_partitions=1, replication_factor=-1, assignments=[], configs=[]
        )
        answer = self.admin.ask(Request(topics=[topic], timeout_ms=20_000, validate_only=True, min_version=5))
        (one,) = answer.topics
        _allowed(one.error_code or one.topic_config_error_code)
        return {str(config.name): str(config.value) for config in one.configs or () if config.value is not None}


class _NotAllowedError(Exception):
    """The principal of this connection may not see it."""


def _allowed(code: int) -> None:
    if code in _NOT_ALLOWED:
        raise _NotAllowedError
    if code:
        raise UpstreamError("other", error_name(code))


def _set_for_topic(one: Any) -> bool:
    source = getattr(one, "config_source", -1)
    # Version 0 says only whether it is a default; what brokers have set is none there.
    return bool(source == _OF_TOPIC if source not in (None, -1) else not getattr(one, "is_default", True))


def _operations(answer: Any) -> frozenset[str] | None:
    """What one may do with it (KIP-430)."""
    numbers = getattr(answer, "authorized_operations", None)
    if numbers is None or _NOT_SAID in numbers:
        return None
    return frozenset(name for number, name in OPERATIONS.items() if number in numbers)


def _ends(topic: Topic) -> list[int]:
    return [one.end or 0 for one in topic.partitions]


def _chunks(items: Sequence[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while some := list(islice(iterator, _CHUNK)):
        yield some
