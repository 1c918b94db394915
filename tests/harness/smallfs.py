"""A small file system, which a test can fill. It needs root on Linux."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_file_system(path: Path) -> Iterator[Path]:
    """Mount a file system of 256 KiB; skip the test where that is not possible."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounts a file system: needs root on Linux")
    path.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(path: Path) -> Path:
    """Fill all free space; return the file that fills it."""
    filler = path / "filler"
    with filler.open("ab", buffering=0) as file:
        while True:
            try:
                file.write(b"x" * 4096)
            except OSError:
                return filler
