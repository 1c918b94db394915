from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kproxy.migrate.copier.state import Slice
from kproxy.migrate.copy.rounds import OVERHEAD, PartitionBacklog, pack_tasks, task_rate


def slices(sizes: list[int]) -> list[tuple[int, Slice]]:
    return [(size, Slice("t", at, "t", 0, size, size, 1.0)) for at, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 1 << 30), max_size=60), st.integers(1, 8))
def test_each_slice_is_in_one_task(sizes: list[int], slots: int) -> None:
    tasks = pack_tasks(slices(sizes), slots)
    assert sorted(one.partition for task in tasks for one in task) == list(range(len(sizes)))
    assert all(tasks)
    assert len(tasks) == min(len(sizes), 3 * slots)


@given(st.lists(st.integers(0, 1 << 30), min_size=1, max_size=60), st.integers(1, 8))
def test_no_task_is_much_larger_than_it_must_be(sizes: list[int], slots: int) -> None:
    loads = [sum(one.upto + OVERHEAD for one in task) for task in pack_tasks(slices(sizes), slots)]
    fair = max(max(sizes) + OVERHEAD, sum(size + OVERHEAD for size in sizes) / len(loads))
    assert max(loads) <= 4 / 3 * fair + OVERHEAD  # what longest first guarantees
    assert loads == sorted(loads, reverse=True)


def test_the_rate_is_shared_by_those_that_run() -> None:
    assert task_rate(30.0, 4, [1] * 3) == 10.0
    assert task_rate(30.0, 2, [1] * 30) == 15.0
    assert task_rate(0.0, 2, [1]) == 0.0


def test_what_is_ahead() -> None:
    assert (PartitionBacklog("t", 0, 10, 30, 2.5).lag, PartitionBacklog("t", 0, 10, 30, 2.5).size) == (20, 50)
    assert PartitionBacklog("t", 0, 30, 10, 2.5).lag == 0
