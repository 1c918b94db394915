"""Looking on changes nothing of what passes: also when those who look on have a defect."""

from __future__ import annotations

import pytest

from kproxy.protocol.capture.sessioncapture import RedactedFrame
from kproxy.protocol.rewrite.apiversions import unsupported_version
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import Buffer
from kproxy.proxy.relay.observedconversation import ObservedConversation
from kproxy.proxy.relay.observer import Exchange, ObserverStart
from tests.unit.kafka_frames import Talk, request, response
from tests.unit.proxy.relay.talking import metadata_body

HELLO = request(ApiKey.API_VERSIONS, 0, 1, b"", client_id="billing")
ASK = request(ApiKey.METADATA, 1, 2, b"\xff\xff\xff\xff", client_id="billing")
SAID = [
    response(ApiKey.API_VERSIONS, 0, bytes(6), 1),
    response(ApiKey.METADATA, 1, metadata_body("kafka-1.internal"), 2),
]


def passed(observation: ObservedConversation | Talk) -> tuple[bytes, bytes]:
    """What went on to the broker, and to the client."""
    seen = observation if isinstance(observation, ObservedConversation) else observation.conversation
    there = b"".join(bytes(seen.from_client(memoryview(one), 1.0)) for one in (HELLO, ASK))
    back = b"".join(bytes(seen.from_upstream(memoryview(one), 2.0)) for one in SAID)
    return there, back


def test_nothing_is_changed() -> None:
    talk, exchanges = Talk(), list[Exchange]()
    frames = list[RedactedFrame]()
    observation = ObservedConversation(talk.conversation)
    observation.set_sinks(exchanges.append, frames.append)
    assert passed(observation) == passed(Talk())
    assert [(one.api, one.client_id) for one in exchanges] == [("ApiVersions", "billing"), ("Metadata", "billing")]
    assert exchanges[1].rewritten[0][0] == "kafka-1.internal:9092"
    assert len(frames) == 4


@pytest.mark.parametrize("waits", [False, True])
def test_answers_of_kproxy_itself_are_observed(waits: bool) -> None:
    """At once, or behind a response that comes first; with the error and the size that the client gets."""
    newer = request(ApiKey.API_VERSIONS, 99, 3, b"\x05java\x02x\0", client_id="billing")
    talk, exchanges, frames = Talk(), list[Exchange](), list[RedactedFrame]()
    observation = ObservedConversation(talk.conversation)
    observation.set_sinks(exchanges.append, frames.append)
    received = b""
    if waits:
        observation.from_client(HELLO, 1.0)
    observation.from_client(newer, 1.0)
    own = unsupported_version(3)
    if waits:
        received += bytes(observation.from_upstream(SAID[0], 2.0))
    answers = bytes(talk.conversation.take_answers())
    observation.to_client(answers, 2.0)
    received += answers
    assert received == (SAID[0] if waits else b"") + own
    assert [(one.version, one.response_size, one.error, one.seconds) for one in exchanges][waits:] == [
        (99, len(own) - 4, 35, 1.0)
    ]
    assert [(one.to_client, one.size) for one in frames][2 * waits :][-1] == (True, len(own) - 4)


def test_it_begins_when_no_response_is_half_rewritten() -> None:
    talk, exchanges = Talk(), list[Exchange]()
    talk.client(ASK)
    half = talk.broker(SAID[1][:30])
    observation = ObservedConversation(talk.conversation)
    observation.set_sinks(exchanges.append, None)
    observation.from_client(HELLO, 1.0)  # it is not observed yet
    half += bytes(observation.from_upstream(SAID[1][30:], 2.0))
    assert half == passed(Talk())[1][-len(half) :]
    received = bytes(observation.from_upstream(SAID[0], 2.0))
    observation.from_client(request(ApiKey.METADATA, 1, 2, b"\xff\xff\xff\xff", client_id="billing"), 3.0)
    received += bytes(observation.from_upstream(SAID[1], 4.0))
    assert received == SAID[0] + half
    assert [(one.api, one.response_size) for one in exchanges] == [("Metadata", len(half) - 4)]


@pytest.mark.parametrize("frames", [False, True])
def test_a_defect_of_those_who_look_on_ends_no_session(frames: bool, caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: object) -> None:
        raise ZeroDivisionError

    talk = Talk()
    observation = ObservedConversation(talk.conversation)
    observation.set_sinks(None if frames else fails, fails if frames else None)
    assert passed(observation) == passed(Talk())
    assert [one for one in caplog.messages if "defect in" in one and "please report it" in one]
    assert len(caplog.messages) == 1  # it is not asked again
    observation.set_sinks(None, None)


class Noting:
    """A reader of requests."""

    def __init__(self, start: ObserverStart) -> None:
        self.read = b""
        self.stopped = False

    def from_client(self, chunk: Buffer, now: float) -> None:
        if bytes(chunk) == b"":
            raise AssertionError("nothing has come")
        self.read += bytes(chunk)


def test_a_reader_of_requests_reads_beside_an_observer() -> None:
    talk, exchanges, readers = Talk(), list[Exchange](), list[Noting]()
    observation = ObservedConversation(talk.conversation)

    def new_reader(start: ObserverStart) -> Noting:
        readers.append(Noting(start))
        return readers[-1]

    observation.set_sinks(None, None, new_reader)
    observation.set_sinks(exchanges.append, None, new_reader)
    assert passed(observation) == passed(Talk())
    assert [reader.read for reader in readers] == [HELLO + ASK]
    assert len(exchanges) == 2
    observation.set_sinks(exchanges.append, None, None)
    observation.from_client(HELLO, 3.0)
    assert readers[0].read == HELLO + ASK


def test_a_reader_that_has_stopped_is_replaced() -> None:
    readers: list[Noting] = []

    def new_reader(start: ObserverStart) -> Noting:
        readers.append(Noting(start))
        readers[-1].stopped = True
        return readers[-1]

    observation = ObservedConversation(Talk().conversation)
    observation.set_sinks(None, None, new_reader)
    passed(observation)
    assert [reader.read for reader in readers if reader.read] == [HELLO, ASK]


def test_a_defect_in_a_reader_of_requests_ends_the_reading_only(caplog: pytest.LogCaptureFixture) -> None:
    class Defective(Noting):
        def from_client(self, chunk: Buffer, now: float) -> None:
            raise ZeroDivisionError

    observation, exchanges = ObservedConversation(Talk().conversation), list[Exchange]()
    observation.set_sinks(exchanges.append, None, Defective)
    assert passed(observation) == passed(Talk())
    assert len(exchanges) == 2
    assert caplog.text.count("defect in a reader of requests") == 1
