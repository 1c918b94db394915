"""Jobs that stay as they are, with `conf FILE`: what a user is told when a host cannot have kproxy.

Nothing here sets which Python runs what, but for the variables that a user would set, in a directory that is new.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.clients.spark import TWO_EXECUTORS, environment, needs_spark, settings, spark_home
from tests.harness.clients.sparkjob import running
from tests.harness.process import free_window

pytestmark = [pytest.mark.integration, needs_spark, pytest.mark.timeout(600)]

# A job that waits longer than any test, as for a Kafka that it does not reach.
JOB = """\
import pathlib
import threading
import time
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("there is a session", flush=True)


def tell():
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.1)
    pathlib.Path(__file__).with_name("has-a-job").touch()


threading.Thread(target=tell, daemon=True).start()
spark.sparkContext.parallelize([0], 1).foreach(lambda _: time.sleep(3600))
"""
# What Spark prints of a failure in its own classes.
TRACE = "\tat "

Submit = Callable[..., list[str]]


@pytest.fixture
def submit(tmp_path: Path) -> Submit:
    """The command line of spark-submit for a configuration with this address of a broker."""
    directory = tmp_path / "job"
    directory.mkdir()
    (directory / "job.py").write_text(JOB)
    home = spark_home(tmp_path)

    def command(broker: str, **more: str) -> list[str]:
        file = directory / "kproxy.yaml"
        file.write_text(f"bootstrap-servers: {broker}\nlisten: 127.0.0.1:{free_window(202)}\n")
        conf = [sys.executable, "-m", "kproxy.spark", "conf", str(file)]
        printed = subprocess.run(conf, env=os.environ | {"SPARK_HOME": str(home)}, check=True, capture_output=True)
        own = settings(**more)
        options = [word for key, value in own.items() for word in ("--conf", f"{key}={value}")]
        return [
            str(home / "bin" / "spark-submit"),
            *options,
            *printed.stdout.decode().split(),
            str(directory / "job.py"),
        ]

    return command


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "spark")


def bare(directory: Path) -> str:
    """A Python without kproxy."""
    venv.create(directory, with_pip=False)
    return str(directory / "bin" / "python")


@pytest.mark.parametrize("strict", [True, pytest.param(False, marks=pytest.mark.matrix)])
def test_executors_whose_python_has_no_kproxy(
    submit: Submit, env: dict[str, str], tmp_path: Path, strict: bool
) -> None:
    # The executors wait for a job: it fails with the reason.
    python = str(tmp_path / "python")
    waits = f'while [ ! -e "{tmp_path}/job/has-a-job" ]; do sleep 0.1; done'
    Path(python).write_text(f'#!/bin/sh\n{waits}\nexec "{bare(tmp_path / "bare")}" "$@"\n')
    Path(python).chmod(0o755)
    command = submit(
        "127.0.0.1:1", spark_master=TWO_EXECUTORS, spark_kproxy_python=python, spark_kproxy_strict=str(strict).lower()
    )
    # The driver has kproxy, and does not wait for a broker.
    at = command.index("--conf")
    command[at:at] = ["--conf", f"spark.kproxy.driver.python={sys.executable}"]
    file = tmp_path / "job" / "kproxy.yaml"
    file.write_text(file.read_text() + "ready-requires: none\n")
    if strict:
        code, said = ended(command, env, tmp_path)
        assert code != 0
        [why] = [line for line in said.splitlines() if "Job 0 cancelled" in line and line.startswith(": org.apache")]
        assert "no kproxy for executor" in why
    else:
        until = "spark.kproxy.strict=true ends"
        with running(*command, env=env, until=until, log=tmp_path / "log") as now:
            said = now()
    first = next(line for line in said.splitlines() if "ERROR KproxyPlugin: no kproxy for executor" in line)
    assert f": {socket.gethostname()}: {python} cannot run kproxy (" in first
    assert "No module named 'kproxy'" in first
    assert "): install kproxy there, or set spark.kproxy.python to the path of a Python that has it; " in first
    end = "the application ends, as spark.kproxy.strict=true"
    assert first.endswith(end if strict else "spark.kproxy.strict=true ends the application instead")


def ended(command: list[str], env: dict[str, str], directory: Path) -> tuple[int, str]:
    """The exit code of a job, and what it has said; its time is this test's."""
    done = subprocess.run(
        command, env=env, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=240, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_a_driver_whose_python_has_no_kproxy(submit: Submit, env: dict[str, str], tmp_path: Path) -> None:
    python = bare(tmp_path / "bare")
    command = submit("127.0.0.1:1", spark_master="local[1]", spark_kproxy_driver_python=python)
    said = failure(command, env, tmp_path)
    assert f": {socket.gethostname()}: {python} cannot run kproxy (" in said
    assert "set spark.kproxy.driver.python to the path of a Python that has it" in said


def failure(command: list[str], env: dict[str, str], directory: Path) -> str:
    """The line of the driver's log that says why it has no kproxy; kproxy adds no stack trace to it."""
    code, said = ended(command, env, directory)
    assert code != 0
    lines = said.splitlines()
    [line] = [line for line in lines if "ERROR KproxyPlugin: no kproxy for this driver: " in line]
    why = line.split("no kproxy for this driver: ")[1]
    for at, other in enumerate(lines):
        if why in other and at + 1 < len(lines):
            assert not lines[at + 1].startswith(f"{TRACE}kproxy"), said[-3000:]
    return line


def test_a_broker_that_nobody_knows_ends_the_start_at_once(submit: Submit, env: dict[str, str], tmp_path: Path) -> None:
    """In one line, and in the words of the file."""
    line = failure(submit("kafka-1.invalid", spark_master="local[1]"), env, tmp_path)
    assert "no bootstrap server answers: kafka-1.invalid:9092: the name 'kafka-1.invalid' cannot be resolved" in line


def test_a_broker_that_may_come_is_named_while_the_driver_waits(
    submit: Submit, env: dict[str, str], tmp_path: Path
) -> None:
    command = submit("127.0.0.1:1", spark_master="local[1]")
    until = "no bootstrap server answers: 127.0.0.1:1: connection refused"
    with running(*command, env=env, until=until, log=tmp_path / "log") as said:
        [line] = [words for words in said().splitlines() if until in words]
        assert "WARN KproxyPlugin: " in line
        assert "there is a session" not in said()
