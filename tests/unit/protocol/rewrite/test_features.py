"""Features in ApiVersions responses: no client believes in a level whose requests it cannot send."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite import apiversions
from kproxy.protocol.rewrite.features import limit_level, lower_levels
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import ApiKey
from tests.unit.kafka_frames import UNKNOWN, asked, encode, read, response

DEFINITION = definitions.load_message("ApiVersionsResponse")
OTHER = ("metadata.version", 7, 30)


def said(version: int, level: int, newest: dict[int, int], *, unknown: bool = False) -> bytes:
    """A broker's answer: the newest versions it has, and its level of `transaction.version`.

    With `unknown` there are tagged fields that nobody knows; kafka-python cannot read all of these.
    """
    levels = (("transaction.version", 0, level), OTHER)
    values: dict[str, Any] = {
        "ErrorCode": 0,
        "ApiKeys": [{"ApiKey": key, "MinVersion": 0, "MaxVersion": high} for key, high in newest.items()],
        "ThrottleTimeMs": 77,
        "SupportedFeatures": [
            {"Name": name, "MinVersion": low, "MaxVersion": high, **({UNKNOWN: {3: b"x"}} if unknown else {})}
            for name, low, high in levels
        ],
        "FinalizedFeaturesEpoch": 12,
        "FinalizedFeatures": [
            {"Name": name, "MinVersionLevel": high, "MaxVersionLevel": high} for name, low, high in levels
        ],
        **({UNKNOWN: {9: b"something new"}} if unknown else {}),
    }
    return response(ApiKey.API_VERSIONS, version, encode(DEFINITION, version, values))


def levels(version: int, frame: bytes) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    """What a client reads: supported and finalized levels, lowest and highest."""
    heard = read(ApiKey.API_VERSIONS, version, frame)
    supported = {one["name"]: (one["min_version"], one["max_version"]) for one in heard["supported_features"]}
    finalized = {
        one["name"]: (one["min_version_level"], one["max_version_level"]) for one in heard["finalized_features"]
    }
    return supported, finalized


@pytest.mark.parametrize("version", [3, 4])
def test_a_newer_unknown_feature_level_is_lowered_to_the_known(version: int) -> None:
    """Nobody here knows what level 3 changes; Produce 99, which kproxy caps, may be a part of it."""
    supported, finalized = levels(
        version, asked(ApiKey.API_VERSIONS, version).broker(said(version, 3, {ApiKey.PRODUCE: 99}))
    )
    assert supported == {"transaction.version": (0, 2), "metadata.version": (7, 30)}
    assert finalized == {"transaction.version": (2, 2), "metadata.version": (30, 30)}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    "newest", [{}, {ApiKey.PRODUCE: 13, ApiKey.END_TXN: 5}, {ApiKey.FETCH: 99, ApiKey.METADATA: 99, 32000: 1}]
)
def test_levels_stay_where_nothing_of_theirs_is_capped(version: int, newest: dict[int, int]) -> None:
    there = said(version, 3, newest)
    assert levels(version, asked(ApiKey.API_VERSIONS, version).broker(there)) == levels(version, there)


@pytest.mark.parametrize("version", [3, 4])
def test_the_known_level_stays_although_its_apis_are_capped(version: int) -> None:
    there = said(
        version, 2, {ApiKey.PRODUCE: 99, ApiKey.TXN_OFFSET_COMMIT: 99, ApiKey.END_TXN: 99, ApiKey.INIT_PRODUCER_ID: 99}
    )
    assert levels(version, asked(ApiKey.API_VERSIONS, version).broker(there)) == levels(version, there)


@pytest.mark.parametrize(
    ("level", "capped", "limit"),
    [
        (2, {ApiKey.PRODUCE: 12}, 2),
        (2, {ApiKey.PRODUCE: 11}, 1),  # AddPartitionsToTxn is needed again
        (2, {ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}, 2),
        (2, {ApiKey.TXN_OFFSET_COMMIT: 4}, 1),
        (2, {ApiKey.END_TXN: 4}, 1),  # no new epoch in the answer
        (2, {ApiKey.PRODUCE: -1}, 1),
        (1, {ApiKey.PRODUCE: 9}, 1),
        (0, {ApiKey.PRODUCE: 9}, 0),
        (-5, {ApiKey.PRODUCE: 9}, -5),
        (3, {ApiKey.INIT_PRODUCER_ID: 6}, 2),
        (3, {ApiKey.PRODUCE: 9}, 1),
        (32767, {ApiKey.PRODUCE: 9}, 1),
        (3, {ApiKey.FETCH: 1}, 3),
    ],
)
def test_which_level_needs_which_version(level: int, capped: dict[int, int], limit: int) -> None:
    assert limit_level(level, capped) == limit


def test_only_the_levels_change() -> None:
    tail = said(4, 2, {}, unknown=True)[4 + 4 + 2 + 1 :]  # size, correlation id, error, no APIs
    edited = lower_levels(tail, {ApiKey.PRODUCE: 9})
    assert len(edited) == len(tail)
    assert [(here, there) for there, here in zip(tail, edited, strict=True) if here != there] == [(1, 2)] * 3


def test_features_that_end_too_early() -> None:
    whole = said(4, 3, {ApiKey.PRODUCE: 99}, unknown=True)
    apiversions.cap(whole, 4)
    first = whole.index(b"transaction.version")
    for end in range(first - 4, whole.index(b"something new")):
        with pytest.raises(WireError):
            apiversions.cap(whole[:end], 4)
