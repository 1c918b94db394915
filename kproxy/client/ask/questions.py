"""Questions of an ordinary Kafka client to brokers: which nodes exist, which node answers, which partitions it leads.

All are read-only, and use versions that Kafka 0.10.1 to 4.x support. The caller limits the time.

Any broker returns the id of its cluster (Metadata v2, KIP-78; controllers in DescribeCluster, KIP-919). No field of the
protocol has the id of the node that answers, but these responses reveal it:

 * ApiVersions 5, since Kafka 4.4: a broker refuses to be another node or of another cluster (KIP-1242). Needs no right.
 * DescribeConfigs for another broker: the refusal names the broker that answers. Needs DescribeConfigs on the cluster.
 * ListOffsets: only a partition's leader answers. Needs Describe on a topic.
 * ListGroups names the groups that this broker coordinates, FindCoordinator the coordinator of one of them. Needs
   Describe on a group.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from struct import pack
from typing import Any, TypeVar

from kproxy.base.errors import UpstreamError
from kproxy.client.ask.channel import Channel
from kproxy.client.ask.question import Question, ask_for
from kproxy.protocol.rewrite.endpoints import Endpoint, NodeKind
from kproxy.protocol.rewrite.versionsanswer import VersionsAnswer, read_versions_answer
from kproxy.protocol.rewrite.versionsrequest import ADDRESSED, VersionsRequest
from kproxy.protocol.rewrite.walk import Walk
from kproxy.protocol.rewrite.walkplan import plan_for
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import (
    CLIENT_ID,
    SHORT,
    read_versions,
    response_reader,
)
from kproxy.protocol.wire.primitives import INT16, INT32, Underflow, malformed, read_string, skip_tags

GROUPS_TOPIC = "__consumer_offsets"
# A node id that no cluster uses.
UNUSED_NODE_ID = 2**31 - 1

_BROKER_RESOURCE = 4  # ConfigResource.Type.BROKER
_CONTROLLER_ENDPOINTS = 2  # DescribeCluster's EndpointType
_LATEST = -1  # ListOffsets: the end of the log
# "Unexpected broker id, expected 1 or empty string, but received 2147483647"; Kafka before 2.2 had no "or empty".
_OWN_ID = re.compile(rb"expected (\d{1,10})(?!\d)")
# The most elements read of lists that may be long: kproxy needs a few of them, and must not block for the others.
_MAX_PARTITIONS_READ, _MAX_GROUPS_READ = 20_000, 100
_AT_ONCE = 500  # of these, before other tasks have their turn
_PARTITIONS_OF_A_LEADER = _GROUPS_ASKED_FOR = 3
# The longest response that is read in one step, in bytes. A list of nodes of at most this size, the first response on
# each connection, is decoded once, however often it arrives.
_SHORT = 4096

T = TypeVar("T")

Versions = Mapping[int, range]
"""The versions of each API that a broker serves, by API key."""
TopicPartition = tuple[bytes, int]
"""A topic's name and a partition's index."""


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """The nodes of a cluster, as one of them lists them.

    `cluster_id` is None from brokers before Kafka 0.10.1. `kind` is the kind of all the nodes, also of the one that
    answered.
    """

    cluster_id: str | None
    kind: NodeKind
    nodes: tuple[Endpoint, ...]


class NotAController(UpstreamError):
    """A broker has answered a question to a controller."""

    def __init__(self) -> None:
        super().__init__("wrong-node", "a broker answers, not a controller")


async def ask_versions(channel: Channel) -> Versions:
    """Return the versions that the broker serves; any broker returns them before a login.

    Raises UpstreamError or WireError if no Kafka broker answers.
    """
    return await VERSIONS_QUESTION.ask(channel)


@lru_cache(maxsize=64)  # the clients of a node ask the same on each connection
def address_question(cluster_id: str, node_id: int, request: VersionsRequest | None = None) -> Question[VersionsAnswer]:
    """Return the question whether the broker is this node of this cluster: ApiVersions 5 (KIP-1242).

    Another broker answers with the error REBOOTSTRAP_REQUIRED. kproxy can ask with the `request` of a client. Kafka 4.4
    compares only where no login is required, or after it; before, and as a controller, it confirms any node.
    """
    asked = request or _OWN_VERSIONS_REQUEST
    return Question(ApiKey.API_VERSIONS, ADDRESSED, b"", read_versions_answer, asked.addressed_to(cluster_id, node_id))


_OWN_VERSIONS_REQUEST = VersionsRequest.named(CLIENT_ID)

# All nodes of a cluster send the same response on each connection.
_read_short_versions = lru_cache(maxsize=64)(read_versions)
VERSIONS_QUESTION: Question[Versions] = Question(
    ApiKey.API_VERSIONS, 0, b"", lambda body: _read_short_versions(body) if len(body) <= _SHORT else read_versions(body)
)


def nodes_question(versions: Versions) -> Question[ClusterNodes]:
    """Return the question for the nodes of the cluster.

    If the broker closes the connection, a login may be required first.
    """
    if ApiKey.METADATA in versions or ApiKey.DESCRIBE_CLUSTER not in versions:
        return _BROKERS_QUESTIONS[2 if 2 in versions.get(ApiKey.METADATA, ()) else 1]
    return _CONTROLLERS_QUESTION


async def _read_metadata(version: int, body: bytes) -> ClusterNodes:
    """Decode a Metadata response, v1 or v2.

    Layout: brokers[node id, host, port, rack], cluster id (v2), …
    """
    if len(body) <= _SHORT:
        return _read_short_metadata(body, version)
    return _nodes_of_metadata(body, version, await _walk_to_last_node(body, ApiKey.METADATA, version))


def _nodes_of_metadata(body: bytes, version: int, walk: Walk) -> ClusterNodes:
    cluster_id = None
    if version == 2:
        # The last broker's rack stands before it.
        _, at = read_string(body, _end_of_last_node(walk), len(body), compact=False, nullable=True)
        cluster_id, _ = read_string(body, at, len(body), compact=False, nullable=True)
    return ClusterNodes(_text(cluster_id), NodeKind.BROKER, tuple(walk.endpoints))


@lru_cache(maxsize=64)
def _read_short_metadata(body: bytes, version: int) -> ClusterNodes:
    walk = _new_walk(ApiKey.METADATA, version)
    walk.advance_all(body, 0, len(body))
    return _nodes_of_metadata(body, version, _check_walk(walk))


async def _read_described_cluster(body: bytes) -> ClusterNodes:
    """Decode a DescribeCluster response.

    Layout of v1: tags, throttle time, error code, error message, endpoint type, cluster id, …
    """
    at = skip_tags(body, 0, len(body)) + 4
    (error,) = INT16.unpack_from(body, at)
    if error == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
        raise NotAController
    if error:
        raise malformed(f"the controller answers DescribeCluster with error {error}")
    _, at = read_string(body, at + 2, len(body), compact=True, nullable=True)
    cluster_id, _ = read_string(body, at + 1, len(body), compact=True, nullable=False)
    walk = await _walk_to_last_node(body, ApiKey.DESCRIBE_CLUSTER, 1)
    return ClusterNodes(_text(cluster_id), NodeKind.CONTROLLER, tuple(walk.endpoints))


class _ReadQueue:
    """A queue of the coroutines that read long responses: one of them continues in each turn of the loop.

    kproxy opens dozens of connections at once, whose responses may arrive together. Unlike a lock, the queue belongs to
    no loop.
    """

    def __init__(self) -> None:
        self._taken = False

    async def __aenter__(self) -> None:
        while self._taken:  # noqa: ASYNC110  # an event would belong to a loop
            await asyncio.sleep(0)
        self._taken = True

    async def __aexit__(self, *_: object) -> None:
        self._taken = False
        await asyncio.sleep(0)  # not in the same turn as the next one


_LONG_RESPONSES = _ReadQueue()


async def _walk_to_last_node(body: bytes, key: int, version: int) -> Walk:
    """Walk to the last node of a response, and yield to other tasks at each pause. Raises WireError.

    Only long responses queue: those of another cluster must not delay an ordinary one.
    """
    walk = _new_walk(key, version)
    async with _LONG_RESPONSES if len(body) > _SHORT else contextlib.nullcontext():
        at = walk.advance(body, 0, len(body))
        while walk.paused:
            await asyncio.sleep(0)
            at = walk.advance(body, at, len(body))
    return _check_walk(walk)


def _new_walk(key: int, version: int) -> Walk:
    plan = plan_for(key, version)
    assert plan is not None
    return Walk(plan)


def _check_walk(walk: Walk) -> Walk:
    if not walk.done:
        raise Underflow
    if not walk.locations:
        raise malformed("the response of the broker names no node")
    return walk


def _end_of_last_node(walk: Walk) -> int:
    """Return the index behind the last node's port."""
    return walk.locations[-1][2]


# By version. No topics.
_BROKERS_QUESTIONS: dict[int, Question[ClusterNodes]] = {
    version: Question(ApiKey.METADATA, version, INT32.pack(0), partial(_read_metadata, version)) for version in (1, 2)
}
# v1: include_cluster_authorized_operations, endpoint_type, tags
_CONTROLLERS_QUESTION: Question[ClusterNodes] = Question(
    ApiKey.DESCRIBE_CLUSTER, 1, pack(">?bB", False, _CONTROLLER_ENDPOINTS, 0), _read_described_cluster
)


def node_id_question(versions: Versions, expected_id: int = UNUSED_NODE_ID) -> Question[int | None] | None:
    """Return the question for the node id of the broker that answers; the answer is None if it does not reveal its id.

    Return no question if the broker does not support it. A broker whose id is `expected_id` has nothing to refuse, and
    logs nothing.
    """
    return _node_id_question(expected_id) if 1 in versions.get(ApiKey.DESCRIBE_CONFIGS, ()) else None


@lru_cache(maxsize=64)
def _node_id_question(expected_id: int) -> Question[int | None]:
    # A key that does not exist, to keep the response short.
    return ask_for(
        ApiKey.DESCRIBE_CONFIGS, 1, settings_request(expected_id, ["kproxy"]), partial(_read_node_id, expected_id)
    )


def settings_request(node_id: int, names: Sequence[str] | None) -> dict[str, Any]:
    """Return the fields of a DescribeConfigs request for the settings of a broker."""
    resource = {"ResourceType": _BROKER_RESOURCE, "ResourceName": str(node_id), "ConfigurationKeys": names}
    return {"Resources": [resource]}


def _read_node_id(expected_id: int, fields: dict[str, Any]) -> int | None:
    if len(fields["Results"]) != 1:
        return None
    (result,) = fields["Results"]
    match = _OWN_ID.search(result["ErrorMessage"] or b"")
    if match:
        return int(match[1]) if int(match[1]) < UNUSED_NODE_ID else None
    return expected_id if result["ErrorCode"] == ErrorCode.NONE and expected_id != UNUSED_NODE_ID else None


async def ask_leaders(channel: Channel, versions: Versions) -> dict[int, tuple[TopicPartition, ...]]:
    """Return a few partitions of each node that leads any, among the topics that this user may see."""
    if 2 not in versions.get(ApiKey.METADATA, ()):
        return {}
    question: Question[dict[int, tuple[TopicPartition, ...]]] = Question(
        ApiKey.METADATA, 2, INT32.pack(-1), _read_leaders
    )
    return await question.ask(channel)  # for all topics


async def _read_leaders(body: bytes) -> dict[int, tuple[TopicPartition, ...]]:
    end = len(body)
    at = _end_of_last_node(await _walk_to_last_node(body, ApiKey.METADATA, 2))
    for _ in range(2):  # the last broker's rack, the cluster id
        _, at = read_string(body, at, end, compact=False, nullable=True)
    # Behind the controller's id.
    elements = response_reader(ApiKey.METADATA, 2).elements("Topics", body, at + 4, inner="Partitions")
    partitions_by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for number, (topic, partition) in enumerate(islice(elements, _MAX_PARTITIONS_READ), 1):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        if partition is None or partition["ErrorCode"] != ErrorCode.NONE or partition["LeaderId"] < 0:
            continue
        led_partitions = partitions_by_leader[partition["LeaderId"]]
        if len(led_partitions) < _PARTITIONS_OF_A_LEADER:
            led_partitions.append((topic["Name"], partition["PartitionIndex"]))
    return {node: tuple(leader_partitions) for node, leader_partitions in partitions_by_leader.items()}


async def ask_leadership(
    channel: Channel, versions: Versions, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the error code of the broker's ListOffsets response for each partition.

    It is NONE from the partition's leader, NOT_LEADER_OR_FOLLOWER from other brokers.
    """
    if 1 not in versions.get(ApiKey.LIST_OFFSETS, ()):
        return {}
    indexes: defaultdict[bytes, list[dict[str, int]]] = defaultdict(list)
    longest = SHORT
    for name, index in partitions:
        indexes[name].append({"PartitionIndex": index, "Timestamp": _LATEST})
        longest += len(name) + 24  # of the answer: the topic's name, then 18 bytes
    topics = [{"Name": name, "Partitions": requested} for name, requested in indexes.items()]
    fields = {"ReplicaId": -1, "Topics": topics}
    return await ask_for(ApiKey.LIST_OFFSETS, 1, fields, partial(_read_leadership, indexes), longest).ask(channel)


def _read_leadership(requested: Mapping[bytes, Sequence[object]], fields: dict[str, Any]) -> dict[TopicPartition, int]:
    return {
        (topic["Name"], partition["PartitionIndex"]): partition["ErrorCode"]
        for topic in fields["Topics"]
        for partition in topic["Partitions"]
        if topic["Name"] in requested
    }


async def ask_coordinator(channel: Channel, versions: Versions) -> int | None:
    """Return the id of the broker that answers, as the coordinator of a group that it lists.

    Return None if it lists no group that this user may see.
    """
    if 0 not in versions.get(ApiKey.LIST_GROUPS, ()) or 0 not in versions.get(ApiKey.FIND_COORDINATOR, ()):
        return None
    for group in (await Question(ApiKey.LIST_GROUPS, 0, b"", _read_group_ids).ask(channel))[:_GROUPS_ASKED_FOR]:
        question = coordinator_question(versions, group)
        assert question is not None
        error, node_id = await question.ask(channel)
        if error == ErrorCode.NONE and node_id >= 0:
            return node_id
    return None


def _read_group_ids(body: bytes) -> list[bytes]:
    groups = response_reader(ApiKey.LIST_GROUPS, 0).elements("Groups", body, 2)  # behind the error code
    return [group["GroupId"] for group, _ in islice(groups, _MAX_GROUPS_READ)]


def coordinator_question(versions: Versions, group: bytes | str) -> Question[tuple[int, int]] | None:
    """Return the question for the group's coordinator: the answer is Kafka's error code, and the node id.

    Ask only where GROUPS_TOPIC exists: a broker would create it.
    """
    if 0 not in versions.get(ApiKey.FIND_COORDINATOR, ()):
        return None
    return ask_for(ApiKey.FIND_COORDINATOR, 0, {"Key": group}, lambda fields: (fields["ErrorCode"], fields["NodeId"]))


def _text(text: bytes | None) -> str | None:
    return None if not text else text.decode("utf-8", "replace")
