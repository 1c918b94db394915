"""The cost of `kproxy migrate verify`: CPU of Spark's driver, Python and JVM, per GB on the source's wire.

A verification reads both sides. All verifications run in one session, after a small one, so that the JVM is as warm as
MirrorMaker's. The CPU of that small one and of the session's start is reported separately.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.clients import memory
from bench.machine import BenchError
from bench.migrate import PROPERTIES, Load, job
from kproxy.dev.devcluster.jars import fetch_spark_connector
from kproxy.migrate.copier.state import STATE_PARTITIONS, state_topic_name

PREFIX = "verify-"
_TIMEOUT_S = 1800.0

Say = Callable[[str], None]

LOADS = (Load(1000, "none", 16, 500, quick=True), Load(1000, "lz4", 16, 500), Load(100, "none", 160, 100))
# The small verification at the start.
_WARM = Load(1000, "none", 16, 50)


def measure(
    result: dict[str, Any], quick: bool, rounds: int, only: Callable[[str], bool], progress: Say, say: Say
) -> None:
    """Measure CPU-seconds per GB on the source's wire of each load (medians) and of the start; fill `result`."""
    loads = [load for load in LOADS if only(PREFIX + load.name) and (load.quick or not quick)]
    if not loads:
        return
    if importlib.util.find_spec("pyspark") is None:
        sys.stderr.write("bench: pyspark is not installed (pip install --group spark): no figures of verify\n")
        return
    from kproxy.base.errors import KproxyError
    from kproxy.dev.devcluster import DevCluster

    try:
        with ExitStack() as running:
            source, target = (
                running.enter_context(
                    DevCluster(1, properties=PROPERTIES, heap="768m", directory=memory(), progress=progress)
                ).direct_bootstrap
                for _ in range(2)
            )
            _copied("warm", _WARM, source, target, progress)
            copied = {
                PREFIX + load.name: (f"v{number}", _copied(f"v{number}", load, source, target, progress))
                for number, load in enumerate(loads)
            }
            _verify(result, (source, target), copied, 1 if quick else rounds, progress, say)
    except KproxyError as error:
        raise BenchError(f"verify: {error}") from None


def jars(progress: Say | None = None) -> None:
    """Return the jars of Spark's Kafka connector. Needs the network if they are not cached. Raises ConfigError."""
    if importlib.util.find_spec("pyspark") is not None:
        import pyspark

        fetch_spark_connector(pyspark.__version__, progress)


def _copied(name: str, load: Load, source: str, target: str, progress: Say) -> float:
    """Fill a topic and copy it with this migration; return the topic's bytes on the source's wire."""
    progress(f"verify {load.name}: copying")
    topic = f"{name}.{load.name}"
    for bootstrap in (source, target):
        job("topic", bootstrap, topic, load.partitions, "delete")
    job("topic", target, state_topic_name(name), STATE_PARTITIONS, "compact")
    filled = job("fill", source, topic, load.partitions, load.size, load.codec, load.per_batch, load.records)
    job("copy", source, target, name, topic, topic)
    return float(filled["bytes"])


def _verify(
    result: dict[str, Any],
    clusters: tuple[str, str],
    loads: Mapping[str, tuple[str, float]],
    rounds: int,
    progress: Say,
    say: Say,
) -> None:
    """Verify `loads`: for each the migration that has copied it, and its bytes."""
    lines = _lines(*clusters, ["warm", *[name for name, _ in loads.values()] * rounds], progress)
    result["start_cpu_s"] = round(lines[0]["cpu"], 2)
    result["first_cpu_s"] = round(lines[1]["cpu"], 2)
    say(f"verify: Spark's start {result['start_cpu_s']} CPU-s, a first small one {result['first_cpu_s']}")
    result["loads"] = {}
    for load, (name, size) in loads.items():
        runs = [line for line in lines[2:] if line["what"] == name]
        entry = result["loads"][load] = {
            "cpu_s_per_gb": _median(run["cpu"] / size * 1e9 for run in runs),
            "us_per_record": _median(run["cpu"] / run["records"] * 1e6 for run in runs),
            "mb_per_s": _median(size / 1e6 / run["seconds"] for run in runs),
            "first_cpu_s_per_gb": _median([runs[0]["cpu"] / size * 1e9]),
        }
        say(f"{load:24} CPU-s/GB {entry['cpu_s_per_gb']}, at first {entry['first_cpu_s_per_gb']}")


def _median(values: Iterable[float]) -> float:
    return float(f"{statistics.median(values):.4g}")


def figures(result: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, float]:
    """Return for `bars` the CPU-seconds per GB of these loads."""
    loads = result.get("migrate", {}).get("verify", {}).get("loads", {})
    return {name: entry["cpu_s_per_gb"] for name, entry in loads.items() if name in names}


def _lines(source: str, target: str, names: list[str], progress: Say) -> list[dict[str, Any]]:
    from tests.harness.clients.spark import connector, environment, spark_home

    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "log")
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.verifyjob", source, target, connector(), *names],
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
                env=environment(spark_home(Path(scratch))),
            )
            lines = []
            assert process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    lines.append(json.loads(line))
                    progress(f"verify {lines[-1]['what']}")
            if process.wait(_TIMEOUT_S):
                raise BenchError(f"the verification failed: {log.read_text()[-2000:]}")
    return lines
