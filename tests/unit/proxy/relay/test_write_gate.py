"""While writes are held, all else passes, and nothing behind a write; what is under way is counted."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.relay.calls import Calls, SessionCalls
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.switching.caps import NEWEST_WITH_TOPIC_NAMES
from kproxy.proxy.switching.writes import HARMFUL_IF_REPEATED, WRITES
from tests.unit.kafka_frames import CHUNKINGS, Counted, Talk, chunks, request, response, string

OFFSET_COMMIT, HEARTBEAT = 8, 12
VERSIONS = request(ApiKey.API_VERSIONS, 3, 1, b"\x05java\x024\x00")
READS = [
    VERSIONS,
    request(ApiKey.METADATA, 12, 7),
    request(ApiKey.FETCH, 4, 8, bytes(5_000)),
    request(HEARTBEAT, 0, 9, bytes(20)),
]


def produce(acks: int, correlation_id: int = 5, size: int = 1000) -> bytes:
    return request(ApiKey.PRODUCE, 7, correlation_id, string(None) + struct.pack(">hi", acks, 1000) + bytes(size))


HELD = [
    produce(-1),
    produce(0),
    request(OFFSET_COMMIT, 2, 5, bytes(30)),
    *(request(key, 0, 5) for key in sorted(WRITES) if key not in (ApiKey.PRODUCE, OFFSET_COMMIT, 78, 79)),
]
ANSWER = response(ApiKey.PRODUCE, 7, struct.pack(">i", 0) + struct.pack(">i", 0), 5)


def noting(highest: dict[int, int] | None = None) -> Talk:
    """A conversation that notes what its client uses."""
    talk = Talk()
    calls = SessionCalls(Calls(lambda code, name, version: Counted(), highest or {}))
    talk.conversation = Conversation(calls, lambda found: [], 100 * 1024 * 1024)
    return talk


@given(
    before=st.lists(st.sampled_from(READS), max_size=4),
    write=st.sampled_from(HELD),
    behind=st.lists(st.sampled_from([*READS, *HELD]), max_size=3),
    sizes=CHUNKINGS,
)
def test_all_passes_up_to_the_first_write_and_nothing_behind_it(
    before: list[bytes], write: bytes, behind: list[bytes], sizes: list[int]
) -> None:
    talk, held = noting(), []
    talk.conversation.hold_before_write(lambda: held.append(1))
    everything = b"".join((*before, write, *behind))
    assert talk.client(*chunks(everything, sizes)) == b"".join(before)
    assert held == [1]
    assert talk.conversation.held
    assert not talk.conversation.unanswered(WRITES), "what is held is not under way"
    assert not talk.conversation.pass_writes(), "the gate has been met"
    assert bytes(talk.conversation.release(3.0)) == b"".join((write, *behind))
    assert held == [1]


def test_a_gate_that_is_not_met_goes_without_a_trace() -> None:
    talk = noting()
    talk.conversation.hold_before_write(lambda: pytest.fail("no write was sent"))
    assert talk.client(*READS) == b"".join(READS)
    assert talk.conversation.pass_writes()
    assert not talk.conversation.hold_count
    assert talk.client(produce(-1)) == produce(-1)


def test_both_gates_hold_one_after_the_other() -> None:
    talk, met = noting(), []
    talk.conversation.hold_before_first_request(lambda: met.append("first"))
    talk.conversation.hold_before_write(lambda: met.append("write"))
    assert talk.client(VERSIONS + READS[1] + produce(-1)) == VERSIONS
    assert met == ["first"]
    assert bytes(talk.conversation.release(1.0)) == READS[1]
    assert met == ["first", "write"]
    assert not talk.conversation.pass_writes()
    assert bytes(talk.conversation.release(1.0)) == produce(-1)


def test_the_first_request_may_be_a_write() -> None:
    talk, met = noting(), []
    talk.conversation.hold_before_write(lambda: met.append("write"))
    talk.conversation.hold_before_first_request(lambda: met.append("first"))
    assert talk.client(produce(-1)) == b""
    assert met == ["first"]
    assert talk.conversation.pass_writes(), "released before it was met"
    assert bytes(talk.conversation.release(1.0)) == produce(-1)
    assert met == ["first"]


def test_who_holds_too_lets_go_of_his_own_hold_only() -> None:
    talk, met = noting(), []
    talk.conversation.hold()
    talk.conversation.hold_before_write(lambda: met.append(1))
    assert talk.client(READS[1] + produce(-1)) == b""
    assert bytes(talk.conversation.release(1.0)) == READS[1]
    assert met == [1]
    talk.conversation.hold()
    assert not talk.conversation.pass_writes()
    assert bytes(talk.conversation.release(1.0)) == b""
    assert bytes(talk.conversation.release(1.0)) == produce(-1)


@pytest.mark.parametrize(
    "nonsense", [request(ApiKey.PRODUCE, 14, 5), request(ApiKey.PRODUCE, 0x7FFF, 5), b"\0\0\0\5\0\0\0\7\0\0\0\0"]
)
def test_a_write_that_never_passes_is_judged_when_it_is_its_turn(nonsense: bytes) -> None:
    talk, met = noting(), []
    talk.conversation.hold_before_write(lambda: met.append(1))
    assert talk.client(nonsense) == b""
    assert met == [1]
    talk.conversation.pass_writes()
    with pytest.raises(WireError):
        talk.conversation.release(1.0)


@given(sizes=CHUNKINGS, answer=CHUNKINGS)
def test_a_write_is_in_flight_until_its_answer_has_left(sizes: list[int], answer: list[int]) -> None:
    talk = noting()
    conversation = talk.conversation
    sent = 0
    for piece in chunks(produce(-1), sizes):
        sent += len(talk.client(piece))
        assert conversation.unanswered(WRITES) == (1 if sent else 0)
    assert conversation.used_calls is not None
    assert conversation.used_calls.has_used(WRITES)
    got = 0
    for piece in chunks(ANSWER, answer):
        assert conversation.unanswered(HARMFUL_IF_REPEATED) == 1
        got += len(talk.broker(piece))
    assert got == len(ANSWER)
    assert not conversation.unanswered(WRITES)


@given(sizes=CHUNKINGS)
def test_a_write_without_an_answer_is_in_flight_until_it_left(sizes: list[int]) -> None:
    talk = noting()
    whole = produce(0)
    sent = 0
    for piece in chunks(whole, sizes):
        sent += len(talk.client(piece))
        assert talk.conversation.unanswered(WRITES) == (0 < sent < len(whole))


def test_half_a_question_is_no_write_under_way() -> None:
    talk = noting()
    talk.client(produce(0) + READS[2][:100])
    assert not talk.conversation.unanswered(WRITES)
    half_commit = response(OFFSET_COMMIT, 2, struct.pack(">i", 0), 6)
    talk = noting()
    talk.client(request(OFFSET_COMMIT, 2, 6, bytes(30)) + READS[1])
    talk.broker(half_commit[:10])
    assert talk.conversation.unanswered(WRITES) == 1, "its answer is half here"
    talk.broker(half_commit[10:] + response(ApiKey.METADATA, 12, bytes(100), 7)[:9])
    assert not talk.conversation.unanswered(WRITES), "another's answer is half here"


def test_what_a_client_has_used_is_noted_and_forgotten() -> None:
    talk = noting()
    used = talk.conversation.used_calls
    assert used is not None
    talk.client(*READS)
    assert not used.has_used(WRITES)
    assert used.has_used((ApiKey.FETCH,))
    talk.client(produce(0))
    assert used.has_used(WRITES)
    used.forget(WRITES)
    assert not used.has_used(WRITES)
    assert used.has_used((ApiKey.FETCH,))
    talk.client(produce(0))
    assert used.has_used(WRITES)
    assert Talk().conversation.used_calls is None


@pytest.mark.parametrize("key", sorted(NEWEST_WITH_TOPIC_NAMES))
def test_a_version_above_the_cap_is_refused_and_said_so(key: int) -> None:
    talk, newest = noting(dict(NEWEST_WITH_TOPIC_NAMES)), NEWEST_WITH_TOPIC_NAMES[key]
    with pytest.raises(WireError, match=rf"version {newest + 1}; this kproxy supports versions 0 to {newest},"):
        talk.client(request(key, newest + 1, 5, bytes(50)))


def test_the_cap_is_told_in_api_versions() -> None:
    talk = noting({ApiKey.PRODUCE: 12, ApiKey.FETCH: 2})
    talk.client(VERSIONS)
    ranges = struct.Struct(">hhhb")
    told = [(ApiKey.PRODUCE, 0, 13), (ApiKey.FETCH, 4, 18), (ApiKey.METADATA, 0, 13)]
    body = b"\0\0" + bytes([len(told) + 1]) + b"".join(ranges.pack(*one, 0) for one in told) + bytes(5)
    kept = [(ApiKey.PRODUCE, 0, 12), (ApiKey.METADATA, 0, 13)]  # of Fetch no version is left
    expected = b"\0\0" + bytes([len(kept) + 1]) + b"".join(ranges.pack(*one, 0) for one in kept) + bytes(5)
    got = talk.broker(struct.pack(">ii", 4 + len(body), 1) + body)
    assert got == struct.pack(">ii", 4 + len(expected), 1) + expected
