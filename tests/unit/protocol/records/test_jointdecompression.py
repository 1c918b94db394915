from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
from collections.abc import Sequence

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.records.codecs import LZ4, NAMES, SNAPPY, ZSTD, compress, decompress
from kproxy.protocol.records.decoding import Record
from kproxy.protocol.records.encoding import ProducerState
from kproxy.protocol.records.jointdecompression import MAX_JOINT_SIZE, decompress_jointly
from kproxy.protocol.records.producebatches import produce_batches
from tests.unit.protocol.records.logs import NOW, arrived, read, v2, written, zigzag

RANDOM = os.urandom(300)
CODECS = (LZ4, ZSTD)
codecs = pytest.mark.parametrize("codec", CODECS, ids=[NAMES[codec] for codec in CODECS])


def framed(content: bytes, flags: int = 0x60, size_code: int = 4, end: bytes = bytes(4)) -> bytes:
    """An LZ4 frame of these blocks, whose header has the checksum that the library takes."""
    for checksum in range(256):
        head = b"\x04\x22\x4d\x18" + bytes((flags, size_code << 4, checksum))
        try:
            cramjam.lz4.decompress(head + bytes(4))
        except cramjam.DecompressionError:
            continue
        return head + content + end
    raise AssertionError


def block(content: bytes, *, stored: bool = False) -> bytes:
    return struct.pack("<I", len(content) | stored << 31) + content


def made_by(library: object, text: bytes, **options: object) -> bytes:
    maker = library.Compressor(**options)  # type: ignore[attr-defined]
    maker.compress(text)
    return bytes(maker.finish())


def packed(text: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(text, store_size=False))


def second_block_of_zstd() -> bytes:
    """As a frame of its own: what it refers to stands in the first block."""
    text = os.urandom(128 << 10)
    frame = bytes(cramjam.zstd.compress(text + text[:100_000]))
    size = int.from_bytes(frame[9:12], "little") >> 3
    assert frame[4] >> 6 == 2
    return frame[:9] + frame[9 + 3 + size :]


# Matches that reach back before the beginning of the block: 4 bytes from so far, then five as they are.
REACHING = [b"\x00" + struct.pack("<H", back) + b"\x50abcde" for back in (1, 4, 16, 300)]
LONG = b"hello " * 30_000
FRAMES = {
    LZ4: {
        "as written": compress(b"hello hello hello hello", LZ4),
        "not compressed": compress(RANDOM, LZ4),
        "nothing": compress(b"", LZ4),
        "nothing, and a block of nothing": framed(bytes(4)),
        "a stored block of nothing": framed(block(b"", stored=True)),
        "several blocks": compress(LONG, LZ4),
        "several small blocks": framed(block(b"abc", stored=True) + block(packed(b"abc" * 90))),
        "linked blocks": made_by(cramjam.lz4, LONG, block_linked=True),
        "content checksum": made_by(cramjam.lz4, RANDOM, content_checksum=True, block_linked=False),
        "a wrong content checksum": made_by(cramjam.lz4, RANDOM, content_checksum=True, block_linked=False)[:-1] + b"x",
        "block checksums that are not there": framed(block(b"abc", stored=True), flags=0x70),
        "a dictionary": framed(block(b"abc", stored=True), flags=0x60)[:4] + b"\x61\x40\0\0\0\0\x82" + bytes(4),
        "blocks of 4 MB": framed(block(packed(bytes(3 << 20))), size_code=7),
        "a block that becomes more than it may": framed(block(packed(bytes(100_000)))),
        "a stored block larger than it may be": framed(block(bytes(70_000), stored=True)),
        "a wrong header checksum": compress(b"abc", LZ4)[:6] + b"\0" + compress(b"abc", LZ4)[7:],
        "a frame that is passed over": struct.pack("<II", 0x184D2A53, 5) + b"12345" + compress(b"abc", LZ4),
        "a frame behind a frame": compress(b"abc", LZ4) * 2,
        "bytes behind the end": compress(b"abc", LZ4) + b"1234",
        "zeros behind the end": compress(b"abc", LZ4) + bytes(4),
        "no end": framed(block(b"abc", stored=True), end=b""),
        "a block that is cut": framed(block(packed(b"abc" * 90))[:-3]),
        "a block with garbage": framed(block(b"\xff" * 30)),
        "a block that claims 2 GB": framed(struct.pack("<I", 0x7FFFFFFF) + b"abc"),
        "a stored block that claims 2 GB": framed(struct.pack("<I", 0xFFFFFFFF) + b"abc"),
        "a block that claims its neighbour too": framed(struct.pack("<I", 3 + 4 + 16 | 1 << 31) + b"abc"),
        "one byte": b"\x04",
        "no byte": b"",
        **{f"a match {number}": framed(block(content)) for number, content in enumerate(REACHING)},
    },
    ZSTD: {
        "as written": compress(b"hello hello hello hello", ZSTD),
        "not compressed": compress(RANDOM, ZSTD),
        "nothing": compress(b"", ZSTD),
        "several blocks": compress(LONG + os.urandom(200_000), ZSTD),
        "as a stream": made_by(cramjam.zstd, LONG),
        "a frame that is passed over": struct.pack("<II", 0x184D2A53, 5) + b"12345" + compress(b"abc", ZSTD),
        "only a frame that is passed over": struct.pack("<II", 0x184D2A53, 5) + b"12345",
        "one that is passed over and claims 4 GB": struct.pack("<II", 0x184D2A53, 0xFFFFFFFF),
        "a frame behind a frame": compress(b"abc", ZSTD) * 2,
        "bytes behind the end": compress(b"abc", ZSTD) + b"1",
        "cut": compress(b"abc" * 90, ZSTD)[:-2],
        "garbage": compress(b"abc" * 90, ZSTD)[:9] + b"\xff" * 8,
        "a dictionary": b"\x28\xb5\x2f\xfd\x21\x01\x03" + b"\x19\0\0abc",
        "a checksum": b"\x28\xb5\x2f\xfd\x24\x03" + b"\x19\0\0abc" + b"\x3f\xba\xc4\x59",
        "a wrong checksum": b"\x28\xb5\x2f\xfd\x24\x03" + b"\x19\0\0abc" + b"1234",
        "a size that is too large": b"\x28\xb5\x2f\xfd\x20\x09" + b"\x19\0\0abc",
        "a size that is too small": b"\x28\xb5\x2f\xfd\x20\x02" + b"\x19\0\0abc",
        "a size of 2^63": b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\x19\0\0abc",
        "a block that is not the last one": b"\x28\xb5\x2f\xfd\x20\x03" + b"\x18\0\0abc",
        "a byte that is repeated": b"\x28\xb5\x2f\xfd\x00\x58" + (100_000 << 3 | 3).to_bytes(3, "little") + b"x",
        "a block that refers to another": second_block_of_zstd(),
        "one byte": b"\x28",
        "no byte": b"",
    },
}
ALL = [(codec, name) for codec, frames in FRAMES.items() for name in frames]


def alone(frame: bytes, codec: int) -> bytes | None:
    try:
        return bytes(decompress(frame, codec))
    except WireError:
        return None


def those(frames: Sequence[bytes], codec: int) -> list[bytes | None]:
    return list(decompress_jointly(map(memoryview, frames), codec))


@codecs
def test_small_ones_are_decompressed_together(codec: int) -> None:
    texts = [b"abc" * 30, RANDOM, b"a", RANDOM * 2, *(b"%d" % number for number in range(500))]
    assert those([compress(text, codec) for text in texts], codec) == texts


@codecs
def test_none_or_one(codec: int) -> None:
    assert those([], codec) == []
    assert those([compress(b"abc", codec)], codec) == [None]  # to put one behind another takes another


def test_of_other_codecs() -> None:
    assert those([compress(b"abc", SNAPPY)] * 3, SNAPPY) == [None] * 3


@pytest.mark.parametrize(("codec", "name"), ALL, ids=[f"{NAMES[codec]}: {name}" for codec, name in ALL])
def test_a_frame_of_any_kind_between_good_ones(codec: int, name: str) -> None:
    """It has what it has by itself or is left to be decompressed by itself, and so have the others."""
    frame, good = FRAMES[codec][name], [compress(b"%d" % number * 20, codec) for number in range(4)]
    good += [framed(block(packed(b"abc" * 30)), size_code=7)] * 2 if codec == LZ4 else good[:2]
    texts = [decompress(one, codec) for one in good]
    right = alone(frame, codec)
    for at in range(7):
        found = those([*good[:at], frame, *good[at:]], codec)
        assert len(found) == 7
        assert found.pop(at) in ((None,) if right is None else (None, right))
        assert all(one in (None, text) for one, text in zip(found, texts, strict=True))


@given(st.sampled_from(CODECS), st.data())
def test_any_mixture(codec: int, data: st.DataObject) -> None:
    some = [*FRAMES[codec].values(), compress(b"hello " * 30, codec), compress(RANDOM, codec)]
    frames = [bytearray(frame) for frame in data.draw(st.lists(st.sampled_from(some), max_size=9))]
    for frame in data.draw(st.lists(st.sampled_from(frames), max_size=2)) if frames else ():
        if frame:
            frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    for frame, found in zip(frames, those([bytes(frame) for frame in frames], codec), strict=True):
        assert found is None or found == alone(bytes(frame), codec)


def lending(codec: int, first: bytes, second: bytes) -> bytes:
    """A log of batches of one record, of which two have these contents."""
    good = v2([Record(0, NOW, b"key", b"value", ())], codec=codec)
    some = [v2([], base=offset, codec=codec, base_timestamp=NOW, count=1, content=content)
            for offset, content in ((1, first), (2, second))]  # fmt: skip
    return b"".join((good, *some, v2([Record(3, NOW, b"key", b"value", ())], codec=codec)))


WHOLE = written(Record(1, NOW, b"k" * 30, b"v" * 300, ()), 1, NOW)


@codecs
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (WHOLE[:100], WHOLE[100:] + WHOLE),
        (WHOLE[:1], WHOLE[1:] + WHOLE),
        (WHOLE + WHOLE[:50], WHOLE[50:]),
        (WHOLE + WHOLE, WHOLE),
        (zigzag(2 * len(WHOLE)) + WHOLE[2:], WHOLE),
        (b"", WHOLE + WHOLE),
    ],
    ids=["half a record", "a byte", "one and a half", "two records", "a record that claims its neighbour", "nothing"],
)
def test_no_batch_lends_another_bytes(codec: int, first: bytes, second: bytes) -> None:
    log = lending(codec, first, second)
    with pytest.raises(WireError, match="offset 1 "):
        list(produce_batches(read(log), first=0, end=9, limit=1 << 20, producer=ProducerState()))


@codecs
def test_what_is_good_arrives(codec: int) -> None:
    """The same log as the one above, without a fault: the test above would not notice that everything is refused."""
    found = list(
        produce_batches(read(lending(codec, WHOLE, WHOLE)), first=0, end=9, limit=1 << 20, producer=ProducerState())
    )
    assert [len(record.value or b"") for record in arrived(found)] == [5, 300, 300, 5]


BOMB = """
import sys
from kproxy.protocol.records.jointdecompression import decompress_jointly
codec, frames = int(sys.argv[1]), [memoryview(bytes.fromhex(line)) for line in sys.stdin]
print(sum(len(content or b"") for content in decompress_jointly(frames, codec)))
"""


@codecs
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_bombs_take_no_more_memory_than_allowed(codec: int) -> None:
    """In a process that may have 256 MB: small frames that become 500 MB together."""
    one = compress(bytes(60_000), codec)
    frames, count = one.hex() + "\n", 9000

    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))

    assert count * 60_000 > 30 * MAX_JOINT_SIZE
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(codec)], input=frames * count, capture_output=True, text=True, check=True,
        preexec_fn=confine,
    )  # fmt: skip
    assert int(done.stdout) == count * 60_000
