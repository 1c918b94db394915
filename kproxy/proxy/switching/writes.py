"""The requests that are writes: while kproxy holds the writes of a cluster, all others pass. Pure.

A write is a request whose effect must not be in both clusters, nor in the cluster that the clients leave: it would be
lost, or done twice. So each API that is not a mere read is a write.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_RECORDS = "it writes records"
_POSITIONS = "it changes the position of a group, which is copied once no write is under way"
_TRANSACTION = "it begins, changes or ends a transaction"
_CONTENTS = "it changes topics, or what they contain"
_RIGHTS = "it changes access rights"
_SETTINGS = "it changes settings"
_CLUSTER = "it changes the cluster itself"

WRITES: Mapping[int, str] = MappingProxyType(
    {
        0: _RECORDS,  # Produce
        8: _POSITIONS,  # OffsetCommit
        19: _CONTENTS,  # CreateTopics
        20: _CONTENTS,  # DeleteTopics
        21: _CONTENTS,  # DeleteRecords
        22: _TRANSACTION,  # InitProducerId: it aborts the transaction that is open
        24: _TRANSACTION,  # AddPartitionsToTxn
        25: _TRANSACTION,  # AddOffsetsToTxn
        26: _TRANSACTION,  # EndTxn
        27: _TRANSACTION,  # WriteTxnMarkers
        28: _TRANSACTION,  # TxnOffsetCommit
        30: _RIGHTS,  # CreateAcls
        31: _RIGHTS,  # DeleteAcls
        33: _SETTINGS,  # AlterConfigs
        34: _CLUSTER,  # AlterReplicaLogDirs
        37: _CONTENTS,  # CreatePartitions
        38: _RIGHTS,  # CreateDelegationToken
        39: _RIGHTS,  # RenewDelegationToken
        40: _RIGHTS,  # ExpireDelegationToken
        42: _POSITIONS,  # DeleteGroups
        43: _CLUSTER,  # ElectLeaders
        44: _SETTINGS,  # IncrementalAlterConfigs
        45: _CLUSTER,  # AlterPartitionReassignments
        47: _POSITIONS,  # OffsetDelete
        49: _SETTINGS,  # AlterClientQuotas
        51: _RIGHTS,  # AlterUserScramCredentials
        52: _CLUSTER,  # Vote
        53: _CLUSTER,  # BeginQuorumEpoch
        54: _CLUSTER,  # EndQuorumEpoch
        56: _CLUSTER,  # AlterPartition
        57: _CLUSTER,  # UpdateFeatures
        58: _CLUSTER,  # Envelope: another request, on behalf of a client
        62: _CLUSTER,  # BrokerRegistration
        63: _CLUSTER,  # BrokerHeartbeat
        64: _CLUSTER,  # UnregisterBroker
        67: _CLUSTER,  # AllocateProducerIds
        70: _CLUSTER,  # ControllerRegistration
        73: _CLUSTER,  # AssignReplicasToDirs
        78: _POSITIONS,  # ShareFetch: it may carry acknowledgements (KIP-932)
        79: _POSITIONS,  # ShareAcknowledge
        80: _CLUSTER,  # AddRaftVoter
        81: _CLUSTER,  # RemoveRaftVoter
        83: _POSITIONS,  # InitializeShareGroupState
        85: _POSITIONS,  # WriteShareGroupState
        86: _POSITIONS,  # DeleteShareGroupState
        91: _POSITIONS,  # AlterShareGroupOffsets
        92: _POSITIONS,  # DeleteShareGroupOffsets
    }
)
"""API key → why it is a write."""

READS = frozenset(
    {
        1,  # Fetch
        2,  # ListOffsets
        3,  # Metadata. It may create a topic, which the copy then lacks; the verification of the copy reports that
        9,  # OffsetFetch
        10,  # FindCoordinator
        # The membership of a group, which no other cluster has: the members join again there, and meanwhile must not
        # be taken for dead.
        11, 12, 13, 14,  # JoinGroup, Heartbeat, LeaveGroup, SyncGroup
        68, 76, 88,  # ConsumerGroupHeartbeat, ShareGroupHeartbeat, StreamsGroupHeartbeat
        15, 16, 69, 77, 89,  # DescribeGroups, ListGroups, {Consumer,Share,Streams}GroupDescribe
        17, 18, 36,  # SaslHandshake, ApiVersions, SaslAuthenticate
        23,  # OffsetForLeaderEpoch
        29, 32, 35, 41, 46, 48, 50, 55, 60, 61, 65, 66, 74, 75, 90,  # Describe…, List…
        59,  # FetchSnapshot
        71, 72,  # GetTelemetrySubscriptions, PushTelemetry: what a client measures of itself
        84, 87,  # ReadShareGroupState, ReadShareGroupStateSummary
    }
)  # fmt: skip
"""API keys of all others. Each API is in one of the two; a test compares them with `wire.api`."""

HARMFUL_IF_REPEATED = frozenset({0, 21, 33, 44})
"""Writes that do harm if a client that got no response repeats them in the other cluster: records exist twice,
DeleteRecords names an offset of the former cluster, and a setting may be appended to. The other cluster refuses all
other repeated writes, or they change nothing."""
