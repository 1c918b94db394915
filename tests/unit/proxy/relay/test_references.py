"""Nothing stays of frames that have passed. C code may forget to give back what it has taken: this is for the compiled
data plane above all."""

from __future__ import annotations

import gc
import struct
import sys
from collections.abc import Iterator

import pytest

from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.metrics.counters import NodeCounters
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation
from tests.unit.kafka_frames import MAX_REQUEST, frame, identity
from tests.unit.proxy.relay.talking import metadata_body

_TOGETHER = 100
_CLIENT = struct.pack(">h", 3) + b"abc"
_PARTITION = struct.pack(">ihqqq", 0, 0, 5, 5, 0) + b"\1" + struct.pack(">i", -1) + b"\1\0"
_FETCHED = bytes(11) + b"\2" + bytes(16) + b"\2" + _PARTITION + b"\0\0"
_PRODUCED = b"\0\2\4abc\2" + struct.pack(">ihqqq", 0, 0, 5, -1, 0) + b"\1\0\0\0" + bytes(4) + b"\0"

KINDS = {
    "list offsets": (ApiKey.LIST_OFFSETS, 7, _CLIENT + bytes(40), bytes(50)),
    "fetch": (ApiKey.FETCH, 17, _CLIENT + bytes(60), _FETCHED),
    "produce": (ApiKey.PRODUCE, 12, _CLIENT + b"\0\0" + struct.pack(">hi", -1, 30000) + bytes(60), _PRODUCED),
    "metadata": (ApiKey.METADATA, 1, _CLIENT + bytes(4), metadata_body("up.one")),
}  # fmt: skip


def passing(key: int, version: int, asked: bytes, said: bytes, chunk: int) -> Iterator[None]:
    """Some frames there and back, each time that something is taken from this."""
    conversation = Conversation(Calls(NodeCounters("c", "1").call), identity, MAX_REQUEST)
    requests = b"".join(frame(struct.pack(">hhi", key, version, n), asked) for n in range(_TOGETHER))
    responses = b"".join(frame(struct.pack(">i", n), said) for n in range(_TOGETHER))
    while True:
        for data, take in ((requests, conversation.from_client), (responses, conversation.from_upstream)):
            view = memoryview(data)
            passed = sum(len(take(view[at : at + chunk], 0.0)) for at in range(0, len(data), chunk))
            assert passed == len(data)
        assert not conversation.in_flight
        yield


def blocks_left(rounds: Iterator[None], repetitions: int) -> int:
    """How many blocks of memory more Python holds after `repetitions` steps of `rounds`."""
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(repetitions):
        next(rounds)
    gc.collect()
    return sys.getallocatedblocks() - before


@pytest.mark.parametrize("chunk", [1 << 20, 37], ids=["whole", "in pieces"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "frames", [10_000, pytest.param(10_000_000, marks=[pytest.mark.matrix, pytest.mark.timeout(1200)])]
)
def test_nothing_stays(frames: int, kind: str, chunk: int) -> None:
    rounds = passing(*KINDS[kind], chunk)
    for _ in range(20):
        next(rounds)
    repetitions = frames // _TOGETHER // (1 if chunk > 1000 else 20)
    # Blocks are counted for the whole process, where a thread of the test runner also takes some at times.
    # A frame that leaves a block behind does so in each count.
    assert any(blocks_left(rounds, repetitions) < 50 for _ in range(5))
