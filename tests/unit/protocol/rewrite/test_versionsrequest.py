"""ApiVersions requests: those of clients, and the same to a cluster and a node."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.rewrite.versionsrequest import LONGEST, is_begun, read_versions_request, rebootstrap_required
from kproxy.protocol.wire.messages import encode_request, read_request, read_response

SOFTWARE = {"ClientSoftwareName": b"apache-kafka-java", "ClientSoftwareVersion": b"4.4.0"}


def asking(version: int, **fields: object) -> bytes:
    if version >= 5:
        fields = {"ClusterId": None, "NodeId": -1, **fields}
    return encode_request(18, version, 7, {**(SOFTWARE if version >= 3 else {}), **fields})


@pytest.mark.parametrize("version", range(6))
def test_a_request_of_each_version_can_be_sent_to_a_node(version: int) -> None:
    """The client id and the software stay as they are: brokers count connections by them."""
    request = read_versions_request(asking(version) + b"the next one")
    assert request is not None
    assert (request.version, request.cluster_id, request.node_id) == (version, None, -1)
    sent = request.addressed_to("id-1", 3)
    assert struct.unpack_from(">h6s", sent, 12) == (6, b"kproxy")
    unnamed = {"ClientSoftwareName": b"unknown", "ClientSoftwareVersion": b"unknown"}
    software = SOFTWARE if version >= 3 else unnamed
    assert read_request(sent) == (18, 5, 18, {**software, "ClusterId": b"id-1", "NodeId": 3})
    assert sent[:4] == struct.pack(">i", len(sent) - 4)


def test_what_the_client_expects_is_read() -> None:
    request = read_versions_request(asking(5, ClusterId=b"id-1", NodeId=3))
    assert request is not None
    assert (request.cluster_id, request.node_id) == ("id-1", 3)
    assert read_request(request.addressed_to("id-1", 3)) == (18, 5, 18, {**SOFTWARE, "ClusterId": b"id-1", "NodeId": 3})


def test_a_client_id_may_be_missing() -> None:
    frame = asking(3)
    without = struct.pack(">i", len(frame) - 10) + frame[4:12] + b"\xff\xff" + frame[20:]
    request = read_versions_request(without)
    assert request is not None
    assert request.addressed_to("id-1", 3)[12:14] == b"\xff\xff"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        asking(5)[:-1],
        encode_request(18, 0, 7, b"\0"),  # longer than its fields
        asking(3)[:6] + b"\0\6" + asking(3)[8:],  # a later version
        asking(3)[:6] + b"\xff\xff" + asking(3)[8:],
        asking(5, ClusterId=b"id-1", NodeId=-1),  # a broker refuses one without the other
        asking(5, NodeId=1),
        asking(5, ClusterId=b"\xff\xfe", NodeId=1),
        encode_request(18, 3, 7, b"\2a\2b\1\0\0"),  # tagged fields
        encode_request(18, 3, 7, b"\2a"),
        encode_request(18, 3, 7, b"\0\0\0"),  # names that are null
        asking(3, ClientSoftwareName=b"x" * LONGEST),
        encode_request(3, 1, 7, struct.pack(">i", 0)),
        struct.pack(">ihhih", 10, 18, 0, 7, -2),
        struct.pack(">ihhih", 10, 18, 0, 7, 1),
        struct.pack(">ihhih", -1, 18, 0, 7, 0),
        struct.pack(">ihhih", 2**31 - 1, 18, 0, 7, 0),
    ],
)
def test_an_unusual_request_is_left_to_the_broker(frame: bytes) -> None:
    assert read_versions_request(frame) is None


@given(st.integers(0, 60), st.integers(0, 255), st.integers(0, 5))
def test_damaged_requests_raise_nothing(at: int, byte: int, version: int) -> None:
    frame = bytearray(asking(version))
    frame[at % len(frame)] = byte
    request = read_versions_request(bytes(frame))
    if request is not None:
        read_request(request.addressed_to("id-1", 3))


def test_whether_a_request_is_whole() -> None:
    frame = asking(4)
    assert all(is_begun(frame[:size]) for size in range(len(frame)))
    assert not is_begun(frame)
    assert not is_begun(frame + b"\0")
    assert not is_begun(encode_request(3, 1, 7, struct.pack(">i", 0))[:15])
    assert not is_begun(struct.pack(">ihhih", 2**31 - 1, 18, 0, 7, 0)), "it is longer than kproxy reads"
    assert not is_begun(struct.pack(">ihhih", -5, 18, 0, 7, 0))


def test_the_refusal_is_a_broker_s() -> None:
    """As Kafka 4.4.0 sends it."""
    frame = rebootstrap_required(7)
    assert frame == struct.pack(">iih", 12, 7, 129) + b"\1\0\0\0\0\0"
    assert read_response(18, 5, frame, 8)["ErrorCode"] == 129
