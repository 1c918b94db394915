from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.records.decoding import Record, decode_records
from kproxy.protocol.records.header import ABORT, COMMIT, Batch, read_batches
from tests.unit.protocol.records.logs import NOW, decoded, marker, message, read, some_log, v2, wrapper

ONE = Record(41, NOW, b"k", b"v", ())
TWO = Record(44, NOW + 3, None, b"", ((b"h", None),))


def test_what_a_batch_says() -> None:
    log = v2([ONE, TWO], codec=3, flags=0x10, producer=(9, 2, 77), after=1)
    (batch,) = read(log)
    assert (batch.base_offset, batch.last_offset, batch.magic, batch.count) == (41, 45, 2, 2)
    assert (batch.codec, batch.is_transactional, batch.is_control, batch.control) == (3, True, False, None)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.leader_epoch) == (9, 2, 77, 7)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW, NOW + 3)
    assert bytes(batch.raw) == log
    batch.check()


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_is_a_batch(magic: int) -> None:
    (batch,) = read(message(ONE, magic))
    assert (batch.base_offset, batch.last_offset, batch.magic, batch.count, batch.codec) == (41, 41, magic, 1, 0)
    assert batch.max_timestamp == (NOW if magic else -1)
    (batch,) = read(wrapper([ONE, TWO], magic, 1))
    assert (batch.last_offset, batch.count, batch.codec, batch.producer_id) == (44, -1, 1, -1)
    assert not batch.is_transactional


@pytest.mark.parametrize(("kind", "said"), [(0, ABORT), (1, COMMIT), (2, None), (6, None)])
def test_what_a_marker_says(kind: int, said: int | None) -> None:
    (batch,) = read(marker(7, 3, kind))
    assert (batch.is_control, batch.control) == (True, said)


def test_a_marker_that_compaction_emptied_says_nothing() -> None:
    (batch,) = read(v2([], base=3, flags=0x30))
    assert (batch.is_control, batch.control) == (True, None)


@pytest.mark.parametrize("content", [b"", b"\x80" * 20, b"\x10\0\0\0\x08\0\0", b"\x80" * 4])
def test_a_marker_without_a_type(content: bytes) -> None:
    (batch,) = read(v2([], base=3, flags=0x30, count=1, content=content))
    with pytest.raises(WireError, match="control batch at offset 3 has no type"):
        _ = batch.control


@given(some_log())
def test_any_cut_gives_the_whole_batches_before_it(made: tuple[bytes, list[Record]]) -> None:
    log, _ = made
    whole = read(log)
    ends = [0]
    for batch in whole:
        ends.append(ends[-1] + len(batch.raw))
    for cut in {*range(0, len(log), max(1, len(log) // 50)), *ends, *(end + 17 for end in ends[:-1])}:
        assert len(read(log[:cut])) == sum(end <= cut for end in ends[1:])


@given(some_log(), st.data())
def test_a_changed_byte_is_noticed(made: tuple[bytes, list[Record]], data: st.DataObject) -> None:
    """In what the checksum covers: base offset and leader epoch are the broker's, and not in it."""
    log, _ = made
    at = data.draw(st.integers(0, len(log) - 1))
    changed = bytearray(log)
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        before, after = read(log), read(bytes(changed))
        for batch in after:
            batch.check()
    except WireError:
        return
    assert [bytes(batch.raw[17:]) for batch in after] == [bytes(batch.raw[17:]) for batch in before][: len(after)]


@given(st.binary(max_size=300))
def test_garbage(data: bytes) -> None:
    def all_of(log: bytes) -> None:
        try:
            for batch in read_batches(memoryview(log)):
                batch.check()
                decode_records(batch)
        except WireError:
            pass

    all_of(data)
    for magic in (0, 1, 2):  # also behind a header that looks right
        all_of(struct.pack(">qiib", 5, len(data) + 5, 0, magic) + data)


HEADERS = {
    "a negative size": (8, struct.pack(">i", -1), "no batch has offset 41 and -1 bytes"),
    "size 0": (8, struct.pack(">i", 0), "no batch has"),
    "a size that is too small for its magic": (8, struct.pack(">i", 48), "magic 2 and 48 bytes"),
    "a negative offset": (0, struct.pack(">q", -5), "no batch has offset -5"),
    "an unknown magic": (16, b"\x03", "offset 41 has magic 3"),
    "a negative magic": (16, b"\xff", "offset 41 has magic 255"),
    "a negative count": (57, struct.pack(">i", -1), "-1 records in"),
    "a negative last offset": (23, struct.pack(">i", -2), "in -1 offsets"),
}


@pytest.mark.parametrize(("at", "content", "said"), HEADERS.values(), ids=HEADERS)
def test_a_header_that_cannot_be(at: int, content: bytes, said: str) -> None:
    log = bytearray(v2([ONE]))
    log[at : at + len(content)] = content
    with pytest.raises(WireError, match=said):
        read(bytes(log))


def test_an_offset_behind_the_last_one_there_is() -> None:
    last = ONE._replace(offset=(1 << 63) - 1)
    assert decoded(v2([last])) == [last]
    with pytest.raises(WireError, match="in 2 offsets"):
        read(v2([last], after=1))


def test_a_wrong_checksum_says_where() -> None:
    for log in (v2([ONE]), message(ONE, 0), message(ONE, 1)):
        (batch,) = read(log[:-1] + b"\xee")
        with pytest.raises(WireError, match="offset 41 has a wrong checksum") as caught:
            batch.check()
        assert caught.value.reason == "corrupt"


def test_a_batch_is_cheap() -> None:
    batch = read(v2([ONE]))[0]
    assert isinstance(batch, Batch)
    assert not hasattr(batch, "__dict__")


@given(some_log())
def test_decoding_gives_what_was_written(made: tuple[bytes, list[Record]]) -> None:
    log, inside = made
    assert decoded(log) == inside
