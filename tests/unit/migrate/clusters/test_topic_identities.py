"""Which topics a migration began with, from what the state topic has, and what became of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.topic_identities import (
    MigratedTopic,
    describe_change,
    describe_changes,
    migrated_topics,
    prepared_topics,
    topic_key,
)
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.requests import ClusterMetadata, PartitionMetadata
from kproxy.migrate.copier.state import PartitionState, state_key
from kproxy.migrate.spec.migration import SOURCE, TARGET
from kproxy.migrate.verify.trailing_records import CopiedEnd

STATE = PartitionState("eu.t", 0, 10, 12, 10, 100, origin="c/t1", destination="d/u1", map=OffsetMap([(0, 2, 10)]))
PREPARED = MigratedTopic("t", "eu.t", "c/t1", "d/u1")
COPIED = replace(PREPARED, ends={0: 12}, records=10)


def values(*states: PartitionState, prepared: object = None) -> dict[bytes, bytes]:
    found = {state_key("partition", "t", at): state.to_json() for at, state in enumerate(states)}
    return found if prepared is None else found | {topic_key("t"): json.dumps(prepared).encode()}


def layout(cluster: str, error: int = 0, topic_id: str = "", *names: str) -> ClusterMetadata:
    topics = {name: (error, (PartitionMetadata(0, 0, 1),)) for name in names}
    return ClusterMetadata(cluster, {}, topics, dict.fromkeys(names, topic_id))


def test_what_is_known() -> None:
    assert migrated_topics({}) == {}
    assert migrated_topics(values(prepared=PREPARED.to_record())) == {"t": PREPARED}
    assert migrated_topics(values(STATE)) == {"t": COPIED}
    # Another partition was copied by an older kproxy, or from brokers that tell no ids.
    silent = replace(STATE, origin="", destination="d/", target_next=7, records=5)
    assert migrated_topics(values(silent, STATE)) == {"t": replace(COPIED, ends={0: 7, 1: 12}, records=15)}
    assert migrated_topics(values(silent, prepared=PREPARED.to_record())) == {
        "t": replace(COPIED, ends={0: 7}, records=5)
    }
    # What was copied says more, and a topic with another name on the target is another one.
    other = replace(PREPARED, destination="d/u2").to_record()
    assert migrated_topics(values(STATE, prepared=other)) == {"t": COPIED}
    renamed = replace(PREPARED, target_topic="us.t", destination="d/u3").to_record()
    assert migrated_topics(values(silent, prepared=renamed))["t"].destination == "d/"


@pytest.mark.parametrize("record", [None, [], 7, "", {}, {"target_topic": "t"}, {"v": 2, "origin": "x"}])
def test_what_kproxy_did_not_write_says_nothing(record: object) -> None:
    assert migrated_topics({topic_key("t"): json.dumps(record).encode()}) == {}
    assert migrated_topics({topic_key("t"): b"\xff", state_key("map", "t", 0, 0): b"?", b"?": b""}) == {}
    with pytest.raises(WireError):
        migrated_topics({b'["topic",': b""})


@pytest.mark.parametrize(
    ("one", "side", "now", "said"),
    [
        (COPIED, TARGET, layout("d", 0, "u1", "eu.t"), ""),
        (COPIED, TARGET, layout("d", 0, "", "eu.t"), ""),  # brokers that tell no ids
        (COPIED, TARGET, layout("d", 29, "", "eu.t"), ""),  # one may not see it
        (COPIED, TARGET, layout("d", 3, "", "eu.t"), "eu.t, to which 10 records were copied, no longer exists on the target"),
        (COPIED, TARGET, layout("d"), "eu.t, to which 10 records were copied, no longer exists on the target"),
        (COPIED, TARGET, layout("d", 0, "u2", "eu.t"), "eu.t on the target is not the topic to which 10 records were"),
        (COPIED, TARGET, layout("e", 0, "", "eu.t"), "eu.t on the target is not the topic to which 10 records were"),
        (COPIED, SOURCE, layout("c", 0, "t2", "t"), "t on the source is not the topic from which 10 records were"),
        (replace(COPIED, records=0), SOURCE, layout("c", 0, "t2", "t"), "t on the source is not the topic with which the"),
        (PREPARED, TARGET, layout("d"), "eu.t on the target no longer exists: run kproxy migrate prepare"),
        (PREPARED, TARGET, layout("d", 0, "u2", "eu.t"), "eu.t on the target is not the topic that was prepared: its to"),
    ],
)  # fmt: skip
def test_what_became_of_a_topic(one: MigratedTopic, side: str, now: ClusterMetadata, said: str) -> None:
    found = describe_change(one, side, now)
    assert found.startswith(said)
    assert bool(found) is bool(said)
    assert describe_changes(side, {"t": one}, now) == ({"t": found} if said else {})


def test_what_prepare_writes_down() -> None:
    here, there = layout("c", 0, "t1", "t", "new"), layout("d", 5, "u1", "eu.t")  # without a leader so far
    assert prepared_topics({"t": "eu.t", "new": "new", "gone": "gone"}, here, there) == {"t": PREPARED}


def test_a_marker_of_the_copy_differs_from_a_switch_marker() -> None:
    assert CopiedEnd.of(STATE) == CopiedEnd(12, has_marker=True)
    assert CopiedEnd.of(replace(STATE, target_next=13)) == CopiedEnd(13)
    assert CopiedEnd.of(replace(STATE, map=OffsetMap())) == CopiedEnd(12)
