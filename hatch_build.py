"""What hatchling does for a wheel beside packing it: with KPROXY_COMPILED=1, it compiles the data plane with mypyc.

The modules are the same; each one's compiled form stands beside its source. Without the variable nothing is compiled,
no compiler is needed, and the wheel fits every platform. An editable installation is never compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# A class that inherits from a compiled one must be compiled too. The counters are not among them: workers send them
# to one another, and pickle cannot do that with a compiled class.
MODULES = {
    "relay": (
        "calls", "conversation", "guard", "inflight", "pump", "requests", "responses", "selector", "session", "side",
        "tokens",
    ),
    "rewrite": ("apiversions", "plain", "response", "splice", "walk"),
    "wire": ("primitives",),
}  # fmt: skip
# Another version may compile otherwise: raise it only with `make test-compiled`.
NEEDED = ["mypy[mypyc]==2.4.1", "setuptools>=77"]
# What the modules share is an extension of its own, beside them.
_SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup
options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
modules = mypycify([*options, *sys.argv.pop().split()], opt_level="3", group_name="kproxy.relay.shared")
setup(name="kproxy", packages=[], py_modules=[], ext_modules=modules)
"""


class Compile(BuildHookInterface[Any]):
    """`dependencies` and `initialize` are hatchling's names."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return NEEDED if _wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not _wanted() or version == "editable":
            return
        self._made = Path(tempfile.mkdtemp(prefix="kproxy-compiled-"))
        shutil.copytree(Path(self.root, "kproxy"), self._made / "kproxy", ignore=shutil.ignore_patterns("__pycache__"))
        (self._made / "setup.py").write_text(_SETUP)
        files = " ".join(f"kproxy/{room}/{module}.py" for room, modules in MODULES.items() for module in modules)
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", files]
        done = subprocess.run(command, cwd=self._made, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"kproxy cannot be compiled (KPROXY_COMPILED):\n{done.stdout}{done.stderr}")
        for path in (self._made / "kproxy").rglob("*"):
            if path.suffix in (".so", ".pyd"):
                build_data["force_include"][str(path)] = str(path.relative_to(self._made))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if made := getattr(self, "_made", None):
            shutil.rmtree(made)


def _wanted() -> bool:
    return os.environ.get("KPROXY_COMPILED", "") not in ("", "0")
