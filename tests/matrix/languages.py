"""Clients in other languages than Java and Python, each built or fetched once with its language's own tools.

What they need is in the cache, as Kafka's jars are; nothing is left beside the sources.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kproxy.dev.devcluster.jars import cache_directory
from tests.harness.programs.javac import NotInstalled, locked, newer
from tests.matrix.client import HERE, Client

_PROGRAMS = HERE / "programs"
_BUILD_S = 900


@dataclass(frozen=True)
class Go(Client):
    """A module of Go's: `program` is its directory in programs/go."""

    program: str = ""

    def command(self) -> Sequence[str]:
        made = cache_directory() / "matrix" / f"go-{self.program}"
        sources = [*(_PROGRAMS / "go").glob("go.*"), *(_PROGRAMS / "go" / self.program).iterdir()]
        with locked(made):
            if not newer(made, sources):
                # The Go at hand or none: it would fetch another by itself.
                go = tool("go", "Go")
                command = [go, "build", "-mod=readonly", "-o", str(made / "scenario"), f"./{self.program}"]
                make(made, command, _PROGRAMS / "go", {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"})
        return [str(made / "scenario")]


@dataclass(frozen=True)
class Rust(Client):
    """A crate: the program is programs/rust."""

    def command(self) -> Sequence[str]:
        made = cache_directory() / "matrix" / "rust"
        sources = [_PROGRAMS / "rust/Cargo.toml", _PROGRAMS / "rust/src/main.rs"]
        with locked(made):
            if not newer(made, sources):
                cargo = tool("cargo", "Rust")
                shutil.rmtree(made / "source", ignore_errors=True)
                shutil.copytree(_PROGRAMS / "rust", made / "source")  # cargo writes a lock file beside it
                make(made, [cargo, "build", "--quiet", "--target-dir", str(made / "target")], made / "source")
        return [str(made / "target/debug/scenario")]


@dataclass(frozen=True)
class Node(Client):
    """A package for Node.js."""

    program: str = ""

    def command(self) -> Sequence[str]:
        made = cache_directory() / "matrix" / f"{self.library}-{self.version}"
        node, npm = tool("node", "Node.js"), tool("npm", "Node.js")
        with locked(made):
            if not newer(made, []):
                wanted = f"{self.library}@{self.version}"
                quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"]
                make(made, [npm, "install", "--prefix", str(made), *quiet, wanted], _PROGRAMS)
        # Packages are looked for beside the program, and then there.
        return ["env", f"NODE_PATH={made}/node_modules", node, str(_PROGRAMS / self.program)]


def tool(name: str, language: str) -> str:
    """The path of a language's own program. Raises NotInstalled."""
    found = shutil.which(name)
    if found is None:
        raise NotInstalled(f"{language} is not on this machine ({name} was not found)")
    return found


def make(
    made: Path,
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str] | None = None,
    seconds: float = _BUILD_S,
) -> None:
    """Run a build that leaves its result in `made`. Raises NotInstalled with its last error."""
    (made / "complete").unlink(missing_ok=True)
    made.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise NotInstalled(f"it cannot be built: {_reason(done.stderr)}")
    (made / "complete").touch()


def _reason(errors: str) -> str:
    """The first line that says error, without addresses of registries."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    wanted = next((line for line in lines if "error" in line.lower()), (lines or ["no reason given"])[-1])
    return re.sub(r"https?://\S+", "…", wanted)[:200]
