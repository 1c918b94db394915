"""What is not rewritten passes byte for byte, what kproxy does not serve is refused, ApiVersions is capped."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS, newest_version
from kproxy.protocol.rewrite.endpoints import rule_for
from kproxy.protocol.rewrite.versionsanswer import read_versions_answer
from kproxy.protocol.rewrite.versionsrequest import ADDRESSED
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation
from tests.oracle.oracle_jvm import HEAVY, SMALL, WIDE, Oracle, Result, Wanted
from tests.oracle.oracle_session import MAX_REQUEST, Count, Tally, judge, similar, through_kproxy, usual
from tests.unit.kafka_frames import waiting

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

MANY = pytest.mark.parametrize("count", [pytest.param(20), pytest.param(500, marks=pytest.mark.matrix)])
API_VERSIONS_COUNTS = pytest.mark.parametrize(
    "count", [pytest.param(200), pytest.param(5_000, marks=pytest.mark.matrix)]
)
NEWEST_API_VERSIONS = newest_version(ApiKey.API_VERSIONS, TABLE_VERSIONS)
FIRST_REQUEST = 12  # bytes that name the API, version and correlation id, with the size


def _served(oracle: Oracle) -> list[tuple[int, int]]:
    """Every API and version that both Kafka's classes know and kproxy passes on."""
    return [
        (api["key"], int(version))
        for api in oracle.apis()
        for version in api["versions"]
        if api["key"] in APIS
        and APIS[api["key"]].oldest <= int(version) <= newest_version(APIS[api["key"]], TABLE_VERSIONS)
    ]


@MANY
@pytest.mark.parametrize("key", [key for key in APIS if key != ApiKey.API_VERSIONS])
def test_other_messages_pass_byte_for_byte(oracle: Oracle, tally: Tally, key: int, count: int) -> None:
    """Both directions: `through_kproxy` compares the requests, `judge` the responses."""
    rng = random.Random(random.getrandbits(64))
    versions = [version for served, version in _served(oracle) if served == key]
    assert versions, f"Kafka's classes know no version of {APIS[key].name} that kproxy serves"
    for version in versions:
        if rule_for(key, version) is not None:
            continue  # test_oracle_endpoints
        wanted = [
            Wanted(key, version, rng.getrandbits(63), rng.choices((SMALL, WIDE, HEAVY), (90, 5, 5))[0])
            for _ in range(count)
        ]
        verdicts = judge(oracle, through_kproxy(oracle, wanted, rng, usual), tally)
        assert not verdicts, "a response without endpoints was edited"


@pytest.mark.parametrize("sessions", [pytest.param(20), pytest.param(500, marks=pytest.mark.matrix)])
def test_all_apis_in_one_session(oracle: Oracle, tally: Tally, sessions: int) -> None:
    rng = random.Random(random.getrandbits(64))
    served = _served(oracle)
    for _ in range(sessions):
        wanted = [Wanted(*rng.choice(served), rng.getrandbits(63)) for _ in range(60)]
        judge(oracle, through_kproxy(oracle, wanted, rng, similar(rng)), tally)


def _frame_version(frame: bytes, version: int) -> bytes:
    return frame[:6] + version.to_bytes(2, signed=True) + frame[8:]


def _conversation() -> Conversation:
    def never(_found: Any) -> Any:
        raise AssertionError("there was nothing to localise")

    return Conversation(Calls(lambda *_: Count()), never, MAX_REQUEST)


def test_what_kproxy_does_not_serve_is_refused(oracle: Oracle) -> None:
    rng = random.Random(random.getrandbits(64))
    refused = set()
    for api in oracle.apis():
        key = api["key"]
        known = [int(version) for version in api["versions"]]
        newest = known[-1] if known else 8
        for version in (*range(-1, newest + 2), newest + 100, 0x7FFF, -0x8000):
            if key in APIS and APIS[key].serves(version):
                continue
            if key == ApiKey.API_VERSIONS:
                continue  # it is answered: test_a_later_api_versions_request_is_answered
            if version in known:
                ((request, _),) = oracle.generate([Wanted(key, version, rng.getrandbits(63))])
            else:
                ((request, _),) = oracle.generate([Wanted(ApiKey.API_VERSIONS, 0, rng.getrandbits(63))])
                request = _frame_version(request[:4] + key.to_bytes(2) + request[6:], version)
            reason = "unknown-version" if key in APIS else "unknown-api"
            for cut in (len(request), FIRST_REQUEST, rng.randrange(1, FIRST_REQUEST)):
                conversation = _conversation()
                if cut < FIRST_REQUEST:
                    assert not conversation.from_client(request[:cut], 0.0)
                    rest = request[cut:]
                else:
                    rest = request[:cut]
                with pytest.raises(WireError) as refusal:
                    conversation.from_client(rest, 0.0)
                assert refusal.value.reason == reason
            refused.add((key, version))
    # Of those that Kafka's classes know: what only brokers and controllers say to each other.
    assert {(key, version) for key, version in refused if key in (52, 53, 54, 59, 82) and 0 <= version <= 2} == {
        (52, 1), (52, 2), (53, 1), (53, 2), (54, 1), (54, 2), (59, 1), (59, 2), (82, 0), (82, 1),
    }  # fmt: skip


@API_VERSIONS_COUNTS
@pytest.mark.parametrize("version", range(NEWEST_API_VERSIONS + 1))
def test_api_versions_are_capped_and_the_rest_is_untouched(
    oracle: Oracle, tally: Tally, version: int, count: int
) -> None:
    """One response in eight refuses the version with error 35 and a body of version 0 (KIP-511), as many say another
    error, and stay as they are."""
    rng = random.Random(random.getrandbits(64))
    seen = 0
    while seen < count:
        wanted = [
            Wanted(ApiKey.API_VERSIONS, version, rng.getrandbits(63), rng.choice((SMALL, SMALL, SMALL, WIDE)))
            for _ in range(50)
        ]
        exchanges = through_kproxy(oracle, wanted, rng, usual)
        seen += judge(oracle, exchanges, tally)["capped"]
        assert any(one.result != one.response for one in exchanges)


@API_VERSIONS_COUNTS
@pytest.mark.parametrize("version", range(ADDRESSED + 1))
def test_an_answer_to_api_versions_5_in_the_version_of_the_client(oracle: Oracle, version: int, count: int) -> None:
    """kproxy asks brokers in version 5 for clients of any version (KIP-1242)."""
    rng = random.Random(random.getrandbits(64))
    wanted = [
        Wanted(ApiKey.API_VERSIONS, ADDRESSED, rng.getrandbits(63), rng.choice((SMALL, SMALL, SMALL, WIDE)))
        for _ in range(count)
    ]
    responses = [response for _, response in oracle.generate(wanted)]
    answers = [(response, read_versions_answer(response[8:])) for response in responses]
    supported = [(response, answer) for response, answer in answers if answer.error != ErrorCode.UNSUPPORTED_VERSION]
    assert len(supported) > count / 2
    expected = oracle.older_versions([response for response, _ in supported], ADDRESSED, version)
    lengths = set()
    for (response, answer), written in zip(supported, expected, strict=True):
        assert answer.in_version(version) == written[8:]
        lengths.add(len(response) - len(written))
    assert (lengths == {0}) == (version >= 4), "older versions have less in them"


@pytest.mark.parametrize("version", [NEWEST_API_VERSIONS + 1, 30, 0x7FFF])
def test_a_later_api_versions_request_is_answered(oracle: Oracle, version: int) -> None:
    rng = random.Random(random.getrandbits(64))
    ((request, _),) = oracle.generate([Wanted(ApiKey.API_VERSIONS, NEWEST_API_VERSIONS, rng.getrandbits(63))])
    request = _frame_version(request, version)
    conversation = _conversation()
    cut = rng.randrange(1, len(request))
    assert not conversation.from_client(request[:cut], 0.0)
    assert not conversation.from_client(request[cut:], 0.0)
    answer = conversation.take_answers()
    assert answer[4:8] == request[8:12], "another correlation id"
    # What Kafka's broker answers to a version that it does not know, of an API that it serves as kproxy does.
    api = ApiKey.API_VERSIONS
    served = (api.value, api.oldest, NEWEST_API_VERSIONS)
    expected = b"\0\x23" + (1).to_bytes(4) + b"".join(number.to_bytes(2) for number in served)
    original = answer[:8] + expected
    assert oracle.verdicts([Result(ApiKey.API_VERSIONS, NEWEST_API_VERSIONS, "v", original, answer)]) == ["capped"]


@pytest.mark.parametrize("version", range(3, ApiKey.PRODUCE.newest + 1))
def test_produce_without_acks_expects_no_response(oracle: Oracle, version: int) -> None:
    """Requests by Kafka's classes: exactly those that ask for acks wait for a response, however they are cut."""
    rng = random.Random(random.getrandbits(64))
    made = oracle.generate([Wanted(ApiKey.PRODUCE, version, rng.getrandbits(63)) for _ in range(60)])
    expected = [int.from_bytes(request[8:12], signed=True) for request, response in made if response]
    assert 10 < len(expected) < 58
    stream = b"".join(request for request, _ in made)
    for most in (9, 60, 5_000, 2 * len(stream)):
        conversation = _conversation()
        at, passed = 0, []
        while at < len(stream):
            end = at + rng.randrange(1, most)
            passed.append(bytes(conversation.from_client(stream[at:end], 0.0)))
            at = end
        assert b"".join(passed) == stream
        assert [correlation_id for correlation_id, _ in waiting(conversation)] == expected


def test_the_oracle_notices_a_range_that_is_not_capped(oracle: Oracle) -> None:
    rng = random.Random(random.getrandbits(64))
    for version in range(NEWEST_API_VERSIONS + 1):
        while True:
            (one,) = through_kproxy(oracle, [Wanted(ApiKey.API_VERSIONS, version, rng.getrandbits(63))], rng, usual)
            if one.result != one.response:
                break
        good = one.as_result()
        bad = Result(good.key, good.version, good.how, good.original, good.original)
        assert oracle.verdicts([good])[0] == "capped"
        assert oracle.verdicts([bad])[0].startswith("expected ")
