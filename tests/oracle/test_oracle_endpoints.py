"""Responses with endpoints: equal to the original with exactly the endpoints replaced, says Kafka."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.protocol.rewrite import response as rewrite_response
from kproxy.protocol.rewrite.endpoints import TABLE, EndpointRule, rule_for
from kproxy.protocol.wire.api import APIS
from tests.oracle.oracle_jvm import HEAVY, SMALL, WIDE, Oracle, Wanted
from tests.oracle.oracle_session import Localise, Tally, judge, long, short, similar, through_kproxy, usual

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

COUNTS = [pytest.param(200, id="200"), pytest.param(5_000, id="5000", marks=pytest.mark.matrix)]


def _calls(*rules: EndpointRule) -> list[Any]:
    return [
        pytest.param(rule.api_key, version, id=f"{APIS[rule.api_key].name}-v{version}")
        for rule in rules
        for version in rule.versions
    ]


SESSION = 25


def _profile(rng: random.Random, last: bool) -> int:
    """Mostly small; enough large ones that a frame with endpoints at its end streams because of its size."""
    return rng.choices((SMALL, WIDE, HEAVY), (88, 4, 8) if last else (95, 4, 1))[0]


def _localise(rng: random.Random) -> Localise:
    return rng.choice((short, long, usual, similar(rng)))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("key", "version"), _calls(*TABLE))
def test_exactly_the_endpoints_are_replaced(
    oracle: Oracle, tally: Tally, monkeypatch: pytest.MonkeyPatch, key: int, version: int, count: int
) -> None:
    rng = random.Random(random.getrandbits(64))
    rule = rule_for(key, version)
    assert rule is not None
    seen: Counter[str] = Counter()
    large = rewrite_response.HOLD_WHOLE
    endpoints = 0
    in_pieces = rule.last
    while seen.total() < count:
        in_pieces = rule.last and not in_pieces
        # With no room to hold a frame, small ones stream too unless they come in one chunk.
        monkeypatch.setattr(rewrite_response, "HOLD_WHOLE", 0 if in_pieces else large)
        wanted = [
            Wanted(key, version, rng.getrandbits(63), SMALL if in_pieces else _profile(rng, rule.last))
            for _ in range(SESSION)
        ]
        exchanges = through_kproxy(oracle, wanted, rng, _localise(rng), 60 if in_pieces else 1 << 20)
        seen += judge(oracle, exchanges, tally)
        endpoints += sum(len(one.replaced) for one in exchanges)
    assert endpoints > count // 2
    assert seen["held: replaced"] > count // 10
    if rule.last:
        assert seen["streamed: replaced"] > count // 10


@pytest.mark.parametrize("localise", [short, long])
@pytest.mark.parametrize(("key", "version"), _calls(*(rule for rule in TABLE if rule.last)))
def test_a_frame_too_large_to_hold_keeps_its_length(
    oracle: Oracle, tally: Tally, key: int, version: int, localise: Localise
) -> None:
    rng = random.Random(random.getrandbits(64))
    seen: Counter[str] = Counter()
    streamed = 0
    while streamed < 5:
        wanted = [Wanted(key, version, rng.getrandbits(63), rng.choice((WIDE, HEAVY, HEAVY))) for _ in range(2)]
        exchanges = through_kproxy(oracle, wanted, rng, localise)
        judge(oracle, exchanges, tally)
        for one in exchanges:
            if one.streamed and one.replaced:
                assert len(one.response) - 4 > rewrite_response.HOLD_WHOLE
                assert len(one.result) == len(one.response)
                streamed += 1
                seen.update(oracle.verdicts([one.as_result()]))
    assert set(seen) == ({"replaced"} if localise is short else {"emptied"})


def _spoilt(result: bytes, at: int) -> bytes:
    changed = bytearray(result)
    changed[at] ^= 0x01
    return bytes(changed)


@pytest.mark.parametrize(("key", "version"), _calls(*TABLE))
def test_the_oracle_notices_a_response_that_is_wrong(oracle: Oracle, key: int, version: int) -> None:
    """Every bit of the rewritten address counts, and so does what follows it and what kproxy claims."""
    rng = random.Random(random.getrandbits(64))
    while True:
        (one,) = through_kproxy(oracle, [Wanted(key, version, rng.getrandbits(63))], rng, usual)
        if one.replaced and not one.streamed:
            break
    good = one.as_result()
    local = one.replaced[-1][1]
    host_at = one.result.rindex(local.host.encode())
    wrong = [
        replace(good, result=one.response),  # nothing replaced
        replace(good, result=_spoilt(one.result, host_at)),
        replace(good, result=_spoilt(one.result, host_at + len(local.host) + 3)),  # the port's last byte
        replace(good, result=_spoilt(one.result, 3)),  # the size
        replace(good, result=_spoilt(one.result, 7)),  # the correlation id
        replace(good, result=one.result + b"\0"),
        replace(good, result=one.result[:-1]),
        replace(good, replaced=one.replaced[:-1]),
        replace(good, replaced=[*one.replaced[:-1], (one.replaced[-1][0], Address("elsewhere", 1))]),
        replace(good, how="s", result=one.result + bytes(1)),
    ]
    verdicts = oracle.verdicts([good, *wrong])
    assert verdicts[0] == "replaced"
    assert not [verdict for verdict in verdicts[1:] if verdict in ("replaced", "emptied", "capped")]
