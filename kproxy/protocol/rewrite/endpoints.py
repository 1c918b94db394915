"""The one table of responses that carry addresses to which a client connects.

Sources: Kafka's message definitions; KIP-951 (Produce, Fetch), KIP-932 (ShareFetch, ShareAcknowledge), KIP-700 and
KIP-919 (DescribeCluster). docs/protocol.md lists the responses with addresses to which no client connects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from kproxy.base.address import Address
from kproxy.protocol.wire.api import ApiKey


class NodeKind(Enum):
    """The role that listens at an endpoint.

    A node in combined mode has one endpoint of each kind, with the same id (KIP-919).
    """

    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A node as a response names it: its kind, its id, the address that it advertises."""

    kind: NodeKind
    node_id: int
    advertised: Address


@dataclass(frozen=True, slots=True)
class Endpoints:
    """All endpoints of one response; `complete` if it lists every live node of its kind."""

    nodes: tuple[Endpoint, ...]
    complete: bool = False


class ListenersPending(Exception):
    """So many nodes have no listener yet that binding all at once would block other sessions.

    The caller takes the `steps`, lets other sessions continue after each, and asks again.
    """

    def __init__(self, steps: Iterator[None]) -> None:
        super().__init__()
        self.steps = steps


# Returns the local address of each endpoint, in order, already bound. May raise ListenersPending.
Localise = Callable[[Endpoints], Sequence[Address]]


@dataclass(frozen=True, slots=True)
class EndpointRule:
    """The place of endpoints in one API's responses."""

    api_key: int
    field: str | None  # the top-level field; None if NodeId, Host and Port are top-level fields themselves
    versions: range  # those that carry the field
    last: bool = False  # the field stands behind unbounded data, so the frame streams
    complete: bool = False  # it lists every live node


TABLE = (
    EndpointRule(ApiKey.METADATA, "Brokers", range(0, 14), complete=True),
    EndpointRule(ApiKey.FIND_COORDINATOR, None, range(0, 4)),
    EndpointRule(ApiKey.FIND_COORDINATOR, "Coordinators", range(4, 7)),
    EndpointRule(ApiKey.DESCRIBE_CLUSTER, "Brokers", range(0, 3), complete=True),
    EndpointRule(ApiKey.PRODUCE, "NodeEndpoints", range(10, 14), last=True),
    EndpointRule(ApiKey.FETCH, "NodeEndpoints", range(16, 19), last=True),
    EndpointRule(ApiKey.SHARE_FETCH, "NodeEndpoints", range(1, 3), last=True),
    EndpointRule(ApiKey.SHARE_ACKNOWLEDGE, "NodeEndpoints", range(1, 3), last=True),
)


def rule_for(api_key: int, version: int) -> EndpointRule | None:
    """Return the rule for responses of this API and version, None if they carry no endpoints."""
    for rule in TABLE:
        if rule.api_key == api_key and version in rule.versions:
            return rule
    return None
