"""The one table of responses that carry addresses a client connects to.

Sources: Kafka's message definitions; KIP-951 (Produce, Fetch), KIP-932 (ShareFetch, ShareAcknowledge), KIP-700
and KIP-919 (DescribeCluster). What carries addresses that no client connects to is listed in docs/protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from kproxy.base.address import Address
from kproxy.protocol.wire import api


class NodeKind(Enum):
    """What listens at an endpoint. A node in combined mode has one of each, with the same id (KIP-919)."""

    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A node as a response names it: what it is, its id, the address it advertises."""

    kind: NodeKind
    node_id: int
    advertised: Address


@dataclass(frozen=True, slots=True)
class Endpoints:
    """All endpoints of one response; `complete` if it lists every live node of its kind."""

    nodes: tuple[Endpoint, ...]
    complete: bool = False


class ListenersPending(Exception):
    """So many nodes have no listener yet that binding all at once would keep other sessions waiting. Take the `steps`,
    and let others go on after each; then ask again."""

    def __init__(self, steps: Iterator[None]) -> None:
        super().__init__()
        self.steps = steps


# Gives the local address for each endpoint, in order; what it returns must be bound already. May raise ListenersPending.
Localise = Callable[[Endpoints], Sequence[Address]]


@dataclass(frozen=True, slots=True)
class EndpointRule:
    """Where one API's responses carry endpoints.

    `field`: the top-level field, None for NodeId, Host and Port at top level themselves.
    `versions`: those that carry it. `last`: it stands behind unbounded data, so the frame streams.
    `complete`: it lists every live node.
    """

    api_key: int
    field: str | None
    versions: range
    last: bool = False
    complete: bool = False


TABLE = (
    EndpointRule(api.METADATA, "Brokers", range(0, 14), complete=True),
    EndpointRule(api.FIND_COORDINATOR, None, range(0, 4)),
    EndpointRule(api.FIND_COORDINATOR, "Coordinators", range(4, 7)),
    EndpointRule(api.DESCRIBE_CLUSTER, "Brokers", range(0, 3), complete=True),
    EndpointRule(api.PRODUCE, "NodeEndpoints", range(10, 14), last=True),
    EndpointRule(api.FETCH, "NodeEndpoints", range(16, 19), last=True),
    EndpointRule(api.SHARE_FETCH, "NodeEndpoints", range(1, 3), last=True),
    EndpointRule(api.SHARE_ACKNOWLEDGE, "NodeEndpoints", range(1, 3), last=True),
)


def rule_for(api_key: int, version: int) -> EndpointRule | None:
    """The rule for responses of this API and version, None if they carry no endpoints."""
    for rule in TABLE:
        if rule.api_key == api_key and version in rule.versions:
            return rule
    return None
