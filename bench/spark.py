"""Spark through kproxy and through a listener that every host can resolve: the same jobs, in one session.

Three brokers, a driver and two executors share the machine, so only the ratio of the times counts.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.clients import memory
from bench.machine import BenchError
from bench.peers import DIRECT, KPROXY

_LISTEN = "127.0.0.1:14000"
_PARTITIONS, _SIZE, _RECORDS = 6, 500, 400_000
_TIMEOUT_S = 900.0


def compare(rounds: int, progress: Callable[[str], None], say: Callable[[str], None]) -> dict[str, Any]:
    """Return the seconds of each job by path (medians), kproxy's ratio to direct, and the seconds of `attach`."""
    if importlib.util.find_spec("pyspark") is None:
        sys.stderr.write("bench: pyspark is not installed (pip install --group spark): no figures of Spark\n")
        return {}
    from kproxy.base.errors import KproxyError
    from kproxy.dev.devcluster import DevCluster

    try:
        with (
            DevCluster(3, heap="512m", directory=memory(), progress=progress) as cluster,
            tempfile.TemporaryDirectory() as scratch,
        ):
            taken: dict[str, dict[str, list[float]]] = {}
            for line in _run(cluster, Path(scratch), rounds, progress):
                taken.setdefault(line["job"], {}).setdefault(line["path"], []).append(line["seconds"])
    except KproxyError as error:
        raise BenchError(f"spark: {error}") from None
    result: dict[str, Any] = {}
    for job, paths in taken.items():
        if job.startswith("warm-"):
            continue
        result[job] = {name: round(statistics.median(seconds), 3) for name, seconds in paths.items()}
        if len(paths) == 2:
            result[job]["ratio"] = round(result[job][KPROXY] / result[job][DIRECT], 3)
        say(f"spark-{job:30} " + "  ".join(f"{name} {value}" for name, value in result[job].items()))
    return result


def _run(cluster: Any, scratch: Path, rounds: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    from tests.harness.clients.spark import TWO_EXECUTORS, connector, environment, spark_home

    topic, target = "bench-spark", "bench-spark-target"
    for name in (topic, target):
        _call("topic", cluster.direct_bootstrap, name, str(_PARTITIONS), "none")
    _call("produce", cluster.direct_bootstrap, topic, str(_SIZE), str(_RECORDS), "1")
    config = scratch / "kproxy.yaml"
    config.write_text(json.dumps({"bootstrap-servers": cluster.bootstrap, "listen": _LISTEN}))
    scratch.joinpath("jars").write_text(json.dumps(connector().split(",")))
    words = [cluster.direct_bootstrap, str(config), topic, target, str(rounds), str(scratch)]
    master = ["--master", TWO_EXECUTORS, "--conf", "spark.ui.enabled=false", "pyspark-shell"]
    with (scratch / "log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.sparkjob", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(spark_home(scratch)) | {"PYSPARK_SUBMIT_ARGS": " ".join(master)},
        )
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(json.loads(line))
            progress(f"spark {lines[-1]['job']} {lines[-1]['path']}")
        if process.wait(_TIMEOUT_S):
            log.seek(0)
            raise BenchError(f"the jobs of Spark failed: {log.read()[-2000:]}")
    return lines


def _call(*arguments: str) -> None:
    command = [sys.executable, "-m", "bench.librdkafka", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise BenchError(f"librdkafka, {' '.join(arguments)}: {done.stderr[-800:]}")
