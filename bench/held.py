"""The time for which a switch holds writes: three kproxies, many producers, two clusters, Spark, all real."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import BenchError, start, stop

KPROXIES = 3
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Load:
    """The producers, each of which writes ten records a second to all partitions in turn."""

    producers: int
    partitions: int

    @property
    def name(self) -> str:
        return f"c{self.producers}-p{self.partitions}"


LOADS = (Load(10, 50), Load(100, 50))


def measure(
    wanted: Callable[[str], bool], rounds: int, progress: Callable[[str], None], say: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Measure the hold and its parts, a dry-run before it, and the longest wait of a record, by the name of the load.

    Returns medians in seconds, the longest hold, and the records of all rounds that failed, were lost or were
    duplicated.
    """
    from kproxy.base.errors import KproxyError
    from kproxy.dev.devcluster import DevCluster
    from tests.harness.clients.spark import connector, session, settings, spark_home
    from tests.harness.clusters.steady import STEADY

    results: dict[str, dict[str, float]] = {}
    try:
        with ExitStack() as running:
            enter = running.enter_context
            home = spark_home(Path(enter(tempfile.TemporaryDirectory())))
            blue, green = (enter(DevCluster(1, properties=STEADY, progress=progress)) for _ in range(2))
            spark = enter(session(home, settings(spark_master="local[2,2]", spark_jars=connector())))
            for load in LOADS:
                if not wanted(load.name):
                    continue
                taken = []
                for turn in range(rounds):
                    progress(f"{load.name}: switch {turn + 1}")
                    taken.append(_round(spark, load, blue.direct_bootstrap, green.direct_bootstrap))
                    say(f"{load.name}: " + ", ".join(f"{name} {value:.3g}" for name, value in taken[-1].items()))
                results[load.name] = _summarize(taken)
    except KproxyError as error:
        raise BenchError(f"a switch: {error}") from None
    return results


def _summarize(taken: Sequence[Mapping[str, float]]) -> dict[str, float]:
    figures = {
        name: sum(figures[name] for figures in taken)
        if name in ("records", "wrong")
        else round(statistics.median(figures[name] for figures in taken), 3)
        for name in taken[0]
    }
    return {**figures, "held_max": round(max(figures["held"] for figures in taken), 3)}


def _round(spark: Any, load: Load, source: str, target: str) -> dict[str, float]:
    from kproxy.migrate.clusters.endpoints import ClusterEndpoints
    from kproxy.migrate.prepare.cluster_pair import ClusterPair
    from kproxy.migrate.prepare.preparation import Preparation
    from kproxy.migrate.spec.migration import Migration, TopicSelection
    from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
    from kproxy.migrate.switch.fleet import open_fleet
    from kproxy.migrate.switch.operations import switch_clients
    from kproxy.migrate.switch.switch_run import SwitchContext
    from kproxy.proxy.switching.twophase import CoordinatorOutcome
    from tests.harness.migration.moving import topics
    from tests.harness.migration.switched import TOKEN, Switched
    from tests.harness.topics import read_topic, unique

    topic, endpoints = unique("bench"), ClusterEndpoints.from_addresses(source, target)
    topics(source, {topic: load.partitions}, 1)
    with ExitStack() as running:
        directory = Path(running.enter_context(tempfile.TemporaryDirectory()))
        kproxies = [
            running.enter_context(Switched(directory / str(number), source, target)) for number in range(KPROXIES)
        ]
        token = directory / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        section = SwitchSection(
            KproxySelection(tuple(kproxy.admin for kproxy in kproxies)), "green", token_file=token, hold_seconds=25
        )
        servers = ({"bootstrap-servers": source}, {"bootstrap-servers": target})
        migration = Migration(*servers, unique("mv"), topics=TopicSelection((topic,)), switch=section)
        with ClusterPair(migration, endpoints) as sides:
            Preparation(sides, sides.examine(0.0), lambda _: None).run()
        words = [topic, str(load.partitions), str(load.producers), *(kproxy.bootstrap for kproxy in kproxies)]
        process = start(
            [sys.executable, "-m", "bench.heldjob", *words], [], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"flows\n":
                raise BenchError("the producers do not write")
            problems: list[str] = []
            with open_fleet(section) as those:
                context = SwitchContext(
                    spark=spark,
                    migration=migration,
                    endpoints=endpoints,
                    fleet=those,
                    section=section,
                    log=problems.append,
                    report=lambda findings: problems.extend(
                        f"{finding.severity}: {finding.subject}: {finding.text}" for finding in findings
                    ),
                )
                began = time.monotonic()
                switch_clients(context, lambda _: None, dry_run=True, reversible=False)
                dry_run_s = time.monotonic() - began
                switch_result = switch_clients(context, lambda _: None, dry_run=False, reversible=False)
            if (
                switch_result.drive_result is None
                or switch_result.drive_result.end is not CoordinatorOutcome.RELEASED
                or switch_result.drive_result.held_seconds is None
            ):
                raise BenchError(f"it was not switched: {'; '.join(problems[-5:])}")
            outcome = json.loads(process.communicate(b"end\n", timeout=_TIMEOUT_S)[0])
        finally:
            stop(process)
        values = [message.value() for message in read_topic(target, topic, load.partitions)]
        wrong = len(outcome["failed"]) + abs(outcome["acked"] - len(values)) + len(values) - len(set(values))
        timings = switch_result.timings
        assert timings is not None
        return {
            "held": switch_result.drive_result.held_seconds,
            **{f"from_{stage}": seconds for stage, seconds in switch_result.drive_result.stage_starts.items()},
            "drain": timings.drain,
            "copy": timings.copy,
            "verify": timings.verify,
            "translate": timings.translate,
            "longest": outcome["longest_s"],
            "dry_run": dry_run_s,
            "records": outcome["acked"],
            "wrong": wrong,
        }
