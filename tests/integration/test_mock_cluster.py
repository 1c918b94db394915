"""librdkafka's mock cluster behind kproxy: it refuses a newer ApiVersions request in a shape of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.process import Kproxy

pytestmark = pytest.mark.integration


def test_a_client_works_with_a_mock_cluster(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    mock = Producer({"test.mock.num.brokers": 3, "log_level": 0})
    there = [f"{one.host}:{one.port}" for one in mock.list_topics(timeout=30).brokers.values()]
    errors: list[object] = []
    with Kproxy(tmp_path, there[0]) as kproxy:
        client = Producer({"bootstrap.servers": kproxy.bootstrap, "log_level": 0})
        brokers = client.list_topics(timeout=30).brokers.values()
        assert {one.port for one in brokers}.isdisjoint(int(one.rpartition(":")[2]) for one in there)
        client.produce("orders", b"value", on_delivery=lambda error, _: errors.append(error))
        assert client.flush(30) == 0
        assert errors == [None]
        assert "ends before its last field" not in kproxy.log
