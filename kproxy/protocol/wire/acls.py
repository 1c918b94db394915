"""The operations and resources of Kafka's ACLs (KIP-4, KIP-11), by their numbers."""

from __future__ import annotations

from dataclasses import dataclass

OPERATIONS = {
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
    2: "All",
    13: "CreateTokens",
    14: "DescribeTokens",
    15: "TwoPhaseCommit",
}
RESOURCES = {2: "Topic", 3: "Group", 4: "Cluster", 5: "TransactionalId", 6: "DelegationToken", 7: "User"}
READ, WRITE = "Read", "Write"
TOPIC, GROUP, TRANSACTIONAL_ID = "Topic", "Group", "TransactionalId"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A right of a user: an operation on one resource, both as `OPERATIONS` and `RESOURCES` name them."""

    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.operation} {self.resource} {self.name}"
