"""The script that starts a Python wherever it lies, and the archive."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.spark import relocatable

# Says with what it was started.
LOADER = """#!/bin/sh
printf '%s\\n' "$@" "$LD_PRELOAD" "$SSL_CERT_FILE"
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """What the archive has, with a loader that loads nothing."""
    there = tmp_path / "unpacked here"
    native = there / "lib" / "native"
    native.mkdir(parents=True)
    (native / "loader").write_text(LOADER)
    (native / "loader").chmod(0o755)
    trusted = tmp_path / "trusted.pem"
    trusted.touch()
    relocatable.write_start(there, "loader", "python3.11", trusted=[str(tmp_path / "none.pem"), str(trusted)])
    return there


def started(program: str | Path, at: Path, **variables: str) -> list[str]:
    own = {"PATH": "/nowhere", "CDPATH": str(at.parent), **variables}
    done = subprocess.run([program, "-m", "a b"], capture_output=True, text=True, env=own, cwd=at, check=True)
    return done.stdout.splitlines()


def test_it_finds_what_is_beside_it(environment: Path) -> None:
    native, trusted = environment / "lib" / "native", str(environment.parent / "trusted.pem")
    python = environment / "bin" / "python"
    own = ["--library-path", str(native), "--argv0", str(python), str(native / "python3.11"), "-I", "-X", "utf8"]
    expected = ["--inhibit-cache", *own, "-m", "a b", "", trusted]
    assert started(python, environment.parent, LD_PRELOAD="of the host") == expected
    assert started("bin/python", environment) == expected
    assert started("./bin/python3", environment) == expected


def test_it_finds_it_through_a_link(environment: Path) -> None:
    """As YARN makes one to where it has unpacked an archive."""
    (environment.parent / "env").symlink_to(environment)
    assert f"{environment}/lib/native/python3.11" in started("env/bin/python", environment.parent)


def test_certificates_that_are_given_count(environment: Path) -> None:
    assert started(environment / "bin" / "python", environment, SSL_CERT_FILE="own.pem")[-1] == "own.pem"
    assert started(environment / "bin" / "python", environment, SSL_CERT_DIR="own")[-1] == ""


def test_the_archive_is_the_same_again(environment: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first" / "made.tar.gz", tmp_path / "second" / "made.tar.gz"
    for archive in (first, second):
        archive.parent.mkdir()
        relocatable.pack(environment, archive)
        (environment / "bin" / "python").touch()
    with tarfile.open(first) as tar:
        assert {"bin/python", "bin/python3", "lib/native/loader"} <= {*tar.getnames()}
        found = tar.getmember("bin/python")
        assert (found.mode & 0o777, found.uid, found.uname) == (0o755, 0, "")
    assert first.read_bytes() == second.read_bytes()


def test_without_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"^apt-get was not found: the archive is made from Debian's packages"):
        relocatable.build(tmp_path, tmp_path / "kproxy.whl")
