"""The first error code of a response, against what kafka-python reads in it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.proxy.relay.errorcode import LONGEST, error_code
from tests.unit.kafka_frames import READERS, encode, messages, name_of, read, response

# kafka-python reads ApiVersions in a way of its own.
READ = [
    (key, version)
    for key in READERS
    if key != ApiKey.API_VERSIONS
    for version in range(APIS[key].oldest, APIS[key].newest + 1)
]
# What a broker (4.3.1) answered, behind the correlation id: NOT_COORDINATOR for one partition.
REFUSED = b"\0\0\0\0\0\x02\x06topic\x02\0\0\0\0\0\x10\0\0\0"


def codes(values: Any) -> Iterator[int]:
    """All error codes of a message as `read` gives it, in the order of its fields."""
    if isinstance(values, dict):
        for name, value in values.items():
            if name.endswith("error_code"):
                yield value
            else:
                yield from codes(value)
    elif isinstance(values, list):
        for value in values:
            yield from codes(value)


@pytest.mark.parametrize("call", READ, ids=name_of)
@given(data=st.data())
def test_the_first_that_is_not_0(call: tuple[int, int], data: st.DataObject) -> None:
    key, version = call
    name = f"{APIS[key].name}Response"
    values = data.draw(messages(name, version, deep=False))
    whole = response(key, version, encode(definitions.load_message(name), version, values))
    found = list(codes(read(key, version, whole)))
    expected = next((code for code in found if code), 0 if found else None)
    assert error_code(key, version, whole[8:]) == expected
    cut = data.draw(st.integers(0, len(whole) - 8))
    assert error_code(key, version, whole[8 : 8 + cut]) in (None, 0, expected)


def test_of_a_partition_of_a_transaction() -> None:
    assert error_code(ApiKey.ADD_PARTITIONS_TO_TXN, 3, REFUSED) == 16
    assert error_code(ApiKey.ADD_PARTITIONS_TO_TXN, 3, REFUSED[:-5]) is None
    assert error_code(ApiKey.ADD_PARTITIONS_TO_TXN, 3, REFUSED.replace(b"\x10", b"\0")) == 0


@given(head=st.binary(max_size=LONGEST), key=st.sampled_from(sorted(APIS)), data=st.data())
def test_garbage(head: bytes, key: int, data: st.DataObject) -> None:
    version = data.draw(st.integers(APIS[key].oldest, APIS[key].newest))
    code = error_code(key, version, head)
    assert code is None or -32768 <= code <= 32767


def test_of_an_api_without_a_definition() -> None:
    head = b"\0" + struct.pack(">ih", 77, 136) + b"\x07no such"
    assert error_code(ApiKey.UNREGISTER_CONTROLLER, 0, head) == 136
    assert error_code(ApiKey.UNREGISTER_CONTROLLER, 0, head[:6]) is None


def test_what_kproxy_does_not_know() -> None:
    assert error_code(9999, 0, bytes(100)) is None
    assert error_code(ApiKey.HEARTBEAT, 99, bytes(100)) is None
    assert error_code(ApiKey.API_VERSIONS, 99, b"\0\x23" + bytes(8)) == 35
    assert error_code(ApiKey.API_VERSIONS, 99, b"\0") is None


def test_one_for_the_whole_response_counts_although_the_rest_has_not_come() -> None:
    fetched = bytes(5) + struct.pack(">hi", 0, 0)
    assert error_code(ApiKey.FETCH, 12, fetched) == 0
    assert error_code(ApiKey.FETCH, 12, fetched[:6]) is None
    assert error_code(ApiKey.METADATA, 12, bytes(100)) is None
