"""Builds the files for Spark from a checkout: kproxy's wheel, the plugin's jar, and the archive with a Python."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import kproxy
from kproxy.base.errors import ConfigError
from kproxy.base.process import run_program
from kproxy.spark import pluginjar, relocatable

_CHECKOUT = Path(kproxy.__file__).parents[1]


def build(directory: Path, more: Sequence[str] = ()) -> list[Path]:
    """Build the three files in a directory, the archive with `more` packages of PyPI, and return their paths.

    Raises ConfigError, also if this is no checkout. Existing files with these names are replaced at the end.
    """
    if not (_CHECKOUT / "pyproject.toml").is_file():
        raise ConfigError("python -m kproxy.spark package makes a wheel of kproxy: run it in a checkout")
    directory = directory.absolute()  # as commands run elsewhere
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".kproxy-", dir=directory) as name:
        place = Path(name)
        wheel = _wheel(place)
        version = wheel.name.split("-")[1]
        jar = place / f"kproxy-spark-{version}.jar"
        pluginjar.build_jar(jar, version, _CHECKOUT / "LICENSE")
        environment = place / "environment"
        environment.mkdir()
        relocatable.build(environment, wheel, more)
        archive = place / f"kproxy-spark-env-{version}-linux-{platform.machine()}.tar.gz"
        relocatable.pack(environment, archive)
        return [made.replace(directory / made.name) for made in (wheel, jar, archive)]


def _wheel(directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory)]
    done = run_program([*command, str(_CHECKOUT)])
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        raise ConfigError(f"pip cannot make a wheel of {_CHECKOUT}: {why}")
    [wheel] = directory.glob("*.whl")
    return wheel
