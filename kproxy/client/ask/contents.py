"""Questions about the contents of a cluster: brokers, topics, groups, the leader of the quorum.

All are read-only, and none makes a broker create a topic. The API versions are those of Kafka 0.10.1 to 4.x; older
versions return less. Text in the answers is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.client.ask.channel import MAX_RESPONSE_SIZE
from kproxy.client.ask.question import Question, ask_for
from kproxy.client.ask.questions import Versions
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import response_reader, text, text_or_none
from kproxy.protocol.wire.primitives import Underflow

_TEXTS: Mapping[int, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "missing, or not visible",
    ErrorCode.LEADER_NOT_AVAILABLE: "no leader",
    ErrorCode.REPLICA_NOT_AVAILABLE: "a replica is not available",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is loading",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "there is no coordinator",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "not a valid topic name",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not allowed to see",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not allowed to see",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not allowed to see",
    ErrorCode.LISTENER_NOT_FOUND: "the leader does not have this listener",
}

# AclOperation, by its number.
OPERATIONS = {3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: "Alter", 8: "Describe", 10: "DescribeConfigs"}
_NOT_REQUESTED = -(2**31)
_QUORUM = b"__cluster_metadata"


def error_text(code: int) -> str:
    """Return a short text for one of Kafka's error codes."""
    return _TEXTS.get(code, f"error {code}")


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker, as another broker lists it."""

    id: int
    advertised: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition.

    `leader` is -1 if there is none; `offline` has the replicas on brokers or disks that have failed.
    """

    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: int

    @property
    def is_leaderless(self) -> bool:
        """True if the partition has no leader: clients can neither read nor write it."""
        return self.leader < 0

    @property
    def is_under_replicated(self) -> bool:
        """True if replicas lag behind or have failed."""
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic with its partitions in order.

    `error` is one of Kafka's error codes. `allowed` has the operations that this user may perform; None if kproxy did
    not ask, or if the broker does not return them.
    """

    name: str
    internal: bool
    partitions: tuple[Partition, ...]
    error: int
    allowed: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """The brokers and topics of a cluster, in order.

    `controller_id` is the broker that takes requests for the controller, -1 if unknown; with KRaft it is any broker.
    """

    cluster_id: str | None
    controller_id: int
    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One group, as its coordinator lists it.

    Older brokers do not return the state (before Kafka 2.6) and the kind (before 3.8).
    """

    id: str
    protocol_type: str
    state: str | None
    kind: str | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """The groups of one coordinator, or the error code."""

    error: int
    groups: tuple[Group, ...]


def can_ask_for_one_topic(versions: Versions) -> bool:
    """Return whether kproxy may ask for topics by name; an older broker would create the topics that do not exist."""
    return 4 in versions.get(ApiKey.METADATA, ())


def contents_question(
    versions: Versions, names: Sequence[str] | None = None, *, operations: bool = False
) -> Question[ClusterContents]:
    """Return the question for the brokers and the topics.

    Without `names` it asks for all topics that the user may see. With `operations` it also asks for what the user may
    do with them, where brokers return that (Kafka 2.3 and later).
    """
    served = versions.get(ApiKey.METADATA, range(0))
    version = next((v for v in ((8, 5, 4, 2) if operations else (5, 4, 2)) if v in served), 1)
    topics = None if names is None else [{"Name": name} for name in names]
    fields = {"Topics": topics, "IncludeTopicAuthorizedOperations": True}
    return ask_for(ApiKey.METADATA, version, fields, _read_metadata, MAX_RESPONSE_SIZE)


def _read_metadata(fields: dict[str, Any]) -> ClusterContents:
    """Return the contents in a Metadata response, v1 to v13."""
    brokers = [
        Broker(
            broker["NodeId"],
            Address(broker["Host"].decode("utf-8", "replace"), broker["Port"]),
            text_or_none(broker["Rack"]),
        )
        for broker in fields["Brokers"]
    ]
    topics = [
        Topic(
            text(topic["Name"]),
            topic["IsInternal"],
            tuple(sorted(map(_partition, topic["Partitions"]), key=lambda partition: partition.index)),
            topic["ErrorCode"],
            read_operations(topic.get("TopicAuthorizedOperations", _NOT_REQUESTED)),
        )
        for topic in fields["Topics"]
    ]
    return ClusterContents(
        text_or_none(fields.get("ClusterId")) or None,
        fields["ControllerId"],
        tuple(sorted(brokers, key=lambda broker: broker.id)),
        tuple(sorted(topics, key=lambda topic: topic.name)),
    )


def _partition(fields: dict[str, Any]) -> Partition:
    return Partition(
        fields["PartitionIndex"],
        fields["LeaderId"],
        fields["ReplicaNodes"],
        fields["IsrNodes"],
        fields.get("OfflineReplicas", ()),
        fields["ErrorCode"],
    )


def parse_metadata(version: int, body: bytes) -> ClusterContents | None:
    """Decode a Metadata response that a client was sent, from behind its correlation id on.

    Return None if the response cannot be read, for example one of a later version.
    """
    if not 1 <= version <= 13:
        return None
    try:
        return _read_metadata(response_reader(ApiKey.METADATA, version).read(body))
    except (Underflow, WireError):
        return None


def read_operations(bits: int) -> frozenset[str] | None:
    """Decode a bit field with one bit for each operation (KIP-430)."""
    if bits == _NOT_REQUESTED:
        return None
    return frozenset(name for bit, name in OPERATIONS.items() if bits >> bit & 1)


def groups_question(versions: Versions) -> Question[GroupListing] | None:
    """Return the question for the groups that the broker coordinates; None if the broker does not support it."""
    served = versions.get(ApiKey.LIST_GROUPS, range(0))
    version = next((v for v in (5, 4, 0) if v in served), None)
    if version is None:
        return None
    return ask_for(ApiKey.LIST_GROUPS, version, {}, _read_groups, MAX_RESPONSE_SIZE)  # of all states and types


def _read_groups(fields: dict[str, Any]) -> GroupListing:
    groups = [
        Group(
            text(group["GroupId"]),
            text(group["ProtocolType"]),
            text_or_none(group.get("GroupState")),
            text_or_none(group.get("GroupType")),
        )
        for group in fields["Groups"]
    ]
    return GroupListing(fields["ErrorCode"], tuple(sorted(groups, key=lambda group: group.id)))


def quorum_leader_question(versions: Versions) -> Question[int | None] | None:
    """Return the question for the id of the controller that leads, None if the user may not see it.

    Return no question where brokers have no quorum (ZooKeeper).
    """
    if 0 not in versions.get(ApiKey.DESCRIBE_QUORUM, ()):
        return None
    topic = {"TopicName": _QUORUM, "Partitions": [{"PartitionIndex": 0}]}
    return ask_for(ApiKey.DESCRIBE_QUORUM, 0, {"Topics": [topic]}, _read_quorum_leader, MAX_RESPONSE_SIZE)


def _read_quorum_leader(fields: dict[str, Any]) -> int | None:
    """Return the leader in a DescribeQuorum response with one topic and one partition."""
    for topic in fields["Topics"] if fields["ErrorCode"] == ErrorCode.NONE else ():
        for partition in topic["Partitions"]:
            is_known = partition["ErrorCode"] == ErrorCode.NONE and partition["LeaderId"] >= 0
            return partition["LeaderId"] if is_known else None
    return None
