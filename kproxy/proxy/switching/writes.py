"""The requests that are writes: while kproxy holds the writes of a cluster, all others pass. Pure.

A write is a request whose effect must not be in both clusters, nor in the cluster that the clients leave: it would be
lost, or done twice. So each API that is not a mere read is a write.
"""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.protocol.wire.api import ApiKey

WRITES: Mapping[int, str] = {
    key: reason
    for reason, keys in (
        ("it writes records", (
            ApiKey.PRODUCE,
        )),
        ("it changes the position of a group, which is copied once no write is under way", (
            ApiKey.OFFSET_COMMIT, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE, ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE, ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE, ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS
        )),
        ("it changes topics, or what they contain", (
            ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS
        )),
        ("it begins, changes or ends a transaction", (
            ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.END_TXN, ApiKey.WRITE_TXN_MARKERS, ApiKey.TXN_OFFSET_COMMIT
        )),
        ("it changes access rights", (
            ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS
        )),
        ("it changes settings", (
            ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CLIENT_QUOTAS
        )),
        ("it changes the cluster itself", (
            ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.ALTER_PARTITION,
            ApiKey.UPDATE_FEATURES, ApiKey.ENVELOPE, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT,
            ApiKey.UNREGISTER_BROKER, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER,
            ApiKey.UNREGISTER_CONTROLLER
        )),
    )
    for key in keys
}  # fmt: skip
"""API key → why it is a write. ShareFetch may carry acknowledgements (KIP-932), InitProducerId aborts an open
transaction, and Envelope is another request on behalf of a client."""

HARMFUL_IF_REPEATED = frozenset(
    {ApiKey.PRODUCE, ApiKey.DELETE_RECORDS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}
)
"""Writes that do harm if a client that got no response repeats them in the other cluster: records exist twice,
DeleteRecords names an offset of the former cluster, and a setting may be appended to. The other cluster refuses all
other repeated writes, or they change nothing."""
