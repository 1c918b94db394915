"""Containers of a pod's manifest as processes, run and probed as a kubelet would.

A pod is a host: its containers share its network, and find their files where the manifest mounts them. Unlike in
Kubernetes, they also share one root and the machine's programs, and run as the user of the tests.
"""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.network import Host
from tests.harness.process import wait_until

# What is written to a directory, $2, stays in $1, and nobody else sees it.
_COVER = """
mkdir -p "$1" && mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" || exit
if [ "$2" = /etc ]; then cp /etc/hosts /etc/nsswitch.conf "$1/upper/"; fi
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay "$2"
"""
# In the image, kproxy is on the path.
_PATH = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"


@dataclass
class Container:
    """A running container: its part of the manifest, its process, and its output."""

    spec: Mapping[str, Any]
    process: subprocess.Popen[bytes]
    said: Callable[[], str]


class Pod:
    """A pod on a host with this address; the kubelet is on another host."""

    def __init__(self, host: Host, address: str, kubelet: Host, directory: Path) -> None:
        self.host = host
        self._address = address
        self._kubelet = kubelet
        self._directory = directory
        self._covered: set[str] = set()

    def mount(self, path: str, files: Mapping[str, str]) -> None:
        """Mount a volume with these files at this path."""
        top = "/" + path.split("/")[1]
        if top not in self._covered:
            self._covered.add(top)
            done = self.host.run("sh", "-c", _COVER, "sh", str(self._directory / f"cover{top.replace('/', '-')}"), top)
            assert done.returncode == 0, done.stderr
        self.host.sh(f"mkdir -p {path}")
        for name, text in files.items():
            done = self.host.run("sh", "-c", 'cat >"$1" && chmod 755 "$1"', "sh", f"{path}/{name}", input=text)
            assert done.returncode == 0, done.stderr

    @contextmanager
    def running(
        self,
        spec: Mapping[str, Any],
        *more: str,
        entrypoint: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> Iterator[Container]:
        """Run a container and its hook. `entrypoint` is its image's; `more` are arguments that Spark adds."""
        variables = {**(env or {})}
        for one in spec.get("env", []):
            # https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
            if "value" in one:
                variables[one["name"]] = re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], one["value"])
        command = [*spec.get("command", entrypoint), *spec.get("args", []), *more]
        with tempfile.TemporaryFile() as log:
            process = self.host.start(*command, log=log, env={"PATH": _PATH, **variables})
            try:
                hook = spec.get("lifecycle", {}).get("postStart")
                if hook:
                    self.exec(hook["exec"]["command"])
                yield Container(spec, process, lambda: os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace"))
            finally:
                process.kill()
                process.wait()

    def exec(self, command: list[str]) -> None:
        """Run the command of an `exec` hook or probe; it must succeed."""
        done = self.host.run(*command, env={"PATH": _PATH}, timeout=150)
        assert done.returncode == 0, done.stdout + done.stderr

    def started(self, container: Container) -> None:
        """Wait until the startup probe succeeds, as a kubelet does before it starts the next container."""
        probe = container.spec["startupProbe"]
        patience = probe["periodSeconds"] * probe["failureThreshold"]
        wait_until(lambda: self.asked(container, "startupProbe"), "the startup probe succeeds", patience)

    def asked(self, container: Container, probe: str) -> bool:
        """Run a probe once; return whether it succeeds. `httpGet` comes from outside, `exec` runs within."""
        one = container.spec[probe]
        if "exec" in one:
            return self.host.run(*one["exec"]["command"], env={"PATH": _PATH}).returncode == 0
        return self._kubelet.call(self._get, container.spec, one)

    def _get(self, spec: Mapping[str, Any], probe: Mapping[str, Any]) -> bool:
        get = probe["httpGet"]
        assert set(get) == {"path", "port"}
        (port,) = [entry["containerPort"] for entry in spec["ports"] if get["port"] == entry["name"]]
        connection = http.client.HTTPConnection(self._address, port, timeout=probe["timeoutSeconds"])
        try:
            connection.request("GET", get["path"])
            return 200 <= connection.getresponse().status < 400
        except OSError:
            return False
        finally:
            connection.close()
