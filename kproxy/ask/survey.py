"""What `kproxy doctor` asks beside who is there: what the broker is, its listeners, topics, a coordinator, mechanisms.

All are read-only, and nothing is asked that makes a broker create something: Metadata names no topic where a broker
would create it, and a coordinator is asked for only where the topic of the groups exists.

Responses are read with kafka-python's classes, which are imported with the first question: none of them is on the way
of a client's record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kproxy.ask.asking import Ask
from kproxy.ask.questions import Question, Unreadable, Versions
from kproxy.errors import WireError
from kproxy.wire import api
from kproxy.wire.primitives import INT16, INT32, read_string, skip_tags, string

GROUPS_TOPIC = "__consumer_offsets"
# Kafka's error codes.
NONE, TOPIC_AUTHORIZATION, GROUP_AUTHORIZATION = 0, 29, 30
_UNSUPPORTED_MECHANISM = 33
# AclOperation (KIP-430), by its number.
OPERATIONS = {3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: "Alter", 8: "Describe", 10: "DescribeConfigs"}
_BROKER_RESOURCE = 4
_MECHANISMS = 20
# What the settings of a broker's listeners are called.
LISTENER_SETTINGS = (
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "controller.listener.names",
    "process.roles",
    "zookeeper.connect",
    "log.dirs",
)
# A mechanism that no broker has: its answer lists those that it has, and no login is made.
_NOBODYS = "KPROXY-ASKS"


@dataclass(frozen=True, slots=True)
class Features:
    """What a broker says of itself: the finalized features of the cluster, by name the level; empty where it says
    nothing of any (ApiVersions before v3)."""

    finalized: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """One topic. `error`: Kafka's code for it; `leaderless`: the partitions without a leader; `leaders`: node ids;
    `replicas`: the nodes that should have a copy. `allowed`: the operations that this user may do, None where the
    broker does not say."""

    name: str
    error: int
    partitions: int
    leaderless: tuple[int, ...]
    leaders: frozenset[int]
    replicas: frozenset[int]
    allowed: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Contents:
    """Metadata of all topics that the user may see. `controller`: its node id, -1 for none."""

    controller: int
    topics: tuple[TopicSeen, ...]

    def topic(self, name: str) -> TopicSeen | None:
        """The topic of this name, if the user may see it."""
        return next((one for one in self.topics if one.name == name), None)


async def features(ask: Ask, versions: Versions) -> Features:
    """Raises UpstreamError or WireError."""
    if 3 not in versions.get(api.API_VERSIONS, ()):
        return Features({})
    from kafka.protocol.metadata import ApiVersionsResponse

    # v3: the client's software name and version
    body = string(b"kproxy", compact=True) + string(b"doctor", compact=True) + b"\0"

    def read(data: bytes) -> Features:
        response = _decoded(ApiVersionsResponse, 3, data)
        finalized = response.finalized_features or ()
        return Features({str(one.name): int(one.max_version_level) for one in finalized})

    return await Question(api.API_VERSIONS, 3, body, read).put(ask)


async def contents(ask: Ask, versions: Versions) -> Contents:
    """All topics that the user may see. Raises UpstreamError or WireError."""
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    version = max((one for one in (2, 4, 8) if one in versions.get(api.METADATA, ())), default=1)
    asked = MetadataRequest(
        version=version, topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=version >= 8
    )
    read = partial(_contents, MetadataResponse, version)
    return await Question(api.METADATA, version, bytes(asked.encode()), read).put(ask)


def _contents(response_class: Any, version: int, data: bytes) -> Contents:
    response = _decoded(response_class, version, data)
    topics = []
    for one in response.topics or ():
        partitions = one.partitions or ()
        missing = tuple(sorted(p.partition_index for p in partitions if p.leader_id < 0))
        allowed = one.authorized_operations if version >= 8 else None  # kafka-python gives the numbers of the bits
        topics.append(
            TopicSeen(
                name=str(one.name),
                error=one.error_code,
                partitions=len(partitions),
                leaderless=missing,
                leaders=frozenset(p.leader_id for p in partitions if p.leader_id >= 0),
                replicas=frozenset(node for p in partitions for node in p.replica_nodes or ()),
                allowed=None if allowed is None else frozenset(OPERATIONS[n] for n in allowed if n in OPERATIONS),
            )
        )
    return Contents(response.controller_id, tuple(topics))


async def settings(ask: Ask, versions: Versions, node_id: int) -> Mapping[str, str] | None:
    """The settings of this broker's listeners, without those that are unset; None if the user may not see them. Raises
    UpstreamError or WireError."""
    if 1 not in versions.get(api.DESCRIBE_CONFIGS, ()):
        return None
    from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=list(LISTENER_SETTINGS)
    )
    asked = DescribeConfigsRequest(version=1, resources=[resource], include_synonyms=False)

    def read(data: bytes) -> Mapping[str, str] | None:
        results: Sequence[Any] = _decoded(DescribeConfigsResponse, 1, data).results or ()  # a hostile list may be null
        if len(results) != 1 or results[0].error_code != NONE:
            return None
        return {str(one.name): str(one.value) for one in results[0].configs or () if one.value}

    return await Question(api.DESCRIBE_CONFIGS, 1, bytes(asked.encode()), read).put(ask)


async def coordinator(ask: Ask, versions: Versions, group: str) -> tuple[int, int]:
    """Kafka's error code, and the node that coordinates the group. Ask only where GROUPS_TOPIC exists: a broker would
    create it. Raises UpstreamError or WireError."""
    if 0 not in versions.get(api.FIND_COORDINATOR, ()):
        return NONE, -1

    def read(data: bytes) -> tuple[int, int]:
        return INT16.unpack_from(data)[0], INT32.unpack_from(data, 2)[0]

    body = string(group.encode(), compact=False)
    return await Question(api.FIND_COORDINATOR, 0, body, read).put(ask)


async def mechanisms(ask: Ask, versions: Versions) -> tuple[str, ...] | None:
    """The SASL mechanisms that this listener has enabled; None if it has no SASL. No login is made; the broker closes
    the connection afterwards. Raises UpstreamError or WireError."""
    if not versions.get(api.SASL_HANDSHAKE):
        return None
    version = min(1, versions[api.SASL_HANDSHAKE][-1])

    def read(data: bytes) -> tuple[str, ...] | None:
        if INT16.unpack_from(data)[0] != _UNSUPPORTED_MECHANISM:
            return None
        (count,), at, names = INT32.unpack_from(data, 2), 6, []
        for _ in range(min(count, _MECHANISMS)):
            name, at = read_string(data, at, len(data), compact=False, nullable=False)
            names.append((name or b"").decode("utf-8", "replace"))
        return tuple(names)

    return await Question(api.SASL_HANDSHAKE, version, string(_NOBODYS.encode(), compact=False), read).put(ask)


def _decoded(response_class: Any, version: int, data: bytes) -> Any:
    """Raises Unreadable. What a hostile broker sends may end kafka-python's code with any exception."""
    flexible = response_class[version].flexible_version_q(version) and response_class.API_KEY != api.API_VERSIONS
    try:
        return response_class.decode(data[skip_tags(data, 0, len(data)) :] if flexible else data, version=version)
    except WireError:
        raise
    except Exception as error:  # noqa: BLE001 - kafka-python says it with whatever its code meets
        raise Unreadable("malformed", f"a response to kproxy cannot be read: {type(error).__name__}") from None
