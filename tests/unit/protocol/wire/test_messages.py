"""Whole messages, read and written by their definitions: compared with the bytes that the tests make of them."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.definitions import Field, load_message
from kproxy.protocol.wire.messages import MessageReader, encode_fields, encode_request, read_request, response_reader
from kproxy.protocol.wire.primitives import Underflow
from tests.unit.kafka_frames import encode, messages, request, response
from tests.unit.protocol.capture.shown import MESSAGES


def known(fields: tuple[Field, ...], version: int, values: Any, *, tagged: bool) -> Any:
    """The fields that have a definition, with those that are tagged or without."""
    if isinstance(values, list) and fields:
        return [known(fields, version, one, tagged=tagged) for one in values]
    if not isinstance(values, dict):
        return values
    return {
        field.name: known(field.fields, version, values[field.name], tagged=tagged)
        if field.fields
        else values[field.name]
        for field in fields
        if field.name in values and (tagged or version not in field.tagged)
    }


@pytest.mark.parametrize("which", MESSAGES, ids=lambda which: f"{which[0]}-v{which[2]}")
def test_every_message(which: tuple[str, int, int]) -> None:
    name, _, version = which
    message = load_message(name)
    reader = MessageReader(name, version)
    header = b"\0" if version in message.flexible and name != "ApiVersionsResponse" else b""

    @settings(max_examples=4, suppress_health_check=list(HealthCheck))
    @given(values=messages(name, version), data=st.data())
    def check(values: dict[str, Any], data: st.DataObject) -> None:
        body = header + encode(message, version, values)
        read = reader.read(memoryview(b"123" + body), 3)
        assert encode(message, version, read) == encode(
            message, version, known(message.fields, version, values, tagged=True)
        )
        untagged = known(message.fields, version, read, tagged=False)
        assert encode_fields(name, version, untagged) == encode(message, version, untagged)
        at = data.draw(st.integers(0, len(body)))
        wild = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80" * 6])
        )
        for spoiled in (body[:at], body[:at] + wild, body[:at] + wild + body[at + len(wild) :]):
            with contextlib.suppress(WireError, Underflow):
                reader.read(spoiled)

    check()


def test_what_is_left_out_is_empty() -> None:
    assert encode_fields("MetadataRequest", 4, {"Topics": None}) == b"\xff\xff\xff\xff\0"
    assert encode_fields("MetadataRequest", 1, {}) == bytes(4)


def test_a_request_and_its_header() -> None:
    frame = encode_request(ApiKey.FIND_COORDINATOR, 3, 9, {"Key": "g\N{SNOWMAN}", "KeyType": 1})
    body = b"\x05g\xe2\x98\x83\x01\0"
    assert frame == request(ApiKey.FIND_COORDINATOR, 3, 9, body, client_id="kproxy")
    assert read_request(frame) == (ApiKey.FIND_COORDINATOR, 3, 9, {"Key": b"g\xe2\x98\x83", "KeyType": 1})


def test_indexes_of_fields_also_where_the_rest_is_missing() -> None:
    body = struct.pack(">ih1si", 1, 1, b"t", 2) + struct.pack(">ihq", 0, 6, 1) + struct.pack(">ihq", 1, 0, 1) + bytes(4)
    frame = response(ApiKey.PRODUCE, 1, body)
    reader = response_reader(ApiKey.PRODUCE, 1, "ErrorCode")
    (topic,) = reader.read(frame, 8)["Responses"]
    assert [partition["ErrorCode"] for partition in topic["PartitionResponses"]] == reader.indexes == [23, 37]
    with pytest.raises(Underflow):
        reader.read(frame[:30], 8)
    assert reader.indexes == [23]


def test_the_elements_of_an_array_one_by_one() -> None:
    body = struct.pack(">i", 2) + b"\0\1a\0\1x" + b"\0\1b"
    groups = response_reader(ApiKey.LIST_GROUPS, 0).elements("Groups", body, 0)
    assert next(groups) == ({"GroupId": b"a", "ProtocolType": b"x"}, None)
    with pytest.raises(Underflow):
        next(groups)
