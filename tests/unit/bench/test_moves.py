"""The processes that the benchmark of whole moves watches, without brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.largejob import EACH, EACH_GROUP, topic_names
from bench.moves import _Watched, hold_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the benchmark needs Linux")

_USES = "held = bytearray(50 << 20); sum(range(3_000_000)); print(flush=True); input()"
_STARTS_IT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_USES!r}])"


def test_what_a_process_and_its_child_use_is_added_up() -> None:
    with subprocess.Popen([sys.executable, "-c", _STARTS_IT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        watched = _Watched(process.pid)
        watched.look()
        process.communicate(b"\n")
    watched.look()  # what has ended still counts
    figures = watched.figures()
    assert figures["cpu_seconds"] > 0.02
    assert 3 < figures["own_mib"] < 50 < figures["mib"]


def test_records_that_are_lost_doubled_or_failed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Message:
        def __init__(self, value: bytes) -> None:
            self.value = lambda: value

    values = [b"0-1.5", b"0-1.5", b"1-2.25", b"other-1"]
    monkeypatch.setattr("tests.harness.topics.read_topic", lambda *_: [Message(value) for value in values])
    output = "a line\n" + json.dumps({"held_seconds": 0.5, "work_seconds": {"copy": 0.1}})
    figures = hold_of(output, {"acked": 4, "failed": ["one"], "longest_s": 0.7}, "", "t", 1)
    assert figures == {"held": 0.5, "copy": 0.1, "longest": 0.7, "records": 4, "wrong": 3}


def test_topics_and_groups_have_all_partitions() -> None:
    assert len(topic_names(10_000)) * EACH == 10_000
    assert EACH % EACH_GROUP == 0
