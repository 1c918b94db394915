"""Processes of the part `large`, towards a source cluster.

python -m bench.largejob fill BOOTSTRAP PARTITIONS    topics, records, and groups with positions
python -m bench.largejob more BOOTSTRAP PARTITIONS    another record in each partition
"""

from __future__ import annotations

import sys

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined, unused-ignore]  # its types lack it in some versions

from bench.migratejob import fill

# Partitions of a topic, and of a group; records in a partition, and their size.
EACH, EACH_GROUP, RECORDS, SIZE = 50, 10, 5, 100
# Topics that are created, and groups whose positions are written, in one step.
_TOPICS, _GROUPS = 10, 50
_TIMEOUT_S = 120


def topic_names(partitions: int) -> list[str]:
    return [f"topic-{number:04}" for number in range(partitions // EACH)]


def fill_cluster(bootstrap: str, partitions: int) -> None:
    admin, names = AdminClient({"bootstrap.servers": bootstrap}), topic_names(partitions)
    for first in range(0, len(names), _TOPICS):
        made = admin.create_topics([NewTopic(name, EACH, 1) for name in names[first : first + _TOPICS]])
        for created in made.values():
            created.result(_TIMEOUT_S)
    for name in names:
        fill(bootstrap, name, EACH, SIZE, "none", RECORDS, RECORDS * EACH)
    groups = [
        ConsumerGroupTopicPartitions(
            f"group-{name}-{first}",
            [TopicPartition(name, number, RECORDS // 2) for number in range(first, first + EACH_GROUP)],
        )
        for name in names
        for first in range(0, EACH, EACH_GROUP)
    ]
    while groups:  # a coordinator may still load
        groups = [
            group
            for first in range(0, len(groups), _GROUPS)
            for group in _unwritten(admin, groups[first : first + _GROUPS])
        ]


def _unwritten(admin: AdminClient, groups: list[ConsumerGroupTopicPartitions]) -> list[ConsumerGroupTopicPartitions]:
    """Write the positions of groups; return the groups that lack some of them afterwards."""
    asked = [(group, admin.alter_consumer_group_offsets([group])[group.group_id]) for group in groups]
    return [
        group
        for group, answer in asked
        if any(place.error is not None for place in answer.result(_TIMEOUT_S).topic_partitions)
    ]


def add_records(bootstrap: str, partitions: int) -> None:
    for name in topic_names(partitions):
        fill(bootstrap, name, EACH, SIZE, "none", 1, EACH)


if __name__ == "__main__":
    {"fill": fill_cluster, "more": add_records}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
