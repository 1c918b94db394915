"""The groups of one cluster: the client ids of their members, and their committed offsets.

Offsets are read, and written for groups without members.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kproxy.base.errors import UpstreamError
from kproxy.base.printable import one_line
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.clusters.topic_reader import NOT_ALLOWED, NotAllowedError
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.protocol.wire.errorcodes import COORDINATOR_MOVES, ErrorCode, error_name
from kproxy.proxy.switching.parts import MAX_CLIENT_ID

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"
# It has moved or ended since it was listed.
_GROUP_ENDED = (ErrorCode.NOT_COORDINATOR, ErrorCode.GROUP_ID_NOT_FOUND)
_BATCH_SIZE = 100
# A coordinator that moves or loads, and a transaction that has positions but has not ended, pass.
_RETRIABLE = COORDINATOR_MOVES | {ErrorCode.UNSTABLE_OFFSET_COMMIT}
# How Kafka says that a group has members.
_HAS_MEMBERS = frozenset({
    ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NON_EMPTY_GROUP, ErrorCode.STALE_MEMBER_EPOCH,
})  # fmt: skip
_TIMEOUT, _RETRY_INTERVAL = 30.0, 0.2
# The first versions of OffsetFetch and FindCoordinator whose requests name many groups.
_WITH_MANY_GROUPS, _WITH_MANY_COORDINATORS = 8, 4
_LAST_VERSION_WITH_NAMES = 9  # newer OffsetFetch and OffsetCommit name topics by id


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it."""

    name: str
    kind: str
    """`classic`, `consumer` (KIP-848), `share` or `streams`; `classic` if the brokers are too old to return it."""
    state: str
    """Its state, "" if the brokers are too old to return it."""
    protocol: str
    """The protocol type of a classic group: `consumer`, `connect`, …; "" if the group has only committed offsets."""
    node: int
    """The node id of its coordinator."""


def list_groups(admin: Admin) -> Iterator[ListedGroup]:
    """Yield the groups of all brokers. Raises NotAllowedError and UpstreamError."""
    from kafka.protocol.admin import ListGroupsRequest

    for node in sorted(admin.nodes()):
        answer = admin.ask(ListGroupsRequest(), node)
        if answer.error_code in NOT_ALLOWED:
            raise NotAllowedError(f"broker {node} does not list its groups: {error_name(answer.error_code)}")
        if answer.error_code:
            raise UpstreamError("other", f"broker {node} does not list its groups: {error_name(answer.error_code)}")
        for group in answer.groups:
            kind = (getattr(group, "group_type", "") or CLASSIC).lower()
            state = str(getattr(group, "group_state", "") or "")
            yield ListedGroup(str(group.group_id), kind, state, str(group.protocol_type or ""), node)


_STATES_WITHOUT_MEMBERS = frozenset({"empty", "dead"})


def read_occupied_groups(admin: Admin, is_selected: Callable[[str], bool]) -> list[str]:
    """Return the selected groups that have members, of all kinds, sorted.

    Brokers before Kafka 2.6 list groups without their states (KIP-518): there, this asks for the members.
    """
    occupied, stateless = set[str](), set[str]()
    for group in list_groups(admin):
        if is_selected(group.name):
            if not group.state:
                stateless.add(group.name)
            elif group.state.lower() not in _STATES_WITHOUT_MEMBERS:
                occupied.add(group.name)
    if stateless:
        occupied |= {name for name, ids in read_members(admin, stateless.__contains__).items() if ids}
    return sorted(occupied)


GroupMembers = Mapping[str, frozenset[str]]
"""By group, the client ids of its members, as kproxy shows them; none for a streams group (KIP-1071)."""


def read_members(admin: Admin, is_selected: Callable[[str], bool]) -> GroupMembers:
    """Return the members of all selected groups."""
    members: dict[str, frozenset[str]] = {}
    listed: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for group in list_groups(admin):
        if is_selected(group.name):
            listed[group.node, group.kind].append(group.name)
    for (node, kind), names in listed.items():
        for start in range(0, len(names), _BATCH_SIZE):
            members |= _describe_groups(admin, node, kind, names[start : start + _BATCH_SIZE])
    return dict(sorted(members.items()))


def _describe_groups(admin: Admin, node: int, kind: str, names: Sequence[str]) -> dict[str, frozenset[str]]:
    from kafka.protocol.admin import DescribeGroupsRequest

    from kproxy.migrate.clusters.shares import ConsumerGroupDescribeRequest, ShareGroupDescribeRequest

    if kind == CLASSIC:
        answer = admin.ask(DescribeGroupsRequest(groups=list(names)), node)
    elif kind == CONSUMER:
        answer = admin.ask(ConsumerGroupDescribeRequest(group_ids=list(names)), node)
    elif kind == SHARE:
        try:
            answer = admin.ask(ShareGroupDescribeRequest(group_ids=list(names)), node)
        except UnsupportedRequestError:  # share groups of Kafka 4.0, which were a preview
            return {name: frozenset() for name in names}
    else:
        return {name: frozenset() for name in names}
    members = {}
    for group in answer.groups:
        if group.error_code not in _GROUP_ENDED:
            if group.error_code:
                what = f"group {group.group_id}: {error_name(group.error_code)}"
                raise UpstreamError("other", f"broker {node} does not describe {what}")
            members[str(group.group_id)] = frozenset(
                one_line(str(member.client_id), MAX_CLIENT_ID) for member in group.members or ()
            )
    return members


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset, with the metadata string that the client stored with it."""

    offset: int
    metadata: str | None = ""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """A group and its committed offsets; for a share group, its start offsets."""

    name: str
    kind: str
    """`classic`, `consumer` (KIP-848), `share` or `streams`."""
    state: str = ""
    positions: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    unreadable: str = ""
    """Why the offsets could not be read; "" if they could."""


class GroupRefusedError(Exception):
    """A request that the group's coordinator refused. The message is the reason."""


class GroupOffsetsClient:
    """Reads and writes committed offsets of groups through an `Admin`."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._coordinators: dict[str, int] = {}
        self._prefetched: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def read(self, is_selected: Callable[[str], bool]) -> list[GroupOffsets]:
        """Return the selected groups that have committed offsets, or whose offsets cannot be read."""
        listed = {group.name: group for group in list_groups(self._admin) if is_selected(group.name)}
        self._coordinators |= {name: group.node for name, group in listed.items()}
        self.prefetch(group.name for group in listed.values() if group.kind != SHARE)
        groups = [self._with_positions(group) for _, group in sorted(listed.items())]
        return [group for group in groups if group.positions or group.unreadable]

    def prefetch(self, names: Iterable[str]) -> None:
        """Read the positions of many groups, none of them a share group; `read_positions` returns them once.

        A request has many groups (KIP-709), and so has one for coordinators (KIP-699). Without effect with brokers
        before Kafka 3.0, and for a group whose coordinator returns an error: `read_positions` asks for it alone.
        """
        from kafka.protocol.consumer import OffsetFetchRequest as Request

        self._prefetched.clear()  # what `read_positions` has not returned is old now
        if self._admin.api_version(Request) < _WITH_MANY_GROUPS:
            return
        names = list(names)
        self._find_coordinators([name for name in names if name not in self._coordinators])
        names_by_node: defaultdict[int, list[str]] = defaultdict(list)
        for name in names:
            if name in self._coordinators:
                names_by_node[self._coordinators[name]].append(name)
        for node, its_names in names_by_node.items():
            for start in range(0, len(its_names), _BATCH_SIZE):
                answer = self._admin.ask(_fetch_request(its_names[start : start + _BATCH_SIZE]), node)
                for group in answer.groups:
                    with suppress(GroupRefusedError):
                        self._prefetched[str(group.group_id)] = _positions_of(group)

    def read_positions(self, name: str, kind: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of one group; none if the group does not exist.

        Raises GroupRefusedError and UpstreamError.
        """
        if name in self._prefetched and kind != SHARE:
            return self._prefetched.pop(name)
        try:
            return self._with_retries(name, lambda: self._read_share(name) if kind == SHARE else self._read(name))
        except UnsupportedRequestError as error:
            raise GroupRefusedError(f"these brokers do not support {error}") from None

    def write_positions(
        self, name: str, kind: str, positions: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, str]:
        """Commit offsets for a group without members, and return an error text for each partition, "" if written.

        The request names no member, so the brokers refuse it if the group has members. Raises GroupRefusedError if they
        refuse the group.
        """
        write = self._write_share if kind == SHARE else self._write
        try:
            return self._with_retries(name, lambda: write(name, positions))
        except UnsupportedRequestError as error:
            raise GroupRefusedError(f"the target's brokers do not support {error}") from None

    def _with_positions(self, group: ListedGroup) -> GroupOffsets:
        try:
            return GroupOffsets(group.name, group.kind, group.state, self.read_positions(group.name, group.kind))
        except GroupRefusedError as error:
            return GroupOffsets(group.name, group.kind, group.state, unreadable=str(error))

    # Classic and consumer groups

    def _read(self, name: str) -> dict[TopicPartition, CommittedOffset]:
        from kafka.protocol.consumer import OffsetFetchRequest as Request

        node = self._coordinator(name)
        if self._admin.api_version(Request) >= _WITH_MANY_GROUPS:
            return _positions_of(self._admin.ask(_fetch_request([name]), node).groups[0])
        request = Request(group_id=name, topics=None, require_stable=True, min_version=2, max_version=7)
        return _positions_of(self._admin.ask(request, node))

    def _write(self, name: str, positions: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, str]:
        from kafka.protocol.consumer import OffsetCommitRequest as Request

        def encode(index: int, position: CommittedOffset) -> Any:
            # The source's leader epochs mean nothing here.
            return Request.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
                index, position.offset, committed_leader_epoch=-1, committed_metadata=position.metadata
            )

        topics = [
            Request.OffsetCommitRequestTopic(name=topic, partitions=[encode(*item) for item in partitions.items()])
            for topic, partitions in _by_topic(positions).items()
        ]
        # The defaults name no member.
        request = Request(group_id=name, topics=topics, max_version=_LAST_VERSION_WITH_NAMES)
        answer = self._admin.ask(request, self._coordinator(name))
        return _errors_of((topic.name, partition) for topic in answer.topics for partition in topic.partitions)

    # Share groups

    def _read_share(self, name: str) -> dict[TopicPartition, CommittedOffset]:
        from kproxy.migrate.clusters.shares import DescribeShareGroupOffsetsRequest as Request

        groups = [Request.DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)]
        answer = self._admin.ask(Request(groups=groups), self._coordinator(name)).groups[0]
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        _raise_for_code(answer.error_code, answer.error_message)
        positions = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                _raise_for_code(partition.error_code, partition.error_message)
                if partition.start_offset >= 0:  # without, nothing was read so far
                    place = str(topic.topic_name), int(partition.partition_index)
                    positions[place] = CommittedOffset(int(partition.start_offset))
        return positions

    def _write_share(self, name: str, positions: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, str]:
        from kproxy.migrate.clusters.shares import AlterShareGroupOffsetsRequest as Request

        topic_type = Request.AlterShareGroupOffsetsRequestTopic
        partition_type = topic_type.AlterShareGroupOffsetsRequestPartition
        topics = [
            topic_type(topic, [partition_type(index, position.offset) for index, position in partitions.items()])
            for topic, partitions in _by_topic(positions).items()
        ]
        answer = self._admin.ask(Request(group_id=name, topics=topics), self._coordinator(name))
        _raise_for_code(answer.error_code, answer.error_message)
        return _errors_of((topic.topic_name, partition) for topic in answer.responses for partition in topic.partitions)

    # Who answers

    def _coordinator(self, name: str) -> int:
        if name not in self._coordinators:
            from kafka.protocol.metadata import FindCoordinatorRequest

            answer = self._admin.ask(FindCoordinatorRequest(key=name, key_type=0, max_version=3))
            _raise_for_code(answer.error_code)
            self._coordinators[name] = int(answer.node_id)
        return self._coordinators[name]

    def _find_coordinators(self, names: Sequence[str]) -> None:
        from kafka.protocol.metadata import FindCoordinatorRequest as Request

        if self._admin.api_version(Request) < _WITH_MANY_COORDINATORS:
            return
        for start in range(0, len(names), _BATCH_SIZE):
            keys = list(names[start : start + _BATCH_SIZE])
            answer = self._admin.ask(Request(key_type=0, coordinator_keys=keys, min_version=_WITH_MANY_COORDINATORS))
            self._coordinators |= {
                str(coordinator.key): int(coordinator.node_id)
                for coordinator in answer.coordinators
                if not coordinator.error_code
            }

    def _with_retries(self, name: str, ask: Callable[[], dict[TopicPartition, Any]]) -> dict[TopicPartition, Any]:
        until = time.monotonic() + _TIMEOUT
        while True:
            try:
                return ask()
            except _RetriableError as error:
                self._coordinators.pop(name, None)
                if time.monotonic() >= until:
                    raise GroupRefusedError(str(error)) from None
            time.sleep(_RETRY_INTERVAL)


def _fetch_request(names: Sequence[str]) -> Any:
    from kafka.protocol.consumer import OffsetFetchRequest as Request

    return Request(
        groups=[Request.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names],
        require_stable=True,
        min_version=_WITH_MANY_GROUPS,
        max_version=_LAST_VERSION_WITH_NAMES,
    )


def _positions_of(group: Any) -> dict[TopicPartition, CommittedOffset]:
    """Return the positions in the response for a group. Raises GroupRefusedError."""
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    _raise_for_code(group.error_code)
    positions = {}
    for topic in group.topics:
        for partition in topic.partitions:
            _raise_for_code(partition.error_code)
            if partition.committed_offset >= 0:
                place = (str(topic.name), int(partition.partition_index))
                positions[place] = CommittedOffset(int(partition.committed_offset), partition.metadata)
    return positions


class _RetriableError(GroupRefusedError):
    """A refusal that may not repeat at the next attempt."""


def _raise_for_code(code: int, text: str | None = None) -> None:
    if not code:
        return
    if code in _HAS_MEMBERS:
        raise GroupRefusedError(
            "the group has members there: stop its consumers, or wait until their sessions have ended"
        )
    if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
        raise _RetriableError("a transaction with positions of this group has not ended")
    raise (_RetriableError if code in _RETRIABLE else GroupRefusedError)(text or error_name(code))


def _by_topic(positions: Mapping[TopicPartition, CommittedOffset]) -> dict[str, dict[int, CommittedOffset]]:
    topics: dict[str, dict[int, CommittedOffset]] = defaultdict(dict)
    for (topic, index), position in sorted(positions.items()):
        topics[topic][index] = position
    return topics


def _errors_of(answers: Iterable[tuple[str, Any]]) -> dict[TopicPartition, str]:
    """Return the error text of each partition.

    Raises GroupRefusedError for an error of the whole group, which brokers return for every partition.
    """
    errors = {}
    for topic, partition in answers:
        code = int(partition.error_code)
        if code in _HAS_MEMBERS or code in _RETRIABLE:
            _raise_for_code(code)
        text = getattr(partition, "error_message", None)
        errors[str(topic), int(partition.partition_index)] = (text or error_name(code)) if code else ""
    return errors
