"""Finding Java on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kproxy.base.errors import ConfigError


def find_java(needed: int, what: str) -> str:
    """The path of a `java` of at least version `needed`, from `$JAVA_HOME` or the PATH; `what` needs it.

    Raises ConfigError if there is none, if it does not run, or if it is too old.
    """
    java = find_program("java", "JAVA_HOME")
    if java is None:
        raise ConfigError(f"java was not found: install a Java runtime, version {needed} or newer, or set JAVA_HOME")
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{java} does not run: {error}") from None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if said.returncode != 0 or found is None:
        raise ConfigError(f"{java} does not run: `{java} -version` ended with code {said.returncode}")
    if int(found[1]) < needed:
        raise ConfigError(
            f"{java} is Java {found[1]}, but {what} needs Java {needed} or newer: install one and set JAVA_HOME to it"
        )
    return java


def find_program(command: str, home: str) -> str | None:
    """A command's path: under the home that the variable `home` names, as Kafka's own scripts do, else the PATH."""
    directory = os.environ.get(home)
    if directory and (found := shutil.which(command, path=str(Path(directory, "bin")))):
        return found
    return shutil.which(command)
