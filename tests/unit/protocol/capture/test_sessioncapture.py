"""Capturing a session: which frame is what, beside a real conversation, whenever the capture begins."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.capture.framecopy import MAX_COPY
from kproxy.protocol.capture.sessioncapture import OUT_OF_STEP, TOKENS, CaptureStart, RedactedFrame, SessionCapture
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.relay.observedconversation import ObservedConversation
from kproxy.proxy.relay.observer import Exchange
from tests.unit.kafka_frames import CHUNKINGS, Talk, chunks, request, response, string
from tests.unit.protocol.capture.shown import NO_RECORDS, SECRET, fetched

HEARTBEAT = 12


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def produced(number: int, acks: int = 1, records: bytes = SECRET * 20) -> bytes:
    body = string(None) + struct.pack(">hii", acks, 1000, 1) + string("t") + struct.pack(">iii", 1, 0, len(records))
    return request(ApiKey.PRODUCE, 7, number, body + records, client_id="billing")


def beat(number: int) -> bytes:
    return request(HEARTBEAT, 0, number, string("group") + struct.pack(">i", 1) + string("member"), client_id="billing")


def metadata(number: int, host: str = "up.1") -> bytes:
    node = struct.pack(">i", 1) + string(host) + struct.pack(">i", 9092) + string(None)
    return response(ApiKey.METADATA, 1, struct.pack(">i", 1) + node + struct.pack(">ii", 1, 0), number)


ASK = struct.pack(">i", 0)
FETCH_BODY = struct.pack(">iiiibiiii", -1, 100, 1, 1000, 0, 0, -1, 0, 0) + string("")
SAID = [
    request(ApiKey.API_VERSIONS, 3, 1, compact("librdkafka") + compact("2.3.0") + b"\0", client_id="billing"),
    request(ApiKey.METADATA, 1, 2, ASK, client_id="billing"),
    produced(3),
    produced(4, acks=0),
    beat(5),
    request(ApiKey.FETCH, 11, 7, FETCH_BODY, client_id="billing"),
    beat(8),
]
ANSWERED = [
    response(ApiKey.API_VERSIONS, 3, struct.pack(">h", 0) + b"\1" + bytes(5), 1),
    metadata(2),
    response(ApiKey.PRODUCE, 7, struct.pack(">i", 0) + bytes(4), 3),
    response(HEARTBEAT, 0, struct.pack(">h", 27), 5),
    fetched(SECRET * 30),
    response(HEARTBEAT, 0, struct.pack(">h", 0), 8),
]
REQUESTS = ["ApiVersions", "Metadata", "Produce", "Produce", "Heartbeat", "Fetch", "Heartbeat"]
RESPONSES = ["ApiVersions", "Metadata", "Produce", "Heartbeat", "Fetch", "Heartbeat"]


class Looked(Talk):
    """A conversation with somebody who looks on; `heard` is what the client gets."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[RedactedFrame] = []
        self.observation = ObservedConversation(self.conversation)
        self.heard = b""

    def look(self) -> None:
        self.observation.set_sinks(None, self.frames.append)

    def says(self, *pieces: bytes) -> bytes:
        out = b"".join(bytes(self.observation.from_client(piece, 1.0)) for piece in pieces)
        answers = self.kproxy()
        self.observation.to_client(answers, 1.0)
        self.heard += answers
        return out

    def answers(self, *pieces: bytes) -> bytes:
        out = b"".join(bytes(self.observation.from_upstream(piece, 2.0)) for piece in pieces)
        self.heard += out
        return out

    def shown(self, *, to_client: bool) -> list[str]:
        return [frame.api for frame in self.frames if frame.to_client == to_client and frame.data]


@given(sizes=CHUNKINGS, others=CHUNKINGS)
def test_any_chunks(sizes: list[int], others: list[int]) -> None:
    talk, plain = Looked(), Talk()
    talk.look()
    sizes, others = [size * 5 for size in sizes], [size * 5 for size in others]
    assert talk.says(*chunks(b"".join(SAID), sizes)) == plain.client(*chunks(b"".join(SAID), sizes))
    assert talk.answers(*chunks(b"".join(ANSWERED), others)) == plain.broker(*chunks(b"".join(ANSWERED), others))
    assert talk.shown(to_client=False) == REQUESTS
    assert talk.shown(to_client=True) == RESPONSES
    assert {(frame.at, frame.why) for frame in talk.frames} == {(1.0, ""), (2.0, "")}
    assert {frame.client_id for frame in talk.frames} == {"billing"}
    assert {frame.software for frame in talk.frames} == {"librdkafka 2.3.0"}
    for frame in talk.frames:
        assert struct.unpack_from(">i", frame.data) == (len(frame.data) - 4,)
        assert SECRET[:8] not in frame.data
    # The client sees other addresses than the broker has sent.
    heard = [frame.data for frame in talk.frames if frame.to_client]
    assert heard[1] == metadata(2, "127.0.0.1").replace(struct.pack(">i", 9092), struct.pack(">i", 20001))
    assert heard[4] == fetched(NO_RECORDS)
    sent = [frame for frame in talk.frames if not frame.to_client]
    assert [frame.size for frame in sent] == [len(one) - 4 for one in SAID]
    assert [frame.left_out for frame in sent] == [0, 0, len(SECRET) * 20, len(SECRET) * 20, 0, 0, 0]


@given(data=st.data())
def test_beginning_in_the_middle(data: st.DataObject) -> None:
    """Of what begins afterwards all is shown, rightly; no byte of what passes is another."""
    said, answered = b"".join(SAID), b"".join(ANSWERED)
    first = data.draw(st.integers(0, len(said)))
    complete = sum(len(b"".join(SAID[: number + 1])) <= first for number in range(len(SAID)))
    whole = complete - (complete > 3)  # the fourth has no response
    second = data.draw(st.integers(0, len(b"".join(ANSWERED[:whole]))))
    sizes = [size * 7 for size in data.draw(CHUNKINGS)]
    talk, plain = Looked(), Talk()
    talk.says(*chunks(said[:first], sizes))
    talk.answers(*chunks(answered[:second], sizes))
    assert talk.frames == []
    talk.look()
    at_once = talk.conversation.capture_start is not None  # no response is half rewritten
    talk.says(*chunks(said[first:], sizes))
    talk.answers(*chunks(answered[second:], sizes))
    plain.client(said)
    assert talk.heard == plain.broker(answered)
    requests, responses = talk.shown(to_client=False), talk.shown(to_client=True)
    assert requests == REQUESTS[len(REQUESTS) - len(requests) :]
    assert responses == RESPONSES[len(RESPONSES) - len(responses) :]
    if at_once:
        assert len(requests) >= len(REQUESTS) - complete - 1
        assert len(responses) >= len(RESPONSES) - whole - 1
    assert not [frame for frame in talk.frames if frame.why]
    assert not [frame for frame in talk.frames if SECRET[:8] in frame.data]


def test_exchanges_and_frames_come_and_go_apart() -> None:
    talk = Looked()
    exchanges: list[Exchange] = []
    talk.observation.set_sinks(exchanges.append, None)
    talk.says(beat(1), beat(2))
    talk.observation.set_sinks(exchanges.append, talk.frames.append)
    talk.answers(response(HEARTBEAT, 0, struct.pack(">h", 0), 1))
    talk.observation.set_sinks(None, talk.frames.append)
    talk.answers(response(HEARTBEAT, 0, struct.pack(">h", 0), 2))
    talk.observation.set_sinks(exchanges.append, None)
    talk.says(beat(3))
    talk.answers(response(HEARTBEAT, 0, struct.pack(">h", 0), 3))
    assert len(exchanges) == 2
    assert [frame.api for frame in talk.frames] == ["Heartbeat", "Heartbeat"]


def test_tokens_of_sasl() -> None:
    """What SaslAuthenticate carries is left out, and with it each error that may quote it."""
    talk = Looked()
    talk.look()
    token = struct.pack(">i", len(SECRET)) + SECRET
    talk.says(request(ApiKey.SASL_HANDSHAKE, 1, 1, string("PLAIN")), request(ApiKey.SASL_AUTHENTICATE, 1, 2, token))
    answer = struct.pack(">h", 58) + string("no such password: " + SECRET.decode()) + token + bytes(8)
    talk.answers(response(ApiKey.SASL_HANDSHAKE, 1, struct.pack(">hi", 0, 1) + string("PLAIN"), 1))
    talk.answers(response(ApiKey.SASL_AUTHENTICATE, 1, answer, 2))
    assert [frame.api for frame in talk.frames] == ["SaslHandshake", "SaslAuthenticate"] * 2
    assert b"PLAIN" in talk.frames[0].data
    assert not [frame for frame in talk.frames if SECRET[:8] in frame.data]


def test_tokens_without_headers() -> None:
    """After SaslHandshake v0 nothing more is shown, but that it is so."""
    talk = Looked()
    talk.look()
    token = struct.pack(">i", len(SECRET)) + SECRET
    talk.says(request(ApiKey.SASL_HANDSHAKE, 0, 1, string("PLAIN")))
    talk.answers(response(ApiKey.SASL_HANDSHAKE, 0, struct.pack(">hi", 0, 1) + string("PLAIN"), 1))
    talk.says(token)
    talk.answers(token)
    talk.says(beat(2))
    assert [(frame.api, frame.why) for frame in talk.frames][-1:] == [("", TOKENS)]
    assert [frame.api for frame in talk.frames] == ["SaslHandshake", "SaslHandshake", ""]
    assert not [frame for frame in talk.frames if SECRET[:8] in frame.data]


def test_a_token_first_of_all() -> None:
    """As GSSAPI clients of the 0.9 age send it."""
    talk = Looked()
    talk.look()
    talk.says(struct.pack(">i", 40) + b"\x60" + SECRET + bytes(11))
    assert [(frame.api, frame.data) for frame in talk.frames] == [("", b"")]


def test_what_kproxy_answers_itself() -> None:
    """A version of ApiVersions that is not known: the request has no definition, the answer is of version 0."""
    talk = Looked()
    talk.look()
    talk.says(request(ApiKey.API_VERSIONS, 99, 1, b"\0\1\1\0"))
    assert [(frame.api, frame.to_client, bool(frame.data)) for frame in talk.frames] == [
        ("ApiVersions", False, False), ("ApiVersions", True, True),
    ]  # fmt: skip
    assert talk.frames[1].data == talk.heard


def test_an_api_without_a_definition() -> None:
    talk = Looked()
    talk.look()
    talk.says(request(68, 0, 1, SECRET), beat(2))
    talk.answers(response(68, 0, SECRET, 1), response(HEARTBEAT, 0, struct.pack(">h", 0), 2))
    assert [(frame.api, frame.data == b"") for frame in talk.frames] == [
        ("ConsumerGroupHeartbeat", True), ("Heartbeat", False), ("ConsumerGroupHeartbeat", True), ("Heartbeat", False),
    ]  # fmt: skip


def test_what_is_not_as_its_definition_says() -> None:
    """It is not shown, and what follows is."""
    talk = Looked()
    talk.look()
    talk.says(request(HEARTBEAT, 0, 1, SECRET), beat(2))
    assert talk.frames[0].why == "it does not match its definition"
    assert [bool(frame.data) for frame in talk.frames] == [False, True]


def captured(waiting: Sequence[tuple[int, int, int, int]] = ()) -> tuple[SessionCapture, list[RedactedFrame]]:
    frames: list[RedactedFrame] = []
    return SessionCapture(frames.append, CaptureStart(waiting=waiting), 0.0), frames


def test_a_response_to_nothing() -> None:
    """If it is read as something else, it may show what must not be shown."""
    capture, frames = captured()
    capture.from_client(request(ApiKey.METADATA, 1, 2, ASK), 1.0)
    capture.to_client(response(HEARTBEAT, 0, SECRET, 1), 1.0)
    capture.to_client(metadata(2), 1.0)
    assert [(frame.api, frame.why) for frame in frames] == [("Metadata", ""), ("", OUT_OF_STEP)]


def test_ids_that_are_used_again() -> None:
    """The order says what is answered: records are not read as Metadata."""
    capture, frames = captured([(ApiKey.FETCH, 11, 0, 1)])
    capture.from_client(request(ApiKey.METADATA, 1, 0, ASK), 1.0)
    capture.to_client(fetched(SECRET).replace(struct.pack(">i", 7), bytes(4), 1), 1.0)
    capture.to_client(metadata(0), 1.0)
    assert [frame.api for frame in frames] == ["Metadata", "Fetch", "Metadata"]
    assert not [frame for frame in frames if SECRET in frame.data]


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (CaptureStart(tokens=True), TOKENS),
        (CaptureStart(waiting=[(ApiKey.FETCH, 11, 0, 10_001)]), OUT_OF_STEP),
    ],
    ids=["tokens", "too many wait"],
)
def test_a_session_that_cannot_be_followed_is_not_shown(start: CaptureStart, why: str) -> None:
    frames: list[RedactedFrame] = []
    capture = SessionCapture(frames.append, start, 0.0)
    capture.from_client(beat(1), 1.0)
    capture.to_client(fetched(SECRET), 1.0)
    assert [(frame.api, frame.data, frame.why) for frame in frames] == [("", b"", why)]


def test_a_token_that_the_broker_sends_first_is_not_shown() -> None:
    capture, frames = captured()
    capture.from_client(request(ApiKey.SASL_HANDSHAKE, 0, 1, string("PLAIN")), 1.0)
    capture.to_client(response(ApiKey.SASL_HANDSHAKE, 0, struct.pack(">hi", 0, 1) + string("PLAIN"), 1), 1.0)
    capture.to_client(struct.pack(">i", len(SECRET)) + SECRET, 1.0)
    assert [(frame.api, frame.why) for frame in frames[2:]] == [("", TOKENS)]


def test_a_frame_with_too_much_text_is_not_copied() -> None:
    """The frames behind it are."""
    capture, frames = captured()
    names = [string("t" * 30_000)] * (MAX_COPY // 30_000 + 1)
    long = request(ApiKey.METADATA, 1, 1, struct.pack(">i", len(names)) + b"".join(names))
    capture.from_client(long + beat(2), 1.0)
    assert [(frame.api, frame.data == b"") for frame in frames] == [("Metadata", True), ("Heartbeat", False)]
    assert frames[0].why == f"its copy would be longer than {MAX_COPY} bytes"
    assert frames[0].left_out == frames[0].size == len(long) - 4


def test_what_waits_is_bounded() -> None:
    capture, frames = captured()
    for number in range(10_100):
        capture.from_client(beat(number), 1.0)
    assert frames[-1].why == OUT_OF_STEP
    assert len(capture._waiting) == 0


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=60)), max_size=20))
def test_garbage(said: list[tuple[bool, bytes]]) -> None:
    capture, frames = captured([(ApiKey.METADATA, 1, 0, 3)])
    for of_client, data in said:
        (capture.from_client if of_client else capture.to_client)(data, 1.0)
    assert len(frames) < 100


def test_a_defect_ends_no_session(caplog: pytest.LogCaptureFixture) -> None:
    talk = Looked()

    def fail(frame: RedactedFrame) -> None:
        raise RuntimeError("a defect")

    talk.observation.set_sinks(None, fail)
    assert talk.says(beat(1)) == beat(1)
    assert talk.says(beat(2)) == beat(2)
    assert caplog.text.count("defect in the packet capture") == 1
