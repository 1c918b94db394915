"""Records that flow through a switch, and a test's own last copy between the two clusters."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kproxy.migrate.clusters import producerids
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.offsets.groupsync import GroupOffsetSync, GroupResult, unwritten_positions
from kproxy.migrate.spec.migration import Migration
from tests.harness.clients.flow import Log
from tests.harness.clients.kafka_python import KafkaAdminClient, KafkaError
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.moving import topics
from tests.harness.process import wait_until
from tests.harness.topics import commit_as, read_topic

# The source's brokers have not handed out any id from here on, in a test.
_FLOOR = 2_000


class Numbers(Log):
    """The records that a consumer has read, by number, because offsets differ in the other cluster.

    `contiguous`: each number of a partition must come, and not before the one before it.
    """

    def __init__(self, *, contiguous: bool) -> None:
        super().__init__()
        self._contiguous = contiguous

    def add(self, partition: int, offset: int, number: int) -> None:
        seen = self.seen[partition]
        highest = max(seen, default=-1) if number not in seen else -1
        if number not in seen and (number < highest or (self._contiguous and number != highest + 1)):
            self.problems.append(f"partition {partition}: {number} came first after {highest}")
        seen[number] = number


def apart(sides: TwoSides) -> None:
    """Make the target assign other producer ids than the source: `kproxy migrate` does it long before a switch."""
    brokers = dict(enumerate(sides.target.split(","), 1))
    producerids.raise_to(brokers, _FLOOR, producerids.take_one_id_each(brokers))


def positions(bootstrap: str, group: str) -> list[TopicPartition]:
    """Return the positions of a group. Waits for a coordinator that moves or loads, as after a restart.

    Where such a coordinator refuses, librdkafka's own question ends the process (confluentinc/librdkafka#5040).
    """

    def read() -> tuple[list[TopicPartition]] | None:
        try:
            found = admin.list_group_offsets(group)[group]
        except KafkaError as error:
            if error.retriable:
                return None
            raise
        return ([TopicPartition(place.topic, place.partition, at.offset) for place, at in found.items()],)

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return wait_until(read, f"the positions of {group}")[0]
    finally:
        admin.close()


def carry(sides: TwoSides, topic: str, *groups: str) -> dict[str, dict[int, int]]:
    """Copy the last records, and the positions of these groups; return these positions, by group and partition."""
    copied = sides.copy({topic: topic})
    carried: dict[str, dict[int, int]] = {}
    for group in groups:
        there, carried[group] = [], {}
        for one in positions(sides.source, group):
            carried[group][one.partition] = one.offset
            known = copied[topic, one.partition]
            at = known.map.next_target(one.offset)
            there.append(TopicPartition(topic, one.partition, known.target_next if at is None else at))
        assert there, f"group {group} has no position"
        commit_as(sides.target, group, there)
    return carried


def carry_topics(sides: TwoSides, prefix: str, *, size: int = 1 << 20) -> None:
    """Copy all topics with such names, as `prepare` and `copy` do."""
    admin, target = AdminClient({"bootstrap.servers": sides.source}), AdminClient({"bootstrap.servers": sides.target})
    there = target.list_topics(timeout=30).topics
    for name, topic in admin.list_topics(timeout=30).topics.items():
        if prefix not in name or name.startswith("kproxy-migration"):
            continue
        resource = ConfigResource(ResourceType.TOPIC, name)
        policy = admin.describe_configs([resource])[resource].result(30)["cleanup.policy"].value
        if name not in there:
            topics(sides.target, {name: len(topic.partitions)}, 1, **{"cleanup.policy": policy})
        sides.copy({name: name}, sparse="compact" in policy, size=size)


def carry_all(sides: TwoSides, prefix: str) -> list[GroupResult]:
    """Copy these topics, and the positions of all groups with such names, as a switch does.

    On the way back this overwrites the positions that groups had committed before, as a rollback does.
    """
    carry_topics(sides, prefix)
    migration = Migration({}, {}, sides.name)
    with Admin(sides.source) as source, Admin(sides.target) as target:
        offsets = GroupOffsetSync(migration, source, target, force=bool(sides.begins)).read_state()
        results = offsets.run(lambda group: prefix in group, dry_run=False)
    left = unwritten_positions(results, migration)
    assert not left, left
    return results


def in_log(bootstrap: str, topic: str, partitions: int) -> list[list[int]]:
    """Return the numbers in each partition, in order."""
    return [[number for _, number in log] for log in offsets_in_log(bootstrap, topic, partitions)]


def offsets_in_log(bootstrap: str, topic: str, partitions: int) -> list[list[tuple[int, int]]]:
    """Return the offset and the number of each committed record, by partition, in order."""
    logs: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
    for message in read_topic(bootstrap, topic, partitions, **{"isolation.level": "read_committed"}):
        partition, value, offset = message.partition(), message.value(), message.offset()
        assert partition is not None
        assert value is not None
        assert offset is not None
        logs[partition].append((offset, int(value)))
    return [sorted(log) for log in logs]


def lowest_epoch(bootstrap: str, topic: str) -> int:
    """Return the lowest epoch of the partitions' leaders; -1 if one has no leader."""
    from kafka.protocol.metadata import MetadataRequest

    with Admin(bootstrap) as admin:
        (metadata,) = (each for each in admin.ask(MetadataRequest(topics=None)).topics if each.name == topic)
    return min(each.leader_epoch if each.leader_id >= 0 else -1 for each in metadata.partitions)
