"""API keys and versions: those that kproxy lets a client use.

`newest` is the newest version of an API that kproxy was checked against. ApiVersions responses are capped to it,
because a later version may carry addresses in new fields (Produce v10 did: KIP-951). `flexible` is the first version
with compact types and tagged fields (KIP-482): from there on requests have header v2 and responses header v1, except
ApiVersions responses (always header v0).

Facts: Kafka 4.4.0's own message definitions; API keys 4 to 7 those of Kafka 3.9. The oracle tests compare this table
with Kafka's classes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

NEVER = 0x7FFF


class ApiKey(IntEnum):
    """An API: its key, the newest version that kproxy passes on, the first flexible one, and the oldest, mostly 0."""

    newest: int
    flexible: int
    oldest: int

    def __new__(cls, key: int, newest: int, flexible: int, oldest: int = 0) -> Self:
        api = int.__new__(cls, key)
        api._value_ = key
        api.newest, api.flexible, api.oldest = newest, flexible, oldest
        return api

    @property
    def name(self) -> str:
        """The name in Kafka's message definitions, such as `FindCoordinator`."""
        return self._name_.title().replace("_", "")

    def serves(self, version: int) -> bool:
        """Return whether kproxy passes on requests of this version."""
        return self.oldest <= version <= self.newest

    def is_flexible(self, version: int) -> bool:
        """Return whether this version has compact types and tagged fields."""
        return version >= self.flexible

    # Left out: APIs that only brokers and controllers use, with addresses in their responses that
    # no client connects to: LeaderAndIsr (4), StopReplica (5), UpdateMetadata (6) and ControlledShutdown (7)
    # of the ZooKeeper age, UpdateRaftVoter (82). Vote, BeginQuorumEpoch, EndQuorumEpoch and FetchSnapshot
    # end at version 0 here, which has no addresses yet (KIP-853 added them in version 1).
    PRODUCE = 0, 13, 9
    FETCH = 1, 18, 12
    LIST_OFFSETS = 2, 11, 6
    METADATA = 3, 13, 9
    OFFSET_COMMIT = 8, 10, 8
    OFFSET_FETCH = 9, 10, 6
    FIND_COORDINATOR = 10, 6, 3
    JOIN_GROUP = 11, 9, 6
    HEARTBEAT = 12, 4, 4
    LEAVE_GROUP = 13, 5, 4
    SYNC_GROUP = 14, 5, 4
    DESCRIBE_GROUPS = 15, 6, 5
    LIST_GROUPS = 16, 5, 3
    SASL_HANDSHAKE = 17, 1, NEVER
    API_VERSIONS = 18, 5, 3
    CREATE_TOPICS = 19, 7, 5
    DELETE_TOPICS = 20, 6, 4
    DELETE_RECORDS = 21, 2, 2
    INIT_PRODUCER_ID = 22, 6, 2
    OFFSET_FOR_LEADER_EPOCH = 23, 4, 4
    ADD_PARTITIONS_TO_TXN = 24, 5, 3
    ADD_OFFSETS_TO_TXN = 25, 4, 3
    END_TXN = 26, 5, 3
    WRITE_TXN_MARKERS = 27, 2, 1
    TXN_OFFSET_COMMIT = 28, 6, 3
    DESCRIBE_ACLS = 29, 3, 2
    CREATE_ACLS = 30, 3, 2
    DELETE_ACLS = 31, 3, 2
    DESCRIBE_CONFIGS = 32, 4, 4
    ALTER_CONFIGS = 33, 2, 2
    ALTER_REPLICA_LOG_DIRS = 34, 2, 2
    DESCRIBE_LOG_DIRS = 35, 5, 2
    SASL_AUTHENTICATE = 36, 2, 2
    CREATE_PARTITIONS = 37, 3, 2
    CREATE_DELEGATION_TOKEN = 38, 3, 2
    RENEW_DELEGATION_TOKEN = 39, 2, 2
    EXPIRE_DELEGATION_TOKEN = 40, 2, 2
    DESCRIBE_DELEGATION_TOKEN = 41, 3, 2
    DELETE_GROUPS = 42, 3, 2
    ELECT_LEADERS = 43, 2, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 1, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 1, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0
    OFFSET_DELETE = 47, 0, NEVER
    DESCRIBE_CLIENT_QUOTAS = 48, 1, 1
    ALTER_CLIENT_QUOTAS = 49, 1, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, 0
    VOTE = 52, 0, 0
    BEGIN_QUORUM_EPOCH = 53, 0, 1
    END_QUORUM_EPOCH = 54, 0, 1
    DESCRIBE_QUORUM = 55, 2, 0
    ALTER_PARTITION = 56, 3, 0
    UPDATE_FEATURES = 57, 2, 0
    ENVELOPE = 58, 0, 0
    FETCH_SNAPSHOT = 59, 0, 0
    DESCRIBE_CLUSTER = 60, 2, 0
    DESCRIBE_PRODUCERS = 61, 0, 0
    BROKER_REGISTRATION = 62, 4, 0
    BROKER_HEARTBEAT = 63, 2, 0
    UNREGISTER_BROKER = 64, 0, 0
    DESCRIBE_TRANSACTIONS = 65, 0, 0
    LIST_TRANSACTIONS = 66, 2, 0
    ALLOCATE_PRODUCER_IDS = 67, 0, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 1, 0
    CONSUMER_GROUP_DESCRIBE = 69, 1, 0
    CONTROLLER_REGISTRATION = 70, 0, 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0, 0
    PUSH_TELEMETRY = 72, 0, 0
    ASSIGN_REPLICAS_TO_DIRS = 73, 0, 0
    LIST_CONFIG_RESOURCES = 74, 1, 0
    DESCRIBE_TOPIC_PARTITIONS = 75, 0, 0
    SHARE_GROUP_HEARTBEAT = 76, 1, 0
    SHARE_GROUP_DESCRIBE = 77, 1, 0
    # Version 0 was early access (Kafka 4.0) with another layout; no released client needs it.
    SHARE_FETCH = 78, 2, 0, 1
    SHARE_ACKNOWLEDGE = 79, 2, 0, 1
    ADD_RAFT_VOTER = 80, 1, 0
    REMOVE_RAFT_VOTER = 81, 0, 0
    INITIALIZE_SHARE_GROUP_STATE = 83, 0, 0
    READ_SHARE_GROUP_STATE = 84, 0, 0
    WRITE_SHARE_GROUP_STATE = 85, 1, 0
    DELETE_SHARE_GROUP_STATE = 86, 0, 0
    READ_SHARE_GROUP_STATE_SUMMARY = 87, 1, 0
    STREAMS_GROUP_HEARTBEAT = 88, 1, 0
    STREAMS_GROUP_DESCRIBE = 89, 1, 0
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 1, 0
    ALTER_SHARE_GROUP_OFFSETS = 91, 0, 0
    DELETE_SHARE_GROUP_OFFSETS = 92, 0, 0
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93, 0, 0
    UNREGISTER_CONTROLLER = 94, 0, 0


APIS: dict[int, ApiKey] = {api.value: api for api in ApiKey}
"""The APIs by their keys."""
NOT_FOR_CLIENTS = frozenset({4, 5, 6, 7, 82})
"""The keys of the APIs that the table leaves out."""
