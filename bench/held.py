"""The time for which a switch holds writes: three kproxies, a hundred producers, two clusters, Spark, all real."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.machine import BenchError, start, stop

CLIENTS, KPROXIES = 100, 3
_PARTITIONS = 3
_TIMEOUT_S = 120.0


def measure(rounds: int, progress: Callable[[str], None], say: Callable[[str], None]) -> dict[str, float]:
    """Measure the hold and its parts, and the longest wait of a record.

    Returns medians in seconds, and the records of all rounds that failed, were lost or were duplicated.
    """
    from kproxy.base.errors import KproxyError
    from kproxy.dev.devcluster import DevCluster
    from tests.harness.clients.spark import connector, session, settings, spark_home
    from tests.harness.clusters.steady import STEADY

    taken = []
    try:
        with ExitStack() as running:
            enter = running.enter_context
            home = spark_home(Path(enter(tempfile.TemporaryDirectory())))
            blue, green = (enter(DevCluster(1, properties=STEADY, progress=progress)) for _ in range(2))
            spark = enter(session(home, settings(spark_master="local[2,2]", spark_jars=connector())))
            for turn in range(rounds):
                progress(f"switch {turn + 1}")
                taken.append(_round(spark, blue.direct_bootstrap, green.direct_bootstrap))
                say(", ".join(f"{name} {value:.3g}" for name, value in taken[-1].items()))
    except KproxyError as error:
        raise BenchError(f"a switch: {error}") from None
    return {
        name: sum(round_result[name] for round_result in taken)
        if name in ("records", "wrong")
        else round(statistics.median(round_result[name] for round_result in taken), 3)
        for name in taken[0]
    }


def _round(spark: Any, source: str, target: str) -> dict[str, float]:
    from kproxy.migrate.clusters.endpoints import ClusterEndpoints
    from kproxy.migrate.prepare.cluster_pair import ClusterPair
    from kproxy.migrate.prepare.preparation import Preparation
    from kproxy.migrate.spec.migration import Migration, TopicSelection
    from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
    from kproxy.migrate.switch.fleet import open_fleet
    from kproxy.migrate.switch.operations import switch_clients
    from kproxy.migrate.switch.switch_run import SwitchContext
    from kproxy.proxy.switching.twophase import CoordinatorOutcome
    from tests.harness.migration.moving import rows, topics
    from tests.harness.migration.switched import TOKEN, Switched
    from tests.harness.topics import unique

    topic, endpoints = unique("bench"), ClusterEndpoints.from_addresses(source, target)
    topics(source, {topic: _PARTITIONS}, 1)
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
        words = [topic, str(CLIENTS), *(kproxy.bootstrap for kproxy in kproxies)]
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
        values = [row[2] for number in range(_PARTITIONS) for row in rows(target, topic, number)]
        wrong = len(outcome["failed"]) + abs(outcome["acked"] - len(values)) + len(values) - len(set(values))
        timings = switch_result.timings
        assert timings is not None
        return {
            "held": switch_result.drive_result.held_seconds,
            "copy": timings.copy,
            "verify": timings.verify,
            "translate": timings.translate,
            "longest": outcome["longest_s"],
            "records": outcome["acked"],
            "wrong": wrong,
        }
