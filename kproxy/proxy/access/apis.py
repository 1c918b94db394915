"""The table of all APIs: whether each changes something, and how kproxy refuses it.

An API that is not here is refused. The oracle tests compare the table with Kafka's own list of APIs, and the answers
with those of Kafka's own request classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kproxy.config.access import FAMILIES
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.proxy.access import names
from kproxy.proxy.access.names import ReadNames

ERRORS: Mapping[str, ErrorCode] = {
    "produce": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "topic": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "group": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "transaction": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "admin": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""The error that Kafka has for each family."""
assert ERRORS.keys() == FAMILIES.keys()


class Slot(Enum):
    """What stands in a field of an answer."""

    ERROR = "the error code"
    MESSAGE = "the text"
    ELEMENT = "the element itself, in an array of numbers or strings"


@dataclass(frozen=True, slots=True)
class Copy:
    """The value of this field of the request's struct."""

    field: str


@dataclass(frozen=True, slots=True)
class Each:
    """An array with a struct for each element of an array of the request.

    `field` is the array's name; `A.B` are the arrays B in all elements of A, and `A,B` both arrays one after the other.

    `name` is the field with the element's name, about which the rules decide; "" if the element itself is the name, and
    None if its parent has the name. `distinct`: equal structs become one.
    """

    field: str
    fields: Mapping[str, Any]
    name: str | None = None
    distinct: bool = False


Answer = Mapping[str, Any]
"""The fields of an answer: a `Slot`, a `Copy`, an `Each`, or a value. What is missing is 0, empty, or null."""
_ERROR, _MESSAGE = Slot.ERROR, Slot.MESSAGE


@dataclass(frozen=True, slots=True)
class Change:
    """An API that changes something.

    `read_names` returns the families and names in a request. `answer` returns the fields of an answer in a version.
    """

    family: str
    read_names: ReadNames
    answer: Callable[[int], Answer]
    error: ErrorCode

    def is_flat(self, version: int) -> bool:
        """Check whether an answer has nothing of the request, which then need not be read whole."""
        return not any(isinstance(value, Each | Copy) for value in self.answer(version).values())


def _flat(version: int) -> Answer:
    return {"ErrorCode": _ERROR, "ErrorMessage": _MESSAGE}


def _partitions(*, topic: Answer, name: str | None, **more: Any) -> Callable[[int], Answer]:
    """Return the answer of an API whose request and response have partitions in topics."""
    partitions = Each("Partitions", {"PartitionIndex": Copy("PartitionIndex"), "ErrorCode": _ERROR, **more})
    return lambda version: {"Topics": Each("Topics", {**topic, "Partitions": partitions}, name)}


_NAMED = {"Name": Copy("Name")}
_NO_PRINCIPAL = {"PrincipalType": "User", "PrincipalName": "ANONYMOUS"}
_RESULT = {"ErrorCode": _ERROR, "ErrorMessage": _MESSAGE}
_COMMITTED = _partitions(topic={"Name": Copy("Name"), "TopicId": Copy("TopicId")}, name=None)


def _no_producer(version: int) -> Answer:
    ids = dict.fromkeys(("ProducerId", "ProducerEpoch", "OngoingTxnProducerId", "OngoingTxnProducerEpoch"), -1)
    return {"ErrorCode": _ERROR, **ids}


def _joined(version: int) -> Answer:
    # The name of the protocol can be null from version 7 on, and is null without a protocol.
    name = {"ProtocolName": None, "ProtocolType": None} if version >= 7 else {}
    return {"ErrorCode": _ERROR, "GenerationId": -1, **name}


def _synced(version: int) -> Answer:
    return {"ErrorCode": _ERROR, "ProtocolType": None, "ProtocolName": None} if version >= 5 else {"ErrorCode": _ERROR}


def _streams_beat(version: int) -> Answer:
    unknown = dict.fromkeys(("ActiveTasks", "StandbyTasks", "WarmupTasks", "PartitionsByUserEndpoint"))
    return {**_flat(version), **unknown, "AcceptableRecoveryLag": -1}


def _no_token(version: int) -> Answer:
    # The names of the principal without a login, as a broker answers them too.
    principals = {f"{of}{part}": word for of in ("", "TokenRequester") for part, word in _NO_PRINCIPAL.items()}
    times = dict.fromkeys(("IssueTimestampMs", "ExpiryTimestampMs", "MaxTimestampMs"), -1)
    return {"ErrorCode": _ERROR, **principals, **times}


def _member_beat(version: int) -> Answer:
    return {**_flat(version), "MemberId": None, "Assignment": None}


def _added(version: int) -> Answer:
    if version >= 4:  # batched, between brokers
        return {"ErrorCode": _ERROR}
    partitions = Each("Partitions", {"PartitionIndex": Slot.ELEMENT, "PartitionErrorCode": _ERROR})
    topics = Each("V3AndBelowTopics", {**_NAMED, "ResultsByPartition": partitions}, name="Name")
    return {"ResultsByTopicV3AndBelow": topics}


def _created(version: int) -> Answer:
    unknown = {"NumPartitions": -1, "ReplicationFactor": -1}
    return {"Topics": Each("Topics", {**_NAMED, **_RESULT, **unknown}, name="Name")}


def _deleted(version: int) -> Answer:
    if version < 6:
        return {"Responses": Each("TopicNames", {"Name": Slot.ELEMENT, **_RESULT}, name="")}
    return {"Responses": Each("Topics", {**_NAMED, "TopicId": Copy("TopicId"), **_RESULT}, name="Name")}


def _configured(version: int) -> Answer:
    named = {"ResourceType": Copy("ResourceType"), "ResourceName": Copy("ResourceName")}
    return {"Responses": Each("Resources", {**_RESULT, **named}, name="ResourceName")}


def _marked(version: int) -> Answer:
    partitions = Each("PartitionIndexes", {"PartitionIndex": Slot.ELEMENT, "ErrorCode": _ERROR})
    topics = Each("Topics", {**_NAMED, "Partitions": partitions})
    return {"Markers": Each("Markers", {"ProducerId": Copy("ProducerId"), "Topics": topics})}


def _elected(version: int) -> Answer:
    results = Each("Partitions", {"PartitionId": Slot.ELEMENT, **_RESULT})
    topics = Each("TopicPartitions", {"Topic": Copy("Topic"), "PartitionResult": results})
    return {"ErrorCode": _ERROR, "ReplicaElectionResults": topics}


def _reassigned(version: int) -> Answer:
    partitions = Each("Partitions", {"PartitionIndex": Copy("PartitionIndex"), **_RESULT})
    topics = Each("Topics", {**_NAMED, "Partitions": partitions})
    return {**_RESULT, "AllowReplicationFactorChange": True, "Responses": topics}


def _quotas(version: int) -> Answer:
    entity = Each("Entity", {"EntityType": Copy("EntityType"), "EntityName": Copy("EntityName")})
    return {"Entries": Each("Entries", {**_RESULT, "Entity": entity})}


def _moved(version: int) -> Answer:
    partitions = Each("Partitions", {"PartitionIndex": Slot.ELEMENT, "ErrorCode": _ERROR})
    return {"Results": Each("Dirs.Topics", {"TopicName": Copy("Name"), "Partitions": partitions})}


def _users(version: int) -> Answer:
    return {"Results": Each("Deletions,Upsertions", {"User": Copy("Name"), **_RESULT}, distinct=True)}


def _change(
    family: str,
    read_names: ReadNames,
    answer: Callable[[int], Answer] | Answer,
    error: ErrorCode | None = None,
) -> Change:
    answer_of = answer if callable(answer) else lambda version: answer
    return Change(family, read_names, answer_of, ERRORS[family] if error is None else error)


_of_group = names.first("group")
_of_topics = names.of_elements("topic", "Topics", "Name")
_TOKEN = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

CHANGES: Mapping[int, Change] = {
    # Its answer is made in `produce`, from what is read as it comes.
    ApiKey.PRODUCE: _change("produce", names.none, _flat),
    ApiKey.OFFSET_COMMIT: _change("group", _of_group, _COMMITTED),
    ApiKey.JOIN_GROUP: _change("group", _of_group, _joined),
    ApiKey.HEARTBEAT: _change("group", _of_group, _flat),
    ApiKey.LEAVE_GROUP: _change("group", _of_group, _flat),
    ApiKey.SYNC_GROUP: _change("group", _of_group, _synced),
    ApiKey.CREATE_TOPICS: _change("topic", _of_topics, _created),
    ApiKey.DELETE_TOPICS: _change("topic", names.of_deleted_topics, _deleted),
    ApiKey.DELETE_RECORDS: _change("topic", _of_topics, _partitions(topic=_NAMED, name="Name", LowWatermark=-1)),
    ApiKey.INIT_PRODUCER_ID: _change("transaction", names.of_producer, _no_producer),
    ApiKey.ADD_PARTITIONS_TO_TXN: _change("transaction", names.of_added_partitions, _added),
    ApiKey.ADD_OFFSETS_TO_TXN: _change("transaction", names.of_added_offsets, _flat),
    ApiKey.END_TXN: _change("transaction", names.first("transaction"), _no_producer),
    ApiKey.WRITE_TXN_MARKERS: _change("admin", names.none, _marked),
    ApiKey.TXN_OFFSET_COMMIT: _change("transaction", names.of_transactional_commit, _COMMITTED),
    ApiKey.CREATE_ACLS: _change("admin", names.none, {"Results": Each("Creations", _RESULT)}),
    ApiKey.DELETE_ACLS: _change("admin", names.none, {"FilterResults": Each("Filters", _RESULT)}),
    ApiKey.ALTER_CONFIGS: _change("admin", names.of_configs, _configured),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _change("admin", names.none, _moved),
    ApiKey.CREATE_PARTITIONS: _change("topic", _of_topics, {"Results": Each("Topics", {**_NAMED, **_RESULT}, "Name")}),
    ApiKey.CREATE_DELEGATION_TOKEN: _change("admin", names.none, _no_token, _TOKEN),
    ApiKey.RENEW_DELEGATION_TOKEN: _change("admin", names.none, _flat, _TOKEN),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _change("admin", names.none, _flat, _TOKEN),
    ApiKey.DELETE_GROUPS: _change(
        "group",
        names.of_elements("group", "GroupsNames", ""),
        {"Results": Each("GroupsNames", {"GroupId": Slot.ELEMENT, **_RESULT}, name="")},
    ),
    ApiKey.ELECT_LEADERS: _change("admin", names.none, _elected),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _change("admin", names.of_configs, _configured),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _change("admin", names.none, _reassigned),
    ApiKey.OFFSET_DELETE: _change("group", _of_group, _flat),
    ApiKey.ALTER_CLIENT_QUOTAS: _change("admin", names.none, _quotas),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _change("admin", names.none, _users),
    ApiKey.UPDATE_FEATURES: _change("admin", names.none, _flat),
    ApiKey.UNREGISTER_BROKER: _change("admin", names.none, _flat),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _change("group", _of_group, _member_beat),
    ApiKey.SHARE_GROUP_HEARTBEAT: _change("group", _of_group, _member_beat),
    ApiKey.SHARE_FETCH: _change("group", _of_group, _flat),
    ApiKey.SHARE_ACKNOWLEDGE: _change("group", _of_group, _flat),
    ApiKey.ADD_RAFT_VOTER: _change("admin", names.none, _flat),
    ApiKey.REMOVE_RAFT_VOTER: _change("admin", names.none, _flat),
    ApiKey.STREAMS_GROUP_HEARTBEAT: _change("group", _of_group, _streams_beat),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _change("group", _of_group, _flat),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _change("group", _of_group, _flat),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _change("group", _of_group, _flat),
    ApiKey.UNREGISTER_CONTROLLER: _change("admin", names.none, _flat),
}
"""The APIs that change something."""

OF_CLUSTER_USERS: Mapping[int, Change] = {
    **{
        key: CHANGES[key]
        for key in (
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        )
    },
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _change("admin", names.none, _flat, _TOKEN),
}
"""The APIs of passwords and tokens that clients have at the brokers. Its answer has the secrets of tokens."""

READS = frozenset(
    {
        ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY, ApiKey.LIST_CONFIG_RESOURCES, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    }
)  # fmt: skip
"""The APIs that change nothing. PushTelemetry sends the client's own metrics."""

LOGINS = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""The APIs before and for a login."""

BETWEEN_BROKERS = frozenset(
    {
        ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.ALTER_PARTITION, ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION, ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE, ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)  # fmt: skip
"""The APIs between brokers and controllers, which no client uses."""

NAMED_BY_ID: Mapping[str, Mapping[int, int]] = {
    "produce": {ApiKey.PRODUCE: 12},
    "topic": {ApiKey.DELETE_TOPICS: 5},
}
"""Family → API key → the newest version whose requests name topics by names. In later ones they may have only ids,
about which no rule can decide."""


def reference_table() -> str:
    """Return the table of all APIs in docs/access.md."""
    lines = ["| Key | API | Family | If it is forbidden |", "|---|---|---|---|"]
    lines += [
        f"| {key} | {api.name} | {family} | {effect} |" for key, api in APIS.items() for family, effect in [_row(key)]
    ]
    return "\n".join(lines) + "\n"


def _row(key: int) -> Sequence[str]:
    change = CHANGES.get(key)
    if change is not None:
        effect = f"`{change.error.name}`"
        more = {
            ApiKey.INIT_PRODUCER_ID: (
                "transaction, produce",
                "; without a transactional id `CLUSTER_AUTHORIZATION_FAILED`",
            ),
            ApiKey.ADD_PARTITIONS_TO_TXN: ("transaction, produce", "; for a topic `TOPIC_AUTHORIZATION_FAILED`"),
            ApiKey.ADD_OFFSETS_TO_TXN: ("transaction, group", "; for the group `GROUP_AUTHORIZATION_FAILED`"),
            ApiKey.TXN_OFFSET_COMMIT: ("transaction, group", "; for the group `GROUP_AUTHORIZATION_FAILED`"),
            ApiKey.ALTER_CONFIGS: ("admin, topic, group", "; for a topic or a group their errors"),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: ("admin, topic, group", "; for a topic or a group their errors"),
        }
        family, addition = more.get(APIS[key], (change.family, ""))
        return family, effect + addition
    if key == ApiKey.METADATA:
        return "(read)", "creates no topic if anything of `topic` is forbidden"
    if key in READS:
        return "(read)", "passes"
    if key in LOGINS:
        return "(login)", "passes"
    return "(between brokers)", "kproxy closes the connection"
