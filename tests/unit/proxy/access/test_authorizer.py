"""The access rules of one session: what passes, what is answered and how, what ends the connection, what it costs."""

from __future__ import annotations

import random
import struct
import sys
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.config.access import AccessRule, AccessRules, NamePattern
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.messages import encode_response, read_request, read_response, read_versions
from kproxy.proxy.access.apis import BETWEEN_BROKERS, CHANGES, LOGINS, READS
from kproxy.proxy.access.authorizer import LONGEST_PRODUCE, TURN, SessionAuthorizer
from kproxy.proxy.access.names import LONGEST_DECODED, MOST_DECODED
from kproxy.proxy.access.produce import MOST_PARTITIONS
from kproxy.proxy.access.sessionrules import RefusedRequest, SessionRules
from kproxy.proxy.relay.calls import Calls, SessionCalls
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.guard import Guard, GuardRules
from kproxy.proxy.relay.inflight import MAX_LOCAL_BYTES
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.positions import PositionTracker
from tests.unit.kafka_frames import CHUNKINGS, Counted, chunks, local, request
from tests.unit.proxy.switching.frames import ask

CUTS = [[1 << 20], [1], [13], [100, 1]]
READ_ONLY = AccessRules(read_only=True)
DEV_GROUPS = AccessRules(read_only=True, allow_groups=(NamePattern("dev-*"),))


def rules(*texts: str, read_only: bool = False) -> AccessRules:
    return AccessRules(read_only, rules=tuple(map(AccessRule.parse, texts)))


ORDERS = rules("allow produce orders-*", "deny produce *")


class Client:
    """A client whose requests access rules judge."""

    def __init__(self, access: AccessRules = READ_ONLY) -> None:
        self.refused: list[RefusedRequest] = []
        self.turns = 0
        self._times = count()
        self.authorizer = SessionAuthorizer(SessionRules(access), self.refused.append, self._resume)
        self.counted: dict[str, Counted] = {}
        calls = SessionCalls(Calls(lambda code, name, version: self.counted.setdefault(name, Counted())))
        self.conversation = Conversation(
            calls, lambda found: [local(endpoint) for endpoint in found.nodes], 100 * 1024 * 1024
        )
        self.conversation.authorize(self.authorizer)

    def _resume(self) -> None:
        self.turns += 1

    def sends(self, *pieces: bytes) -> bytes:
        """Each piece comes with a read of its own."""
        return b"".join(bytes(self.conversation.from_client(piece, float(next(self._times)))) for piece in pieces)

    def sends_and_waits(self, *pieces: bytes) -> bytes:
        """As `sends`, and then as many turns of the loop as the rest takes."""
        passed = self.sends(*pieces)
        while self.conversation.hold_count:
            passed += bytes(self.conversation.release(float(next(self._times))))
        return passed

    def receives(self) -> bytes:
        return bytes(self.conversation.take_answers())

    def broker(self, *pieces: bytes) -> bytes:
        return b"".join(bytes(self.conversation.from_upstream(piece, 1e6)) for piece in pieces)


def produce(*topics: str, acks: int = -1, correlation_id: int = 7, size: int = 100, version: int = 9) -> bytes:
    data = [{"Name": topic, "PartitionData": [{"Index": 0, "Records": bytes(size)}]} for topic in topics]
    return ask(ApiKey.PRODUCE, version, {"Acks": acks, "TimeoutMs": 1000, "TopicData": data}, correlation_id)


def produced(response: bytes, version: int = 9) -> dict[str, int]:
    """The error of each topic in a Produce response."""
    topics = read_response(ApiKey.PRODUCE, version, response, 8)["Responses"]
    return {topic["Name"].decode(): topic["PartitionResponses"][0]["ErrorCode"] for topic in topics}


def join(group: str, correlation_id: int = 7, version: int = 5) -> bytes:
    fields = {"GroupId": group, "ProtocolType": "consumer", "Protocols": [{"Name": "range", "Metadata": bytes(20)}]}
    return ask(ApiKey.JOIN_GROUP, version, fields, correlation_id)


def split(frames: bytes) -> list[bytes]:
    """The frames that stand one behind the other."""
    result = []
    while frames:
        size = 4 + int.from_bytes(frames[:4])
        result.append(frames[:size])
        frames = frames[size:]
    return result


def test_the_table_has_each_api_once() -> None:
    kinds = (set(CHANGES), READS, LOGINS, BETWEEN_BROKERS)
    assert sum(map(len, kinds)) == len(APIS)
    assert set().union(*kinds) == set(APIS)


def test_an_api_that_is_not_in_the_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.access.sessionrules.READS", READS - {ApiKey.LIST_GROUPS})
    with pytest.raises(WireError, match="ListGroups"):
        Client().sends(request(ApiKey.LIST_GROUPS, 0, 1))
    with pytest.raises(WireError, match="kproxy"):  # and one that Kafka does not have yet
        Client().sends(request(120, 0, 1))


def test_nothing_is_judged_where_nothing_is_forbidden() -> None:
    assert AccessRules().forbids_nothing
    assert rules("allow produce *", "deny produce x").forbids_nothing
    client = Client(rules("deny group payments"))
    for code in (ApiKey.PRODUCE << 16 | 9, ApiKey.FETCH << 16 | 12, ApiKey.METADATA << 16 | 9, ApiKey.END_TXN << 16):
        call = client.conversation._all_calls[code]
        assert call is not None
        assert not call.is_judged


@pytest.mark.parametrize("cut", CUTS)
def test_reads_pass_and_changes_are_answered_in_their_places(cut: list[int]) -> None:
    """A refused request between two reads: the answer waits for the first one's."""
    client = Client()
    fetch = ask(ApiKey.FETCH, 4, {"MaxWaitMs": 500}, 1)
    groups = request(ApiKey.LIST_GROUPS, 0, 3)
    assert client.sends(*chunks(fetch + join("payments", 2) + groups, cut)) == fetch + groups
    assert client.receives() == b""
    first = encode_response(ApiKey.FETCH, 4, 1, {})
    third = encode_response(ApiKey.LIST_GROUPS, 0, 3, {})
    answered = split(client.broker(*chunks(first + third, cut)))
    assert [int.from_bytes(frame[4:8]) for frame in answered] == [1, 2, 3]
    assert read_response(ApiKey.JOIN_GROUP, 5, answered[1], 8)["ErrorCode"] == 30
    assert client.conversation.is_idle
    (refused,) = client.refused
    assert (refused.api, refused.family, refused.name, refused.error) == ("JoinGroup", "group", "payments", 30)


def test_allowed_groups_pass_and_the_text_names_them() -> None:
    client = Client(DEV_GROUPS)
    mine = join("dev-1")
    assert client.sends(mine) == mine
    beat = request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 8, b"\x09payments" + bytes(30))
    assert client.sends(beat) == b""
    assert client.receives() == b"", "it comes behind the answer to JoinGroup"
    joined = encode_response(ApiKey.JOIN_GROUP, 5, 7, {})
    _, answer = split(client.broker(joined))
    fields = read_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, answer, 8)
    assert fields["ErrorCode"] == 30
    assert fields["ErrorMessage"] == b"kproxy refuses this: --read-only; allowed groups: dev-*"


def test_a_large_request_that_is_allowed_passes_as_it_comes() -> None:
    """The first bytes decide: a commit of more than kproxy would decode is not kept."""
    topics = [{"Name": "t", "Partitions": [{"PartitionIndex": number} for number in range(10_000)]}]
    client = Client(DEV_GROUPS)
    commit = ask(ApiKey.OFFSET_COMMIT, 2, {"GroupId": "dev-1", "Topics": topics})
    assert len(commit) > LONGEST_DECODED
    assert client.sends(commit[:40]) == commit[:40]
    assert client.conversation.buffered == 0
    assert client.sends(commit[40:]) == commit[40:]
    with pytest.raises(WireError) as caught:  # the same of another group is too large to be answered
        Client(DEV_GROUPS).sends_and_waits(ask(ApiKey.OFFSET_COMMIT, 2, {"GroupId": "other", "Topics": topics}))
    assert caught.value.reason == "refused-request-too-large"


def test_a_group_id_that_comes_in_pieces_is_waited_for() -> None:
    client = Client(DEV_GROUPS)
    frame = ask(ApiKey.SYNC_GROUP, 1, {"GroupId": "dev-" + "x" * 200, "Assignments": [{"Assignment": bytes(200_000)}]})
    assert client.sends(frame[:30]) == b""
    assert client.sends(frame[30:]) == frame


# Produce


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_refused_produce_request_is_skipped_as_it_comes(cut: list[int], version: int) -> None:
    client = Client()
    frame = produce("orders-1", "audit", size=3000, version=version)
    assert client.sends(*chunks(frame, cut)) == b""
    assert produced(client.receives(), version) == {"orders-1": 29, "audit": 29}
    assert client.conversation.is_idle


def test_a_huge_produce_request_costs_no_memory() -> None:
    client = Client()
    frame = produce("orders-1", size=30_000_000)
    for at in range(0, len(frame), 1 << 20):
        assert client.sends(frame[at : at + (1 << 20)]) == b""
        assert client.conversation.buffered < 1000
    assert produced(client.receives()) == {"orders-1": 29}


def test_a_huge_produce_request_to_one_allowed_topic_passes_as_it_comes() -> None:
    client = Client(ORDERS)
    frame = produce("orders-1", size=30_000_000)
    assert client.sends(frame[:100]) == frame[:100]
    assert client.sends(frame[100:]) == frame[100:]
    several = produce("orders-1", "orders-2", size=LONGEST_PRODUCE)
    with pytest.raises(WireError) as caught:
        client.sends(several[: 1 << 20])
    assert caught.value.reason == "refused-request-too-large"


def test_a_request_with_more_partitions_than_are_read_ends_the_connection() -> None:
    data = [{"Name": "t", "PartitionData": [{"Index": number} for number in range(MOST_PARTITIONS + 1)]}]
    with pytest.raises(WireError, match="1000 topics and partitions"):
        Client().sends(ask(ApiKey.PRODUCE, 9, {"Acks": 1, "TopicData": data}))


@pytest.mark.parametrize("cut", CUTS)
def test_of_a_mixed_produce_request_the_allowed_topics_pass(cut: list[int]) -> None:
    client = Client(ORDERS)
    passed = client.sends(*chunks(produce("audit", "orders-1", "x", "orders-2"), cut))
    assert passed == produce("orders-1", "orders-2")
    accepted = [{"Name": name, "PartitionResponses": [{"BaseOffset": 5}]} for name in ("orders-1", "orders-2")]
    response = encode_response(ApiKey.PRODUCE, 9, 7, {"Responses": accepted})
    answer = client.broker(*chunks(response, cut))
    assert produced(answer) == {"audit": 29, "x": 29, "orders-1": 0, "orders-2": 0}
    assert client.conversation.is_idle
    assert client.refused[0].in_part
    assert client.counted["Produce"].count == 1
    # The next one, of which all is allowed, passes unchanged.
    assert client.sends(produce("orders-1", correlation_id=8)) == produce("orders-1", correlation_id=8)


@pytest.mark.parametrize("access", [READ_ONLY, ORDERS])
def test_a_refused_produce_request_without_acks_ends_the_connection(access: AccessRules) -> None:
    with pytest.raises(WireError, match="acks=0 to topic audit") as caught:
        Client(access).sends(produce("audit", acks=0))
    assert caught.value.reason == "produce-refused"


def test_an_allowed_produce_request_without_acks_passes() -> None:
    client = Client(ORDERS)
    assert client.sends(produce("orders-1", acks=0)) == produce("orders-1", acks=0)
    assert client.conversation.in_flight == 0


def test_topics_without_names_are_refused_and_their_versions_not_offered() -> None:
    by_topic = rules("allow produce a", "deny produce *", "deny topic b")
    with pytest.raises(WireError, match="12"):
        Client(by_topic).sends(request(ApiKey.PRODUCE, 13, 1, bytes(40)))
    offered = _offered(by_topic)
    assert offered[ApiKey.PRODUCE].stop - 1 == 12
    assert offered[ApiKey.DELETE_TOPICS].stop - 1 == 5
    assert offered[ApiKey.FETCH].stop - 1 == ApiKey.FETCH.newest
    assert not BETWEEN_BROKERS & offered.keys()
    assert _offered(READ_ONLY)[ApiKey.PRODUCE].stop - 1 == ApiKey.PRODUCE.newest


def _offered(access: AccessRules) -> dict[int, range]:
    client, question = Client(access), request(ApiKey.API_VERSIONS, 0, 1)
    ranges = [{"ApiKey": key, "MinVersion": 0, "MaxVersion": api.newest} for key, api in APIS.items()]
    assert client.sends(question) == question
    return read_versions(client.broker(encode_response(ApiKey.API_VERSIONS, 0, 1, {"ApiKeys": ranges}))[8:])


def test_an_idempotent_producer_gets_its_id_if_it_may_write_anywhere() -> None:
    plain = request(ApiKey.INIT_PRODUCER_ID, 0, 1, b"\xff\xff\0\0\0\0")
    assert Client(ORDERS).sends(plain) == plain
    client = Client()
    assert client.sends(plain) == b""
    assert read_response(ApiKey.INIT_PRODUCER_ID, 0, client.receives(), 8)["ErrorCode"] == 31
    transactional = request(ApiKey.INIT_PRODUCER_ID, 0, 1, b"\0\1a\0\0\0\0")
    client = Client()
    assert client.sends(transactional) == b""
    assert read_response(ApiKey.INIT_PRODUCER_ID, 0, client.receives(), 8)["ErrorCode"] == 53


def test_an_empty_topic_name_is_no_way_around_the_rules() -> None:
    client = Client(ORDERS)
    assert client.sends(produce("")) == b""
    assert produced(client.receives()) == {"": 29}


def test_of_what_else_is_named_together_nothing_passes() -> None:
    client = Client(rules("allow topic dev-*", "deny topic *"))
    topics = [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1} for name in ("dev-1", "orders")]
    assert client.sends(ask(ApiKey.CREATE_TOPICS, 5, {"Topics": topics})) == b""
    results = read_response(ApiKey.CREATE_TOPICS, 5, client.receives(), 8)["Topics"]
    assert {result["Name"]: result["ErrorCode"] for result in results} == {b"dev-1": 55, b"orders": 29}
    mine = ask(ApiKey.CREATE_TOPICS, 5, {"Topics": topics[:1]}, 8)
    assert client.sends(mine) == mine


def test_settings_belong_to_the_family_of_their_resource() -> None:
    client = Client(rules("allow topic dev-*", "deny topic *", "deny admin *"))
    resources = [{"ResourceType": kind, "ResourceName": name} for kind, name in ((2, "dev-1"), (2, "orders"), (4, "1"))]
    assert client.sends(ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, {"Resources": resources})) == b""
    results = read_response(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, client.receives(), 8)["Responses"]
    assert [result["ErrorCode"] for result in results] == [55, 29, 31]


def test_a_refused_request_with_very_many_elements_ends_the_connection() -> None:
    with pytest.raises(WireError, match="kproxy answers 1000"):
        Client().sends_and_waits(ask(ApiKey.DELETE_TOPICS, 5, {"TopicNames": [""] * 1001}))
    with pytest.raises(WireError, match="than kproxy reads at once"):
        Client().sends_and_waits(ask(ApiKey.DELETE_TOPICS, 5, {"TopicNames": [""] * (MOST_DECODED + 1)}))
    partitions = [{"Name": name, "Partitions": list(range(1500))} for name in ("a", "b")]
    fields = {"V3AndBelowTransactionalId": "t", "V3AndBelowTopics": partitions}
    with pytest.raises(WireError, match="names 3002 things or more; kproxy answers 2000"):
        Client().sends_and_waits(ask(ApiKey.ADD_PARTITIONS_TO_TXN, 0, fields))


# Metadata


def metadata(version: int, *topics: str, **more: Any) -> bytes:
    return ask(ApiKey.METADATA, version, {"Topics": [{"Name": topic} for topic in topics] or None, **more})


@pytest.mark.parametrize("version", range(4, 14))
def test_metadata_creates_no_topics(version: int) -> None:
    client = Client()
    (passed,) = split(client.sends(metadata(version, "a", "bc", AllowAutoTopicCreation=1)))
    assert not read_request(passed).fields["AllowAutoTopicCreation"]
    unchanged = metadata(version, "a", "bc", AllowAutoTopicCreation=0)
    assert passed == unchanged
    assert Client().sends(unchanged) == unchanged


@pytest.mark.parametrize("version", range(4))
def test_old_metadata_requests_become_some_that_create_no_topics(version: int) -> None:
    client = Client()
    named = [{"Name": topic} for topic in ("a", "bc")]
    passed = client.sends(ask(ApiKey.METADATA, version, {"Topics": named}))
    assert passed == ask(ApiKey.METADATA, 4, {"Topics": named, "AllowAutoTopicCreation": 0})
    everything = ask(ApiKey.METADATA, version, {"Topics": None if version else []})
    assert Client().sends(everything) == ask(ApiKey.METADATA, 4, {"Topics": None, "AllowAutoTopicCreation": 0})
    brokers = [{"NodeId": 1, "Host": "kafka", "Port": 9092, "Rack": "r"}]
    partition = {"PartitionIndex": 3, "LeaderId": 1, "ReplicaNodes": [1, 2], "IsrNodes": [1]}
    topics = [{"Name": "a", "IsInternal": 1, "Partitions": [partition, partition]}, {"Name": "bc", "ErrorCode": 3}]
    fields = {"Brokers": brokers, "ClusterId": "c", "ControllerId": 1, "Topics": topics, "ThrottleTimeMs": 9}
    answer = client.broker(encode_response(ApiKey.METADATA, 4, 7, fields))
    port = read_response(ApiKey.METADATA, version, answer, 8)["Brokers"][0]["Port"]
    brokers[0] |= {"Host": "127.0.0.1", "Port": port}
    assert answer == encode_response(ApiKey.METADATA, version, 7, fields)


def test_metadata_passes_unread_where_topics_may_be_created() -> None:
    frame = metadata(9, "a", AllowAutoTopicCreation=1)
    assert Client(ORDERS).sends(frame) == frame


def test_a_metadata_request_with_too_many_topics_ends_the_connection() -> None:
    with pytest.raises(WireError, match="names 10001 topics"):
        Client().sends(request(ApiKey.METADATA, 4, 1, struct.pack(">i", 10_001) + bytes(30_000)))


# Bounds


def test_the_rest_of_many_requests_waits_for_the_next_turn() -> None:
    client = Client()
    number_of_all = 3 * TURN
    frames = b"".join(join("payments", number) for number in range(number_of_all))
    assert client.sends(frames) == b""
    turns = answered = 0
    while client.conversation.hold_count:
        answered += len(split(client.receives()))
        turns += 1
        assert client.turns == turns
        client.conversation.release(1.0 + turns)
    assert answered + len(split(client.receives())) == number_of_all
    assert turns >= 2
    assert [refused.correlation_id for refused in client.refused] == list(range(number_of_all))


STEPPED = rules(*(f"allow {family} {' '.join(f'*-{n}' for n in range(90))}" for family in ("topic", "produce")),
                "deny topic *", "deny produce *")  # fmt: skip


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.CREATE_TOPICS])
def test_one_large_request_is_judged_in_several_turns(key: ApiKey, allowed: bool) -> None:
    """And what comes behind it, also meanwhile, waits for its answer, or passes behind it."""
    client = Client(STEPPED)
    names = [f"topic-{number % 90 if allowed or number < 399 else 'x'}" for number in range(400)]
    if key == ApiKey.PRODUCE:
        frame = produce(*names, size=10)
    else:
        frame = ask(key, 5, {"Topics": [{"Name": name, "NumPartitions": 1} for name in names]})
    behind = join("g", 8), join("g", 9)
    passed = client.sends(frame + behind[0]) + client.sends_and_waits(behind[1])
    assert client.turns > 3
    if allowed:
        assert passed == frame + b"".join(behind)
    elif key == ApiKey.PRODUCE:
        assert passed == produce(*names[:-1], size=10) + b"".join(behind)
    else:
        assert passed == b"".join(behind)
        results = read_response(key, 5, client.receives(), 8, 1 << 20)["Topics"]
        assert [result["ErrorCode"] for result in results] == [55] * 399 + [29]
    assert len(client.refused) == (not allowed)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("key", [ApiKey.TXN_OFFSET_COMMIT, ApiKey.ADD_OFFSETS_TO_TXN])
def test_a_request_with_two_names_comes_in_pieces(key: ApiKey, cut: list[int]) -> None:
    """Both names are there long before the rest: nothing is judged in steps before the request is whole."""
    client = Client(rules("deny group *"))
    topics = [{"Name": "t", "Partitions": [{"PartitionIndex": number} for number in range(1500)]}]
    fields: dict[str, Any] = {"TransactionalId": "t" * 5000, "GroupId": "g" * 5000}
    more = {"Topics": topics} if key == ApiKey.TXN_OFFSET_COMMIT else {}
    frame = ask(key, 0, {**fields, **more})
    assert client.sends_and_waits(*chunks(frame, cut)) == b"", "more comes while it waits"
    fields = read_response(key, 0, client.receives(), 8)
    error = fields["Topics"][0]["Partitions"][1499]["ErrorCode"] if more else fields["ErrorCode"]
    assert error == 30
    assert len(client.refused) == 1


def test_answers_that_wait_behind_a_request_are_bounded() -> None:
    client = Client()
    client.sends(ask(ApiKey.FETCH, 4, {"MaxWaitMs": 500}, 1))
    frame = ask(ApiKey.DELETE_TOPICS, 5, {"TopicNames": ["x" * 200 for _ in range(100)]})

    def send_all() -> None:
        for _ in range(1000):
            client.sends_and_waits(frame)

    with pytest.raises(WireError) as caught:
        send_all()
    assert caught.value.reason == "too-many-in-flight"
    assert client.conversation._in_flight.local_bytes < MAX_LOCAL_BYTES + 100_000


def test_a_guard_after_a_switch_judges_what_the_rules_let_pass() -> None:
    client = Client(ORDERS)
    calls = SessionCalls(Calls(lambda code, name, version: Counted()))
    conversation = client.conversation = Conversation(calls, lambda found: [], 100 * 1024 * 1024)
    guard_rules = GuardRules(PositionTracker([]))
    guard = Guard(guard_rules, lambda: ClientIdentity("", ""), str, lambda seconds: None, lambda: None, lambda *_: None)
    conversation.guard(guard)
    conversation.authorize(client.authorizer)
    mixed = produce("audit", "orders-1", correlation_id=1)
    assert client.sends(mixed + produce("orders-1", correlation_id=2)) == produce("orders-1", correlation_id=1)
    assert guard.holds, "the first write has no answer yet"
    accepted = [{"Name": "orders-1", "PartitionResponses": [{}]}]
    answer = client.broker(encode_response(ApiKey.PRODUCE, 9, 1, {"Responses": accepted}))
    assert produced(answer) == {"audit": 29, "orders-1": 0}
    guard.resume()
    assert bytes(conversation.release(2.0)) == produce("orders-1", correlation_id=2)


@given(st.sampled_from(sorted([*CHANGES, ApiKey.METADATA])), st.data())
def test_garbage_is_refused_or_ends_the_connection(key: int, data: st.DataObject) -> None:
    version = data.draw(st.integers(APIS[key].oldest, APIS[key].newest))
    body = data.draw(st.binary(max_size=300))
    client = Client(data.draw(st.sampled_from([READ_ONLY, DEV_GROUPS, ORDERS, rules("deny topic a*", "deny admin *")])))
    try:
        client.sends(*chunks(request(key, version, 1, body), data.draw(CHUNKINGS)))
    except WireError:
        return
    client.receives()


def test_any_chunking_gives_the_same() -> None:
    rng = random.Random(7)
    frames = b"".join(
        rng.choice([produce("orders-1", "x", correlation_id=number), join("g", number), metadata(4, "a")])
        for number in range(60)
    )
    results = set()
    for cut in CUTS:
        client = Client(rules("allow produce orders-*", read_only=True))
        passed = client.sends(*chunks(frames, cut))
        results.add((passed, tuple(refused.correlation_id for refused in client.refused)))
    assert len(results) == 1


@pytest.mark.parametrize("key", [ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_the_work_for_a_refused_request_grows_with_its_size_alone(key: ApiKey) -> None:
    """Counted in lines of kproxy's code. Each element was once compared with each forbidden name."""

    def lines(elements: int) -> int:
        names = [f"t{number}" for number in range(elements)]
        fields: dict[ApiKey, dict[str, Any]] = {
            ApiKey.CREATE_TOPICS: {"Topics": [{"Name": name, "NumPartitions": 1} for name in names]},
            ApiKey.DELETE_TOPICS: {"TopicNames": names},
            ApiKey.INCREMENTAL_ALTER_CONFIGS: {
                "Resources": [{"ResourceType": 2, "ResourceName": name, "Configs": []} for name in names]
            },
        }
        request, client, count = ask(key, 1, fields[key]), Client(rules("allow topic dev-*", "deny topic *")), 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal count
            count += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert client.sends_and_waits(request) == b""
        finally:
            sys.settrace(before)
        assert client.receives()
        return count

    lines(1)  # definitions are loaded once
    assert lines(800) < 10 * lines(100)
