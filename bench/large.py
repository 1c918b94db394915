"""Whole moves of real clusters with many partitions: the time and the memory of each command, and how they grow.

A source of Kafka 3.9.2 and a target of the newest Kafka, one broker each, three kproxies, ten producers. Each size has
clusters of its own, with a group for each ten partitions, and a few records in each partition.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.clients import memory
from bench.growth import growth
from bench.largejob import EACH, topic_names
from bench.machine import BenchError
from bench.moves import ROOT, Commands, Figures, hold_of, writing

SIZES = (1_000, 2_500, 5_000, 10_000)
VERSION = "3.9.2"
_KPROXIES, _PRODUCERS = 3, 10
HEAP = "1g"
# A broker opens a file for each partition. What an index takes beforehand is less than the 10 MB of the default.
PROPERTIES = {"log.index.size.max.bytes": "65536", "broker.session.timeout.ms": "120000"}


def jars(progress: Callable[[str], None]) -> None:
    """Fetch the jars that are not cached yet: there is no network later."""
    import pyspark

    from kproxy.dev.devcluster.jars import DEFAULT_VERSION, fetch_jars, fetch_spark_connector

    for version in (VERSION, DEFAULT_VERSION):
        fetch_jars(version, progress)
    fetch_spark_connector(pyspark.__version__, progress)


def measure(
    wanted: Callable[[str], bool], rounds: int, progress: Callable[[str], None], say: Callable[[str], None]
) -> dict[str, Any]:
    """Measure each command of a move by number of partitions, and how much the largest size exceeds n log n.

    Returns seconds, CPU-seconds of the command with its Spark and of the brokers, and MiB of the command itself and of
    all its processes.
    """
    from kproxy.base.errors import KproxyError

    del rounds
    sizes = [size for size in SIZES if wanted(str(size))]
    taken: dict[int, Mapping[str, Figures]] = {}
    try:
        for size in sizes:
            taken[size] = _measure(size, progress, say)
    except KproxyError as error:
        raise BenchError(f"large: {error}") from None
    result: dict[str, Any] = {str(size): figures for size, figures in taken.items()}
    if len(sizes) > 1:
        steps = taken[sizes[0]]
        excess = {step: growth({size: taken[size][step]["seconds"] for size in sizes}) for step in steps}
        result["to_n_log_n"] = excess
        say("to n log n: " + ", ".join(f"{step} {value:.2f}" for step, value in excess.items()))
    return result


def _measure(size: int, progress: Callable[[str], None], say: Callable[[str], None]) -> Mapping[str, Figures]:
    from kproxy.dev.devcluster import DevCluster
    from kproxy.dev.devcluster.jars import DEFAULT_VERSION
    from tests.harness.migration.switched import Switched

    with ExitStack() as running:
        enter = running.enter_context
        scratch = Path(enter(tempfile.TemporaryDirectory()))
        source, target = (
            enter(
                DevCluster(1, version=version, properties=PROPERTIES, heap=HEAP, directory=memory(), progress=progress)
            )
            for version in (VERSION, DEFAULT_VERSION)
        )
        addresses = source.direct_bootstrap, target.direct_bootstrap
        brokers = [pid for cluster in (source, target) for pid in cluster.pids.values()]
        commands = Commands(scratch, brokers, progress, lambda text: say(f"{size} partitions: {text}"))
        _job(progress, "fill", addresses[0], size)
        kproxies = [enter(Switched(scratch / str(number), *addresses)) for number in range(_KPROXIES)]
        commands.write_migration(addresses, [kproxy.admin for kproxy in kproxies])
        commands.run("plan")
        commands.run("prepare")
        commands.run("copy")
        _job(progress, "more", addresses[0], size)
        commands.run("copy", step="copy, a record in each partition")
        commands.run("copy", step="copy, nothing new")
        commands.run("verify")
        commands.run("offsets", "--dry-run")
        commands.run("status")
        topic = topic_names(size)[0]
        with writing(topic, EACH, _PRODUCERS, [kproxy.bootstrap for kproxy in kproxies]) as end:
            commands.run("switch", "--dry-run")
            output = commands.run("switch", "--json")
            outcome = end()
        commands.add("switch", hold_of(output, outcome, target.direct_bootstrap, topic, EACH))
        commands.run("status", step="status, after the switch")
        commands.run("report", "--json")
        return commands.figures


def _job(progress: Callable[[str], None], what: str, bootstrap: str, partitions: int) -> None:
    progress(f"{what} {partitions} partitions")
    words = [sys.executable, "-m", "bench.largejob", what, bootstrap, str(partitions)]
    if subprocess.run(words, cwd=ROOT, check=False).returncode:
        raise BenchError(f"{what} failed")
