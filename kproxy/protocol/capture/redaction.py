"""Which fields of a message a copy has, and which it leaves empty.

By type: all `bytes` and all `records`, whatever their name. These are the records, the tokens of SASL, salts and salted
passwords, and what clients tell one another in groups.
By name: a string is copied only if its name is in `SHOWN`. So the strings of a new definition are left out until
somebody has looked at them; a test says which.
"""

from __future__ import annotations

from kproxy.protocol.wire.definitions import Field

OPAQUE = frozenset({"bytes", "records"})

# Names of things, states, addresses, and what clients and brokers say of themselves.
SHOWN = frozenset({
    "ClientHost", "ClientId", "ClientSoftwareName", "ClientSoftwareVersion", "ClusterId", "ConfigurationKeys",
    "CoordinatorKeys", "Documentation", "EntityName", "EntityType", "ErrorMessage", "Feature", "GroupId",
    "GroupInstanceId", "GroupState", "GroupType", "Groups", "GroupsNames", "Host", "HostFilter", "Key", "Leader",
    "LogDir", "Match", "Mechanism", "Mechanisms", "MemberId", "Name", "Path", "Principal", "PrincipalFilter",
    "ProtocolData", "ProtocolName", "ProtocolType", "Rack", "RackId", "Reason", "ResourceName", "ResourceNameFilter",
    "StateFilters", "StatesFilter", "Topic", "TopicName", "TopicNames", "Topics", "TransactionState",
    "TransactionalId", "TransactionalIdPattern", "TransactionalIds", "TypesFilter", "UnknownStateFilters", "User",
    "V3AndBelowTransactionalId",
})  # fmt: skip

# Reviewed, and left out: values of configurations (a JAAS line, the password of a key store), what applications write
# beside their offsets, errors that may quote records.
HIDDEN = frozenset({"Value", "CommittedMetadata", "Metadata", "BatchIndexErrorMessage", "AcknowledgeErrorMessage"})

# Messages whose ErrorMessage may quote what the request has: a value, a token, a record.
_QUOTING = frozenset({
    "AlterConfigsResponse", "AlterUserScramCredentialsResponse", "CreateTopicsResponse",
    "IncrementalAlterConfigsResponse", "ProduceResponse", "SaslAuthenticateResponse",
})  # fmt: skip


def is_redacted(message: str, field: Field) -> bool:
    """Whether the copy of this message, such as `FetchResponse`, has the field, or its elements, empty."""
    element = field.type.removeprefix("[]")
    if element in OPAQUE:
        return True
    if element != "string":
        return False
    return field.name not in SHOWN or (field.name == "ErrorMessage" and message in _QUOTING)
