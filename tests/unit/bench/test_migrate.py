"""What the benchmark of the migration computes, without brokers."""

from __future__ import annotations

from collections import Counter

import pytest

from bench import bars
from bench.migrate import COPIER, LOADS, Load, _Point, between, ratios, summary
from bench.migratejob import _batches
from bench.mirrormaker import AT_LEAST_ONCE, AT_LEAST_ONCE_TUNED, EXACTLY_ONCE
from kproxy.protocol.records.codecs import NAMES
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import read_batches


def test_loads_have_own_names_and_fill_all_partitions_alike() -> None:
    assert [name for name, times in Counter(load.name for load in LOADS).items() if times > 1] == []
    for load in LOADS:
        assert load.records % (load.per_batch * load.partitions) == 0
        assert load.size * load.per_batch < 1 << 20, "what a topic takes as a batch by default"


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("per_batch", [1, 10])
def test_topics_are_filled_with_batches_of_an_exact_size(codec: str, per_batch: int) -> None:
    made = _batches(100, codec, per_batch, 200)
    assert len(made) == 200 // per_batch
    for one in made:
        (batch,) = read_batches(memoryview(one))
        batch.check()
        assert batch.count == per_batch
        assert NAMES[batch.codec] == codec
        assert [len(record.value or b"") for record in decode_records(batch)] == [100] * per_batch


def points(*offsets: int) -> list[_Point]:
    return [_Point(at, 2.0 * at, 3.0 * at, offset) for at, offset in enumerate(offsets)]


def test_neither_start_nor_time_after_the_last_record_counts() -> None:
    first, last = between(points(0, 0, 50, 150, 600, 1010, 1010, 1010))
    assert (first.offsets, last.offsets) == (150, 1010)
    assert last.at == 5


def test_what_comes_at_once_is_measured_from_before() -> None:
    first, last = between(points(0, 0, 50, 1000, 1000))
    assert (first.at, last.at) == (2, 3)


def peer(cpu: float, brokers: float, memory: float = 0) -> dict[str, float]:
    return {"cpu_s_per_gb": cpu, "brokers_cpu_s_per_gb": brokers, "over_worker_mib": memory}


def entry(load: Load, copier: float) -> dict[str, object]:
    return summary(
        load,
        {
            COPIER: [peer(copier, 4, 20), peer(9 * copier, 4, 200), peer(copier, 4, 20)],
            AT_LEAST_ONCE: [peer(20, 2)],
            EXACTLY_ONCE: [peer(40, 4)],
            AT_LEAST_ONCE_TUNED: [peer(10, 2)],
        },
    )


def test_ratios_are_of_medians_alone_and_with_the_brokers() -> None:
    found = entry(Load(100, "none", 1000, 10), 5)
    assert found["ratios"] == {
        AT_LEAST_ONCE: {"copier": 0.25, "with_brokers": 0.409},
        EXACTLY_ONCE: {"copier": 0.125, "with_brokers": 0.205},
        AT_LEAST_ONCE_TUNED: {"copier": 0.5, "with_brokers": 0.75},
    }


def test_bars_are_about_batches_of_their_size_in_one_partition() -> None:
    large, single = Load(100, "none", 1000, 10), Load(100, "none", 1, 10)
    many = Load(100, "none", 1000, 10, partitions=10)
    loads = {large.name: entry(large, 6), single.name: entry(single, 19), many.name: entry(many, 99)}
    result = {"migrate": {"loads": loads}, "loads": {}}
    assert ratios(result, 51, 10**9) == {large.name: 0.3}
    judged = {bar["bar"]: (bar["figure"], bar["met"]) for bar in bars.judge(result)}
    assert judged == {
        "migration, batches over 50, copier's CPU, to MM2's": (0.3, False),
        "migration, batches of 1, copier's CPU, to MM2's": (0.95, True),
        "migration, a task, RSS beyond Spark's worker": (20, True),
    }
