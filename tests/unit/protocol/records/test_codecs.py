from __future__ import annotations

import gzip
import os
import resource
import struct
import subprocess
import sys
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.records.codecs import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress, decompress

RANDOM = os.urandom(200_000)
TEXTS = [b"a", b"abc" * 10, RANDOM[:70_000], b"hello " * 50_000 + RANDOM + bytes(300_000)]
PACKED = (GZIP, SNAPPY, LZ4, ZSTD)
# The identity of a failing example is its bytes: sizes alone are shown.
texts = pytest.mark.parametrize("text", TEXTS, ids=len)


@texts
@pytest.mark.parametrize("codec", [NONE, *PACKED])
def test_there_and_back(text: bytes, codec: int) -> None:
    packed = compress(text, codec)
    assert decompress(packed, codec) == text
    assert decompress(memoryview(packed), codec) == text


@pytest.mark.parametrize("codec", [NONE, *PACKED])
def test_nothing(codec: int) -> None:
    assert decompress(compress(b"", codec), codec) == b""


@texts
def test_others_read_what_is_written(text: bytes) -> None:
    """Java's clients are asked in tests/oracle."""
    assert gzip.decompress(compress(text, GZIP)) == text
    assert bytes(cramjam.zstd.decompress(compress(text, ZSTD))) == text
    assert bytes(cramjam.lz4.decompress(compress(text, LZ4))) == text


@texts
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_lz4_frames_of_every_kind(text: bytes, linked: bool, checksum: bool) -> None:
    maker = cramjam.lz4.Compressor(content_checksum=checksum, block_linked=linked)
    maker.compress(text)
    frame = bytes(maker.finish())
    assert bool(frame[4] & 0x20) is not linked
    assert decompress(frame, LZ4) == text
    assert decompress(frame + b"whatever", LZ4) == text  # Java stops there, too


def with_size(text: bytes) -> bytes:
    """The header's checksum is the one that the library takes."""
    descriptor = b"\x68\x40" + len(text).to_bytes(8, "little")
    frame = b"\x04\x22\x4d\x18" + descriptor
    for checksum in range(256):
        with suppress(cramjam.DecompressionError):
            whole = frame + bytes((checksum,)) + compress(text, LZ4)[7:]
            assert bytes(cramjam.lz4.decompress(whole)) == text
            return whole
    raise AssertionError


@texts
def test_lz4_with_the_size_of_its_content(text: bytes) -> None:
    frame = with_size(text)
    assert decompress(frame, LZ4) == text
    assert decompress(frame[:14] + b"\0" + frame[15:], LZ4) == text


@texts
@pytest.mark.parametrize("wrong", [0x00, 0x55])
def test_lz4_with_the_wrong_header_checksum_of_magic_0(text: bytes, wrong: int) -> None:
    for frame, at in ((compress(text, LZ4), 6), (with_size(text), 14)):
        bad = frame[:at] + bytes((wrong,)) + frame[at + 1 :]
        with pytest.raises(cramjam.DecompressionError):
            cramjam.lz4.decompress(bad)
        assert decompress(bad, LZ4) == text


def test_snappy_raw_and_framed() -> None:
    for text in TEXTS:
        assert decompress(bytes(cramjam.snappy.compress_raw(text)), SNAPPY) == text
        framed = compress(text, SNAPPY)
        assert framed[:8] == b"\x82SNAPPY\0"
        assert decompress(framed + framed, SNAPPY) == text + text  # one stream behind another


def test_gzip_members_and_zstd_frames_one_behind_another() -> None:
    for codec in (GZIP, ZSTD):
        assert decompress(compress(b"one", codec) + compress(b"two", codec), codec) == b"onetwo"
    skipped = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    assert decompress(skipped + compress(b"one", ZSTD), ZSTD) == b"one"


def test_zstd_without_the_size_of_its_content() -> None:
    """Java's clients write it as a stream."""
    for text in TEXTS:
        maker = cramjam.zstd.Compressor(3)
        maker.compress(text)
        assert decompress(bytes(maker.finish()), ZSTD) == text


@pytest.mark.parametrize("codec", PACKED, ids=NAMES[1:])
def test_cut_off_anywhere(codec: int) -> None:
    text = b"hello " * 30_000 + RANDOM[:100]
    packed = compress(text, codec)
    for cut in [*range(min(60, len(packed))), len(packed) // 2, len(packed) - 5, len(packed) - 1]:
        try:
            found = decompress(packed[:cut], codec)
        except WireError:
            continue
        assert found != text
        assert codec == SNAPPY  # a stream of blocks has no end: the records in it do


@given(st.sampled_from(PACKED), st.binary(max_size=60), st.data())
def test_garbage(codec: int, garbage: bytes, data: st.DataObject) -> None:
    packed = bytearray(compress(b"hello " * 300, codec))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    heads = [b"", b"\x1f\x8b\x08", b"\x82SNAPPY\0" + bytes(8), b"\x04\x22\x4d\x18\x60\x40\x82", b"\x28\xb5\x2f\xfd"]
    for content in (bytes(packed), *(head + garbage for head in heads)):
        with suppress(WireError):
            assert len(decompress(content, codec, 1 << 20)) <= 1 << 20


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_no_codec(codec: int) -> None:
    for call in (compress, decompress):
        with pytest.raises(WireError, match=f"Kafka has no codec {codec}"):
            call(b"x", codec)


@pytest.mark.parametrize("codec", PACKED, ids=NAMES[1:])
def test_the_limit_is_exact(codec: int) -> None:
    packed = compress(bytes(100_000), codec)
    assert len(decompress(packed, codec, 100_000)) == 100_000
    with pytest.raises(WireError, match="would take more than 99999 bytes"):
        decompress(packed, codec, 99_999)


LZ4_HEAD = b"\x04\x22\x4d\x18"
RLE = (131_072 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
LIES = {
    "gzip: endless members": (GZIP, compress(b"", GZIP) * 5000, "more members"),
    "gzip: a member and garbage": (GZIP, compress(b"abc", GZIP) + b"garbage", "should be gzip are not"),
    "snappy: a raw size of 4 GB": (SNAPPY, b"\xff\xff\xff\xff\x0f" + b"abc", "more than"),
    "snappy: more than its bytes can become": (SNAPPY, b"\xff\xff\x3f" + b"abc", "cannot become"),
    "snappy: a block of 4 GB": (SNAPPY, b"\x82SNAPPY\0" + bytes(8) + b"\xff\xff\xff\xff", "end too early"),
    "snappy: only the header's beginning": (SNAPPY, b"\x82SNAPPY\0" + bytes(3), "end too early"),
    "lz4: content size of 2^63": (LZ4, LZ4_HEAD + b"\x68\x40" + b"\xff" * 8 + b"\0" + bytes(4), "cannot become"),
    "lz4: a block of 2 GB": (LZ4, LZ4_HEAD + b"\x60\x40\x82" + b"\xff\xff\xff\x7f", "end too early"),
    "lz4: a dictionary": (LZ4, LZ4_HEAD + b"\x61\x40\0\0\0\0\x82" + bytes(4), "of a kind that"),
    "lz4: version 2": (LZ4, LZ4_HEAD + b"\xa0\x40\x82" + bytes(4), "of a kind that"),
    "lz4: no block size": (LZ4, LZ4_HEAD + b"\x60\x00\x82" + bytes(4), "of a kind that"),
    "lz4: another magic": (LZ4, b"\x02\x21\x4c\x18" + bytes(20), "do not begin as"),
    "zstd: content size of 2^63": (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\x01\0\0", "cannot become"),
    "zstd: a skipped frame of 4 GB": (ZSTD, struct.pack("<II", 0x184D2A53, (1 << 32) - 1), "end too early"),
    "zstd: no frame": (ZSTD, b"garbage!", "do not begin as"),
    "zstd: blocks that repeat a byte, 4 GB": (ZSTD, b"\x28\xb5\x2f\xfd\x00\x58" + RLE * 32768 + b"\x01\0\0", "than"),
}


@pytest.mark.parametrize(("codec", "content", "said"), LIES.values(), ids=LIES)
def test_lies(codec: int, content: bytes, said: str) -> None:
    with pytest.raises(WireError, match=said):
        decompress(content, codec)


BOMBS = """
import resource, sys
from kproxy.base.errors import WireError
from kproxy.protocol.records.codecs import decompress
for line in sys.stdin:
    codec, content = line.split()
    try:
        decompress(bytes.fromhex(content), int(codec), 8 << 20)
    except WireError as error:
        print(error.reason)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_bombs_take_no_more_memory_than_allowed() -> None:
    """In a process that may not have it: 256 MB that become, or say that they become, 400 MB or more."""
    bombs = [(codec, compress(bytes(400 << 20), codec)) for codec in (GZIP, ZSTD, LZ4)]
    bombs += [(codec, content) for codec, content, said in LIES.values() if said in ("more than", "than")]
    given = "\n".join(f"{codec} {content.hex()}" for codec, content in bombs)

    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))

    done = subprocess.run(
        [sys.executable, "-c", BOMBS], input=given, capture_output=True, text=True, check=True, preexec_fn=confine
    )
    assert done.stdout.split() == ["too-large"] * len(bombs)
