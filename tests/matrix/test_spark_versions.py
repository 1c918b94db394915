"""kproxy.spark with each Spark that it says it works with, from 3.5 to the newest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.jars import fetch_spark_connector
from tests.harness.clients.spark import TWO_EXECUTORS, environment, settings, spark_home
from tests.harness.programs.javac import NotInstalled
from tests.harness.topics import create_topic, read_topic
from tests.matrix import pythons
from tests.matrix.pythons import ROOT, Python
from tests.matrix.report import FAILS, WORKS, java_release, write_section
from tests.matrix.spark_client import RECORDS

# The first time, hundreds of MB are fetched.
pytestmark = [pytest.mark.matrix, pytest.mark.timeout(3600)]

# Each Spark, and the newest Python for which it was made (by the classifiers of its package).
SPARKS = {"3.5.7": (3, 11), "4.0.0": (3, 13), "4.1.1": (3, 13), "4.2.0": (3, 14)}
FOUND = pythons.found()


def cases() -> list[tuple[str, Python]]:
    """Each with the oldest Python and the newest one that there are for it."""
    made = []
    for spark, newest in SPARKS.items():
        fit = [python for python in FOUND if python.numbers[:2] <= newest]
        made += [(spark, python) for python in dict.fromkeys((*fit[:1], *fit[-1:]))]
    return made


CASES = cases()


@pytest.fixture(scope="module")
def results() -> Iterator[dict[tuple[str, Python], str]]:
    """Written down when all have been run."""
    seen: dict[tuple[str, Python], str] = {}
    yield seen
    if seen.keys() == set(CASES):
        java = java_release()
        write_section(
            "Spark",
            [f"Spark {spark} on Python {python}, Java {java}: {seen[spark, python]}" for spark, python in CASES],
        )


@pytest.fixture(scope="module")
def brokers() -> Iterator[DevCluster]:
    with DevCluster(brokers=2) as cluster:
        yield cluster


@pytest.mark.parametrize(("spark", "python"), CASES, ids=lambda one: str(one))
def test_spark(
    spark: str, python: Python, brokers: DevCluster, tmp_path: Path, results: dict[tuple[str, Python], str]
) -> None:
    try:
        program = python.environment(f"pyspark=={spark}")
    except NotInstalled as reason:
        pytest.skip(str(reason))
    results[spark, python] = FAILS
    where = "import pyspark; print(pyspark.__path__[0])"
    installed = subprocess.run([program, "-c", where], capture_output=True, text=True, check=True, cwd="/").stdout
    home = spark_home(tmp_path, Path(installed.strip()))
    topic = create_topic(brokers.direct_bootstrap, 2, 2)
    jars = ",".join(map(str, fetch_spark_connector(spark)))
    conf = json.dumps(settings(spark_master=TWO_EXECUTORS))
    client = str(ROOT / "tests" / "matrix" / "spark_client.py")
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(
            [program, client, brokers.bootstrap, topic, jars, str(tmp_path.resolve()), conf],
            env=environment(home, str(program)), cwd=home, stdout=subprocess.PIPE, stderr=log, check=False,
        )  # fmt: skip
    assert done.returncode == 0, (tmp_path / "log").read_text()[-5000:]
    sums = [RECORDS, sum(range(RECORDS))]
    assert json.loads(done.stdout.splitlines()[-1]) == {"read": sums, "stream": RECORDS, "again": sums}
    assert len(list(read_topic(brokers.direct_bootstrap, topic, 2))) == RECORDS
    results[spark, python] = WORKS
