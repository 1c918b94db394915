"""An observer of kproxies that restart, fail, begin before it, or are no kproxies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import AdminError
from kproxy.migrate.usage.collector import Collector
from kproxy.proxy.admin.client import AdminClient


class Kproxy(AdminClient):
    """A kproxy in this process: its record has one partition."""

    def __init__(self) -> None:
        super().__init__(Address("127.0.0.1", 1))
        self.commands: list[dict[str, Any]] = []
        self.fails = False
        self.record: str | None = "first"
        self.offsets = 0
        self.left_out: dict[str, int] = {}
        self.lines: list[Mapping[str, Any]] | None = None

    def post(self, path: str, value: object, also: Collection[int] = ()) -> object:
        self._check()
        assert isinstance(value, dict)
        self.commands.append(value)
        return {}

    def read_lines(self, path: str, longest: int = 0) -> list[Mapping[str, Any]]:
        self._check()
        if self.lines is not None:
            return self.lines
        head = {"record": self.record, "since": 1.0, "left_out": self.left_out}
        partition = {
            "cluster": "c", "upstream": "", "topic": "t", "partition": 0, "offsets": self.offsets, "unsized": 0,
            "last": 1.0, "producers": [],
        }  # fmt: skip
        return [{"observation": head}, {"partition": partition}]

    def _check(self) -> None:
        if self.fails:
            raise AdminError("no answer")


def offsets(collector: Collector) -> int:
    return sum(part.offsets for record in collector.records() for part in record.partitions)


def test_what_passed_before_does_not_count_and_each_life_does() -> None:
    kproxy = Kproxy()
    kproxy.offsets = 10
    with Collector([("kp", kproxy)], "c", "me") as collector:
        collector.poll(100)
        kproxy.offsets = 13
        collector.poll(50)
        assert offsets(collector) == 3
        kproxy.record, kproxy.offsets, kproxy.left_out = "second", 4, {"names": 2}
        collector.poll(25)
        assert offsets(collector) == 7
        collector.finish()
    (coverage,) = collector.coverage()
    assert len(coverage.gaps) == 1
    assert coverage.left_out == {"names": 2}
    assert not coverage.is_complete
    assert [command["seconds"] for command in kproxy.commands] == [220, 170, 145, 0]
    assert {command["observer"] for command in kproxy.commands} == {"me"}


def test_one_that_fails_keeps_what_was_read_of_it() -> None:
    fine, failing = Kproxy(), Kproxy()
    with Collector([("fine", fine), ("failing", failing)], "c", "me") as collector:
        collector.poll(100)
        fine.offsets = failing.offsets = 5
        collector.poll(100)
        failing.fails = True
        collector.poll(100)
        collector.finish()
    assert collector.problems == {"failing": "no answer"}
    assert offsets(collector) == 10
    assert [coverage.is_complete for coverage in collector.coverage()] == [True, False]


def test_one_that_comes_back_in_time_has_missed_nothing() -> None:
    kproxy = Kproxy()
    with Collector([("kp", kproxy)], "c", "me") as collector:
        collector.poll(100)
        kproxy.fails = True
        collector.poll(100)
        kproxy.fails, kproxy.offsets = False, 5
        collector.finish()
    assert collector.coverage()[0].is_complete
    assert offsets(collector) == 5


@pytest.mark.parametrize("lines", [[], [{}], [{"observation": {}}], [{"observation": {"record": 7}}]])
def test_what_is_no_kproxy_is_a_problem_in_one_line(lines: list[Mapping[str, Any]]) -> None:
    stranger = Kproxy()
    stranger.lines = lines
    with Collector([("stranger", stranger)], "c", "me") as collector:
        collector.poll(100)
        assert collector.reached == 0
        assert "stranger returned no valid record" in collector.problems["stranger"]


def test_one_that_has_ended_the_observation_is_a_problem() -> None:
    kproxy = Kproxy()
    kproxy.record = None
    with Collector([("kp", kproxy)], "c", "me") as collector:
        collector.poll(100)
        assert collector.reached == 0
        assert "has ended the observation" in collector.problems["kp"]
