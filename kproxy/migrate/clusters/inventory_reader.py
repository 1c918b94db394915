"""Reads the inventory of a cluster. What the principal may not read, or the brokers do not support, becomes a gap."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.clusters.groups import list_groups
from kproxy.migrate.clusters.inventory import Acl, BrokerInventory, GroupInventory, Inventory, InventoryGap, QuotaEntity
from kproxy.migrate.clusters.topic_reader import (
    BROKER,
    PermissionAwareQueries,
    TopicReader,
    authorized_operations,
    chunks,
    end_offsets,
    raise_for_code,
)
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.protocol.wire.errorcodes import ErrorCode

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
_PROBE_TOPIC = "kproxy-migration-defaults"  # a topic that is never created


def read_inventory(admin: Admin, is_selected: Callable[[str], bool] = lambda _: True, sample: float = 0.0) -> Inventory:
    """Return the inventory of one cluster.

    `is_selected` chooses the topics that are read in detail. `sample` is the number of seconds over which rates are
    measured, 0 for none. Raises UpstreamError if the cluster does not reply.
    """
    return _InventoryReader(admin, is_selected).read(sample)


def read_access(admin: Admin, is_selected: Callable[[str], bool]) -> Inventory:
    """Return the part of an inventory that says who may do what: topics without details, ACLs and quotas.

    Raises UpstreamError if the cluster does not reply.
    """
    return _InventoryReader(admin, is_selected).read_access()


def read_logged_producer_ids(
    admin: Admin, is_selected: Callable[[str], bool]
) -> tuple[dict[TopicPartition, frozenset[int]] | None, tuple[InventoryGap, ...]]:
    """Return the producer ids in the log of each partition; None if they cannot be read, with the reasons.

    Raises UpstreamError if the cluster does not reply.
    """
    queries = PermissionAwareQueries(admin)
    reader = TopicReader(queries, sorted(admin.nodes()), is_selected)
    reader.list_topics()
    ids = queries.try_query(_LOGGED_PRODUCER_IDS, reader.read_producer_ids, "Read", "the topics")
    return ids, tuple(gap for gap in queries.gaps if gap.subject == _LOGGED_PRODUCER_IDS)


class _InventoryReader(PermissionAwareQueries):
    def __init__(self, admin: Admin, is_selected: Callable[[str], bool]) -> None:
        super().__init__(admin)
        self.nodes = sorted(admin.nodes())
        self.topics = TopicReader(self, self.nodes, is_selected)
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

    def read_access(self) -> Inventory:
        acls = self.try_query("the ACLs", self._acls, "Describe", "the cluster")
        return Inventory(
            cluster_id="",
            version=self.admin.version,
            brokers=(),
            topics=self.topics.list_topics(),
            acls=acls,
            quotas=self.try_query("the quotas", self._quotas, "DescribeConfigs", "the cluster"),
            has_authorizer=self.has_authorizer,
            gaps=tuple(dict.fromkeys(self.gaps)),
        )

    def _brokers(self) -> Iterator[BrokerInventory]:
        for node in self.nodes:
            try:
                configs = self.read_configs(BROKER, [str(node)], node).get(str(node), {})
            except UpstreamError as error:
                configs = {}
                self.gaps.append(InventoryGap(f"the configuration of broker {node}", str(error)))
            yield BrokerInventory(node, {key: value for key, (value, _) in configs.items() if key in _BROKER_CONFIGS})

    def _groups(self) -> dict[str, GroupInventory]:
        from kafka.protocol.admin import DescribeGroupsRequest

        groups: dict[str, GroupInventory] = {}
        without_state: defaultdict[int, list[str]] = defaultdict(list)
        for group in list_groups(self.admin):
            groups[group.name] = GroupInventory(group.name, group.kind, group.state, group.protocol)
            if not group.state:
                without_state[group.node].append(group.name)
        for node, names in without_state.items():
            for batch in chunks(names):
                for described in self.admin.ask(DescribeGroupsRequest(groups=batch), node).groups:
                    state = str(described.group_state)
                    groups[described.group_id] = replace(groups[described.group_id], state=state)
        return dict(sorted(groups.items()))

    def _acls(self) -> tuple[Acl, ...]:
        from kafka.protocol.admin import DescribeAclsRequest

        any_ = 1
        answer = self.admin.ask(
            DescribeAclsRequest(
                resource_type_filter=any_,
                pattern_type_filter=any_,
                resource_name_filter=None,
                principal_filter=None,
                host_filter=None,
                operation=any_,
                permission_type=any_,
            )
        )
        self.has_authorizer = answer.error_code != ErrorCode.SECURITY_DISABLED
        if not self.has_authorizer:
            return ()
        raise_for_code(answer.error_code)
        return tuple(
            sorted(
                Acl(
                    int(resource.resource_type),
                    str(resource.resource_name),
                    int(getattr(resource, "pattern_type", 3) or 3),
                    str(acl.principal),
                    str(acl.host),
                    int(acl.operation),
                    int(acl.permission_type),
                )
                for resource in answer.resources
                for acl in resource.acls
            )
        )

    def _quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        from kafka.protocol.admin import DescribeClientQuotasRequest

        answer = self.admin.ask(DescribeClientQuotasRequest(components=[], strict=False))
        raise_for_code(answer.error_code)
        return {
            tuple(sorted((str(part.entity_type), part.entity_name) for part in entry.entity)): {
                str(value.key): float(value.value) for value in entry.values
            }
            for entry in answer.entries or ()
        }

    def _users(self) -> dict[str, tuple[tuple[str, int], ...]]:
        mechanisms = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
        from kafka.protocol.admin import DescribeUserScramCredentialsRequest

        # Not null, which means the same: brokers (4.3.1) never reply to null if the principal is not allowed it.
        answer = self.admin.ask(DescribeUserScramCredentialsRequest(users=[]))
        raise_for_code(answer.error_code)
        return {
            str(user.user): tuple(
                (mechanisms.get(int(info.mechanism), "unknown"), int(info.iterations)) for info in user.credential_infos
            )
            for user in sorted(answer.results, key=lambda user: str(user.user))
        }

    def _operations(self) -> frozenset[str] | None:
        """Return the operations that the principal may perform on the cluster."""
        from kafka.protocol.admin import DescribeClusterRequest
        from kafka.protocol.metadata import MetadataRequest

        try:
            answer = self.admin.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
        except UnsupportedRequestError:
            request = MetadataRequest(topics=[], include_cluster_authorized_operations=True, max_version=10)
            answer = self.admin.ask(request)
        return authorized_operations(answer)

    def _new_topic_defaults(self) -> tuple[dict[str, str], int | None]:
        """Return the configurations and the number of replicas that a new topic would have.

        Asks by a creation that is only validated. The configuration of a broker can differ: the controller
        decides, and may be another process.
        """
        from kafka.protocol.admin import CreateTopicsRequest as Request

        topic = Request.CreatableTopic(_PROBE_TOPIC, num_partitions=1, replication_factor=-1)
        answer = self.admin.ask(Request(topics=[topic], timeout_ms=20_000, validate_only=True, min_version=5))
        (result,) = answer.topics
        raise_for_code(result.error_code or result.topic_config_error_code)
        configs = {str(config.name): str(config.value) for config in result.configs or () if config.value is not None}
        return configs, result.replication_factor if result.replication_factor > 0 else None
