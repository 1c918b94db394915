"""The ids in records of Confluent's own serializers, and in those of others."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from uuid import UUID

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # authlib's about itself
    from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from kproxy.migrate.schemas.recordids import MAX_IDS, TopicSample
from kproxy.protocol.records.decoding import Record
from tests.harness.servers.schema_registry import SchemaRegistry, guid_of

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def record(
    value: bytes | None, key: bytes | None = None, headers: tuple[tuple[bytes, bytes | None], ...] = ()
) -> Record:
    return Record(0, 0, key, value, headers)


def sample(*records: Record) -> TopicSample:
    made = TopicSample()
    made.add(records)
    return made


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry(700).serving() as made:
        yield made


def test_ids_of_confluents_serializer(registry: SchemaRegistry) -> None:
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer = AvroSerializer(client, ORDER)
        values = [serializer({"id": n}, SerializationContext("orders", MessageField.VALUE)) for n in range(3)]
        keys = [serializer({"id": n}, SerializationContext("orders", MessageField.KEY)) for n in range(3)]
    found = sample(*(record(value, key) for value, key in zip(values, keys, strict=True)))
    assert [(name, part.ids, part.framed) for name, part in found.parts()] == [
        ("key", {700: 3}, 3),
        ("value", {700: 3}, 3),
    ]


def test_guids_in_headers_of_confluents_serializer(registry: SchemaRegistry) -> None:
    context = SerializationContext("orders", MessageField.VALUE, [])
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer = AvroSerializer(client, ORDER, conf={"schema.id.serializer": header_schema_id_serializer})
        value = serializer({"id": 1}, context)
    headers = tuple((name.encode(), bytes(content)) for name, content in context.headers)
    ((name, part),) = sample(record(value, b"k", headers)).parts()
    schema = registry.subjects["orders-value"].versions[1].schema
    assert (name, part.ids, part.in_headers, part.framed) == ("value", {UUID(guid_of(schema)): 1}, 1, 0)


def framed(id: int) -> bytes:
    return struct.pack(">bi", 0, id) + b"x"


@pytest.mark.parametrize(
    "value",
    [b"", b"\0", b"\0\0\0\1", struct.pack(">q", 5), framed(0), framed(-1), b"text", b"\1" + bytes(range(16)), None],
)
def test_values_without_an_id(value: bytes | None) -> None:
    assert not list(sample(record(value)).parts())


def test_a_few_values_that_begin_with_zero_by_chance_are_no_ids() -> None:
    texts = [record(b"text")] * 50
    assert not list(sample(*texts, record(framed(7)), record(framed(8))).parts())
    assert list(sample(*[record(framed(7))] * 50, *texts[:3]).parts())


def test_tombstones_do_not_count() -> None:
    ((_, part),) = sample(record(framed(7)), *[record(None)] * 100).parts()
    assert (part.count, part.framed) == (1, 1)


def test_different_ids_are_bounded() -> None:
    ((_, part),) = sample(*(record(framed(n)) for n in range(1, 3 * MAX_IDS))).parts()
    assert len(part.ids) == MAX_IDS


def test_headers_that_are_no_ids() -> None:
    for content in (None, b"", b"\1short", b"\2" + bytes(16), b"\0\0\0\0\0"):
        assert not list(sample(record(b"text", None, ((b"__value_schema_id", content),))).parts())
    ((_, part),) = sample(record(b"text", None, ((b"__value_schema_id", framed(7)),))).parts()
    assert part.ids == {7: 1}


def test_the_topic_of_a_registry() -> None:
    noop, schema = b'{"keytype":"NOOP","magic":0}', b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}'
    assert sample(record(None, noop), record(b"{}", schema)).is_registry
    assert not sample(record(None, noop), record(b"{}", b"key")).is_registry
    assert not sample(record(b"{}")).is_registry


@given(st.lists(st.tuples(st.binary(max_size=40) | st.none(), st.binary(max_size=40) | st.none())))
def test_any_bytes(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    found = sample(*(record(value, key, ((b"__key_schema_id", value),)) for key, value in pairs))
    assert found.records == len(pairs)
    assert all(part.ids for _, part in found.parts())
