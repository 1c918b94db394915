"""The forecast of what the source deletes, by the answers of a real broker."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copy.retention import RetentionWatch, seconds_until_due
from tests.harness.clusters.twosides import TwoSides
from tests.harness.topics import create_topic

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000


def test_the_offsets_that_retention_reaches(clusters: TwoSides) -> None:
    """Records of 5.5, 3.5 and 0.5 hours ago are as old as six hours in 0.5, 2.5 and 5.5 hours."""
    topic = create_topic(clusters.source, 2, 1, retention_ms=str(6 * HOUR_MS))
    now_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": clusters.source})
    for hours, count in ((5.5, 10), (3.5, 20), (0.5, 30)):
        for _ in range(count):
            producer.produce(topic, b"x", partition=0, timestamp=now_ms - int(hours * HOUR_MS))
    assert producer.flush(60) == 0

    full, empty = (topic, 0), (topic, 1)
    watch = RetentionWatch({topic: 6 * HOUR_MS})
    with ClusterClient(clusters.source) as source:
        due = watch.read_if_due(source, {full: 60, empty: 0})
        assert watch.read_if_due(source, {full: 60, empty: 0}) is None, "it was asked just before"
    assert due is not None
    assert [offset for _, offset in due[full]] == [10, 10, 30, 60, 60, 60]  # in 1, 2, 4, 8, 16 and 24 hours
    assert {offset for _, offset in due[empty]} == {0}
    now = time.monotonic()
    assert seconds_until_due(due[full], 60, 0.0, now) is None
    late = seconds_until_due(due[full], 10, 0.0, now)
    assert late is not None
    assert 2 * 3600 - 60 < late < 4 * 3600
