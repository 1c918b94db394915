"""What hatchling does for a wheel beside packing it: with KPROXY_COMPILED=1, it compiles the data plane with Cython.

The modules are the same; each one's compiled form stands beside its source. Of some, a `.pxd` file beside the source
says which types the compiled form has. Without the variable nothing is compiled, no compiler is needed, and the wheel
fits every platform. An editable installation is never compiled.
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

MODULES = {
    "proxy.metrics": ("counters",),
    "proxy.relay": (
        "calls", "conversation", "guard", "inflight", "pump", "requests", "responses", "selector", "session", "side",
    ),
    "protocol.rewrite": ("apiversions", "plain", "prefixcache", "response", "splice", "walk"),
    "protocol.wire": ("primitives",),
}  # fmt: skip
NEEDED = ["Cython>=3.3", "setuptools>=77"]
# Annotations are for mypy: types are in the .pxd files alone. What is None is found out, and no index goes beyond its
# buffer: bytes from outside may at most end a session.
_SETUP = """
import os, subprocess, sys
from Cython.Build import cythonize
from setuptools import Extension, setup
names = sys.argv.pop().split()
# A method with types that is taken as a value would be called wrongly, and what Cython has forgotten to declare cannot
# be loaded; C compilers else only warn of that. The rest is for less memory: what is for debuggers of C is larger than
# all else, and what every module needs of Cython is there once, in a module of its own. (-Os costs 3 % of ping-c64.)
flags = ["incompatible-pointer-types", "implicit-function-declaration"]
flags = [*("-Werror=" + each for each in flags), "-g0"] if os.name == "posix" else []
shared = "kproxy._shared_by_compiled"
def module(name, suffix):
    return Extension(name, [name.replace(".", "/") + suffix], extra_compile_args=flags)
subprocess.run([sys.executable, "-m", "cython", "--generate-shared=" + shared.replace(".", "/") + ".c"], check=True)
directives = {"language_level": 3, "annotation_typing": False, "boundscheck": True, "nonecheck": True}
modules = cythonize(
    [module("kproxy." + name, ".py") for name in names], shared_utility_qualified_name=shared,
    compiler_directives=directives,
)
setup(name="kproxy", packages=[], py_modules=[], ext_modules=[*modules, module(shared, ".c")])
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
        names = " ".join(f"{room}.{module}" for room, modules in MODULES.items() for module in modules)
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", names]
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
