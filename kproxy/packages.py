"""Packages that only some need, and how to add one to the Python that runs kproxy. Standard library only."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

# kproxy's own name among packages; `kproxy` on PyPI is somebody else's.
DISTRIBUTION = "kafka-kproxy"


def install(package: str) -> str:
    """The command that adds it, for this environment, wherever the user stands."""
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return f"pipx inject {shlex.quote(Path(sys.prefix).name)} {package}"
    return f"{shlex.quote(sys.executable)} -m pip install {package}"
