"""The access rules against Kafka's own classes: its list of APIs, and what it answers to requests that it refuses."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.config.access import AccessRule, AccessRules
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.messages import encode_response
from kproxy.proxy.access.apis import BETWEEN_BROKERS, CHANGES, LOGINS, READS
from kproxy.proxy.access.authorizer import SessionAuthorizer
from kproxy.proxy.access.sessionrules import RefusedRequest, SessionRules
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation
from tests.oracle.oracle_jvm import SMALL, WIDE, Oracle, Wanted
from tests.oracle.oracle_session import MAX_REQUEST, Count, usual

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

READ_ONLY = SessionRules(AccessRules(read_only=True))
COUNTS = pytest.mark.parametrize("count", [pytest.param(30), pytest.param(500, marks=pytest.mark.matrix)])


def _localise(found: Endpoints) -> list[Address]:
    return [usual(endpoint) for endpoint in found.nodes]


class Judged:
    """A conversation whose requests access rules judge."""

    def __init__(self, rules: SessionRules = READ_ONLY) -> None:
        self.refused: list[RefusedRequest] = []
        self.ended: WireError | None = None
        self._turns = 1e8  # later than any piece
        self.conversation = Conversation(Calls(lambda *_: Count()), _localise, MAX_REQUEST)
        self.conversation.authorize(SessionAuthorizer(rules, self.refused.append, lambda: None))

    def client(self, frame: bytes, rng: random.Random | None = None) -> tuple[bytes, bytes]:
        """What reaches the broker of a request that comes in pieces, and what kproxy answers."""
        size = 1 << 30 if rng is None else rng.choice((1 << 30, 1000, 7 if len(frame) < 10_000 else 5000))
        passed = b""
        try:
            for at in range(0, len(frame), size):
                passed += bytes(self.conversation.from_client(frame[at : at + size], float(at)))
            while self.conversation.hold_count:
                self._turns += 1.0
                passed += bytes(self.conversation.release(self._turns))
        except WireError as error:
            self.ended = error
        return passed, bytes(self.conversation.take_answers())

    def broker(self, frame: bytes) -> bytes:
        """What the client receives of a response, which may take several turns."""
        turns: list[None] = []
        self.conversation.set_on_busy(lambda: turns.append(None))
        received = bytes(self.conversation.from_upstream(frame, 1e9))
        while turns:
            turns.clear()
            received += bytes(self.conversation.from_upstream(b"", 1e9))
        return received


def versions_of(oracle: Oracle, key: int) -> list[int]:
    """The versions that both Kafka's classes know and kproxy serves."""
    (api,) = (api for api in oracle.apis() if api["key"] == key)
    return [int(version) for version in api["versions"] if APIS[key].serves(int(version))]


def requests_of(oracle: Oracle, key: int, version: int, count: int, rng: random.Random) -> list[bytes]:
    profiles = rng.choices((SMALL, WIDE), (9, 1), k=count)
    wanted = [Wanted(key, version, rng.getrandbits(63), profile) for profile in profiles]
    return [request for request, _ in oracle.generate(wanted)]


def comparable(key: int, body: Any) -> Any:
    """A message without its texts, which are kproxy's own, and without the order of its elements."""
    body = _without_texts(body)
    # Some keep topics, producers or resources in hash maps there: equal ones become one.
    if key == ApiKey.PRODUCE:
        return set(_leaves(body, ()))
    if key == ApiKey.WRITE_TXN_MARKERS:
        return {marker["producerId"] for marker in body["markers"]}
    if key in CONFIGS:
        return {resource["resourceName"] for resource in body["responses"]}
    return body


CONFIGS = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)


def _without_texts(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: _without_texts(value) for name, value in body.items() if "rrorMessage" not in name}
    return sorted(map(_without_texts, body), key=json.dumps) if isinstance(body, list) else body


def _leaves(struct: dict[str, Any], above: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    arrays = [value for value in struct.values() if isinstance(value, list)]
    path = (*above, *((name, value) for name, value in struct.items() if not isinstance(value, list)))
    for element in (element for array in arrays for element in array):
        yield from _leaves(element, path)
    if not any(name != "recordErrors" for name, value in struct.items() if isinstance(value, list)):
        yield path


def test_the_table_has_each_api_of_kafka_once(oracle: Oracle) -> None:
    kinds = (set(CHANGES), READS, LOGINS, BETWEEN_BROKERS)
    assert sum(map(len, kinds)) == len(set().union(*kinds))
    assert set().union(*kinds) == set(APIS)
    # What kproxy does not pass on at all is refused as well; nothing of Kafka's is left.
    assert {api["key"] for api in oracle.apis()} >= set(APIS)


@COUNTS
@pytest.mark.parametrize("key", sorted(CHANGES), ids=lambda key: APIS[key].name)
def test_a_change_is_answered_as_kafka_answers_it(oracle: Oracle, key: int, count: int) -> None:
    rng = random.Random(random.getrandbits(64))
    answered = compared = 0
    for version in versions_of(oracle, key):
        for request in requests_of(oracle, key, version, count, rng):
            judged = Judged()
            passed, answer = judged.client(request, rng)
            if judged.ended is not None:
                reason = "produce-refused" if key == ApiKey.PRODUCE else "refused-request-too-large"
                many = any(
                    text in str(judged.ended)
                    for text in ("1000 topics and partitions", "; kproxy answers ", "than kproxy reads at once")
                )
                assert judged.ended.reason == reason or many
                continue
            if not answer:
                assert passed == request, "it has nothing that could be refused"
                assert not judged.refused
                continue
            assert passed == b""
            (refused,) = judged.refused
            ((expected,), (got,)) = oracle.refusals([(request, refused.error)]), oracle.read([(key, version, answer)])
            if expected is not False:
                assert comparable(key, got) == comparable(key, expected), f"version {version}: {request.hex()[:2000]}"
                compared += 1
            if key in CONFIGS:  # a broker has another error for each type of resource, these classes have not
                errors = {2: 29, 32: 30}
                named = Counter(resource["resourceName"] for resource in got["responses"])
                for resource in got["responses"]:
                    if named[resource["resourceName"]] == 1:
                        assert resource["errorCode"] == errors.get(resource["resourceType"], 31)
            assert answer[4:8] == request[8:12]
            answered += 1
    assert answered > count / 2
    assert compared or key in (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)


@COUNTS
@pytest.mark.parametrize("key", sorted(READS | LOGINS), ids=lambda key: APIS[key].name)
def test_reads_and_logins_pass_unchanged(oracle: Oracle, key: int, count: int) -> None:
    rng = random.Random(random.getrandbits(64))
    for version in versions_of(oracle, key):
        for request in requests_of(oracle, key, version, count, rng):
            judged = Judged()
            passed, answer = judged.client(request, rng)
            assert not judged.refused
            if key == ApiKey.API_VERSIONS and answer:
                continue  # kproxy answers one that names another cluster or node itself, with or without rules
            assert answer == b""
            if key != ApiKey.METADATA:
                assert passed == request
                continue
            before, after = oracle.read([(-1, 0, request), (-1, 0, passed)])
            if version >= 4:
                before["allowAutoTopicCreation"] = False
                assert after == before
            else:
                assert passed[6:8] == b"\0\4"
                if version == 0 and not before["topics"]:
                    before["topics"] = None  # that means all in version 0
                assert after == before | {"allowAutoTopicCreation": False}


@pytest.mark.parametrize("key", sorted(BETWEEN_BROKERS), ids=lambda key: APIS[key].name)
def test_apis_between_brokers_end_the_connection(oracle: Oracle, key: int) -> None:
    for version in versions_of(oracle, key):
        (request,) = requests_of(oracle, key, version, 1, random.Random(1))
        judged = Judged()
        assert judged.client(request) == (b"", b"")
        assert judged.ended is not None
        assert judged.ended.reason == "api-refused"


SOME_TOPICS = SessionRules(
    AccessRules(rules=(AccessRule.parse("allow produce a* b*"), AccessRule.parse("deny produce *")))
)


@COUNTS
def test_a_produce_request_loses_its_forbidden_topics_and_the_response_gets_them(oracle: Oracle, count: int) -> None:
    """The request that passes, and the response that comes back, as Kafka's classes read them."""
    rng = random.Random(random.getrandbits(64))
    in_part = 0
    for version in (version for version in versions_of(oracle, ApiKey.PRODUCE) if version <= 12):
        for request in requests_of(oracle, ApiKey.PRODUCE, version, count, rng):
            judged = Judged(SOME_TOPICS)
            passed, answer = judged.client(request, rng)
            if judged.ended is not None:
                assert judged.ended.reason == "produce-refused" or "1000 topics" in str(judged.ended)
                continue
            (before,) = oracle.read([(-1, 0, request)])
            names = [topic["name"] for topic in before["topicData"]]
            allowed = [name for name in names if name.startswith(("a", "b"))]
            if not judged.refused:
                assert (passed, answer, names) == (request, b"", allowed)
                continue
            if not allowed:
                assert passed == b""
                assert answer
                continue
            in_part += 1
            (after,) = oracle.read([(-1, 0, passed)])
            topics = [topic for topic in before["topicData"] if topic["name"] in allowed]
            assert after == before | {"topicData": topics}
            accepted = [
                {"Name": topic["name"], "PartitionResponses": [{"Index": 7, "BaseOffset": 5}]} for topic in topics
            ]
            correlation_id = int.from_bytes(request[8:12], signed=True)
            response = encode_response(ApiKey.PRODUCE, version, correlation_id, {"Responses": accepted})
            (got,) = oracle.read([(0, version, judged.broker(response))])
            errors = {
                (topic["name"], partition["index"]): partition["errorCode"]
                for topic in got["responses"]
                for partition in topic["partitionResponses"]
            }
            refused = {
                (topic["name"], partition["index"]): 29
                for topic in before["topicData"]
                if topic["name"] not in allowed
                for partition in topic["partitionData"]
            }
            assert errors == refused | {(name, 7): 0 for name in allowed}
            assert len(got["responses"]) == len(names)
    assert in_part


@COUNTS
def test_old_clients_receive_metadata_of_their_version(oracle: Oracle, count: int) -> None:
    """The response of version 4 that a broker sends, as Kafka's classes read what becomes of it."""
    rng = random.Random(random.getrandbits(64))
    gone = {0: {"rack", "controllerId", "isInternal"}}
    for version in range(4):
        for (request, _), (_, response) in zip(
            oracle.generate([Wanted(ApiKey.METADATA, version, rng.getrandbits(63)) for _ in range(count)]),
            oracle.generate([Wanted(ApiKey.METADATA, 4, rng.getrandbits(63)) for _ in range(count)]),
            strict=True,
        ):
            judged = Judged()
            passed, _ = judged.client(request)
            assert passed[8:12] == request[8:12]
            size = len(response) - 4
            response = size.to_bytes(4) + request[8:12] + response[8:]
            (before,) = oracle.read([(3, 4, response)])
            older = judged.broker(response)
            (after,) = oracle.read([(3, version, older)])
            expected = {name: value for name, value in before.items() if name in after}
            if version == 0:
                expected = _without(expected, gone[0])
            for broker, local in zip(expected["brokers"], after["brokers"], strict=True):
                broker |= {"host": local["host"], "port": local["port"]}
            assert after == expected


def _without(body: Any, names: set[str]) -> Any:
    if isinstance(body, dict):
        return {name: _without(value, names) for name, value in body.items() if name not in names}
    return [_without(element, names) for element in body] if isinstance(body, list) else body
