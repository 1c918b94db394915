"""Questions about the contents of a cluster: brokers, topics, groups, the leader of the quorum.

All are read-only, and none makes a broker create a topic. The API versions are those of Kafka 0.10.1 to 4.x; older
versions return less. Text in the answers is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from struct import pack

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.client.ask.questions import NONE, Question, Versions
from kproxy.protocol.wire import api
from kproxy.protocol.wire.primitives import INT32, Underflow, string, uvarint
from kproxy.protocol.wire.reader import ResponseReader

# Kafka's error codes.
UNKNOWN_TOPIC, TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED = 3, 29, 30, 31
ERRORS: Mapping[int, str] = {
    UNKNOWN_TOPIC: "missing, or not visible",
    5: "no leader",
    9: "a replica is not available",
    14: "the coordinator is loading",
    15: "there is no coordinator",
    17: "not a valid topic name",
    TOPIC_REFUSED: "not allowed to see",
    GROUP_REFUSED: "not allowed to see",
    CLUSTER_REFUSED: "not allowed to see",
    72: "the leader does not have this listener",
}

# AclOperation, by its number.
OPERATIONS = {3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: "Alter", 8: "Describe", 10: "DescribeConfigs"}
_NOT_REQUESTED = -(2**31)
_QUORUM = b"__cluster_metadata"


def error_text(code: int) -> str:
    """Return a short text for one of Kafka's error codes."""
    return ERRORS.get(code, f"error {code}")


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
    return 4 in versions.get(api.METADATA, ())


def contents_question(
    versions: Versions, names: Sequence[str] | None = None, *, operations: bool = False
) -> Question[ClusterContents]:
    """Return the question for the brokers and the topics.

    Without `names` it asks for all topics that the user may see. With `operations` it also asks for what the user may
    do with them, where brokers return that (Kafka 2.3 and later).
    """
    served = versions.get(api.METADATA, range(0))
    version = next((v for v in ((8, 5, 4, 2) if operations else (5, 4, 2)) if v in served), 1)
    if names is None:
        topics = INT32.pack(-1)
    else:
        topics = INT32.pack(len(names)) + b"".join(string(name.encode(), compact=False) for name in names)
    body = topics + (pack(">?", False) if version >= 4 else b"")  # allow_auto_topic_creation
    body += pack(">??", False, True) if version >= 8 else b""  # include_{cluster,topic}_authorized_operations
    return Question(api.METADATA, version, body, partial(_read_metadata, version))


def _read_metadata(version: int, body: bytes) -> ClusterContents:
    """Decode a Metadata response, v1 to v13.

    Layout: throttle time (v3), brokers[node id, host, port, rack], cluster id (v2), controller id, topics[error, name,
    id (v10), is internal, partitions[error, index, leader, epoch (v7), replicas, in-sync, offline (v5)], operations
    (v8)]. From v9 on it is compact, with tags.
    """
    reader = ResponseReader(body, compact=version >= 9)
    reader.tags()  # the header's
    if version >= 3:
        reader.int32()

    def broker() -> Broker:
        node_id, host, port, rack = reader.int32(), reader.raw(), reader.int32(), reader.text_or_none()
        reader.tags()
        return Broker(node_id, Address(host.decode("utf-8", "replace"), port), rack)

    def partition() -> Partition:
        error, index, leader = reader.int16(), reader.int32(), reader.int32()
        if version >= 7:
            reader.int32()
        replicas, isr = reader.int32s(), reader.int32s()
        offline = reader.int32s() if version >= 5 else ()
        reader.tags()
        return Partition(index, leader, replicas, isr, offline, error)

    def topic() -> Topic:
        error, name = reader.int16(), reader.text()
        if version >= 10:
            reader.int64(), reader.int64()
        internal = reader.boolean()
        partitions = sorted(reader.array(partition), key=lambda partition: partition.index)
        operations = _read_operations(reader.int32()) if version >= 8 else None
        reader.tags()
        return Topic(name, internal, tuple(partitions), error, operations)

    brokers = sorted(reader.array(broker), key=lambda broker: broker.id)
    cluster_id = reader.text_or_none() if version >= 2 else None
    controller = reader.int32()
    topics = sorted(reader.array(topic), key=lambda topic: topic.name)
    return ClusterContents(cluster_id or None, controller, tuple(brokers), tuple(topics))


def parse_metadata(version: int, body: bytes) -> ClusterContents | None:
    """Decode a Metadata response that a client was sent, from behind its correlation id on.

    Return None if the response cannot be read, for example one of a later version.
    """
    if not 1 <= version <= 13:
        return None
    try:
        return _read_metadata(version, body)
    except (Underflow, WireError):
        return None


def _read_operations(bits: int) -> frozenset[str] | None:
    """Decode a bit field with one bit for each operation (KIP-430)."""
    if bits == _NOT_REQUESTED:
        return None
    return frozenset(name for bit, name in OPERATIONS.items() if bits >> bit & 1)


def groups_question(versions: Versions) -> Question[GroupListing] | None:
    """Return the question for the groups that the broker coordinates; None if the broker does not support it."""
    served = versions.get(api.LIST_GROUPS, range(0))
    version = next((v for v in (5, 4, 0) if v in served), None)
    if version is None:
        return None
    # v4: states, tags; v5: types too. Empty ones mean all.
    body = b"" if version == 0 else uvarint(1) * (version - 3) + b"\0"
    return Question(api.LIST_GROUPS, version, body, partial(_read_groups, version))


def _read_groups(version: int, body: bytes) -> GroupListing:
    """Decode a ListGroups response.

    Layout of v0: error, groups[id, protocol type]; v4 (with tags): throttle time, error, groups[…, state]; v5:
    groups[…, kind].
    """
    reader = ResponseReader(body, compact=version >= 4)
    reader.tags()
    if version >= 1:
        reader.int32()
    error = reader.int16()

    def group() -> Group:
        name, protocol = reader.text(), reader.text()
        state = reader.text() if version >= 4 else None
        kind = reader.text() if version >= 5 else None
        reader.tags()
        return Group(name, protocol, state, kind)

    groups = reader.array(group)
    reader.tags()
    return GroupListing(error, tuple(sorted(groups, key=lambda group: group.id)))


def quorum_leader_question(versions: Versions) -> Question[int | None] | None:
    """Return the question for the id of the controller that leads, None if the user may not see it.

    Return no question where brokers have no quorum (ZooKeeper).
    """
    if 0 not in versions.get(api.DESCRIBE_QUORUM, ()):
        return None
    # v0: topics[name, partitions[index, tags], tags], tags
    topic = string(_QUORUM, compact=True) + uvarint(2) + INT32.pack(0) + b"\0" + b"\0"
    return Question(api.DESCRIBE_QUORUM, 0, uvarint(2) + topic + b"\0", _read_quorum_leader)


def _read_quorum_leader(body: bytes) -> int | None:
    """Decode a DescribeQuorum response with one topic and one partition.

    Layout of v0: tags, error, topics[name, partitions[index, error, leader, …]].
    """
    reader = ResponseReader(body, compact=True)
    reader.tags()
    if reader.int16() != NONE or not reader.count():
        return None
    reader.raw()
    if not reader.count():
        return None
    reader.int32()
    error, leader = reader.int16(), reader.int32()
    return leader if error == NONE and leader >= 0 else None
