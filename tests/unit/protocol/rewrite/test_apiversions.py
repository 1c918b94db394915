"""ApiVersions responses: no client learns of a version that kproxy cannot rewrite."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite import apiversions
from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS, newest_version
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from tests.unit.kafka_frames import CHUNKINGS, UNKNOWN, Talk, asked, chunks, encode, frame, read, response

DEFINITION = definitions.load_message("ApiVersionsResponse")
FEATURE = {"Name": "metadata.version", "MaxVersionLevel": 29, "MinVersionLevel": 1}
NEWER_BROKER = [
    # key, oldest, newest as the broker has them; oldest, newest as the client shall see them
    (ApiKey.PRODUCE, 3, 99, 3, 13),
    (ApiKey.FETCH, 4, 18, 4, 18),
    (ApiKey.METADATA, 0, 14, 0, 13),
    (ApiKey.SHARE_FETCH, 0, 9, 1, 2),
    (12, 1, 3, 1, 3),
    (ApiKey.API_VERSIONS, 0, 6, 0, 5),
]
LEFT_OUT = [
    (99, 0, 0),  # unknown
    (32767, 0, 3),
    (-1, 0, 0),
    (ApiKey.METADATA + 1, 0, 7),  # for brokers only
    (ApiKey.METADATA, 14, 20),  # no version in common
    (ApiKey.SHARE_FETCH, 0, 0),
]


def body(version: int, entries: list[tuple[int, int, int]], **more: Any) -> bytes:
    keys = [{"ApiKey": key, "MinVersion": low, "MaxVersion": high, UNKNOWN: {5: b"tag"}} for key, low, high in entries]
    return encode(DEFINITION, version, {"ErrorCode": 0, "ApiKeys": keys, "ThrottleTimeMs": 77, **more})


FEATURES = {
    "SupportedFeatures": [{"Name": "metadata.version", "MaxVersion": 99, "MinVersion": 1}],
    "FinalizedFeaturesEpoch": 12,
    "FinalizedFeatures": [FEATURE],
    "ZkMigrationReady": False,
    UNKNOWN: {9: b"something new"},
}


@pytest.mark.parametrize("version", range(5))
@given(sizes=CHUNKINGS)
def test_versions_are_capped_and_unknown_apis_left_out(version: int, sizes: list[int]) -> None:
    entries = [(key, low, high) for key, low, high, _, _ in NEWER_BROKER]
    there = response(ApiKey.API_VERSIONS, version, body(version, LEFT_OUT[:3] + entries + LEFT_OUT[3:], **FEATURES))
    here = response(
        ApiKey.API_VERSIONS,
        version,
        body(version, [(key, low, high) for key, _, _, low, high in NEWER_BROKER], **FEATURES),
    )
    talk = asked(ApiKey.API_VERSIONS, version)
    assert talk.broker(*chunks(there, sizes)) == here
    assert talk.conversation.is_idle


@pytest.mark.parametrize("version", range(5))
def test_apis_that_are_newer_than_kproxy_are_reported(version: int) -> None:
    """Not those of brokers only, nor those of which another version is offered; and of many only some."""
    said = response(ApiKey.API_VERSIONS, version, body(version, [(key, 0, 0) for key in (95, 6, 82, 3, 32767)]))
    unknown: list[int] = []
    apiversions.cap(said, version, unknown=unknown)
    assert unknown == [95, 32767]
    many = response(ApiKey.API_VERSIONS, version, body(version, [(key, 0, 0) for key in range(1000, 9000)]))
    unknown = []
    apiversions.cap(many, version, unknown=unknown)
    assert unknown == list(range(1000, 1016))


@pytest.mark.parametrize("version", range(3, 5))
def test_features_stay_as_they_are(version: int) -> None:
    entries = [(ApiKey.PRODUCE, 3, 99), (99, 0, 0)]
    features = {name: FEATURES[name] for name in FEATURES if name != UNKNOWN}
    plain = [{"ApiKey": key, "MinVersion": low, "MaxVersion": high} for key, low, high in entries]
    values = {"ErrorCode": 0, "ApiKeys": plain, "ThrottleTimeMs": 77, **features}
    there = response(ApiKey.API_VERSIONS, version, encode(DEFINITION, version, values))
    heard = read(ApiKey.API_VERSIONS, version, asked(ApiKey.API_VERSIONS, version).broker(there))
    told = read(ApiKey.API_VERSIONS, version, there)
    assert [(one["api_key"], one["max_version"]) for one in heard.pop("api_keys")] == [(ApiKey.PRODUCE, 13)]
    del told["api_keys"]
    assert heard == told
    assert heard["finalized_features_epoch"] == 12


@pytest.mark.parametrize("version", range(5))
@given(sizes=CHUNKINGS)
def test_a_broker_no_newer_than_kproxy_is_passed_unchanged(version: int, sizes: list[int]) -> None:
    entries = [(one.value, one.oldest, newest_version(one, TABLE_VERSIONS)) for one in APIS.values()]
    said = response(ApiKey.API_VERSIONS, version, body(version, entries, **(FEATURES if version >= 3 else {})))
    assert asked(ApiKey.API_VERSIONS, version).broker(*chunks(said, sizes)) == said


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("entries", [[], [(ApiKey.API_VERSIONS, 0, 2)]])
def test_a_broker_without_the_version_answers_in_version_0(version: int, entries: list[tuple[int, int, int]]) -> None:
    """Error 35; since Kafka 2.4 with the versions of ApiVersions, before without (KIP-511)."""
    said = response(ApiKey.API_VERSIONS, 0, encode(DEFINITION, 0, {
        "ErrorCode": 35, "ApiKeys": [{"ApiKey": k, "MinVersion": a, "MaxVersion": b} for k, a, b in entries],
    }))  # fmt: skip
    assert asked(ApiKey.API_VERSIONS, version).broker(said) == said


def test_another_error_keeps_its_version() -> None:
    """Such as 42, for a bad client software name."""
    said = response(
        ApiKey.API_VERSIONS, 3, encode(DEFINITION, 3, {"ErrorCode": 42, "ApiKeys": [], "ThrottleTimeMs": 0})
    )
    assert asked(ApiKey.API_VERSIONS, 3).broker(said) == said


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("error", [35, 42, -1])
@pytest.mark.parametrize("rest", [b"", b"\0", b"\x01\0\0\0", b"\xfe" * 12, bytes(3), struct.pack(">i", 9) + bytes(7)])
def test_an_error_in_a_shape_of_its_own_passes(version: int, error: int, rest: bytes) -> None:
    """As librdkafka's mock cluster has it. It names no versions that a client could use."""
    said = response(ApiKey.API_VERSIONS, version, struct.pack(">h", error) + rest)
    assert asked(ApiKey.API_VERSIONS, version).broker(said) == said


@pytest.mark.parametrize("version", range(6))
def test_the_same_response_is_capped_the_same_each_time(version: int) -> None:
    """kproxy remembers it, but not its correlation id, nor what it was capped to for another cluster."""
    entries = [(3, 0, 13), (18, 0, 5), (999, 0, 1)]
    for correlation_id in (1, -2, 1):
        there = response(ApiKey.API_VERSIONS, version, body(version, entries), correlation_id)
        for highest, newest in (({}, 13), ({3: 9}, 9), ({3: 11}, 11)):
            unknown: list[int] = []
            expected = response(
                ApiKey.API_VERSIONS, version, body(version, [(3, 0, newest), (18, 0, 5)]), correlation_id
            )
            assert apiversions.cap(there, version, highest, unknown) == expected
            assert unknown == [999]


def test_a_second_one_is_capped_too() -> None:
    """Java asks again after SASL."""
    talk = asked(ApiKey.API_VERSIONS, 3)
    there, here = (response(ApiKey.API_VERSIONS, 3, body(3, [(ApiKey.METADATA, 0, newest)])) for newest in (20, 13))
    assert talk.broker(there) == here
    talk = Talk()
    said = frame(struct.pack(">hhi", ApiKey.API_VERSIONS, 3, 7), b"\xff\xff\x00\x02a\x02b\x00")
    for _ in range(2):
        talk.client(said)
        assert talk.broker(there) == here


def test_the_own_answer_is_read_by_clients() -> None:
    answer = apiversions.unsupported_version(-3)
    assert answer[4:8] == struct.pack(">i", -3)
    heard = read(ApiKey.API_VERSIONS, 4, answer)
    assert heard["error_code"] == 35
    assert heard["api_keys"] == [{"api_key": 18, "min_version": 0, "max_version": 5}]


@pytest.mark.parametrize("version", [0, 3])
@pytest.mark.parametrize("count", [-2, -1, 2147483647, 3])
def test_counts_that_lie(version: int, count: int) -> None:
    head = struct.pack(">ih", 7, 0)
    number = struct.pack(">i", count) if version == 0 else b"\xff\xff\xff\xff\x0f"
    said = frame(head, number, struct.pack(">hhh", 3, 0, 9))
    if version == 0 and count == -1:
        assert asked(ApiKey.API_VERSIONS, version).broker(said) == frame(head, struct.pack(">i", 0), said[14:])
        return
    with pytest.raises(WireError):
        asked(ApiKey.API_VERSIONS, version).broker(said)


@given(said=st.binary(max_size=80), version=st.integers(0, 4), sizes=CHUNKINGS)
def test_garbage_raises_wire_error_or_passes(said: bytes, version: int, sizes: list[int]) -> None:
    whole = frame(struct.pack(">i", 7), said)
    try:
        expected = asked(ApiKey.API_VERSIONS, version).broker(whole)
    except WireError:
        with pytest.raises(WireError):
            asked(ApiKey.API_VERSIONS, version).broker(*chunks(whole, sizes))
    else:
        assert asked(ApiKey.API_VERSIONS, version).broker(*chunks(whole, sizes)) == expected


def test_no_such_response_is_large() -> None:
    talk = asked(ApiKey.API_VERSIONS, 0)
    with pytest.raises(WireError) as raised:
        talk.broker(struct.pack(">ii", 0x7FFFFFFF, 7), *[bytes(100_000)] * 4)
    assert raised.value.reason == "response-too-large"
