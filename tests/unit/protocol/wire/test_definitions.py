"""Message definitions: the notation of Kafka's files, and the project's own against bytes written by hand."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.definitions import Field
from tests.unit.kafka_frames import encode


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("none", range(0)),
        ("", range(0)),
        (None, range(0)),
        ("3", range(3, 4)),
        ("0", range(1)),
        ("1-5", range(1, 6)),
        ("0-0", range(1)),
        ("12+", range(12, 0x8000)),
    ],
)
def test_version_notation(text: str | None, versions: range) -> None:
    assert definitions._versions(text) == versions


def test_a_definition_file(tmp_path: Path) -> None:
    """Comments, common structs, tagged and nullable fields."""
    described: dict[str, Any] = {
        "apiKey": 3,
        "name": "TestResponse",
        "validVersions": "0-4",
        "flexibleVersions": "2+",
        "commonStructs": [
            {"name": "Inner", "versions": "0+", "fields": [{"name": "A", "type": "int8", "versions": "1+"}]}
        ],
        "fields": [
            {"name": "Many", "type": "[]Inner", "versions": "0+", "nullableVersions": "3+"},
            {"name": "One", "type": "Inner", "versions": "2+", "taggedVersions": "3+", "tag": 5},
        ],
    }
    path = tmp_path / "TestResponse.json"
    path.write_text('// A comment: "with" quotes\n  // and another\n' + json.dumps(described), "utf-8")
    message = definitions.read_definition(path)
    inner = Field("A", "int8", range(1, 0x8000), range(0), None, range(0), ())
    assert (message.name, message.api_key) == ("TestResponse", 3)
    assert (message.versions, message.flexible) == (range(5), range(2, 0x8000))
    many, one = message.fields
    assert many == Field("Many", "[]Inner", range(0x8000), range(3, 0x8000), None, range(0), (inner,))
    assert one == Field("One", "Inner", range(2, 0x8000), range(0), 5, range(3, 0x8000), (inner,))


def test_a_definition_that_is_missing() -> None:
    with pytest.raises(FileNotFoundError, match="NoSuchResponse"):
        definitions.load_message("NoSuchResponse")


def test_api_table_and_definitions_agree_on_flexible_versions() -> None:
    found = list(definitions.load_responses())
    assert len(found) > 50
    for message in found:
        if message.api_key in APIS:
            flexible = APIS[message.api_key].flexible
            assert flexible == (message.flexible.start if message.flexible else 0x7FFF), message.name


# As KIP-932 draws them

NODES = b"\x02" + struct.pack(">i", 3) + b"\x03up" + struct.pack(">i", 9092) + b"\x00" + b"\x00"
NODE = {"NodeId": 3, "Host": "up", "Port": 9092, "Rack": None}
LEADER = struct.pack(">ii", 4, 5) + b"\x00"


@pytest.mark.parametrize("version", [1, 2])
def test_a_share_fetch_response_by_hand(version: int) -> None:
    partition = struct.pack(">ih", 6, 7) + b"\x00" + struct.pack(">h", 8) + b"\x03no" + LEADER
    partition += b"\x04abc" + b"\x02" + struct.pack(">qqh", 9, 10, 11) + b"\x00" + b"\x00"
    topic = bytes(range(16)) + b"\x02" + partition + b"\x00"
    body = struct.pack(">ih", 1, 2) + b"\x00" + struct.pack(">i", 3) + b"\x02" + topic + NODES + b"\x00"
    values = {
        "ThrottleTimeMs": 1, "ErrorCode": 2, "ErrorMessage": None, "AcquisitionLockTimeoutMs": 3,
        "Responses": [{"TopicId": bytes(range(16)), "Partitions": [{
            "PartitionIndex": 6, "ErrorCode": 7, "ErrorMessage": None,
            "AcknowledgeErrorCode": 8, "AcknowledgeErrorMessage": "no",
            "CurrentLeader": {"LeaderId": 4, "LeaderEpoch": 5}, "Records": b"abc",
            "AcquiredRecords": [{"FirstOffset": 9, "LastOffset": 10, "DeliveryCount": 11}],
        }]}],
        "NodeEndpoints": [NODE],
    }  # fmt: skip
    assert encode(definitions.load_message("ShareFetchResponse"), version, values) == body


@pytest.mark.parametrize("version", [1, 2])
def test_a_share_acknowledge_response_by_hand(version: int) -> None:
    partition = struct.pack(">ih", 6, 7) + b"\x03no" + LEADER + b"\x00"
    topic = bytes(range(16)) + b"\x02" + partition + b"\x00"
    body = struct.pack(">ih", 1, 2) + b"\x00" + (struct.pack(">i", 3) if version == 2 else b"")
    body += b"\x02" + topic + NODES + b"\x00"
    values = {
        "ThrottleTimeMs": 1, "ErrorCode": 2, "ErrorMessage": None, "AcquisitionLockTimeoutMs": 3,
        "Responses": [{"TopicId": bytes(range(16)), "Partitions": [{
            "PartitionIndex": 6, "ErrorCode": 7, "ErrorMessage": "no",
            "CurrentLeader": {"LeaderId": 4, "LeaderEpoch": 5},
        }]}],
        "NodeEndpoints": [NODE],
    }  # fmt: skip
    assert encode(definitions.load_message("ShareAcknowledgeResponse"), version, values) == body
