"""Small rounds in the driver: each slice once, with the code of Spark's tasks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import pytest

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.state import Job, Slice, SliceResult
from kproxy.migrate.copy import driverround as module
from kproxy.migrate.copy.driverround import MAX_SIZE, MAX_SLICES, DriverRounds

SLICES = [(100, Slice("t", at, "t", 0, 9, 256 << 20, 30.0)) for at in range(50)]


def test_what_is_small() -> None:
    assert DriverRounds.can_copy(SLICES)
    assert not DriverRounds.can_copy([(MAX_SIZE // 50 + 1, slice) for _, slice in SLICES])
    assert not DriverRounds.can_copy(SLICES[:1] * (MAX_SLICES + 1))


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ClusterClient, Slice]]:
    """What the copier is given, and by which connections; partition 7 is stuck."""
    copied: list[tuple[ClusterClient, Slice]] = []

    class Fake:
        def __init__(self, source: ClusterClient, target: ClusterClient, job: Job) -> None:
            assert (source.bootstrap, target.bootstrap, job.name) == ("source:1", "target:1", "move")
            self._source = source

        def copy(self, slices: Sequence[Slice]) -> list[SliceResult]:
            copied.extend((self._source, slice) for slice in slices)
            assert len({slice.transactional_id(Job("move", 16)) for slice in slices}) == 1
            return [
                SliceResult(slice.topic, slice.partition, None, stuck="no leader" if slice.partition == 7 else "")
                for slice in slices
            ]

    monkeypatch.setattr(module, "Copier", Fake)
    return copied


def test_each_slice_once_and_always_by_the_same_connections(copied: list[tuple[ClusterClient, Slice]]) -> None:
    rounds, job = DriverRounds("source:1", "target:1"), Job("move", 16)
    try:
        results = rounds.copy(job, SLICES, 400.0, lambda: False)
        assert sorted(result.partition for result in results) == list(range(50))
        assert [result.partition for result in results if result.stuck] == [7], (
            "errors are results, as of Spark's tasks"
        )
        assert {slice.rate for _, slice in copied} == {100.0}
        assert max(slice.size for _, slice in copied) <= 2 << 20, "memory is bounded"
        assert {slice.seconds for _, slice in copied} == {30.0}
        rounds.copy(job, SLICES[::-1], 0.0, lambda: False)
        assert Counter(slice.partition for _, slice in copied) == Counter(2 * list(range(50)))
        assert len({(id(source), slice.partition) for source, slice in copied}) == 50
        assert len({id(source) for source, _ in copied}) == 4
    finally:
        rounds.close()


def test_a_round_that_is_cancelled(copied: list[tuple[ClusterClient, Slice]]) -> None:
    rounds, cancelled = DriverRounds("source:1", "target:1"), threading.Event()
    try:

        def is_cancelled() -> bool:
            if len(copied) >= 10:
                cancelled.set()
            return cancelled.is_set()

        results = rounds.copy(Job("move", 16), SLICES, 0.0, is_cancelled)
        assert len(results) == len(copied) < 50
    finally:
        rounds.close()
