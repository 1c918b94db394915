"""The table of writes, and the versions that a cluster that can be switched tells."""

from __future__ import annotations

import contextlib

import pytest

from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.definitions import Field, MessageDefinition
from kproxy.proxy.switching.caps import NEWEST_WITH_TOPIC_NAMES
from kproxy.proxy.switching.writes import HARMFUL_IF_REPEATED, WRITES

# Metadata may create a topic, which the copy then lacks; the verification of the copy reports that. No other cluster
# has the membership of a group: the members join again there, and meanwhile must not be taken for dead. A member of
# Streams sends its topology again if the coordinator has none (KIP-1331).
_READ_NAMES = """
    Fetch ListOffsets Metadata OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups
    ListGroups SaslHandshake ApiVersions OffsetForLeaderEpoch DescribeAcls DescribeConfigs DescribeLogDirs
    SaslAuthenticate DescribeDelegationToken ListPartitionReassignments DescribeClientQuotas
    DescribeUserScramCredentials DescribeQuorum FetchSnapshot DescribeCluster DescribeProducers DescribeTransactions
    ListTransactions ConsumerGroupHeartbeat ConsumerGroupDescribe GetTelemetrySubscriptions PushTelemetry
    ListConfigResources DescribeTopicPartitions ShareGroupHeartbeat ShareGroupDescribe ReadShareGroupState
    ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets
    StreamsGroupTopologyDescriptionUpdate
"""
READS = [api for api in ApiKey if api.name in _READ_NAMES.split()]


def test_each_api_is_a_write_or_a_question() -> None:
    assert sorted([*WRITES, *READS]) == sorted(ApiKey)


def test_what_may_be_doubled_is_a_write() -> None:
    assert WRITES.keys() >= HARMFUL_IF_REPEATED


@pytest.mark.parametrize("key", sorted(APIS))
def test_an_api_that_describes_or_lists_is_a_question(key: int) -> None:
    """And what creates, deletes, alters, adds, removes or commits is none."""
    name = APIS[key].name
    if name.startswith(("Describe", "List", "Find", "Get", "Read")):
        assert key in READS
    if name.startswith(("Create", "Delete", "Alter", "Incremental", "Add", "Remove", "Write")) or "Commit" in name:
        assert key in WRITES


def names_a_topic_by_id_only(fields: tuple[Field, ...], version: int) -> bool:
    """Whether a request of this version has topics with an id and no name."""
    for field in fields:
        there = {one.name for one in field.fields if version in one.versions}
        if "TopicId" in there and not there & {"Name", "Topic", "TopicName"}:
            return True
        if names_a_topic_by_id_only(field.fields, version):
            return True
    return False


def defined() -> dict[int, MessageDefinition]:
    """The requests that have a definition here."""
    found = {}
    for key, api in APIS.items():
        with contextlib.suppress(FileNotFoundError):
            found[key] = definitions.load_message(f"{api.name}Request")
    return found


DEFINED = defined()


def test_what_is_capped_has_a_definition_to_compare_with() -> None:
    assert DEFINED.keys() >= NEWEST_WITH_TOPIC_NAMES.keys()


@pytest.mark.parametrize("key", sorted(DEFINED))
def test_a_topic_id_version_is_above_the_cap_if_names_exist(key: int) -> None:
    api = APIS[key]
    fields = DEFINED[key].fields
    by_id = [version for version in range(api.oldest, api.newest + 1) if names_a_topic_by_id_only(fields, version)]
    if by_id and by_id[0] > api.oldest:
        assert NEWEST_WITH_TOPIC_NAMES.get(key) == by_id[0] - 1
    else:
        assert key not in NEWEST_WITH_TOPIC_NAMES
