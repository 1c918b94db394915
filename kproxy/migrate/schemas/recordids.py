"""The ids of schemas in a record, as Confluent's serializers write them (pure).

In front of a key or a value: a byte 0 and an id of four bytes, or a byte 1 and a GUID of 16 bytes. Newer serializers
write the same bytes into the header `__key_schema_id` or `__value_schema_id` instead.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from kproxy.protocol.records.decoding import Record

Part = Literal["key", "value"]
SchemaId = int | UUID
_HEADERS: dict[bytes, Part] = {b"__key_schema_id": "key", b"__value_schema_id": "value"}
_ID, _GUID = 0, 1
# The beginning of the keys of a registry's own records.
_REGISTRY_KEY = b'{"keytype":"'
# The most different ids of a part of a topic that are kept.
MAX_IDS = 1000
# Of the sampled keys or values, the share that must begin as with an id. Tests and mistakes leave others.
_SHARE = 0.9


@dataclass(slots=True)
class PartSample:
    """The keys, or the values, of a topic's sampled records."""

    count: int = 0
    """The number of samples, without null."""
    framed: int = 0
    """The number of samples that begin as with an id."""
    in_headers: int = 0
    """The number of samples with the id in a header."""
    ids: dict[SchemaId, int] = field(default_factory=dict)
    """The ids, with the number of records; at most `MAX_IDS`."""

    @property
    def looks_framed(self) -> bool:
        """True if nearly all begin as with an id, or some have one in a header."""
        return self.in_headers > 0 or (self.framed > 0 and self.framed >= _SHARE * self.count)

    def _add(self, id: SchemaId) -> None:
        if id in self.ids or len(self.ids) < MAX_IDS:
            self.ids[id] = self.ids.get(id, 0) + 1


@dataclass(slots=True)
class TopicSample:
    """The sampled records of a topic."""

    records: int = 0
    of_registry: int = 0
    """The number of samples with the key of a record of a registry."""
    key: PartSample = field(default_factory=PartSample)
    value: PartSample = field(default_factory=PartSample)

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self.records += 1
            self.of_registry += record.key is not None and record.key.startswith(_REGISTRY_KEY)
            in_headers = dict(_ids_in_headers(record.headers))
            for part, content, sample in (("key", record.key, self.key), ("value", record.value, self.value)):
                if content is None:
                    continue
                sample.count += 1
                if part in in_headers:
                    sample.in_headers += 1
                    sample._add(in_headers[part])
                elif (id := _id_in_front(content)) is not None:
                    sample.framed += 1
                    sample._add(id)

    @property
    def is_registry(self) -> bool:
        """True if these are the records in which a registry keeps its schemas (its topic is `_schemas` by default)."""
        return self.of_registry > 0 and self.of_registry == self.key.count

    def parts(self) -> Iterator[tuple[Part, PartSample]]:
        """Yield the parts that look as if they had ids."""
        if self.key.looks_framed:
            yield "key", self.key
        if self.value.looks_framed:
            yield "value", self.value


def _ids_in_headers(headers: Iterable[tuple[bytes, bytes | None]]) -> Iterator[tuple[Part, SchemaId]]:
    for name, content in headers:
        if name in _HEADERS and content is not None and (id := _id_in_front(content, with_guid=True)) is not None:
            yield _HEADERS[name], id


def _id_in_front(content: bytes, *, with_guid: bool = False) -> SchemaId | None:
    """Return the id at the beginning; None if none is there.

    A GUID counts only where it is expected: a byte 1 begins many values.
    """
    if with_guid and len(content) >= 17 and content[0] == _GUID:
        return UUID(bytes=bytes(content[1:17]))
    if len(content) >= 5 and content[0] == _ID:
        id = int.from_bytes(content[1:5], "big", signed=True)
        return id if id > 0 else None
    return None
