"""All messages, and how a copy of each may look."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from kproxy.protocol.capture.framecopy import FrameCopy, plan_for
from kproxy.protocol.capture.redaction import is_redacted
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.definitions import Field, MessageDefinition
from tests.unit.kafka_frames import chunks, request, response

SECRET = b"a-secret-that-nobody-may-see"
# A batch that has no records.
NO_RECORDS = struct.pack(">qiibIhiqqqhii", 0, 49, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 0)


@cache
def everything() -> tuple[MessageDefinition, ...]:
    """All messages that there are definitions of."""
    found: dict[str, MessageDefinition] = {}
    for place in definitions._folders():
        for path in sorted(place.glob("*.json")):
            if path.stem.endswith(("Request", "Response")):
                found.setdefault(path.stem, definitions.read_definition(path))
    return tuple(found.values())


def fields(some: tuple[Field, ...]) -> Iterator[Field]:
    for field in some:
        yield field
        yield from fields(field.fields)


# Of each message that kproxy passes on, each version.
MESSAGES = [
    (message.name, message.api_key, version)
    for message in everything()
    for version in message.versions
    if message.api_key in APIS and APIS[message.api_key].serves(version)
]


def framed(name: str, key: int, version: int, body: bytes) -> bytes:
    made = request if name.endswith("Request") else response
    return made(key, version, body=body)


def copied(name: str, key: int, version: int, frame: bytes, sizes: list[int]) -> FrameCopy:
    plan = plan_for(key, version, of_request=name.endswith("Request"))
    assert plan is not None
    copy = FrameCopy(plan)
    for piece in chunks(frame[4:], sizes):
        copy.feed(memoryview(piece))
    return copy


def emptied(message: str, some: tuple[Field, ...], values: Any, version: int) -> Any:
    """The message as it may be shown."""
    if values is None:
        return None
    out = {}
    for field in some:
        if field.name not in values:
            continue
        value = values[field.name]
        if field.fields:
            many = value if isinstance(value, list) else [value]
            new = [emptied(message, field.fields, one, version) for one in many]
            value = None if value is None else new if isinstance(value, list) else new[0]
        elif is_redacted(message, field) and value is not None:
            blank = NO_RECORDS if field.type == "records" and value else type(value)()
            value = [type(one)() for one in value] if isinstance(value, list) else blank
        out[field.name] = value
    return out


def fetched(records: bytes) -> bytes:
    """A Fetch response of version 11 with these records."""
    partition = struct.pack(">ihqqqii", 0, 0, 5, 5, 0, -1, -1) + struct.pack(">i", len(records)) + records
    body = struct.pack(">ihii", 0, 0, 1, 1) + b"\0\1t" + struct.pack(">i", 1) + partition
    return response(ApiKey.FETCH, 11, body)
