"""The fields of a message that a copy contains, and those that it leaves empty.

By type: all `bytes` and all `records` are empty, whatever their name. These are the records, the tokens of SASL, salts
and salted passwords, and the data that the clients of a group exchange. By name: a string is copied only if its name is
in `SHOWN`. So the strings of a new definition are empty until a developer has reviewed them; a test lists them.
"""

from __future__ import annotations

from kproxy.protocol.wire.definitions import Field

OPAQUE = frozenset({"bytes", "records"})

# Names, states, addresses, and what clients and brokers state about themselves.
SHOWN = frozenset({
    "ClientHost", "ClientId", "ClientSoftwareName", "ClientSoftwareVersion", "ClusterId", "ConfigurationKeys",
    "CoordinatorKeys", "Documentation", "EntityName", "EntityType", "ErrorMessage", "Feature", "GroupId",
    "GroupInstanceId", "GroupState", "GroupType", "Groups", "GroupsNames", "Host", "HostFilter", "Key", "Leader",
    "LogDir", "Match", "Mechanism", "Mechanisms", "MemberId", "Name", "Path", "Principal", "PrincipalFilter",
    "PrincipalName", "PrincipalType", "ProtocolData", "ProtocolName", "ProtocolType", "Rack", "RackId", "Reason",
    "ResourceName", "ResourceNameFilter", "StateFilters", "StatesFilter", "StatusDetail", "SubtopologyId",
    "TokenRequesterPrincipalName", "TokenRequesterPrincipalType", "Topic", "TopicName", "TopicNames", "Topics",
    "TransactionState",
    "TransactionalId", "TransactionalIdPattern", "TransactionalIds", "TypesFilter", "UnknownStateFilters", "User",
    "V3AndBelowTransactionalId",
})  # fmt: skip

# Reviewed, and redacted: values of configurations (a JAAS line, the password of a key store), the metadata that
# applications write with their offsets, errors that may quote records, the ids of delegation tokens.
HIDDEN = frozenset({
    "Value", "CommittedMetadata", "Metadata", "BatchIndexErrorMessage", "AcknowledgeErrorMessage", "TokenId",
})  # fmt: skip

# Messages whose ErrorMessage may quote the request: a value, a token, a record.
_QUOTING = frozenset({
    "AlterConfigsResponse", "AlterUserScramCredentialsResponse", "CreateTopicsResponse",
    "IncrementalAlterConfigsResponse", "ProduceResponse", "SaslAuthenticateResponse",
})  # fmt: skip


def is_redacted(message: str, field: Field) -> bool:
    """Return whether the copy of this message, such as `FetchResponse`, leaves the field, or its elements, empty."""
    element = field.type.removeprefix("[]")
    if element in OPAQUE:
        return True
    if element != "string":
        return False
    return field.name not in SHOWN or (field.name == "ErrorMessage" and message in _QUOTING)
