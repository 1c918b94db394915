"""SPDY/3.1 frames: what a server may send, in any pieces, and what it may not. tests/matrix has moby/spdystream."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.net.dial.spdy import (
    DICTIONARY,
    GoAway,
    Ping,
    Spdy,
    SpdyError,
    SpdyEvent,
    StreamAccepted,
    StreamData,
    StreamEnd,
)
from tests.harness.servers.spdy_server import FIN, GOAWAY, PING, RST_STREAM, SYN_REPLY, SYN_STREAM, control, data, reset

HEADERS, SETTINGS, WINDOW_UPDATE = 8, 4, 9


def opened() -> Spdy:
    """With two streams, 1 and 3."""
    made = Spdy()
    assert made.open({"streamType": "error"}, last=True)[0] == 1
    assert made.open({"streamType": "data"})[0] == 3
    return made


def joined(events: Iterable[SpdyEvent]) -> list[SpdyEvent]:
    """Without the borders between pieces of data."""
    found: list[SpdyEvent] = []
    for event in events:
        match found[-1:], event:
            case [StreamData(before, first)], StreamData(stream, more) if before == stream:
                found[-1] = StreamData(stream, first + more)
            case _:
                found.append(event)
    return found


def test_the_dictionary_is_that_of_the_draft() -> None:
    """Both ends say its checksum, and refuse another one's: 0xe3c6a7c2 in each stream of SPDY/3."""
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def test_a_stream_begins_with_its_headers() -> None:
    spdy = Spdy()
    inflate = zlib.decompressobj(zdict=DICTIONARY)
    for stream, last in ((1, True), (3, False)):
        number, frame = spdy.open({"streamType": "data", "port": "9092"}, last=last)
        assert number == stream
        assert frame[:4] == bytes([0x80, 3, 0, SYN_STREAM])
        assert frame[4] == (FIN if last else 0)
        assert int.from_bytes(frame[5:8]) == len(frame) - 8
        assert frame[8:18] == stream.to_bytes(4) + bytes(6)
        words = (b"streamtype", b"data", b"port", b"9092")
        block = (2).to_bytes(4) + b"".join(len(word).to_bytes(4) + word for word in words)
        assert inflate.decompress(frame[18:]) == block  # one compression goes through all blocks


def test_data_and_its_end() -> None:
    spdy = Spdy()
    assert spdy.data(3, b"hello") == data(3, b"hello")
    assert spdy.data(3, b"", last=True) == data(3, b"", FIN)


@pytest.mark.parametrize(
    ("frame", "events"),
    [
        (control(SYN_REPLY, b"\0\0\0\3whatever"), [StreamAccepted(3)]),
        (control(SYN_REPLY, b"\0\0\0\3", FIN), [StreamAccepted(3), StreamEnd(3)]),
        (data(3, b"hello"), [StreamData(3, b"hello")]),
        (data(3, b"hello", FIN), [StreamData(3, b"hello"), StreamEnd(3)]),
        (data(1, b"", FIN), [StreamEnd(1)]),
        (control(HEADERS, b"\0\0\0\3", FIN), [StreamEnd(3)]),
        (reset(3), [StreamEnd(3, reset=True)]),
        (control(PING, b"\0\0\0\2"), [Ping(control(PING, b"\0\0\0\2"))]),
        (control(PING, b"\0\0\0\1"), []),
        (control(GOAWAY, bytes(8)), [GoAway()]),
        (control(SETTINGS, bytes(12)), []),
        (control(WINDOW_UPDATE, b"\0\0\0\3\0\1\0\0"), []),
        (control(77, b"of another version"), []),
        (control(SYN_STREAM, b"\0\0\0\2" + bytes(20)), []),
        (control(SYN_REPLY, b"\0\0\0\5"), []),
        (data(5, b"of no stream", FIN), []),
        (data(0, b"of no stream"), []),
        (reset(2), []),
        (reset(99), []),
    ],
)
def test_what_frames_mean(frame: bytes, events: list[SpdyEvent]) -> None:
    assert opened().receive(frame) == events


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (control(SYN_REPLY, bytes(64 * 1024 + 1)), "a control frame of 65537 bytes"),
        (control(SYN_REPLY, b"\0\0\0"), "a frame of type 2 with 3 bytes"),
        (control(SYN_STREAM, bytes(9)), "a frame of type 1 with 9 bytes"),
        (control(RST_STREAM, bytes(4)), "a frame of type 3 with 4 bytes"),
        (control(PING, bytes(3)), "a frame of type 6 with 3 bytes"),
        (b"\x80\x02\0\1\0\0\0\0", "a frame of SPDY/2"),
        (b"\xff" * 8, "a control frame of 16777215 bytes"),
    ],
)
def test_what_is_no_frame(frame: bytes, words: str) -> None:
    with pytest.raises(SpdyError, match=words):
        opened().receive(frame)


def test_nothing_comes_after_the_end() -> None:
    spdy = opened()
    assert spdy.receive(data(3, b"a", FIN) + data(3, b"b", FIN) + data(3, b"c")) == [StreamData(3, b"a"), StreamEnd(3)]
    assert spdy.receive(reset(3)) == [StreamEnd(3, reset=True)]  # but it may be broken then


def test_a_frame_of_16_mib_is_kept_nowhere() -> None:
    spdy = opened()
    assert spdy.receive(b"\0\0\0\3\1\xff\xff\xff") == []
    left = (1 << 24) - 1
    while left > 0:
        piece = bytes(min(left, 100_000))
        assert spdy.receive(piece)[0] == StreamData(3, piece)
        left -= len(piece)
    assert spdy.receive(data(1, b"x")) == [StreamData(1, b"x")]


def test_a_long_control_frame_is_refused_at_its_head() -> None:
    with pytest.raises(SpdyError):
        opened().receive(control(SYN_REPLY, bytes(70_000))[:8])


_FRAMES = st.one_of(
    st.builds(data, st.integers(0, 6), st.binary(max_size=40), st.integers(0, 3)),
    st.builds(control, st.sampled_from([1, 2, 8]), st.binary(min_size=10, max_size=40), st.integers(0, 3)),
    st.builds(control, st.sampled_from([3, 7]), st.binary(min_size=8, max_size=8), st.integers(0, 3)),
    st.builds(control, st.just(PING), st.binary(min_size=4, max_size=4)),
    st.builds(control, st.integers(9, 0xFFFF), st.binary(max_size=40)),
    st.builds(reset, st.integers(0, 6)),
)


@given(st.lists(_FRAMES, max_size=12).map(b"".join), st.data())
def test_any_pieces_give_the_same(stream: bytes, draw: st.DataObject) -> None:
    whole = joined(opened().receive(stream))
    spdy = opened()
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    found: list[SpdyEvent] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += spdy.receive(stream[begin:end])
    assert joined(found) == whole


@given(st.lists(st.one_of(st.binary(max_size=200), _FRAMES), max_size=8))
@example([b"\x80\x03\x00\x03\x00\x00\x00\x08" + b"\xff" * 8])
def test_garbage_raises_nothing_else(pieces: list[bytes]) -> None:
    spdy = opened()
    try:
        for piece in pieces:
            spdy.receive(piece)
    except SpdyError:
        pass
