"""The Pythons of this machine that kproxy says it runs on, each with an environment that has kproxy installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from kproxy.dev.devcluster.jars import cache_directory
from tests.harness.programs.javac import NotInstalled, locked

ROOT = Path(__file__).parents[2]
OLDEST = (3, 11)

# What tells where and which it is, and that it can make environments (Debian divides Python into packages).
_ASK = "import ensurepip, platform, sys; print(platform.python_version(), sys.implementation.name)"


@dataclass(frozen=True, slots=True, order=True)
class Python:
    """One interpreter: its version as numbers and as it says it, and where it is."""

    numbers: tuple[int, ...]
    version: str
    program: Path

    def __str__(self) -> str:
        return self.version

    def environment(self, *pip: str) -> Path:
        """The Python of an environment with this checkout, as it is now, and with what `pip` says more. Raises
        NotInstalled."""
        wanted = (ROOT / "pyproject.toml").read_bytes() + " ".join(pip).encode()
        directory = cache_directory() / "matrix" / f"python-{self.version}-{sha256(wanted).hexdigest()[:8]}"
        python = directory / "bin" / "python"
        with locked(directory):
            if not (directory / "complete").exists():
                shutil.rmtree(directory, ignore_errors=True)
                self._run(str(self.program), "-m", "venv", str(directory))
                self._run(str(python), "-m", "pip", "install", "-q", "--upgrade", "pip>=25.1")
                self._run(str(python), "-m", "pip", "install", "-q", str(ROOT), *pip)
                (directory / "complete").touch()
            self._run(str(python), "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", str(ROOT))
        return python

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900, check=False)
        if done.returncode != 0:
            raise NotInstalled(f"Python {self.version}: {' '.join(done.stderr.split())[-300:]}")


def found() -> list[Python]:
    """The oldest first."""
    return [one for one in _all() if one.numbers >= OLDEST]


def older() -> Python | None:
    """The newest of those that kproxy does not run on."""
    return max((one for one in _all() if (3, 9) <= one.numbers < OLDEST), default=None)


@cache
def _all() -> list[Python]:
    """PATH does not have all: beside it /usr/bin, the base of this environment and pyenv's are looked through."""
    directories = [Path(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    directories += [Path("/usr/bin"), Path(sys.base_prefix, "bin"), *pyenv.glob("versions/*/bin")]
    programs = {path.resolve() for one in directories for path in one.glob("python3*") if _named(path)}
    asked = [_ask(program) for program in sorted(programs)]
    return sorted({one.version: one for one in asked if one is not None}.values())


def _named(path: Path) -> bool:
    """Not those of this or another environment, which are the Python that made it, nor pyenv's scripts."""
    name = re.fullmatch(r"python3(\.\d+)?", path.name) is not None
    return name and path.is_file() and path.parent.name != "shims" and not (path.parent.parent / "pyvenv.cfg").exists()


def _ask(program: Path) -> Python | None:
    try:
        done = subprocess.run([program, "-I", "-c", _ASK], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version, _, implementation = done.stdout.strip().partition(" ")
    if done.returncode != 0 or implementation != sys.implementation.name:
        return None
    return Python(tuple(int(part) for part in re.findall(r"\d+", version)), version, program)
