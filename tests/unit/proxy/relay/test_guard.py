"""The guard of a session after a switch: what passes, what waits, what is answered."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.response import HOLD_LIMIT
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.relay.calls import Calls, SessionCalls
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.guard import LONGEST_METADATA, LONGEST_REQUEST, EpochGuard, Guard, GuardRules
from kproxy.proxy.switching import requests
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.positions import Position, PositionTracker
from tests.unit.kafka_frames import CHUNKINGS, Counted, chunks, request, response, string
from tests.unit.proxy.switching.frames import answer, ask

COMMIT, OFFSET_FETCH, EPOCHS, HEARTBEAT = 8, 9, 23, 68
ME = ClientIdentity("10.1.2.3", "me")
VERSIONS = request(ApiKey.API_VERSIONS, 3, 1, b"\x05java\x024\x00")


class Guarded:
    """A guarded conversation, and what its guard has asked for."""

    def __init__(self, *stale: ClientIdentity, software: str = "", sure_from: float = float("inf")) -> None:
        self.rules = GuardRules(PositionTracker(stale))
        self.rules.first_writes_until = sure_from
        self.again: list[float] = []
        self.ended: list[int] = []
        self.waiting: list[tuple[ClientIdentity, Position]] = []
        self.guard = Guard(
            self.rules,
            lambda: ClientIdentity("10.1.2.3", self.conversation.introduction.client_id),
            lambda: software,
            self.again.append,
            lambda: self.ended.append(1),
            lambda identity, position: self.waiting.append((identity, position)),
        )
        calls = SessionCalls(Calls(lambda code, name, version: Counted()))
        self.conversation = Conversation(calls, lambda found: [], 100 * 1024 * 1024)
        self.conversation.guard(self.guard)

    def client(self, *pieces: bytes, now: float = 1.0) -> bytes:
        return b"".join(bytes(self.conversation.from_client(piece, now)) for piece in pieces)

    def broker(self, *pieces: bytes) -> bytes:
        return b"".join(bytes(self.conversation.from_upstream(piece, 300.0)) for piece in pieces)

    def kproxy(self) -> bytes:
        return bytes(self.conversation.take_answers())

    def release(self, now: float = 2.0) -> bytes:
        self.guard.resume()
        return bytes(self.conversation.release(now))


def produce(correlation_id: int, acks: int = -1, size: int = 100) -> bytes:
    return request(ApiKey.PRODUCE, 7, correlation_id, string(None) + struct.pack(">hi", acks, 1000) + bytes(size))


def produced(correlation_id: int, error: int = 0) -> bytes:
    partitions = [{"Index": 0, "ErrorCode": error}]
    fields = {"Responses": [{"Name": "a", "PartitionResponses": partitions}]}
    return answer(ApiKey.PRODUCE, 7, fields, correlation_id)


def fetch(correlation_id: int, *offsets: int, wait: int = 500, name: str = "me") -> bytes:
    partitions = [{"Partition": number, "FetchOffset": offset} for number, offset in enumerate(offsets)]
    fields = {"MaxWaitMs": wait, "Topics": [{"Topic": "a", "Partitions": partitions}]}
    return ask(ApiKey.FETCH, 12, fields, correlation_id, name)


def committed(correlation_id: int, *offsets: int) -> bytes:
    partitions = [{"PartitionIndex": n, "CommittedOffset": offset} for n, offset in enumerate(offsets)]
    return answer(OFFSET_FETCH, 5, {"Topics": [{"Name": "a", "Partitions": partitions}]}, correlation_id)


OFFSETS = ask(OFFSET_FETCH, 5, {"GroupId": "g"}, 90)

# First writes


@given(sizes=CHUNKINGS, answers=CHUNKINGS)
def test_the_first_batches_pass_one_at_a_time(sizes: list[int], answers: list[int]) -> None:
    talk = Guarded()
    assert talk.client(*chunks(produce(1) + produce(2) + produce(3), sizes)) == produce(1)
    assert talk.guard.holds
    for number in (1, 2):
        assert talk.again == [0.0] * (number - 1)
        assert talk.broker(*chunks(produced(number), answers)) == produced(number)
        assert talk.release() == produce(number + 1)
    assert not talk.guard.holds
    assert talk.broker(produced(3)) == produced(3)
    assert talk.client(produce(4)) == produce(4)
    assert not talk.ended


@given(sizes=CHUNKINGS)
def test_after_a_refused_batch_nothing_passes_and_session_ends(sizes: list[int]) -> None:
    """NOT_LEADER_OR_FOLLOWER: without a guard the broker might take the next one."""
    talk = Guarded()
    assert talk.client(produce(1) + produce(2)) == produce(1)
    refused = produced(1, error=6)
    assert talk.broker(*chunks(refused, sizes)) == refused, "the client is told"
    assert talk.ended == [1]
    assert not talk.again
    assert talk.release() == b""
    assert talk.guard.holds


def test_a_batch_that_comes_after_a_refusal_waits_for_the_end() -> None:
    talk = Guarded()
    talk.client(produce(1))
    talk.broker(produced(1, error=3))
    assert talk.client(produce(2)) == b""
    assert talk.ended == [1]


def test_a_batch_that_is_there_already_is_no_refusal() -> None:
    talk = Guarded()
    talk.client(produce(1))
    talk.broker(produced(1, error=46))
    assert not talk.ended
    assert talk.client(produce(2)) == produce(2)


def test_a_batch_that_no_client_repeats_ends_no_session() -> None:
    """Its transaction is aborted; batches behind it that were not sent would keep librdkafka from doing so."""
    talk = Guarded()
    assert talk.client(produce(1) + produce(2)) == produce(1)
    talk.broker(produced(1, error=49))
    assert not talk.ended
    assert talk.release() == produce(2)


def test_batches_without_an_answer_are_not_waited_for() -> None:
    talk = Guarded()
    assert talk.client(produce(1, acks=0), produce(2, acks=0)) == produce(1, acks=0) + produce(2, acks=0)
    assert talk.client(produce(3)) == produce(3)
    assert not talk.guard.holds


def test_after_an_accepted_batch_and_the_time_all_batches_pass() -> None:
    talk = Guarded(sure_from=100.0)
    assert talk.client(produce(1) + produce(2), now=200.0) == produce(1), "the first one is not sure at any time"
    assert talk.broker(produced(1)) == produced(1)
    assert talk.release(now=99.0) == produce(2)
    assert talk.broker(produced(2)) == produced(2)
    several = b"".join(produce(number) for number in range(3, 9))
    assert talk.client(several, now=100.0) == several
    assert ApiKey.PRODUCE not in talk.guard.keys
    refused = b"".join(produced(number, error=6) for number in range(3, 9))
    assert talk.broker(refused) == refused
    assert not talk.ended


def test_what_is_no_write_passes_beside() -> None:
    talk = Guarded()
    metadata = request(ApiKey.METADATA, 12, 2, bytes(10))
    assert talk.client(produce(1) + metadata) == produce(1) + metadata
    assert talk.client(metadata) == metadata


# Positions


def test_a_consumer_that_is_new_is_not_looked_at() -> None:
    talk = Guarded(ClientIdentity("10.1.2.3", "other"))
    assert talk.client(VERSIONS + fetch(2, 5)) == VERSIONS + fetch(2, 5)
    assert ApiKey.FETCH not in talk.guard.keys
    assert talk.client(fetch(3, 77)) == fetch(3, 77)


@given(sizes=CHUNKINGS)
def test_a_stale_position_is_answered_with_nothing_new(sizes: list[int]) -> None:
    talk = Guarded(ME)
    talk.client(VERSIONS)
    stale = fetch(2, 5)
    assert talk.client(*chunks(stale, sizes)) == b""
    assert talk.again == [0.5]
    assert talk.waiting == [(ME, (b"a", 0, 5))]
    assert talk.conversation.held
    assert talk.release() == b""
    assert not talk.guard.holds


def test_the_answer_keeps_the_order_of_the_requests() -> None:
    talk = Guarded(ME)
    metadata = request(ApiKey.METADATA, 12, 2, bytes(10))
    leaving = request(13, 0, 4, bytes(20))
    assert talk.client(metadata + fetch(3, 5) + leaving) == metadata
    assert talk.release() == leaving
    nothing = requests.empty_fetch_response(requests.read_fetch(fetch(3, 5)))
    of_metadata = response(
        ApiKey.METADATA, 12, struct.pack(">i", 0) + b"\x01\x00" + struct.pack(">i", 7) + b"\x01\x00", 2
    )
    of_leaving = response(13, 0, b"\0\0", 4)
    assert talk.broker(of_metadata + of_leaving) == of_metadata + nothing + of_leaving
    assert talk.conversation.in_flight == 0
    assert talk.kproxy() == b""


def test_with_nothing_in_flight_it_is_answered_at_once() -> None:
    talk = Guarded(ME)
    assert talk.client(fetch(3, 5)) == b""
    assert talk.release() == b""
    assert talk.kproxy() == requests.empty_fetch_response(requests.read_fetch(fetch(3, 5)))
    assert talk.client(fetch(4, 5)) == b"", "and again"
    assert talk.again == [0.5, 0.5]
    assert len(talk.waiting) == 1, "but it is said once"


JAVA = "apache-kafka-java 4.3.1"
WORKER = [ClientIdentity("10.1.2.3", f"workers-{topic}") for topic in ("configs", "offsets", "statuses")]


@pytest.mark.parametrize(
    ("software", "name", "others", "begins"),
    [
        # A store of Kafka Streams: its position is from a file.
        (JAVA, "app-1f-StateUpdater-1-restore-consumer", [], True),
        ("apache-kafka-java 3.5.0", "app-1f-StreamThread-2-restore-consumer", [], True),
        (JAVA, "app-1f-global-consumer", [], True),
        (JAVA, "app-1f-StreamThread-2-consumer", [], False),
        (JAVA, "restore-consumer", [], False),
        ("other 1.0", "app-1f-global-consumer", [], False),
        # The consumers of a Connect worker: only all three of them together are taken for a worker's.
        (JAVA, "workers-configs", WORKER, True),
        (JAVA, "workers-offsets", WORKER, True),
        (JAVA, "workers-offsets", WORKER[:2], False),
        (JAVA, "workers-configs", [*WORKER[:2], ClientIdentity("10.1.2.4", "workers-statuses")], False),
        ("librdkafka 2.16", "workers-configs", WORKER, False),
    ],
)
def test_what_never_asks_for_another_position_begins_again(
    software: str, name: str, others: list[ClientIdentity], begins: bool
) -> None:
    talk = Guarded(ClientIdentity("10.1.2.3", name), *others, software=software)
    fetching = fetch(3, 5, name=name)
    assert talk.client(fetching) == b""
    assert talk.release() == b""
    stale = (b"a", 0, 5) if begins else None
    assert talk.kproxy() == requests.empty_fetch_response(requests.read_fetch(fetching), stale)
    examined = ask(EPOCHS, 4, {"Topics": [{"Topic": "a", "Partitions": [{"Partition": 0}]}]}, 2, name)
    assert talk.client(examined) == b""
    assert talk.kproxy() == requests.epochs_refusal(requests.read_epochs(examined), for_good=begins)


def test_a_partitions_next_leader_is_not_a_stale_position() -> None:
    """The client goes on there on another connection, while the one to the former leader stays."""
    talk, next_leader = Guarded(ME), Guarded(ME)
    next_leader.guard._rules = talk.rules
    talk.client(OFFSETS)
    talk.broker(committed(90, 12))
    assert talk.client(fetch(2, 12), now=1.0) == fetch(2, 12)
    assert next_leader.client(fetch(3, 77), now=2.0) == b""
    assert not next_leader.waiting, "nobody is alarmed"
    assert next_leader.release(now=7.0) == fetch(3, 77)


@pytest.mark.parametrize(("wait", "seconds"), [(0, 0.1), (-1, 0.1), (300, 0.3), (1_000_000, 1.0)])
def test_it_waits_as_long_as_for_records_within_bounds(wait: int, seconds: float) -> None:
    talk = Guarded(ME)
    talk.client(fetch(3, 5, wait=wait))
    assert talk.again == [seconds]


def test_a_consumer_goes_on_where_it_was_told() -> None:
    talk = Guarded(ME)
    talk.client(fetch(3, 5, 6))
    assert talk.release() == b""
    talk.kproxy()
    assert talk.client(OFFSETS) == OFFSETS
    told = committed(90, 12, 13)
    assert talk.broker(told) == told
    assert talk.client(fetch(91, 5, 13)) == b"", "one of them is stale still"
    assert talk.release() == b""
    talk.kproxy()
    right = fetch(92, 12, 13)
    assert talk.client(right, fetch(93, 20, 21)) == right + fetch(93, 20, 21)
    assert not talk.rules.positions.waiting


def test_a_position_from_another_connection_counts_for_a_fetch() -> None:
    talk = Guarded(ME)
    talk.client(fetch(3, 5))
    client = talk.rules.positions.client(ME)
    assert client is not None
    client.note_offset(b"a", 0, 5)
    assert talk.release() == fetch(3, 5)


def test_ends_of_a_log_count_as_told() -> None:
    talk = Guarded(ME)
    asked = ask(ApiKey.LIST_OFFSETS, 7, {"Topics": []}, 2)
    talk.client(asked)
    partitions = [{"PartitionIndex": 0, "Offset": 40}]
    talk.broker(answer(ApiKey.LIST_OFFSETS, 7, {"Topics": [{"Name": "a", "Partitions": partitions}]}, 2))
    assert talk.client(fetch(3, 40)) == fetch(3, 40)


def test_a_stale_position_is_not_examined_by_the_broker() -> None:
    """It may know nothing of its epoch, and then the consumer would begin anew."""
    talk = Guarded(ME)
    examined = ask(EPOCHS, 4, {"Topics": [{"Topic": "a", "Partitions": [{"Partition": 0}]}]}, 2)
    assert talk.client(examined) == b""
    assert talk.kproxy() == requests.epochs_refusal(requests.read_epochs(examined))
    talk.client(OFFSETS)
    talk.broker(committed(90, 12))
    assert talk.client(examined) == examined


def delete(correlation_id: int) -> bytes:
    topics = [{"Name": "a", "Partitions": [{"PartitionIndex": 0, "Offset": 500}]}]
    return ask(21, 2, {"Topics": topics, "TimeoutMs": 1000}, correlation_id)


@given(sizes=CHUNKINGS)
def test_a_possibly_held_request_deletes_no_records(sizes: list[int]) -> None:
    """Of whatever client: its offset may be one of the former cluster."""
    talk = Guarded(sure_from=30.0)
    assert talk.client(*chunks(delete(1), sizes), now=29.0) == b""
    assert talk.kproxy() == requests.deletion_refusal(delete(1))
    assert talk.client(*chunks(delete(2), sizes), now=30.0) == delete(2)
    told = answer(21, 2, {"Topics": [{"Name": "a", "Partitions": [{"LowWatermark": 500}]}]}, 2)
    assert talk.broker(*chunks(told, sizes)) == told
    assert talk.client(delete(3), now=31.0) == delete(3)


def test_a_deletion_under_way_is_answered_as_it_was_asked() -> None:
    talk = Guarded(sure_from=30.0)
    assert talk.client(fetch(1) + delete(2), now=29.0) == fetch(1)
    assert talk.broker(answer(ApiKey.FETCH, 12, {}, 1)) + talk.kproxy() == answer(
        ApiKey.FETCH, 12, {}, 1
    ) + requests.deletion_refusal(delete(2))


def commit(correlation_id: int, generation: int, member: str) -> bytes:
    topics = [{"Name": "a", "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 5}]}]
    fields: dict[str, Any] = {"GenerationIdOrMemberEpoch": generation, "MemberId": member, "Topics": topics}
    return ask(COMMIT, 8, fields, correlation_id)


@pytest.mark.parametrize(("generation", "member"), [(-1, ""), (4, "m")])
def test_a_stale_position_is_not_committed(generation: int, member: str) -> None:
    """Not even by a member: Java repeats a commit, with its new epoch, after it has joined the group again."""
    talk = Guarded(ME)
    stale = commit(2, generation, member)
    assert talk.client(stale) == b""
    assert talk.kproxy() == requests.commit_refusal(requests.read_commit(stale))
    talk.client(OFFSETS)
    talk.broker(committed(90, 12))
    assert talk.client(stale) == b"", "it was told another"
    talk.kproxy()
    assert talk.client(fetch(4, 12)) == fetch(4, 12)
    assert talk.client(stale) == stale, "from there on it counts itself"


def test_franz_go_hears_of_its_group_by_its_heartbeat() -> None:
    """From a commit it would join again with the position that it has."""
    talk = Guarded(ME, software="kgo v1.22.2")
    stale = commit(2, 4, "m")
    assert talk.client(stale) == b""
    assert talk.kproxy() == requests.commit_refusal(requests.read_commit(stale), keeps_positions=True)


def test_a_commit_of_a_returned_position_passes_in_any_group() -> None:
    talk = Guarded(ME)
    talk.client(OFFSETS)
    talk.broker(committed(90, 5))
    assert talk.client(commit(3, 4, "m") + OFFSETS) == commit(3, 4, "m") + OFFSETS
    answered = answer(COMMIT, 8, {"Topics": [{"Name": "a", "Partitions": [{"ErrorCode": 69}]}]}, 3)
    instead = answer(COMMIT, 8, {"Topics": [{"Name": "a", "Partitions": [{"ErrorCode": 25}]}]}, 3)
    assert talk.broker(answered + committed(90, 5)) == instead + committed(90, 5)


@given(sizes=CHUNKINGS)
def test_a_member_of_a_group_that_is_not_there_joins_again(sizes: list[int]) -> None:
    talk = Guarded()
    beat = request(HEARTBEAT, 1, 2, bytes(30))
    assert talk.client(beat) == beat
    answered = response(HEARTBEAT, 1, struct.pack(">ih", 0, 69) + bytes(20), 2)
    assert talk.broker(*chunks(answered, sizes)) == response(HEARTBEAT, 1, struct.pack(">ih", 0, 25) + bytes(20), 2)


@given(
    sizes=CHUNKINGS,
    kind=st.sampled_from([(12, 0, b"", b""), (12, 3, bytes(4), b""), (HEARTBEAT, 1, bytes(4), bytes(20))]),
)
def test_a_member_that_waits_asks_again_once(sizes: list[int], kind: tuple[int, int, bytes, bytes]) -> None:
    """As one does whose kproxy was started anew: the group knows it, and kproxy does not know what it was told."""
    key, version, before, behind = kind
    talk = Guarded(ME)

    def told(number: int, error: int) -> int:
        """What the client is told if the broker says this."""

        def answered(said: int) -> bytes:
            return response(key, version, before + struct.pack(">h", said) + behind, number)

        talk.client(request(key, version, number, bytes(30)))
        got = talk.broker(*chunks(answered(error), sizes))
        (said,) = [said for said in (error, 25) if got == answered(said)][:1]
        return said

    assert told(2, 0) == 0, "it does not wait"
    talk.client(fetch(3, 5))
    assert talk.release() == b""
    talk.kproxy()
    assert told(4, 27) == 27
    assert told(5, 0) == 25
    assert told(6, 0) == 0, "once is enough"


def test_a_member_that_was_told_its_position_stays() -> None:
    talk = Guarded(ME)
    talk.client(fetch(3, 5))
    talk.release()
    talk.kproxy()
    talk.client(OFFSETS)
    talk.broker(committed(90, 12))
    talk.client(request(12, 3, 4, bytes(30)))
    answered = response(12, 3, struct.pack(">ih", 0, 0), 4)
    assert talk.broker(answered) == answered


@pytest.mark.parametrize(("software", "client_id", "commits", "instead"), [
    ("apache-kafka-java", "me", True, 59), ("apache-kafka-java 4.3", "me", False, 0), ("librdkafka", "me", True, 49),
    ("", "me", False, 49), ("apache-kafka-java", "app-1f-StreamThread-1-producer", True, 49),
    ("apache-kafka-java", "app-StreamThread-2-0_1-producer", False, 49),
    ("apache-kafka-java", "app-StreamThread-producer", True, 59),
    ("apache-kafka-java", "app-StreamThread-1-producer-of-mine", True, 59)])  # fmt: skip
def test_a_transaction_of_the_former_cluster_ends(software: str, client_id: str, commits: bool, instead: int) -> None:
    """Kafka Streams makes another producer at 49, and ends at what other Java clients survive."""
    talk = Guarded(software=software)
    end = ask(ApiKey.END_TXN, 3, {"TransactionalId": "t", "Committed": commits}, 2, client_id)
    assert talk.client(end) == end
    assert talk.broker(answer(ApiKey.END_TXN, 3, {"ErrorCode": 49}, 2)) == answer(
        ApiKey.END_TXN, 3, {"ErrorCode": instead}, 2
    )


# Hostile input


def test_a_request_that_is_too_large_to_be_kept_ends_the_session() -> None:
    talk = Guarded(ME)
    with pytest.raises(WireError, match="too large to be examined"):
        talk.client(struct.pack(">ihhi", LONGEST_REQUEST + 1, ApiKey.FETCH, 12, 5) + string("me") + b"\0")


def test_a_long_request_is_kept_until_it_is_whole_and_no_longer() -> None:
    talk = Guarded(ME)
    long = fetch(3, *range(20_000))
    assert talk.client(long[:-1]) == b""
    assert talk.conversation.buffered == len(long) - 1
    assert talk.client(long[-1:]) == b""
    assert talk.release() == b""
    assert talk.conversation.buffered == len(talk.kproxy())


@given(sizes=CHUNKINGS)
@pytest.mark.parametrize(
    ("software", "first"),
    [
        ("librdkafka 2.3.0", -1),
        ("confluent-kafka-python 2.16.1-rdkafka-2.16.0", -1),
        ("apache-kafka-java 4.3.1", 57),
        ("", 57),
    ],
)
def test_librdkafka_is_told_no_epochs_at_first(sizes: list[int], software: str, first: int) -> None:
    """By those of the former cluster it would refuse the leaders of this one."""
    guarded = Guarded(software=software)
    for number, epoch in enumerate((first, 57, 57)):
        ask_ = ask(ApiKey.METADATA, 12, {}, number)
        assert guarded.client(ask_) == ask_
        told = guarded.broker(*chunks(metadata(57, number), sizes))
        assert told == metadata(epoch, number)


@pytest.mark.parametrize(("software", "first"), [("librdkafka 2.16.1", -1), ("apache-kafka-java 4.4.0", 57)])
def test_a_cluster_that_was_created_again_changes_nothing_else(software: str, first: int) -> None:
    conversation = Conversation(
        SessionCalls(Calls(lambda code, name, version: Counted())), lambda found: [], 100 * 1024 * 1024
    )
    conversation.guard(EpochGuard(lambda: software))
    for number, epoch in enumerate((first, 57)):
        asked = ask(ApiKey.METADATA, 12, {}, number)
        assert bytes(conversation.from_client(asked, 1.0)) == asked
        assert bytes(conversation.from_upstream(metadata(57, number), 300.0)) == metadata(epoch, number)
    for sent, came in ((produce(5), produced(5)), (produce(6), produced(6, 6))):
        assert bytes(conversation.from_client(sent, 1.0)) == sent
        assert bytes(conversation.from_upstream(came, 300.0)) == came


def test_long_metadata_passes_as_it_comes() -> None:
    guarded = Guarded(software="librdkafka 2.3.0")
    guarded.client(ask(ApiKey.METADATA, 12, {}, 1))
    whole = metadata(57, 1)[4:]
    guarded.broker(struct.pack(">i", LONGEST_METADATA + 1) + whole, bytes(LONGEST_METADATA + 1 - len(whole)))
    guarded.client(ask(ApiKey.METADATA, 12, {}, 2))
    assert guarded.broker(metadata(57, 2)) == metadata(-1, 2)


def metadata(epoch: int, correlation_id: int) -> bytes:
    partitions = [{"PartitionIndex": 0, "LeaderId": 1, "LeaderEpoch": epoch}]
    return answer(ApiKey.METADATA, 12, {"Topics": [{"Name": "a", "Partitions": partitions}]}, correlation_id)


def test_a_response_too_large_to_hold_ends_the_session() -> None:
    talk = Guarded(ME)
    talk.client(OFFSETS)
    with pytest.raises(WireError, match="must be examined"):
        talk.broker(struct.pack(">ii", 1 << 30, 90), *[bytes(1024 * 1024)] * (HOLD_LIMIT // 1024 // 1024 + 1))


@pytest.mark.parametrize("key", [ApiKey.FETCH, COMMIT, EPOCHS, ApiKey.END_TXN])
@given(body=st.binary(max_size=60))
def test_nonsense_raises_only_wire_errors(key: int, body: bytes) -> None:
    talk = Guarded(ME)
    with contextlib.suppress(WireError):
        talk.client(request(key, {ApiKey.FETCH: 12, COMMIT: 8, EPOCHS: 4, ApiKey.END_TXN: 3}[key], 5, body))


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, OFFSET_FETCH, ApiKey.LIST_OFFSETS, HEARTBEAT, ApiKey.END_TXN])
@given(body=st.binary(max_size=60))
def test_a_broker_that_says_nonsense_raises_only_wire_errors(key: int, body: bytes) -> None:
    asked = {
        ApiKey.PRODUCE: produce(5), OFFSET_FETCH: ask(OFFSET_FETCH, 5, {}, 5),
        ApiKey.LIST_OFFSETS: ask(ApiKey.LIST_OFFSETS, 7, {}, 5),
        HEARTBEAT: request(HEARTBEAT, 1, 5, bytes(30)), ApiKey.END_TXN: ask(ApiKey.END_TXN, 3, {}, 5),
    }[key]  # fmt: skip
    talk = Guarded(ME, software="apache-kafka-java")
    talk.client(asked)
    version = {ApiKey.PRODUCE: 7, OFFSET_FETCH: 5, ApiKey.LIST_OFFSETS: 7, HEARTBEAT: 1, ApiKey.END_TXN: 3}[key]
    with contextlib.suppress(WireError):
        talk.broker(response(key, version, body, 5))
