"""Packages that only some need, and how to add one to the Python that runs kproxy. Standard library only."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from pathlib import Path

# kproxy's own name among packages; `kproxy` on PyPI is somebody else's.
DISTRIBUTION = "kafka-kproxy"

# What is installed for modules that only some need; what is not here is called as its module.
_PACKAGES = {"cramjam": "cramjam crc32c", "crc32c": "cramjam crc32c", "confluent_kafka": "confluent-kafka"}


def explain_missing(error: ModuleNotFoundError) -> str | None:
    """What to say if a package is not there; None if a module of kproxy is not, which is a defect."""
    module = (error.name or "").partition(".")[0]
    if module in ("", "kproxy"):
        return None
    package = _PACKAGES.get(module, module)
    return f"this needs what is not installed, {package.replace(' ', ' and ')}: {install_command(package)}"


def install_command(package: str) -> str:
    """The command that adds it, for this environment, wherever the user stands."""
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return f"pipx inject {shlex.quote(Path(sys.prefix).name)} {package}"
    if importlib.util.find_spec("pip") is None and shutil.which("uv"):  # as in an environment that uv has made
        return f"uv pip install --python {shlex.quote(sys.executable)} {package}"
    return f"{shlex.quote(sys.executable)} -m pip install {package}"
