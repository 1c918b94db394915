"""Which data plane runs, and the variable that leaves the compiled one out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import kproxy
from kproxy.base import compilation

PACKAGE = Path(kproxy.__file__).parent


def run(directory: Path, pure: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(directory), "KPROXY_PURE": pure}
    return subprocess.run(
        [sys.executable, "-P", *words], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_tests_run_on_what_they_are_to_run_on() -> None:
    """`make test-compiled` says so."""
    wanted = os.environ.get("TESTED", "")
    assert compilation.data_plane_kind() == (compilation.COMPILED if wanted else compilation.PURE)


def test_the_version_says_which_runs() -> None:
    for pure, which in (("", compilation.data_plane_kind()), ("1", compilation.PURE)):
        done = run(PACKAGE.parent, pure, "-m", "kproxy", "--version")
        assert done.stdout == f"kproxy {kproxy.__version__} ({which})\n", done.stderr


@pytest.mark.parametrize("suffix", EXTENSION_SUFFIXES)
def test_compiled_modules_are_left_out(suffix: str, tmp_path: Path) -> None:
    """One that cannot be loaded stands beside its source."""
    (tmp_path / "kproxy/base").mkdir(parents=True)
    for name in ("__init__", "base/__init__", "base/compilation", "base/printable"):
        shutil.copy(PACKAGE / f"{name}.py", tmp_path / f"kproxy/{name}.py")
    (tmp_path / f"kproxy/base/printable{suffix}").write_bytes(b"")

    assert run(tmp_path, "", "-c", "import kproxy.base.printable").returncode
    assert run(tmp_path, "0", "-c", "import kproxy.base.printable").returncode
    done = run(tmp_path, "1", "-c", "import kproxy.base.printable as one; print(one.__file__)")
    assert done.stdout == f"{tmp_path}/kproxy/base/printable.py\n", done.stderr
