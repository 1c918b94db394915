"""What is in one cluster, as far as one may see it (pure). `kproxy.migrate.clusters.inventory_reader` asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# The configurations of a topic that decide whether records can be copied as they are, and how long they stay.
RELEVANT_CONFIGS = (
    "cleanup.policy",
    "compression.type",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
)
# Kafka's numbers (KIP-4), by their names.
OPERATIONS = {
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
    2: "All",
    13: "CreateTokens",
    14: "DescribeTokens",
    15: "TwoPhaseCommit",
}
RESOURCES = {2: "Topic", 3: "Group", 4: "Cluster", 5: "TransactionalId", 6: "DelegationToken", 7: "User"}


@dataclass(frozen=True, slots=True)
class PartitionInventory:
    """`begin`, `end`: the first offset and the next one; None if nobody leads it. `size`: bytes of one replica."""

    begin: int | None
    end: int | None
    size: int | None = None
    replicas: int = 1

    @property
    def offsets(self) -> int:
        """From the first one to the next one. There are fewer records, if the topic is compacted or has transactions:
        no broker tells their number."""
        return max(0, (self.end or 0) - (self.begin or 0))


@dataclass(frozen=True, slots=True)
class TopicInventory:
    """`configs`: set for this topic. `effective`: of MATTER, the broker's defaults included; empty if one may not see
    them. `operations`: what one may do with it; None if the broker is too old to say. `rate`: offsets a second."""

    name: str
    partitions: tuple[PartitionInventory, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    effective_configs: Mapping[str, str] = field(default_factory=dict)
    operations: frozenset[str] | None = None
    rate: float | None = None

    @property
    def replication(self) -> int:
        """Of the partition that has the most replicas."""
        return max((one.replicas for one in self.partitions), default=0)

    @property
    def offsets(self) -> int:
        """Of all partitions."""
        return sum(one.offsets for one in self.partitions)

    @property
    def size(self) -> int | None:
        """Bytes, without replicas; None if it is not known of all partitions."""
        sizes = [one.size for one in self.partitions]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def bytes_a_second(self) -> float | None:
        """Written to it, if an offset takes as much as those that are there."""
        if self.rate is None or self.size is None or not self.offsets:
            return None
        return self.rate * self.size / self.offsets


@dataclass(frozen=True, slots=True)
class BrokerInventory:
    """`configs`: those of it that matter here; empty if one may not see them."""

    id: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupInventory:
    """`kind`: classic, consumer (KIP-848), share, streams; as old brokers do not say it, classic. `protocol`: of a
    classic group: consumer, connect, … ("" if it has only positions)."""

    name: str
    kind: str
    state: str
    protocol: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One rule. The numbers are Kafka's (KIP-11, KIP-290)."""

    resource: int
    name: str
    pattern: int  # 3 literal, 4 prefixed
    principal: str
    host: str
    operation: int
    permission: int  # 2 deny, 3 allow

    def __str__(self) -> str:
        what = RESOURCES.get(self.resource, str(self.resource))
        name = self.name if self.pattern == 3 else f"{self.name}… (prefix)"
        verb = "may not" if self.permission == 2 else "may"
        host = "" if self.host == "*" else f" from {self.host}"
        return f"{self.principal} {verb} {OPERATIONS.get(self.operation, self.operation)} {what} {name}{host}"


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Of a quota: ("user", "alice"), ("client-id", None for the default), …; in order."""


@dataclass(frozen=True, slots=True)
class InventoryGap:
    """What could not be asked: `what` of the cluster, and `why`. `operation` and `resource`: the right that is missing,
    "" if it is not that."""

    subject: str
    reason: str
    operation: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Of one cluster. None stands for what could not be seen; `unseen` says why.

    `version`: of the brokers, the least that it can be. `operations`: what one may do with the cluster. `defaults`: the
    configurations that a new topic would have; `replication`: how many replicas. `authorizes`: whether brokers have an
    authorizer. `producer_id`: the highest one in the log of the topics that are wanted.
    """

    cluster_id: str
    version: tuple[int, ...]
    brokers: tuple[BrokerInventory, ...]
    topics: Mapping[str, TopicInventory]
    groups: Mapping[str, GroupInventory] = field(default_factory=dict)
    acls: tuple[Acl, ...] | None = None
    quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None
    users: Mapping[str, tuple[tuple[str, int], ...]] | None = None
    operations: frozenset[str] | None = None
    defaults: Mapping[str, str] | None = None
    replication: int | None = None
    has_authorizer: bool | None = None
    producer_id: int | None = None
    gaps: tuple[InventoryGap, ...] = ()
