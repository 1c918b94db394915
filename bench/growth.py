"""The growth of the drivers' work with the size of a move: plan, copy, verification, positions, switch.

The clusters are made up; what brokers, Spark and the network need is not in it. CPU-seconds of each step are measured
at 1, 2 and 4 times a size. Nothing may grow faster than n log n.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any
from unittest.mock import Mock

from rich.console import Console

from kproxy.migrate.clusters.groups import CommittedOffset, GroupOffsets
from kproxy.migrate.clusters.inventory import (
    Acl,
    BrokerInventory,
    GroupInventory,
    Inventory,
    PartitionInventory,
    TopicInventory,
)
from kproxy.migrate.clusters.log_bounds import LogBounds
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.requests import EARLIEST, ClusterMetadata, PartitionMetadata, TopicPartition
from kproxy.migrate.copier.state import STATE_PARTITIONS, Job, PartitionState, SliceResult, state_key
from kproxy.migrate.copier.statetopic import CopiedPartition, parse_copied_partitions, parse_states
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.display import message_lines, summary_line
from kproxy.migrate.copy.rounds import pack_tasks
from kproxy.migrate.copy.scope import CopySpec
from kproxy.migrate.copy.statereader import StateSnapshot
from kproxy.migrate.offsets.groupsync import decide_writes, translate_positions
from kproxy.migrate.plan.changes import MigrationHistory
from kproxy.migrate.plan.display import show_plan
from kproxy.migrate.plan.plan import MigrationPlan, plan_to_json
from kproxy.migrate.plan.principals import ALLOW, LITERAL, TOPIC
from kproxy.migrate.report.status import MigrationStatus, status_lines
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.expected_users import expected_users
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.replies import GROUPS, READS, WRITES, RecordedClient
from kproxy.migrate.verify.comparison import start_comparison
from kproxy.migrate.verify.pieces import build_lookup, plan_jobs, split_piece
from kproxy.migrate.verify.report import render_text, to_json
from kproxy.migrate.verify.results import VerificationReport

# Partitions of the smallest size, partitions of a topic and of a group, and partitions for each kproxy.
PARTITIONS, _EACH, _EACH_KPROXY = 5_000, 10, 50
FACTORS = (1, 2, 4)
# How much more than n log n a step may take between the smallest and the largest size: caches and allocation.
_TOLERANCE = 1.3
_RUNS = 3
_READ = 3  # Kafka's number of the operation
_RECORDS, _SIZE = 1_000_000, 1_000_000_000
_MIGRATION = Migration({"bootstrap-servers": ["a"]}, {"bootstrap-servers": ["b"]})
_CONFIGS = {"cleanup.policy": "delete", "max.message.bytes": "1048588", "retention.ms": "604800000"}

Step = Callable[[], object]


def measure(rounds: int, progress: Callable[[str], None], say: Callable[[str], None]) -> dict[str, Any]:
    """Return the CPU-seconds of each step by number of partitions, and how much the largest exceeds n log n."""
    del rounds
    result: dict[str, Any] = {}
    for name, prepare in STEPS.items():
        seconds = {}
        for factor in FACTORS:
            progress(f"growth {name}: {factor}")
            step = prepare(PARTITIONS * factor)
            seconds[str(PARTITIONS * factor)] = min(_cpu_seconds(step) for _ in range(_RUNS))
        excess = growth({int(size): value for size, value in seconds.items()})
        result[name] = {"cpu_seconds": {size: round(value, 4) for size, value in seconds.items()}, "to_n_log_n": excess}
        figures = "  ".join(f"{size}: {value:.3g} s" for size, value in seconds.items())
        say(f"{name:28} {figures}  to n log n: {excess:.2f}{'' if excess <= _TOLERANCE else '  TOO FAST'}")
    return result


def growth(seconds: Mapping[int, float]) -> float:
    """Return how many times as much the largest size took as n log n would have from the smallest."""
    smallest, largest = min(seconds), max(seconds)
    allowed = largest * math.log(largest) / (smallest * math.log(smallest))
    return round(seconds[largest] / max(seconds[smallest], 1e-9) / allowed, 3)


def _cpu_seconds(step: Step) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


# What is made up


def _topic_names(partitions: int) -> list[str]:
    return [f"topic-{number:06}" for number in range(partitions // _EACH)]


def _places(partitions: int) -> list[TopicPartition]:
    return [(topic, number) for topic in _topic_names(partitions) for number in range(_EACH)]


def _inventory(partitions: int, records: int) -> Inventory:
    names = _topic_names(partitions)
    part = PartitionInventory(0, records, _SIZE if records else 0)
    topics = {name: TopicInventory(name, (part,) * _EACH, {}, _CONFIGS, None, 10.0) for name in names}
    groups = {f"group-{name}": GroupInventory(f"group-{name}", "classic", "stable", "consumer") for name in names}
    brokers = tuple(BrokerInventory(number, {"message.max.bytes": "1048588"}) for number in range(3))
    acls = tuple(
        Acl(TOPIC, name, LITERAL, f"User:user-{number}", "*", _READ, ALLOW) for number, name in enumerate(names)
    )
    return Inventory("id", (4, 0), brokers, topics, groups, acls, {}, {}, None, {}, 3)


def _state(topic: str, position: int, runs: int = 4) -> PartitionState:
    length = position // runs
    offset_map = OffsetMap((at * length, at * (length + 1), length) for at in range(runs))
    return PartitionState(topic, 0, position, position + runs, offset_map.records, _SIZE, map=offset_map)


def _values(partitions: int) -> dict[bytes, bytes]:
    return {
        state_key("partition", topic, number): _state(topic, _RECORDS).to_json()
        for topic, number in _places(partitions)
    }


def _copied(partitions: int) -> dict[TopicPartition, CopiedPartition]:
    return parse_copied_partitions(_values(partitions))


def _usage(partitions: int, *, chained: bool) -> ObservedUsage:
    """Return two clients for each topic, which read it and write another one if `chained`, else the same one."""
    names = _topic_names(partitions)
    clients = tuple(
        RecordedClient(
            "", "", "10.0.0.1", f"client-{number}-{member}", "java", 1.0, 2.0,
            {
                (READS, name): 2.0,
                (GROUPS, f"group-{name}"): 2.0,
                (WRITES, names[number + 1 if chained and number + 1 < len(names) else number]): 2.0,
            },
        )
        for number, name in enumerate(names)
        for member in range(2)
    )  # fmt: skip
    return ObservedUsage(1.0, 2.0, clients)


class _Cluster:
    """A cluster without brokers, as the driver of a copy asks it."""

    def __init__(self, partitions: int) -> None:
        self._metadata = ClusterMetadata(
            "id",
            {1: ("broker", 9092)},
            {
                name: (0, tuple(PartitionMetadata(0, number, 1) for number in range(_EACH)))
                for name in _topic_names(partitions)
            },
            dict.fromkeys(_topic_names(partitions), "7" * 32),
        )

    def refresh_metadata(self, topics: object = None) -> ClusterMetadata:
        return self._metadata

    def list_offsets(self, partitions: Any, which: int, *, committed: bool = True) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if which == EARLIEST else _RECORDS + 10)


# The steps


def _plan(partitions: int, usage: ObservedUsage | None = None) -> MigrationPlan:
    source, target = _inventory(partitions, _RECORDS), _inventory(0, 0)
    return MigrationPlan(_MIGRATION, source, target, MigrationHistory(has_state_topic=True), usage=usage)


def _planning(usage: Callable[[int], ObservedUsage | None]) -> Callable[[int], Step]:
    def prepare(partitions: int) -> Step:
        observed = usage(partitions)

        def step() -> None:
            plan = _plan(partitions, observed)
            json.dumps(plan_to_json(plan))
            show_plan(plan, Console(file=StringIO(), width=100))

        return step

    return prepare


def _reading_states(partitions: int) -> Step:
    values = _values(partitions)
    return lambda: parse_copied_partitions(values)


def _round(partitions: int) -> Step:
    """Plan one round, distribute its slices, and take over their results."""
    names = _topic_names(partitions)
    spec = CopySpec("move", dict(zip(names, names, strict=True)))
    values = _values(partitions)
    states = parse_states(values)
    snapshot = StateSnapshot(values, states, (0,) * STATE_PARTITIONS)
    job = Job("move", STATE_PARTITIONS)

    def step() -> None:
        cluster: Any = _Cluster(partitions)
        run = CopyRun(Mock(), "127.0.0.1:1", "127.0.0.1:1", spec)
        run._source = run._target = run._topic_watcher._target = cluster
        run._retention = Mock(read_if_due=Mock(return_value=None))
        slices = run._plan_round(snapshot)
        if len(slices) != partitions:
            raise AssertionError(f"{len(slices)} slices of {partitions} partitions")
        for task in pack_tasks(slices, job, 8):
            for group in task:
                for each in group:
                    run.progress.apply_result(SliceResult(each.topic, each.partition, each.state, 10, 1000))
        run.progress.apply_states(states)
        summary_line(run.progress)
        list(message_lines(run.progress))
        run.progress.topics()

    return step


def _status(partitions: int) -> Step:
    states = parse_states(_values(partitions))
    groups = tuple(f"group-{name}" for name in _topic_names(partitions))

    def step() -> None:
        status = MigrationStatus("move", states, {}, groups, {}, paused=False)
        list(status_lines(status))
        status.to_json()

    return step


def _verification(partitions: int) -> Step:
    """Plan the jobs of a verification, and report its results."""
    copied = _copied(partitions)

    def step() -> None:
        comparisons = [
            start_comparison(partition, None, LogBounds(0, _RECORDS), LogBounds(0, partition.target_next))
            for partition in copied.values()
        ]
        for pieces in plan_jobs([split_piece(comparison.piece) for comparison in comparisons]):
            build_lookup(pieces)
        report = VerificationReport("move", 0, 1.0, tuple(comparison.to_result() for comparison in comparisons))
        json.dumps(to_json(report))
        render_text(report)

    return step


def _positions(partitions: int) -> Step:
    """Translate the positions of a group for each topic, and decide what is written."""
    copied = _copied(partitions)
    ends: Mapping[TopicPartition, int] = dict.fromkeys(copied, _RECORDS)
    groups = [
        GroupOffsets(
            f"group-{name}",
            "classic",
            positions={(name, number): CommittedOffset(_RECORDS // 2) for number in range(_EACH)},
        )
        for name in _topic_names(partitions)
    ]

    def step() -> None:
        for group in groups:
            decide_writes(group, translate_positions(group, _MIGRATION, copied, ends), {}, {}, force=False)

    return step


def _users(partitions: int) -> Step:
    """Find the users that must be able to log in, and their rights: one user for each topic."""
    source = _inventory(partitions, _RECORDS)
    return lambda: expected_users(_MIGRATION, source, ())


STEPS: dict[str, Callable[[int], Step]] = {
    "plan": _planning(lambda _: None),
    "plan, a wave for each topic": _planning(lambda partitions: _usage(partitions, chained=False)),
    "plan, one wave of all": _planning(lambda partitions: _usage(partitions, chained=True)),
    "reading the states": _reading_states,
    "a round of the copy": _round,
    "status": _status,
    "verification": _verification,
    "positions": _positions,
    "users of a switch": _users,
}
