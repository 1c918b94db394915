from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import ConfigError, WireError
from kproxy.protocol.records import decoding, producebatches
from kproxy.protocol.records.decoding import Record
from kproxy.protocol.records.encoding import ProducerState
from kproxy.protocol.records.producebatches import MERGED, RE_ENCODED, VERBATIM, ProduceBatch, produce_batches
from tests.unit.protocol.records.logs import NOW, arrived, decoded, message, read, some_log, some_records, v2, wrapper

LIMIT = 1 << 20
PRODUCER = ProducerState(77, 3, 1000, True)


def copied(
    log: bytes, first: int = 0, end: int = 1 << 62, limit: int = LIMIT, producer: ProducerState = PRODUCER
) -> list[ProduceBatch]:
    return list(produce_batches(read(log), first=first, end=end, limit=limit, producer=producer))


def numbered(start: int, count: int, value: bytes | None = b"value", step: int = 1) -> list[Record]:
    return [Record(start + step * number, NOW + number, b"%d" % number, value, ()) for number in range(count)]


def large(start: int, count: int = 300, step: int = 1) -> list[Record]:
    return numbered(start, count, b"0123456789" * 30, step)


def same_records(found: Sequence[ProduceBatch], wanted: list[Record]) -> None:
    assert arrived(found) == wanted


@given(some_log(), st.data())
def test_any_log_arrives(made: tuple[bytes, list[Record]], data: st.DataObject) -> None:
    log, inside = made
    offsets = [record.offset for record in inside]
    edges = st.sampled_from([0, 1 << 62, *offsets]) | st.integers(offsets[0] - 2, offsets[-1] + 2)
    first, end = sorted((data.draw(edges), data.draw(edges)))
    limit = data.draw(st.sampled_from([LIMIT, 20_000, 7_000]))
    found = copied(log, first, end, limit)
    same_records(found, [record for record in inside if first <= record.offset < end])
    assert all(piece.size == sum(map(len, piece.buffers)) <= limit for piece in found)
    sequence = PRODUCER.sequence
    for piece in found:
        (batch,) = read(b"".join(piece.buffers))
        assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (77, 3, True)
        assert batch.base_sequence == piece.sequence == sequence
        sequence += piece.count


@given(some_log())
def test_everything_is_accounted_for(made: tuple[bytes, list[Record]]) -> None:
    log, _ = made
    found = copied(log, limit=20_000)
    assert [crc for piece in found for crc in piece.checksums] == [batch.crc for batch in read(log)]


@given(some_records(), st.sampled_from(range(5)))
def test_verbatim_leaves_the_records_alone(inside: list[Record], codec: int) -> None:
    whole = [record._replace(offset=inside[0].offset + number) for number, record in enumerate(inside)]
    log = v2(whole, codec=codec, flags=0x10, producer=(5, 6, 7))
    (piece,) = copied(log)
    assert (piece.method, piece.count, piece.runs) == (VERBATIM, len(whole), ((whole[0].offset, 0, len(whole)),))
    assert bytes(piece.buffers[1]) == log[61:]
    assert isinstance(piece.buffers[1], memoryview)
    same_records([piece], whole)


def test_the_header_of_verbatim() -> None:
    log = v2(large(50), codec=0, flags=0x10, producer=(5, 6, 7))
    (piece,) = copied(log)
    assert struct.unpack(">qiibIhiqqqhii", piece.buffers[0]) == (
        *(0, len(log) - 12, -1, 2, crc32c(b"".join(piece.buffers)[21:]), 0x10, 299),
        *(NOW, NOW + 299, 77, 3, 1000, 300),
    )


def test_nobody_s_batch() -> None:
    (piece,) = copied(v2(large(50)), producer=ProducerState())
    (batch,) = read(b"".join(piece.buffers))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert not batch.is_transactional
    assert ProducerState().after(5) == ProducerState()


WAYS = {
    "large": (v2(large(50)), VERBATIM),
    "large, codec": (v2(large(50), codec=3), VERBATIM),
    "alone": (v2(numbered(50, 1)), VERBATIM),
    "a gap": (v2(large(50, step=2)), RE_ENCODED),
    "a gap at the end": (v2(large(50), after=1), RE_ENCODED),
    "a gap at the beginning": (v2(large(50), base=49), RE_ENCODED),
    "the broker's timestamps": (v2(large(50), flags=0x08, max_timestamp=NOW + 299), RE_ENCODED),
    "a delete horizon": (v2(large(50), flags=0x40), RE_ENCODED),
    "magic 1": (wrapper(large(50), 1, 1), RE_ENCODED),
    "magic 0": (message(Record(50, -1, b"k", b"v", ()), 0), RE_ENCODED),
    "small ones": (v2(numbered(50, 1)) + v2(numbered(51, 1)) + v2(numbered(60, 3)), MERGED),
}


@pytest.mark.parametrize(("log", "way"), WAYS.values(), ids=WAYS)
def test_which_way(log: bytes, way: str) -> None:
    (piece,) = copied(log)
    assert piece.method == way
    assert len(piece.checksums) == len(read(log))
    (batch,) = read(b"".join(piece.buffers))
    assert batch.codec == read(log)[0].codec


@pytest.mark.parametrize(("first", "end", "count"), [(51, 1 << 62, 299), (0, 349, 299), (60, 70, 10), (349, 350, 1)])
def test_the_edges_of_a_slice(first: int, end: int, count: int) -> None:
    for log in (v2(large(50)), v2(large(50), codec=4), wrapper(large(50), 1, 3)):
        (piece,) = copied(log, first, end)
        assert (piece.method, piece.runs) == (RE_ENCODED, [(max(50, first), 0, count)])


@pytest.mark.parametrize(("first", "end"), [(350, 1 << 62), (0, 50), (0, 0), (90, 90)])
def test_outside_the_slice(first: int, end: int) -> None:
    for log in (v2(large(50)), wrapper(large(50), 0, 1), v2(large(50, step=40))):
        assert copied(log, first, min(end, 90)) == []


def test_what_compaction_emptied_is_passed_over() -> None:
    assert copied(v2([], base=7, after=5)) == []


def test_only_neighbours_of_a_kind_are_merged() -> None:
    log = b"".join(
        v2(records, codec=codec)
        for codec, records in (
            (0, numbered(0, 1)),
            (0, numbered(1, 1)),
            (3, numbered(2, 1)),
            (3, numbered(3, 1)),
            (3, large(4)),
            (3, numbered(304, 1)),
            (0, numbered(305, 1)),
            (0, large(306)),
            (0, large(606)),
        )
    )
    assert [(piece.method, piece.count) for piece in copied(log)] == [
        *((MERGED, 2), (MERGED, 2), (VERBATIM, 300), (VERBATIM, 1), (VERBATIM, 1), (VERBATIM, 300), (VERBATIM, 300)),
    ]


@pytest.mark.parametrize("codec", range(5))
def test_a_merged_batch_does_not_grow_without_end(codec: int) -> None:
    log = b"".join(v2(numbered(number, 1, b"x" * 1000), codec=codec) for number in range(3000))
    found = copied(log)
    same_records(found, decoded(log))
    assert 3 <= len(found) <= 50
    assert all(piece.size <= 512 << 10 for piece in found)
    assert {piece.method for piece in found} == {MERGED}


def test_what_compresses_well_does_not_become_large_in_memory() -> None:
    log = b"".join(v2(numbered(number, 1, bytes(100_000)), codec=4) for number in range(100))
    assert len(log) < 32 << 10
    found = copied(log)
    same_records(found, decoded(log))
    assert [piece.count for piece in found] == [10] * 10


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_is_too_large_is_split(codec: int) -> None:
    with open("/dev/urandom", "rb") as noise:
        inside = [record._replace(value=noise.read(1000)) for record in large(50)]
    log = v2(inside, codec=codec)
    found = copied(log, limit=20_000)
    same_records(found, inside)
    assert {piece.method for piece in found} == {RE_ENCODED}
    assert all(piece.size <= 20_000 for piece in found)
    assert [len(piece.checksums) for piece in found] == [0] * (len(found) - 1) + [len(read(log))]
    assert [piece.sequence for piece in found][1:] == [
        1000 + sum(piece.count for piece in found[:number]) for number in range(1, len(found))
    ]


def test_the_limit_is_exact() -> None:
    log = v2(large(50))
    assert [piece.method for piece in copied(log, limit=len(log))] == [VERBATIM]
    assert [piece.method for piece in copied(log, limit=len(log) - 1)] == [RE_ENCODED] * 2
    gaps = v2(large(50, step=2))
    (piece,) = copied(gaps)
    assert len(copied(gaps, limit=piece.size)) == 1
    assert len(copied(gaps, limit=piece.size - 1)) == 2


def test_a_record_that_is_too_large() -> None:
    inside = numbered(50, 3)
    inside[1] = inside[1]._replace(value=bytes(5000))
    with pytest.raises(ConfigError, match=r"record at offset 51 .* 50\d\d bytes, and the target takes 4000: raise"):
        copied(v2(inside), limit=4000)


def test_many_records_of_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producebatches, "MAX_RECORDS_AT_ONCE", 7)
    monkeypatch.setattr(decoding, "MAX_RECORDS_AT_ONCE", 7)
    inside = numbered(50, 50, step=3)
    for log in (v2(inside, codec=1), v2(inside), wrapper(inside, 1, 1)):
        log += v2(numbered(300, 4), codec=read(log)[0].codec)
        found = copied(log)
        same_records(found, [*inside, *numbered(300, 4)])
        assert max(piece.count for piece in found) <= 50
        assert [len(piece.checksums) for piece in found] == [0] * (len(found) - 1) + [len(read(log))]


def test_sequences_begin_anew() -> None:
    log = v2(large(0)) + v2(large(300))
    found = copied(log, producer=ProducerState(7, 0, (1 << 31) - 100, True))
    assert [piece.sequence for piece in found] == [(1 << 31) - 100, 200]


@pytest.mark.parametrize("base", [(1 << 63) - 1, -(1 << 63)])
def test_timestamps_at_the_end_of_time(base: int) -> None:
    """Deltas from there overflow, and do so again on the way out."""
    (piece,) = copied(v2(large(50, step=2), base_timestamp=base))
    inside = decoded(b"".join(piece.buffers))
    assert [record.timestamp for record in inside] == [NOW + number for number in range(300)]


def test_nothing_damaged_is_copied() -> None:
    for log in (v2(large(50)), v2(large(50, step=2)), message(Record(50, NOW, b"k", b"v", ()), 1)):
        with pytest.raises(WireError, match="offset 50 has a wrong checksum"):
            copied(log[:-1] + b"\xee")


DISORDER = {
    "large ones": v2(large(50)) + v2(large(349)),
    "small ones": v2(numbered(50, 3)) + v2(numbered(52, 3)),
    "small and large": v2(large(50)) + v2(numbered(7, 1)),
    "codecs": v2(numbered(50, 3)) + v2(numbered(52, 3), codec=1),
    "messages": message(numbered(50, 1)[0], 1) * 2,
    "messages in one": wrapper([*numbered(50, 3), *numbered(51, 2)], 0, 1),
}


@pytest.mark.parametrize("log", DISORDER.values(), ids=DISORDER)
def test_offsets_go_up(log: bytes) -> None:
    with pytest.raises(WireError, match=r"offset \d+ comes after offset \d+ in one partition"):
        copied(log)


def with_right_checksums(log: bytearray) -> bytes:
    """What a sender that means harm would send."""
    at = 0
    while at + 17 <= len(log):
        after = at + 12 + max(5, int.from_bytes(log[at + 8 : at + 12], "big"))
        if log[at + 16] == 2:
            log[at + 17 : at + 21] = struct.pack(">I", crc32c(log[at + 21 : after]))
        else:
            log[at + 12 : at + 16] = struct.pack(">I", crc32(log[at + 16 : after]))
        at = after
    return bytes(log)


@given(some_log(), st.data())
def test_whatever_is_changed(made: tuple[bytes, list[Record]], data: st.DataObject) -> None:
    log = bytearray(made[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(log), 150) - 1) | st.integers(0, len(log) - 1))
        log[at] = data.draw(st.sampled_from([0, 1, 127, 128, 255]) | st.integers(0, 255))
    last = -1
    try:
        for piece in copied(with_right_checksums(log), limit=20_000):
            for source, _, count in piece.runs:
                assert last < source
                last = source + count - 1
                assert last < 1 << 63
    except (WireError, ConfigError):
        pass


def test_an_unknown_codec() -> None:
    log = bytearray(v2(large(50)))
    log[22] |= 5
    log[17:21] = struct.pack(">I", crc32c(log[21:]))
    with pytest.raises(WireError, match="offset 50 has codec 5"):
        copied(bytes(log))
