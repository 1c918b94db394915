"""The benchmark as a user runs it, for two seconds: well-formed figures of every peer. No figure is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
_NOT_HERE = ("no private network namespace", "needs two cores")


def test_a_short_run_ends_with_one_json_object(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--only", "fetch-1M-c4", "--windows", "1", "--seconds", "0.1",
         "--parts", "loads", "--output", str(output)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if any(text in done.stderr for text in _NOT_HERE):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result == json.loads(output.read_text())
    peers = result["loads"]["fetch-1M-c4"]["peers"]
    assert {"direct", "kproxy"} <= peers.keys()
    assert all(figures["mb_per_s"] > 0 for figures in peers.values())
    assert result["loads"]["fetch-1M-c4"]["to_direct"]["kproxy"].keys() >= {"mb_per_s"}
