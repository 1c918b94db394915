from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kproxy.migrate.copier.state import LITTLE_SIZE, Job, PartitionState, Slice
from kproxy.migrate.copy.rounds import (
    OVERHEAD,
    SLICE_OVERHEAD,
    PartitionBacklog,
    pack_tasks,
    slice_size,
    task_rate,
)

JOB = Job("move", 16)
OWN = PartitionState("t", 0, 0, 0, has_own_id=True)


def slices(sizes: list[int], state: PartitionState | None = OWN) -> list[tuple[int, Slice]]:
    return [(size, Slice("t", at, "t", 0, size, size, 1.0, state=state)) for at, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 1 << 30), max_size=60), st.integers(1, 8))
def test_each_slice_is_in_one_task(sizes: list[int], slots: int) -> None:
    tasks = pack_tasks(slices(sizes), JOB, slots)
    assert sorted(one.partition for task in tasks for group in task for one in group) == list(range(len(sizes)))
    assert all(tasks)
    assert len(tasks) == min(len(sizes), 3 * slots)


@given(st.lists(st.integers(0, 1 << 30), min_size=1, max_size=60), st.integers(1, 8))
def test_no_task_is_much_larger_than_it_must_be(sizes: list[int], slots: int) -> None:
    overhead = OVERHEAD + SLICE_OVERHEAD
    tasks = pack_tasks(slices(sizes), JOB, slots)
    loads = [sum(one.upto + overhead for group in task for one in group) for task in tasks]
    fair = max(max(sizes) + overhead, sum(size + overhead for size in sizes) / len(loads))
    assert max(loads) <= 4 / 3 * fair + overhead  # what longest first guarantees
    assert loads == sorted(loads, reverse=True)


@given(st.lists(st.tuples(st.integers(0, 1 << 24), st.booleans()), max_size=60), st.integers(1, 8))
def test_a_transactional_id_is_in_one_place(partitions: list[tuple[int, bool]], slots: int) -> None:
    """Two tasks with one id would fence each other."""
    planned = [
        (size, Slice("t", at, "t", 0, size, size, 1.0, state=OWN if own else None))
        for at, (size, own) in enumerate(partitions)
    ]
    groups = [group for task in pack_tasks(planned, JOB, slots) for group in task]
    ids = [{one.transactional_id(JOB) for one in group} for group in groups]
    assert all(len(each) == 1 for each in ids)
    assert len(set().union(*ids)) == len(ids)
    assert len(ids) <= JOB.state_partitions + sum(own for _, own in partitions)
    assert sum(map(len, groups)) == len(partitions)
    for group in groups:
        assert len({one.state_partition(JOB) for one in group}) == 1  # one transaction has one batch of states


def test_the_size_of_a_slice() -> None:
    little, much = PartitionBacklog("t", 0, 0, 1000, 1000.0), PartitionBacklog("t", 0, 0, 1_000_000, 1000.0)
    shared = replace(OWN, has_own_id=False)
    assert slice_size(much, OWN, 1 << 28) == slice_size(little, OWN, 1 << 28) == 1 << 28
    for state in (None, shared):
        assert slice_size(little, state, 1 << 28) == LITTLE_SIZE
        assert slice_size(much, state, 1 << 28) == 1 << 20
        assert slice_size(much, state, 1000) == 1000


def test_the_rate_is_shared_by_those_that_run() -> None:
    assert task_rate(30.0, 4, [1] * 3) == 10.0
    assert task_rate(30.0, 2, [1] * 30) == 15.0
    assert task_rate(0.0, 2, [1]) == 0.0


def test_what_is_ahead() -> None:
    assert (PartitionBacklog("t", 0, 10, 30, 2.5).lag, PartitionBacklog("t", 0, 10, 30, 2.5).size) == (20, 50)
    assert PartitionBacklog("t", 0, 30, 10, 2.5).lag == 0
