"""Java programs of the tests, compiled once for each version of Kafka, into the cache."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kproxy.dev.devcluster.jars import class_path
from kproxy.dev.devcluster.tools import Programs


class NotInstalled(Exception):
    """A program that is not available here; `str()` has the reason."""


def newer(made: Path, sources: Sequence[Path]) -> bool:
    """Check whether the output is complete, and no source has changed since."""
    stamp = made / "complete"
    return stamp.exists() and all(stamp.stat().st_mtime > source.stat().st_mtime for source in sources)


class locked:
    """Hold a lock, so that only one of several concurrent runs compiles."""

    def __init__(self, directory: Path) -> None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._path = directory.with_name(directory.name + ".lock")

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def compiled(
    programs: Programs, sources: Sequence[Path], classes: Path, main: str, log_level: str = "warn"
) -> Sequence[str]:
    """Return the command line of a Java program, compiled from these sources if necessary. Raises NotInstalled."""
    with locked(classes):
        if not newer(classes, sources):
            _compile(programs, sources, classes)
    command = list(programs.command(main, log_level=log_level))
    command[command.index(class_path(programs.jars))] += f":{classes}"
    return command


def _compile(programs: Programs, sources: Sequence[Path], classes: Path) -> None:
    javac = shutil.which("javac", path=str(Path(programs.java).parent)) or shutil.which("javac")
    if javac is None:
        raise NotInstalled("javac is not on this machine")
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    command = [javac, "-nowarn", "-proc:none", "-d", str(classes), "-cp", class_path(programs.jars)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (classes / "complete").touch()
