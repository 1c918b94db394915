"""The search for Java on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kproxy.base.errors import ConfigError
from kproxy.base.process import run_program


def find_java(minimum_version: int, user: str) -> str:
    """Return the path of a `java` of at least version `minimum_version`, from `$JAVA_HOME` or the PATH.

    `user` names the program that needs Java, for the message. Raises ConfigError if no Java is found, if it does not
    run, or if it is too old.
    """
    java = find_program("java", "JAVA_HOME")
    if java is None:
        raise ConfigError(
            f"java was not found: install a Java runtime, version {minimum_version} or newer, or set JAVA_HOME"
        )
    try:
        result = run_program([java, "-version"], timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{java} does not run: {error}") from None
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    if result.returncode != 0 or match is None:
        raise ConfigError(f"{java} does not run: `{java} -version` ended with code {result.returncode}")
    if int(match[1]) < minimum_version:
        raise ConfigError(
            f"{java} is Java {match[1]}, but {user} needs Java {minimum_version} or newer:"
            " install one and set JAVA_HOME to it"
        )
    return java


def find_program(command: str, home: str) -> str | None:
    """Return a command's path: from the directory in the variable `home`, as Kafka's own scripts do, else the PATH."""
    directory = os.environ.get(home)
    if directory and (program := shutil.which(command, path=str(Path(directory, "bin")))):
        return program
    return shutil.which(command)
