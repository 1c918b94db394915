"""Records of Confluent's serializers: the plan names their schemas, and clients read them with the copied registry."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from tests.harness.clients.flow import create_topic
from tests.harness.clusters.twosides import TwoSides
from tests.harness.process import PATIENCE_S
from tests.harness.servers.schema_registry import SchemaRegistry
from tests.harness.topics import unique

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # authlib's about itself
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

pytestmark = pytest.mark.integration

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


@pytest.fixture
def registries() -> Iterator[tuple[SchemaRegistry, SchemaRegistry]]:
    with SchemaRegistry(300).serving() as source, SchemaRegistry().serving() as target:
        yield source, target


def run(command: str, file: Path, *args: str) -> tuple[int, Any]:
    """The exit code and the JSON of a command."""
    words = [sys.executable, "-m", "kproxy", "migrate", command, str(file), "--json", *args]
    result = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def about(plan: Any, topic: str) -> list[tuple[str, str]]:
    """The severities and texts of the plan about schemas of a topic."""
    return [
        (finding["severity"], finding["text"])
        for finding in plan["findings"]
        if finding["subject"] == f"topic {topic}" and "schema" in finding["text"]
    ]


def test_the_plan_and_the_copy(
    sides: TwoSides, registries: tuple[SchemaRegistry, SchemaRegistry], tmp_path: Path
) -> None:
    source, target = registries
    topic, plain, kept = unique("orders"), unique("plain"), unique("registry")
    for name in (topic, plain, kept):
        create_topic(sides.source, name, 3)
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": source.url}) as client:
        serializer = AvroSerializer(client, ORDER)
        values = [serializer({"id": number}, context) for number in range(300)]
    producer = Producer({"bootstrap.servers": sides.source, "compression.type": "zstd"})
    for value in values:
        producer.produce(topic, value)
        producer.produce(plain, b"\0 by chance")
        producer.produce(plain, b"text")
    aborted = Producer({"bootstrap.servers": sides.source, "transactional.id": unique("aborted")})
    aborted.init_transactions(PATIENCE_S)
    aborted.begin_transaction()
    aborted.produce(topic, b"\0\0\0\x03\xe7 of no committed record")
    aborted.flush(PATIENCE_S)
    aborted.abort_transaction(PATIENCE_S)
    producer.produce(kept, b"{}", b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}')
    assert producer.flush(PATIENCE_S) == 0
    clusters: dict[str, Any] = {
        "name": sides.name,
        "source": {"bootstrap-servers": sides.source},
        "target": {"bootstrap-servers": sides.target},
        "topics": {"include": [topic, plain, kept]},
    }
    file = tmp_path / "move.yaml"
    file.write_text(yaml.safe_dump(clusters))
    _, plan = run("plan", file, "--sample", "0s")
    ((severity, text),) = about(plan, topic)
    assert severity == "warning"
    assert "300: their readers need a schema registry that knows these ids" in text
    assert not about(plan, plain)
    ((severity, text),) = about(plan, kept)
    assert f"topics.exclude: [{kept}]" in text

    file.write_text(yaml.safe_dump({**clusters, "schemas": {"source": source.url, "target": target.url}}))
    _, plan = run("plan", file, "--sample", "0s")
    missing = "values have schema ids that the target's registry does not have: 300; run kproxy migrate schemas FILE"
    assert about(plan, topic) == [("warning", missing)]
    assert run("schemas", file, "--dry-run")[0] == 1
    code, result = run("schemas", file)
    assert (code, result["verified"], result["ids"]) == (0, True, 1)
    _, plan = run("plan", file, "--sample", "0s")
    same = "values have schema ids (300); both registries have the same schemas for them"
    assert about(plan, topic) == [("note", same)]
    with SchemaRegistryClient({"url": target.url}) as client:
        deserializer = AvroDeserializer(client)
        assert [deserializer(value, context)["id"] for value in values] == list(range(300))
