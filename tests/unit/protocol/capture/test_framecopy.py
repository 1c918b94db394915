"""Copies of frames: each field as it was, but for those that are left out; of any definition, in any chunks."""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.capture.framecopy import MAX_COPY, CopyTooLong, FrameCopy, plan_for
from kproxy.protocol.capture.redaction import HIDDEN, OPAQUE, SHOWN, is_redacted
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.definitions import MessageDefinition
from kproxy.protocol.wire.primitives import MAX_STRING
from tests.unit.kafka_frames import CHUNKINGS, chunks, encode, messages, request
from tests.unit.protocol.capture.shown import (
    MESSAGES,
    NO_RECORDS,
    SECRET,
    copied,
    emptied,
    everything,
    fetched,
    fields,
    framed,
)


@pytest.mark.parametrize("which", MESSAGES, ids=lambda which: f"{which[0]}-v{which[2]}")
def test_every_message(which: tuple[str, int, int]) -> None:
    name, key, version = which

    @settings(max_examples=4, suppress_health_check=list(HealthCheck))
    @given(values=messages(name, version), sizes=CHUNKINGS)
    def check(values: dict[str, Any], sizes: list[int]) -> None:
        message = definitions.load_message(name)
        frame = framed(name, key, version, encode(message, version, values))
        copy = copied(name, key, version, frame, sizes)
        assert copy.done
        shown = emptied(name, message.fields, values, version)
        assert bytes(copy.out) == framed(name, key, version, encode(message, version, shown))[4:]

    check()


# What is left out


@pytest.mark.parametrize("message", everything(), ids=lambda message: message.name)
def test_whoever_adds_a_definition_looks_at_its_fields(message: MessageDefinition) -> None:
    """All bytes and records are left out; each string was looked at, and is in one of the two lists."""
    for field in fields(message.fields):
        element = field.type.removeprefix("[]")
        if element in ("bytes", "records"):
            assert is_redacted(message.name, field), field.name
        elif element == "string":
            assert field.name in SHOWN | HIDDEN, f"is {field.name} of {message.name} fit to be shown? See redaction.py"
            assert is_redacted(message.name, field) or field.name in SHOWN
        else:
            assert field.fields or element in ("bool", "float64") or element.startswith(("int", "uint", "uuid"))


def test_the_lists_have_no_field_twice_and_none_that_is_nowhere() -> None:
    assert not SHOWN & HIDDEN
    names = {one.name for message in everything() for one in fields(message.fields)}
    assert names >= SHOWN - {"ClientId"} | HIDDEN
    assert {"bytes", "records"} == OPAQUE


@pytest.mark.parametrize("name", ["AlterConfigsRequest", "IncrementalAlterConfigsRequest", "CreateTopicsRequest"])
def test_values_of_configurations(name: str) -> None:
    values = [one for one in fields(definitions.load_message(name).fields) if one.name == "Value"]
    assert values
    assert all(is_redacted(name, one) for one in values)


# Sizes and memory


def test_a_large_frame_costs_nothing() -> None:
    """Of 50 MB of records, there is never more than some hundred bytes."""
    size = 50_000_000
    head = fetched(b"")[4:-4]
    plan = plan_for(ApiKey.FETCH, 11, of_request=False)
    assert plan is not None
    copy = FrameCopy(plan)
    copy.feed(head + struct.pack(">i", size))
    piece = memoryview(SECRET * 5000)
    left = size
    while left:
        part = piece[:left]
        copy.feed(part)
        left -= len(part)
        assert len(copy.out) + len(copy._buffer) < 300
    assert copy.done
    assert copy.left_out == size
    assert bytes(copy.out) == fetched(NO_RECORDS)[4:]


def test_a_copy_that_would_be_too_long() -> None:
    count = 100_000
    topics = b"".join(struct.pack(">h", 20) + b"%020d" % number for number in range(count))
    frame = request(ApiKey.METADATA, 1, body=struct.pack(">i", count) + topics)
    plan = plan_for(ApiKey.METADATA, 1, of_request=True)
    assert plan is not None
    copy = FrameCopy(plan)
    pieces = chunks(frame[4:], [4096])
    with pytest.raises(CopyTooLong):
        deque(map(copy.feed, pieces), maxlen=0)
    assert len(copy.out) <= MAX_COPY + 4096


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_that_kafka_4_serves_no_more(version: int) -> None:
    """Old clients use them, and the definitions still say how they are."""
    body = struct.pack(">hii", 1, 1000, 1) + b"\0\1t" + struct.pack(">iii", 1, 0, len(SECRET)) + SECRET
    copy = copied("ProduceRequest", ApiKey.PRODUCE, version, request(ApiKey.PRODUCE, version, body=body), [1])
    assert copy.done
    assert copy.acks == 1
    assert SECRET not in copy.out
    assert copy.left_out == len(SECRET)


def test_definitions_that_there_are_not() -> None:
    assert plan_for(68, 0, of_request=True) is None  # ConsumerGroupHeartbeat
    assert plan_for(ApiKey.API_VERSIONS, 4, of_request=True) is not None


# Hostile bytes


@pytest.mark.parametrize("which", MESSAGES[:: len(MESSAGES) // 40], ids=lambda which: f"{which[0]}-v{which[2]}")
def test_garbage(which: tuple[str, int, int]) -> None:
    """Only the errors that are meant to come; what it keeps is bounded, and chunks do not decide."""
    name, key, version = which

    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        message = definitions.load_message(name)
        good = framed(name, key, version, encode(message, version, data.draw(messages(name, version))))
        at = data.draw(st.integers(4, len(good)))
        wild = st.binary(max_size=30) | st.sampled_from([b"\xff" * 9, b"\x7f\xff\xff\xff", b"\x80" * 6, b"\0" * 40])
        bad = good[:at] + data.draw(wild) + good[data.draw(st.integers(at, len(good))) :]
        ends = set()
        for sizes in ([1], [1 << 30], data.draw(CHUNKINGS)):
            try:
                copy = copied(name, key, version, bad, sizes)
            except (WireError, CopyTooLong) as error:
                ends.add(type(error).__name__)
            else:
                ends.add(bytes(copy.out) if copy.done else b"")
                assert len(copy._buffer) <= 10
                assert len(copy.out) <= 64 * len(bad)
        assert len(ends) == 1, ends

    check()


def test_a_count_of_two_thousand_million() -> None:
    """It is what comes that costs, not what is announced."""
    frame = request(ApiKey.METADATA, 1, body=struct.pack(">i", 0x7FFFFFFF))
    assert not copied("MetadataRequest", ApiKey.METADATA, 1, frame, [1 << 30]).done


def test_a_string_longer_than_kafka_allows() -> None:
    long = MAX_STRING + 1
    tail = struct.pack(">i", 0)
    frame = request(
        ApiKey.METADATA, 9, body=b"\x02" + bytes([(long + 1) & 0x7F | 0x80, (long + 1) >> 7 & 0x7F | 0x80, 2]) + tail
    )
    with pytest.raises(WireError):
        copied("MetadataRequest", ApiKey.METADATA, 9, frame, [1 << 30])
