"""The cost of converting batches for another cluster: CPU of this process alone, without any connection."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable

from crc32c import crc32c

from kproxy.protocol.records.codecs import NAMES, NONE
from kproxy.protocol.records.encoding import ProducerState, RecordEntry, encode_batch, encode_tail
from kproxy.protocol.records.header import read_batches
from kproxy.protocol.records.producebatches import MERGED, produce_batches

Figures = dict[str, dict[str, float]]
Progress = Callable[[str], None]

_NOW = 1_700_000_000_000
_ROUNDS = 5
_PRODUCER = ProducerState(5, 1, 0, True)
_LIMIT = 1 << 20  # as brokers have it
# Records in a batch and bytes in a value, and how much of it: taken over as they are, taken apart, merged.
_VERBATIM = ((160, 100, 1000), (160, 1000, 100))
_RE_ENCODED = ((160, 100, 200),)
_MERGED = ((1, 100, 5000), (1, 1000, 5000), (10, 100, 1000))
# Merging costs the more the better they are compressed: these are only merged without.
_MERGED_PLAIN = ((16, 1000, 1000), (1, 100_000, 100))


def measure(progress: Progress, say: Progress) -> Figures:
    """Measure each conversion and codec: µs of CPU a batch and a record, seconds a GB; the best of several rounds."""
    figures: Figures = {}
    for way, loads in (("verbatim", _VERBATIM), ("re-encoded", _RE_ENCODED), ("merged", _MERGED)):
        for codec, codec_name in enumerate(NAMES):
            if way == "verbatim" and codec != NONE:
                continue  # it does not read them
            plain = _MERGED_PLAIN if way == "merged" and codec == NONE else ()
            for count, size, times in (*loads, *plain):
                name = f"{way}, {codec_name}, {count} x {size} B"
                progress(f"records {name}")
                result = figures[name] = _measured(way, _log(way, codec, count, size, times), times, count)
                say(f"{name}: " + ", ".join(f"{what} {value:.3g}" for what, value in result.items()))
    return figures


def _measured(way: str, log: bytes, times: int, count: int) -> dict[str, float]:
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        ways = {
            piece.method
            for piece in produce_batches(
                read_batches(memoryview(log)), first=0, end=1 << 62, limit=_LIMIT, producer=_PRODUCER
            )
        }
        best = min(best, time.process_time() - began)
        assert way in ways or (way == "re-encoded" and MERGED in ways), f"{ways} and not {way}"
    return {
        "us_per_batch": best / times * 1e6,
        "us_per_record": best / times / count * 1e6,
        "cpu_s_per_gb": best / len(log) * 1e9,
    }


def _log(way: str, codec: int, count: int, size: int, times: int) -> bytes:
    rng = random.Random(1)
    words = [rng.randbytes(8) for _ in range(500)]
    out, offset = [], 0
    for number in range(times):
        entries = []
        for _ in range(count):
            value = b"".join(rng.choices(words, k=-(-size // 8)))[:size]
            entries.append(RecordEntry(offset, _NOW + number, encode_tail(b"key-%d" % (offset % 100), value)))
            offset += 1
        batch = bytearray(b"".join(encode_batch(entries, codec, ProducerState())))
        struct.pack_into(">q", batch, 0, offset - count)
        if way == "re-encoded":  # its last record is missing
            struct.pack_into(">i", batch, 23, count)
            struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
            offset += 1
        out.append(bytes(batch))
    return b"".join(out)
