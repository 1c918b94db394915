"""Optional packages: how to install one into the Python that runs kproxy. Standard library only."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from pathlib import Path

# The name of kproxy's distribution; `kproxy` on PyPI is another project.
DISTRIBUTION = "kafka-kproxy"

# The packages to install for a module; a module that is not listed has a package of the same name.
_MIGRATE = "cramjam crc32c xxhash"
_PACKAGES = {"cramjam": _MIGRATE, "crc32c": _MIGRATE, "xxhash": _MIGRATE, "confluent_kafka": "confluent-kafka"}


def explain_missing(error: ModuleNotFoundError) -> str | None:
    """Return the message for a package that is not installed.

    Return None if the missing module belongs to kproxy, which is a defect.
    """
    module = (error.name or "").partition(".")[0]
    if module in ("", "kproxy"):
        return None
    package = _PACKAGES.get(module, module)
    needed = "packages that are" if " " in package else "a package that is"
    *others, last = package.split()
    names = f"{', '.join(others)} and {last}" if others else last
    return f"this needs {needed} not installed ({names}): {install_command(package)}"


def install_command(package: str) -> str:
    """Return the command that installs the package into this environment, from any working directory."""
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return f"pipx inject {shlex.quote(Path(sys.prefix).name)} {package}"
    if importlib.util.find_spec("pip") is None and shutil.which("uv"):  # as in an environment that uv created
        return f"uv pip install --python {shlex.quote(sys.executable)} {package}"
    return f"{shlex.quote(sys.executable)} -m pip install {package}"
