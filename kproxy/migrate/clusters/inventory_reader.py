"""Asks a cluster what is in it. What one may not see, or what its brokers are too old for, is named and left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.clusters.inventory import Acl, BrokerInventory, GroupInventory, Inventory, InventoryGap, QuotaEntity
from kproxy.migrate.clusters.permissions import (
    BROKER,
    PermissionAwareQueries,
    authorized_operations,
    chunks,
    raise_for_code,
)
from kproxy.migrate.clusters.topic_reader import TopicReader, end_offsets

# Configurations of brokers that matter for a copy.
_BROKER_CONFIGS = (
    "auto.create.topics.enable",
    "authorizer.class.name",
    "default.replication.factor",
    "message.max.bytes",
    "offsets.retention.minutes",
    "producer.id.expiration.ms",
    "transaction.max.timeout.ms",
    "transactional.id.expiration.ms",
)
_LOGGED_PRODUCER_IDS = "the producer ids in the log"
_SECURITY_DISABLED = 54
_PROBE_TOPIC = "kproxy-migration-defaults"  # a topic that is never created


def read_inventory(admin: Admin, wants: Callable[[str], bool] = lambda _: True, sample: float = 0.0) -> Inventory:
    """The inventory of one cluster. `wants`: the topics to look into. `sample`: for how many seconds rates are
    measured, 0 for none. Raises UpstreamError if the cluster does not answer."""
    return _InventoryReader(admin, wants).read(sample)


def read_logged_producer_ids(
    admin: Admin, wants: Callable[[str], bool]
) -> tuple[dict[tuple[str, int], frozenset[int]] | None, tuple[InventoryGap, ...]]:
    """By topic and partition, the producer ids in the log; None if they cannot be seen, and why. Raises
    UpstreamError if the cluster does not answer."""
    seeing = PermissionAwareQueries(admin)
    topics = TopicReader(seeing, sorted(admin.nodes()), wants)
    topics.list_topics()
    found = seeing.try_query(_LOGGED_PRODUCER_IDS, topics.read_producer_ids, "Read", "the topics")
    return found, tuple(one for one in seeing.gaps if one.subject == _LOGGED_PRODUCER_IDS)


class _InventoryReader(PermissionAwareQueries):
    def __init__(self, admin: Admin, wants: Callable[[str], bool]) -> None:
        super().__init__(admin)
        self.nodes = sorted(admin.nodes())
        self.topics = TopicReader(self, self.nodes, wants)
        self.has_authorizer: bool | None = None

    def read(self, sample: float) -> Inventory:
        topics = self.topics.read_topics()
        brokers = tuple(self._brokers())
        began, ends = time.monotonic(), {name: end_offsets(topic) for name, topic in topics.items()}
        acls = self.try_query("the ACLs", self._acls, "Describe", "the cluster")
        created = self.try_query("the defaults of new topics", self._new_topic_defaults, "Create", "the cluster")
        inventory = Inventory(
            cluster_id=self.admin.cluster_id(),
            version=self.admin.version,
            brokers=brokers,
            topics=topics,
            groups=self.try_query("the groups", self._groups, "Describe", "the cluster") or {},
            acls=acls,
            quotas=self.try_query("the quotas", self._quotas, "DescribeConfigs", "the cluster"),
            users=self.try_query("the SCRAM users", self._users, "Describe", "the cluster"),
            operations=self._operations(),
            defaults=None if created is None else created[0],
            replication=None if created is None else created[1],
            producer_id=self.try_query(
                _LOGGED_PRODUCER_IDS, self.topics.read_highest_producer_id, "Read", "the topics"
            ),
            has_authorizer=self.has_authorizer,
        )
        if sample > 0:
            time.sleep(max(0.0, began + sample - time.monotonic()))
            inventory = replace(inventory, topics=self.topics.measure_rates(topics, ends, began))
        return replace(inventory, gaps=tuple(dict.fromkeys(self.gaps)))

    def _brokers(self) -> Iterator[BrokerInventory]:
        for node in self.nodes:
            try:
                configs = self.read_configs(BROKER, [str(node)], node).get(str(node), {})
            except UpstreamError as error:
                configs = {}
                self.gaps.append(InventoryGap(f"the configuration of broker {node}", str(error)))
            yield BrokerInventory(node, {key: value for key, (value, _) in configs.items() if key in _BROKER_CONFIGS})

    def _groups(self) -> dict[str, GroupInventory]:
        from kafka.protocol.admin import ListGroupsRequest

        groups: dict[str, GroupInventory] = {}
        for node in self.nodes:
            answer = self.admin.ask(ListGroupsRequest(), node)
            raise_for_code(answer.error_code)
            without_state = []
            for one in answer.groups:
                kind = (getattr(one, "group_type", "") or "classic").lower()
                state = getattr(one, "group_state", "") or ""
                groups[one.group_id] = GroupInventory(str(one.group_id), kind, str(state), str(one.protocol_type or ""))
                if not state:
                    without_state.append(one.group_id)
            for some in chunks(without_state):
                groups |= self._describe_groups(some, node, groups)
        return dict(sorted(groups.items()))

    def _describe_groups(
        self, names: Sequence[str], node: int, listed: Mapping[str, GroupInventory]
    ) -> dict[str, GroupInventory]:
        from kafka.protocol.admin import DescribeGroupsRequest

        answer = self.admin.ask(DescribeGroupsRequest(groups=list(names)), node)
        return {one.group_id: replace(listed[one.group_id], state=str(one.group_state)) for one in answer.groups}

    def _acls(self) -> tuple[Acl, ...]:
        from kafka.protocol.admin import DescribeAclsRequest

        any_, with_any_name = 1, None
        answer = self.admin.ask(
            DescribeAclsRequest(
                resource_type_filter=any_,
                resource_name_filter=with_any_name,
                pattern_type_filter=any_,
                principal_filter=None,
                host_filter=None,
                operation=any_,
                permission_type=any_,
            )
        )
        self.has_authorizer = answer.error_code != _SECURITY_DISABLED
        if not self.has_authorizer:
            return ()
        raise_for_code(answer.error_code)
        return tuple(
            sorted(
                Acl(
                    int(found.resource_type),
                    str(found.resource_name),
                    int(getattr(found, "pattern_type", 3) or 3),
                    str(one.principal),
                    str(one.host),
                    int(one.operation),
                    int(one.permission_type),
                )
                for found in answer.resources
                for one in found.acls
            )
        )

    def _quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        from kafka.protocol.admin import DescribeClientQuotasRequest

        answer = self.admin.ask(DescribeClientQuotasRequest(components=[], strict=False))
        raise_for_code(answer.error_code)
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
        raise_for_code(answer.error_code)
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
        except UnsupportedRequestError:
            request = MetadataRequest(topics=[], include_cluster_authorized_operations=True, max_version=10)
            answer = self.admin.ask(request)
        return authorized_operations(answer)

    def _new_topic_defaults(self) -> tuple[dict[str, str], int | None]:
        """What a new topic would have, configurations and replicas: asked by creating one that is only validated. The
        configuration of a broker may say something else: the controller decides, and may be another process."""
        from kafka.protocol.admin import CreateTopicsRequest as Request

        topic = Request.CreatableTopic(
            name=_PROBE_TOPIC, num_partitions=1, replication_factor=-1, assignments=[], configs=[]
        )
        answer = self.admin.ask(Request(topics=[topic], timeout_ms=20_000, validate_only=True, min_version=5))
        (one,) = answer.topics
        raise_for_code(one.error_code or one.topic_config_error_code)
        configs = {str(config.name): str(config.value) for config in one.configs or () if config.value is not None}
        return configs, one.replication_factor if one.replication_factor > 0 else None
