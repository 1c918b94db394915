"""The program of docs/python.md, as it stands there, on a real cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.topics import create_topic, produce, unique
from tests.unit.deploy.deployed import ROOT

pytestmark = pytest.mark.integration


def test_the_program_of_the_document_reads_a_record(cluster: DevCluster) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.M | re.S)
    topic = create_topic(cluster.direct_bootstrap)
    produce(cluster.direct_bootstrap, topic, [b"order 4711"])
    for old, new in (("localhost:9092", cluster.bootstrap), ("orders", topic), ("notebook", unique("notebook"))):
        assert f'"{old}"' in program
        program = program.replace(f'"{old}"', f'"{new}"')
    # A new group begins at the end of a topic, and may need more than ten seconds on a busy machine.
    program = program.replace('"group.id":', '"auto.offset.reset": "earliest", "group.id":').replace(
        "poll(10)", "poll(60)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "b'order 4711'\n"
