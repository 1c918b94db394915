"""Questions of a client that uses one topic or group: the end of partitions, a read there, the group's state.

All are read-only. None makes a broker create a topic, not even that of the groups, and none joins a group. Text in the
answers is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kproxy.client.ask.channel import MAX_RESPONSE_SIZE, Channel
from kproxy.client.ask.contents import read_operations
from kproxy.client.ask.question import Question, ask_for
from kproxy.client.ask.questions import Versions
from kproxy.client.ask.settings import BrokerSettings, read_settings
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import text

_TOPIC_RESOURCE = 2  # ConfigResource.Type.TOPIC
_LATEST = -1  # ListOffsets: the end of the log
# A read without records, or one whose records only a newer version could carry: the broker has allowed it.
_READ = (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group, as one broker describes it.

    `error` is one of Kafka's error codes: NONE from the group's coordinator, also for a group that does not exist yet.
    `allowed` has the operations that this user may perform; None before Kafka 2.3.
    """

    error: int
    state: str
    allowed: frozenset[str] | None


def group_question(versions: Versions, group: str) -> Question[GroupDescription] | None:
    """Return the question for a group. Unlike FindCoordinator, it creates no topic where there are no groups yet."""
    served = versions.get(ApiKey.DESCRIBE_GROUPS, range(0))
    version = next((v for v in (5, 4, 3, 1, 0) if v in served), None)
    if version is None:
        return None
    fields = {"Groups": [group], "IncludeAuthorizedOperations": True}
    return ask_for(ApiKey.DESCRIBE_GROUPS, version, fields, _read_group, MAX_RESPONSE_SIZE)


def _read_group(fields: dict[str, Any]) -> GroupDescription:
    for group in fields["Groups"]:
        allowed = read_operations(group["AuthorizedOperations"]) if "AuthorizedOperations" in group else None
        return GroupDescription(group["ErrorCode"], text(group["GroupState"]), allowed)
    return GroupDescription(ErrorCode.UNKNOWN_SERVER_ERROR, "", None)


def topic_settings_question(versions: Versions, topic: str, names: Sequence[str]) -> Question[BrokerSettings] | None:
    """Return the question for the settings of a topic with these names. Needs DescribeConfigs on the topic."""
    if 1 not in versions.get(ApiKey.DESCRIBE_CONFIGS, ()):
        return None
    resource = {"ResourceType": _TOPIC_RESOURCE, "ResourceName": topic, "ConfigurationKeys": list(names)}
    return ask_for(ApiKey.DESCRIBE_CONFIGS, 1, {"Resources": [resource]}, lambda fields: read_settings(fields, names))


async def read_at_end(
    channel: Channel, versions: Versions, topic: str, partitions: Sequence[int], most_bytes: int
) -> Mapping[int, int]:
    """Read at the end of some partitions, as a consumer does that waits for records.

    Returns Kafka's error code by partition: NONE if the broker leads the partition and lets this user read it. Empty if
    the broker does not support the versions. Records that were written meanwhile are dropped.
    """
    if 1 not in versions.get(ApiKey.LIST_OFFSETS, ()) or 4 not in versions.get(ApiKey.FETCH, ()):
        return {}
    wanted = [{"PartitionIndex": partition, "Timestamp": _LATEST} for partition in partitions]
    asking = {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": wanted}]}
    ends = await ask_for(ApiKey.LIST_OFFSETS, 1, asking, _read_ends, MAX_RESPONSE_SIZE).ask(channel)
    codes = {partition: code for partition, (code, _) in ends.items() if code != ErrorCode.NONE}
    reads = [
        {"Partition": partition, "FetchOffset": offset, "PartitionMaxBytes": most_bytes}
        for partition, (code, offset) in ends.items()
        if code == ErrorCode.NONE
    ]
    if reads:
        fetching = {"ReplicaId": -1, "MaxBytes": most_bytes, "Topics": [{"Topic": topic, "Partitions": reads}]}
        codes |= await ask_for(ApiKey.FETCH, 4, fetching, _read_codes, MAX_RESPONSE_SIZE).ask(channel)
    return {partition: codes[partition] for partition in partitions if partition in codes}


def _read_ends(fields: dict[str, Any]) -> dict[int, tuple[int, int]]:
    return {
        partition["PartitionIndex"]: (partition["ErrorCode"], partition["Offset"])
        for topic in fields["Topics"]
        for partition in topic["Partitions"]
    }


def _read_codes(fields: dict[str, Any]) -> dict[int, int]:
    return {
        partition["PartitionIndex"]: ErrorCode.NONE if partition["ErrorCode"] in _READ else partition["ErrorCode"]
        for topic in fields["Responses"]
        for partition in topic["Partitions"]
    }
