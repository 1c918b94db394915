"""API keys and versions: those that kproxy lets a client use.

`newest` is the newest version of an API that kproxy was checked against. ApiVersions responses are capped to it,
because a later version may carry addresses in new fields (Produce v10 did: KIP-951). `flexible` is the first version
with compact types and tagged fields (KIP-482): from there on requests have header v2 and responses header v1, except
ApiVersions responses (always header v0).

Facts: Kafka 4.3.1's own message definitions; API keys 4 to 7 those of Kafka 3.9. The oracle tests compare this table
with Kafka's classes.
"""

from __future__ import annotations

from dataclasses import dataclass

NEVER = 0x7FFF


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its key, its name, the versions kproxy passes on, the first flexible version."""

    key: int
    name: str
    newest: int
    flexible: int
    oldest: int = 0

    def serves(self, version: int) -> bool:
        """Return whether kproxy passes on requests of this version."""
        return self.oldest <= version <= self.newest


PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, LIST_GROUPS = 0, 1, 2, 3, 10, 16
SASL_HANDSHAKE, API_VERSIONS, DESCRIBE_CONFIGS, SASL_AUTHENTICATE, DESCRIBE_CLUSTER = 17, 18, 32, 36, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE, DESCRIBE_QUORUM = 78, 79, 55
INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT = 22, 26, 28

# Left out: APIs that only brokers and controllers use, with addresses in their responses that
# no client connects to: LeaderAndIsr (4), StopReplica (5), UpdateMetadata (6) and ControlledShutdown (7)
# of the ZooKeeper age, UpdateRaftVoter (82). Vote, BeginQuorumEpoch, EndQuorumEpoch and FetchSnapshot
# end at version 0 here, which has no addresses yet (KIP-853 added them in version 1).
APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(0, "Produce", 13, 9),
        Api(1, "Fetch", 18, 12),
        Api(2, "ListOffsets", 11, 6),
        Api(3, "Metadata", 13, 9),
        Api(8, "OffsetCommit", 10, 8),
        Api(9, "OffsetFetch", 10, 6),
        Api(10, "FindCoordinator", 6, 3),
        Api(11, "JoinGroup", 9, 6),
        Api(12, "Heartbeat", 4, 4),
        Api(13, "LeaveGroup", 5, 4),
        Api(14, "SyncGroup", 5, 4),
        Api(15, "DescribeGroups", 6, 5),
        Api(16, "ListGroups", 5, 3),
        Api(17, "SaslHandshake", 1, NEVER),
        Api(18, "ApiVersions", 4, 3),
        Api(19, "CreateTopics", 7, 5),
        Api(20, "DeleteTopics", 6, 4),
        Api(21, "DeleteRecords", 2, 2),
        Api(22, "InitProducerId", 6, 2),
        Api(23, "OffsetForLeaderEpoch", 4, 4),
        Api(24, "AddPartitionsToTxn", 5, 3),
        Api(25, "AddOffsetsToTxn", 4, 3),
        Api(26, "EndTxn", 5, 3),
        Api(27, "WriteTxnMarkers", 2, 1),
        Api(28, "TxnOffsetCommit", 5, 3),
        Api(29, "DescribeAcls", 3, 2),
        Api(30, "CreateAcls", 3, 2),
        Api(31, "DeleteAcls", 3, 2),
        Api(32, "DescribeConfigs", 4, 4),
        Api(33, "AlterConfigs", 2, 2),
        Api(34, "AlterReplicaLogDirs", 2, 2),
        Api(35, "DescribeLogDirs", 5, 2),
        Api(36, "SaslAuthenticate", 2, 2),
        Api(37, "CreatePartitions", 3, 2),
        Api(38, "CreateDelegationToken", 3, 2),
        Api(39, "RenewDelegationToken", 2, 2),
        Api(40, "ExpireDelegationToken", 2, 2),
        Api(41, "DescribeDelegationToken", 3, 2),
        Api(42, "DeleteGroups", 2, 2),
        Api(43, "ElectLeaders", 2, 2),
        Api(44, "IncrementalAlterConfigs", 1, 1),
        Api(45, "AlterPartitionReassignments", 1, 0),
        Api(46, "ListPartitionReassignments", 0, 0),
        Api(47, "OffsetDelete", 0, NEVER),
        Api(48, "DescribeClientQuotas", 1, 1),
        Api(49, "AlterClientQuotas", 1, 1),
        Api(50, "DescribeUserScramCredentials", 0, 0),
        Api(51, "AlterUserScramCredentials", 0, 0),
        Api(52, "Vote", 0, 0),
        Api(53, "BeginQuorumEpoch", 0, 1),
        Api(54, "EndQuorumEpoch", 0, 1),
        Api(55, "DescribeQuorum", 2, 0),
        Api(56, "AlterPartition", 3, 0),
        Api(57, "UpdateFeatures", 2, 0),
        Api(58, "Envelope", 0, 0),
        Api(59, "FetchSnapshot", 0, 0),
        Api(60, "DescribeCluster", 2, 0),
        Api(61, "DescribeProducers", 0, 0),
        Api(62, "BrokerRegistration", 4, 0),
        Api(63, "BrokerHeartbeat", 2, 0),
        Api(64, "UnregisterBroker", 0, 0),
        Api(65, "DescribeTransactions", 0, 0),
        Api(66, "ListTransactions", 2, 0),
        Api(67, "AllocateProducerIds", 0, 0),
        Api(68, "ConsumerGroupHeartbeat", 1, 0),
        Api(69, "ConsumerGroupDescribe", 1, 0),
        Api(70, "ControllerRegistration", 0, 0),
        Api(71, "GetTelemetrySubscriptions", 0, 0),
        Api(72, "PushTelemetry", 0, 0),
        Api(73, "AssignReplicasToDirs", 0, 0),
        Api(74, "ListConfigResources", 1, 0),
        Api(75, "DescribeTopicPartitions", 0, 0),
        Api(76, "ShareGroupHeartbeat", 1, 0),
        Api(77, "ShareGroupDescribe", 1, 0),
        # Version 0 was early access (Kafka 4.0) with another layout; no released client needs it.
        Api(78, "ShareFetch", 2, 0, oldest=1),
        Api(79, "ShareAcknowledge", 2, 0, oldest=1),
        Api(80, "AddRaftVoter", 1, 0),
        Api(81, "RemoveRaftVoter", 0, 0),
        Api(83, "InitializeShareGroupState", 0, 0),
        Api(84, "ReadShareGroupState", 0, 0),
        Api(85, "WriteShareGroupState", 1, 0),
        Api(86, "DeleteShareGroupState", 0, 0),
        Api(87, "ReadShareGroupStateSummary", 1, 0),
        Api(88, "StreamsGroupHeartbeat", 0, 0),
        Api(89, "StreamsGroupDescribe", 0, 0),
        Api(90, "DescribeShareGroupOffsets", 1, 0),
        Api(91, "AlterShareGroupOffsets", 0, 0),
        Api(92, "DeleteShareGroupOffsets", 0, 0),
    )
}
