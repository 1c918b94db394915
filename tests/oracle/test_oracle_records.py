"""Record batches by Kafka's own classes: what they write is read as they read it, and what is copied is valid to them.

The classes of Kafka 3 and of Kafka 4 both do all of it; Kafka 4 has forgotten nothing of magic 0 and 1 here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from kproxy.dev.devcluster.jars import DEFAULT_VERSION
from kproxy.protocol.records.codecs import NAMES, ZSTD
from kproxy.protocol.records.decoding import Record, decode_records
from kproxy.protocol.records.encoding import ProducerState
from kproxy.protocol.records.header import ABORT, COMMIT, Batch, read_batches
from kproxy.protocol.records.producebatches import MERGED, RE_ENCODED, VERBATIM, ProduceBatch, produce_batches
from tests.oracle.oracle_records import Batches, ReadBatch

pytestmark = pytest.mark.integration

NOW = 1_700_000_000_000
LIMIT = 1 << 20
# magic, codec, time of the broker
KINDS = [kind for kind in product((0, 1, 2), range(5), (-1, NOW + 77)) if kind[0] == 2 or kind[1] != ZSTD]
KINDS = [kind for kind in KINDS if kind[0] or kind[2] < 0]
kinds = pytest.mark.parametrize(
    ("magic", "codec", "append_time"),
    KINDS,
    ids=[f"magic{m}-{NAMES[c]}-{'append' if t > 0 else 'create'}" for m, c, t in KINDS],
)


@pytest.fixture(scope="module", params=["3.9.2", DEFAULT_VERSION])
def kafka(request: pytest.FixtureRequest) -> Iterator[Batches]:
    with Batches(request.param) as running:
        yield running


def some(rng: random.Random, start: int, count: int, *, headers: bool, step: int = 1) -> list[Record]:
    """Records with everything that a record may have."""
    found = []
    for number in range(count):
        contents = (
            None,
            b"",
            b"key-%d" % number,
            rng.randbytes(rng.choice((1, 70, 200))),
            b"abc" * rng.randrange(4000),
        )
        said = [
            (rng.choice(("", "a", "name", "ä" * 40)).encode(), rng.choice(contents[:4]))
            for _ in range(rng.choice((0, 0, 1, 3, 70)) if headers else 0)
        ]
        when = rng.choice((NOW, NOW + rng.randrange(-(10**9), 10**9), 0, 1 << 50))
        found.append(Record(start + step * number, when, rng.choice(contents), rng.choice(contents), tuple(said)))
    return found


def ours(log: bytes) -> list[Record]:
    found = []
    for batch in read_batches(memoryview(log)):
        batch.check()
        found += decode_records(batch)
    return found


def theirs(read: Sequence[ReadBatch]) -> list[Record]:
    return [record for batch in read for record in batch.records]


def same_headers(mine: Batch, their: ReadBatch) -> None:
    assert (mine.last_offset, mine.magic, mine.codec) == (their.last_offset, their.magic, their.codec)
    assert (mine.is_transactional, mine.is_control) == (bool(their.transactional), bool(their.control))
    if mine.magic == 2:
        assert (mine.base_offset, mine.max_timestamp) == (their.base_offset, their.max_timestamp)
        assert (mine.producer_id, mine.producer_epoch) == (their.producer_id, their.producer_epoch)
        assert mine.base_sequence == their.base_sequence


def copied(kafka: Batches, log: bytes, wanted: Sequence[Record], limit: int = LIMIT) -> list[ProduceBatch]:
    """Copies all of it, and has Kafka compare."""
    producer = ProducerState(4711, 3, (1 << 31) - 5, True)
    made = list(produce_batches(read_batches(memoryview(log)), first=0, end=1 << 62, limit=limit, producer=producer))
    arrived = []
    sequence = producer.sequence
    for piece in made:
        (read,) = kafka.read(b"".join(piece.buffers))
        assert (read.base_offset, read.last_offset, read.magic, read.control) == (0, piece.count - 1, 2, 0)
        assert (read.transactional, read.producer_id, read.producer_epoch) == (1, 4711, 3)
        assert read.base_sequence == piece.sequence == sequence
        assert read.max_timestamp == max(record.timestamp for record in read.records)
        assert [record.offset for record in read.records] == list(range(piece.count))
        sequence = (sequence + piece.count) & 0x7FFFFFFF
        sources = [source + number for source, _, count in piece.runs for number in range(count)]
        arrived += [record._replace(offset=source) for source, record in zip(sources, read.records, strict=True)]
        assert piece.size == sum(map(len, piece.buffers)) <= limit
    assert arrived == list(wanted)
    return made


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("RECORDS_SEED", random.getrandbits(32)))
    print(f"RECORDS_SEED={seed} repeats this")  # noqa: T201
    return random.Random(seed)


@kinds
@pytest.mark.parametrize("step", [1, 3])
def test_a_batch(kafka: Batches, rng: random.Random, magic: int, codec: int, append_time: int, step: int) -> None:
    inside = some(rng, rng.choice((0, 100, 1 << 40)), 40, headers=magic == 2, step=step)
    log = kafka.written(inside, magic, codec, append_time=append_time)
    read = kafka.read(log)
    assert ours(log) == theirs(read)
    assert [record._replace(timestamp=0) for record in ours(log)] == [record._replace(timestamp=0) for record in inside]
    for mine, their in zip(read_batches(memoryview(log)), read, strict=True):
        same_headers(mine, their)
    made = copied(kafka, log, theirs(read))
    merged = magic < 2 and not codec
    plain = magic == 2 and append_time < 0 and step == 1
    assert {piece.method for piece in made} == {MERGED if merged else VERBATIM if plain else RE_ENCODED}
    assert {next(read_batches(memoryview(b"".join(piece.buffers)))).codec for piece in made} == {codec}
    copied(kafka, log, theirs(read), limit=100_000)


@kinds
def test_small_batches_are_merged(kafka: Batches, rng: random.Random, magic: int, codec: int, append_time: int) -> None:
    inside = some(rng, 500, 30, headers=magic == 2, step=2)
    inside = [record._replace(value=(record.value or b"")[:30]) for record in inside]
    log = b"".join(kafka.written([record], magic, codec, append_time=append_time) for record in inside)
    made = copied(kafka, log, theirs(kafka.read(log)))
    assert {piece.method for piece in made} <= {MERGED, VERBATIM}
    assert len(made) < 10


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
@pytest.mark.parametrize("append_time", [-1, NOW + 77])
def test_what_compaction_leaves(kafka: Batches, rng: random.Random, codec: int, append_time: int) -> None:
    """Gaps at the beginning, within and at the end, a delete horizon (a tombstone is there), and an empty batch."""
    inside = some(rng, 1000, 40, headers=True)
    inside[20] = inside[20]._replace(value=None)
    producer = {"producer": (9, 1, 5), "transactional": True}
    log = kafka.written(inside[:30], 2, codec, append_time=append_time, **producer)  # type: ignore[arg-type]
    log += kafka.written(inside[30:], 2, codec, append_time=append_time, **producer)  # type: ignore[arg-type]
    without = [1000, 1001, 1005, 1013, 1029, *range(1030, 1040)]
    log = kafka.compacted(log, without, now=NOW, retention=86_400_000)
    first, second = read_batches(memoryview(log))
    assert first.attributes & 0x40
    assert first.base_timestamp == NOW + 86_400_000
    assert (first.base_offset, first.last_offset, first.count) == (1000, 1029, 25)
    assert (second.base_offset, second.last_offset, second.count) == (1030, 1039, 0)
    read = kafka.read(log)
    assert ours(log) == theirs(read)
    assert [record.offset for record in ours(log)] == [n for n in range(1000, 1040) if n not in without]
    (piece,) = copied(kafka, log, theirs(read))
    assert piece.method == RE_ENCODED


def test_markers(kafka: Batches) -> None:
    log = kafka.marker(7, 11, ABORT) + kafka.marker(8, 12, COMMIT)
    found = list(read_batches(memoryview(log)))
    assert [(batch.is_control, batch.control, batch.producer_id) for batch in found] == [
        *((True, ABORT, 11), (True, COMMIT, 12)),
    ]
    for mine, their in zip(found, kafka.read(log), strict=True):
        same_headers(mine, their)
    assert ours(log) == theirs(kafka.read(log))


def test_the_oracle_notices(kafka: Batches, rng: random.Random) -> None:
    log = kafka.written(some(rng, 0, 3, headers=True), 2, 0)
    with pytest.raises(RuntimeError, match="corrupt"):
        kafka.read(log[:-1] + bytes((log[-1] ^ 1,)))
