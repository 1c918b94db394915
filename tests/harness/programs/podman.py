"""Containers of a real Podman, in a separate network.

Their root file system is this machine's, with an overlay for each, so no image is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.process import wait_until
from tests.harness.topics import unique

_NEEDS = ("podman", "runc", "conmon", "iptables")
_PATH = f"{os.environ['PATH']}:/usr/sbin"
# Podman lets the machine forward, and leaves it so.
_FORWARDS = Path("/proc/sys/net/ipv4/ip_forward")
# Not more than this process may give away.
_LIMITS = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096")


class Podman:
    """A Podman with all its data in `directory`. `network` exists, `socket` is its API."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.network = unique("n").replace("-", "")[:12]
        self.socket = directory / "api.sock"

    def command(self, *words: str) -> list[str]:
        own = ("--root", "--runroot", "--tmpdir")
        places = [word for flag in own for word in (flag, str(self._directory / flag.removeprefix("--")))]
        return ["podman", *places, "--runtime", "runc", "--cgroup-manager", "cgroupfs", *words]

    def do(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": _PATH}
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def run(self, name: str, aliases: Sequence[str], *command: str) -> None:
        """Start a container with these names in the network, in the background."""
        names = [word for alias in aliases for word in ("--network-alias", alias)]
        given: Mapping[str, str] = {
            "PATH": _PATH, "PYTHONPATH": str(Path(__file__).parents[3]), "HOME": str(Path.home()),
        }  # fmt: skip
        environment = [word for key, value in given.items() for word in ("-e", f"{key}={value}")]
        self.do(
            "run", "-d", "--name", name, "--network", self.network, *names, *_LIMITS, *environment, "--workdir", "/tmp",
            "--rootfs", "/:O", *command,
        )  # fmt: skip

    def python(self, name: str, aliases: Sequence[str], program: Path, *arguments: str) -> None:
        """Start a container that runs a program of the tests."""
        self.run(name, aliases, sys.executable, str(program), *arguments)

    def said(self, name: str) -> str:
        done = self.do("logs", name)
        return done.stdout + done.stderr

    def address(self, name: str) -> str:
        form = f"{{{{.NetworkSettings.Networks.{self.network}.IPAddress}}}}"
        return self.do("inspect", name, "--format", form).stdout.strip()


@contextmanager
def podman(directory: Path) -> Iterator[Podman]:
    """Yield a Podman; skip the test with a reason where containers cannot run."""
    missing = [name for name in _NEEDS if shutil.which(name, path=_PATH) is None]
    if missing:
        pytest.skip(f"not on this machine: {', '.join(missing)} (apt-get install podman runc iptables)")
    if os.geteuid() != 0:
        pytest.skip("needs root, as kproxy connects to containers' own addresses")
    made = Podman(directory)
    forwards = _FORWARDS.read_text()
    done = made.do("network", "create", made.network, check=False)
    if done.returncode:
        pytest.skip(f"no network can be made: {done.stderr.strip()[-300:]}")
    service = subprocess.Popen(
        made.command("system", "service", "--time", "0", f"unix://{made.socket}"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PATH": _PATH},
    )  # fmt: skip
    try:
        try:
            made.run("first", (), "sleep", "600")
        except AssertionError as error:
            pytest.skip(f"containers do not run here: {str(error)[-300:]}")
        wait_until(made.socket.exists, "the API is there")
        yield made
    finally:
        made.do("rm", "--force", "--all", "--time", "0", check=False)
        made.do("network", "rm", "--force", made.network, check=False)
        service.terminate()
        service.wait(30)
        _FORWARDS.write_text(forwards)
        overlay = directory / "root" / "overlay"
        if overlay.is_mount():
            subprocess.run(["umount", str(overlay)], check=False)
