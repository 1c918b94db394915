"""The compiled data plane (docs/performance.md): a wheel of it in a clean environment, fuzzed, and for long."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.matrix.pythons import ROOT
from tests.matrix.release import environment, run, serves

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(shutil.which("cc") is None, reason="compiling needs a C compiler: apt-get install gcc"),
]


@pytest.fixture(scope="module")
def tree() -> Path:
    """A copy of this checkout with compiled modules in it; its wheel is beside."""
    run("make", "-s", "build/compiled/.unpacked")
    return ROOT / "build/compiled/tree"


def test_the_wheel_is_a_proxy(tree: Path, tmp_path: Path) -> None:
    (wheel,) = tree.parent.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env")
    run(tmp_path / "env/bin/python", "-m", "pip", "install", "-q", wheel, cwd=tmp_path)
    kproxy, env = tmp_path / "env/bin/kproxy", environment(tmp_path)
    assert run(kproxy, "--version", env=env).endswith(" (compiled)\n")
    assert run(kproxy, "--version", env=env | {"KPROXY_PURE": "1"}).endswith(" (pure Python)\n")
    serves([kproxy], env, tmp_path)


@pytest.mark.parametrize("tests", ["tests/fuzz", "tests/unit/proxy/relay/test_references.py"])
def test_for_long(tests: str, tree: Path) -> None:
    """Ten minutes of fuzzing, and ten million frames of each kind. A crash would say where it was."""
    words = (sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "matrix", tests)
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONFAULTHANDLER": "1", "TESTED": "compiled"}
    said = run(*words, cwd=tree, env=env)
    assert " passed" in said
    assert "failed" not in said
