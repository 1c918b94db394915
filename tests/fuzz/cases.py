"""What is tried, and what must hold for anything that is tried.

A case is a session: steps of who says what, cut into chunks of the given sizes.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS, newest_version
from kproxy.protocol.rewrite.response import HOLD_LIMIT
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.proxy.relay.inflight import MAX_IN_FLIGHT
from tests.unit.kafka_frames import (
    CARRIERS,
    CHUNKINGS,
    Talk,
    chunks,
    encode,
    frame,
    identity,
    messages,
    request,
    response,
    waiting,
)

CORPUS = Path(__file__).with_name("corpus")


@dataclass(frozen=True, slots=True)
class Case:
    """`steps` are `("client" or "broker", bytes)`; `sizes` those of the chunks, over and over."""

    steps: tuple[tuple[str, bytes], ...]
    sizes: tuple[int, ...]

    def dump(self) -> str:
        steps = [[who, said.hex()] for who, said in self.steps]
        return json.dumps({"sizes": self.sizes, "steps": steps}, indent=1) + "\n"

    @classmethod
    def load(cls, path: Path) -> Case:
        raw = json.loads(path.read_text("utf-8"))
        return cls(tuple((who, bytes.fromhex(said)) for who, said in raw["steps"]), tuple(raw["sizes"]))


def corpus() -> list[Path]:
    """Sessions worth keeping, and whatever was once found."""
    return sorted(CORPUS.glob("*.json"))


def check(case: Case) -> None:
    """Anything but WireError, a changed byte, or much memory is a finding, and so is an end that chunks decide."""
    ends = []
    for sizes in (case.sizes, (1,), (1 << 30,)):
        ends.append(_play(case.steps, sizes))
    if any(reason.endswith("-speaks-socks") for _, reason in ends):
        return  # two or three bytes, then silence: what tells them from a frame's size is that nothing came with them
    # A streamed response may have begun to leave before the fault shows; whether there is one, is the same.
    assert len({reason for _, reason in ends}) == 1, ends
    if not ends[0][1]:
        assert len({said for said, _ in ends}) == 1, "chunks decide what is passed on"


def _play(steps: tuple[tuple[str, bytes], ...], sizes: tuple[int, ...]) -> tuple[tuple[bytes, bytes], str]:
    """What each side got, and the reason of the end. Addresses are left as they are, so each gets what was said."""
    talk = Talk(identity, max_request=1_000_000)
    said = {"client": b"", "broker": b""}
    heard = {"client": b"", "broker": b""}
    answered = b""
    own = False  # kproxy has said something itself, so what a side hears is not just what the other said
    reason = ""
    for who, words in steps:
        try:
            for piece in chunks(words, sizes):
                said[who] += piece
                heard[who] += talk.client(piece) if who == "client" else talk.broker(piece)
                answered += talk.kproxy()
                own = own or bool(answered) or any(call is None for _, call in waiting(talk.conversation))
                assert talk.held <= HOLD_LIMIT + len(piece)
                assert talk.conversation.in_flight <= MAX_IN_FLIGHT
        except WireError as error:
            reason = error.reason
            break
    own = own or any(call is not None and call.key == ApiKey.API_VERSIONS for call in talk.calls.values())
    if not own:
        assert said["client"].startswith(heard["client"])
        assert said["broker"].startswith(heard["broker"])
    return (heard["client"], answered + heard["broker"]), reason


# Where cases come from

_PIECES = [
    b"",
    b"\x00",
    b"\xff",
    b"\x01",
    b"\x80" * 6,
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff",
]
_MUTATIONS = st.lists(
    st.tuples(st.integers(0, 1000), st.sampled_from(_PIECES) | st.binary(max_size=6), st.integers(0, 8)), max_size=5
)


def _mutate(data: bytes, mutations: list[tuple[int, bytes, int]], mend: bool) -> bytes:
    for at, new, replaced in mutations:
        at = at % (len(data) + 1)
        data = data[:at] + new + data[at + replaced :]
    return struct.pack(">i", len(data) - 4) + data[4:] if mend and len(data) >= 4 else data


@st.composite
def _responses(draw: st.DrawFn, key: int, version: int, correlation_id: int) -> bytes:
    name = f"{APIS[key].name}Response"
    if (key, version) not in CARRIERS and key != ApiKey.API_VERSIONS:
        return response(key, version, draw(st.binary(max_size=20)), correlation_id)
    body = encode(definitions.load_message(name), version, draw(messages(name, version)))
    return response(key, version, body, correlation_id)


_CALLS = [
    (one.value, version)
    for one in APIS.values()
    for version in range(one.oldest, newest_version(one, TABLE_VERSIONS) + 1)
]


def _asking(key: int, version: int, correlation_id: int) -> bytes:
    body = b""
    if key == 0:  # Produce: no transactional id, acks 1
        body = (b"\x00" if version >= 9 else b"\xff\xff" if version >= 3 else b"") + b"\x00\x01"
    return request(key, version, correlation_id, body)


@st.composite
def frames(draw: st.DrawFn) -> Case:
    """Requests, tokens and garbage of a client."""
    kinds = (
        st.sampled_from(_CALLS).map(lambda call: _asking(*call, 7)) | st.binary(max_size=40).map(frame) | st.binary()
    )
    newer = st.just(request(ApiKey.API_VERSIONS, 9, 7, b"newer"))
    said = b"".join(draw(st.lists(kinds | newer, min_size=1, max_size=6)))
    first = _asking(ApiKey.SASL_HANDSHAKE, 0, 7) if draw(st.booleans()) else b""
    return Case((("client", first + _mutate(said, draw(_MUTATIONS), False)),), tuple(draw(CHUNKINGS)))


@st.composite
def walkers(draw: st.DrawFn) -> Case:
    """One response with endpoints, in any version, damaged."""
    key, version = draw(st.sampled_from(CARRIERS))
    said = _mutate(draw(_responses(key, version, 7)), draw(_MUTATIONS), draw(st.booleans()))
    return Case((("client", _asking(key, version, 7)), ("broker", said)), tuple(draw(CHUNKINGS)))


@st.composite
def sessions(draw: st.DrawFn) -> Case:
    """Requests and responses in turn, several in flight, some damaged."""
    steps: list[tuple[str, bytes]] = []
    waiting: list[tuple[int, int, int]] = []
    for correlation_id in range(draw(st.integers(1, 5))):
        key, version = draw(st.sampled_from(CARRIERS) | st.sampled_from(_CALLS))
        steps.append(("client", _asking(key, version, correlation_id)))
        waiting.append((key, version, correlation_id))
        for _ in range(draw(st.integers(0, len(waiting)))):
            steps.append(("broker", draw(_responses(*waiting.pop(0)))))
    damaged = draw(st.integers(0, len(steps) * 2))
    if damaged < len(steps):
        who, said = steps[damaged]
        steps[damaged] = (who, _mutate(said, draw(_MUTATIONS), draw(st.booleans())))
    return Case(tuple(steps), tuple(draw(CHUNKINGS)))


TARGETS = {"frames": frames(), "walkers": walkers(), "sessions": sessions()}
