"""The container image, built and run without an engine: buildah makes it from the Dockerfile, runc runs it.

What `FROM` names cannot be pulled everywhere. Debian's packages can be had: debootstrap makes a Debian with Debian's
own Python and its C compiler, once, and buildah knows it by the name that the Dockerfile has.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from kproxy.dev.devcluster.jars import cache_directory
from tests.harness.programs.javac import locked, newer
from tests.matrix.languages import make, tool
from tests.matrix.pythons import ROOT

# The Debian whose Python is that of the Dockerfile.
_SUITE = "trixie"
# Arguments: an empty directory, the suite, Debian's packages as this machine has them (if it is a Debian).
_BASE = """
with=python3,python3-pip,python3-dev,gcc,libc6-dev
debootstrap --variant=minbase --include=$with "$2" "$1/root" $3 >"$1/log" 2>&1 ||
  { tail -n 1 "$1/log" >&2; exit 1; }
ln -s /usr/bin/python3 "$1/root/usr/local/bin/python"
ln -s /usr/bin/pip3 "$1/root/usr/local/bin/pip"
rm -rf "$1/root/var/cache/apt" "$1/root/var/lib/apt/lists"
tar -C "$1/root" -cf "$1/base.tar" .
rm -rf "$1/root"
"""
_PROGRAMS = ("buildah", "debootstrap", "runc")
_BUILD_S = 900
# What pip was told of this machine's way to packages. It is given to the build only.
_PIP = ("cert", "extra-index-url", "index-url", "proxy", "timeout", "trusted-host")


def unavailable() -> str:
    """Why no image can be built on this machine; empty if one can."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"an image needs {', '.join(missing)} (apt-get install {' '.join(missing)})"
    return "an image needs root" if os.geteuid() != 0 else ""


def base() -> Path:
    """The archive of the base image, made if need be. Raises NotInstalled."""
    made = cache_directory() / "matrix" / f"image-{_SUITE}-{sha256(_BASE.encode()).hexdigest()[:8]}"
    with locked(made):
        if not newer(made, []):
            shutil.rmtree(made, ignore_errors=True)
            # What debootstrap mounts is gone with the namespace, whatever happens to it.
            command = [
                tool("unshare", "util-linux"),
                "--mount",
                "sh",
                "-euc",
                _BASE,
                "sh",
                str(made),
                _SUITE,
                _packages(),
            ]
            make(made, command, ROOT)
    return made / "base.tar"


def _packages() -> str:
    wanted = ["Created-By: Packages", "Origin: Debian", "Label: Debian"]
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.split()
    return said[0] if said else ""


class Builder:
    """buildah, with containers and images of its own in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        storage = ["--storage-driver", "vfs", "--root", f"{directory}/storage", "--runroot", f"{directory}/run"]
        self.command = ["buildah", *storage]

    def __call__(self, *words: str) -> str:
        done = subprocess.run([*self.command, *words], capture_output=True, text=True, timeout=_BUILD_S, check=False)
        assert done.returncode == 0, f"buildah {words[0]}: {done.stderr[-3000:]}"
        return done.stdout.strip()

    def add_base(self, name: str) -> None:
        """An image of the base under this name. Raises NotInstalled."""
        archive = base()
        container = self("from", "scratch")
        self("add", "--quiet", container, str(archive), "/")
        self("commit", "--quiet", container, name)
        self("rm", container)

    def make_image(self, name: str) -> None:
        """The project's image, by `make image`, and nothing pulled."""
        flags = ["--isolation", "chroot", "--pull-never", *self._pip()]
        words = [f"ENGINE={' '.join(self.command)}", f"IMAGE={name}", f"ARGS={' '.join(flags)}"]
        done = subprocess.run(
            ["make", "-s", "image", *words], cwd=ROOT, capture_output=True, text=True, timeout=_BUILD_S, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def _pip(self) -> list[str]:
        """Flags with which pip in a build reaches what pip reaches here."""
        said = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        # pip's variables win over its files.
        lines = sorted(said.splitlines(), key=lambda line: line.startswith(":env:"))
        told: dict[str, str] = {}
        for line in lines:
            if match := re.fullmatch(r"[\w:-]+\.([\w-]+)='(.*)'", line):
                told[match[1]] = match[2]
        flags = []
        if "cert" in told:
            flags += ["--volume", f"{told['cert']}:/run/pip/cert.pem:ro"]
            told["cert"] = "/run/pip/cert.pem"
        file = self._directory / "pip.conf"
        file.write_text("[global]\n" + "".join(f"{name} = {told[name]}\n" for name in _PIP if name in told))
        return [*flags, "--volume", f"{file}:/etc/pip.conf:ro"]

    def config(self, image: str) -> dict[str, Any]:
        """What an image says of how it is run."""
        return dict(json.loads(self("inspect", "--type", "image", image))["Docker"]["config"])

    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        """A container of this image: its files."""
        container = self("from", "--pull-never", image)
        try:
            yield Path(self("mount", container))
        finally:
            self("rm", container)


class Container:
    """One of an image, as an engine runs it with --read-only --cap-drop ALL: in a host's network, under runc."""

    def __init__(self, directory: Path, root: Path, config: Mapping[str, Any], network: str) -> None:
        """`network` is the file of its namespace; the directory is empty, and this container's."""
        self._directory = directory
        self._config = config
        self._root = root
        self._network = network
        self._runc = ["runc", "--root", f"{directory}/state"]
        self.log = directory / "log"

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """The image's entry point with these arguments, else with the image's."""
        spec = self._spec([*self._config["Entrypoint"], *(words or self._config["Cmd"])])
        (self._directory / "config.json").write_text(json.dumps(spec))
        name = self._directory.name
        with self.log.open("wb") as log:
            command = [*self._runc, "run", "--bundle", str(self._directory), name]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield process
        finally:
            subprocess.run([*self._runc, "delete", "--force", name], capture_output=True, timeout=60, check=False)
            process.wait(60)

    def exec(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """A command in the container, as the image's user."""
        file = self._directory / "process.json"
        file.write_text(json.dumps(self._process(command)))
        words = ["exec", "--process", str(file), self._directory.name]
        return subprocess.run([*self._runc, *words], capture_output=True, text=True, timeout=60, check=False)

    def stop(self) -> None:
        """The image's signal."""
        words = ["kill", self._directory.name, self._config["StopSignal"]]
        subprocess.run([*self._runc, *words], timeout=60, check=True)

    def _process(self, command: Sequence[str]) -> dict[str, Any]:
        user, _, group = self._config["User"].partition(":")
        return {
            "user": {"uid": int(user), "gid": int(group)},
            "args": list(command),
            "env": self._config["Env"],
            "cwd": self._config["WorkingDir"],
            "noNewPrivileges": True,
            "capabilities": {},
        }

    def _spec(self, command: Sequence[str]) -> dict[str, Any]:
        """The runtime specification of the Open Container Initiative: here, with nothing that can be written."""
        kinds = ("pid", "ipc", "uts", "mount")
        quiet = ["nosuid", "noexec", "nodev", "ro"]
        return {
            "ociVersion": "1.0.2",
            "hostname": "kproxy",
            "root": {"path": str(self._root), "readonly": True},
            "process": self._process(command),
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {
                    "destination": "/dev",
                    "type": "tmpfs",
                    "source": "tmpfs",
                    "options": ["nosuid", "mode=755", "size=64k"],
                },
                {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": quiet},
            ],
            "linux": {
                "namespaces": [*({"type": kind} for kind in kinds), {"type": "network", "path": self._network}],
            },
        }
