"""`kproxy exec` with commands that people really run: nothing but the options before `--` knows of kproxy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.topics import create_topic, needs_kcat, produce, read_topic, values

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
WITH_ENVIRONMENT = """
import os, sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]})
for line in sys.stdin:
    producer.produce(sys.argv[1], line.strip().encode())
sys.exit(producer.flush(60))
"""


def kproxy_exec(
    bootstrap: str, *words: str, input: str = "", options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kproxy", "exec", "-b", bootstrap, *options, "--", *words]
    return subprocess.run(command, input=input, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


@needs_kcat
def test_kcat(cluster: DevCluster) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    sent = kproxy_exec(cluster.bootstrap, "kcat", "-b", "{bootstrap}", "-P", "-t", topic, input="one\ntwo\n")
    assert (sent.returncode, sent.stdout) == (0, "")
    assert values(read_topic(cluster.direct_bootstrap, topic)) == [b"one", b"two"]
    read = kproxy_exec(cluster.bootstrap, "kcat", "-b", "{bootstrap}", "-C", "-t", topic, "-e", "-q")
    assert (read.returncode, sorted(read.stdout.splitlines())) == (0, ["one", "two"])


def test_a_program_that_looks_into_its_environment(cluster: DevCluster) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    done = kproxy_exec(cluster.bootstrap, sys.executable, "-c", WITH_ENVIRONMENT, topic, input="three\nfour\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert values(read_topic(cluster.direct_bootstrap, topic)) == [b"four", b"three"]


def test_kafka_console_consumer(cluster: DevCluster) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    produce(cluster.direct_bootstrap, topic, [b"five"])
    java = cluster.programs.command(
        "kafka-console-consumer", "--bootstrap-server", "{bootstrap}", "--topic", topic, "--from-beginning",
        "--max-messages", "1", "--timeout-ms", "60000",
    )  # fmt: skip
    done = kproxy_exec(cluster.bootstrap, *java)
    assert (done.returncode, done.stdout) == (0, "five\n"), done.stderr


def test_each_broker_that_cannot_be_reached_is_said_once(cluster: DevCluster) -> None:
    """HOST:PORT needs no -b here."""
    first = cluster.bootstrap.partition(",")[0]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
    lost_way = ["--map", "*.internal=127.0.0.1:1"]
    command = [sys.executable, "-m", "kproxy", "exec", first, *lost_way, "--timeout", "2s", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (done.returncode, done.stdout) == (125, "")
    lost = [line for line in done.stderr.splitlines() if "cannot be reached: " in line]
    assert len(lost) == len(cluster.advertised)
    assert done.stderr.count("Say where each of them is") == 1
    assert done.stderr.splitlines()[-1] == (
        "kproxy: not ready after 2 s, so the command is not run; the lines above say why"
    )


def test_several_at_once(cluster: DevCluster) -> None:
    """Each has ports of its own."""
    show = [sys.executable, "-c", "import os; print(os.environ['KPROXY_BOOTSTRAP'], flush=True); input()"]
    command = [sys.executable, "-m", "kproxy", "exec", "-b", cluster.bootstrap, "--", *show]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
    several = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(3)
    ]
    try:
        told = set()
        for process in several:
            assert process.stdout is not None
            told.add(process.stdout.readline())
        assert len(told) == len(several)
        for process in several:
            assert process.communicate("\n", timeout=60) == ("", "")
            assert process.returncode == 0
    finally:
        for process in several:
            process.kill()


def test_with_brokers_out_of_reach_the_command_is_not_run(cluster: DevCluster) -> None:
    """All are named, with what to do; who can do without them says so."""
    ran = (sys.executable, "-c", "import json; print(json.dumps('ran'))")
    done = kproxy_exec(str(cluster.dial[1]), *ran, options=("--timeout", "2s"))
    assert (done.returncode, done.stdout) == (125, "")
    for node in (2, 1001):
        said = next(
            line for line in done.stderr.splitlines() if f"broker {node}: {cluster.advertised[node]} -> " in line
        )
        assert ": cannot be reached: " in said
    assert "2 of 3 nodes cannot be reached from here" in done.stderr
    done = kproxy_exec(str(cluster.dial[1]), *ran, options=("--ready-requires", "one"))
    assert (done.returncode, json.loads(done.stdout)) == (0, "ran")
    assert done.stderr.count(": cannot be reached: ") == 2
    assert "2 of 3 nodes cannot be reached from here" in done.stderr
