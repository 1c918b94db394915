"""Records that the driver hashes itself: the hash is Spark's, and what it cannot read is left to Spark.

That the sums are Spark's own is tried with real brokers in tests/integration/migrate/test_verify.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from kproxy.base.errors import KproxyError, UpstreamError, WireError
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.verify import driverhashing as module
from kproxy.migrate.verify.driverhashing import DriverHashing, hash_content, positions_of
from kproxy.migrate.verify.pieces import EXTRA, PartitionPiece, compare_blocks
from kproxy.protocol.records.codecs import GZIP, NONE
from kproxy.protocol.records.encoding import ProducerState, RecordEntry, encode_batch, encode_tail
from kproxy.protocol.records.header import Batch, read_batches

NOW = 1_700_000_000_000


def test_the_hash_is_that_of_spark() -> None:
    """The example in Spark's reference of SQL functions: xxhash64('Spark', array(123), 2)."""
    seed = module._hash_int(123, xxh64_intdigest(b"Spark", 42))
    assert module._signed(module._hash_int(2, seed)) == 5602566077635097486


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 5)), max_size=9), st.data())
def test_positions_are_those_of_the_map(gaps: list[tuple[int, int, int]], data: st.DataObject) -> None:
    known, source, target = OffsetMap(), 0, 0
    for source_gap, target_gap, count in gaps:
        known.add(source + source_gap, target + target_gap, count)
        source, target = source + source_gap + count, target + target_gap + count
    offsets = sorted(data.draw(st.sets(st.integers(0, target + 3))))
    expected = {there: source + i for source, target, count in known for i in range(count) for there in [target + i]}
    position = positions_of(iter(known))
    assert [position(offset) for offset in offsets] == [expected.get(offset) for offset in offsets]


# Reading


def batch(first: int, *tails: bytes, codec: int = NONE, timestamp: int = NOW) -> Batch:
    entries = [RecordEntry(at, timestamp + at, tail) for at, tail in enumerate(tails)]
    data = bytearray(b"".join(encode_batch(entries, codec, ProducerState(1, 0, 0, transactional=True))))
    data[:8] = first.to_bytes(8, "big")  # the checksum does not cover it
    return next(read_batches(memoryview(bytes(data))))


Log = Callable[[], Iterator[tuple[Batch, bool]]]


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Returns what is hashed of a source and a target that have these batches, and why Spark must do it."""
    logs: dict[str, Log] = {}

    def fetch(_: ClusterClient, topic: str, *__: object, **___: object) -> Iterator[tuple[Batch, bool]]:
        return logs[topic]()

    monkeypatch.setattr(module, "fetch_batches", fetch)

    def read(source: Log, target: Log, piece: PartitionPiece) -> Any:
        logs.update(s=source, t=target)
        reasons: list[str] = []
        hashing = DriverHashing("source:1", "target:1", reasons.append)
        try:
            return hashing.hash_blocks([piece]), reasons
        finally:
            hashing.close()

    return read


TAILS = [encode_tail(b"k", b"v"), encode_tail(None, b""), encode_tail(b"", None)]
PIECE = PartitionPiece("s", 0, "t", 5, 8, 10, 14, OffsetMap([(5, 11, 3)]))


def log(*batches: Batch, aborted: bool = False) -> Log:
    return lambda: iter([(one, aborted) for one in batches])


def test_equal_records_have_equal_sums_however_they_are_packed(hashed: Callable[..., Any]) -> None:
    source = log(batch(5, *TAILS))
    target = log(batch(11, TAILS[0], codec=GZIP), batch(12, TAILS[1], TAILS[2], timestamp=NOW + 1))
    (left, right), reasons = hashed(source, target, PIECE)
    assert reasons == []
    verdict = compare_blocks(PIECE, left["s", 0], right["t", 0])
    assert (verdict.is_equal, verdict.matching) == (True, 3)
    assert verdict.digest == left["s", 0][0].digest != 0


@pytest.mark.parametrize(
    "tails",
    [
        [TAILS[0], TAILS[2], TAILS[1]],
        [TAILS[0], encode_tail(b"", b""), TAILS[2]],
        [TAILS[0], encode_tail(None, None), TAILS[2]],
        TAILS[:2],
        [TAILS[0], TAILS[0], TAILS[2]],
    ],
    ids=["order", "null key", "null value", "one less", "doubled"],
)
def test_what_differs(hashed: Callable[..., Any], tails: list[bytes]) -> None:
    (left, right), _ = hashed(log(batch(5, *TAILS)), log(batch(11, *tails)), PIECE)
    assert compare_blocks(PIECE, left["s", 0], right["t", 0]).bad == (0,)


def test_aborted_records_do_not_count_and_others_are_extra(hashed: Callable[..., Any]) -> None:
    def target() -> Iterator[tuple[Batch, bool]]:
        yield batch(9, TAILS[0]), True
        yield batch(10, TAILS[0], *TAILS, timestamp=NOW - 1), False

    (left, right), _ = hashed(log(batch(5, *TAILS)), target, PIECE)
    verdict = compare_blocks(PIECE, left["s", 0], right["t", 0])
    assert (verdict.bad, verdict.extra.count, verdict.extra.first) == ((), 1, 10)
    assert right["t", 0][EXTRA].count == 1


def damaged() -> Batch:
    one = batch(11, *TAILS)
    return one._replace(crc=one.crc ^ 1)


def raising(error: KproxyError) -> Log:
    def read() -> Iterator[tuple[Batch, bool]]:
        raise error
        yield

    return read


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (log(damaged()), "wrong checksum"),
        (log(batch(11, b"\x01\x01\x02\x02\xff\x01")), "not UTF-8"),
        (log(batch(11, TAILS[0], timestamp=-3_000_000_000_000)), "timestamp"),
        (log(batch(11, TAILS[0], timestamp=1 << 61)), "timestamp"),
        (log(batch(11, b"\x07")), "ends"),
        (log(batch(11, encode_tail(None, bytes(40 << 20)), codec=GZIP)), "bytes of memory"),
        (raising(WireError("malformed", "nonsense")), "nonsense"),
    ],
)
def test_what_only_spark_can_judge(hashed: Callable[..., Any], target: Log, reason: str) -> None:
    sides, reasons = hashed(log(batch(5, *TAILS)), target, PIECE)
    assert sides is None
    assert len(reasons) == 1
    assert reason in reasons[0]
    assert reasons[0].startswith("Spark compares the last records")


def test_a_leader_that_moves_is_asked_again(hashed: Callable[..., Any]) -> None:
    failures = [UpstreamError("closed", "the broker closed the connection")]

    def target() -> Iterator[tuple[Batch, bool]]:
        yield batch(11, TAILS[0]), False
        if failures:
            raise failures.pop()
        yield batch(12, TAILS[1], TAILS[2], timestamp=NOW + 1), False

    (left, right), reasons = hashed(log(batch(5, *TAILS)), target, PIECE)
    assert reasons == failures == []
    assert compare_blocks(PIECE, left["s", 0], right["t", 0]).is_equal


def test_a_broker_that_is_away_is_left_to_spark(hashed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    sides, reasons = hashed(raising(UpstreamError("unreachable", "it is away")), log(batch(11, *TAILS)), PIECE)
    assert (sides, reasons) == (None, ["Spark compares the last records, as the driver cannot: it is away"])


def test_the_bounds(hashed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many offsets are not even read; too many bytes are noticed while they are read."""
    source, target = log(batch(5, *TAILS)), log(batch(11, *TAILS))
    monkeypatch.setattr(module, "MAX_OFFSETS", 6)
    assert hashed(raising(WireError("other", "was read")), target, PIECE) == (None, [])
    monkeypatch.setattr(module, "MAX_OFFSETS", 7)
    monkeypatch.setattr(module, "MAX_BYTES", 2 * batch(0, *TAILS).size)
    assert hashed(source, target, PIECE)[1] == []
    monkeypatch.setattr(module, "MAX_BYTES", 2 * batch(0, *TAILS).size - 1)
    sides, reasons = hashed(source, target, PIECE)
    assert sides is None
    assert "the records take more than 0 MiB" in reasons[0]


@given(st.binary(max_size=40), st.integers(-(1 << 62), 1 << 62))
def test_garbage_raises_only_errors_of_kproxy(tail: bytes, timestamp: int) -> None:
    with suppress(WireError):
        assert 0 <= hash_content(timestamp, tail) < 1 << 64
