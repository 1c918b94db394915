"""The contents of one cluster, as far as the principal may describe them (pure).

`kproxy.migrate.clusters.inventory_reader` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.protocol.wire.acls import OPERATIONS, RESOURCES

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


@dataclass(frozen=True, slots=True)
class PartitionInventory:
    """One partition."""

    begin: int | None
    """The first offset; None if the partition has no leader."""
    end: int | None
    """The offset after the last record; None if the partition has no leader."""
    size: int | None = None
    """Bytes of one replica; None if not known."""
    replicas: int = 1

    @property
    def offsets(self) -> int:
        """The number of offsets between begin and end.

        The partition has fewer records if the topic is compacted or has transactions. No broker returns the
        number of records.
        """
        return max(0, (self.end or 0) - (self.begin or 0))


@dataclass(frozen=True, slots=True)
class TopicInventory:
    """One topic."""

    name: str
    partitions: tuple[PartitionInventory, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    """The configurations that were set for this topic."""
    effective_configs: Mapping[str, str] = field(default_factory=dict)
    """The values of RELEVANT_CONFIGS, with the broker's defaults; empty if the principal may not describe them."""
    operations: frozenset[str] | None = None
    """The operations that the principal may perform; None if the broker is too old to return them."""
    rate: float | None = None
    """Offsets a second; None if it was not measured."""

    @property
    def replication(self) -> int:
        """The number of replicas of the partition that has the most."""
        return max((partition.replicas for partition in self.partitions), default=0)

    @property
    def offsets(self) -> int:
        """The number of offsets in all partitions."""
        return sum(partition.offsets for partition in self.partitions)

    @property
    def size(self) -> int | None:
        """Bytes without replicas; None if the size of a partition is not known."""
        sizes = [partition.size for partition in self.partitions]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def bytes_a_second(self) -> float | None:
        """The rate in bytes, if new offsets take as many bytes as the existing ones."""
        if self.rate is None or self.size is None or not self.offsets:
            return None
        return self.rate * self.size / self.offsets


@dataclass(frozen=True, slots=True)
class BrokerInventory:
    """One broker, with its relevant configurations (empty if the principal may not describe them)."""

    id: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupInventory:
    """One group."""

    name: str
    kind: str
    """`classic`, `consumer` (KIP-848), `share` or `streams`; `classic` if the brokers are too old to return it."""
    state: str
    protocol: str = ""
    """The protocol type of a classic group: `consumer`, `connect`, …; "" if the group has only committed offsets."""


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One ACL, with its fields in the order of Kafka's requests; the numbers are Kafka's (KIP-11, KIP-290)."""

    resource: int
    name: str
    pattern: int  # 3 literal, 4 prefixed
    principal: str
    host: str
    operation: int
    permission: int  # 2 deny, 3 allow

    def __str__(self) -> str:
        resource = RESOURCES.get(self.resource, str(self.resource))
        name = self.name if self.pattern == 3 else f"{self.name}… (prefix)"
        verb = "may not" if self.permission == 2 else "may"
        host = "" if self.host == "*" else f" from {self.host}"
        return f"{self.principal} {verb} {OPERATIONS.get(self.operation, self.operation)} {resource} {name}{host}"


QuotaEntity = tuple[tuple[str, str | None], ...]
"""The entity of a quota, sorted: ("user", "alice"), ("client-id", None for the default), …"""


@dataclass(frozen=True, slots=True)
class InventoryGap:
    """One part of an inventory that could not be read, and why; also a missing right."""

    subject: str
    reason: str
    operation: str = ""
    """The missing operation; "" if the reason is not a missing right."""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The contents of one cluster; None stands for what could not be read, and `gaps` has the reasons."""

    cluster_id: str
    version: tuple[int, ...]
    """The lowest Kafka version that the brokers can have."""
    brokers: tuple[BrokerInventory, ...]
    topics: Mapping[str, TopicInventory]
    groups: Mapping[str, GroupInventory] = field(default_factory=dict)
    acls: tuple[Acl, ...] | None = None
    quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None
    users: Mapping[str, tuple[tuple[str, int], ...]] | None = None
    operations: frozenset[str] | None = None
    """The operations that the principal may perform on the cluster."""
    defaults: Mapping[str, str] | None = None
    """The configurations that a new topic would have."""
    replication: int | None = None
    """The number of replicas that a new topic would have."""
    has_authorizer: bool | None = None
    """True if the brokers check ACLs."""
    producer_id: int | None = None
    """The highest producer id in the logs of the selected topics, -1 if there is none."""
    gaps: tuple[InventoryGap, ...] = ()
